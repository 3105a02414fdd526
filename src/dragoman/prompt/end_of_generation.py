"""The spellings of tokens that end an answer, whatever a model's files say. Knows no vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

END_OF_GENERATION: frozenset[str] = frozenset(
    {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|tool_response>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "[e~[",
    }
)


def message_ends(present: Iterable[str]) -> frozenset[str]:
    """Those of `present` that end one message of an answer but not the answer: `<|end|>`, where other tokens end it
    (gpt-oss, Solar Open)."""
    ends = frozenset(present)
    called = bool(ends & {"<|call|>", "<|calls|>"})
    closed = ("<|return|>" in ends) or ("<|flush|>" in ends)
    return ends & {"<|end|>"} if called and closed else frozenset()
