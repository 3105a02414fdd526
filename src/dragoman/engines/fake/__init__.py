"""The scripted engine, its tokenizer, its script and its chat template."""

from dragoman.engines.fake.card import card_of
from dragoman.engines.fake.engine import FakeEngine
from dragoman.engines.fake.script import FakeRule, FakeScript, ScriptedPiece, load_script
from dragoman.engines.fake.template import FAKE_TEMPLATE
from dragoman.engines.fake.tokenizer import FakeTokenizer

__all__ = [
    "FAKE_TEMPLATE",
    "FakeEngine",
    "FakeRule",
    "FakeScript",
    "FakeTokenizer",
    "ScriptedPiece",
    "card_of",
    "load_script",
]
