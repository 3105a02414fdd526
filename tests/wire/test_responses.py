"""Responses on whole servers through the official SDK: answers, streams, what is kept, and what goes on alone."""

from __future__ import annotations

import base64
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel

from dragoman.config import StoreSettings
from tests.support.running import RunningServer, running
from tests.wire.clients import openai_client
from tests.wire.conftest import SCRIPT, settings
from tests.wire.scripts import scripted

DATA = Path(__file__).parents[1] / "dialects" / "openai_responses" / "data"
LOOK: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
CODEX = {"originator": "codex_exec", "user-agent": "codex_exec/0.171.0 (Linux)"}
ENDED = ("completed", "incomplete", "failed", "cancelled")


class City(BaseModel):
    name: str


@pytest.fixture
def client(fake: RunningServer) -> Iterator[openai.OpenAI]:
    with openai_client(fake.url) as client:
        yield client


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    with openai_client(request.getfixturevalue(request.param).url, timeout=120) as client:
        yield client


def until_ended(client: openai.OpenAI, id: str) -> Any:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = client.responses.retrieve(id)
        if found.status in ENDED:
            return found
        time.sleep(0.02)
    raise AssertionError("the response did not end")


def test_whole(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="m", input="WORDS", metadata={"a": "b"})
    assert (answer.output_text, answer.status, answer.model) == ("one two three four five", "completed", "fake")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert client.responses.retrieve(answer.id) == answer


def test_stream_equals_whole_and_is_kept(client: openai.OpenAI) -> None:
    with client.responses.stream(model="m", input="WEATHER", tools=[LOOK]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    call = final.output[1]
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments)) == ("look", {"place": "Oslo"})
    kept = client.responses.retrieve(final.id)
    shown = {key: value for key, value in call.to_dict().items() if key != "parsed_arguments"}
    assert kept.output[1].to_dict() == shown
    again = list(client.responses.retrieve(final.id, stream=True))
    assert [event.type for event in again] == [event.type for event in events]
    rest = list(client.responses.retrieve(final.id, stream=True, starting_after=4))
    assert [event.sequence_number for event in rest] == list(range(5, len(events)))


def test_a_whole_answer_is_played_as_a_stream_too(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="m", input="THINK")
    last = list(client.responses.retrieve(answer.id, stream=True))[-1]
    assert last.type == "response.completed"
    assert last.response == answer


def test_thoughts(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="m", input="THINK", reasoning={"summary": "auto"})
    thought = answer.output[0]
    assert thought.type == "reasoning"
    assert [part.text for part in thought.summary] == ["so so"]
    signed = client.responses.retrieve(answer.id, include=["reasoning.encrypted_content"]).output[0]
    assert signed.type == "reasoning"
    assert signed.encrypted_content


def test_continuation(client: openai.OpenAI) -> None:
    first = client.responses.create(model="m", input="WORDS", instructions="old")
    second = client.responses.create(model="m", input="THINK", previous_response_id=first.id)
    assert second.usage is not None
    asked = client.responses.input_tokens.count(model="m", input="THINK", previous_response_id=first.id)
    assert asked.input_tokens == second.usage.input_tokens
    spelled: Any = [
        {"role": "user", "content": "WORDS"},
        {"role": "assistant", "content": "one two three four five"},
        {"role": "user", "content": "THINK"},
    ]
    assert client.responses.input_tokens.count(model="m", input=spelled).input_tokens == asked.input_tokens
    items = client.responses.input_items.list(second.id, order="asc").data
    assert [item.type for item in items] == ["message", "message", "message"]
    assert [getattr(item, "role", None) for item in items] == ["user", "assistant", "user"]


def test_input_items_in_pages(client: openai.OpenAI) -> None:
    asked: Any = [{"role": "user", "content": f"{number}"} for number in range(5)]
    id = client.responses.create(model="m", input=asked).id
    page = client.responses.input_items.list(id, limit=2, order="asc")
    assert page.has_more
    assert [item.content[0].text for item in page] == ["0", "1", "2", "3", "4"]  # type: ignore[union-attr, index]
    newest = client.responses.input_items.list(id, limit=1).data
    assert newest[0].content[0].text == "4"  # type: ignore[union-attr, index]
    with pytest.raises(openai.NotFoundError):
        client.responses.input_items.list(id, after="nope")


def test_references(client: openai.OpenAI) -> None:
    first = client.responses.create(model="m", input="WORDS")
    asked: Any = [{"role": "user", "content": "WORDS"}, {"type": "item_reference", "id": first.output[0].id}]
    second = client.responses.create(model="m", input=[*asked, {"role": "user", "content": "THINK"}])
    third = client.responses.create(model="m", input="THINK", previous_response_id=first.id)
    assert second.usage is not None
    assert third.usage is not None
    assert second.usage.input_tokens == third.usage.input_tokens
    with pytest.raises(openai.NotFoundError, match="not found"):
        client.responses.create(model="m", input=[{"type": "item_reference", "id": "msg_nope"}])


