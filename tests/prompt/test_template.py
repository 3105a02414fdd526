"""Chat templates as a language: what they may use, and how they fail."""

import re
from pathlib import Path

import pytest

from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.prompt.template import ChatTemplate, TemplateRefusal
from dragoman.prompt.template_files import read_template


def render(source: object, **variables: object) -> str:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>").render({"messages": [], "tools": None, **variables})


def test_blocks_are_trimmed_as_in_transformers() -> None:
    assert render("  {% if true %}\n  a\n  {% endif %}\nb") == "  a\nb"


def test_tokens_are_given() -> None:
    assert render("{{ bos_token }}x{{ eos_token }}") == "<s>x</s>"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ value | tojson }}", '{"b": "<é&\'>", "a": [1, null]}'),
        ("{{ value | tojson(sort_keys=true) }}", '{"a": [1, null], "b": "<é&\'>"}'),
        ("{{ value | tojson(separators=(',', ':')) }}", '{"b":"<é&\'>","a":[1,null]}'),
        ("{{ value.a | tojson(indent=1) }}", "[\n 1,\n null\n]"),
        ("{{ value.b | tojson(ensure_ascii=true) }}", '"<\\u00e9&\'>"'),
    ],
)
def test_tojson_writes_plain_json(source: str, expected: str) -> None:
    assert render(source, value={"b": "<é&'>", "a": [1, None]}) == expected


def test_loop_controls_and_generation_blocks() -> None:
    source = "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}"
    assert render(source) == "13"
    assert render("{% generation %}{% set y = 2 %}{{ y }}{% endgeneration %}{{ y }}") == "22"


def test_strftime_now_formats_the_present() -> None:
    assert re.fullmatch(r"\d{4}", render("{{ strftime_now('%Y') }}"))


def test_dict_and_namespace_work() -> None:
    assert render("{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}{{ dict(b=3)['b'] }}") == "23"


def test_tool_use_template_where_there_are_tools() -> None:
    named = {"default": "plain", "tool_use": "tools"}
    assert render(named) == "plain"
    assert render(named, tools=[{}]) == "tools"
    assert render({"other": "only"}) == "only"


@pytest.mark.parametrize("source", ["", "  \n", {}, {"default": ""}])
def test_no_template_is_chatml(source: object) -> None:
    messages = [{"role": "user", "content": "hi"}]
    expected = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert render(source, messages=messages, add_generation_prompt=True) == expected


def test_a_refusal_carries_its_reason() -> None:
    with pytest.raises(TemplateRefusal, match="The chat template refused the messages: roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.status == 400
    assert caught.value.field == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.x }}",
        "{{ 'a' + 1 }}",
        "{{ missing.attribute }}",
        "{{ 1 / 0 }}",
        "{{ none + 1 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ undefined_function() }}",
        "{{ messages.append(1) }}",
    ],
)
def test_every_failure_is_the_request_s_fault(source: str) -> None:
    with pytest.raises(InvalidRequest, match="chat template failed") as caught:
        render(source)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 100000000 }}",
        "{{ [1] * 100000000 }}",
        "{{ 100000000 * 'x' }}",
        "{{ 10 ** 100000 }}",
        "{% for a in range(1000000000) %}x{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ raise_exception.__globals__.json }}",
        "{{ strftime_now.__code__.co_code }}",
        "{% set ns = namespace() %}{% set ns.__init__ = 1 %}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(InvalidRequest):
        render(source)


def test_a_runaway_template_is_stopped() -> None:
    source = "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'x' * 99999 }}{% endfor %}{% endfor %}"
    with pytest.raises(InvalidRequest, match="longer than"):
        render(source)


@pytest.mark.parametrize("source", ["{% if %}", "{{ x | nosuchfilter }}", "{% for x in %}", "{{"])
def test_a_template_that_does_not_compile_is_told_at_load(source: str) -> None:
    with pytest.raises(EngineFailure, match="cannot be compiled"):
        ChatTemplate(source)


def test_files_of_a_folder(tmp_path: Path) -> None:
    assert read_template(tmp_path) == ""
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"chat_template": "a"}')
    assert read_template(tmp_path) == "a"
    config.write_text(
        '{"chat_template": [{"name": "default", "template": "b"}, {"name": "tool_use", "template": "c"}, 5]}'
    )
    assert read_template(tmp_path) == {"default": "b", "tool_use": "c"}
    (tmp_path / "chat_template.jinja").write_text("d")
    assert read_template(tmp_path) == "d"
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("e")
    assert read_template(tmp_path) == {"default": "d", "tool_use": "e"}


@pytest.mark.parametrize("content", ["{broken", "[1]", '{"chat_template": 5}', '{"chat_template": [1, {"name": 2}]}'])
def test_odd_files_are_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    assert read_template(tmp_path) == ""
