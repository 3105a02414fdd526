"""llama-server's native wire: completion, token utilities, health and props, as build 10622 speaks it."""
