"""Wire structs of Completions requests. Shapes only: what values mean is decided where they are read."""

from __future__ import annotations

from dragoman.dialects.openai_format import FormatFields
from dragoman.dialects.openai_options import OptionFields


class CompletionRequest(FormatFields, kw_only=True):
    """Body of POST /v1/completions. `prompt` is a text, token ids, or a list of either."""

    prompt: str | list[str | int | list[int]] | None = None
    suffix: str | None = None
    echo: bool | None = None
    best_of: int | None = None
    logprobs: int | bool | None = None
    top_logprobs: int | None = None
    timings: bool | None = None
    timings_per_token: bool | None = None
    verbose: bool | None = None
    options: OptionFields | None = None
