"""The loops of `make frameworks`, run inside its own environment: `python framework_loops.py URL LOOP…`, a line of JSON
each. A tiny model decides nothing here: every call and every form is forced, so only the server is on trial."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, Field

ASKED = "What is the weather in Oslo? Use the tool."
MODEL = "starter"
LIMIT = 200
# A tiny model that may call several times goes on calling.
SETTINGS = {"temperature": 0.0, "max_tokens": LIMIT, "parallel_tool_calls": False}


class Weather(BaseModel):
    """The weather at a place."""

    place: Literal["Oslo", "Rome", "Lima"]
    sky: Literal["clear", "cloudy", "rain"]
    degrees: int = Field(ge=-40, le=50)
    windy: bool


class Notebook:
    """Calls the model made."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def look(self, place: Literal["Oslo", "Rome", "Lima"]) -> str:
        self.calls.append(place)
        return f"{place}: clear, 21 degrees, no wind"


def pydantic_ai_tools_chat(url: str) -> None:
    """A call in the first step, words in the second, on the Chat wire."""
    _pydantic_ai_tools(_pydantic_ai_chat(url))


def pydantic_ai_tools_messages(url: str) -> None:
    """The same on the Messages wire."""
    _pydantic_ai_tools(_pydantic_ai_messages(url))


def pydantic_ai_output_tool_chat(url: str) -> None:
    """Structured output through a forced output tool, on the Chat wire."""
    _pydantic_ai_output(_pydantic_ai_chat(url), Weather)


def pydantic_ai_output_tool_messages(url: str) -> None:
    """The same on the Messages wire."""
    _pydantic_ai_output(_pydantic_ai_messages(url), Weather)


def pydantic_ai_native_chat(url: str) -> None:
    """Structured output through a strict schema, on the Chat wire."""
    from pydantic_ai import NativeOutput

    _pydantic_ai_output(_pydantic_ai_chat(url), NativeOutput(Weather))


def openai_agents_tools(url: str) -> None:
    """A required call, then words, whole."""
    from agents import Runner

    notes = Notebook()
    result = Runner.run_sync(_openai_agent(url, notes), ASKED, max_turns=4)
    _check(notes, result.final_output)


def openai_agents_output(url: str) -> None:
    """Structured output through a strict schema."""
    from agents import Agent, ModelSettings, Runner

    agent = Agent(
        name="weather", output_type=Weather, model=_openai_model(url), model_settings=ModelSettings(**SETTINGS)
    )
    found = Runner.run_sync(agent, "Describe clear weather in Oslo.").final_output
    assert isinstance(found, Weather), found


def openai_agents_tools_streamed(url: str) -> None:
    """The same, streamed."""
    from agents import Runner

    async def run() -> tuple[Notebook, object]:
        notes = Notebook()
        result = Runner.run_streamed(_openai_agent(url, notes), ASKED, max_turns=4)
        async for _ in result.stream_events():
            pass
        return notes, result.final_output

    _check(*asyncio.run(run()))


def instructor_tools(url: str) -> None:
    """A named tool."""
    _instructor(url, "TOOLS")


def instructor_json_schema(url: str) -> None:
    """A schema as the response format."""
    _instructor(url, "JSON_SCHEMA")


def langchain_openai_chat(url: str) -> None:
    """Words, a stream, a required call and an object on the Chat wire."""
    from langchain_openai import ChatOpenAI

    _langchain(ChatOpenAI(base_url=f"{url}/v1", api_key="unused", model=MODEL, temperature=0, max_tokens=LIMIT))


def langchain_openai_responses(url: str) -> None:
    """The same on the Responses wire."""
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        base_url=f"{url}/v1", api_key="unused", model=MODEL, temperature=0, max_tokens=LIMIT, use_responses_api=True
    )
    _langchain(model)


def langchain_anthropic_messages(url: str) -> None:
    """The same on the Messages wire."""
    from langchain_anthropic import ChatAnthropic

    _langchain(ChatAnthropic(base_url=url, api_key="unused", model=MODEL, temperature=0, max_tokens=LIMIT))


def langchain_ollama_chat(url: str) -> None:
    """Words, a stream, offered tools and an object on Ollama's wire, which cannot force a call."""
    from langchain_ollama import ChatOllama

    model = ChatOllama(base_url=url, model=MODEL, temperature=0, num_predict=LIMIT)
    assert model.invoke("Say hello.").content
    assert "".join(str(chunk.content) for chunk in model.stream("Say hello."))
    assert model.bind_tools([Weather]).invoke(ASKED)
    found = model.with_structured_output(Weather, method="json_schema").invoke("Describe clear weather in Oslo.")
    assert isinstance(found, Weather), found


def langchain_community_native(url: str) -> None:
    """llama-server's own wire by its client: /completion whole and streamed."""
    from langchain_community.llms.llamafile import Llamafile

    model = Llamafile(base_url=url, temperature=0.0, n_predict=8)
    assert model.invoke("The capital of France is").strip()
    assert "".join(model.stream("The capital of France is")).strip()


