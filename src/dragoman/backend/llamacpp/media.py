"""Prompts with images in llama.cpp's form: text with a marker for each image, and the images. Decodes no image."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dragoman.core.errors import InvalidRequest, NotSupported
from dragoman.core.exchange import EngineRequest
from dragoman.core.vocabulary import Vocabulary


class MediaWire(Struct, frozen=True):
    """How a running engine takes images: `marker` is the text that stands for one (llama.cpp draws it anew in each
    process), `leading` the tokens it puts before every text by itself."""

    marker: str
    leading: tuple[int, ...] = ()


class MediaPrompt(Struct, frozen=True):
    """A prompt with images. `text` spells special tokens out; `data` is one image each, in base64."""

    text: str
    data: tuple[str, ...]
    vocabulary: Vocabulary

    def native(self, answered: Sequence[int]) -> dict[str, Any]:
        """The wire's `prompt`, with what has been answered so far."""
        return {"prompt_string": self.text + _spelled(self.vocabulary, answered), "multimodal_data": self.data}


def require_images(request: EngineRequest, wire: MediaWire | None, vocabulary: Vocabulary | None) -> None:
    """Raises NotSupported when the engine sees no images, InvalidRequest when they do not stand in the prompt."""
    if not request.images:
        return
    if wire is None:
        raise NotSupported(
            "This model is served without an image encoder.", remedy="Put its mmproj GGUF file beside the model."
        )
    if vocabulary is None:
        raise NotSupported("Images need the model's own tokenizer, which is not known here.")
    places = [image.at for image in request.images]
    if places != sorted(places) or not 0 <= places[0] <= places[-1] <= len(request.prompt):
        raise InvalidRequest("The images do not stand in the prompt in their order.")


def media_prompt(request: EngineRequest, wire: MediaWire | None, vocabulary: Vocabulary | None) -> MediaPrompt | None:
    """None for a request without images. Raises as `require_images` does."""
    require_images(request, wire, vocabulary)
    if not request.images or wire is None or vocabulary is None:
        return None
    prompt, leading = request.prompt, len(wire.leading)
    begin = leading if prompt[:leading] == wire.leading else 0
    text: list[str] = []
    for image in request.images:
        text += (_spelled(vocabulary, prompt[begin : image.at]), wire.marker)
        begin = max(begin, image.at)
    text.append(_spelled(vocabulary, prompt[begin:]))
    data = tuple(base64.b64encode(image.data).decode() for image in request.images)
    return MediaPrompt("".join(text), data, vocabulary)


def digest_of(request: EngineRequest) -> str:
    """Distinguishes prompts whose tokens are the same and whose images are not; '' without images."""
    if not request.images:
        return ""
    found = hashlib.sha256()
    for image in request.images:
        found.update(f"{image.at}:{len(image.data)}:".encode() + image.data)
    return found.hexdigest()


def _spelled(vocabulary: Vocabulary, tokens: Sequence[int]) -> str:
    return b"".join(map(vocabulary.token_bytes, tokens)).decode("utf-8", "replace")
