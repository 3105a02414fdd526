"""What a request means by its model's name, where a client gave that name or it is that of a LoRA adapter."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.core.adapters import AdapterScale
from dragoman.core.messages import Message, TextPart
from dragoman.core.names import NamedModel, NameSettings
from dragoman.core.request import ChatInput, Request
from dragoman.service.adapters import AdapterHost
from dragoman.service.models import ModelRoster


class Naming:
    """Makes of such names the model's own, and of what stands behind them a part of the request."""

    def __init__(self, roster: ModelRoster, given: Callable[[str], NamedModel | None]) -> None:
        self._roster = roster
        self._given = given

    def resolved(self, request: Request) -> Request:
        """The request with what its model's name adds. Raises ModelNotLoaded for the name of a model that is not
        served."""
        name = request.model
        if not name or self._roster.named(name) is not None:
            return request
        given = self._given(name)
        if given is not None:
            return settled(replace(request, model=self._roster.for_request(name).card.id), given.settings)
        return self._adapted(request, name)

    def _adapted(self, request: Request, name: str) -> Request:
        """vLLM's clients ask for an adapter by naming it as the model."""
        if request.adapters is not None or request.adapter_places:
            return request
        for model in self._roster:
            backend = model.backend
            if isinstance(backend, AdapterHost) and name in {one.scale.name for one in backend.mounted}:
                return replace(request, model=model.card.id, adapters=(AdapterScale(name),))
        return request


def settled(request: Request, settings: NameSettings) -> Request:
    """The request with the settings it does not have itself."""
    return replace(
        request,
        input=_begun(request.input, settings) if isinstance(request.input, ChatInput) else request.input,
        sampling=request.sampling.over(settings.sampling),
        max_tokens=settings.max_tokens if request.max_tokens is None else request.max_tokens,
        stop=request.stop or settings.stop,
    )


def _begun(chat: ChatInput, settings: NameSettings) -> ChatInput:
    """The conversation behind that of the settings. One that goes on from token ids has had all that."""
    messages = chat.messages
    if not chat.context:
        leads = [at for at, message in enumerate(messages) if message.role not in ("system", "developer")]
        lead = leads[0] if leads else len(messages)
        own = (Message("system", (TextPart(settings.system),)),) if settings.system and not lead else ()
        messages = (*own, *messages[:lead], *settings.messages, *messages[lead:])
    return replace(chat, messages=messages, template=chat.template or settings.template)
