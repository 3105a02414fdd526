"""What llama.cpp is asked once it runs: what it serves and what it can do. Keeps nothing."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.adapters import Adapter, read_adapters
from dragoman.backend.llamacpp.client import Client
from dragoman.backend.llamacpp.errors import error_of
from dragoman.backend.llamacpp.media import MediaWire
from dragoman.backend.llamacpp.pieces import Pieces
from dragoman.backend.llamacpp.tokenizer import EngineTokenizer
from dragoman.backend.llamacpp.wire import Props, distribution_body, grammar_probe, read_frame, read_props
from dragoman.core.errors import EngineFailure
from dragoman.core.vocabulary import Vocabulary

_SECONDS = 120.0
_LARGEST_VOCABULARY = 1 << 18


class _Meta(Struct, frozen=True):
    n_vocab: int = _LARGEST_VOCABULARY


class _Model(Struct, frozen=True):
    meta: _Meta | None = None


class _Models(Struct, frozen=True):
    data: list[_Model] = []


class _Tokens(Struct, frozen=True):
    tokens: tuple[int, ...] = ()


async def ask(client: Client, method: str, path: str, body: bytes = b"") -> bytes:
    """The body of a good answer; others are raised as errors of core. Raises ConnectionLost, also after two minutes."""
    status, answer = await client.request(method, path, body, patience=_SECONDS)
    if status != 200:
        raise error_of(status, answer)
    return answer


async def learn_props(client: Client) -> Props:
    """What it says of itself. Raises what `ask` does."""
    return read_props(await ask(client, "GET", "/props"))


async def learn_pieces(client: Client, vocabulary: Vocabulary | None) -> Pieces:
    """The bytes of each token: from `vocabulary`, or where that is the engine's own, from a distribution over all of
    them. Raises EngineFailure where it tells none."""
    if vocabulary is not None and not isinstance(vocabulary, EngineTokenizer):
        return Pieces(await asyncio.to_thread(_spelled_out, vocabulary))
    models = msgspec.json.decode(await ask(client, "GET", "/v1/models"), type=_Models)
    size = models.data[0].meta.n_vocab if models.data and models.data[0].meta else _LARGEST_VOCABULARY
    frame = read_frame(await ask(client, "POST", "/completion", distribution_body([0], size)))
    pieces: dict[int, bytes] = {}
    for entry in frame.completion_probabilities[:1]:
        pieces = {rival.id: bytes(rival.bytes) for rival in entry.top_logprobs}
    if not pieces:
        raise EngineFailure("llama.cpp does not tell its vocabulary.")
    return Pieces([pieces.get(token, b"") for token in range(max(pieces) + 1)])


async def learn_constraining(client: Client) -> bool:
    """Whether the engine was built with llguidance and so takes our grammars as they are."""
    status, answer = await client.request("POST", "/completion", grammar_probe(), patience=_SECONDS)
    return status == 200 and read_frame(answer).content == "a"


async def learn_adapters(client: Client) -> tuple[Adapter, ...]:
    """Those a server elsewhere has mounted; none where it does not say."""
    status, body = await client.request("GET", "/lora-adapters", patience=_SECONDS)
    return read_adapters(body) if status == 200 else ()


async def learn_media(client: Client, props: Props) -> MediaWire | None:
    """How images are put into a prompt; None where it takes none."""
    if not props.modalities.vision:
        return None
    body = msgspec.json.encode({"content": "", "add_special": True})
    leading = msgspec.json.decode(await ask(client, "POST", "/tokenize", body), type=_Tokens).tokens
    return MediaWire(props.media_marker, leading)


def _spelled_out(vocabulary: Vocabulary) -> list[bytes]:
    """The bytes llama.cpp sends for each token: none for control tokens."""
    return [b"" if vocabulary.is_special(token) else vocabulary.token_bytes(token) for token in range(vocabulary.size)]
