"""cases.md 1 to 11, 16 to 19 and 40 through whole servers, on every dialect that has a word for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from dragoman.core.errors import DragomanError
from dragoman.engines.fake import FAKE_TEMPLATE
from tests.wire.asking import ASKS, Said, as_tools, asking, limited, stopping
from tests.wire.scripts import OPEN_THOUGHT, THINKING, scripted

STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
CHATS = pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "ollama"])
EVERY = pytest.mark.parametrize("dialect", ASKS)

LOOK = {
    "name": "look",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["place"],
    },
}
SAVE = {"name": "save", "parameters": {"type": "object", "properties": {"body": {"type": "string"}}}}
TYPED = {
    "name": "typed",
    "parameters": {
        "type": "object",
        "properties": {
            "zip": {"type": "string"},
            "n": {"type": "integer"},
            "ok": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "maybe": {"anyOf": [{"$ref": "#/$defs/Count"}, {"type": "null"}]},
            "word": {"$ref": "#/$defs/Word"},
            "free": {},
        },
        "$defs": {"Count": {"type": "integer"}, "Word": {"type": "string"}},
    },
}
CLOSERS = "a </parameter> b </tool_call> c"
CALL = '<tool_call>\n{"name": "look", "arguments": {"place": "Oslo"}}\n</tool_call>'
ROME = CALL.replace("Oslo", "Rome")
QUOTING = f"Write it like this:\n```\n{CALL}\n```\nThat is all."
WORDS = [f" word{number}" for number in range(50)]
BYTES = "ok😀é한"
TAGGED = (
    "<tool_call>\n<function=typed>\n"
    + "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n"
        for name, value in {
            "zip": "02134",
            "n": "5",
            "ok": "True",
            "tags": '["x"]',
            "maybe": "7",
            "word": "true",
            "free": "30",
        }.items()
    )
    + "</function>\n</tool_call>"
)


def rule(word: str, pieces: list[Any], **more: Any) -> dict[str, Any]:
    return {"match": word, "pieces": pieces, **more}


RULES = [
    *(rule(f"CUT{at}.", [CALL[:at], CALL[at:]]) for at in range(1, len(CALL))),
    rule("PROSE", WORDS),
    rule("LETTERS", list(f"Let me look. {CALL}")),
    rule("WHOLE", [CALL]),
    rule("PARALLEL", list(f"{CALL}\n{ROME}")),
    rule("UNKNOWN", list(CALL.replace("look", "nope"))),
    rule("HOPELESS", ["<tool_call>", "look(place=Oslo)", "</tool_call>"]),
    rule("MENDED", [CALL.replace('"Oslo"}', '"Oslo",}')]),
    rule("CLOSERS", list(f"<tool_call>{json.dumps({'name': 'save', 'arguments': {'body': CLOSERS}})}</tool_call>")),
    rule("QUOTING", list(QUOTING)),
    rule("HELLO", ["hel", "lo", " wo", "rld"]),
    rule("BYTES", [{"bytes": [byte]} for byte in BYTES.encode()]),
    rule("TAGS", ["<th", "ink>x</think>Hi", " <think> there"]),
    rule("MUSING", ["<think>", "so", "</think>", "He", " said"]),
    rule("QUOTE", ["He said ", {"bytes": [226, 128]}, {"bytes": [156]}, "hi", " STO", "P", "!"]),
]
OPEN_RULES = [rule("ENDLESS", ["so", " it", " goes"], repeat=True), rule("CLOSED", ["so", "</th", "ink>", "Hi"])]
CALL_BEGINS, CALL_ENDS = FAKE_TEMPLATE.index("{{- '<tool_call>"), FAKE_TEMPLATE.index("{%- endfor -%}\n{{- '<|im_end|>")
TAGGED_CALL = """\
{{- '<tool_call>\\n<function=' + made.name + '>\\n' -}}
{%- for key, value in made.arguments | items -%}
{{- '<parameter=' + key + '>\\n' -}}{{- value if value is string else (value | tojson) -}}{{- '\\n</parameter>\\n' -}}
{%- endfor -%}
{{- '</function>\\n</tool_call>' -}}
"""
TAGGED_TEMPLATE = FAKE_TEMPLATE[:CALL_BEGINS] + TAGGED_CALL + FAKE_TEMPLATE[CALL_ENDS:]
FINISH = {
    "openai_chat": {"call": "tool_calls", "end": "stop", "stop": "stop", "limit": "length"},
    "openai_completions": {"end": "stop", "stop": "stop", "limit": "length"},
    "openai_responses": {
        "call": "function_call",
        "end": "completed",
        "stop": "completed",
        "limit": "max_output_tokens",
    },
    "anthropic": {"call": "tool_use", "end": "end_turn", "stop": "stop_sequence", "limit": "max_tokens"},
    "ollama": {"call": "stop", "end": "stop", "stop": "stop", "limit": "length"},
    "llamacpp": {"end": "eos", "stop": "word", "limit": "limit"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with scripted(tmp_path_factory.mktemp("cases"), {"rules": RULES}) as client:
        yield client


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    assert OPEN_THOUGHT != FAKE_TEMPLATE
    script = {"rules": OPEN_RULES, "chat_template": OPEN_THOUGHT}
    with scripted(tmp_path_factory.mktemp("open"), script) as client:
        yield client


def ask(client: httpx2.Client, dialect: str, word: str, stream: bool, *tools: dict[str, Any], **more: Any) -> Said:
    fields = asking(dialect, word, **more)
    if tools:
        fields["tools"] = as_tools(dialect, *tools)
    return ASKS[dialect](client, fields, stream)


def call_deltas(said: Said) -> list[dict[str, Any]]:
    """The tool deltas of a Chat stream."""
    deltas = [choice["delta"] for frame in said.frames for choice in frame["choices"]]
    return [call for delta in deltas for call in delta.get("tool_calls", ())]


# --- tool calls


def test_case_01_shape_of_the_first_tool_delta(server: httpx2.Client) -> None:
    chat = ask(server, "openai_chat", "LETTERS", True, LOOK)
    first, *rest = call_deltas(chat)
    assert set(first) == {"index", "id", "type", "function"}
    assert first["function"] == {"name": "look", "arguments": ""}
    assert all(set(delta) == {"index", "function"} and set(delta["function"]) == {"arguments"} for delta in rest)
    assert len(rest) > 3
    starts = [
        event["content_block"]
        for event in ask(server, "anthropic", "LETTERS", True, LOOK).frames
        if event["type"] == "content_block_start"
    ]
    assert [(start["type"], start.get("name"), start.get("input")) for start in starts] == [
        ("text", None, None),
        ("tool_use", "look", {}),
    ]


@CHATS
@pytest.mark.parametrize("word", ["LETTERS", "WHOLE", "PARALLEL", "CLOSERS", "QUOTING", "HOPELESS"])
def test_case_02_the_stream_folds_to_the_whole(server: httpx2.Client, dialect: str, word: str) -> None:
    whole, stream = (ask(server, dialect, word, streamed, LOOK, SAVE) for streamed in (False, True))
    assert (stream.text, stream.calls, stream.finish) == (whole.text, whole.calls, whole.finish)
    if word in ("LETTERS", "WHOLE", "PARALLEL", "CLOSERS"):
        assert whole.calls
        assert "tool_call" not in whole.text


@CHATS
def test_case_03_the_result_does_not_depend_on_chunk_boundaries(server: httpx2.Client, dialect: str) -> None:
    for at in range(1, len(CALL), 1 if dialect == "openai_chat" else 7):
        said = ask(server, dialect, f"CUT{at}.", True, LOOK)
        assert (said.text, said.calls, said.finish) == ("", [("look", {"place": "Oslo"})], FINISH[dialect]["call"]), at


@STREAMS
@CHATS
def test_case_04_a_call_never_vanishes(server: httpx2.Client, dialect: str, stream: bool) -> None:
    cut = ask(server, dialect, "LETTERS", stream, LOOK, **limited(dialect, 60))
    assert cut.finish == FINISH[dialect]["limit"]
    assert ("look", {"place": "Oslo"}) not in cut.calls
    unknown = ask(server, dialect, "UNKNOWN", stream, LOOK)
    assert (unknown.text, unknown.calls) == (CALL.replace("look", "nope"), [])
    hopeless = ask(server, dialect, "HOPELESS", stream, LOOK)
    assert hopeless.calls or "look(place=Oslo)" in hopeless.text


@CHATS
def test_case_04_what_was_mended_is_counted(server: httpx2.Client, dialect: str) -> None:
    before = repaired(server, "commas")
    assert ask(server, dialect, "MENDED", True, LOOK).calls == [("look", {"place": "Oslo"})]
    assert repaired(server, "commas") == before + 1


def repaired(server: httpx2.Client, rung: str) -> float:
    counter = f'dragoman_repairs_total{{rung="{rung}"}} '
    lines = server.get("/metrics").text.splitlines()
    return next((float(line.removeprefix(counter)) for line in lines if line.startswith(counter)), 0.0)


@CHATS
def test_case_05_declared_tools_do_not_hold_the_text(server: httpx2.Client, dialect: str) -> None:
    said = ask(server, dialect, "PROSE", True, LOOK)
    assert "".join(said.deltas) == "".join(WORDS).lstrip() or "".join(said.deltas) == "".join(WORDS)
    assert len(said.deltas) == len(WORDS)


def test_case_06_parallel_calls_have_their_own_index_and_id(server: httpx2.Client) -> None:
    whole = ask(server, "openai_chat", "PARALLEL", False, LOOK)
    made = whole.frames[0]["choices"][0]["message"]["tool_calls"]
    assert len({call["id"] for call in made}) == 2
    said = ask(server, "openai_chat", "PARALLEL", True, LOOK)
    indexes = [
        call["index"]
        for frame in said.frames
        for choice in frame["choices"]
        for call in choice["delta"].get("tool_calls", ())
    ]
    assert indexes == sorted(indexes)
    assert set(indexes) == {0, 1}
    one = ask(server, "openai_chat", "PARALLEL", True, LOOK, parallel_tool_calls=False)
    assert one.calls == [("look", {"place": "Oslo"})]


@STREAMS
@pytest.mark.parametrize("dialect", ["openai_responses", "anthropic", "ollama"])
def test_case_06_parallel_calls_on_other_wires(server: httpx2.Client, dialect: str, stream: bool) -> None:
    both = [("look", {"place": "Oslo"}), ("look", {"place": "Rome"})]
    assert ask(server, dialect, "PARALLEL", stream, LOOK).calls == both
    if dialect == "anthropic":
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        assert ask(server, dialect, "PARALLEL", stream, LOOK, tool_choice=choice).calls == both[:1]
    elif dialect == "openai_responses":
        assert ask(server, dialect, "PARALLEL", stream, LOOK, parallel_tool_calls=False).calls == both[:1]


@STREAMS
@CHATS
def test_case_07_the_reason_tells_calls_from_prose(server: httpx2.Client, dialect: str, stream: bool) -> None:
    words = FINISH[dialect]
    assert ask(server, dialect, "LETTERS", stream, LOOK).finish == words["call"]
    assert ask(server, dialect, "PROSE", stream, LOOK).finish == words["end"]
    assert ask(server, dialect, "PROSE", stream, LOOK, **limited(dialect, 3)).finish == words["limit"]


def history(dialect: str, arguments: Any, content: Any = None, result: str = "9 degrees") -> list[dict[str, Any]]:
    """The second turn of an agent loop in this wire's spelling."""
    user = {"role": "user", "content": "PROSE"}
    if dialect == "anthropic":
        use = {"type": "tool_use", "id": "call_1", "name": "look", "input": arguments}
        told = {"type": "tool_result", "tool_use_id": "call_1", "content": result}
        return [user, {"role": "assistant", "content": [use]}, {"role": "user", "content": [told]}]
    if dialect == "openai_chat":
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    assistant = {"role": "assistant", "content": content, "tool_calls": [call]}
    return [user, assistant, {"role": "tool", "tool_call_id": "call_1", "tool_name": "look", "content": result}]


