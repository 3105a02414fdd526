"""Conversations by Go templates of the kind that Modelfiles carry."""

from __future__ import annotations

import pytest

from dragoman.core.errors import UnsupportedField
from dragoman.core.messages import Message, TextPart, ToolCallPart, ToolResultPart
from dragoman.core.request import ChatInput, Thinking
from dragoman.prompt.go.chat import render_go
from dragoman.prompt.go.fault import GoTemplateFault
from dragoman.prompt.turns import read_turns

CHATML = """{{- if .System }}<|im_start|>system
{{ .System }}<|im_end|>
{{ end }}{{ if .Prompt }}<|im_start|>user
{{ .Prompt }}<|im_end|>
{{ end }}<|im_start|>assistant
{{ .Response }}<|im_end|>
"""
TOOLS = """{{- if .Tools }}TOOLS{{ range .Tools }}
{{ json .Function }}{{ end }}
{{ end }}
{{- range $i, $m := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 -}}
<{{ .Role }}>{{ .Content }}
{{- range .ToolCalls }}[{{ .Function.Name }} {{ .Function.Arguments }}]{{ end }}
{{- if $last }}!{{ else }};{{ end }}
{{- end }}<assistant>"""
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def said(role: str, text: str) -> Message:
    return Message(role, (TextPart(text),))  # type: ignore[arg-type]


def render(template: str, *messages: Message, tools: list | None = None, thinking: Thinking = Thinking()) -> str:  # noqa: B008
    chat = ChatInput(messages=messages, template=template, thinking=thinking)
    return render_go(chat, read_turns(messages), tools or [])


def test_exchanges() -> None:
    text = render(CHATML, said("system", "S"), said("user", "a"), said("assistant", "b"), said("user", "c"))
    assert text == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_begun_answer_is_left_open() -> None:
    assert render("[{{ .Prompt }}] {{ .Response }} end", said("user", "a"), said("assistant", "b")) == "[a] b"


def test_a_template_without_a_place_for_the_answer_has_it_at_its_end() -> None:
    assert render("<{{ .Prompt }}>", said("user", "a"), said("assistant", "b"), said("user", "c")) == "<a>b<c>"


def test_messages_and_tools() -> None:
    text = render(
        TOOLS,
        said("user", "a"),
        Message("assistant", (ToolCallPart("c", "look", '{"at": 1}'),)),
        Message("tool", (ToolResultPart("c", (TextPart("r"),), "look"),)),
        tools=[TOOL],
    )
    assert text == (
        'TOOLS\n{"name":"look","parameters":{"type":"object"}}\n<user>a;<assistant>[look {"at":1}];<tool>r!<assistant>'
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{/* nothing */}}a", "a"),
        ("a  {{- /* trims */ -}}  b", "ab"),
        ("{{ `raw {{ }}` }}", "raw {{ }}"),
        (r'{{ "a\n\"b\"\x41é" }}', 'a\n"b"Aé'),
        ("{{ with .Prompt }}<{{ . }}>{{ else }}none{{ end }}", "<hi>"),
        ("{{ with .System }}<{{ . }}>{{ else }}none{{ end }}", "none"),
        ("{{ if and .Prompt (not .System) }}1{{ else if .System }}2{{ else }}3{{ end }}", "1"),
        ("{{ if or .System (eq .Prompt \"x\" \"hi\") }}1{{ end }}", "1"),
        ("{{ $a := 1 }}{{ if true }}{{ $a = 2 }}{{ $b := 3 }}{{ end }}{{ $a }}", "2"),
        ("{{ range $i, $e := .Messages }}{{ $i }}{{ end }}", "0"),
        ("{{ range .Messages }}{{ .Content }}{{ break }}{{ end }}", "hi"),
        ("{{ range 3 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ . }}{{ end }}", "02"),
        ("{{ (index .Messages 0).Role }}", "user"),
        ("{{ .Prompt | len | printf \"%d%%\" }}", "2%"),
        ("{{ slice .Prompt 1 }}{{ print 1 2 }}", "i1 2"),
        ("{{ .Nothing }}{{ lt 1 2 }}{{ -3 }}", "true-3"),
        ("{{ .Think }}{{ .ThinkLevel }}", "truehigh"),
        ("{{- if false }}{{ template }}x", None),
    ],
)  # fmt: skip
def test_actions(template: str, text: str | None) -> None:
    thinking = Thinking("on", effort="high")
    if text is None:
        with pytest.raises(GoTemplateFault):
            render(template, said("user", "hi"), thinking=thinking)
    elif "Messages" in template:
        assert render(template, said("user", "hi"), thinking=thinking) == text
    else:
        # A template that has no place for the answer gets one at its end.
        assert render(template, said("user", "hi"), thinking=thinking) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{", "{{ }}", "{{ if }}x{{ end }}", "{{ if .A }}", "{{ end }}", "{{ else }}", "{{ nope 1 }}", "{{ .A .B }}",
        "{{ break }}", "{{ (.A }}", "{{ $x }}", "{{ $x = 1 }}", "{{ .Prompt.Name }}", "{{ index .Messages 7 }}",
        "{{ len 1 }}", "{{ lt 1 `a` }}", "{{ 1 | 2 }}", "{{ printf `%z` 1 }}",
        '{{ define "x" }}{{ end }}', "{{ \x00 }}",
        "{{ range 2000000 }}x{{ end }}", "{{ range 300 }}{{ range 300 }}{{ range 300 }}x{{ end }}{{ end }}{{ end }}",
        "{{ if true }}" * 60 + "{{ end }}" * 60, "{{ " + "(" * 60 + "1" + ")" * 60 + " }}", "{{ slice .Prompt 9 }}",
        r'{{ "\ud800" }}', "{{ not }}", "{{ .Messages.Role }}",
    ],
)  # fmt: skip
def test_faults_name_the_template(template: str) -> None:
    with pytest.raises(GoTemplateFault) as caught:
        render(template, said("user", "hi"))
    assert caught.value.field == "template"


def test_tools_without_a_place_are_refused() -> None:
    with pytest.raises(UnsupportedField) as caught:
        render(CHATML, said("user", "hi"), tools=[TOOL])
    assert caught.value.field == "tools"
