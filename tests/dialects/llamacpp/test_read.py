"""What a native completion body becomes, and how it is refused."""

import json
import math
from typing import Any

import pytest

from dragoman.core.errors import DragomanError, UnsupportedField
from dragoman.core.request import GrammarTrigger, OutputFormat, RawInput
from dragoman.core.sampling import SamplingSpec
from dragoman.dialects.base import GenerateCall, SmallCall, WireRequest
from dragoman.dialects.llamacpp.endpoints import DIALECT
from dragoman.dialects.llamacpp.read import read_completion
from dragoman.dialects.llamacpp.schema import FIELDS, KNOWN, CompletionBody
from dragoman.dialects.llamacpp.template import read_template
from dragoman.dialects.llamacpp.tokens import read_detokenize, read_tokenize


def call_of(**fields: Any) -> GenerateCall:
    body = {"prompt": "x", **fields}
    return read_completion(WireRequest(method="POST", path="/completion", body=json.dumps(body).encode()))


def settings_of(**fields: Any) -> dict[str, Any]:
    return call_of(**fields).writer.args[0].settings  # type: ignore[attr-defined]


def refusal(**fields: Any) -> tuple[int, str]:
    with pytest.raises(DragomanError) as raised:
        call_of(**fields)
    reply = DIALECT.error(raised.value, "r")
    error = json.loads(reply.body)["error"]
    assert list(error)[:3] == ["code", "message", "type"]
    assert error["code"] == reply.status
    return reply.status, error["message"]


def small(read: Any, body: Any) -> SmallCall:
    return read(WireRequest(method="POST", path="/", body=json.dumps(body).encode()))


def small_refusal(read: Any, body: Any) -> tuple[int, str]:
    with pytest.raises(DragomanError) as raised:
        small(read, body)
    reply = DIALECT.error(raised.value, "r")
    return reply.status, json.loads(reply.body)["error"]["message"]


FORMS = (
    '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, '
    "or a list of mixed strings & tokens."
)
TYPE_302 = "[json.exception.type_error.302] type must be {}, but is {}"


@pytest.mark.parametrize(
    ("prompt", "inputs"),
    [
        ("", [("",)]),
        ("a", [("a",)]),
        ([1, 2], [((1, 2),)]),
        (["a", 1, 2, "b", 3], [("a", (1, 2), "b", (3,))]),
        ([1, "a"], [((1,), "a")]),
        ({"prompt_string": "a"}, [("a",)]),
        (["a"], [("a",)]),
        (["a", "b"], [("a",), ("b",)]),
        ([[1, 2], [3]], [((1, 2),), ((3,),)]),
        ([[]], [()]),
        (["a", []], [("a",), ()]),
        ([[1, "a"], "b", {"prompt_string": "c"}], [((1,), "a"), ("b",), ("c",)]),
        ([2**32 + 1], [((1,),)]),
    ],
)
def test_prompt_forms(prompt: Any, inputs: list[Any]) -> None:
    call = call_of(prompt=prompt)
    assert [request.input for request in call.requests] == [RawInput(pieces) for pieces in inputs]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (5, FORMS),
        (True, FORMS),
        (None, FORMS),
        ({}, FORMS),
        ([], '"prompt" must not be empty'),
        ([1.5, 2], FORMS),
        (["a", 1.5], FORMS),
        ([[1], 5], FORMS),
        ([1, None], FORMS),
        ([1, {"prompt_string": "a"}], FORMS),
        ([[[1]]], FORMS),
        (["a", {"prompt_string": "x"}, 3], TYPE_302.format("number", "object")),
        ({"prompt_string": None}, TYPE_302.format("string", "null")),
        ([-1], "Prompt contains invalid tokens"),
        (
            {"prompt_string": "a", "multimodal_data": []},
            "Multimodal data provided, but model does not support multimodal requests.",
        ),
    ],
)
def test_bad_prompts(prompt: Any, message: str) -> None:
    assert refusal(prompt=prompt) == (400, message)


def test_prompt_errors_come_first() -> None:
    assert refusal(prompt=5, temperature="x") == (400, FORMS)


