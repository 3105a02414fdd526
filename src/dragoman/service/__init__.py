"""Use cases on core types. Knows no dialect and no HTTP."""
