"""Metrics, structured logs and per-request receipts. Never sees prompts or keys unless told to."""
