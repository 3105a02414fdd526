"""Embedding models and cross-encoders on MLX."""
