"""What the Python SDK of two majors ago (1.x) does for chat, completions, responses, files, batches, embeddings and
models, against a running server.

usage: python openai_old.py BASE_URL; prints one line per check, ends with status 1 when one failed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback

import openai
from pydantic import BaseModel

TEXT = "one two three four five"
CLIENT = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="unused", max_retries=0)
CHAT = CLIENT.chat.completions


class look(BaseModel):  # noqa: N801  the SDK names the tool after the class
    place: str


TOOL = openai.pydantic_function_tool(look)


def asked(text: str) -> dict:
    return {"model": "x", "messages": [{"role": "user", "content": text}]}


def check_chat() -> None:
    answer = CHAT.create(**asked("WORDS"))
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (TEXT, "stop")
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)


def check_chat_stream() -> None:
    chunks = list(CHAT.create(**asked("WORDS"), stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TEXT
    assert chunks[-1].usage


def check_helpers() -> None:
    with CHAT.stream(**asked("WEATHER"), tools=[TOOL]) as stream:
        final = stream.get_final_completion()
    [call] = final.choices[0].message.tool_calls
    assert call.function.parsed_arguments == look(place="Oslo")
    parsed = CLIENT.beta.chat.completions.parse(**asked("WEATHER"), tools=[TOOL]).choices[0].message
    assert parsed.tool_calls[0].function.parsed_arguments == look(place="Oslo")


def check_stored() -> None:
    assert list(CHAT.list()) == []
    for call in (CHAT.retrieve, CHAT.delete, CHAT.messages.list):
        try:
            call("x")
        except openai.NotFoundError:
            continue
        raise AssertionError(call)


def check_completions() -> None:
    answer = CLIENT.completions.create(model="x", prompt=["WORDS", "EMOJI"], logprobs=1)
    assert [choice.text for choice in answer.choices] == [TEXT, "ok😀é한!"]
    chunks = CLIENT.completions.create(model="x", prompt="WORDS", stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == TEXT


def check_models() -> None:
    first = next(iter(CLIENT.models.list()))
    assert CLIENT.models.retrieve(first.id).id == first.id


def check_responses() -> None:
    answer = CLIENT.responses.create(model="x", input="WORDS")
    assert answer.output_text == TEXT
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)
    assert CLIENT.responses.retrieve(answer.id).output_text == TEXT
    following = CLIENT.responses.create(model="x", input="THINK", previous_response_id=answer.id)
    assert following.output_text == "Hi there"
    assert len(CLIENT.responses.input_items.list(following.id).data) == 3
    CLIENT.responses.delete(answer.id)
    background = CLIENT.responses.create(model="x", input="FOREVER", background=True)
    assert CLIENT.responses.cancel(background.id).status == "cancelled"


def check_response_streams() -> None:
    events = list(CLIENT.responses.create(model="x", input="WORDS", stream=True))
    assert events[-1].response.output_text == TEXT
    with CLIENT.responses.stream(model="x", input="WORDS") as stream:
        assert stream.get_final_response().output_text == TEXT
    tools = [openai.pydantic_function_tool(look)["function"] | {"type": "function"}]
    parsed = CLIENT.responses.parse(model="x", input="WEATHER", tools=tools)
    [call] = [item for item in parsed.output if item.type == "function_call"]
    assert json.loads(call.arguments) == {"place": "Oslo"}


def check_files_and_batches() -> None:
    body = asked("WORDS")
    row = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    file = CLIENT.files.create(file=("rows.jsonl", json.dumps(row).encode()), purpose="batch")
    assert CLIENT.files.retrieve(file.id).bytes == file.bytes
    made = CLIENT.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while made.status not in ("completed", "failed"):
        time.sleep(0.05)
        made = CLIENT.batches.retrieve(made.id)
    answer = json.loads(CLIENT.files.content(made.output_file_id).text)
    assert answer["response"]["body"]["choices"][0]["message"]["content"] == TEXT
    assert made.id in [batch.id for batch in CLIENT.batches.list()]
    assert CLIENT.files.delete(file.id).deleted


def check_embeddings() -> None:
    try:
        CLIENT.embeddings.create(model="x", input="hi")
    except openai.InternalServerError as error:
        caught = error
    assert (caught.status_code, caught.type) == (501, "not_supported_error")


def check_errors() -> None:
    try:
        CHAT.create(**asked("WORDS"), temperature=9)
    except openai.BadRequestError as error:
        caught = error
    assert (caught.param, caught.type) == ("temperature", "invalid_request_error")


def check_async() -> None:
    async def run() -> str | None:
        async with openai.AsyncOpenAI(base_url=str(CLIENT.base_url), api_key="unused") as client:
            return (await client.chat.completions.create(**asked("WORDS"))).choices[0].message.content

    assert asyncio.run(run()) == TEXT


def main() -> int:
    failed = 0
    for name, check in [pair for pair in globals().items() if pair[0].startswith("check_")]:
        try:
            check()
            print(f"ok {name.removeprefix('check_')}")
        except Exception:
            failed += 1
            print(f"FAILED {name.removeprefix('check_')}: {traceback.format_exc()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
