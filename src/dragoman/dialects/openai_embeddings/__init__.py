"""OpenAI's embeddings wire."""