def test_wire_defaults_are_in_the_spec() -> None:
    assert call_of().requests[0].sampling == SamplingSpec(
        temperature=0.8,
        top_k=40,
        top_p=0.95,
        min_p=0.05,
        repetition_penalty=1.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        penalty_window=64,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"n_predict": 2**32 + 2}, {"n_predict": 2, "max_tokens": 2}),
        ({"n_predict": -1.5}, {"n_predict": -1}),
        ({"n_predict": None, "max_completion_tokens": 3, "max_tokens": 5}, {"n_predict": 3}),
        ({"n_predict": 2, "max_tokens": "x"}, {"n_predict": 2}),
        ({"seed": -1}, {"seed": 4294967295}),
        ({"seed": 2**33 + 5}, {"seed": 5}),
        ({"seed": -7}, {"seed": 4294967289}),
        ({"seed": 2.5}, {"seed": 2}),
        ({"seed": 1e20}, {"seed": 0}),
        ({"seed": True}, {"seed": 1}),
        ({"top_k": 3e10}, {"top_k": 0}),
        ({"top_k": 2**40 + 7}, {"top_k": 7}),
        ({"top_p": True}, {"top_p": 1.0}),
        ({"top_p": 1e39}, {"top_p": 1.0}),
        ({"repeat_penalty": 1e39}, {"repeat_penalty": 3.4028234663852886e38}),
        ({"mirostat": 1.9}, {"mirostat": 1}),
        ({"adaptive_target": -3}, {"adaptive_target": -3.0}),
        ({"adaptive_target": 2}, {"adaptive_target": 1.0}),
        ({"dry_base": 0.9}, {"dry_base": 1.75}),
        ({"n_probs": -1}, {"n_probs": -1}),
        ({"logprobs": 2}, {"n_probs": 2}),
        ({"n_probs": 1, "logprobs": 2}, {"n_probs": 1}),
        ({"stop": "."}, {"stop": ["."]}),
        ({"stop": ""}, {"stop": [""]}),
        ({"stop": 5}, {"stop": []}),
        ({"stop": [None]}, {"stop": []}),
        ({"samplers": "zz"}, {"samplers": []}),
        (
            {"samplers": ["topk", "Nucleus", "temp", "bogus", "typical_p", "typ-p", "Top_K"]},
            {"samplers": ["top_k", "top_p", "temperature", "typ_p", "top_k"]},
        ),
        (
            {"samplers": 5},
            {"samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]},
        ),
        ({"reasoning_format": "none"}, {"reasoning_format": "none"}),
        (
            {"logit_bias": {"7042": False, "+5": 1, " 6": -2.5, "-5": 1, "8": True, "9": "x"}},
            {"logit_bias": [{"bias": None, "token": 7042}, {"bias": 1.0, "token": 5}, {"bias": -2.5, "token": 6}]},
        ),
        (
            {"logit_bias": [[7042, -100], [7042, 3], [7042.0, 1], [1], [True, 2], "x", [4, None], ["x", True]]},
            {"logit_bias": [{"bias": -100.0, "token": 7042}, {"bias": 3.0, "token": 7042}]},
        ),
        ({"logit_bias": 5}, {"logit_bias": []}),
        ({"dry_sequence_breakers": ["a", "a"]}, {"dry_sequence_breakers": ["a", "a"]}),
        (
            {"id_slot": "x", "message_delimiters": 5, "chat_format": 99, "verbose": True},
            {"chat_format": "Content-only"},
        ),
    ],
)
def test_values_are_cast_and_clamped_as_recorded(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    shown = settings_of(**fields)
    assert json.dumps({name: shown[name] for name in expected}) == json.dumps(expected)
    assert len(shown) == 49


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"n_predict": 3e10},
            "Field 'n_predict': Value must be between -1 <= value <= 2147483647, but got -2147483648",
        ),
        (
            {"max_completion_tokens": -5},
            "Field 'max_completion_tokens': Value must be between -1 <= value <= 2147483647, but got -5",
        ),
        ({"n_predict": [3]}, "Field 'n_predict': " + TYPE_302.format("number", "array")),
        ({"max_tokens": "x"}, "Field 'max_tokens': " + TYPE_302.format("number", "string")),
        ({"temperature": {}}, "Field 'temperature': " + TYPE_302.format("number", "object")),
        ({"stream": 1}, "Field 'stream': " + TYPE_302.format("boolean", "number")),
        ({"stop": ["x", 5]}, "Field 'stop': " + TYPE_302.format("string", "number")),
        (
            {"t_max_predict_ms": -2},
            "Field 't_max_predict_ms': Value must be between -1 <= value <= 9223372036854775807, but got -2",
        ),
        (
            {"adaptive_decay": -0.5},
            "Field 'adaptive_decay': Value must be between 0.000000 <= value <= 0.990000, but got -0.500000",
        ),
        (
            {"dry_sequence_breakers": [1]},
            "Field 'dry_sequence_breakers': Error: dry_sequence_breakers must be a non-empty array of strings",
        ),
        ({"repeat_penalty": 0}, "Failed to initialize samplers: penalty_repeat must be finite and greater than 0"),
        ({"lora": 5}, "Field 'lora': Error: 'lora' must be an array of objects with 'id' and 'scale' fields"),
        (
            {"grammar_lazy": True, "grammar_triggers": []},
            "Field 'grammar_triggers': Error: no triggers set for lazy grammar!",
        ),
        ({"reasoning_format": "bogus"}, "Field 'reasoning_format': Unknown reasoning format: bogus"),
        ({"reasoning_format": 5}, "Field 'reasoning_format': " + TYPE_302.format("string", "number")),
        ({"preserved_tokens": [5]}, "Field 'preserved_tokens': " + TYPE_302.format("string", "number")),
        (
            {"continue_final_message": "x"},
            "Field 'continue_final_message': Invalid continue_final_message: expected a boolean, \"content\" or "
            '"reasoning_content"',
        ),
        ({"n": 0}, "Field 'n': Value must be between 1 <= value <= 128, but got 0"),
    ],
)
def test_refusals_are_the_recorded_ones(fields: dict[str, Any], message: str) -> None:
    assert refusal(**fields) == (400, message)


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_budget_tokens": 3, "reasoning_budget_end_tag": "</think>"},
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedField) as raised:
        call_of(**fields)
    assert raised.value.field in fields


