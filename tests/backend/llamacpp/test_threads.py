"""Cores under affinity masks and control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.backend.llamacpp.threads import affinity_cores, cpu_quotas, usable_cores


def put(base: Path, name: str, text: str) -> None:
    path = base / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_control_groups_the_affinity_mask_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "none", tmp_path / "none") == affinity_cores() >= 1


def test_version_2_takes_the_tightest_quota_on_the_way_up(tmp_path: Path) -> None:
    put(tmp_path, "self", "0::/a/b\n")
    put(tmp_path, "fs/a/b/cpu.max", "max 100000\n")
    put(tmp_path, "fs/a/cpu.max", "150000 100000\n")
    put(tmp_path, "fs/cpu.max", "400000 100000\n")
    assert cpu_quotas(tmp_path / "fs", tmp_path / "self") == [1.5, 4.0]
    assert usable_cores(tmp_path / "fs", tmp_path / "self") == 1


def test_version_2_inside_a_container_reads_the_root(tmp_path: Path) -> None:
    put(tmp_path, "self", "0::/docker/abc\n")
    put(tmp_path, "fs/cpu.max", "50000 100000\n")
    assert usable_cores(tmp_path / "fs", tmp_path / "self") == 1


@pytest.mark.parametrize(("quota", "expected"), [("-1", []), ("200000", [2.0]), ("rubbish", []), ("0", [])])
def test_version_1(tmp_path: Path, quota: str, expected: list[float]) -> None:
    put(tmp_path, "self", "4:cpu,cpuacct:/box\n3:memory:/box\n")
    put(tmp_path, "fs/cpu,cpuacct/box/cpu.cfs_quota_us", quota)
    put(tmp_path, "fs/cpu,cpuacct/box/cpu.cfs_period_us", "100000")
    assert cpu_quotas(tmp_path / "fs", tmp_path / "self") == expected


def test_odd_memberships_do_no_harm(tmp_path: Path) -> None:
    put(tmp_path, "self", "nonsense\n0::/../../escape\n1:cpu:\n")
    put(tmp_path, "fs/cpu.max", "100000\n")
    assert cpu_quotas(tmp_path / "fs", tmp_path / "self") == []