def prompt_tokens(said: Said, dialect: str) -> int:
    last = said.frames[-1]
    if dialect == "ollama":
        return last["prompt_eval_count"]
    usage = last["usage"]
    if dialect == "openai_chat":
        return usage["prompt_tokens"]
    return usage["input_tokens"] + usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)


def test_case_08_arguments_are_decoded_once_on_every_wire(server: httpx2.Client) -> None:
    counts = set[int]()
    for dialect in ("openai_chat", "anthropic", "ollama"):
        fields = {"messages": history(dialect, {"place": "Oslo"}), "tools": as_tools("openai_chat", LOOK)}
        if dialect == "anthropic":
            fields |= {"tools": as_tools(dialect, LOOK), "thinking": {"type": "adaptive"}}
        said = ASKS[dialect](server, fields, False)
        assert said.status == 200
        counts.add(prompt_tokens(said, dialect))
    assert len(counts) == 1


@pytest.mark.parametrize("arguments", ['{"place":', "look at it", "", "[1]", '"text"', "null"])
def test_case_08_invalid_arguments_in_history_are_no_server_fault(server: httpx2.Client, arguments: str) -> None:
    fields = {"messages": history("openai_chat", arguments), "tools": as_tools("openai_chat", LOOK)}
    assert ASKS["openai_chat"](server, fields, False).status in (200, 400)


