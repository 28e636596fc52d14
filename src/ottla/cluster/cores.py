"""How many cores this process may use: its CPU affinity, limited by the CPU quotas of its control groups.

A container with a quota of 2.5 CPUs on a machine with 64 may use two whole ones. Both versions of control
groups are read; a process without a quota, or on a system without control groups, has its affinity alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path("/")


def usable_cores(root: Path = ROOT, affinity: int | None = None) -> int:
    """The number of whole cores, at least one."""
    cores = _affinity() if affinity is None else affinity
    return max(1, min([cores, *map(int, _quotas(root))]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """The quotas of this process's groups and of those above them, in cores."""
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:
            yield from _quotas_above(mounted, path, _unified_quota)
        elif "cpu" in controllers.split(","):
            # The mount point is named after the controllers, or after one of them.
            for name in {controllers, "cpu"}:
                yield from _quotas_above(mounted / name, path, _separate_quota)


def _quotas_above(mounted: Path, path: str, quota: Callable[[Path], float | None]) -> Iterator[float]:
    """Of a group and all above it. A container may see the path of its host, which does not exist there; then
    the mount point is its group."""
    group = mounted / path.lstrip("/")
    for one in (group, *group.parents):
        found = quota(one)
        if found is not None:
            yield found
        if one == mounted:
            return


def _unified_quota(group: Path) -> float | None:
    """Version 2: `cpu.max` has microseconds in each period, or `max`."""
    words = _text(group / "cpu.max").split()
    if len(words) != 2 or not (words[0].isdecimal() and words[1].isdecimal()) or words[1] == "0":
        return None
    return int(words[0]) / int(words[1])


def _separate_quota(group: Path) -> float | None:
    """Version 1: two files, and -1 for no quota."""
    quota, period = (_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    if not (quota.isdecimal() and period.isdecimal()) or period == "0":
        return None
    return int(quota) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
