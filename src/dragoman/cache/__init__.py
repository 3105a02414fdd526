"""Prefixes kept for later: which snapshot serves which prompt, and which must go. Never touches what is in them."""