@pytest.mark.parametrize(
    "fields",
    [
        {"grammar": ""},
        {"grammar": 5},
        {"json_schema": None},
        {"lora": []},
        {"post_sampling_probs": True},
        {"n_indent": 0},
        {"n_keep": -1, "n_discard": 3},
        {"logit_bias": {" Paris": True}},
    ],
)
def test_what_changes_nothing_is_accepted(fields: dict[str, Any]) -> None:
    assert call_of(**fields).ignored == ()


GBNF = 'root ::= "a"'
WORD = [{"type": 1, "value": "a"}]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"grammar": GBNF}, OutputFormat("gbnf", GBNF, "grammar")),
        ({"grammar": "%llguidance {}\nstart: /a/"}, OutputFormat("lark", "%llguidance {}\nstart: /a/", "grammar")),
        ({"json_schema": {}}, OutputFormat("json_schema", "{}", "json_schema")),
        (
            {"json_schema": {"type": "null"}, "grammar": 5},
            OutputFormat("json_schema", '{"type":"null"}', "json_schema"),
        ),
        ({"json_schema": {}, "grammar": GBNF}, OutputFormat("gbnf", GBNF, "grammar")),
        (
            {"grammar": GBNF, "grammar_lazy": True, "grammar_triggers": WORD},
            OutputFormat("gbnf", GBNF, "grammar", triggers=(GrammarTrigger("word", "a"),)),
        ),
        ({"grammar": GBNF, "grammar_triggers": WORD}, OutputFormat("gbnf", GBNF, "grammar")),
        ({"grammar": GBNF, "grammar_lazy": True}, None),
    ],
)
def test_constraints(fields: dict[str, Any], wanted: OutputFormat | None) -> None:
    assert call_of(**fields).requests[0].format == wanted


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"json_schema": 5}, "type must be object, but is number"),
        ({"grammar_lazy": True, "grammar": GBNF, "grammar_triggers": {}}, "no triggers set for lazy grammar"),
        ({"grammar_lazy": True, "grammar": GBNF, "grammar_triggers": [5]}, "cannot use at() with number"),
        ({"grammar_triggers": "x"}, "cannot use at() with string"),
        ({"grammar_triggers": [{"type": "x", "value": "a"}]}, "type must be number, but is string"),
        ({"grammar_triggers": [{"type": 0, "value": "a"}]}, "key 'token' not found"),
        ({"reasoning_budget_end_tags": ["a", 2]}, "type must be string, but is number"),
        ({"reasoning_budget_end_tag": ["a"]}, "type must be string, but is array"),
        ({"grammar_lazy": True, "grammar": GBNF, "grammar_triggers": [{"type": 1}]}, "key 'value' not found"),
    ],
)
def test_constraints_of_the_wrong_shape(fields: dict[str, Any], problem: str) -> None:
    status, message = refusal(**fields)
    assert status == 400
    assert problem in message


