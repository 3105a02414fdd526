"""Jina's rerank wire, which llama-server and vLLM share."""
