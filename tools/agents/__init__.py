"""Real coding agents, pinned, run against a server of ours. Tools of development; nothing of this is installed."""
