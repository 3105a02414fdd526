"""The engine's own tokenizer, for vocabularies our code cannot cut text for. Blocking: prompts are made in worker
threads. Knows the wire of /tokenize, nothing of prompts."""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import Protocol

import msgspec
from msgspec import Struct

from dragoman.backend.llamacpp.endpoint import Endpoint
from dragoman.backend.llamacpp.errors import error_of
from dragoman.backend.llamacpp.pieces import Pieces
from dragoman.core.errors import EngineFailure, Unavailable
from dragoman.core.vocabulary import Vocabulary

_SECONDS = 60.0


class Outline(Vocabulary, Protocol):
    """What the model's file says of its tokens; bytes of special tokens only."""

    @property
    def bos_token(self) -> str:
        """Text of BOS."""
        ...

    @property
    def eos_token(self) -> str:
        """Text of EOS."""
        ...

    def known(self, text: str, *, add_special: bool, parse_special: bool) -> list[int] | None:
        """Ids of `text` where no rule of the vocabulary is needed for them: nothing, or one special token."""
        ...


class _Answer(Struct, frozen=True):
    tokens: list[int]


class EngineTokenizer:
    """A core.vocabulary.Tokenizer. `attach` it to the engine when that runs, and again whenever it was restarted; until
    then only special tokens are known and any other text has no ids. Safe from any thread."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._pieces = Pieces(())
        self._endpoint: Endpoint | None = None
        self._learnt = False

    @property
    def size(self) -> int:
        """Number of ids."""
        return self._outline.size

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Ids that end an answer."""
        return self._outline.stop_tokens

    @property
    def bos_token(self) -> str:
        """Text of BOS, '' when the vocabulary has none."""
        return self._outline.bos_token

    @property
    def eos_token(self) -> str:
        """Text of EOS, '' when the vocabulary has none."""
        return self._outline.eos_token

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token, special ones spelled out."""
        return self._pieces[token] or self._outline.token_bytes(token)

    def is_special(self, token: int) -> bool:
        """Whether it is a control token."""
        return self._outline.is_special(token)

    def piece(self, token: int) -> str:
        """The token's spelling in the vocabulary."""
        return self._outline.piece(token)

    def attach(self, endpoint: Endpoint, pieces: Pieces) -> None:
        """The engine runs there; `pieces` are the bytes it sends for each token."""
        self._pieces, self._endpoint, self._learnt = pieces, endpoint, True

    def detach(self) -> None:
        """The engine is gone, for now."""
        self._endpoint = None

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of `text`; lone surrogates count as U+FFFD. Raises Unavailable while the engine does not answer."""
        found = self._outline.known(text, add_special=add_special, parse_special=parse_special)
        if found is not None:
            return found
        if not self._learnt:
            return []
        clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        body = {"content": clean, "add_special": add_special, "parse_special": parse_special}
        try:
            return msgspec.json.decode(self._ask(msgspec.json.encode(body)), type=_Answer).tokens
        except msgspec.MsgspecError as error:
            raise EngineFailure(f"llama.cpp sent tokens that cannot be read: {error}.") from error

    def _ask(self, body: bytes) -> bytes:
        endpoint = self._endpoint
        if endpoint is None:
            raise Unavailable("The llama.cpp engine is not running.", retry_after=1)
        headers = {"Content-Type": "application/json"}
        if endpoint.api_key:
            headers["Authorization"] = f"Bearer {endpoint.api_key}"
        connection = _connection(endpoint)
        try:
            connection.request("POST", f"{endpoint.prefix}/tokenize", body, headers)
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(
                f"The llama.cpp engine, which tokenises for this model, does not answer: {error}.", retry_after=1
            ) from error
        finally:
            connection.close()
        if status != 200:
            raise error_of(status, answer)
        return answer


def _connection(endpoint: Endpoint) -> http.client.HTTPConnection:
    if endpoint.socket:
        return _UnixConnection(endpoint.socket)
    host = endpoint.host.strip("[]")
    if endpoint.tls:
        return http.client.HTTPSConnection(host, endpoint.port, timeout=_SECONDS, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, endpoint.port, timeout=_SECONDS)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        """See HTTPConnection."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)
