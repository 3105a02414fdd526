"""What becomes of each recorded llama-server exchange: replayed, replayed by another test, or not equal, and why."""

from __future__ import annotations

from tests.support.golden import Exchange, all_names, load
from tools.compat.manifest import load as manifest

SERVERS = {
    "b64": ("-np 1 -c 1024 -b 64",),
    "one": ("-np 1 -c 2048 --metrics --props --slot-save-path", "-np 1 -c 1024"),
    "keys": ("-np 1 -c 512",),
    "two": ("-np 2 -c 1024",),
    "four": ("-np 4 -c 2048",),
}
"""Which of our servers answers recordings made with which flags."""

STORIES = {
    "cache_third_extended": ("cache_prompt_false",),
    "b64_stream_return_progress_cached": ("b64_stream_return_progress_chunked",),
    "stream_return_progress_with_cache": ("stream_return_progress_chunked",),
    "slots_after": ("generation_settings_all_set",),
    "slots_fail_on_no_slot": ("generation_settings_all_set",),
    "slot_save": ("generation_settings_all_set",),
    "slot_restore": ("generation_settings_all_set", "slot_save"),
    "slot_erase": ("generation_settings_all_set",),
    "slot_id_out_of_range": ("generation_settings_all_set", "slot_erase"),
}
"""What must be asked right before, because the recording shows what that left behind."""

LONG = frozenset(
    {"ctxshift_truncated", "context_fill_truncated", "stream_error_before_first_frame", "context_overflow_error"}
)
"""Prompts of two thousand tokens: half a minute on two idle cores."""

HELD_BACK = frozenset({"stop_partial_then_no_match"})
"""Text that may become a stop word is held back by character here, by token there: texts are compared joined."""

GIST = frozenset(
    name
    for name in all_names()
    if load(name).path
    in ("/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models")
)
"""On OpenAI's paths this server speaks OpenAI's wire: key order, ids and error envelopes are OpenAI's. Compared are
status class, texts and reasons."""

SLOTS_SHOWN = frozenset({"slots_after", "slots_fail_on_no_slot"})
UNREACHED = (
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
    "n_keep",
    "n_discard",
    "stream",
    "timings_per_token",
)
"""Settings that /slots shows at their defaults here: shapes of stages that are off, and what no engine is told."""

ELSEWHERE = {
    **{
        name: "tests/wire/test_embeddings.py"
        for name in all_names()
        if load(name).flags.startswith(("-np 1 -c 2048 --embeddings", "-np 1 -c 1024 --reranking"))
    },
    "embedding_disabled_501": "tests/wire/test_embeddings.py",
    "rerank_disabled_501": "tests/wire/test_embeddings.py",
    "health_loading_503": "tests/dialects/llamacpp/test_golden.py",
    "health_loading_503_completion": "tests/dialects/llamacpp/test_golden.py",
    "slots_fail_on_no_slot_503": "test_slots_that_are_all_busy",
    "np2_slots_fail_on_no_slot_one_idle_200": "test_slots_that_are_all_busy",
    "stream_session_lookup": "test_a_named_stream_is_kept",
    "stream_session_delete": "test_a_named_stream_is_kept",
    "metrics_initial": "test_metric_families",
    "metrics_after": "test_metric_families",
}

BY_DESIGN = {entry.id: entry.divergence for entry in manifest().exchanges}
"""Recordings this server does not equal, with the reason; they are a part of the compatibility manifest."""

UNANSWERED = frozenset(
    {
        "np4_slots_disabled_501",
        "np4_metrics_disabled_501",
        "np4_props_post_disabled_501",
        "np2_slots_debug",
        "prompt_empty_string_stream",
        "n_indent_0",
    }
)
"""Of those, the ones that are made with flags this server does not have, or that chance to be equal: they depend on
what was asked before, or on a near tie."""

STOPS_OF_FLAGS = frozenset({"b64_stream_return_progress_cached", "b64_stream_return_progress_chunked"})
"""Recorded with a stop word of the command line, which shows in the settings; there is none here."""

BEGINS = frozenset(
    {
        "np2_grammar_no_root",
        "np2_grammar_syntax_error",
        "np2_grammar_undefined_rule",
    }
)
"""Error messages that go on after llama-server's words, with what is wrong."""


def server_for(exchange: Exchange) -> str | None:
    """The name of our server that stands for the recorded one."""
    found = [name for name, flags in SERVERS.items() if exchange.flags.startswith(flags)]
    return found[0] if found else None


def replayed() -> list[str]:
    """Recordings that are sent to a server of ours and must be answered alike."""
    return [name for name in all_names() if name not in ELSEWHERE and name not in BY_DESIGN]
