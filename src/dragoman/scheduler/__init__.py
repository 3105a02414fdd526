"""Queue, admission and the step loop over an engine's rows. Knows no request's text and no event loop."""
