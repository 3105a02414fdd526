"""OpenAI Completions (the legacy text endpoint): POST /v1/completions."""
