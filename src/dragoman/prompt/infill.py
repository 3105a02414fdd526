"""Prompts for models that fill gaps in code: their markers, found in the vocabulary, and how code is put between them.

The layout and the amounts of code are llama-server's, whose editor plug-ins are the clients of this.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.core.errors import NotSupported, UnsupportedField
from dragoman.core.request import InfillInput
from dragoman.core.vocabulary import Tokenizer
from dragoman.prompt.fill_markers import FILL_FILE, FILL_MIDDLE, FILL_PREFIX, FILL_REPOSITORY, FILL_SUFFIX

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "prefix": (*FILL_PREFIX, "[PREFIX]"),
    "suffix": (*FILL_SUFFIX, "[SUFFIX]"),
    "middle": (*FILL_MIDDLE, "[MIDDLE]"),
    "repository": (*FILL_REPOSITORY, "<repo_name>"),
    "file": (*FILL_FILE, "<file_sep>", "<|file_separator|>"),
}
_NEEDED = ("prefix", "suffix", "middle")
_REPOSITORY = "myproject\n"
_GAP_FILE = "filename\n"
_SNIPPET = "\n\n--- snippet ---\n\n"

Encode = Callable[[str], list[int]]


class Markers(Struct, frozen=True, kw_only=True):
    """Ids; None for a marker the vocabulary does not have."""

    prefix: int
    suffix: int
    middle: int
    repository: int | None = None
    file: int | None = None


def markers_of(tokenizer: Tokenizer) -> Markers:
    """The markers of a model. Raises NotSupported when one is missing that no gap can do without."""
    found = {name: _marker(tokenizer, spellings) for name, spellings in _SPELLINGS.items()}
    missing = "".join(f"{name} token is missing. " for name in _NEEDED if found[name] is None)
    if missing:
        raise NotSupported(f"Infill is not supported by this model: {missing}")
    return Markers(**{name: token for name, token in found.items() if token is not None})


def why_no_infill(tokenizer: Tokenizer) -> str:
    """Why a model cannot fill gaps; empty for one that can."""
    try:
        markers_of(tokenizer)
    except NotSupported as error:
        return error.message
    return ""


def infill_ids(tokenizer: Tokenizer, gap: InfillInput, prompt: list[int], bos: list[int]) -> list[int]:
    """The prompt for a gap; `prompt` are the ids of its beginning. Of long code what is nearest to the gap is kept.
    Raises NotSupported, or UnsupportedField where a field asked for the gap, for a model without markers."""
    markers = _markers_for(tokenizer, gap.field)

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special=False, parse_special=False)

    prefix, suffix = encode(gap.prefix), encode(gap.suffix)
    extra = _extra(encode, gap, markers)
    return [
        *extra[max(0, len(extra) - gap.spare) :],
        *bos,
        markers.prefix,
        *prefix[max(0, len(prefix) - 3 * (gap.batch // 4)) :],
        *prompt,
        markers.suffix,
        *suffix[: max(0, gap.batch // 4 - (2 + len(prompt)))],
        markers.middle,
    ]


def _markers_for(tokenizer: Tokenizer, field: str) -> Markers:
    try:
        return markers_of(tokenizer)
    except NotSupported as error:
        if not field:
            raise
        raise UnsupportedField(error.message, field=field, remedy="Leave it out.") from error


def _extra(encode: Encode, gap: InfillInput, markers: Markers) -> list[int]:
    """Other files, in front of the one with the gap."""
    ids: list[int] = []
    if markers.repository is not None:
        ids += [markers.repository, *encode(_REPOSITORY)]
    for name, text in gap.extra:
        if markers.file is not None:
            ids += [markers.file, *encode(f"{name}\n")]
        else:
            ids += encode(_SNIPPET)
        ids += encode(text)
    if markers.file is not None:
        ids += [markers.file, *encode(_GAP_FILE)]
    return ids


def _marker(tokenizer: Tokenizer, spellings: tuple[str, ...]) -> int | None:
    """The id of the first spelling that is one token of that text."""
    for spelling in spellings:
        ids = tokenizer.encode(spelling, add_special=False, parse_special=True)
        if len(ids) == 1 and tokenizer.token_bytes(ids[0]) == spelling.encode():
            return ids[0]
    return None
