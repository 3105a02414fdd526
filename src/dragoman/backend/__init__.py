"""Seam 1: engines as seen by one request, asynchronously. Knows no dialect, template or tokenizer."""
