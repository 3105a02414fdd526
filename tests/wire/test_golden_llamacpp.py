"""The recorded llama-server exchanges, replayed over HTTP against the whole server with the llama.cpp engine.

The fixture `llamacpp_server` gives the base URL of a server that serves the starter model with a context of 2048
tokens and without API keys.
"""

import pytest

from tests.support.golden import differences, folded, load, names, send

pytestmark = pytest.mark.llamacpp

NOT_OVER_THE_WIRE = {
    "auth_props_401": "the server runs without keys",
    "auth_wrong_401": "the server runs without keys",
    "health_loading_503": "the server is ready",
    "health_loading_503_completion": "the server is ready",
    "np4_n_cmpl_2_prompts_2": "recorded with four slots, whose seeds and order show",
    "n_indent_0": "at the eighth token two candidates are 0.05 apart, and this build of llama.cpp takes the other one",
    "n_probs_word_stop": "entries of tokens cut by a stop word are counted by text here, by tokens there",
    "prompt_empty_string_stream": "tokens_cached shows what the recorded slot held before",
    "stream_emoji_partial_utf8": "a character cut at the end is streamed as U+FFFD, so that stream and whole agree",
    "stream_return_progress_with_cache": "depends on the exchange recorded before it",
    "stream_word_multitoken": "text is held back by possible match here, by whole token there",
    "samplers_string": "names the infill stage, which needs an infill model",
}
HELD_BACK = {"stop_partial_then_no_match"}
LONG = {"context_fill_truncated"}
"""Prompts of two thousand tokens: half a minute on two idle cores."""


def cases() -> list[object]:
    replayed = [name for name in names() if name not in NOT_OVER_THE_WIRE]
    return [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in replayed]


@pytest.mark.parametrize("name", cases())
def test_answers_as_recorded(name: str, llamacpp_server: str) -> None:
    exchange = load(name)
    reply = send(llamacpp_server, exchange, timeout=600.0)
    assert (reply.status, reply.content_type) == (exchange.status, exchange.content_type), reply
    expected, actual = (exchange.answer, reply.answer) if exchange.frames is None else (exchange.frames, reply.frames)
    if name in HELD_BACK:
        expected, actual = folded(expected), folded(actual or [])
    assert differences(expected, actual) == []


def test_every_exception_is_a_recording() -> None:
    assert set(NOT_OVER_THE_WIRE) | HELD_BACK | LONG <= set(names())
