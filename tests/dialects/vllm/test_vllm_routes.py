"""vLLM's extras: bodies in, bodies out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import DragomanError, MissingField, UnsupportedField
from dragoman.core.messages import Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.operations import Detokenized, ModelState, Tokenized, TokenizeRequest, Version
from dragoman.core.request import ChatInput, RawInput
from dragoman.core.slots import AdapterMount, Adapters, AdapterUnmount, MountedAdapter
from dragoman.dialects.base import SmallCall
from dragoman.dialects.vllm.endpoints import DIALECT
from tests.dialects.answers import CARD
from tests.dialects.wire import post

USER = {"role": "user", "content": "hi"}


def read(path: str, body: Any = b"", method: str = "POST") -> SmallCall:
    row = next(row for row in DIALECT.endpoints if (row.method, row.path) == (method, path))
    call = row.read(replace(post(path, body), card_of=lambda _: CARD))
    assert isinstance(call, SmallCall)
    return call


def refusal(path: str, body: Any) -> DragomanError:
    with pytest.raises(DragomanError) as caught:
        read(path, body)
    return caught.value


def test_a_prompt() -> None:
    call = read("/tokenize", {"prompt": "hi", "model": "m", "add_special_tokens": False, "odd": 1})
    assert call.request == TokenizeRequest(RawInput(("hi",), add_special=False), "m")
    assert call.ignored == ("odd",)
    assert json.loads(call.write(Tokenized((5, 6), (b"h", b"i")))) == {  # type: ignore[arg-type]
        "count": 2, "max_model_len": CARD.context_length, "tokens": [5, 6], "token_strs": None,
    }  # fmt: skip
    assert read("/tokenize", {"prompt": ""}).request == TokenizeRequest(RawInput(("",)))
    spelled = read("/tokenize", {"prompt": "hi", "return_token_strs": True})
    assert json.loads(spelled.write(Tokenized((5,), (b"\xff",))))["token_strs"] == ["�"]  # type: ignore[arg-type]


def test_a_conversation() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "S"}, {"type": "text", "text": "T"}]},
        USER,
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "r", "tool_call_id": "c"},
    ]
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    request = read("/tokenize", {"messages": messages, "tools": [tool], "chat_template_kwargs": {"k": 1}}).request
    assert isinstance(request, TokenizeRequest)
    chat = request.input
    assert isinstance(chat, ChatInput)
    assert chat.messages == (
        Message("system", (TextPart("S"), TextPart("T"))),
        Message("user", (TextPart("hi"),)),
        Message("assistant", (ReasoningPart("hm"), ToolCallPart("c", "f", '{"a":1}'))),
        Message("tool", (ToolResultPart("c", (TextPart("r"),)),)),
    )
    assert (chat.tools[0].name, chat.tools[0].parameters) == ("f", {"type": "object"})
    assert (chat.add_generation_prompt, chat.continue_final, chat.template_kwargs) == (True, False, {"k": 1})
    left_open = read("/tokenize", {"messages": [USER], "continue_final_message": True}).request
    assert isinstance(left_open, TokenizeRequest)
    assert isinstance(left_open.input, ChatInput)
    assert (left_open.input.add_generation_prompt, left_open.input.continue_final) == (False, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"prompt": "a", "messages": [USER]}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"messages": [USER], "tools": [{}]}, "tools[0].function.name"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function.name"),
        ({"messages": [USER], "chat_template": "x"}, "chat_template"),
        ({"prompt": 5}, "prompt"),
        (
            {"messages": [USER], "continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message",
        ),
    ],
)
def test_refusals(body: dict[str, Any], field: str) -> None:
    assert refusal("/tokenize", body).field == field


def test_ids_to_text() -> None:
    call = read("/detokenize", {"tokens": [1, 2], "model": "m"})
    assert json.loads(call.write(Detokenized("ab"))) == {"prompt": "ab"}  # type: ignore[arg-type]
    assert refusal("/detokenize", {"tokens": ["a"], "model": "m"}).field == "tokens[0]"


def test_the_tokenizer() -> None:
    card = replace(CARD, bos_token="<s>", eos_token="</s>", chat_template="{{ x }}")
    told = json.loads(read("/tokenizer_info", method="GET").write(ModelState(card)))  # type: ignore[arg-type]
    assert (told["bos_token"], told["eos_token"], told["pad_token"]) == ("<s>", "</s>", "</s>")
    assert (told["chat_template"], told["model_max_length"]) == ("{{ x }}", CARD.context_length)
    bare = json.loads(read("/tokenizer_info", method="GET").write(ModelState(CARD)))  # type: ignore[arg-type]
    assert "bos_token" not in bare
    assert json.loads(read("/version", method="GET").write(Version("1.2"))) == {"version": "1.2"}  # type: ignore[arg-type]


def test_adapters() -> None:
    load = read("/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "a.gguf", "load_inplace": True})
    assert load.request == AdapterMount("a", "a.gguf", replace=True)
    done = Adapters((MountedAdapter("a.gguf", AdapterScale("a")),))
    assert load.write(done) == b"Success: LoRA adapter 'a' added successfully."  # type: ignore[arg-type]
    unload = read("/v1/unload_lora_adapter", {"lora_name": "a", "lora_int_id": 1})
    assert unload.request == AdapterUnmount("a")
    for body, field in (({}, "lora_name"), ({"lora_name": "a"}, "lora_path")):
        fault = refusal("/v1/load_lora_adapter", body)
        assert isinstance(fault, MissingField)
        assert fault.field == field
    assert isinstance(refusal("/tokenize", {"prompt": "x", "mm_processor_kwargs": {"a": 1}}), UnsupportedField)
