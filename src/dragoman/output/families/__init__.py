"""How model families mark up tool calls: one table row each. Knows no stream and no engine."""
