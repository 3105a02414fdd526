"""Compiled grammars of one vocabulary: compiled within a time limit, kept, and handed out as fresh matchers. Knows no
request and no source language."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from llguidance import LLMatcher, LLTokenizer

from dragoman.core.errors import InvalidField, Overloaded
from dragoman.core.vocabulary import Tokenizer
from dragoman.grammar.limits import Limits, parser_limits
from dragoman.grammar.refusal import too_large
from dragoman.grammar.tokens import ll_tokenizer

T = TypeVar("T")

_RETRY_SECONDS = 5


class Recent(Generic[T]):
    """The values used last, by key. Safe from any thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """The value, which counts as used now."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: str, value: T) -> None:
        """Keep a value; the one not used for longest goes."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)


class Matchers:
    """Compiles texts for one tokenizer. Safe from any thread; the tokenizer's trie is built with the first one."""

    def __init__(self, tokenizer: Tokenizer, limits: Limits, *, kept: int = 64) -> None:
        self._source = tokenizer
        self._limits = limits
        self._kept: Recent[LLMatcher] = Recent(kept)
        self._lock = threading.Lock()
        self._tokenizer: LLTokenizer | None = None
        self._places = threading.BoundedSemaphore(limits.compilers)

    @property
    def tokenizer(self) -> LLTokenizer:
        """The trie, built once."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = ll_tokenizer(self._source)
            return self._tokenizer

    def matcher(self, text: str) -> LLMatcher:
        """A matcher at its beginning, in error where the text does not compile."""
        known = self._kept.get(text)
        return (known or self._keep(text, self._compile(text))).deep_copy()

    def problem(self, text: str, field: str) -> str:
        """What the compiler has to say against the text, '' for nothing. Raises InvalidField when it takes too long and
        Overloaded when others take too long."""
        if self._kept.get(text) is not None:
            return ""
        # The trie is the model's, not the text's: it must not count.
        _ = self.tokenizer
        made = self._timed(lambda: self._compile(text), field)
        if not made.is_error():
            self._keep(text, made)
        return made.get_error()

    def _keep(self, text: str, made: LLMatcher) -> LLMatcher:
        if not made.is_error():
            self._kept.put(text, made)
        return made

    def _compile(self, text: str) -> LLMatcher:
        """Computes the first mask, too, on a copy: that is where much of a lexer's work is done."""
        made = LLMatcher(self.tokenizer, text, log_level=0, limits=parser_limits())
        if not made.is_error():
            trial = made.deep_copy()
            trial.compute_bitmask()
            return trial if trial.is_error() else made
        return made

    def _timed(self, work: Callable[[], LLMatcher], field: str) -> LLMatcher:
        """Runs in a thread of its own, because a compilation cannot be interrupted: one that is too slow is left to
        run into the compiler's own limits, and keeps its place until then."""
        if not self._places.acquire(timeout=self._limits.seconds):
            raise Overloaded("Other grammars are being compiled.", retry_after=_RETRY_SECONDS)
        job = _Job(work, self._places)
        if not job.wait(self._limits.seconds):
            raise too_large("constraint", f"takes longer than {self._limits.seconds:g} seconds to compile", field)
        made = job.result()
        if job.cpu_seconds > self._limits.cpu_seconds:
            raise too_large("constraint", f"takes more than {self._limits.cpu_seconds:g} s to compile", field)
        return made


class _Job:
    def __init__(self, work: Callable[[], LLMatcher], places: threading.BoundedSemaphore) -> None:
        self._work = work
        self._places = places
        self._done = threading.Event()
        self._result: LLMatcher | None = None
        self._error: BaseException | None = None
        self.cpu_seconds = 0.0
        threading.Thread(target=self._run, name="grammar", daemon=True).start()

    def _run(self) -> None:
        began = time.thread_time()
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        finally:
            self.cpu_seconds = time.thread_time() - began
            self._places.release()
            self._done.set()

    def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def result(self) -> LLMatcher:
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise InvalidField("The constraint could not be compiled.")
        return self._result
