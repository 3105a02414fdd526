"""Whether a request can ever run in a window. Asked before it is queued, on either side of the seam."""

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
