"""Resolves "earliest", "latest", offsets and timestamps to an offset per partition.

Rule: an error names the partition, the requested position, and the range that the log has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.client.values import TopicPartition
from ottla.spark.settings import EARLIEST, LATEST, Bound

log = logging.getLogger("ottla.spark")


class DataLoss(RuntimeError):
    """Records that the query should read have been deleted."""


class OffsetsMissing(ValueError):
    """The options give no start or end for a partition, or no offset matches them."""


class Leaders(Protocol):
    """Looks up offsets in the cluster."""

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


def resolve(
    bound: Bound,
    partitions: Iterable[TopicPartition],
    leaders: Leaders,
    *,
    latest_where_no_time: bool,
) -> dict[TopicPartition, int]:
    """Resolve the offset of each partition: the latest if no record is at or after the requested time."""
    wanted = _wanted(bound, sorted(partitions))
    if bound.by_time:
        found = leaders.at_times(wanted)
        late = [key for key, offset in found.items() if offset is None]
        if late and not latest_where_no_time:
            raise OffsetsMissing(
                f"{late[0]} has no record at or after {wanted[late[0]]} ({bound.option}). Set "
                "startingOffsetsByTimestampStrategy to latest to start at the end."
            )
        ends = leaders.latest(late) if late else {}
        return {key: ends[key] if offset is None else offset for key, offset in found.items()}
    offsets = {key: number for key, number in wanted.items() if number >= 0}
    for edge, ask in ((EARLIEST, leaders.earliest), (LATEST, leaders.latest)):
        asked = [key for key, number in wanted.items() if number == edge]
        if asked:
            offsets.update(ask(asked))
    return offsets


def _wanted(bound: Bound, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    if bound.each is None:
        assert bound.everywhere is not None
        return dict.fromkeys(partitions, bound.everywhere)
    given = {TopicPartition(topic, index) for topic, each in bound.each.items() for index in each}
    missing = [key for key in partitions if key not in given]
    if missing:
        hint = "" if bound.by_time else "; -2 is the earliest, -1 the latest"
        raise OffsetsMissing(
            f"The option {bound.option} has no entry for {_some(missing)}. Specify every partition{hint}."
        )
    extra = sorted(given - set(partitions))
    if extra:
        raise OffsetsMissing(
            f"The option {bound.option} contains {_some(extra)}, which the query does not read."
        )
    return {key: bound.each[key.topic][key.partition] for key in partitions}


def _some(keys: list[TopicPartition]) -> str:
    shown = ", ".join(map(str, keys[:5]))
    return shown if len(keys) <= 5 else f"{shown} and {len(keys) - 5} more"


def report_loss(message: str, *, fails: bool) -> None:
    """Fail or log a warning, as failOnDataLoss says."""
    if fails:
        raise DataLoss(f"{message} Set failOnDataLoss to false to continue without them.")
    log.warning("%s", message)
