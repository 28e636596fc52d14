"""Reads bounded ranges of partitions as Arrow record batches; needs pyarrow.

Rule: each range returns exactly the records of [start, end) that its log contains. It skips gaps that
compaction, markers and aborted transactions leave, and requests nothing beyond its end. Only deleted records,
below the log start, are lost: `Lost` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.calls import complete
from ottla.client.core.positions import PartitionState, Phase
from ottla.client.errors import ClientError, TimedOut
from ottla.client.values import Range as Range
from ottla.client.values import TopicPartition
from ottla.records.arrow import Collector
from ottla.wire.errors import OffsetOutOfRange, UnknownTopicOrPartition
from ottla.wire.uuid import ZERO

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.consumer.consumer import Consumer

BATCH_BYTES_MAX = 4 << 20
"""A batch ends when its keys and values reach this size: larger ones are not faster, and use memory."""
_ROWS_FIRST = 64

_LOOK_SECONDS = 0.25
_TOPIC_GONE_SECONDS = 10.0


class Lost(ClientError):
    """Records [start, end) of a range are no longer in the log."""

    def __init__(self, partition: TopicPartition, start: int, end: int, log_start: int) -> None:
        super().__init__(
            f"{partition}: records from offset {start} to {end - 1} are lost, because the log now starts at "
            f"{log_start}."
        )
        self.partition = partition
        self.start = start
        self.end = end
        self.log_start = log_start


def read_ranges(
    consumer: Consumer[Any, Any],
    ranges: Sequence[Range],
    *,
    rows_max: int = 65_536,
    idle_seconds: float = 120.0,
    on_lost: Callable[[Lost], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the records of all ranges as they arrive; those of one partition in order.

    The consumer must have no group, and `auto.offset.reset=none`; at the end it has no assignment. `on_lost`
    is called for deleted records, and reading continues after them; without it, `Lost` is raised. `TimedOut`:
    nothing arrived for `idle_seconds`.
    """
    wanted = [one for one in ranges if one.start < one.end]
    if not wanted:
        return
    reading = _Reading(consumer, wanted, rows_max, on_lost)
    reading.begin()
    try:
        yield from reading.batches(idle_seconds)
    finally:
        reading.end()


