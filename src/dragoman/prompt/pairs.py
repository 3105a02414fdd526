"""Query and document as one input of a cross-encoder. Loads a tokenizer file; knows no weights."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from tokenizers import Tokenizer

from dragoman.core.errors import EngineFailure


class EncodedPair(Struct, frozen=True):
    """Token ids, and for each the text it belongs to (0 or 1)."""

    ids: tuple[int, ...]
    types: tuple[int, ...]


class PairTokenizer:
    """Puts pairs together by the post-processor of a checkpoint's tokenizer.json. Safe from any thread. Raises
    EngineFailure when that file cannot be read."""

    def __init__(self, folder: Path) -> None:
        try:
            self._raw = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:
            raise EngineFailure(f"The file tokenizer.json of '{folder.name}' cannot be read: {error}.") from error
        self._raw.no_truncation()
        self._raw.no_padding()

    def __call__(self, query: str, document: str) -> EncodedPair:
        """One pair, whole."""
        encoded = self._raw.encode(query, document)
        return EncodedPair(tuple(encoded.ids), tuple(encoded.type_ids))
