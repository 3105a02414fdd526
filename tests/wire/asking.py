"""One way to ask each dialect, raw, whole and streamed, and one shape for what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
from msgspec import Struct

ASKED = [{"role": "user", "content": "What is the weather in Oslo?"}]
LIMIT = 200


class Said(Struct):
    """What came back: `text` and `reasoning` joined, `deltas` the pieces of text as they came, `calls` as (name,
    arguments), `finish` in the wire's own word, `stop` the stop string it names. `error` is the message of an error
    body or error event, `frames` all there was."""

    status: int
    text: str = ""
    reasoning: str = ""
    deltas: list[str] = []
    stop: str | None = None
    frames: list[dict[str, Any]] = []
    calls: list[tuple[str, Any]] = []
    finish: str | None = None
    error: str | None = None
    headers: dict[str, str] = {}

    def say(self, text: str | None) -> None:
        """More text."""
        if text:
            self.text += text
            self.deltas.append(text)


Ask = Callable[[httpx2.Client, dict[str, Any], bool], Said]


def openai_chat(client: httpx2.Client, fields: dict[str, Any], stream: bool) -> Said:
    body = {"messages": ASKED, "max_tokens": LIMIT, "temperature": 0, "stream": stream, **fields}
    reply = client.post("/v1/chat/completions", json=body)
    said = Said(reply.status_code, headers=dict(reply.headers))
    frames = said.frames = _sse(reply) if stream and reply.status_code == 200 else [reply.json()]
    arguments: dict[int, list[str]] = {}
    for frame in frames:
        if "error" in frame:
            said.error = frame["error"]["message"]
            continue
        for choice in frame["choices"]:
            part = choice.get("delta") or choice.get("message") or {}
            said.say(part.get("content"))
            said.reasoning += part.get("reasoning_content") or ""
            for place, call in enumerate(part.get("tool_calls") or ()):
                index = call.get("index", place)
                if index not in arguments:
                    arguments[index] = []
                    said.calls.append((call["function"]["name"], None))
                arguments[index].append(call["function"].get("arguments") or "")
            said.finish = choice["finish_reason"] or said.finish
    said.calls = [(name, _json("".join(arguments[index]))) for index, (name, _) in enumerate(said.calls)]
    return said


def openai_completions(client: httpx2.Client, fields: dict[str, Any], stream: bool) -> Said:
    body = {"prompt": "The weather:", "max_tokens": LIMIT, "temperature": 0, "stream": stream, **fields}
    reply = client.post("/v1/completions", json=body)
    said = Said(reply.status_code, headers=dict(reply.headers))
    said.frames = _sse(reply) if stream and reply.status_code == 200 else [reply.json()]
    for frame in said.frames:
        if "error" in frame:
            said.error = frame["error"]["message"]
            continue
        for choice in frame["choices"]:
            said.say(choice["text"])
            said.finish = choice["finish_reason"] or said.finish
    return said


def anthropic(client: httpx2.Client, fields: dict[str, Any], stream: bool) -> Said:
    body = {"messages": ASKED, "max_tokens": LIMIT, "temperature": 0, "stream": stream, "model": "m", **fields}
    reply = client.post("/v1/messages", json=body)
    said = Said(reply.status_code, headers=dict(reply.headers))
    if reply.status_code != 200:
        said.error = reply.json()["error"]["message"]
    elif stream:
        _anthropic_events(_sse(reply), said)
    else:
        message = reply.json()
        said.frames = [message]
        for block in message["content"]:
            said.say(block.get("text"))
            said.reasoning += block.get("thinking", "")
        said.calls = [(block["name"], block["input"]) for block in message["content"] if block["type"] == "tool_use"]
        said.finish, said.stop = message["stop_reason"], message["stop_sequence"]
    return said


def _anthropic_events(events: list[dict[str, Any]], said: Said) -> None:
    inputs: list[list[str]] = []
    said.frames = events
    for event in events:
        match event["type"]:
            case "error":
                said.error = event["error"]["message"]
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                said.calls.append((event["content_block"]["name"], None))
                inputs.append([])
            case "content_block_delta":
                said.say(event["delta"].get("text"))
                said.reasoning += event["delta"].get("thinking", "")
                if "partial_json" in event["delta"]:
                    inputs[-1].append(event["delta"]["partial_json"])
            case "message_delta":
                said.finish, said.stop = event["delta"]["stop_reason"], event["delta"]["stop_sequence"]
            case _:
                pass
    said.calls = [(name, _json("".join(text))) for (name, _), text in zip(said.calls, inputs, strict=True)]


def openai_responses(client: httpx2.Client, fields: dict[str, Any], stream: bool) -> Said:
    """`finish` is the status of the response, the reason where it is incomplete, the kind of item where it ends in a
    call."""
    body = {"input": ASKED, "max_output_tokens": LIMIT, "temperature": 0, "store": False, "stream": stream, **fields}
    reply = client.post("/v1/responses", json=body)
    said = Said(reply.status_code, headers=dict(reply.headers))
    frames = said.frames = _sse(reply) if stream and reply.status_code == 200 else [reply.json()]
    if reply.status_code != 200:
        said.error = frames[0]["error"]["message"]
    elif stream:
        _response_events(frames, said)
    else:
        for item in frames[0]["output"]:
            _response_item(item, said)
        _response_end(frames[0], said)
    return said


def _response_item(item: dict[str, Any], said: Said) -> None:
    match item["type"]:
        case "function_call":
            said.calls.append((item["name"], _json(item["arguments"])))
        case "custom_tool_call":
            said.calls.append((item["name"], item["input"]))
        case "reasoning":
            said.reasoning += "".join(part["text"] for part in item["content"])
        case _:
            said.say("".join(part["text"] for part in item["content"]))


def _response_events(events: list[dict[str, Any]], said: Said) -> None:
    calls: dict[str, tuple[str, list[str]]] = {}
    for event in events:
        match event["type"].removeprefix("response."):
            case "output_text.delta":
                said.say(event["delta"])
            case "reasoning_text.delta":
                said.reasoning += event["delta"]
            case "output_item.added" if event["item"]["type"] == "function_call":
                calls[event["item"]["id"]] = (event["item"]["name"], [])
            case "function_call_arguments.delta":
                calls[event["item_id"]][1].append(event["delta"])
            case "completed" | "incomplete" | "failed":
                _response_end(event["response"], said)
            case _:
                pass
    said.calls = [(name, _json("".join(pieces))) for name, pieces in calls.values()]


def _response_end(response: dict[str, Any], said: Said) -> None:
    if response["error"] is not None:
        said.error = response["error"]["message"]
        return
    last = response["output"][-1]["type"] if response["output"] else ""
    reason = (response["incomplete_details"] or {}).get("reason")
    said.finish = reason or (last if last == "function_call" else response["status"])


def ollama(client: httpx2.Client, fields: dict[str, Any], stream: bool) -> Said:
    options = {"temperature": 0, "num_predict": LIMIT}
    body = {"model": "m", "messages": ASKED, "stream": stream, "options": options, **fields}
    reply = client.post("/api/chat", json=body)
    said = Said(reply.status_code, headers=dict(reply.headers))
    for line in reply.text.splitlines():
        frame = json.loads(line)
        if "error" in frame:
            said.error = frame["error"]
            continue
        said.frames.append(frame)
        said.say(frame["message"].get("content"))
        said.reasoning += frame["message"].get("thinking") or ""
        calls = frame["message"].get("tool_calls") or ()
        said.calls += [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
        said.finish = frame.get("done_reason") or said.finish
    return said


def llamacpp(client: httpx2.Client, fields: dict[str, Any], stream: bool) -> Said:
    body = {"prompt": "The weather:", "n_predict": LIMIT, "temperature": 0, "stream": stream, **fields}
    reply = client.post("/completion", json=body)
    said = Said(reply.status_code, headers=dict(reply.headers))
    for frame in _sse(reply) if stream and reply.status_code == 200 else [reply.json()]:
        if "error" in frame:
            said.error = frame["error"]["message"]
            continue
        said.frames.append(frame)
        said.say(frame["content"])
        said.finish = frame.get("stop_type") or said.finish
        said.stop = frame.get("stopping_word") or said.stop
    return said


def _sse(reply: httpx2.Response) -> list[dict[str, Any]]:
    lines = (line[6:] for line in reply.text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


ASKS: dict[str, Ask] = {
    "openai_chat": openai_chat,
    "openai_completions": openai_completions,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "ollama": ollama,
    "llamacpp": llamacpp,
}


def as_format(dialect: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The fields by which this wire asks for JSON of a schema."""
    if dialect == "anthropic":
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    if dialect == "ollama":
        return {"format": schema}
    if dialect == "llamacpp":
        return {"json_schema": schema}
    if dialect == "openai_responses":
        return {"text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}}}
    strict = {"name": "answer", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": strict}}


PATHS = {
    "openai_chat": "response_format.json_schema.schema",
    "openai_completions": "response_format.json_schema.schema",
    "openai_responses": "text.format.schema",
    "anthropic": "output_config.format.schema",
    "ollama": "format",
    "llamacpp": "json_schema",
}


def as_tools(dialect: str, *tools: dict[str, Any]) -> list[dict[str, Any]]:
    """Tools given as {name, parameters[, strict]} in this wire's spelling."""
    if dialect == "anthropic":
        return [
            {"name": tool["name"], "input_schema": tool["parameters"], "strict": tool.get("strict", False)}
            for tool in tools
        ]
    if dialect == "openai_responses":
        return [{"type": "function", "strict": False, **tool} for tool in tools]
    return [{"type": "function", "function": tool} for tool in tools]


def asking(dialect: str, text: str, /, **fields: Any) -> dict[str, Any]:
    """The fields that ask this wire `text`."""
    if dialect in ("openai_completions", "llamacpp"):
        return {"prompt": text, **fields}
    if dialect == "openai_responses":
        return {"input": text, **fields}
    return {"messages": [{"role": "user", "content": text}], **fields}


def limited(dialect: str, tokens: int) -> dict[str, Any]:
    """The fields that limit the answer."""
    match dialect:
        case "ollama":
            return {"options": {"num_predict": tokens}}
        case "llamacpp":
            return {"n_predict": tokens}
        case "openai_responses":
            return {"max_output_tokens": tokens}
        case _:
            return {"max_tokens": tokens}


def stopping(dialect: str, *stops: str) -> dict[str, Any]:
    """The fields that name stop strings."""
    match dialect:
        case "ollama":
            return {"options": {"stop": list(stops)}}
        case "anthropic":
            return {"stop_sequences": list(stops)}
        case _:
            return {"stop": list(stops)}
