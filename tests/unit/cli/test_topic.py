"""Partition states and retention in `ottla topic`, and the targets of `ottla group reset`."""

from __future__ import annotations

import time

import pytest

from ottla.cli.errors import Misuse
from ottla.cli.offset_resets import Kind, Target
from ottla.cli.topic import _assignments, _retention_text, _settings
from ottla.cli.topic_facts import state_of
from ottla.cli.units import duration_ms, moment_ms
from ottla.client.admin import PartitionDescription
from ottla.client.core.metadata import Node


def partition(leader: int | None, replicas: list[int], isr: list[int]) -> PartitionDescription:
    nodes = {one: Node(one, "h", 1, None) for one in replicas}
    return PartitionDescription(
        0,
        None if leader is None else nodes[leader],
        tuple(nodes[one] for one in replicas),
        tuple(nodes[one] for one in isr),
    )


@pytest.mark.parametrize(
    ("described", "minimum", "state"),
    [
        (partition(1, [1, 2, 3], [1, 2, 3]), 2, "ok"),
        (partition(1, [1, 2, 3], [1, 2]), 2, "under-replicated"),
        (partition(1, [1, 2, 3], [1]), 2, "under min isr"),
        (partition(1, [1, 2, 3], [1]), None, "under-replicated"),
        (partition(None, [1, 2], []), 1, "offline"),
        # min.insync.replicas never exceeds the number of replicas.
        (partition(1, [1], [1]), 2, "ok"),
        (partition(1, [1, 2], [1]), 3, "under min isr"),
    ],
)
def test_the_state_of_a_partition(described: PartitionDescription, minimum: int | None, state: str) -> None:
    assert state_of(described, minimum) == state


@pytest.mark.parametrize(
    ("policy", "age", "size", "text"),
    [
        ("delete", 604_800_000, None, "delete after 7d"),
        ("delete", None, 1 << 30, "delete above 1.0 GiB per partition"),
        ("delete", 3_600_000, 1024, "delete after 1h or above 1.0 KiB per partition"),
        ("delete", None, None, "delete never"),
        ("compact", 1, 1, "compact"),
        ("compact,delete", 1000, None, "compact,delete after 1s"),
        (None, None, None, "-"),
    ],
)
def test_retention_in_words(policy: str | None, age: int | None, size: int | None, text: str) -> None:
    told = {"cleanup_policy": policy, "retention_ms": age, "retention_bytes": size}
    assert _retention_text(told) == text


def test_retention_is_a_setting_like_others() -> None:
    assert _settings(["a=b=c"], "1d12h") == {"a": "b=c", "retention.ms": "129600000"}
    assert _settings(None, "forever") == {"retention.ms": "-1"}
    assert _assignments("1:2,3") == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [("90s", 90_000), ("1.5h", 5_400_000), ("1d 12h", 129_600_000), ("250ms", 250), ("2W", 1_209_600_000)],
)
def test_durations_are_parsed(text: str, length_ms: int) -> None:
    assert duration_ms(text, "--x") == length_ms


@pytest.mark.parametrize("text", ["", "5", "h", "5 years", "-5m", "1h x"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="is not a duration"):
        duration_ms(text, "--x")


def test_times_are_parsed() -> None:
    assert moment_ms("@1700000000000", "--to") == 1_700_000_000_000
    assert moment_ms("2023-11-14T22:13:20Z", "--to") == 1_700_000_000_000
    assert moment_ms("2023-11-14T23:13:20+01:00", "--to") == 1_700_000_000_000
    with pytest.raises(Misuse, match="is not a time"):
        moment_ms("noon", "--to")


def test_reset_targets_are_parsed() -> None:
    def read(to: str | None = None, shift_by: int | None = None, back: str | None = None) -> Target:
        return Target.read(to=to, shift_by=shift_by, back=back)

    assert read("Earliest") == Target(Kind.EARLIEST)
    assert read("latest") == Target(Kind.LATEST)
    assert read("42") == Target(Kind.OFFSET, 42)
    assert read("@42") == Target(Kind.TIME, 42)
    assert read(shift_by=-3) == Target(Kind.SHIFT, -3)
    before_ms = int(time.time() * 1000)
    ago = read(back="1h")
    assert ago.kind is Kind.TIME
    assert before_ms - 3_600_000 <= ago.value <= int(time.time() * 1000) - 3_600_000
    with pytest.raises(Misuse, match="exactly one of"):
        read("latest", 3)
