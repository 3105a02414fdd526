"""Sampling as data: per-row vectors for a batch, and a NumPy reference sampler. Knows no engine."""
