"""Committed offsets as record batches of a coordinator, in Kafka's format."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.record import Record, build_batch
from ottla.wire import codec
from ottla.wire.message import Message
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

COMMITTED_TOPIC = "orders"
PARTITIONS = 1000
RECORDS_OF_A_BATCH = 100
"""The size of a single commit for this many partitions."""

KEY_TYPE = 1
VALUE_VERSION = 4
_PARTITION_BYTES = 4
_OFFSET_AT = 2  # in a value, after the version
_OFFSET_BYTES = 8


def commit_batches(records: int, now_ms: int) -> Iterator[tuple[str, bytes]]:
    """Batches with this many commits, each for a different partition: (group, batch). Offsets increase."""
    value = _with_number(VALUE_VERSION, OffsetCommitValue(commit_timestamp=now_ms, topic_id=b"o" * 16))
    before, after = value[:_OFFSET_AT], value[_OFFSET_AT + _OFFSET_BYTES :]
    for first in range(0, records, RECORDS_OF_A_BATCH):
        group = f"group-{first // PARTITIONS:05}"
        key = OffsetCommitKey(group=group, topic=COMMITTED_TOPIC)
        prefix = _with_number(KEY_TYPE, key)[:-_PARTITION_BYTES]
        batch = build_batch(
            Record(
                0,
                now_ms,
                prefix + (number % PARTITIONS).to_bytes(_PARTITION_BYTES, "big"),
                before + number.to_bytes(_OFFSET_BYTES, "big") + after,
            )
            for number in range(first, min(first + RECORDS_OF_A_BATCH, records))
        )
        yield group, bytes(batch)


def _with_number(number: int, message: Message) -> bytes:
    version = 0 if message.KIND == "coordinator-key" else number
    return number.to_bytes(2, "big") + codec.encode(message, version)
