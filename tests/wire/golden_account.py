"""What becomes of each recorded llama-server exchange: replayed, replayed by another test, or not equal, and why."""

from __future__ import annotations

from tests.support.golden import Exchange, all_names, load

SERVERS = {
    "one": ("-np 1 -c 2048 --metrics --props --slot-save-path", "-np 1 -c 1024"),
    "keys": ("-np 1 -c 512",),
    "two": ("-np 2 -c 1024",),
    "four": ("-np 4 -c 2048",),
}
"""Which of our servers answers recordings made with which flags."""

STORIES = {
    "cache_third_extended": ("cache_prompt_false",),
    "stream_return_progress_with_cache": ("stream_return_progress_chunked",),
    "slots_after": ("generation_settings_all_set",),
    "slots_fail_on_no_slot": ("generation_settings_all_set",),
    "slot_save": ("generation_settings_all_set",),
    "slot_restore": ("generation_settings_all_set", "slot_save"),
    "slot_erase": ("generation_settings_all_set",),
    "slot_id_out_of_range": ("generation_settings_all_set", "slot_erase"),
}
"""What must be asked right before, because the recording shows what that left behind."""

LONG = frozenset({"context_fill_truncated", "stream_error_before_first_frame", "context_overflow_error"})
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

_TEXT = "the recorded build and this one round differently: two candidates are 0.05 apart"
_OFF = "endpoints are not switched off here"
_FLAGS = "recorded with -n, -r or -b of its command line; this server has no such defaults"
_ORIGIN = "other web pages than those of this machine are refused before any route, as a guard against them"
_PREFILL = "on OpenAI's wire a last assistant message is continued only where continue_final_message asks for it"
_ENFORCED = "this server holds the answer to the form that was asked for, where llama-server leaves it free"

BY_DESIGN = {
    "n_indent_0": _TEXT,
    "n_probs_word_stop": "entries of tokens cut by a stop word are counted by text here, by tokens there",
    "stream_word_multitoken": "text is held back by possible match here, by whole token there",
    "stream_emoji_partial_utf8": "a character cut at the end is streamed as U+FFFD, so that stream and whole agree",
    "prompt_empty_string_stream": "tokens_cached leaks there what the slot held for the request before",
    "samplers_string": "names the infill stage, which needs an infill model",
    "grammar_streamed": "of several end tokens that a finished grammar allows, llguidance takes another one",
    "json_schema_native": "a schema has no grammar text of its own here, so the echo of `grammar` is empty",
    "np2_grammar_left_recursion": "a left-recursive grammar is understood here, and the answer held to it",
    "models_alias": "/models is the model list of OpenAI's wire here, with llama-server's numbers in `meta`",
    "ctxshift_truncated": "a full context ends the answer (the default of llama-server too); it is never shifted",
    "np2_slots_debug": "prompts and answers of others are shown to nobody",
    "np4_slots_disabled_501": _OFF,
    "np4_metrics_disabled_501": _OFF,
    "np4_props_post_disabled_501": _OFF,
    "b64_server_defaults_n5_stop": _FLAGS,
    "b64_stop_empty_falls_back_to_server": _FLAGS,
    "b64_stream_return_progress_cached": _FLAGS,
    "b64_stream_return_progress_chunked": _FLAGS,
    "cors_get_origin": _ORIGIN,
    "cors_other_origin_skipped": _ORIGIN,
    "options_cors": _ORIGIN,
    "responses": "the Responses wire is OpenAI's here, with sequence numbers and all its fields",
    "responses_stream": "the Responses wire is OpenAI's here, with sequence numbers and all its fields",
    "chat_continue_final_message": "only new text is given, also whole; llama-server repeats the prefill there",
    "chat_prefill_assistant": _PREFILL,
    "chat_prefill_assistant_stream": _PREFILL,
    "chat_json_schema": "the grammar made of a schema leaves other white space free, and the text follows from that",
    "chat_json_object": _ENFORCED,
    "chat_tools_required": _ENFORCED,
    "chat_tools_required_stream": _ENFORCED,
    "chat_tools_auto": "tools are described in the prompt here, where the template cannot render them",
    "chat_tools_with_grammar_error": "a grammar binds the text, and tools may be called all the same",
    "chat_invalid_json": "malformed JSON is the client's fault: 400, as OpenAI has it",
    "chat_image_unsupported": "an image for a model that sees none is the client's fault: 400, as OpenAI has it",
    "v1_completions_default_fields": "best_of is refused, not ignored: the answer would not be the best of three",
}
"""Recordings this server does not equal, with the reason."""

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
