"""How answers are sampled where the request leaves it open."""

from __future__ import annotations

import pytest

from dragoman.app.defaults import answer_limits
from dragoman.config import AnswerSettings, SamplingSettings, Settings
from dragoman.core.errors import EngineFailure
from dragoman.core.sampling import SamplingSpec


def test_both_groups_of_settings_make_the_defaults() -> None:
    settings = Settings(
        answer=AnswerSettings(temperature=0.5, default_max_tokens=7),
        sampling=SamplingSettings(repetition_penalty=1.1, penalty_window=-1, mirostat=2),
    )
    limits = answer_limits(settings)
    assert limits.default_max_tokens == 7
    assert limits.sampling == SamplingSpec(temperature=0.5, repetition_penalty=1.1, penalty_window=-1, mirostat=2)
    assert answer_limits(Settings()).sampling == SamplingSpec()


def test_every_setting_is_a_field_of_the_spec() -> None:
    assert set(SamplingSettings.__dataclass_fields__) <= set(SamplingSpec.__struct_fields__)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        (SamplingSettings(repetition_penalty=0.0), "--repetition-penalty"),
        (SamplingSettings(typical_p=1.5), "--typical-p"),
        (SamplingSettings(penalty_window=-2), "--penalty-window"),
        (SamplingSettings(mirostat=3), "--mirostat"),
        (SamplingSettings(dry_base=float("nan")), "--dry-base"),
    ],
)
def test_values_no_engine_could_use_are_refused(settings: SamplingSettings, flag: str) -> None:
    with pytest.raises(EngineFailure, match=f"{flag} cannot be"):
        answer_limits(Settings(sampling=settings))
