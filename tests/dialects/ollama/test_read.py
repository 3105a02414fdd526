"""What Ollama bodies become, and how they are refused."""

import json
import math
from typing import Any

import pytest

from dragoman.core.errors import DragomanError, ModelNotFound, Overloaded, UnsupportedField
from dragoman.core.messages import MediaPart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.operations import CountRequest, ModelRequest
from dragoman.core.request import ChatInput, InfillInput, OutputFormat, RawInput, Request, Thinking
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.base import GenerateCall, SmallCall, WireRequest
from dragoman.dialects.ollama.endpoints import DIALECT
from dragoman.dialects.ollama.models import read_show
from dragoman.dialects.ollama.read import read_chat, read_generate

USER = {"role": "user", "content": "hi"}


def wire(body: Any) -> WireRequest:
    return WireRequest(method="POST", path="/", body=body if isinstance(body, bytes) else json.dumps(body).encode())


def chat(**fields: Any) -> GenerateCall:
    call = read_chat(wire({"model": "m", "messages": [USER], **fields}))
    assert isinstance(call, GenerateCall)
    return call


def generate(**fields: Any) -> GenerateCall:
    call = read_generate(wire({"model": "m", "prompt": "hi", **fields}))
    assert isinstance(call, GenerateCall)
    return call


def messages_of(*messages: dict[str, Any]) -> Any:
    prompt = chat(messages=list(messages)).requests[0].input
    assert isinstance(prompt, ChatInput)
    return prompt.messages


def refusal(read: Any, body: Any) -> tuple[int, str]:
    with pytest.raises(DragomanError) as raised:
        read(wire(body))
    reply = DIALECT.error(raised.value, "r")
    shown = json.loads(reply.body)
    assert list(shown) == ["error"]
    return reply.status, shown["error"]


def test_nothing_is_set_that_was_not_given() -> None:
    call = chat()
    assert call.stream
    assert call.ignored == ()
    assert call.requests == (
        Request(input=ChatInput(messages=messages_of(USER)), model="m", sampling=SamplingSpec(), max_tokens=None),
    )


@pytest.mark.parametrize(("given", "stream"), [(None, True), (True, True), (False, False)])
def test_streaming_is_the_default(given: bool | None, stream: bool) -> None:
    assert chat(stream=given).stream is stream
    assert generate(stream=given).stream is stream


def test_options() -> None:
    call = chat(
        options={
            "temperature": 0, "top_k": 40.0, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.7, "repeat_penalty": 1.1,
            "repeat_last_n": -1, "presence_penalty": 1, "frequency_penalty": -0.5, "seed": 42, "num_predict": 8,
            "stop": ["a", "b"], "mirostat": 2, "mirostat_tau": 4.0, "num_ctx": 4096, "num_gpu": None, "tfs_z": 1.0,
        }
    )  # fmt: skip
    request = call.requests[0]
    assert request.sampling == SamplingSpec(
        temperature=0.0,
        top_k=40,
        top_p=0.9,
        min_p=0.1,
        typical_p=0.7,
        repetition_penalty=1.1,
        penalty_window=-1,
        presence_penalty=1.0,
        frequency_penalty=-0.5,
        seed=42,
        mirostat=2,
        mirostat_tau=4.0,
    )
    assert (request.max_tokens, request.stop) == (8, ("a", "b"))
    assert call.ignored == ("options.num_ctx", "options.tfs_z")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"num_predict": -1}, None),
        ({"num_predict": -2}, None),
        ({"num_predict": 0}, None),
        ({"num_predict": 2**40}, 2**31 - 1),
        ({"num_predict": None}, None),
    ],
)
def test_limits(options: dict[str, Any], expected: int | None) -> None:
    assert chat(options=options).requests[0].max_tokens == expected