class _Reading:
    def __init__(
        self,
        consumer: Consumer[Any, Any],
        ranges: Sequence[Range],
        rows_max: int,
        on_lost: Callable[[Lost], None] | None,
    ) -> None:
        self._core = consumer._core
        self._engine = self._core.engine
        self._ranges = {one.key: one for one in ranges}
        if len(self._ranges) != len(ranges):
            raise ValueError("A partition may have only one range at a time.")
        self._rows_max = rows_max
        self._on_lost = on_lost
        self._states: dict[TopicPartition, PartitionState] = {}
        self._committed = consumer.settings.isolation_level == "read_committed"
        self._gone_since: float | None = None
        self._rows_before = 0  # the size of the batch before, which the next one is likely to have
        self._bytes_before = 0

    def begin(self) -> None:
        """Assign and position all ranges in one step on the consumer's loop."""
        engine = self._engine

        def place() -> None:
            engine.assign(self._ranges)
            for partition, one in self._ranges.items():
                state = engine.positions.states[partition]
                state.stop_offset = one.end
                state.quiet_at = -1
                engine.positions.seek(partition, one.start)
                self._states[partition] = state
            engine.seek_by((), "latest")  # drops what was buffered before, and wakes the engine

        complete(self._core.on_loop(place))

    def end(self) -> None:
        if not self._core.is_closed:
            complete(self._core.on_loop(self._engine.clear))

    def batches(self, idle_seconds: float) -> Iterator[pa.RecordBatch]:
        monotonic = self._engine.cluster.clock.monotonic
        moved_at, before = monotonic(), -1
        while self._states:
            try:
                took = complete(self._core.wait_for(self._take, _LOOK_SECONDS))
            except OffsetOutOfRange:
                self._pass_over_lost()
                took = None
            if took is not None and took[0].num_rows:
                yield took[0]
                moved_at = monotonic()
            self._drop_done()
            position = sum(state.position for state in self._states.values())
            if position != before:
                moved_at, before = monotonic(), position
            elif self._states:
                self._check_topics(monotonic())
                if monotonic() - moved_at > idle_seconds:
                    self._give_up(idle_seconds)

    def _take(self) -> tuple[pa.RecordBatch] | None:
        """Take what was fetched, without rows beyond the ends; an empty batch if only positions moved."""
        buffer = self._engine.buffer
        collector = Collector()
        if buffer.ready:
            expected = min(max(buffer.bytes_ready, self._bytes_before), BATCH_BYTES_MAX)
            collector.reserve(self._rows_before, expected + (expected >> 4))
        cuts: list[tuple[int, int, int]] = []  # (first row, row behind the last, the end of their range)
        moved = False
        while (
            buffer.ready
            and collector.rows < self._rows_max
            and collector.bytes_gathered < BATCH_BYTES_MAX
            and not collector.is_full
        ):
            before = collector.rows
            took = buffer.take(self._rows_wanted(collector), collect=collector.add)
            moved = True
            if took is None:
                break
            state = took[0].state
            if state.stop_offset is not None and state.position > state.stop_offset:
                cuts.append((before, collector.rows, state.stop_offset))
            if took[0].reader is not None and took[0].reader.exhausted:
                self._core.source.make_room()
        if not moved:
            return None
        self._core.source.make_room()
        self._engine.counters["records"] += collector.rows
        self._rows_before, self._bytes_before = collector.rows, collector.bytes_gathered
        return (_cut(collector.finish(), cuts),)

    def _rows_wanted(self, collector: Collector) -> int:
        """The number of rows that fill the batch, by the mean size so far: a compressed fetch may expand a
        lot.
        """
        rows, gathered = collector.rows, collector.bytes_gathered
        by_bytes = (BATCH_BYTES_MAX - gathered) * rows // gathered + 1 if gathered else _ROWS_FIRST + rows
        return min(self._rows_max - rows, by_bytes)

    def _drop_done(self) -> None:
        done = [
            partition
            for partition, state in self._states.items()
            if state.position >= self._ranges[partition].end or self._ends_early(state)
        ]
        for partition in done:
            self._check_id(partition, self._states.pop(partition))

    def _ends_early(self, state: PartitionState) -> bool:
        """Whether the last records before the end were compacted away, and none follow."""
        end = self._ranges[state.partition].end
        known = state.last_stable_offset if self._committed else state.high_watermark
        return (
            state.phase is Phase.FETCH
            and state.quiet_at == state.fetch_offset == state.position
            and not state.buffered
            and known >= end
        )

    def _check_id(self, partition: TopicPartition, state: PartitionState) -> None:
        wanted = self._ranges[partition].topic_id
        if wanted != ZERO and state.topic_id not in (ZERO, wanted):
            raise UnknownTopicOrPartition(
                f"Topic {partition.topic} was deleted and recreated while it was read."
            )

    def _check_topics(self, now: float) -> None:
        """Raise if a topic does not exist any more."""
        view = self._engine.cluster.view
        gone = [
            partition
            for partition in self._states
            if view.brokers and view.partition(partition.topic, partition.partition) is None
        ]
        if not gone:
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since > _TOPIC_GONE_SECONDS:
            raise UnknownTopicOrPartition(f"{gone[0]} does not exist. Was the topic deleted?")

    def _pass_over_lost(self) -> None:
        failed = [state for state in self._states.values() if state.phase is Phase.FAILED]
        starts = complete(self._core.beginning_offsets([state.partition for state in failed]))
        for state in failed:
            at, log_start = state.fetch_offset, starts[state.partition]
            end = self._ranges[state.partition].end
            if at >= log_start:
                raise OffsetOutOfRange(
                    f"{state.partition} has no offset {at}: the log was truncated, or the topic recreated."
                )
            lost = Lost(state.partition, at, min(end, log_start), log_start)
            if self._on_lost is None:
                raise lost
            self._on_lost(lost)
            if log_start >= end:
                del self._states[state.partition]
            else:
                complete(self._core.on_loop(self._engine.seek, state.partition, log_start, None))

    def _give_up(self, idle_seconds: float) -> None:
        waiting = ", ".join(f"{p} from offset {s.position}" for p, s in sorted(self._states.items()))
        raise TimedOut(f"No records of {waiting} arrived for {idle_seconds:g} s.")


def _cut(batch: pa.RecordBatch, cuts: list[tuple[int, int, int]]) -> pa.RecordBatch:
    """The batch without the rows beyond the ends of their ranges."""
    if not cuts:
        return batch
    offsets = memoryview(batch.column("offset").buffers()[1])[: 8 * batch.num_rows].cast("q")
    kept: list[pa.RecordBatch] = []
    begin = 0
    for first, last, end in cuts:
        at = _first_at_least(offsets, first, last, end)
        if at > begin:
            kept.append(batch.slice(begin, at - begin))
        begin = last
    if begin < batch.num_rows:
        kept.append(batch.slice(begin))
    if not kept:
        return batch.slice(0, 0)
    if len(kept) == 1:
        return kept[0]
    from pyarrow import concat_batches

    return concat_batches(kept)


def _first_at_least(offsets: memoryview, low: int, high: int, wanted: int) -> int:
    """The first row in [low, high) with an offset of at least `wanted`; `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
