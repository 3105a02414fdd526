"""What is found out about templates by rendering with them."""

import pytest

from dragoman.prompt.caps import TemplateCaps, in_order, probe_caps
from dragoman.prompt.template import ChatTemplate
from tests.prompt import templates


def caps(source: str) -> TemplateCaps:
    return probe_caps(ChatTemplate(source, bos_token="<s>", eos_token="</s>"))


def test_chatml_takes_any_role_anywhere_but_no_tools() -> None:
    found = caps(templates.SMOLLM2)
    assert found == TemplateCaps()
    assert not found.tools
    assert found.late_system


def test_qwen3_like() -> None:
    assert caps(templates.QWEN3) == TemplateCaps(
        tools=True, tool_calls=True, tool_results=True, parallel_tool_calls=True, reasoning=True
    )


def test_mistral_like_alternates() -> None:
    found = caps(templates.MISTRAL)
    assert found.system_role
    assert not found.late_system
    assert not found.consecutive_users
    assert not found.tool_calls


def test_gemma_like_has_no_system_role() -> None:
    found = caps(templates.GEMMA)
    assert not found.system_role
    assert not found.late_system


def test_content_arrays() -> None:
    assert (caps(templates.TYPED).string_content, caps(templates.TYPED).typed_content) == (False, True)
    both = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    both += "{{ p.text }}{% endfor %}{% endif %}{% endfor %}"
    assert (caps(both).string_content, caps(both).typed_content) == (True, True)
    assert not caps("{% for m in messages %}{{ m.content | tojson }}{% endfor %}").typed_content


def test_developer_role_must_be_named_and_shown() -> None:
    assert caps(templates.DEVELOPER).developer_role
    assert not caps(templates.SMOLLM2).developer_role
    refusing = (
        "{% for m in messages %}{% if m.role == 'developer' %}{{ raise_exception('no') }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    assert not caps(refusing).developer_role


def test_arguments_as_text_and_calls_only_beside_null_content() -> None:
    found = caps(templates.TEXT_ARGUMENTS)
    assert found.tool_calls
    assert not found.object_arguments
    assert found.null_call_content


def test_a_map_written_the_python_way_is_not_sound() -> None:
    source = templates.PICKY_MAP.replace(
        "{% for key, value in call.function.arguments | items %} {{ key }}={{ value }}{% endfor %}",
        "{{ call.function.arguments }}",
    )
    assert source != templates.PICKY_MAP
    assert not caps(source).object_arguments
    assert caps(templates.PICKY_MAP).object_arguments


def test_a_hoisted_late_system_message_is_not_at_its_place() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.role }}{{ m.content }}{% endif %}{% endfor %}"
    )
    assert caps(source).system_role
    assert not caps(source).late_system


@pytest.mark.parametrize("source", ["constant", "{{ raise_exception('never') }}", "{{ messages[7].content.x }}"])
def test_useless_templates_have_no_abilities_but_are_probed(source: str) -> None:
    found = caps(source)
    assert not any((found.tools, found.tool_calls, found.system_role, found.late_system))
    assert found.string_content


@pytest.mark.parametrize(
    ("parts", "expected"), [(("a", "b"), True), (("b", "a"), False), (("a", "a"), False), ((), True)]
)
def test_in_order(parts: tuple[str, ...], expected: bool) -> None:
    assert in_order("a-b", parts) is expected
