"""What this server really has, to hold the manifest against: mounted routes, fields of bodies, flags of its command."""

from __future__ import annotations

from msgspec import Struct

from dragoman.app.room import DIALECTS
from dragoman.cli.llama_server.flags import FLAGS, Flag
from dragoman.dialects.llamacpp.endpoints import DIALECT
from dragoman.dialects.llamacpp.schema import (
    FIELDS,
    KNOWN,
    SHAPES,
    DetokenizeBody,
    EmbeddingBody,
    RerankBody,
    TemplateBody,
    TokenizeBody,
)

_BODIES: dict[str, type[Struct]] = {
    "/tokenize": TokenizeBody,
    "/detokenize": DetokenizeBody,
    "/apply-template": TemplateBody,
    "/embedding": EmbeddingBody,
    "/rerank": RerankBody,
}
INFILL = ("input_prefix", "input_suffix", "input_extra")


def mounted() -> frozenset[str]:
    """Every route of every dialect, as "METHOD /path"."""
    return frozenset(f"{row.method} {row.path}" for dialect in DIALECTS for row in dialect.endpoints)


def native() -> frozenset[str]:
    """The routes of the llama-server dialect."""
    return frozenset(f"{row.method} {row.path}" for row in DIALECT.endpoints)


def fields() -> frozenset[str]:
    """The fields of its bodies, as "/path.name". Those of a completion stand for both of its paths and for /infill."""
    found = {f"/completion.{name}" for name in KNOWN}
    found |= {f"/infill.{name}" for name in INFILL}
    return frozenset(found | {f"{path}.{name}" for path, body in _BODIES.items() for name in body.__struct_fields__})


def aliases() -> dict[str, str]:
    """Other spellings of completion fields, and of what."""
    return {f"/completion.{alias}": row.name for row in (*FIELDS, *SHAPES) for alias in row.aliases}


def flags() -> dict[str, Flag]:
    """The flags `dragoman llama-server` knows, by the name to speak of them."""
    return {flag.name: flag for flag in FLAGS}
