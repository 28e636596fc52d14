"""The lag of a group: in records, and in seconds where timestamps can be read.

The lag in seconds of a partition is the age of the first record that the group has not committed. Rule: it is
best effort; a timestamp that cannot be read in time is None.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.cli.session import Session
    from ottla.client.admin import Admin
    from ottla.client.values import OffsetAndMetadata, TopicPartition

_READ_SECONDS = 3.0


def ends_of(admin: Admin, keys: list[TopicPartition]) -> tuple[dict[Any, int], dict[Any, int]]:
    """The log start and end offsets of the partitions that have a leader."""
    from ottla.client.admin import OffsetSpec

    led = _led(admin, keys)
    firsts = admin.list_offsets(dict.fromkeys(led, OffsetSpec.EARLIEST)).succeeded
    nexts = admin.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST)).succeeded
    return (
        {key: one.offset for key, one in firsts.items()},
        {key: one.offset for key, one in nexts.items()},
    )


def _led(admin: Admin, keys: list[TopicPartition]) -> list[TopicPartition]:
    """The partitions that exist and have a leader; requests for others would block."""
    topics = admin.describe_topics(sorted({key.topic for key in keys})).succeeded if keys else {}
    led = {
        (name, one.partition)
        for name, topic in topics.items()
        for one in topic.partitions
        if one.leader is not None
    }
    return [key for key in keys if key in led]


def lag_rows(
    session: Session,
    admin: Admin,
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    owners: Mapping[TopicPartition, Mapping[str, Any]],
    *,
    with_time: bool = True,
) -> list[dict[str, Any]]:
    """A row for each partition with a committed offset or an assigned member."""
    keys = sorted({*committed, *owners})
    firsts, nexts = ends_of(admin, keys)
    rows = []
    behind: dict[TopicPartition, int] = {}
    for key in keys:
        at = committed.get(key)
        end = nexts.get(key)
        lag = None if at is None or end is None else max(end - at.offset, 0)
        if at is not None and lag:
            behind[key] = max(at.offset, firsts.get(key, 0))
        owner = owners.get(key, {})
        rows.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "current_offset": None if at is None else at.offset,
                "log_start_offset": firsts.get(key),
                "log_end_offset": end,
                "lag": lag,
                "lag_seconds": 0.0 if lag == 0 else None,
                "member_id": owner.get("member_id"),
                "client_id": owner.get("client_id"),
                "host": owner.get("host"),
                "metadata": at.metadata if at is not None else None,
            }
        )
    if with_time and behind:
        times = first_timestamps(session, behind)
        now_ms = time.time() * 1000
        for row, key in zip(rows, keys, strict=True):
            if key in times:
                row["lag_seconds"] = round(max(now_ms - times[key], 0) / 1000, 1)
    return rows


def first_timestamps(session: Session, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Timestamps of the first records from these offsets on, as far as they can be read in time."""
    from ottla import Consumer
    from ottla.client.errors import ClientError
    from ottla.wire.errors import KafkaError

    config = session.client_config("consumer")
    # One batch of each partition is enough, and the read must not affect any group.
    for name in ("group.id", "group.instance.id", "group.protocol"):
        config.pop(name, None)
    config |= {
        "max.partition.fetch.bytes": "1",
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "check.crcs": "false",
    }
    found: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + _READ_SECONDS
    try:
        with Consumer[bytes, bytes](config) as consumer:
            consumer.assign(list(offsets))
            for key, offset in offsets.items():
                consumer.seek(key, offset)
            while len(found) < len(offsets) and (left := deadline - time.monotonic()) > 0:
                for record in consumer.poll(timeout=left):
                    key = type(next(iter(offsets)))(record.topic, record.partition)
                    if key not in found and record.timestamp >= 0:
                        found[key] = record.timestamp
                        consumer.pause([key])
    except (ClientError, KafkaError, OSError):
        return found
    return found
