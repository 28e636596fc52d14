"""Resolves the start and end offsets of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.values import Range, TopicPartition
from ottla.spark.offset_resolution import OffsetsMissing, report_loss, resolve
from ottla.spark.settings import ReadSettings
from ottla.wire.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.spark.filters import Filters
    from ottla.spark.topic_watch import Watch


def plan_batch(settings: ReadSettings, watch: Watch, filters: Filters | None) -> list[Range]:
    """Plan the range of each partition, limited to the offsets in its log and to the filters."""
    topics = watch.topics()
    if topics.missing:
        raise missing_topic(topics.missing[0], settings)
    partitions = topics.partitions
    start = resolve(settings.starting, partitions, watch, latest_where_no_time=settings.latest_where_no_time)
    end = resolve(settings.ending, partitions, watch, latest_where_no_time=True)
    earliest, latest = watch.earliest(partitions), watch.latest(partitions)
    spans = []
    for key in sorted(partitions):
        low = _checked(key, start[key], end[key], earliest[key], latest[key], settings)
        spans.append(Range(key.topic, key.partition, low, end[key], topics.ids[key.topic]))
    return spans if filters is None else filters.narrow(spans, watch)


def missing_topic(name: str, settings: ReadSettings) -> UnknownTopicOrPartition:
    return UnknownTopicOrPartition(f"Topic {name} does not exist at {settings.servers}.")


def _checked(
    key: TopicPartition, start: int, end: int, earliest: int, latest: int, settings: ReadSettings
) -> int:
    """Return the start, moved past deleted records."""
    if end > latest:
        raise OffsetsMissing(f"{settings.ending.option} is {end} for {key}, but its log ends at {latest}.")
    if start > end and not settings.starting.by_time and not settings.ending.by_time:
        raise OffsetsMissing(
            f"{key}: the start offset {start} ({settings.starting.option}) is after the end offset {end}."
        )
    if start >= earliest or start >= end:
        return start
    report_loss(
        f"{key}: the records from offset {start} to {min(earliest, end) - 1} are lost: the log now starts "
        f"at {earliest}.",
        fails=settings.fail_on_data_loss,
    )
    return min(earliest, end)
