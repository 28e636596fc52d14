"""The number of cores that a process may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cluster.cores import usable_cores


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path, affinity=8) == 8
    assert usable_cores() >= 1


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"a/b/cpu.max": "400000 100000\n"}, 4),
        ({"a/b/cpu.max": "max 100000\n"}, 16),
        ({"a/b/cpu.max": "250000 100000\n"}, 2),  # whole cores only
        ({"a/b/cpu.max": "50000 100000\n"}, 1),
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),  # the group above has a quota
        ({"cpu.max": "600000 100000\n"}, 6),  # a container that sees the path of its host
        ({"a/b/cpu.max": "nonsense"}, 16),
    ],
)
def test_quotas_of_version_2(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/a/b\n"})
    write(tmp_path / "sys/fs/cgroup", files)
    assert usable_cores(tmp_path, affinity=16) == cores


@pytest.mark.parametrize("mounted", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize(("quota", "cores"), [("-1", 16), ("800000", 8)])
def test_quotas_of_version_1(tmp_path: Path, mounted: str, quota: str, cores: int) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x\n0::/\n",
            f"sys/fs/cgroup/{mounted}/x/cpu.cfs_quota_us": f"{quota}\n",
            f"sys/fs/cgroup/{mounted}/x/cpu.cfs_period_us": "100000\n",
        },
    )
    assert usable_cores(tmp_path, affinity=16) == cores
