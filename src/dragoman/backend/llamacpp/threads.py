"""How many cores this process may really use. Knows nothing of engines.

Counted are the cores of the affinity mask, limited by the CPU quota of every control group this process is in
(cgroup v2 `cpu.max`, cgroup v1 `cpu.cfs_quota_us` / `cpu.cfs_period_us`). llama.cpp's threads meet at spin barriers,
so one thread more than there are cores costs far more than one thread too few: quotas are rounded down.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")

_Reader = Callable[[Path], float | None]


def usable_cores(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Cores this process may use, at least 1. The paths are parameters for tests."""
    quotas = cpu_quotas(cgroups, membership)
    return max(1, min([affinity_cores(), *(int(quota) for quota in quotas)]))


def affinity_cores() -> int:
    """Cores in the affinity mask; all cores where the platform has no such mask."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quotas(cgroups: Path, membership: Path) -> list[float]:
    """Every CPU quota in force, in cores. A group's quota also limits all groups below it, so each group from the
    process's own up to the root counts. Inside a container the own group is often mounted as the root."""
    found: list[float] = []
    for base, group, read in _hierarchies(cgroups, membership):
        for level in (group, *group.parents):
            quota = read(base / level.relative_to("/"))
            if quota is not None:
                found.append(quota)
    return found


def _hierarchies(cgroups: Path, membership: Path) -> Iterator[tuple[Path, PurePosixPath, _Reader]]:
    """Mount point, own group and reader of each hierarchy that may limit CPU time."""
    for line in _read(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        path = PurePosixPath(group or "/")
        if not path.is_absolute() or ".." in path.parts:
            path = PurePosixPath("/")
        if number == "0" and not controllers:
            yield cgroups, path, _quota_v2
        elif "cpu" in controllers.split(","):
            yield cgroups / controllers, path, _quota_v1
            yield cgroups / "cpu", path, _quota_v1


def _quota_v2(folder: Path) -> float | None:
    """`cpu.max` holds 'QUOTA PERIOD' in microseconds, or 'max PERIOD'."""
    words = _read(folder / "cpu.max").split()
    if len(words) != 2 or words[0] == "max":
        return None
    return _ratio(words[0], words[1])


def _quota_v1(folder: Path) -> float | None:
    """A quota of -1 means none."""
    return _ratio(_read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip())


def _ratio(quota: str, period: str) -> float | None:
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
