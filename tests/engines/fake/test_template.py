"""The chat template, rendered as the prompt station would."""

from __future__ import annotations

from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from dragoman.engines.fake import FAKE_TEMPLATE


def render(messages: list[dict[str, Any]], **values: Any) -> str:
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(FAKE_TEMPLATE)
    return template.render(messages=messages, bos_token="", **values)


def test_turns_and_generation_prompt() -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    turns = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    assert render(messages) == turns
    assert render(messages, add_generation_prompt=True) == turns + "<|im_start|>assistant\n"


def test_thinking_can_be_switched_off() -> None:
    closed = "<think>\n\n</think>\n\n"
    messages = [{"role": "user", "content": "Hi"}]
    assert render(messages, add_generation_prompt=True, enable_thinking=False).endswith("assistant\n" + closed)
    assert not render(messages, add_generation_prompt=True, enable_thinking=True).endswith(closed)


def test_tools_calls_and_results() -> None:
    tool = {"type": "function", "function": {"name": "look"}}
    call = {"function": {"name": "look", "arguments": {"place": "Oslo"}}}
    text = render(
        [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call, call]},
            {"role": "tool", "content": "rain"},
        ],
        tools=[tool],
    )
    assert "<tools>\n" in text
    assert '"look"' in text.split("</tools>")[0]
    made = '<tool_call>\n{"name": "look", "arguments": {"place": "Oslo"}}\n</tool_call>'
    assert f"assistant\n<think>\nhm\n</think>\n\n{made}\n{made}<|im_end|>" in text
    assert "<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>" in text


def test_late_system_messages_stay_in_place() -> None:
    text = render([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}])
    assert text == "<|im_start|>user\na<|im_end|>\n<|im_start|>system\nb<|im_end|>\n"
