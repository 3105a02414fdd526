"""The compatibility manifest: what of llama-server is served, how, and which test says so."""
