"""/tokenize, /detokenize and /tokenizer_info in vLLM's shape. Holds no vocabulary."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from dragoman.core.errors import InvalidField, MissingField, UnsupportedField
from dragoman.core.operations import (
    Detokenized,
    DetokenizeRequest,
    ModelRequest,
    ModelState,
    Tokenized,
    TokenizeRequest,
)
from dragoman.core.request import ChatInput, RawInput
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.decoding import convert, decode_object, unknown_fields
from dragoman.dialects.vllm.conversation import read_tools, read_turns
from dragoman.dialects.vllm.schema import DetokenizeBody, DetokenizeReply, TokenizeBody, TokenizeReply

_encode = msgspec.json.encode


def read_tokenize(wire: WireRequest) -> SmallCall:
    """POST /tokenize with a prompt or messages."""
    fields = decode_object(wire.body)
    body = convert(fields, TokenizeBody)
    for name in ("chat_template", "mm_processor_kwargs"):
        if getattr(body, name):
            raise UnsupportedField(f"'{name}' is not supported by this server.", field=name, remedy="Leave it out.")
    length = wire.card_of(body.model).context_length if wire.card_of else 0
    return SmallCall(
        request=TokenizeRequest(_input(body), model=body.model),
        write=partial(_write_tokens, length, body.return_token_strs is True),
        ignored=unknown_fields(fields, TokenizeBody),
    )


def read_detokenize(wire: WireRequest) -> SmallCall:
    """POST /detokenize."""
    fields = decode_object(wire.body)
    body = convert(fields, DetokenizeBody)
    return SmallCall(
        request=DetokenizeRequest(tuple(body.tokens), model=body.model),
        write=_write_text,
        ignored=unknown_fields(fields, DetokenizeBody),
    )


def read_tokenizer_info(wire: WireRequest) -> SmallCall:
    """GET /tokenizer_info: what a client needs to render and cut prompts as the served model would."""
    return SmallCall(request=ModelRequest(None), write=_write_info)


def _input(body: TokenizeBody) -> RawInput | ChatInput:
    if body.prompt is not None and body.messages is not None:
        raise InvalidField("Give either 'prompt' or 'messages'.", field="messages")
    if body.messages is None:
        if body.prompt is None:
            raise MissingField("The field 'prompt' is required.", field="prompt")
        return RawInput((body.prompt,), add_special=body.add_special_tokens is not False)
    goes_on = body.continue_final_message is True
    if goes_on and body.add_generation_prompt is True:
        raise InvalidField(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.", field="continue_final_message"
        )
    if not body.messages:
        raise InvalidField("There must be at least one message.", field="messages")
    return ChatInput(
        messages=read_turns(body.messages),
        tools=read_tools(body.tools or ()),
        add_generation_prompt=body.add_generation_prompt is not False and not goes_on,
        continue_final=goes_on,
        template_kwargs=body.chat_template_kwargs or {},
    )


def _write_tokens(length: int, spelled: bool, result: Tokenized) -> bytes:
    strings = [piece.decode("utf-8", "replace") for piece in result.pieces] if spelled else None
    reply = TokenizeReply(count=len(result.ids), max_model_len=length, tokens=list(result.ids), token_strs=strings)
    return _encode(reply)


def _write_text(result: Detokenized) -> bytes:
    return _encode(DetokenizeReply(prompt=result.text))


def _write_info(state: ModelState) -> bytes:
    """The keys of a tokenizer_config.json that clients read; tokens the vocabulary does not have are left out."""
    card = state.card
    told: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    known = (("bos_token", card.bos_token), ("eos_token", card.eos_token), ("pad_token", card.eos_token))
    told |= {name: text for name, text in known if text}
    if card.chat_template:
        told["chat_template"] = card.chat_template
    return _encode({**told, "model_max_length": card.context_length})
