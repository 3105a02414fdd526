"""A model's chat template: variables in, prompt text out. Knows no core message and no token id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Template, TemplateSyntaxError, meta

from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.prompt.sandbox import ChatEnvironment, Refusal

TemplateSource = str | Mapping[str, str]

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_LONGEST_PROMPT = 64 * 1024 * 1024


class TemplateRefusal(InvalidRequest):
    """The template refused the conversation on purpose."""


class ChatTemplate:
    """One or several named templates. `default` is rendered, `tool_use` where there are tools.

    Immutable after construction, safe from any thread. Raises EngineFailure for a template that does not compile.
    """

    def __init__(self, source: TemplateSource, *, bos_token: str = "", eos_token: str = "") -> None:
        sources = {"default": source} if isinstance(source, str) else dict(source)
        if not any(text.strip() for text in sources.values()):
            sources = {"default": CHATML}
        self.source = "\n".join(sources.values())
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        environment = ChatEnvironment()
        self._templates = {name: _compile(environment, text) for name, text in sources.items()}
        self.variables = frozenset(
            variable
            for text in sources.values()
            for variable in meta.find_undeclared_variables(environment.parse(text))
        )

    def render(self, variables: Mapping[str, Any]) -> str:
        """The prompt text. Raises TemplateRefusal when the template refuses the messages, InvalidRequest when it
        fails on them in another way."""
        template = self._choose(bool(variables.get("tools")))
        try:
            return _join(template, {**self._tokens, **variables})
        except Refusal as refusal:
            raise TemplateRefusal(f"The chat template refused the messages: {refusal}", field="messages") from refusal
        except InvalidRequest:
            raise
        except Exception as error:
            raise InvalidRequest(
                f"The chat template failed on these messages: {_reason(error)}", field="messages"
            ) from error

    def _choose(self, with_tools: bool) -> Template:
        wanted = ("tool_use", "default") if with_tools else ("default",)
        for name in wanted:
            if name in self._templates:
                return self._templates[name]
        return next(iter(self._templates.values()))


def _compile(environment: ChatEnvironment, source: str) -> Template:
    try:
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        raise EngineFailure(
            f"The chat template of this model cannot be compiled: {error.message} (line {error.lineno}).",
            remedy="Repair the template in the files of the model.",
        ) from error


def _join(template: Template, variables: dict[str, Any]) -> str:
    chunks: list[str] = []
    length = 0
    for chunk in template.generate(variables):
        length += len(chunk)
        if length > _LONGEST_PROMPT:
            raise InvalidRequest(f"The rendered prompt is longer than {_LONGEST_PROMPT} characters.", field="messages")
        chunks.append(chunk)
    return "".join(chunks)


def _reason(error: Exception) -> str:
    return f"{error or type(error).__name__}".rstrip(".") + "."