@pytest.mark.parametrize("result", ["9 degrees", ""])
def test_case_09_empty_assistant_text_keeps_its_calls(server: httpx2.Client, result: str) -> None:
    counts = set[int]()
    for content in (None, "", ...):
        messages = history("openai_chat", {"place": "Oslo"}, content, result)
        if content is ...:
            del messages[1]["content"]
        said = ASKS["openai_chat"](server, {"messages": messages, "tools": as_tools("openai_chat", LOOK)}, False)
        counts.add(prompt_tokens(said, "openai_chat"))
    messages = history("anthropic", {"place": "Oslo"}, None, result)
    fields = {"messages": messages, "tools": as_tools("anthropic", LOOK), "thinking": {"type": "adaptive"}}
    counts.add(prompt_tokens(ASKS["anthropic"](server, fields, False), "anthropic"))
    assert len(counts) == 1


@STREAMS
@CHATS
def test_case_10_end_markers_in_arguments_and_quoted_markup(server: httpx2.Client, dialect: str, stream: bool) -> None:
    assert ask(server, dialect, "CLOSERS", stream, SAVE).calls == [("save", {"body": CLOSERS})]
    quoted = ask(server, dialect, "QUOTING", stream, LOOK)
    assert (quoted.text, quoted.calls) == (QUOTING, [])


