"""Makes any Python text encodable. JSON may carry lone surrogates, which UTF-8 and the tokenizers cannot."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """The text with pairs of surrogates joined and lone ones as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
