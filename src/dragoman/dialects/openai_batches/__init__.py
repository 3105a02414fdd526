"""OpenAI's Batch API."""
