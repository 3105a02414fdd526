"""Random bodies for llama-server's routes, sent to this server and to llama.cpp's own, and what differs."""
