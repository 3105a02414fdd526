"""Ollama's wire: chat, generate and the model catalog under /api."""
