"""What `Partition.append` does for a plain batch of a client, in one step. Its answer may wait for replicas.

Compiled, it costs a fraction of those calls; this file also runs as plain Python. Where it does not apply it
returns NOT_PLAIN with nothing changed, and the caller uses `Partition.append`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from ottla.log.config import FLUSH_MESSAGES_NEVER
from ottla.records.plain_batch import NOT_PLAIN

if TYPE_CHECKING:
    import cython
else:
    # Cython handles the import above itself; plain Python has no such module.
    cython = SimpleNamespace(compiled=False)

if not cython.compiled:
    from ottla.log.plain_append import append_to_log

if TYPE_CHECKING:
    from ottla.server.replicas.partition import Partition

_NOT_PLAIN = NOT_PLAIN
_FLUSH_NEVER = FLUSH_MESSAGES_NEVER


def append_as_leader(
    partition: Partition, data: memoryview, start: int, end: int, acks: int, now_ms: int
) -> int:
    """Append the batch from `start` to `end` and advance the high watermark: its offset, or NOT_PLAIN."""
    log = partition.log
    leadership = partition.leadership
    in_sync = len(partition.isr)
    if (
        log is None
        or not partition.is_leader
        or partition.is_internal
        or (leadership is None and in_sync != 1)
        or (acks != 1 and (acks != -1 or in_sync < partition.min_insync_replicas))
        or log.flush_messages != _FLUSH_NEVER
    ):
        return _NOT_PLAIN
    offset = append_to_log(log, data, start, end, partition.leader_epoch, now_ms)
    if offset == _NOT_PLAIN:
        return _NOT_PLAIN
    end_offset = log.log_end_offset
    if leadership is not None:
        partition.advance(end_offset)
    elif end_offset > log.high_watermark:
        if log.producers.transactions.unreplicated:
            log.advance_high_watermark(end_offset)
        else:
            log.high_watermark = end_offset
        growth = partition.growth
        if growth.watchers:
            growth.notify()
    appends = partition.appends
    if appends.watchers:
        appends.notify()
    return offset
