"""A llama-server command line, and its environment, taken apart by the table of flags. Gives no flag a meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dragoman.cli.llama_server.flags import BY_NAME, FLAGS, Flag
from dragoman.core.errors import InvalidRequest

_TRUE = frozenset({"1", "true", "on", "enabled"})
_FALSE = frozenset({"0", "false", "off", "disabled"})
_VALUES = _TRUE | _FALSE | {"auto"}
"""What a flag that may have an argument takes as one."""


class Given(Struct, frozen=True):
    """A flag as it was given: `said` is the spelling or the variable, `value` '' for a switch."""

    flag: Flag
    said: str
    value: str = ""


class BadFlag(InvalidRequest):
    """A command line that cannot be followed."""


def read(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[Given, ...]:
    """The flags in force: those of the environment that the command line does not give, then its own in order. Raises
    BadFlag for what is no flag, lacks its argument, or is refused."""
    told = tuple(_told(arguments))
    named = {given.flag for given in told}
    found = (*(given for given in _from(environ) if given.flag not in named), *told)
    for given in found:
        if given.flag.means == "refused":
            raise BadFlag(f"llama-server's {given.said} cannot be used here: {given.flag.why}.")
    return found


def _told(arguments: Sequence[str]) -> Iterator[Given]:
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        flag = BY_NAME.get(name) or BY_NAME.get(name.replace("_", "-"))
        if flag is None:
            raise BadFlag(
                f"'{word}' is no flag of llama-server that is known here.", remedy="See docs/llama-server.md."
            )
        if flag.argument == "none":
            if equals:
                raise BadFlag(f"llama-server's {name} takes no value.")
            yield Given(flag, name)
        elif equals:
            yield Given(flag, name, value)
        elif flag.argument == "maybe" and (not words or words[0].lower() not in _VALUES):
            yield Given(flag, name, "on")
        elif not words:
            raise BadFlag(f"llama-server's {name} needs a value.")
        else:
            yield Given(flag, name, words.pop(0))


def _from(environ: Mapping[str, str]) -> Iterator[Given]:
    for flag in FLAGS:
        for variable in flag.variables:
            value = environ.get(variable)
            if value is None or variable == "HF_TOKEN":
                continue  # the hub's own variable works as it is
            if flag.argument != "none":
                yield Given(flag, variable, value)
            elif value.lower() in _TRUE:
                yield Given(flag, variable)
            elif value.lower() not in _FALSE:
                raise BadFlag(f"The variable {variable} must be true or false, not '{value}'.")
