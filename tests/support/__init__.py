"""Things several test folders share."""
