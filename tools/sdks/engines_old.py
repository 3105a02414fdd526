"""What the Python SDK of two majors ago (1.x) reads from a server whose model says what it likes: every method and
helper gets its answer, and whole and streamed agree.

usage: python engines_old.py BASE_URL; prints one line per check, ends with status 1 when one failed.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from typing import Literal

import openai
from pydantic import BaseModel

CLIENT = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="unused", max_retries=0)
CHAT = CLIENT.chat.completions
UNCACHED = {"cache_prompt": False}


class look(BaseModel):  # noqa: N801  the SDK names the tool after the class
    place: Literal["Oslo", "Rome"]


TOOL = openai.pydantic_function_tool(look)
FORCED = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}}


def asked(text: str, tokens: int = 12) -> dict:
    messages = [{"role": "user", "content": text}]
    return {"model": "x", "messages": messages, "temperature": 0, "max_tokens": tokens}


def check_chat() -> None:
    answer = CHAT.create(**asked("Name a colour."), extra_body=UNCACHED)
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)
    chunks = CHAT.create(**asked("Name a colour."), stream=True, extra_body=UNCACHED)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == answer.choices[0].message.content


def check_helpers() -> None:
    parsed = CLIENT.beta.chat.completions.parse(**asked("Where?", 60), response_format=look)
    assert isinstance(parsed.choices[0].message.parsed, look)
    called = CLIENT.beta.chat.completions.parse(**asked("Look.", 80), **FORCED).choices[0].message
    assert isinstance(called.tool_calls[0].function.parsed_arguments, look)
    with CHAT.stream(**asked("Look.", 80), **FORCED) as stream:
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.tool_calls[0].function.parsed_arguments, look)


def check_completions() -> None:
    body = {"model": "x", "prompt": ["One two", "Red green"], "temperature": 0, "max_tokens": 8}
    answer = CLIENT.completions.create(**body, logprobs=1, extra_body=UNCACHED)
    said = ["", ""]
    for chunk in CLIENT.completions.create(**body, stream=True, extra_body=UNCACHED):
        for choice in chunk.choices:
            said[choice.index] += choice.text
    assert [choice.text for choice in answer.choices] == said
    assert "".join(answer.choices[0].logprobs.tokens) == said[0]


def check_responses() -> None:
    body = {"model": "x", "input": "Name a colour.", "temperature": 0, "max_output_tokens": 12}
    answer = CLIENT.responses.create(**body)
    type(answer).model_validate_json(answer.model_dump_json(), strict=True)
    assert CLIENT.responses.retrieve(answer.id).output_text == answer.output_text
    following = CLIENT.responses.create(**{**body, "input": "Another."}, previous_response_id=answer.id)
    assert len(CLIENT.responses.input_items.list(following.id).data) == 3
    # One that its limit cuts is incomplete, and this SDK's helper wants a complete one.
    assert list(CLIENT.responses.create(**body, stream=True))[-1].response.status == "incomplete"
    formed = {**body, "max_output_tokens": 60, "text_format": look}
    with CLIENT.responses.stream(**formed) as stream:
        assert isinstance(stream.get_final_response().output_parsed, look)
    assert isinstance(CLIENT.responses.parse(**formed).output_parsed, look)
    CLIENT.responses.delete(answer.id)
    long = CLIENT.responses.create(**{**body, "max_output_tokens": 900}, background=True)
    assert CLIENT.responses.cancel(long.id).status == "cancelled"


def check_files_and_batches() -> None:
    row = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": asked("Name a colour.")}
    file = CLIENT.files.create(file=("rows.jsonl", json.dumps(row).encode()), purpose="batch")
    made = CLIENT.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while made.status not in ("completed", "failed"):
        time.sleep(0.1)
        made = CLIENT.batches.retrieve(made.id)
    answer = json.loads(CLIENT.files.content(made.output_file_id).text)
    assert answer["response"]["body"]["choices"][0]["message"]["content"]
    assert CLIENT.files.delete(file.id).deleted


def check_models() -> None:
    first = next(iter(CLIENT.models.list()))
    assert CLIENT.models.retrieve(first.id).id == first.id


def main() -> int:
    failed = 0
    for name, check in [pair for pair in globals().items() if pair[0].startswith("check_")]:
        try:
            check()
            print(f"ok {name.removeprefix('check_')}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name.removeprefix('check_')}: {traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
