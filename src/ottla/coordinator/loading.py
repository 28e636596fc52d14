"""Loading a shard: everything that its partition holds is replayed, in slices, oldest first.

Rule: what cannot be read stops the load. A coordinator that skipped a record would answer with a state that
nobody ever committed.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.coordinator.active import Shard
from ottla.coordinator.records import Kinds, decode
from ottla.log.recovery import marker_of
from ottla.records.batch import BatchHeader, iterate_headers
from ottla.records.record import read_batch

if TYPE_CHECKING:
    from ottla.log.log import Log

READ_BYTES_MAX = 1 << 20
RECORDS_PER_STEP = 100


@dataclass(slots=True)
class Progress:
    """How far a load is."""

    next_offset: int
    end_offset: int
    record_count: int = 0
    bytes_read: int = 0


def load_steps(log: Log, shard: Shard, kinds: Kinds, progress: Progress) -> Generator[None, None, None]:
    """Replay the log up to its end into a fresh shard."""
    while progress.next_offset < log.log_end_offset:
        progress.end_offset = log.log_end_offset
        offset = max(progress.next_offset, log.log_start_offset)
        data = log.read(offset, READ_BYTES_MAX, limit_offset=progress.end_offset).records
        if not data:
            break
        yield
        reached = offset
        view = memoryview(data)
        for position, header in iterate_headers(view):
            if header.next_offset > offset:
                if header.is_control:
                    marker = marker_of(view, position, header)
                    if marker is not None:
                        shard.replay_end_transaction(
                            header.producer_id, header.producer_epoch, not marker.is_abort
                        )
                else:
                    yield from _replay_batch(shard, kinds, view, position, header, progress)
            reached = header.next_offset
            progress.bytes_read += header.length_bytes
        if reached == offset:
            break
        progress.next_offset = reached


def _replay_batch(
    shard: Shard, kinds: Kinds, view: memoryview, position: int, header: BatchHeader, progress: Progress
) -> Generator[None, None, None]:
    producer_id = header.producer_id if header.is_transactional else -1
    producer_epoch = header.producer_epoch
    for number, stored in enumerate(read_batch(view, position, header), 1):
        record = decode(kinds, stored.key, stored.value)
        if record is not None:
            shard.replay(record, producer_id=producer_id, producer_epoch=producer_epoch)
        progress.record_count += 1
        if number % RECORDS_PER_STEP == 0:
            yield
