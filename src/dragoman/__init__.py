"""Dragoman: one local model, every client's own wire dialect."""

__version__ = "0.1.0"
