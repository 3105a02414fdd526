"""Which stages run, in which order."""

from __future__ import annotations

import pytest

from dragoman.core.errors import InvalidField, UnsupportedField
from dragoman.core.sampling import SamplingSpec
from dragoman.sampling.chain import DEFAULT_ORDER, chain_of, is_natural
from dragoman.sampling.check import check_sampling

FULL = SamplingSpec(
    temperature=0.8, top_k=40, top_p=0.9, min_p=0.05, typical_p=0.9, top_n_sigma=1.0, xtc_probability=0.5,
    repetition_penalty=1.1, dry_multiplier=0.8,
)  # fmt: skip


def test_the_default_order_is_llama_servers() -> None:
    assert chain_of(FULL) == DEFAULT_ORDER
    assert chain_of(SamplingSpec()) == ()


def test_neutral_stages_are_left_out() -> None:
    assert chain_of(SamplingSpec(temperature=0.5, top_p=1.0, top_k=3, xtc_threshold=0.1)) == ("top_k", "temperature")
    assert chain_of(SamplingSpec(dynatemp_range=0.5)) == ("temperature",)


def test_a_chain_is_the_whole_truth() -> None:
    spec = SamplingSpec(temperature=0.5, top_k=3, min_p=0.1, samplers=("temperature", "top_k", "top_p", "top_k"))

    assert chain_of(spec) == ("temperature", "top_k", "top_k")
    assert not is_natural(chain_of(spec))


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_takes_the_place_of_all_but_the_temperature(version: int) -> None:
    spec = SamplingSpec(mirostat=version, temperature=0.5, top_k=3, samplers=("top_k",), hlg_width=4.0)

    assert chain_of(spec) == ("temperature", f"mirostat_{version}")


def test_adaptive_p_comes_last() -> None:
    assert chain_of(SamplingSpec(adaptive_target=0.5, min_p=0.1)) == ("min_p", "adaptive_p")
    listed = SamplingSpec(adaptive_target=0.5, min_p=0.1, samplers=("adaptive_p", "min_p"))
    assert chain_of(listed) == ("min_p", "adaptive_p")
    assert chain_of(SamplingSpec(adaptive_target=0.5, min_p=0.1, samplers=("min_p",))) == ("min_p",)
    assert chain_of(SamplingSpec(adaptive_target=-1.0, min_p=0.1, samplers=("min_p", "adaptive_p"))) == ("min_p",)


def test_the_curve_leaves_only_processors() -> None:
    spec = SamplingSpec(hlg_width=4.0, temperature=0.5, top_k=3, presence_penalty=1.0)

    assert chain_of(spec) == ("penalties", "hlg")
    assert is_natural(chain_of(spec))


@pytest.mark.parametrize("name", ["infill", "mirostat_1", "dist"])
def test_a_stage_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedField) as caught:
        check_sampling(SamplingSpec(samplers=("top_k", name)), 10)
    assert caught.value.field == "samplers"


@pytest.mark.parametrize(
    "spec",
    [
        SamplingSpec(mirostat=3),
        SamplingSpec(temperature=float("nan")),
        SamplingSpec(min_p=float("inf")),
        SamplingSpec(repetition_penalty=0.0),
        SamplingSpec(hlg_width=-1.0),
        SamplingSpec(logit_bias={10: 1.0}),
    ],
)
def test_unusable_numbers_are_refused(spec: SamplingSpec) -> None:
    with pytest.raises(InvalidField) as caught:
        check_sampling(spec, 10)
    assert caught.value.field in spec.given()


def test_usable_specs_pass() -> None:
    check_sampling(FULL, 10)
    check_sampling(SamplingSpec(hlg_width=float("inf"), logit_bias={3: float("-inf")}, samplers=()), 10)
