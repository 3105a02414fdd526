"""One endpoint row and one use case, without HTTP: wire request in, body or frames out."""
