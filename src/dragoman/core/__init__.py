"""The vocabulary every station shares: plain msgspec structs and protocols, with no I/O and no library of ours below."""
