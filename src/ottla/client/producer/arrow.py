"""Tables that a producer sends, `producer.send_arrow()`; needs pyarrow.

The rule: no Python object for each record. The kernel builds whole batches from the rows of a table, and
they wait in the producer's queues like all others. Serializers, interceptors and own partitioners have no
part in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ConfigError, TimedOut
from ottla.client.values import Status
from ottla.records.arrow import rows_of
from ottla.records.builder import BatchBuilder, next_ratio

if TYPE_CHECKING:
    from ottla.client.core.accumulator import Accumulator, Batch, PartitionQueue, TopicQueues
    from ottla.records.rows import Rows

BATCH_BYTES = 896 << 10
"""The minimum size of a table's batches, even if `batch.size` is less: all rows are there, so none waits."""


@dataclass(frozen=True, slots=True)
class PartReport:
    """The outcome of rows sent in one batch: they have `rows` offsets, starting at `offset`."""

    partition: int
    offset: int
    rows: int
    status: Status
    error: Exception | None


@dataclass(frozen=True, slots=True)
class TableReport:
    """The outcome of a table: its parts in the order in which they were sent."""

    topic: str
    rows: int
    parts: tuple[PartReport, ...]

    @property
    def error(self) -> Exception | None:
        """The first error, if any."""
        return next((part.error for part in self.parts if part.error is not None), None)


class TableDelivery:
    """A table being sent. `result` waits for its report; so does `await`, with the async producer."""

    def __init__(
        self,
        topic: str,
        wait: Callable[[Batch, float | None], bool],
        wait_async: Callable[[Batch], Awaitable[object]],
        monotonic: Callable[[], float],
    ) -> None:
        self.topic = topic
        self.batches: list[Batch] = []
        self._wait = wait
        self._wait_async = wait_async
        self._monotonic = monotonic

    def _pending(self) -> Batch | None:
        """A batch that is not done. Batches that were split are replaced by their parts."""
        index = 0
        while index < len(self.batches):
            batch = self.batches[index]
            if batch.pieces is not None:
                self.batches[index : index + 1] = batch.pieces
            elif not batch.is_done:
                return batch
            else:
                index += 1
        return None

    def on_done(self, listener: Callable[[], object]) -> None:
        """Call `listener` once when the outcome of every row is known; possibly in another thread."""
        batch = self._pending()
        if batch is None:
            listener()
        else:
            batch.on_done(lambda: self.on_done(listener))

    def done(self) -> bool:
        """Whether the outcome of every row is known."""
        return self._pending() is None

    def report(self, timeout: float | None = None) -> TableReport:
        """Wait for the report, at most `timeout` seconds; it may contain errors."""
        deadline = None if timeout is None else self._monotonic() + timeout
        while (batch := self._pending()) is not None:
            left = None if deadline is None else max(deadline - self._monotonic(), 0.0)
            if not self._wait(batch, left) and not batch.is_done and batch.pieces is None:
                raise TimedOut(f"The table was not acknowledged within {timeout:g} s.")
        return self._report()

    def result(self, timeout: float | None = None) -> TableReport:
        """Wait for the report, at most `timeout` seconds, and raise its error if it has one."""
        report = self.report(timeout)
        if report.error is not None:
            raise report.error
        return report

    def __await__(self) -> Generator[Any, None, TableReport]:
        return self._awaited().__await__()

    async def _awaited(self) -> TableReport:
        while (batch := self._pending()) is not None:
            await self._wait_async(batch)
        report = self._report()
        if report.error is not None:
            raise report.error
        return report

    def _report(self) -> TableReport:
        parts = tuple(
            PartReport(batch.queue.index, batch.base_offset, batch.count, batch.status, batch.error)
            for batch in self.batches
        )
        return TableReport(self.topic, sum(part.rows for part in parts), parts)


def check_chain(partitioner: object, partition: str | None) -> None:
    """A custom partitioner takes single records: with it, a table needs a column of partitions."""
    if partitioner is not None and partition is None:
        raise ConfigError(
            "send_arrow does not call partitioner.class. Put the partition numbers into a column and name "
            "it in partition."
        )


def adopted(data: bytes | memoryview) -> BatchBuilder:
    """A batch that was built elsewhere, in the form that the accumulator accepts."""
    builder = BatchBuilder(batch_size=len(data))
    builder.adopt(data)
    return builder


def built_batches(
    accumulator: Accumulator,
    queues: TopicQueues,
    table: Any,
    *,
    key: str | None,
    value: str | None,
    headers: str | None,
    partition: str | None,
    timestamp: str | None,
    now_ms: int,
) -> Iterator[tuple[PartitionQueue, BatchBuilder]]:
    """The rows of a table or record batch as sealed batches, with their partitions."""
    from pyarrow import RecordBatch

    parts = [table] if isinstance(table, RecordBatch) else table.to_batches()
    for part in parts:
        rows = rows_of(
            part,
            key=key,
            value=value,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            now_ms=now_ms,
        )
        if rows.count:
            yield from _built(accumulator, queues, rows)


def _built(
    accumulator: Accumulator, queues: TopicQueues, rows: Rows
) -> Iterator[tuple[PartitionQueue, BatchBuilder]]:
    """One batch of each partition in turn, so that a request contains batches of all of them."""
    starts = rows.arrange(len(queues.queues), ignore_keys=accumulator.ignores_keys)
    size = min(max(accumulator.batch_size, BATCH_BYTES), accumulator.max_request_size)
    left = {place: starts[place] for place in range(len(starts) - 1) if starts[place] < starts[place + 1]}
    while left:
        for place, position in list(left.items()):
            builder = BatchBuilder(
                codec=accumulator.codec, level=accumulator.level, batch_size=size, ratio=queues.ratio
            )
            position = builder.append_rows(rows, position, starts[place + 1])
            builder.close()
            if accumulator.codec:
                queues.ratio = next_ratio(queues.ratio, builder.ratio)
            if place:
                queue = queues.queues[place - 1]
            else:  # rows without a place: a batch stays together, the next one may go elsewhere
                queue = queues.queues[queues.sticky.current(queues.view)]
                queues.sticky.appended(builder.bytes_estimate, queues.view)
            yield queue, builder
            if position < starts[place + 1]:
                left[place] = position
            else:
                del left[place]
