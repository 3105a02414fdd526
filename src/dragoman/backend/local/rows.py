"""What the rows of an engine hold and do, as its requests' chunks tell it. Knows no engine and no thread."""

from __future__ import annotations

from msgspec import Struct

from dragoman.core.exchange import EngineRequest, TokenChunk
from dragoman.core.slots import Slot, SlotTask


class _Run(Struct):
    """The request that runs in a row, or ran there last. `tokens` is what the row's state holds after it."""

    task: int
    request: EngineRequest
    cached: int
    decoded: int = 0
    busy: bool = True
    tokens: tuple[int, ...] = ()


class RowView:
    """One row after another, by number. `request` must be noted before its chunks."""

    def __init__(self) -> None:
        self._requests: dict[str, EngineRequest] = {}
        self._rows: dict[int, _Run] = {}
        self._runs: dict[str, _Run] = {}
        self._answers: dict[str, list[int]] = {}
        self._tasks = 0

    def note(self, request: EngineRequest) -> None:
        """It was submitted."""
        self._requests[request.id] = request

    def take(self, ident: str, chunk: TokenChunk) -> None:
        """The next chunk of a request."""
        if chunk.row is not None:
            self._begin(ident, chunk)
        if chunk.tokens and (run := self._runs.get(ident)) is not None:
            run.decoded += len(chunk.tokens)
            self._answers[ident] += chunk.tokens

    def end(self, ident: str) -> None:
        """It is over, in whatever way."""
        self._requests.pop(ident, None)
        run, answer = self._runs.pop(ident, None), self._answers.pop(ident, [])
        if run is not None:
            # The last token sampled was never fed.
            run.tokens = (*run.request.prompt, *answer[:-1])
            run.busy = False

    def clear(self) -> None:
        """The engine is gone, and all its rows."""
        for known in (self._requests, self._rows, self._runs, self._answers):
            known.clear()

    def busy(self, row: int) -> bool:
        """Whether a request runs there."""
        run = self._rows.get(row)
        return run is not None and run.busy

    def held(self, row: int) -> tuple[str, tuple[int, ...]]:
        """Namespace and tokens of what the row holds."""
        run = self._rows.get(row)
        return ("", ()) if run is None else (run.request.namespace, run.tokens)

    def restore(self, row: int, namespace: str, tokens: tuple[int, ...]) -> None:
        """The row holds these tokens from now on, which no request has left there."""
        self._tasks += 1
        request = EngineRequest(id="", prompt=tokens, max_tokens=1, namespace=namespace)
        self._rows[row] = _Run(self._tasks, request, 0, busy=False, tokens=tokens)

    def forget(self, row: int) -> int:
        """The row holds nothing from now on; how many tokens it held."""
        run = self._rows.get(row)
        if run is None or run.busy:
            return 0
        held, run.tokens = len(run.tokens), ()
        return held

    def slots(self, lanes: int, context: int) -> tuple[Slot, ...]:
        """All rows."""
        return tuple(self._slot(row, context) for row in range(lanes))

    def _begin(self, ident: str, chunk: TokenChunk) -> None:
        request = self._requests.get(ident)
        if request is None or chunk.row is None:
            return
        self._tasks += 1
        run = _Run(self._tasks, request, chunk.started or 0)
        self._rows[chunk.row] = self._runs[ident] = run
        self._answers[ident] = []

    def _slot(self, row: int, context: int) -> Slot:
        run = self._rows.get(row)
        if run is None:
            return Slot(number=row, context=context)
        prompt = len(run.request.prompt)
        return Slot(
            number=row,
            context=context,
            busy=run.busy,
            tokens=prompt + run.decoded if run.busy else len(run.tokens),
            processed=prompt - run.cached if run.busy else 0,
            cached=run.cached if run.busy else 0,
            decoded=run.decoded if run.busy else 0,
            task=SlotTask(
                id=run.task,
                sampling=run.request.sampling,
                max_tokens=run.request.max_tokens,
                logprobs=run.request.logprobs,
                post_sampling=run.request.post_sampling,
            ),
        )
