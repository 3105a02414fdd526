"""Output formats and tool choices to one grammar text that both engines take. Knows no wire and no engine."""
