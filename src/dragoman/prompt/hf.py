"""Loads the tokenizer of a Hugging Face checkpoint folder. Knows no template and no weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, field
from tokenizers import AddedToken, Tokenizer

from dragoman.core.errors import EngineFailure
from dragoman.prompt.end_of_generation import END_OF_GENERATION, message_ends
from dragoman.prompt.hf_pieces import Layout, PieceSpeller
from dragoman.prompt.parse_modes import ParseModes
from dragoman.prompt.raw_tokenizer import RawTokenizer
from dragoman.prompt.token_table import TokenTable
from dragoman.prompt.well_formed import well_formed

_REMEDY = "Download the model again, or convert its tokenizer to tokenizer.json."


class HfConfig(Struct, kw_only=True):
    """What the JSON files beside tokenizer.json say about special tokens."""

    bos: str = ""
    eos: str = ""
    eos_ids: frozenset[int] = frozenset()
    added: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])


class HfTokenizer(TokenTable):
    """A `core.vocabulary.Tokenizer` over the `tokenizers` library. Safe from any thread. Stops at all EOS ids the files
    name and at well-known end-of-turn tokens among the added tokens."""

    def __init__(self, raw: Tokenizer, layout: Layout, config: HfConfig) -> None:
        raw.no_truncation()
        raw.no_padding()
        _add_missing(raw, config)
        self._modes = ParseModes(raw)
        vocabulary = raw.get_vocab(with_added_tokens=True)
        added = raw.get_added_tokens_decoder()
        pieces = _pieces(vocabulary)
        literals = {token: entry.content for token, entry in added.items()}
        speller = PieceSpeller(layout)
        eos = config.eos if config.eos in vocabulary else ""
        super().__init__(
            pieces,
            [_spell(speller, piece, literals.get(token)) for token, piece in enumerate(pieces)],
            stop_tokens=_ends(vocabulary, literals, config, eos),
            bos=config.bos if config.bos in vocabulary else "",
            eos=eos,
        )
        self._special = frozenset(token for token, entry in added.items() if entry.special) | frozenset(
            token for token, entry in config.added.items() if entry.get("special") and token < len(pieces)
        )

    def is_special(self, token: int) -> bool:
        """Whether the files mark the token as special, or it ends answers."""
        return token in self._special or token in self._stop_tokens

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of `text`. `add_special` runs the post-processor; lone surrogates count as U+FFFD."""
        return self._modes.encode(well_formed(text), add_special=add_special, parse_special=parse_special)


def _spell(speller: PieceSpeller, piece: str, literal: str | None) -> bytes:
    return speller.bytes_of(piece) if literal is None else literal.encode("utf-8", "replace")


def _ends(vocabulary: dict[str, int], literals: dict[int, str], config: HfConfig, eos: str) -> frozenset[int]:
    known = END_OF_GENERATION.intersection(literals.values())
    ends = {vocabulary[text] for text in known - message_ends(known)}
    ends |= {token for token in config.eos_ids if 0 <= token <= max(vocabulary.values(), default=-1)}
    if eos:
        ends.add(vocabulary[eos])
    return frozenset(ends)


def load_hf_tokenizer(folder: Path) -> HfTokenizer:
    """The tokenizer of a checkpoint folder, from tokenizer.json and the JSON files beside it.

    Raises EngineFailure when tokenizer.json is missing or cannot be read. Broken or missing other files count as
    empty: they only add to what tokenizer.json says.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise EngineFailure(f"The model folder '{folder.name}' has no tokenizer.json.", remedy=_REMEDY)
    try:
        content = file.read_bytes()
        raw = Tokenizer.from_buffer(content)
        layout = msgspec.json.decode(content, type=Layout)
    except Exception as error:
        raise EngineFailure(
            f"The file tokenizer.json of '{folder.name}' cannot be read: {error}.", remedy=_REMEDY
        ) from error
    return HfTokenizer(raw, layout, _read_config(folder))


def _read_config(folder: Path) -> HfConfig:
    tokenizer = _read_object(folder / "tokenizer_config.json")
    special = _read_object(folder / "special_tokens_map.json")
    model = _read_object(folder / "config.json")
    generation = _read_object(folder / "generation_config.json")
    nested = model.get("text_config")
    ends = [model.get("eos_token_id"), generation.get("eos_token_id"), tokenizer.get("eos_token_id")]
    if isinstance(nested, dict):
        ends.append(cast("dict[str, Any]", nested).get("eos_token_id"))
    return HfConfig(
        bos=_content(tokenizer.get("bos_token")) or _content(special.get("bos_token")),
        eos=_content(tokenizer.get("eos_token")) or _content(special.get("eos_token")),
        eos_ids=frozenset(token for entry in ends for token in _ids(entry)),
        added=_added_tokens(tokenizer.get("added_tokens_decoder")),
    )


def _read_object(file: Path) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _content(value: object) -> str:
    """A token as these files write it: text, or an object with `content`."""
    if isinstance(value, dict):
        value = cast("dict[str, object]", value).get("content")
    return value if isinstance(value, str) else ""


def _ids(value: object) -> list[int]:
    entries = cast("list[object]", value) if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool)]


def _added_tokens(value: object) -> dict[int, dict[str, Any]]:
    if not isinstance(value, dict):
        return {}
    entries = cast("dict[str, object]", value)
    return {
        int(key): cast("dict[str, Any]", entry)
        for key, entry in entries.items()
        if key.isdecimal() and isinstance(entry, dict)
    }


def _add_missing(raw: Tokenizer, config: HfConfig) -> None:
    """Tokens only tokenizer_config.json knows, where their ids follow on; others cannot be placed and are left out."""
    for token, entry in sorted(config.added.items()):
        content = _content(entry)
        if not content or raw.token_to_id(content) is not None or token != raw.get_vocab_size(with_added_tokens=True):
            continue
        flags = {key: bool(entry.get(key)) for key in ("lstrip", "rstrip", "single_word", "normalized", "special")}
        addition = AddedToken(content, **flags)
        target = cast("RawTokenizer", raw)
        target.add_special_tokens([addition]) if flags["special"] else target.add_tokens([addition])


def _pieces(vocabulary: dict[str, int]) -> tuple[str, ...]:
    pieces = [""] * (max(vocabulary.values(), default=-1) + 1)
    for piece, token in vocabulary.items():
        pieces[token] = piece
    return tuple(pieces)
