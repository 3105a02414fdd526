"""The composition root: the only package that knows everything, and does nothing but put it together."""
