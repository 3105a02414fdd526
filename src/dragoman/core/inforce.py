"""What a request came to once the vocabulary and the server's own defaults had their say. Knows no wire."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.sampling import SamplingSpec


class InForce(Struct, frozen=True, kw_only=True):
    """For one request, before it runs. `biases` are the request's own in order, texts resolved to ids; `end_tokens` the
    ids that end an answer, ascending; `spelled` the ids of special tokens that keep their text; `prompt` the ids of the
    prompt."""

    sampling: SamplingSpec = SamplingSpec()
    biases: tuple[tuple[int, float], ...] = ()
    end_tokens: tuple[int, ...] = ()
    spelled: tuple[int, ...] = ()
    prompt: tuple[int, ...] = ()
