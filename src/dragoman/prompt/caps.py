"""What a chat template can render, found by rendering small conversations. Knows no core message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dragoman.core.errors import InvalidRequest
from dragoman.prompt.efforts import probe_efforts
from dragoman.prompt.template import ChatTemplate

Messages = list[dict[str, Any]]

_USER, _USER_2, _ASSISTANT = "probe-user-one", "probe-user-two", "probe-assistant"
_SYSTEM, _LATE, _RESULT, _THOUGHT = "probe-system", "probe-late", "probe-result", "probe-thought"
_TOOL, _TOOL_2, _ARGUMENT = "probe_tool", "probe_second_tool", "probe_argument"
_CALL_ID = "probe0001"
_NAMED_ID = f"functions.{_TOOL}:0"
_THINKING_KEY = re.compile(r"""\.thinking\b|\[['"]thinking['"]\]""")
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": "probe",
            "parameters": {"type": "object", "properties": {_ARGUMENT: {"type": "string"}}},
        },
    }
]


class TemplateCaps(Struct, frozen=True, kw_only=True):
    """What renders as it should.

    `late_system`: a system message in the middle or at the end stays at its place; `consecutive_users`: two user
    turns may follow each other; `user_after_tool`: a user turn may follow a tool result; `object_arguments`: tool-call
    arguments are wanted as a map, not as JSON text; `null_call_content`: calls only render where content is null;
    `named_call_ids`: the id of a call carries its name, as Kimi K2 has it; `reasoning`: `reasoning_content` of the last
    assistant turn is shown; `thinking_key`: thoughts are looked for under `thinking` (GPT-OSS); `reasoning_effort`:
    words for it make a difference.
    """

    string_content: bool = True
    typed_content: bool = False
    system_role: bool = True
    developer_role: bool = False
    late_system: bool = True
    consecutive_users: bool = True
    user_after_tool: bool = True
    tools: bool = False
    tool_calls: bool = False
    tool_results: bool = False
    parallel_tool_calls: bool = False
    object_arguments: bool = True
    null_call_content: bool = False
    named_call_ids: bool = False
    reasoning: bool = False
    thinking_key: bool = False
    reasoning_effort: bool = False


def probe_caps(template: ChatTemplate) -> TemplateCaps:
    """Renders about fifteen conversations of one to five turns; takes milliseconds."""
    return _Probe(template).caps()


