"""Token ids to text to canonical events, and their fold. Knows no engine and no wire."""
