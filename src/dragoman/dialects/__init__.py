"""One folder per wire. A dialect reads its wire into core and writes core events in its own words; it knows no other
dialect, no HTTP library and no engine."""