def test_delete_and_unknown_ids(client: openai.OpenAI) -> None:
    id = client.responses.create(model="m", input="WORDS").id
    client.responses.delete(id)
    for asked in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            asked(id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="m", input="x", previous_response_id=id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_what_is_not_stored_is_not_found(client: openai.OpenAI) -> None:
    id = client.responses.create(model="m", input="WORDS", store=False).id
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(id)


def test_only_background_responses_can_be_cancelled(client: openai.OpenAI) -> None:
    id = client.responses.create(model="m", input="WORDS").id
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(id)


def test_background(client: openai.OpenAI) -> None:
    begun = client.responses.create(model="m", input="WORDS", background=True)
    assert begun.status in ("queued", "in_progress")
    assert until_ended(client, begun.id).output_text == "one two three four five"
    assert client.responses.cancel(begun.id).status == "completed"
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="m", input="x", background=True, store=False)


def test_background_is_cancelled_and_deleted(client: openai.OpenAI, fake: RunningServer) -> None:
    id = client.responses.create(model="m", input="FOREVER", background=True).id
    with pytest.raises(openai.BadRequestError, match="still running"):
        client.responses.create(model="m", input="x", previous_response_id=id)
    assert client.responses.cancel(id).status == "cancelled"
    assert client.responses.cancel(id).status == "cancelled"
    other = client.responses.create(model="m", input="FOREVER", background=True).id
    client.responses.delete(other)
    deadline = time.monotonic() + 10
    while fake.stats().running and time.monotonic() < deadline:
        time.sleep(0.02)
    assert fake.stats().running == 0


def test_a_lost_background_stream_is_taken_up_again(client: openai.OpenAI) -> None:
    stream = client.responses.create(model="m", input="FOREVER", background=True, stream=True, max_output_tokens=40)
    seen = []
    for event in stream:
        seen.append(event)
        if event.type == "response.output_text.delta":
            break
    stream.close()
    id = seen[0].response.id  # type: ignore[union-attr]
    rest = list(client.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number))
    numbers = [event.sequence_number for event in [*seen, *rest]]
    assert numbers == list(range(len(numbers)))
    assert rest[-1].type == "response.incomplete"
    text = "".join(event.delta for event in [*seen, *rest] if event.type == "response.output_text.delta")
    assert text == until_ended(client, id).output_text


def test_a_failing_engine(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model="m", input="ROWFAIL")
    events = list(client.responses.create(model="m", input="ROWFAIL", stream=True))
    last = events[-1]
    assert last.type == "response.failed"
    assert client.responses.retrieve(last.response.id).status == "failed"
    begun = client.responses.create(model="m", input="ROWFAIL", background=True)
    ended = until_ended(client, begun.id)
    assert ended.status == "failed"
    assert ended.error is not None
    assert ended.error.code == "server_error"


def test_case_28_a_prompt_too_long_is_refused_or_cut(client: openai.OpenAI) -> None:
    asked: Any = [
        {"role": "system", "content": "keep"},
        {"role": "user", "content": "x" * 1500},
        {"role": "assistant", "content": "y" * 1500},
        {"role": "user", "content": "WORDS"},
    ]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="m", input=asked)
    assert caught.value.code == "context_length_exceeded"
    answer = client.responses.create(model="m", input=asked, truncation="auto")
    assert answer.output_text == "one two three four five"
    short = client.responses.input_tokens.count(model="m", input=[asked[0], asked[3]])
    assert answer.usage is not None
    assert answer.usage.input_tokens == short.input_tokens


