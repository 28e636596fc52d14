"""Offset resets of a group: the requested target, and the resulting offsets.

Rule: a new offset always lies within the log of its partition.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import Misuse, Problem

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.values import OffsetAndMetadata, TopicPartition


class Kind(Enum):
    """The kinds of targets."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Target:
    """The target: `value` is an offset, a number of records or a time in ms, depending on the kind."""

    kind: Kind
    value: int = 0

    @classmethod
    def read(cls, *, to: str | None, shift_by: int | None, back: str | None) -> Target:
        from ottla.cli.units import duration_ms, moment_ms

        if sum(one is not None for one in (to, shift_by, back)) != 1:
            raise Misuse("Specify exactly one of --to WHERE, --shift-by COUNT and --back TIME.")
        if shift_by is not None:
            return cls(Kind.SHIFT, shift_by)
        if back is not None:
            return cls(Kind.TIME, int(time.time() * 1000) - duration_ms(back, "--back"))
        assert to is not None
        if to.lower() in (Kind.EARLIEST.value, Kind.LATEST.value):
            return cls(Kind(to.lower()))
        if to.isdigit():
            return cls(Kind.OFFSET, int(to))
        return cls(Kind.TIME, moment_ms(to, "--to"))


def partitions_of(admin: Admin, written: Sequence[str]) -> list[TopicPartition]:
    """The partitions of `orders` or `orders:0,2`."""
    from ottla.cli.lookups import describe_topics
    from ottla.client.values import TopicPartition

    chosen: dict[str, set[int] | None] = {}
    for text in written:
        topic, mark, numbers = text.partition(":")
        try:
            wanted = {int(one) for one in numbers.split(",")} if mark else None
        except ValueError:
            raise Misuse(f"--topic {text} is invalid. Use orders or orders:0,2.") from None
        before = chosen.get(topic, set())
        chosen[topic] = None if wanted is None or before is None else before | wanted
    described = describe_topics(admin, chosen)
    keys = []
    for topic, wanted in chosen.items():
        there = {one.partition for one in described[topic].partitions}
        for number in sorted(there if wanted is None else wanted):
            if number not in there:
                raise Problem(
                    f"Topic {topic} has no partition {number}; it has {len(there)} partitions, numbered "
                    "from 0."
                )
            keys.append(TopicPartition(topic, number))
    return keys


def plan(
    admin: Admin,
    target: Target,
    keys: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
) -> list[dict[str, Any]]:
    """A row for each partition: the current and the new offset."""
    from ottla.cli.lag import ends_of

    firsts, nexts = ends_of(admin, list(keys))
    for key in keys:
        if key not in firsts or key not in nexts:
            raise Problem(
                f"Partition {key} does not exist or has no leader. Check it with: ottla topic describe "
                f"{key.topic}"
            )
    times = admin.list_offsets(dict.fromkeys(keys, target.value)).all() if target.kind is Kind.TIME else {}
    rows = []
    for key in keys:
        at = committed.get(key)
        if target.kind is Kind.TIME:
            # No record is that new: the group continues with the next one.
            new = times[key].offset if times[key].offset >= 0 else nexts[key]
        elif target.kind is Kind.SHIFT:
            if at is None:
                raise Problem(
                    f"Partition {key} has no committed offset to shift. Use --to earliest or --to latest."
                )
            new = at.offset + target.value
        else:
            new = {Kind.EARLIEST: firsts[key], Kind.LATEST: nexts[key], Kind.OFFSET: target.value}[
                target.kind
            ]
        new = min(max(new, firsts[key]), nexts[key])
        rows.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "current_offset": None if at is None else at.offset,
                "new_offset": new,
                "change": None if at is None else new - at.offset,
                "log_start_offset": firsts[key],
                "log_end_offset": nexts[key],
            }
        )
    return rows