@STREAMS
@CHATS
def test_case_11_argument_types_come_from_the_schema(
    tmp_path_factory: pytest.TempPathFactory, dialect: str, stream: bool
) -> None:
    script = {"rules": [rule("TAGGED", list(TAGGED))], "chat_template": TAGGED_TEMPLATE}
    with scripted(tmp_path_factory.mktemp("tagged"), script) as client:
        said = ask(client, dialect, "TAGGED", stream, TYPED, **limited(dialect, 999))
    wanted = {"zip": "02134", "n": 5, "ok": True, "tags": ["x"], "maybe": 7, "word": "true"}
    ((name, arguments),) = said.calls
    assert name == "typed"
    assert {key: arguments[key] for key in wanted} == wanted
    assert arguments["free"] in ("30", 30)


# --- reasoning


@STREAMS
@CHATS
def test_case_16_a_thought_cut_by_the_limit_stays_a_thought(thinker: httpx2.Client, dialect: str, stream: bool) -> None:
    said = ask(thinker, dialect, "ENDLESS", stream, **limited(dialect, 8), **THINKING[dialect])
    assert (said.text, said.finish) == ("", FINISH[dialect]["limit"])
    assert said.reasoning.startswith("so it goesso")


@STREAMS
@CHATS
def test_case_17_tags_do_not_leak(server: httpx2.Client, thinker: httpx2.Client, dialect: str, stream: bool) -> None:
    implied = ask(thinker, dialect, "CLOSED", stream, **THINKING[dialect])
    assert (implied.reasoning, implied.text) == ("so", "Hi")
    spelled = ask(server, dialect, "TAGS", stream, **THINKING[dialect])
    assert (spelled.reasoning, spelled.text) == ("x", "Hi <think> there")


# --- text


@STREAMS
@EVERY
def test_case_18_a_stop_string_across_tokens(server: httpx2.Client, dialect: str, stream: bool) -> None:
    said = ask(server, dialect, "HELLO", stream, **stopping(dialect, "lo wo"))
    assert (said.text, said.finish) == ("hel", FINISH[dialect]["stop"])
    both = ask(server, dialect, "HELLO", stream, **stopping(dialect, "wo", "llo"))
    assert both.text == "he"
    if dialect in ("anthropic", "llamacpp"):
        assert (said.stop, both.stop) == ("lo wo", "llo")


@EVERY
def test_case_19_characters_are_never_cut(server: httpx2.Client, dialect: str) -> None:
    said = ask(server, dialect, "BYTES", True)
    assert said.deltas == list(BYTES)
    assert ask(server, dialect, "BYTES", False).text == BYTES
    for stream in (False, True):
        cut = ask(server, dialect, "BYTES", stream, **limited(dialect, len(BYTES.encode()) - 1))
        assert cut.text == f"{BYTES[:-1]}\ufffd"