def test_neutral_stages_are_not_asked_for() -> None:
    assert chat(options={"mirostat": 0, "typical_p": 1.0, "seed": -1}).requests[0].sampling == SamplingSpec()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": "hot"}, "option 'temperature' must be a number"),
        ({"temperature": True}, "option 'temperature' must be a number"),
        ({"temperature": -1}, "option 'temperature' must be at least 0"),
        ({"top_p": 2}, "option 'top_p' must be between 0 and 1"),
        ({"repeat_penalty": 0}, "option 'repeat_penalty' must be at least 0.01"),
        ({"top_k": "x"}, "option 'top_k' must be an integer"),
        ({"num_predict": []}, "option 'num_predict' must be an integer"),
        ({"mirostat": 3}, "option 'mirostat' must be 0, 1 or 2"),
        ({"stop": 5}, "option 'stop' must be an array of strings"),
        ({"stop": ["a", 5]}, "option 'stop' must be an array of strings"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    assert refusal(read_chat, {"model": "m", "messages": [USER], "options": options}) == (400, message)


def test_messages() -> None:
    system, user, assistant, result = messages_of(
        {"role": "system", "content": "S"},
        {"role": "user", "content": "look", "images": ["QUJD"]},
        {
            "role": "assistant",
            "content": "",
            "thinking": "why",
            "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
        },
        {"role": "tool", "content": "r", "tool_name": "f"},
    )
    assert system.parts == (TextPart("S"),)
    assert user.parts == (MediaPart("image", "QUJD"), TextPart("look"))
    assert assistant.parts == (ReasoningPart("why"), ToolCallPart("call_0", "f", '{"a":1}'))
    assert result.parts == (ToolResultPart("call_0", (TextPart("r"),), "f"),)


def test_results_find_their_calls_by_id_name_or_order() -> None:
    def call(name: str, **extra: Any) -> dict[str, Any]:
        return {**extra, "function": {"name": name, "arguments": {}}}

    turns = messages_of(
        USER,
        {"role": "assistant", "tool_calls": [call("f"), call("g"), call("f"), call("h", id="own")]},
        {"role": "tool", "content": "1", "tool_name": "g"},
        {"role": "tool", "content": "2", "tool_call_id": "own"},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "4", "tool_name": "f"},
        {"role": "tool", "content": "5", "tool_name": "nobody"},
    )
    found = [(turn.parts[0].call_id, turn.parts[0].name) for turn in turns[2:]]
    assert found == [("call_1", "g"), ("own", "h"), ("call_0", "f"), ("call_2", "f"), ("", "nobody")]


def test_tools_format_and_thinking() -> None:
    call = chat(
        tools=[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        format={"type": "object"},
        think="high",
        keep_alive="5m",
        truncate=True,
        logprobs=True,
        top_logprobs=3,
    )
    request = call.requests[0]
    assert isinstance(request.input, ChatInput)
    tool = request.input.tools[0]
    assert (tool.name, tool.description, tool.parameters) == ("f", "d", {"type": "object"})
    assert request.input.thinking == Thinking("on", effort="high")
    assert request.format == OutputFormat("json_schema", '{"type":"object"}', "format")
    assert request.logprobs == 3
    assert call.ignored == ("truncate",)
    assert chat(truncate=False).ignored == ()
    assert chat(think=False).requests[0].input.thinking == Thinking("off")  # type: ignore[union-attr]
    assert chat(format="json").requests[0].format == OutputFormat("json", field="format")
    assert chat(format="").requests[0].format is None
    assert chat(top_logprobs=3).requests[0].logprobs is None


def test_generate_inputs() -> None:
    prompt = generate(system="S", images=["QUJD"]).requests[0].input
    assert isinstance(prompt, ChatInput)
    assert [message.role for message in prompt.messages] == ["system", "user"]
    assert prompt.messages[1].parts == (MediaPart("image", "QUJD"), TextPart("hi"))
    assert generate(raw=True).requests[0].input == RawInput(("hi",))
    assert generate(context=[], suffix="", template="", width=5).ignored == ("width",)


def test_conversations_go_on_and_templates_are_passed_on() -> None:
    prompt = generate(context=[1, 2], template="{{ .Prompt }}").requests[0].input
    assert isinstance(prompt, ChatInput)
    assert (prompt.context, prompt.template) == ((1, 2), "{{ .Prompt }}")


def test_a_gap() -> None:
    gap = generate(suffix="end").requests[0].input
    assert isinstance(gap, InfillInput)
    assert (gap.prompt, gap.suffix, gap.field) == (RawInput(("hi",)), "end", "suffix")
    assert generate(suffix="end", raw=True).requests[0].input == gap


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"suffix": "x", "template": "y"}, "template"),
        ({"suffix": "x", "context": [1]}, "context"),
        ({"suffix": "x", "system": "y"}, "system"),
        ({"raw": True, "context": [1]}, "context"),
        ({"raw": True, "template": "y"}, "template"),
        ({"raw": True, "images": ["QUJD"]}, "images"),
    ],
)
def test_contradictions_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedField) as raised:
        generate(**fields)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, math.inf), (-1, math.inf), ("-1m", math.inf), (0, 0.0), ("0", 0.0), ("0s", 0.0), (90, 90.0),
        ("5m", 300.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("250ms", 0.25), ("+2s", 2.0), (1e300, math.inf),
        ("24h", 86400.0),
    ],
)  # fmt: skip
def test_how_long_to_keep(value: float | str | None, seconds: float) -> None:
    assert chat(keep_alive=value).keep_alive == seconds
    assert generate(keep_alive=value).keep_alive == seconds


