"""The OpenAI model list: GET /v1/models."""
