from __future__ import annotations

from pathlib import Path

import pytest

from bench import blas


@pytest.mark.parametrize("flag", [True, False])
def test_without_a_blas_nothing_is_preloaded(monkeypatch: pytest.MonkeyPatch, flag: bool) -> None:
    monkeypatch.setattr(blas, "_has_flag", lambda: flag)
    assert blas.by_itself(None) == ((), {})
    assert blas.on_equal_terms(None) == (("--mlx-blas", "off") if flag else (), {})


def test_a_path_is_passed_on_and_a_name_is_left_to_our_own_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(blas, "_has_flag", lambda: True)
    library = tmp_path / "libopenblas.so"
    library.touch()
    assert blas.by_itself(str(library)) == (("--mlx-blas", str(library)), {})
    assert blas.by_itself("libopenblas.so.0") == ((), {})


def test_on_equal_terms_both_get_the_same_by_preloading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_has_flag", lambda: True)
    flags, env = blas.on_equal_terms("libopenblas.so.0")
    assert flags == ("--mlx-blas", "off")
    assert env == blas.preload("libopenblas.so.0") == {"LD_PRELOAD": "libopenblas.so.0"}