def test_case_37_mixed_tools(fake: RunningServer) -> None:
    space = {"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "inner"}]}
    tools = [LOOK, {"type": "web_search"}, {"type": "custom", "name": "patch"}, space]
    body = {"model": "m", "input": "WEATHER", "stream": True, "tools": tools}
    with httpx2.Client(base_url=fake.url) as client:
        reply = client.post("/v1/responses", json=body)
    assert reply.status_code == 200
    assert reply.headers["x-dragoman-ignored"] == "tools[1].web_search"
    last = json.loads(reply.text.strip().rsplit("data: ", 1)[1])
    assert [item["type"] for item in last["response"]["output"]] == ["message", "function_call"]


def test_forged_and_foreign_thoughts_are_dropped_and_counted(client: openai.OpenAI, fake: RunningServer) -> None:
    answer = client.responses.create(model="m", input="THINK", include=["reasoning.encrypted_content"], store=False)
    thought = answer.output[0].to_dict()
    forged = {**thought, "encrypted_content": str(thought["encrypted_content"])[:-4] + "AAAA"}

    def size(item: Any) -> int:
        asked: Any = [{"role": "user", "content": "a"}, item, {"role": "assistant", "content": "b"}]
        return client.responses.input_tokens.count(model="m", input=[item for item in asked if item]).input_tokens

    def dropped() -> float:
        text = httpx2.get(f"{fake.url}/metrics").text
        found = [line for line in text.splitlines() if line.startswith("dragoman_dropped_thoughts_total{")]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    assert size(forged) == size(None)
    before = dropped()
    asked: Any = [{"role": "user", "content": "WORDS"}, forged, {"role": "assistant", "content": "b"}]
    assert client.responses.create(model="m", input=asked, store=False).status == "completed"
    assert dropped() == before + 1
    asked[1] = thought
    client.responses.create(model="m", input=asked, store=False)
    assert dropped() == before + 1


def test_an_uploaded_text_file_is_part_of_the_prompt(client: openai.OpenAI) -> None:
    data = base64.b64encode(b"WORDS").decode()
    part: Any = {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{data}"}
    answer = client.responses.create(model="m", input=[{"role": "user", "content": [part]}])
    assert answer.output_text == "one two three four five"
    unknown: Any = {"type": "input_file", "file_id": "file-nope"}
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="m", input=[{"role": "user", "content": [unknown]}])


def test_recorded_requests_are_answered_and_codex_runs_a_custom_tool(tmp_path: Path) -> None:
    patch = {"name": "apply_patch", "arguments": {"input": "*** Begin Patch\n*** End Patch"}}
    called = f"<tool_call>\n{json.dumps(patch)}\n</tool_call>"
    script = {"context_length": 32768, "rules": [{"match": "PATCH", "pieces": ["Doing it.", called]}]}
    with scripted(tmp_path, script) as client:
        for path in sorted(DATA.glob("*.json")):
            record = json.loads(path.read_text())
            reply = client.post(record["path"], json=record["body"], headers=record["headers"])
            assert reply.status_code == 200, path.stem
            assert not record["body"].get("stream") or "response.completed" in reply.text
        tool = {"type": "custom", "name": "apply_patch", "description": "Edit."}
        asked: list[Any] = [{"role": "user", "content": "PATCH"}]
        body = {"model": "m", "input": asked, "tools": [tool], "store": False}
        output = client.post("/v1/responses", json=body, headers=CODEX).json()["output"]
        assert [(item["type"], item.get("phase")) for item in output] == [
            ("message", "commentary"),
            ("custom_tool_call", None),
        ]
        assert output[1]["input"] == "*** Begin Patch\n*** End Patch"
        result = {"type": "custom_tool_call_output", "call_id": output[1]["call_id"], "output": "ok"}
        again = client.post("/v1/responses", json={**body, "input": [*asked, *output, result]}, headers=CODEX)
        assert again.status_code == 200


def test_responses_and_key_survive_a_restart(tmp_path: Path) -> None:
    config = dataclasses.replace(
        settings(engine="fake", script=SCRIPT), state_dir=tmp_path, store=StoreSettings(ephemeral=False)
    )
    with running(config) as server, openai_client(server.url) as client:
        kept = client.responses.create(model="m", input="THINK", include=["reasoning.encrypted_content"])
        running_id = client.responses.create(model="m", input="FOREVER", background=True).id
        thought = kept.output[0].to_dict()
    assert (tmp_path / "signing.key").stat().st_mode & 0o777 == 0o600
    with running(config) as server, openai_client(server.url) as client:
        assert client.responses.retrieve(kept.id) == kept
        broken = client.responses.retrieve(running_id)
        assert (broken.status, broken.error and broken.error.code) == ("failed", "server_restarted")
        follow = client.responses.create(model="m", input="WORDS", previous_response_id=kept.id)
        assert follow.output_text == "Hi there"
        asked: Any = [{"role": "user", "content": "a"}, thought, {"role": "assistant", "content": "b"}]
        client.responses.create(model="m", input=asked)
        text = httpx2.get(f"{server.url}/metrics").text
        assert not [line for line in text.splitlines() if line.startswith("dragoman_dropped_thoughts_total{")]


@pytest.mark.parametrize("engine", ["llamacpp", "mlx"], indirect=True)
def test_on_real_engines(engine: openai.OpenAI) -> None:
    asked: Any = {"model": "m", "input": "Say hi.", "max_output_tokens": 6, "temperature": 0}
    whole = engine.responses.create(**asked)
    with engine.responses.stream(**asked) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert whole.status in ("completed", "incomplete")
    assert "".join(texts) == whole.output_text
    again = engine.responses.create(**{**asked, "input": "And now?"}, previous_response_id=whole.id, background=True)
    assert until_ended(engine, again.id).output_text
    counted = engine.responses.input_tokens.count(model="m", input="Say hi.").input_tokens
    assert whole.usage is not None
    assert counted == whole.usage.input_tokens


@pytest.mark.parametrize("engine", ["llamacpp", "mlx"], indirect=True)
def test_parse_on_real_engines(engine: openai.OpenAI) -> None:
    parsed = engine.responses.parse(
        model="m", input="Name a city as JSON.", text_format=City, max_output_tokens=60, temperature=0
    )
    if parsed.status == "completed":
        assert parsed.output_parsed is not None
    logged = engine.responses.create(
        model="m",
        input="Hi",
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        max_output_tokens=3,
        temperature=0,
    )
    part = logged.output[0].content[0]  # type: ignore[union-attr, index]
    assert part.type == "output_text"
    assert "".join(one.token for one in part.logprobs or []) == part.text
    assert all(len(one.top_logprobs) == 2 for one in part.logprobs or [])