def test_a_grammar_is_echoed_as_it_was_sent() -> None:
    settings = settings_of(grammar=GBNF, grammar_lazy=True, grammar_triggers=WORD)
    assert {key: settings[key] for key in ("grammar", "grammar_lazy", "grammar_triggers")} == {
        "grammar": GBNF,
        "grammar_lazy": True,
        "grammar_triggers": WORD,
    }


def test_request_fields() -> None:
    call = call_of(
        prompt=["a", "b"],
        n_cmpl=2,
        n_predict=0,
        n_probs=3,
        stop=["", "x"],
        cache_prompt=False,
        return_progress=True,
        stream=True,
        model="m",
        unheard_of=1,
    )
    request = call.requests[1]
    assert len(call.requests) == 2
    assert call.stream
    assert call.ignored == ("unheard_of",)
    assert (request.n, request.max_tokens, request.logprobs, request.stop) == (2, 1, 3, ("", "x"))
    assert (request.progress, request.cache.reuse, request.model) == (True, False, "m")
    assert call_of(n_predict=-1).requests[0].max_tokens is None
    assert not call_of(return_progress=True).requests[0].progress


def test_stages_are_set_only_where_they_do_something() -> None:
    request = call_of(
        typical_p=0.9,
        top_n_sigma=2,
        xtc_probability=0.5,
        dynatemp_range=0.2,
        mirostat=2,
        dry_multiplier=0.8,
        min_keep=1,
        ignore_eos=True,
        samplers=["top_k", "adaptive_p"],
        logit_bias=[[5, 1], [5, 2.5], [6, False]],
    ).requests[0]
    spec = request.sampling
    assert (spec.typical_p, spec.top_n_sigma, spec.xtc_threshold, spec.dynatemp_exponent) == (0.9, 2.0, 0.1, 1.0)
    assert (spec.mirostat, spec.mirostat_tau, spec.dry_base, spec.dry_penalty_window) == (2, 5.0, 1.75, 64)
    assert (spec.min_keep, spec.ignore_eos, spec.samplers) == (1, True, ("top_k", "adaptive_p"))
    assert (spec.adaptive_target, spec.adaptive_decay) == (-1.0, 0.9)
    assert request.biases == ((5, 1.0), (5, 2.5), (6, -math.inf))


def test_too_many_answers_are_refused() -> None:
    assert refusal(prompt=["x"] * 4097)[0] == 400
    assert refusal(prompt=["x"] * 100, n_cmpl=128)[0] == 400


def test_the_documented_body_has_every_known_field() -> None:
    assert set(CompletionBody.__struct_fields__) == KNOWN
    assert len({field.name for field in FIELDS}) == len(FIELDS)


@pytest.mark.parametrize("raw", [b"null", b"5", b"true", b"[]", b"1.5"])
def test_other_json_than_an_object(raw: bytes) -> None:
    wire = WireRequest(method="POST", path="/", body=raw)
    with pytest.raises(DragomanError, match=r"type_error\.304\] cannot use at\(\) with"):
        read_completion(wire)
    assert read_tokenize(wire).body == b'{"tokens":[]}'  # type: ignore[union-attr]
    assert read_detokenize(wire).body == b'{"content":""}'  # type: ignore[union-attr]
    with pytest.raises(DragomanError, match="'messages' is required"):
        read_template(wire)


def test_a_byte_order_mark_is_skipped() -> None:
    wire = WireRequest(method="POST", path="/", body=b'\xef\xbb\xbf{"prompt":"x"}')
    assert read_completion(wire).requests[0].input == RawInput(("x",))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"content": True}, TYPE_302.format("string", "boolean")),
        ({"content": {}}, TYPE_302.format("string", "object")),
        ({"content": ["a", None]}, TYPE_302.format("number", "null")),
        ({"content": [[1]]}, TYPE_302.format("number", "array")),
    ],
)
def test_bad_tokenize(body: Any, message: str) -> None:
    assert small_refusal(read_tokenize, body) == (500, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tokens": None}, TYPE_302.format("array", "null")),
        ({"tokens": {"a": 1}}, TYPE_302.format("array", "object")),
        ({"tokens": ["a"]}, TYPE_302.format("number", "string")),
    ],
)
def test_bad_detokenize(body: Any, message: str) -> None:
    assert small_refusal(read_detokenize, body) == (500, message)


