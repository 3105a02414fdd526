"""What each slot of the engine holds, and which one serves a prompt best. Decides; does nothing. Knows no wire."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

WORTHWHILE = 64
"""Tokens; a shorter prefix is not worth a save or a wait. Measured with SmolLM2 on two cores: 64 tokens prefill in
320 ms, save in 3 ms and restore in 1 ms."""
_NEAR = 16
"""Tokens; prefixes that differ by fewer are as good as each other. Restoring takes one or two milliseconds."""
_TAIL_SHARE = 8
"""Content is saved before it is lost if at least an eighth of it would have to be computed again: saving costs time
for the whole of it."""


UNKNOWN = "?"
"""The namespace of a slot whose adapters we are not sure of. No request has it."""


class Slot:
    """One slot. `tokens` is the content as far as we know (llama.cpp compares for itself, so a wrong guess costs time
    only); `namespace` what its adapters are, None before the first request, UNKNOWN when we cannot say; `kept` leading
    tokens of its content that are saved elsewhere."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tokens: tuple[int, ...] = ()
        self.namespace: str | None = None
        self.kept = 0
        self.busy = False
        self.used = 0

    def shared(self, namespace: str, prompt: tuple[int, ...]) -> int:
        """Leading tokens of its content that a prompt can use; never the last of the prompt."""
        if namespace != self.namespace:
            return 0
        return max(0, min(common_prefix(self.tokens, prompt), len(prompt) - 1))

    def lost(self, shared: int) -> int:
        """Tokens of its content that are nowhere else, and would be lost if only so many stayed. 0 where they are not
        worth saving."""
        length = len(self.tokens)
        tail = length - max(shared, self.kept)
        return tail if tail >= max(WORTHWHILE, length // _TAIL_SHARE) else 0

    def fill(self, namespace: str, tokens: tuple[int, ...], kept: int = 0) -> None:
        """Note what it holds now, of which so many tokens are saved, or as many as were of what it goes on from."""
        if namespace == self.namespace:
            kept = max(kept, min(self.kept, common_prefix(self.tokens, tokens)))
        self.namespace, self.tokens, self.kept = namespace, tokens, min(kept, len(tokens))


class Choice(Struct, frozen=True):
    """A slot, and how much of the prompt it has already; `restore` if a saved state shall be put there first."""

    slot: Slot
    shared: int
    restore: bool


class Slots:
    """All slots of one engine process."""

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._uses = 0

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def free(self) -> list[Slot]:
        """Those nobody uses."""
        return [slot for slot in self._slots if not slot.busy]

    def held(self, namespace: str, prompt: tuple[int, ...], *, busy: bool) -> int:
        """The longest prefix that a slot in use, or a free one, holds."""
        return max((slot.shared(namespace, prompt) for slot in self._slots if slot.busy is busy), default=0)

    def choose(self, namespace: str, prompt: tuple[int, ...], saved: int) -> Choice | None:
        """The free slot to use, given that `saved` leading tokens could be restored; None when none is free. That with
        the longest shared prefix; of equal ones one where nothing is lost, then one beside slots in use, then the one
        used least recently. A saved state goes where nothing is lost if possible, and is put beside slots in use or
        spares the tail of a content where that one begins as well.

        Beside each other, because llama.cpp decodes in one pass only what lies in consecutive slots, unless they share
        one window: each further run of slots is a pass of its own, which reads all weights again."""
        free = self.free()
        if not free:
            return None
        shared = {slot: slot.shared(namespace, prompt) for slot in free}
        best = max(shared.values())
        own = min((slot for slot in free if shared[slot] == best), key=lambda slot: self._cost(slot, best))
        other = min(free, key=lambda slot: self._cost(slot, 0))
        better = own.lost(best) or self._beside(other) > self._beside(own)
        if saved >= best + _NEAR or (saved >= max(best - _NEAR, 1) and better and not other.lost(0)):
            return self._taken(other, saved, restore=True)
        return self._taken(own, best, restore=False)

    def pinned(self, number: int, namespace: str, prompt: tuple[int, ...], saved: int) -> Choice | None:
        """The slot of that number, modulo how many there are; None while it is in use."""
        slot = self.at(number)
        if slot.busy:
            return None
        shared = slot.shared(namespace, prompt)
        restore = saved >= shared + _NEAR
        return self._taken(slot, saved if restore else shared, restore=restore)

    def at(self, number: int) -> Slot:
        """The slot of that number, modulo how many there are."""
        return self._slots[number % len(self._slots)]

    def take(self, slot: Slot) -> None:
        """Use it for something that is no request."""
        slot.busy = True

    def release(self, slot: Slot) -> None:
        """Give it back."""
        slot.busy = False

    def _cost(self, slot: Slot, shared: int) -> tuple[bool, int, int]:
        """What speaks against a free slot of which so many tokens would be used, the weightiest first."""
        return slot.lost(shared) > 0, -self._beside(slot), slot.used

    def _beside(self, slot: Slot) -> int:
        """How many of the slots next to a free one are in use."""
        return sum(neighbour.busy for neighbour in self._slots[max(0, slot.number - 1) : slot.number + 2])

    def _taken(self, slot: Slot, shared: int, *, restore: bool) -> Choice:
        self._uses += 1
        slot.busy, slot.used = True, self._uses
        return Choice(slot, shared, restore)


def common_prefix(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many leading tokens are the same. Compares slices, halving, because that runs at the speed of memory."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
