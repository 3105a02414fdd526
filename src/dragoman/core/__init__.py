"""The vocabulary every station shares: plain msgspec structs and protocols, with no I/O and nothing of ours below."""
