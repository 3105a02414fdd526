"""Measures a running server over HTTP and prints ratios from one run."""
