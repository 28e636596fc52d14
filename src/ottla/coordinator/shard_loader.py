"""Loads a shard: replays all records of its partition, in slices, oldest first.

Damage stops the load: a batch with a wrong checksum, or a segment that cannot be read. A coordinator that
skipped it would have a state that was never committed. An intact batch may still contain records that cannot
be read here: of a later version, or written by a client that may write to any topic. Those are skipped and
counted; otherwise they would keep every group of the partition from loading.

A shard may have a fast path for records of one kind (`load`): it gets the records of many batches as bytes,
in order, and returns those that are for `replay`. Records and markers of transactions do not take it, and are
replayed after everything before them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastcrc.crc32 import iscsi as crc32c

from ottla.coordinator.active_shard import Shard
from ottla.coordinator.records import Kinds, decode
from ottla.log.recovery import marker_of
from ottla.records import kernel
from ottla.records.batch import BatchHeader, check_crc, iterate_headers
from ottla.records.record import Pair, read_batch
from ottla.wire.errors import CorruptMessage, KafkaError

if TYPE_CHECKING:
    from ottla.log.log import Log

logger = logging.getLogger("ottla.coordinator.shard_loader")

READ_BYTES_MAX = 1 << 20
RECORDS_PER_STEP = 100
"""How many records are replayed in a step of less than a millisecond."""
FAST_RECORDS_PER_STEP = 1000
"""How many in a step of the fast path."""


@dataclass(slots=True)
class Progress:
    """The progress of a load."""

    next_offset: int
    end_offset: int
    record_count: int = 0
    bytes_read: int = 0
    unknown_count: int = 0
    """Skipped records of unknown types."""
    unreadable_count: int = 0
    """Skipped records that cannot be decoded or replayed."""
    first_unreadable: str = ""
    """Where the first of these is, and its error."""

    def skip(self, error: Exception, count: int = 1) -> None:
        if not self.unreadable_count:
            where = f"at or after offset {self.next_offset}"
            self.first_unreadable = f"{where}: {type(error).__name__}: {error}"
            if not isinstance(error, (KafkaError, ValueError)):
                logger.error("Failed to replay a record %s", where, exc_info=error)
        self.unreadable_count += count


def load_steps(log: Log, shard: Shard, kinds: Kinds, progress: Progress) -> Generator[None, None, None]:
    """Replay the log up to its end into a fresh shard."""
    while progress.next_offset < log.log_end_offset:
        progress.end_offset = log.log_end_offset
        offset = max(progress.next_offset, log.log_start_offset)
        data = log.read(offset, READ_BYTES_MAX, limit_offset=progress.end_offset).records
        if not data:
            break
        yield
        reached = yield from _replay(shard, kinds, bytes(data), offset, progress)
        if reached == offset:
            break
        progress.next_offset = reached


def _replay(
    shard: Shard, kinds: Kinds, data: bytes, offset: int, progress: Progress
) -> Generator[None, None, int]:
    """Replay the batches in `data` from `offset` on; the offset after the last of them."""
    view = memoryview(data)
    reached = offset
    position = 0
    while position < len(data):
        start = position
        pairs, position, next_offset = kernel.plain_pairs(
            data, start, len(data), offset, FAST_RECORDS_PER_STEP, crc32c
        )
        if position > start:
            reached = next_offset
            yield from _replay_pairs(shard, kinds, pairs, progress)
        else:
            header = next((header for _, header in iterate_headers(view, start)), None)
            if header is None:
                break  # the rest is an incomplete batch
            position = start + header.length_bytes
            reached = header.next_offset
            if reached > offset:
                yield from _replay_batch(shard, kinds, view, start, header, progress)
        progress.bytes_read += position - start
    return reached


def _replay_batch(
    shard: Shard, kinds: Kinds, view: memoryview, position: int, header: BatchHeader, progress: Progress
) -> Generator[None, None, None]:
    """Replay a batch of a transaction, a marker, or a compressed batch or one of an old format."""
    check_crc(view, position, header)
    if header.is_control:
        try:
            marker = marker_of(view, position, header)
            if marker is not None:
                shard.replay_end_transaction(header.producer_id, header.producer_epoch, not marker.is_abort)
        except Exception as error:  # noqa: BLE001 - see the module: the batch is intact
            progress.skip(error)
        return
    producer = (header.producer_id, header.producer_epoch) if header.is_transactional else None
    try:
        pairs = _pairs(view, position, header, progress)
    except KafkaError as error:  # damaged records, or too many after decompression
        progress.skip(error, max(1, header.record_count))
        return
    yield from _replay_pairs(shard, kinds, pairs, progress, producer)


def _pairs(view: memoryview, position: int, header: BatchHeader, progress: Progress) -> list[Pair]:
    """The records of a batch that have a key, as records of a compacted topic must."""
    pairs = []
    for record in read_batch(view, position, header, verify=False):
        if record.key is None:
            progress.skip(CorruptMessage(f"The record at offset {record.offset} has no key."))
        else:
            pairs.append((record.key, record.value))
    return pairs


def _replay_pairs(
    shard: Shard,
    kinds: Kinds,
    pairs: list[Pair],
    progress: Progress,
    producer: tuple[int, int] | None = None,
) -> Generator[None, None, None]:
    """Replay records. With a `producer` (id and epoch) they belong to its transaction."""
    fast_path: Callable[[list[Pair]], list[Pair]] | None = getattr(shard, "load", None)
    producer_id, producer_epoch = producer or (-1, -1)
    for first in range(0, len(pairs), FAST_RECORDS_PER_STEP):
        part = pairs[first : first + FAST_RECORDS_PER_STEP]
        progress.record_count += len(part)
        if fast_path is not None and producer is None:
            part = fast_path(part)
        for number, (key, value) in enumerate(part, 1):
            try:
                record = decode(kinds, key, value)
                if record is None:
                    progress.unknown_count += 1
                else:
                    shard.replay(record, producer_id=producer_id, producer_epoch=producer_epoch)
            except Exception as error:  # noqa: BLE001 - see the module: the batch is intact
                progress.skip(error)
            if number % RECORDS_PER_STEP == 0:
                yield
        yield
