"""llama.cpp behind seam 1: an engine process of ours, a llama-server binary, or a llama-server somewhere else.

Knows llama.cpp's native wire and nothing of dialects, templates or text. Only `child` imports xllamacpp.
"""
