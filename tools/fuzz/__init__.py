"""Parts of the check of the OpenAPI document; see tools.run_fuzz."""
