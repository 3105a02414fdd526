"""/slots: what each slot holds and does, and saving, restoring and erasing one. Reads no file."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import msgspec

from dragoman.core.slots import Slot, SlotActed, SlotAction, SlotsRequest, SlotTask
from dragoman.dialects.base import SmallCall, WireRequest
from dragoman.dialects.llamacpp.body import decode, decode_or_empty
from dragoman.dialects.llamacpp.errors import NativeError, NoSlot, wrong_type
from dragoman.dialects.llamacpp.sampling import DEFAULT_BREAKERS, DEFAULT_CHAIN, Chain
from dragoman.dialects.llamacpp.schema import RANDOM_SEED, Server, native_names, read_scalars
from dragoman.dialects.llamacpp.settings import default_settings
from dragoman.dialects.llamacpp.tokens import model_name

_VERBS = ("save", "restore", "erase")
_NOT_IN_NAMES = frozenset('/\\:*?"<>|')
_LONGEST_NAME = 255
_encode = msgspec.json.encode


def read_slots(wire: WireRequest) -> SmallCall:
    """GET /slots. With `fail_on_no_slot` the answer is 503 while every slot is busy."""
    picky = bool(wire.query.get("fail_on_no_slot"))
    return SmallCall(request=SlotsRequest(wire.query.get("model") or None), write=partial(_write_slots, picky))


def read_slot_action(wire: WireRequest) -> SmallCall:
    """POST /slots/{id}?action=save, restore or erase. Any number is a slot's, modulo how many there are."""
    number = _number(wire.params["id_slot"])
    verb = wire.query.get("action", "")
    if verb not in _VERBS:
        raise NativeError("Invalid action")
    body = decode_or_empty(wire.body) if wire.body else {}
    name = "" if verb == "erase" else _file_name(decode(wire.body))
    action = SlotAction(number=number, verb=verb, name=name, model=model_name(body))
    return SmallCall(request=action, write=_write_action)


def _number(text: str) -> int:
    """As C++'s stoi reads it: a number at the beginning is enough."""
    digits = text.strip()
    end = 1 if digits[:1] in ("+", "-") else 0
    while end < len(digits) and digits[end] in "0123456789":
        end += 1
    try:
        number = int(digits[:end])
    except ValueError:
        number = 2**31
    if not -(2**31) <= number < 2**31:
        raise NativeError("Invalid slot ID")
    return number


def _file_name(body: object) -> str:
    fields = cast("dict[str, object]", body) if isinstance(body, dict) else {}
    if "filename" not in fields:
        raise NativeError("[json.exception.out_of_range.403] key 'filename' not found", status=500, field="filename")
    name = fields["filename"]
    if not isinstance(name, str):
        raise NativeError(wrong_type("string", name), status=500, field="filename")
    if not _is_plain(name):
        raise NativeError("Invalid filename", field="filename")
    return name


def _is_plain(name: str) -> bool:
    """Whether it is a file name and nothing else, on any system."""
    if not name or len(name.encode()) > _LONGEST_NAME or ".." in name or name == ".":
        return False
    if name[0] == " " or name[-1] in " .":
        return False
    return not any(char in _NOT_IN_NAMES or not char.isprintable() for char in name)


def _write_slots(picky: bool, slots: tuple[Slot, ...]) -> bytes:
    if picky and all(slot.busy for slot in slots):
        raise NoSlot
    return _encode([_slot_object(slot) for slot in slots])


def _slot_object(slot: Slot) -> dict[str, Any]:
    head = {
        "id": slot.number,
        "n_ctx": slot.context,
        "speculative": slot.speculative,
        "is_processing": slot.busy,
    }
    if slot.task is None:
        return head
    return {
        **head,
        "id_task": slot.task.id,
        "n_prompt_tokens": slot.tokens,
        "n_prompt_tokens_processed": slot.processed,
        "n_prompt_tokens_cache": slot.cached,
        "params": task_settings(slot.task),
        "next_token": [
            {
                "has_next_token": slot.busy,
                "has_new_line": False,
                "n_remain": max(-1, slot.task.max_tokens - slot.decoded) if slot.busy else -1,
                "n_decoded": slot.decoded,
            }
        ],
    }


def task_settings(task: SlotTask) -> dict[str, Any]:
    """The 42 keys of the settings of a task, whichever wire it came by: stages its spec leaves out are off."""
    spec = task.sampling
    given = native_names(_OFF | spec.given())
    chain = Chain(spec.samplers or DEFAULT_CHAIN, spec.dry_sequence_breakers or DEFAULT_BREAKERS, ())
    values = read_scalars({}, Server(defaults=given))
    values |= {
        "seed": RANDOM_SEED if spec.seed is None else spec.seed,
        "n_predict": task.max_tokens,
        "n_probs": task.logprobs or 0,
        "post_sampling_probs": task.post_sampling,
    }
    return default_settings(values, chain, "deepseek")


_OFF: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""What an engine does without these."""


def _write_action(done: SlotActed) -> bytes:
    action = done.action
    match action.verb:
        case "save":
            told: dict[str, Any] = {
                "filename": action.name,
                "n_saved": done.tokens,
                "n_written": done.nbytes,
                "timings": {"save_ms": done.ms},
            }
        case "restore":
            told = {
                "filename": action.name,
                "n_restored": done.tokens,
                "n_read": done.nbytes,
                "timings": {"restore_ms": done.ms},
            }
        case "erase":
            told = {"n_erased": done.tokens}
    return _encode({"id_slot": action.number, **told})
