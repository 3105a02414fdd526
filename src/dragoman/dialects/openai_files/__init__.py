"""OpenAI's Files API."""