class _Probe:
    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._typed = False

    def caps(self) -> TemplateCaps:
        string, typed = self._content()
        self._typed = typed and not string
        calls = self._calls()
        system = self._shows([self._turn("system", _SYSTEM), self._user(_USER)], _SYSTEM)
        return TemplateCaps(
            string_content=string or not typed,
            typed_content=typed,
            system_role=system,
            developer_role=self._developer(),
            late_system=system and self._late_system(),
            consecutive_users=self._shows([self._user(_USER), self._user(_USER_2)], _USER, _USER_2),
            user_after_tool=self._user_after_tool(null=calls.null, objects=calls.objects),
            tools=self._tools(),
            tool_calls=calls.shown,
            tool_results=calls.result,
            parallel_tool_calls=calls.shown and calls.parallel,
            object_arguments=calls.objects,
            null_call_content=calls.null,
            named_call_ids=calls.named,
            reasoning=self._reasoning(),
            thinking_key=bool(_THINKING_KEY.search(self._template.source)),
            reasoning_effort=bool(probe_efforts(self._template).words),
        )

    def _render(self, messages: Messages, tools: object = None) -> str:
        try:
            return self._template.render(
                {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": True}
            )
        except InvalidRequest:
            return ""

    def _shows(self, messages: Messages, *texts: str) -> bool:
        """Whether all texts are rendered, in this order."""
        return in_order(self._render(messages), texts)

    def _turn(self, role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}] if self._typed else text}

    def _user(self, text: str) -> dict[str, Any]:
        return self._turn("user", text)

    def _content(self) -> tuple[bool, bool]:
        string = self._shows([{"role": "user", "content": _USER}], _USER)
        typed = self._render([{"role": "user", "content": [{"type": "text", "text": _USER}]}])
        dumped = "'type'" in typed or '"type"' in typed
        return string, _USER in typed and not dumped

    def _developer(self) -> bool:
        named = "developer" in self._template.source
        return named and self._shows([self._turn("developer", _SYSTEM), self._user(_USER)], _SYSTEM, _USER)

    def _late_system(self) -> bool:
        opening = [self._turn("system", _SYSTEM), self._user(_USER), self._turn("assistant", _ASSISTANT)]
        late = self._turn("system", _LATE)
        middle = self._shows([*opening, late, self._user(_USER_2)], _USER, _ASSISTANT, _LATE, _USER_2)
        end = self._shows([*opening, self._user(_USER_2), late], _ASSISTANT, _USER_2, _LATE)
        return middle and end

    def _tools(self) -> bool:
        alone = [self._user(_USER)]
        headed = [self._turn("system", _SYSTEM), *alone]
        return any(_TOOL in self._render(messages, _TOOLS) for messages in (alone, headed))

    def _reasoning(self) -> bool:
        thoughts = {"reasoning_content": _THOUGHT, "reasoning": _THOUGHT, "thinking": _THOUGHT}
        answer = {**self._turn("assistant", _ASSISTANT), **thoughts}
        return self._shows([self._user(_USER), answer], _THOUGHT)

    def _calling(self, names: Sequence[str], arguments: object, *, null: bool, ident: str = _CALL_ID) -> Messages:
        calls = [
            {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}} for name in names
        ]
        content = None if null else self._turn("assistant", "")["content"]
        answer = {"role": "assistant", "content": content, "tool_calls": calls}
        result = {**self._turn("tool", _RESULT), "tool_call_id": ident, "name": names[0]}
        return [self._user(_USER), answer, result]

    def _calls(self) -> _Calls:
        for ident in (_CALL_ID, _NAMED_ID):
            for null in (False, True):
                found = self._calls_with(ident, null=null)
                if found.shown:
                    return found
        return _Calls()

    def _calls_with(self, ident: str, *, null: bool) -> _Calls:
        as_map = self._render(self._calling((_TOOL,), {_ARGUMENT: "value"}, null=null, ident=ident), _TOOLS)
        as_text = self._render(self._calling((_TOOL,), f'{{"{_ARGUMENT}": "value"}}', null=null, ident=ident), _TOOLS)
        sound_map, sound_text = _sound_map(as_map), _sound_text(as_text)
        if not (sound_map or sound_text):
            return _Calls()
        return _Calls(
            shown=True,
            result=_RESULT in (as_map if sound_map else as_text),
            objects=sound_map,
            null=null,
            named=ident == _NAMED_ID,
            parallel=ident == _NAMED_ID or self._parallel(null=null, objects=sound_map),
        )

    def _parallel(self, *, null: bool, objects: bool) -> bool:
        arguments: object = {_ARGUMENT: "value"} if objects else f'{{"{_ARGUMENT}": "value"}}'
        return _TOOL_2 in self._render(self._calling((_TOOL, _TOOL_2), arguments, null=null), _TOOLS)

    def _user_after_tool(self, *, null: bool, objects: bool) -> bool:
        arguments: object = {_ARGUMENT: "value"} if objects else f'{{"{_ARGUMENT}": "value"}}'
        messages = [*self._calling((_TOOL,), arguments, null=null), self._user(_USER_2)]
        return in_order(self._render(messages, _TOOLS), (_RESULT, _USER_2))


class _Calls(Struct, frozen=True, kw_only=True):
    shown: bool = False
    result: bool = False
    objects: bool = True
    null: bool = False
    named: bool = False
    parallel: bool = False


def _sound_map(rendered: str) -> bool:
    """The call is there, and not as Python's own spelling of a map."""
    call = _after_tools(rendered)
    return _ARGUMENT in call and f"'{_ARGUMENT}'" not in call


def _sound_text(rendered: str) -> bool:
    """The call is there, and its arguments are not encoded a second time."""
    call = _after_tools(rendered)
    return _ARGUMENT in call and f'\\"{_ARGUMENT}' not in call


def _after_tools(rendered: str) -> str:
    """What follows the user's text: the tool list before it names the arguments too. Empty where no call is named."""
    call = rendered.partition(_USER)[2]
    return call if _TOOL in call else ""


def in_order(text: str, parts: Sequence[str]) -> bool:
    """Whether the parts occur in this order."""
    start = 0
    for part in parts:
        found = text.find(part, start)
        if found < 0:
            return False
        start = found + len(part)
    return True
