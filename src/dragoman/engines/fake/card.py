"""What the catalog says of a scripted model. Knows no engine."""

from __future__ import annotations

from dragoman.core.model import ModelCard
from dragoman.engines.fake.script import FakeScript
from dragoman.engines.fake.tokenizer import FakeTokenizer


def card_of(script: FakeScript, *, name: str = "fake", path: str = "") -> ModelCard:
    """The card of a script: `name` is the served id, `path` the script file, '' for one made in memory."""
    vocabulary = FakeTokenizer(script)
    return ModelCard(
        id=name,
        path=path,
        format="scripted",
        engine="fake",
        architecture="toy",
        vocab_size=vocabulary.size,
        context_length=script.context_length,
        trained_context=script.context_length,
        lanes=script.lanes,
        chat_template=script.chat_template,
        bos_token=vocabulary.bos_token,
        eos_token=vocabulary.eos_token,
        tools="tools" in script.chat_template,
        thinking="<think>" in script.chat_template,
    )
