"""Prompts with images."""

from __future__ import annotations

import base64

import pytest

from dragoman.backend.llamacpp.backend import LlamaCppBackend, LlamaCppOptions
from dragoman.backend.llamacpp.media import MediaWire, digest_of, media_prompt
from dragoman.core.errors import InvalidRequest, NotSupported
from dragoman.core.exchange import PromptImage
from tests.backend.llamacpp.rig import QUICK, StubLauncher, ask, chunks_of, ids_of
from tests.support.llama_stub import BOS, MARKER, Stub

WIRE = MediaWire("<M>", (BOS,))
PNG, JPEG = PromptImage(b"png", 2), PromptImage(b"jpeg", 4)


class Letters:
    """One token per byte, 1 is BOS."""

    size = 257
    stop_tokens = frozenset({256})

    def token_bytes(self, token: int) -> bytes:
        return b"<s>" if token == BOS else bytes([token]) if token < 256 else b"</s>"

    def is_special(self, token: int) -> bool:
        return token in (BOS, 256)

    def piece(self, token: int) -> str:
        return self.token_bytes(token).decode()


def text_of(prompt: bytes, *images: PromptImage) -> str:
    made = media_prompt(ask(tuple(prompt), images=images), WIRE, Letters())
    assert made is not None
    return made.text


def test_markers_stand_where_the_images_do() -> None:
    assert text_of(b"abcd", PNG, JPEG) == "ab<M>cd<M>"
    assert text_of(b"abcd", PromptImage(b"", 0), PromptImage(b"", 0)) == "<M><M>abcd"


def test_what_llamacpp_adds_itself_is_left_out() -> None:
    assert text_of(b"\x01abc", PNG) == "a<M>bc"
    assert text_of(b"\x01abc", PromptImage(b"", 0)) == "<M>abc"
    assert text_of(b"a\x01c", PNG) == "a<s><M>c"


def test_refusals() -> None:
    assert media_prompt(ask(b"ab"), None, None) is None
    request = ask(b"abcd", images=(PNG,))
    with pytest.raises(NotSupported, match="without an image encoder"):
        media_prompt(request, None, Letters())
    with pytest.raises(NotSupported, match="tokenizer"):
        media_prompt(request, WIRE, None)
    for images in ((JPEG, PNG), (PromptImage(b"", 5),), (PromptImage(b"", -1),)):
        with pytest.raises(InvalidRequest, match="do not stand in the prompt"):
            media_prompt(ask(b"abcd", images=images), WIRE, Letters())


def test_digests() -> None:
    def digest(*images: PromptImage) -> str:
        return digest_of(ask(b"abcd", images=images))

    assert digest() == ""
    assert len({digest(PNG), digest(JPEG), digest(PNG, JPEG), digest(PromptImage(b"png", 3))}) == 4


@pytest.mark.anyio
async def test_images_reach_the_engine(tmp_path_factory: pytest.TempPathFactory) -> None:
    stub = Stub(vision=True)
    folder = str(tmp_path_factory.mktemp("s"))
    options = LlamaCppOptions(model="stub.gguf", lanes=1, context=2048)
    backend = LlamaCppBackend(options, Letters(), launcher=StubLauncher(stub, folder), policy=QUICK)
    await backend.start()
    try:
        assert backend.capabilities.media == {"image"}
        assert len(ids_of(await chunks_of(backend, ask(b"\x01abcd", 5, images=(PNG,))))) == 5
        assert stub.received[-1]["prompt"] == {
            "prompt_string": f"a{MARKER}bcd",
            "multimodal_data": [base64.b64encode(b"png").decode()],
        }
        plain = ask(b"\x01abcd", 5)
        assert backend.namespace_of(plain) != backend.namespace_of(ask(b"\x01abcd", 5, images=(PNG,)))
        await chunks_of(backend, plain)
        assert stub.received[-1]["prompt"] == list(b"\x01abcd")
    finally:
        await backend.stop()


@pytest.mark.anyio
async def test_a_model_without_an_encoder_refuses_images(tmp_path_factory: pytest.TempPathFactory) -> None:
    launcher = StubLauncher(Stub(), str(tmp_path_factory.mktemp("s")))
    backend = LlamaCppBackend(LlamaCppOptions(model="stub.gguf", lanes=1), Letters(), launcher=launcher)
    await backend.start()
    try:
        assert backend.capabilities.media == frozenset()
        with pytest.raises(NotSupported, match="mmproj"):
            await backend.submit(ask(b"abcd", images=(PNG,)))
    finally:
        await backend.stop()
