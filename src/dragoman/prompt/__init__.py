"""Tokenizers and chat templates: core input to token ids. Knows no engine and no wire."""
