"""Finding, fetching and inspecting models on disk. Knows no engine and no wire."""
