"""OpenAI's Responses wire: create, stream, retrieve, continue, cancel, count."""
