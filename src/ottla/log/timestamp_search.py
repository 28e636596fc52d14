"""The search for a time within one batch.

Indexes and headers show which batch may hold it, on the event loop. Searching the batch may take long, and
can run on another thread, since it needs only the bytes of the batch.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.records import kernel
from ottla.records.batch import BatchHeader, TimestampType, check_crc
from ottla.records.compression import DECOMPRESSED_BYTES_MAX
from ottla.records.record import read_batch, read_content
from ottla.records.validate import BYTES_AT_ONCE, NO_LIMIT, WALK_RECORDS_MAX, TakesLong
from ottla.wire.errors import CorruptMessage, MessageTooLarge

_TIME_MIN = -(2**63)


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int | None


class BatchSearch(NamedTuple):
    """A batch that may hold the first record from `first_offset` on whose timestamp is at least
    `timestamp`."""

    header: BatchHeader
    data: bytes
    timestamp: int
    first_offset: int

    def find(self, bytes_at_once: int = NO_LIMIT) -> TimestampOffset | None:
        """The record, if it is there. TakesLong if the batch has more than `bytes_at_once`, compressed or
        not."""
        header = self.header
        if len(self.data) > bytes_at_once:
            raise TakesLong
        check_crc(self.data, 0, header)
        if header.magic < 2:
            return self._find_old()
        try:
            content = read_content(
                self.data, 0, header, decompressed_bytes_max=min(bytes_at_once, DECOMPRESSED_BYTES_MAX)
            )
        except MessageTooLarge:
            if bytes_at_once < DECOMPRESSED_BYTES_MAX:
                raise TakesLong from None
            raise
        is_stamped = header.timestamp_type == TimestampType.LOG_APPEND_TIME  # all records have the same time
        if not content or (is_stamped and header.max_timestamp < self.timestamp):
            return None
        try:
            delta, timestamp = self._walk(content, _TIME_MIN if is_stamped else self.timestamp)
        except ValueError as cause:
            raise CorruptMessage(
                f"The record batch at offset {header.base_offset} is broken: {cause}."
            ) from cause
        if delta < 0:
            return None
        found = header.max_timestamp if is_stamped else timestamp
        return TimestampOffset(found, header.base_offset + delta, self._epoch)

    def _walk(self, content: bytes | bytearray | memoryview, timestamp: int) -> tuple[int, int]:
        """The offset delta and the time of the record, or -1; in parts, between which other threads run."""
        header = self.header
        left = header.record_count
        at_once = left if len(content) <= BYTES_AT_ONCE else WALK_RECORDS_MAX
        position, delta, found = 0, -1, -1
        while left > 0 and delta < 0:
            position, delta, found = kernel.first_since(
                content,
                position,
                len(content),
                min(left, at_once),
                header.base_timestamp,
                timestamp,
                self.first_offset - header.base_offset,
            )
            left -= at_once
        return delta, found

    def _find_old(self) -> TimestampOffset | None:
        for record in read_batch(self.data, 0, self.header, verify=False):
            if record.timestamp >= self.timestamp and record.offset >= self.first_offset:
                return TimestampOffset(record.timestamp, record.offset, self._epoch)
        return None

    @property
    def _epoch(self) -> int | None:
        epoch = self.header.partition_leader_epoch
        return epoch if epoch >= 0 else None
