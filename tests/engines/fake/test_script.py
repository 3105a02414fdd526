"""Scripts as files and as data."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dragoman.core.errors import EngineFailure
from dragoman.engines.fake import FAKE_TEMPLATE, FakeRule, FakeScript, ScriptedPiece, card_of, load_script


def written(folder: Path, text: str) -> Path:
    path = folder / "script.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_script_file_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """{"rules": [{"match": "weather", "pieces": ["Rain", {"bytes": [226, 152]}, {"text": "!", "delay": 0.5}],
            "then": "length", "fail_after": 2}], "context_length": 99, "lanes": 3, "default": "logits"}""",
    )
    assert load_script(path) == FakeScript(
        rules=(
            FakeRule(
                match="weather",
                pieces=("Rain", ScriptedPiece(raw=(226, 152)), ScriptedPiece(text="!", delay=0.5)),
                then="length",
                fail_after=2,
            ),
        ),
        context_length=99,
        lanes=3,
        default="logits",
    )


def test_a_script_survives_a_round_trip() -> None:
    script = FakeScript(rules=(FakeRule(regex="a.b", pieces=("x", ScriptedPiece(raw=(1,), logprob=-1.0))),))
    assert msgspec.json.decode(msgspec.json.encode(script), type=FakeScript) == script


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", "not valid"),
        ('{"rules": [{"piece": ["a"]}]}', "piece"),
        ('{"rules": [{"pieces": [{"bytes": [256]}]}]}', "256|255"),
        ('{"rules": [{"pieces": [{"text": "a", "bytes": [1]}]}]}', "exactly one"),
        ('{"rules": [{"pieces": [{}]}]}', "exactly one"),
        ('{"rules": [{"regex": "("}]}', "not valid"),
        ('{"rules": [{"regex": "a", "match": "a"}]}', "not both"),
        ('{"rules": [{"source": "echo", "pieces": ["a"]}]}', "takes no pieces"),
        ('{"rules": [{"repeat": true}]}', "needs pieces"),
        ('{"rules": [{"then": "later"}]}', "later"),
        ('{"lanes": 0}', "lanes"),
        ('{"delay": -1}', "delay"),
        ('{"control_tokens": [""]}', "control_tokens"),
    ],
)
def test_faults_of_a_file_are_named(tmp_path: Path, text: str, names: str) -> None:
    with pytest.raises(EngineFailure, match=names) as caught:
        load_script(written(tmp_path, text))
    assert "script.json" in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match=r"absent\.json.*No such file"):
        load_script(tmp_path / "absent.json")


def test_the_first_rule_that_holds_is_taken() -> None:
    first, second, rest = FakeRule(match="tea"), FakeRule(regex="^c.*e$"), FakeRule()
    script = FakeScript(rules=(first, second, rest))
    assert script.rule_for("green tea") is first
    assert script.rule_for("cof\nfee") is second
    assert script.rule_for("water") is rest
    assert FakeScript().rule_for("water").source == "echo"


def test_the_card_tells_what_the_script_says() -> None:
    card = card_of(FakeScript(context_length=123, lanes=2), name="toy", path="script.json")
    assert (card.id, card.context_length, card.lanes, card.format) == ("toy", 123, 2, "scripted")
    assert card.chat_template == FAKE_TEMPLATE
    assert card.tools
    assert card.thinking
    assert card.vocab_size > 256
