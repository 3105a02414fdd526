"""Go's text/template, as far as chat templates use it: parsed, and run over plain values within bounds."""
