"""llama-server's routes beside completion: what is read off the wire, and what is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import DragomanError, NotSupported
from dragoman.core.inforce import InForce
from dragoman.core.model import ModelCard
from dragoman.core.operations import Counted, CountRequest
from dragoman.core.request import ChatInput, InfillInput, RawInput
from dragoman.core.sampling import SamplingSpec
from dragoman.core.slots import Adapters, AdaptersRequest, MountedAdapter, Slot, SlotActed, SlotAction, SlotTask
from dragoman.dialects.base import (
    DropCall,
    EndThoughtCall,
    GenerateCall,
    KeptCall,
    KeptStream,
    ReplyContext,
    ResumeCall,
    SmallCall,
    StaticCall,
    WireRequest,
)
from dragoman.dialects.llamacpp.endpoints import DIALECT
from dragoman.dialects.llamacpp.infill import read_infill
from dragoman.dialects.llamacpp.schema import FIELDS, SHAPES

CARD = ModelCard(
    id="m",
    path="m",
    format="gguf",
    engine="llamacpp",
    lanes=2,
    context_length=4096,
    sampling_defaults=SamplingSpec(temperature=0.0, top_k=7, penalty_window=32),
)
ROWS = {(row.method, row.path): row for row in DIALECT.endpoints}


def call(method: str, path: str, body: Any = None, **wire: Any) -> Any:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    request = WireRequest(method=method, path=path, body=raw, card_of=lambda name: CARD, **wire)
    return ROWS[method, path].read(request)


def refusal(method: str, path: str, body: Any = None, **wire: Any) -> tuple[int, str]:
    with pytest.raises(DragomanError) as raised:
        call(method, path, body, **wire)
    reply = DIALECT.error(raised.value, "r")
    return reply.status, json.loads(reply.body)["error"]["message"]


def completion(**fields: Any) -> GenerateCall:
    found = call("POST", "/completion", {"prompt": "x", **fields})
    assert isinstance(found, GenerateCall)
    return found


def test_the_table_has_the_67_live_fields_of_llama_server() -> None:
    assert len(FIELDS) + sum(shape.live for shape in SHAPES) == 67


def test_the_servers_own_defaults_and_slots_are_in_force() -> None:
    request = completion().requests[0]
    assert (request.sampling.temperature, request.sampling.top_k, request.sampling.penalty_window) == (0.0, 7, 32)
    assert completion(top_k=3).requests[0].sampling.top_k == 3
    assert completion(n=2).requests[0].n == 2
    words = "Field 'n_cmpl': Value must be between 1 <= value <= 2, but got 3"
    assert refusal("POST", "/completion", {"prompt": "x", "n_cmpl": 3}) == (400, words)


def test_what_only_the_vocabulary_knows_goes_with_the_request() -> None:
    request = completion(
        logit_bias=[[" Paris", -5.0], ["x", True], [7, 1]],
        preserved_tokens=["<|im_end|>"],
        lora=[{"id": 1, "scale": 0.5}, {"scale": 2}],
        id_slot=3,
        n_indent=4,
        t_max_predict_ms=9,
    ).requests[0]
    assert request.biases == ((" Paris", -5.0), (7, 1.0))
    assert request.sampling.logit_bias is None
    assert (request.spelled, request.adapter_places) == (("<|im_end|>",), ((1, 0.5), (-1, 2.0)))
    assert (request.slot, request.indent, request.line_ms) == (3, 4, 9)


@pytest.mark.parametrize(("given", "slot"), [(-1, None), (None, None), ("2", None), (99, 99), (-2, -2), (1.9, 1)])
def test_slots_asked_for(given: Any, slot: int | None) -> None:
    assert completion(id_slot=given).requests[0].slot == slot


def test_settings_show_what_the_vocabulary_made_of_them() -> None:
    found = InForce(biases=((5, -5.0), (6, 1.0)), end_tokens=(0, 2), spelled=(2,))
    context = ReplyContext(card=CARD, created=1, request_id="r", in_force=(found,))
    writer: Any = completion(ignore_eos=True, lora=[{"id": 7, "scale": 0.1}], generation_prompt="<a>").writer(context)
    shown = writer._settings(0)
    assert shown["logit_bias"] == [
        {"bias": -5.0, "token": 5},
        {"bias": 1.0, "token": 6},
        {"bias": None, "token": 0},
        {"bias": None, "token": 2},
    ]
    assert (shown["preserved_tokens"], shown["generation_prompt"]) == ([2], "<a>")
    assert shown["lora"] == [{"id": 7, "scale": 0.10000000149011612}]


def test_infill() -> None:
    found = call(
        "POST",
        "/infill",
        {
            "input_prefix": "def f(",
            "input_suffix": "return x",
            "prompt": "a, ",
            "input_extra": [{"text": "b", "filename": "b.py"}, {"text": "c"}],
            "n_predict": 4,
        },
    )
    assert found.ignored == ()
    assert found.requests[0].max_tokens == 4
    assert found.requests[0].input == InfillInput(
        prefix="def f(",
        suffix="return x",
        prompt=RawInput(("a, ",)),
        extra=(("b.py", "b"), ("tmp", "c")),
        batch=2048,
        spare=2048,
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"input_suffix": "x"}, (500, "[json.exception.out_of_range.403] key 'input_prefix' not found")),
        ({"input_prefix": "x"}, (500, "[json.exception.out_of_range.403] key 'input_suffix' not found")),
        ({"input_prefix": "", "input_suffix": "", "prompt": [1]}, (400, '"prompt" must be a string')),
        (
            {"input_prefix": "", "input_suffix": "", "input_extra": [{"filename": "a"}]},
            (400, 'extra_context chunk must contain a "text" field with a string value'),
        ),
    ],
)
def test_infill_refusals(body: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refusal("POST", "/infill", body) == expected


def test_a_model_that_cannot_fill_says_so_before_its_body_is_read() -> None:
    card = ModelCard(id="m", path="", format="gguf", engine="llamacpp", no_infill="Infill is not supported.")
    wire = WireRequest(method="POST", path="/infill", body=b"{", card_of=lambda _: card)
    with pytest.raises(NotSupported, match="Infill is not supported"):
        read_infill(wire)


@pytest.mark.parametrize("verb", ["save", "restore"])
def test_slot_actions(verb: str) -> None:
    found = call("POST", "/slots/{id_slot}", {"filename": "a.bin"}, params={"id_slot": "9x"}, query={"action": verb})
    assert isinstance(found, SmallCall)
    action = found.request
    assert isinstance(action, SlotAction)
    assert (action.number, action.verb, action.name) == (9, verb, "a.bin")
    done = {"save": "n_saved", "restore": "n_restored"}[verb]
    size = {"save": "n_written", "restore": "n_read"}[verb]
    shown = json.loads(found.write(SlotActed(action=action, tokens=5, nbytes=7, ms=0.5)))
    assert shown == {"id_slot": 9, "filename": "a.bin", done: 5, size: 7, "timings": {f"{verb}_ms": 0.5}}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\\b", "a:b", "a\nb", "x" * 256, ".", "a.", " a", 'a"b'])
def test_names_that_are_no_file_names(name: str) -> None:
    wire = {"params": {"id_slot": "0"}, "query": {"action": "save"}}
    assert refusal("POST", "/slots/{id_slot}", {"filename": name}, **wire) == (400, "Invalid filename")


def test_slots_show_the_settings_of_their_task() -> None:
    task = SlotTask(id=4, sampling=SamplingSpec(temperature=0.5, repetition_penalty=1.1, seed=7), max_tokens=9)
    slots = (Slot(number=0, context=64), Slot(number=1, context=64, busy=True, tokens=8, decoded=2, task=task))
    write = call("GET", "/slots").write
    idle, busy = json.loads(write(slots))
    assert idle == {"id": 0, "n_ctx": 64, "speculative": False, "is_processing": False}
    assert len(busy["params"]) == 42
    params = busy["params"]
    assert (params["temperature"], params["repeat_penalty"], params["seed"]) == (0.5, 1.100000023841858, 7)
    assert (params["top_k"], params["n_predict"]) == (0, 9)
    assert busy["next_token"] == [{"has_next_token": True, "has_new_line": False, "n_remain": 7, "n_decoded": 2}]
    picky = call("GET", "/slots", query={"fail_on_no_slot": "1"}).write
    assert len(json.loads(picky(slots))) == 2
    with pytest.raises(DragomanError) as raised:
        picky(slots[1:])
    assert DIALECT.error(raised.value, "r").status == 503


def test_adapters() -> None:
    found = call("POST", "/lora-adapters", [{"id": 1, "scale": 0.5}])
    assert found.request == AdaptersRequest(scales=((1, 0.5),))
    mounted = Adapters((MountedAdapter("/a.gguf", AdapterScale("a", 0.5)),))
    assert found.write(mounted) == b'{"success":true}'
    shown = json.loads(call("GET", "/lora-adapters").write(mounted))
    assert shown == [{"id": 0, "path": "/a.gguf", "scale": 0.5, "task_name": "", "prompt_prefix": ""}]


def test_kept_streams() -> None:
    query = {"conv_id": "c", "from": "12"}
    resumed = call("GET", "/v1/stream", query=query)
    assert isinstance(resumed, ResumeCall)
    assert (resumed.conversation, resumed.offset) == ("c", 12)
    assert call("DELETE", "/v1/stream", query=query) == DropCall(conversation="c")
    kept = call("POST", "/v1/streams/lookup", {"conversation_ids": ["c", 5]})
    assert isinstance(kept, KeptCall)
    assert kept.conversations == ("c",)
    shown = kept.write((KeptStream(conversation="c", done=False, bytes=3, began=1, ended=None),))
    assert json.loads(shown)[0] == {
        "conversation_id": "c",
        "is_done": False,
        "total_bytes": 3,
        "started_at": 1,
        "completed_at": 0,
    }


def test_chat_side_routes() -> None:
    for path in ("/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"):
        counting = call("POST", path, {"messages": [{"role": "user", "content": "hi"}]})
        assert isinstance(counting.request, CountRequest)
        assert isinstance(counting.request.request.input, ChatInput)
        assert json.loads(counting.write(Counted(5))) == {"input_tokens": 5, "object": "response.input_tokens"}
    ending = call("POST", "/v1/chat/completions/control", {"id": "x", "action": "reasoning_end"})
    assert isinstance(ending, EndThoughtCall)
    assert json.loads(ending.write(True)) == {"success": True}
    assert json.loads(ending.write(False))["success"] is False
    assert refusal("POST", "/v1/chat/completions/control", {"id": "x", "action": "stop"})[0] == 400


@pytest.mark.parametrize("path", ["/models/load", "/models/unload", "/models"])
def test_the_router_is_refused_with_the_reason(path: str) -> None:
    with pytest.raises(NotSupported):
        call("POST", path, {"model": "m"})


def test_what_reaches_into_the_machine_is_off() -> None:
    for path in ("/tools", "/cors-proxy"):
        found = call("GET", path)
        assert isinstance(found, StaticCall)
        assert found.status == 403
