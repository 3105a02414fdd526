"""Constrained answers of real engines, judged by jsonschema.

A random model may never close a string, a number or a recursion: such an answer is cut by its limit, promises nothing
(its finish says so) and is not counted; the next seed is drawn instead. Answers that do end are all counted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from dragoman.backend.base import Backend
from dragoman.core.constraint import Constraint
from dragoman.core.exchange import EngineFinish, EngineRequest
from dragoman.core.sampling import SamplingSpec
from dragoman.core.vocabulary import Tokenizer
from dragoman.grammar.compiler import Compiler
from tests.grammar.rig import SCHEMAS, schema_format


@dataclass
class Tally:
    """`invalid` are answers with what is wrong with them; `strayed` are those our own matcher would not have let
    through; `cut` names the schema of every answer that was drawn again."""

    valid: int = 0
    cut: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    strayed: list[str] = field(default_factory=list)


async def answers(
    backend: Backend,
    tokenizer: Tokenizer,
    prompt: Sequence[int],
    each: int,
    *,
    names: Sequence[str] = tuple(SCHEMAS),
    most: int = 200,
    tries: int = 40,
) -> Tally:
    """`each` answers for every schema, at temperature 1 and without any filter."""
    compiler, tally = Compiler(tokenizer), Tally()
    for name in names:
        text = compiler.compile(Constraint(format=schema_format(SCHEMAS[name])))
        for number in range(each):
            for attempt in range(tries):
                seed = 1000 * number + attempt
                tokens, finish = await one(backend, prompt, text, seed, most)
                if finish in (EngineFinish.EOS, EngineFinish.COMPLETE):
                    _judge(name, SCHEMAS[name], tokens, text, compiler, tokenizer, tally)
                    break
                tally.cut.append(name)
    return tally


async def one(
    backend: Backend, prompt: Sequence[int], text: str, seed: int, most: int
) -> tuple[list[int], EngineFinish | None]:
    sampling = SamplingSpec(temperature=1.0, seed=seed)
    request = EngineRequest(id=f"g{seed}", prompt=tuple(prompt), max_tokens=most, sampling=sampling, grammar=text)
    tokens: list[int] = []
    finish = None
    async for chunk in await backend.submit(request):
        tokens.extend(chunk.tokens)
        finish = chunk.finish or finish
    return tokens, finish


def _judge(
    name: str, schema: Any, tokens: list[int], text: str, compiler: Compiler, tokenizer: Tokenizer, tally: Tally
) -> None:
    answer = b"".join(tokenizer.token_bytes(token) for token in tokens if token not in tokenizer.stop_tokens).decode()
    if not compiler.matcher(text).consume_tokens(tokens):
        tally.strayed.append(f"{name}: {answer}")
    made = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        made(schema, format_checker=made.FORMAT_CHECKER).validate(json.loads(answer))
    except ValueError as error:
        tally.invalid.append(f"{name}: {answer}: {error}")
    except jsonschema.ValidationError as error:
        tally.invalid.append(f"{name}: {answer}: {error.message}")
    else:
        tally.valid += 1
