"""Cohere's rerank wire."""
