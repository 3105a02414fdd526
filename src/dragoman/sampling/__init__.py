"""Sampling as data: specs to vectors, counts and biases, and a NumPy reference of every stage. Knows no engine."""