def litellm_wires(url: str) -> None:
    """Words, whole and streamed, through every provider whose wire is served."""
    import os

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    asked = [{"role": "user", "content": "Say hello."}]
    for provider, base in _LITELLM.items():
        common = {"model": f"{provider}/{MODEL}", "messages": asked, "api_base": url + base, "api_key": "unused"}
        common |= {"max_tokens": 8, "temperature": 0, "num_retries": 0}
        whole = litellm.completion(**common)
        assert whole.choices[0].message.content, provider
        assert whole.usage.completion_tokens, provider
        parts = list(litellm.completion(**common, stream=True))
        assert "".join(part.choices[0].delta.content or "" for part in parts), provider


_LITELLM = {
    "openai": "/v1",
    "hosted_vllm": "/v1",
    "lm_studio": "/v1",
    "llamafile": "/v1",
    "text-completion-openai": "/v1",
    "anthropic": "",
    "ollama": "",
    "ollama_chat": "",
}


def _langchain(model) -> None:
    assert model.invoke("Say hello.").content
    assert any(chunk.content for chunk in model.stream("Say hello."))
    called = model.bind_tools([Weather], tool_choice="any").invoke(ASKED)
    assert called.tool_calls, called
    Weather.model_validate(called.tool_calls[0]["args"])
    found = model.with_structured_output(Weather).invoke("Describe clear weather in Oslo.")
    assert isinstance(found, Weather), found


def _pydantic_ai_chat(url: str):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="unused"))


def _pydantic_ai_messages(url: str):
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel(MODEL, provider=AnthropicProvider(base_url=url, api_key="unused"))


def _pydantic_ai_tools(model) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability

    class FirstCallThenWords(AbstractCapability):
        def get_model_settings(self):
            return lambda context: {"tool_choice": "required" if context.run_step <= 1 else "none"}

    notes = Notebook()
    agent = Agent(
        model,
        model_settings=dict(SETTINGS),
        capabilities=[FirstCallThenWords()],
        tools=[notes.look],
    )
    said = agent.run_sync(ASKED).output
    assert notes.calls, "no tool was called"
    assert isinstance(said, str), said
    assert said, "no answer"


def _pydantic_ai_output(model, output) -> None:
    from pydantic_ai import Agent

    agent = Agent(model, output_type=output, model_settings=dict(SETTINGS), retries=0)
    found = agent.run_sync("Describe clear weather in Oslo.").output
    assert isinstance(found, Weather), found


def _openai_agent(url: str, notes: Notebook):
    from agents import Agent, ModelSettings, function_tool

    @function_tool
    def look(place: Literal["Oslo", "Rome", "Lima"]) -> str:
        """The weather at a place."""
        return notes.look(place)

    return Agent(
        name="weather",
        instructions="Use the tool once, then answer.",
        tools=[look],
        model=_openai_model(url),
        model_settings=ModelSettings(
            temperature=0.0, max_tokens=LIMIT, tool_choice="required", parallel_tool_calls=False
        ),
    )


def _openai_model(url: str):
    from agents import OpenAIChatCompletionsModel, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)
    return OpenAIChatCompletionsModel(MODEL, openai_client=client)


def _check(notes: Notebook, found: object) -> None:
    assert notes.calls, "no tool was called"
    assert isinstance(found, str), found
    assert found, "no answer"


def _instructor(url: str, mode: str) -> None:
    import instructor
    from openai import OpenAI

    client = instructor.from_openai(
        OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0), mode=instructor.Mode[mode]
    )
    found = client.chat.completions.create(
        model=MODEL,
        response_model=Weather,
        messages=[{"role": "user", "content": "Describe clear weather in Oslo, 21 degrees, no wind."}],
        temperature=0,
        max_tokens=LIMIT,
        max_retries=0,
    )
    assert isinstance(found, Weather), found


LOOPS: dict[str, Callable[[str], None]] = {
    loop.__name__: loop
    for loop in (
        pydantic_ai_tools_chat,
        pydantic_ai_tools_messages,
        pydantic_ai_output_tool_chat,
        pydantic_ai_output_tool_messages,
        pydantic_ai_native_chat,
        openai_agents_tools,
        openai_agents_tools_streamed,
        openai_agents_output,
        instructor_tools,
        instructor_json_schema,
        langchain_openai_chat,
        langchain_openai_responses,
        langchain_anthropic_messages,
        langchain_ollama_chat,
        langchain_community_native,
        litellm_wires,
    )
}


def main() -> None:
    """Run the loops named; without arguments, name them."""
    if len(sys.argv) == 1:
        print("\n".join(LOOPS))
    for name in sys.argv[2:]:
        fault = None
        try:
            LOOPS[name](sys.argv[1])
        except Exception as error:
            traceback.print_exc()
            fault = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps({"loop": name, "fault": fault}), flush=True)


if __name__ == "__main__":
    main()