# --- log probabilities


@STREAMS
def test_case_40_one_entry_a_content_token_chat(server: httpx2.Client, stream: bool) -> None:
    said = ask(server, "openai_chat", "QUOTE", stream, logprobs=True, top_logprobs=2, **stopping("openai_chat", "STOP"))
    entries = [
        entry
        for frame in said.frames
        for choice in frame["choices"]
        if choice.get("logprobs")
        for entry in choice["logprobs"]["content"]
    ]
    assert said.text == "He said “hi "
    check_entries(entries, said.text, 2)


@STREAMS
def test_case_40_thoughts_and_tags_have_no_orphans(server: httpx2.Client, stream: bool) -> None:
    said = ask(server, "openai_chat", "MUSING", stream, logprobs=True, top_logprobs=2)
    choices = [choice for frame in said.frames for choice in frame["choices"] if choice.get("logprobs")]
    entries = [entry for choice in choices for entry in choice["logprobs"]["content"]]
    assert (said.reasoning, said.text) == ("so", "He said")
    check_entries(entries, said.text, 2)


@STREAMS
def test_case_40_one_entry_a_content_token_responses(server: httpx2.Client, stream: bool) -> None:
    include = ["message.output_text.logprobs"]
    said = ask(server, "openai_responses", "QUOTE", stream, include=include, top_logprobs=2, stop="STOP")
    if stream:
        events = [event for event in said.frames if event["type"] == "response.output_text.delta"]
        check_entries([entry for event in events for entry in event["logprobs"]], said.text, 2)
        whole = said.frames[-1]["response"]
    else:
        whole = said.frames[0]
    ((part,),) = [item["content"] for item in whole["output"]]
    assert said.text == part["text"] == "He said “hi "
    check_entries(part["logprobs"], said.text, 2)


@STREAMS
def test_case_40_one_entry_a_character_llamacpp(server: httpx2.Client, stream: bool) -> None:
    """On this wire an entry stands for what completes text."""
    said = ask(server, "llamacpp", "QUOTE", stream, n_probs=2, stop=["STOP"])
    entries = [entry for frame in said.frames for entry in frame.get("completion_probabilities") or ()]
    assert said.text == "He said “hi "
    check_entries(entries, said.text, 2)


@STREAMS
def test_case_40_one_entry_a_content_token_ollama(server: httpx2.Client, stream: bool) -> None:
    more = {"logprobs": True, "top_logprobs": 2}
    said = ask(server, "ollama", "QUOTE", stream, **more, **stopping("ollama", "STOP"))
    entries = [entry for frame in said.frames for entry in frame.get("logprobs") or ()]
    assert said.text == "He said “hi "
    check_entries(entries, said.text, 2)


@STREAMS
def test_case_40_one_entry_a_content_token_completions(server: httpx2.Client, stream: bool) -> None:
    said = ask(server, "openai_completions", "QUOTE", stream, logprobs=2, **stopping("openai_completions", "STOP"))
    parts = [choice["logprobs"] for frame in said.frames for choice in frame["choices"] if choice.get("logprobs")]
    offsets = [offset for part in parts for offset in part["text_offset"]]
    values = [value for part in parts for value in part["token_logprobs"]]
    assert said.text == "He said “hi "
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    assert all(-1e4 < value <= 0 for value in values)
    assert len(offsets) == len(values) == 5


def check_entries(entries: list[dict[str, Any]], text: str, top: int) -> None:
    assert b"".join(bytes(entry["bytes"]) for entry in entries) == text.encode()
    for entry in entries:
        rivals = [rival["logprob"] for rival in entry["top_logprobs"]]
        assert rivals == sorted(rivals, reverse=True)
        assert len(rivals) <= top
        assert -1e4 < entry["logprob"] <= 0


# --- the markup of calls, as told


def test_tool_family_as_told_by_the_operator(tmp_path_factory: pytest.TempPathFactory) -> None:
    script = {"rules": [rule("TAGGED", list(TAGGED))]}
    with scripted(tmp_path_factory.mktemp("told"), script, engine={"tool_family": "qwen3_coder"}) as client:
        said = ask(client, "openai_chat", "TAGGED", False, TYPED, max_tokens=999)
        assert said.calls[0][1]["zip"] == "02134"
    with (
        pytest.raises(DragomanError, match="hermes"),
        scripted(tmp_path_factory.mktemp("wrong"), script, engine={"tool_family": "klingon"}),
    ):
        pass
