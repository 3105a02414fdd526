"""Finds the chat template of a Hugging Face checkpoint folder. Renders nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from dragoman.prompt.template import TemplateSource


def read_template(folder: Path) -> TemplateSource:
    """The template source, '' when the folder has none.

    chat_template.jinja wins over tokenizer_config.json, as in transformers; files in additional_chat_templates are
    further named templates; chat_template.json is the older form of multimodal processors.
    """
    named = {file.stem: _read(file) for file in sorted((folder / "additional_chat_templates").glob("*.jinja"))}
    main = _read(folder / "chat_template.jinja")
    if main:
        return {**named, "default": main} if named else main
    for name in ("tokenizer_config.json", "chat_template.json", "processor_config.json"):
        found = _template_in(folder / name)
        if found:
            return found
    return ""


def named_templates(value: object) -> TemplateSource:
    """The `chat_template` entry of a JSON file: one text, or a list of `{name, template}`."""
    if isinstance(value, str):
        return value
    entries = cast("list[object]", value) if isinstance(value, list) else []
    named: dict[str, str] = {}
    for entry in entries:
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        name, template = fields.get("name"), fields.get("template")
        if isinstance(name, str) and isinstance(template, str):
            named[name] = template
    return named or ""


def _template_in(file: Path) -> TemplateSource:
    try:
        value = msgspec.json.decode(_read(file) or "{}")
    except msgspec.DecodeError:
        return ""
    return named_templates(cast("dict[str, Any]", value).get("chat_template")) if isinstance(value, dict) else ""


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