@pytest.mark.parametrize("value", ["", "5", "m", "5 m", "soon", "1d", "--1s", "5m!"])
def test_what_is_no_duration(value: str) -> None:
    status, said = refusal(read_chat, {"model": "m", "messages": [USER], "keep_alive": value})
    assert status == 400
    assert "keep_alive" in said


def test_every_option_of_the_wire_is_known() -> None:
    known = {
        "numa": False, "num_ctx": 1, "num_batch": 1, "num_gpu": 1, "main_gpu": 0, "low_vram": False, "f16_kv": True,
        "vocab_only": False, "use_mmap": True, "use_mlock": False, "num_thread": 1, "num_keep": 1, "seed": 1,
        "num_predict": 1, "top_k": 1, "top_p": 1.0, "min_p": 0.0, "tfs_z": 1.0, "typical_p": 1.0, "repeat_last_n": 1,
        "temperature": 1.0, "repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "mirostat": 0,
        "mirostat_tau": 5.0, "mirostat_eta": 0.1, "penalize_newline": True, "stop": [],
    }  # fmt: skip
    assert {name.removeprefix("options.") for name in chat(options=known).ignored} == {
        "numa", "num_ctx", "num_batch", "num_gpu", "main_gpu", "low_vram", "f16_kv", "vocab_only", "use_mmap",
        "use_mlock", "num_thread", "num_keep", "tfs_z", "penalize_newline",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("read", "body", "status", "message"),
    [
        (read_chat, b"", 400, "missing request body"),
        (read_chat, b"{", 400, "not valid JSON"),
        (read_chat, b"[]", 400, "must be a JSON object"),
        (read_chat, {}, 400, "model is required"),
        (read_show, {}, 400, "model is required"),
        (read_chat, {"model": "m", "messages": 5}, 400, "'messages' is invalid"),
        (read_chat, {"model": "m", "messages": [{"role": "robot", "content": "x"}]}, 400, "invalid role 'robot'"),
        (read_chat, {"model": "m", "messages": [{"content": "x"}]}, 400, "role"),
        (read_chat, {"model": "m", "messages": [USER], "format": "xml"}, 400, "invalid format: 'xml'"),
        (read_chat, {"model": "m", "messages": [USER], "think": "hard"}, 400, "invalid think value: 'hard'"),
        (read_chat, {"model": "m", "messages": [USER], "top_logprobs": 21}, 400, "between 0 and 20"),
        (read_generate, {"model": "m", "prompt": "x", "raw": True, "system": "S"}, 400, "raw mode"),
        (read_generate, {"model": "m", "prompt": 5}, 400, "'prompt' is invalid"),
    ],
)
def test_refusals(read: Any, body: Any, status: int, message: str) -> None:
    shown_status, shown = refusal(read, body)
    assert shown_status == status
    assert message in shown


def test_error_statuses() -> None:
    reply = DIALECT.error(ModelNotFound("x", "y"), "r")
    assert (reply.status, json.loads(reply.body)) == (404, {"error": "model 'x' not found"})
    assert DIALECT.error(Overloaded("busy", retry_after=1), "r").status == 429


@pytest.mark.parametrize(
    ("read", "body", "told"),
    [
        (read_chat, {"model": "m"}, {"message": {"role": "assistant", "content": ""}}),
        (read_chat, {"model": "m", "messages": []}, {"message": {"role": "assistant", "content": ""}}),
        (read_generate, {"model": "m"}, {"response": ""}),
        (read_generate, {"model": "m", "prompt": "", "keep_alive": -1}, {"response": ""}),
    ],
)
def test_an_empty_prompt_only_loads(read: Any, body: Any, told: dict[str, Any]) -> None:
    call = read(wire(body))
    assert isinstance(call, SmallCall)
    assert isinstance(call.request, CountRequest)
    assert call.request.request.model == "m"
    shown = json.loads(call.write(None))
    assert shown.pop("created_at").endswith("Z")
    assert shown == {"model": "m", **told, "done": True, "done_reason": "load"}


@pytest.mark.parametrize("value", [0, "0s", "0"])
def test_to_be_kept_for_no_time_unloads(value: float | str) -> None:
    call = read_generate(wire({"model": "m", "keep_alive": value}))
    assert isinstance(call, SmallCall)
    assert json.loads(call.write(None))["done_reason"] == "unload"  # type: ignore[arg-type]
    assert call.keep_alive == 0


@pytest.mark.parametrize("body", [{"model": "a"}, {"name": "a"}, {"model": "a", "name": "b"}])
def test_show_takes_both_spellings(body: dict[str, str]) -> None:
    assert read_show(wire(body)).request == ModelRequest("a")