def test_lenient_tokenize() -> None:
    call = small(read_tokenize, {"content": [1.5, "a", True, "b"], "add_special": 5, "with_pieces": 1})
    assert call.request.input == RawInput(((1,), "a", (1,), "b"), add_special=False)  # type: ignore[union-attr]
    assert small(read_detokenize, {"tokens": [1.7, True, 2**33]}).request.ids == (1, 1, 0)  # type: ignore[union-attr]


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"messages": 5}, 400, "Expected 'messages' to be an array"),
        ({"messages": None}, 400, "Expected 'messages' to be an array"),
        ({"messages": [5]}, 400, "All non-assistant messages must contain 'content'"),
        ({"messages": [{"role": "user"}]}, 400, "All non-assistant messages must contain 'content'"),
        (
            {"messages": [{"content": "x"}]},
            500,
            'Failed to parse messages: Missing \'role\' in message: {"content":"x"}',
        ),
        (
            {"messages": [{"role": 5, "content": "x"}]},
            500,
            "Failed to parse messages: " + TYPE_302.format("string", "number"),
        ),
        ({"messages": [{"role": "user", "content": 5}]}, 400, "Expected 'content' to be a string or an array"),
        ({"messages": [{"role": "user", "content": [5]}]}, 400, "unsupported content[].type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            500,
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        ),
        (
            {"messages": [USER], "tools": 5},
            500,
            "Failed to parse tools: Expected 'tools' to be an array, got 5; tools = 5",
        ),
        ({"messages": [USER], "tools": [5]}, 500, "Failed to parse tools: Missing tool type: 5; tools = [\n  5\n]"),
        (
            {"messages": [USER], "tools": [{"type": "x"}]},
            500,
            'Failed to parse tools: Unsupported tool type: {"type":"x"}; tools = [\n  {\n    "type": "x"\n  }\n]',
        ),
        ({"messages": [USER], "tool_choice": "bogus"}, 400, "Invalid tool_choice: bogus"),
        (
            {"messages": [USER, {"role": "assistant", "content": "A"}, {"role": "assistant", "content": "B"}]},
            400,
            "Cannot have 2 or more assistant messages at the end of the list.",
        ),
        (
            {"messages": [USER], "continue_final_message": True},
            400,
            "Cannot set both add_generation_prompt and continue_final_message to true.",
        ),
        (
            {"messages": [USER], "continue_final_message": "bogus"},
            400,
            'Invalid continue_final_message: expected a boolean, "content" or "reasoning_content"',
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "tool_calls": 5}]},
            500,
            "Failed to parse messages: Missing tool call type: 5",
        ),
    ],
)
def test_bad_template_bodies(body: Any, status: int, message: str) -> None:
    assert small_refusal(read_template, body) == (status, message)


def test_template_body() -> None:
    chat = small(
        read_template,
        {
            "messages": [
                {"role": "system", "content": "S"},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "why",
                    "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                        {"id": "2", "type": "function", "function": {"name": "g", "arguments": {"b": 2}}},
                    ],
                },
                {"role": "tool", "tool_call_id": "1", "content": "r"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "chat_template_kwargs": {"enable_thinking": False},
            "reasoning_effort": "none",
        },
    ).request.input  # type: ignore[union-attr]
    assert [message.role for message in chat.messages] == ["system", "user", "assistant", "tool"]
    assert [type(part).__name__ for part in chat.messages[2].parts] == [
        "ReasoningPart",
        "ToolCallPart",
        "ToolCallPart",
    ]
    assert chat.messages[2].parts[2].arguments == '{"b":2}'
    assert (chat.tools[0].name, chat.template_kwargs, chat.thinking.mode) == ("f", {"enable_thinking": False}, "off")
    assert (chat.add_generation_prompt, chat.continue_final) == (True, False)


@pytest.mark.parametrize("generation", [True, False])
def test_a_trailing_assistant_message_is_continued(generation: bool) -> None:
    body = {"messages": [USER, {"role": "assistant", "content": "It"}], "add_generation_prompt": generation}
    chat = small(read_template, body).request.input  # type: ignore[union-attr]
    assert (chat.continue_final, chat.add_generation_prompt) == (True, False)
