"""Whether a request can ever run, in a window and in a memory budget. Asked before it is queued; the first on either
side of the seam."""

from __future__ import annotations

from dragoman.core.errors import ContextLengthExceeded, DragomanError, InvalidRequest
from dragoman.core.exchange import EngineRequest


def fault_of(request: EngineRequest, context_length: int) -> DragomanError | None:
    """Why it cannot, None when it can: it needs a prompt, a token to sample and room for both (in tokens)."""
    if not request.prompt:
        return InvalidRequest("The prompt is empty.")
    if request.max_tokens < 1:
        return InvalidRequest("At least one token must be asked for.")
    if len(request.prompt) >= context_length:
        return ContextLengthExceeded(len(request.prompt), context_length)
    return None


def memory_fault(needed: int, tokens: int, budget: int | None) -> DragomanError | None:
    """Why a row of `tokens` tokens that may grow to `needed` bytes can never run within `budget` bytes."""
    if budget is None or needed <= budget:
        return None
    return InvalidRequest(
        f"This request may need {needed} bytes of cache for its {tokens} tokens of prompt and answer, "
        f"but all requests together may use {budget} bytes.",
        remedy="Ask for fewer tokens, shorten the prompt, or serve with a larger memory budget.",
    )
