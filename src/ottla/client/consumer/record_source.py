"""Hands fetched records to the user, in the user's thread or task.

Rule: the position of a partition is after the last record that the user received. An iteration takes records
in chunks; any other call within it first returns the rest of the chunk to the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

from ottla.client.config import ConsumerSettings
from ottla.client.consumer.hooks import Interceptors
from ottla.client.core.fetch_buffer import CompletedFetch, Reader
from ottla.client.serialization.serializers import deserializer_of
from ottla.records.consumer_record import ConsumerRecord
from ottla.records.reader import records_of

if TYPE_CHECKING:  # a Consumer without [K, V] has keys and values of any type; Python has that from 3.13 on
    from collections import Counter

    from typing_extensions import TypeVar

    from ottla.client.core.fetch_buffer import Buffer

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class Columns(Protocol):
    """Gathers records as the columns of an Arrow record batch, without a Python object per record."""

    @property
    def rows(self) -> int: ...

    @property
    def is_full(self) -> bool: ...

    def add(self, reader: Any, rows_max: int) -> int: ...


class Fetched(NamedTuple):
    """Fetched bytes of one partition, for callers that read batches themselves."""

    topic: str
    partition: int
    data: memoryview
    from_offset: int
    next_offset: int
    aborted: Sequence[tuple[int, int]]


class ReaderFactory:
    """Opens fetched bytes as records, decoded by the consumer's deserializers."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._read_committed = settings.isolation_level == "read_committed"
        self._check_crcs = settings.check_crcs
        self._key_deserializer = deserializer_of(settings.key_deserializer, "key.deserializer")
        self._value_deserializer = deserializer_of(settings.value_deserializer, "value.deserializer")

    def open(self, fetch: CompletedFetch, position: int) -> Reader:
        partition = fetch.state.partition
        return records_of(
            partition.topic,
            partition.partition,
            fetch.records,
            from_offset=position,
            aborted=fetch.aborted,
            read_committed=self._read_committed,
            check_crcs=self._check_crcs,
            max_records=None,
            key_deserializer=self._key_deserializer,
            value_deserializer=self._value_deserializer,
        )


class Iteration:
    """One chunk of an iteration, and the user's progress in it.

    The user's loop runs over `records`, a plain list iterator, so no Python code runs per record. The
    iterator knows the progress, and is exhausted when the iteration leaves the chunk.
    """

    __slots__ = ("_shown", "chunk", "fetch", "records")

    def __init__(self, fetch: CompletedFetch, chunk: list[Any], shown: list[Any]) -> None:
        self.fetch = fetch
        self.chunk = chunk  # as it was taken from the buffer
        self._shown = shown  # as interceptors return it
        self.records: Any = iter(shown)

    def leave(self, *, again: bool) -> int:
        """End it, and return the number of processed records of the chunk; `again`: without the last one."""
        given = len(self._shown) - self.records.__length_hint__()
        self.records.__setstate__(len(self._shown))
        if given == 0:
            return 0
        last = self._shown[given - 1]
        return next(i for i, record in enumerate(self.chunk) if record.offset == last.offset) + (not again)


class RecordSource(Generic[K, V]):
    """Takes records from the engine's buffer. `make_room` lets the engine fetch more, and is called often."""

    def __init__(
        self,
        buffer: Buffer,
        counters: Counter[str],
        interceptors: Interceptors,
        chunk_size: int,
        make_room: Callable[[], None],
    ) -> None:
        self._buffer = buffer
        self._counters = counters
        self._interceptors = interceptors
        self._chunk_size = chunk_size
        self.make_room = make_room
        self.iteration: Iteration | None = None
        """The iteration with unread records of a chunk."""

    def take(self, limit: int) -> list[ConsumerRecord[K, V]]:
        """Take up to `limit` fetched records, of one or more partitions."""
        buffer, found = self._buffer, None
        if not buffer.ready:
            return []
        while buffer.ready:
            try:
                took = buffer.take(limit if found is None else limit - len(found))
            except Exception:
                if found is None:
                    raise
                break  # those before it first; the next poll raises it
            if took is None:
                break
            fetch, records = took
            if fetch.reader is not None and fetch.reader.exhausted:
                self.make_room()
            if found is None:
                found = records
            else:
                found += records
            if len(found) >= limit or (fetch.reader is not None and fetch.reader.ended_early):
                break
        if found is None:
            self.make_room()  # the buffer may have dropped stale pieces
            return []
        self._counters["records"] += len(found)
        return self._interceptors.consume(found) if self._interceptors.is_consuming else found

    def take_chunk(self) -> Iteration | None:
        """Take the next records for an iteration, of one partition."""
        took = self._buffer.take(self._chunk_size, hold=True)
        if took is None:
            self.make_room()  # the buffer may have dropped stale pieces
            return None
        fetch, records = took
        self._counters["records"] += len(records)
        shown = self._interceptors.consume(records) if self._interceptors.is_consuming else records
        self.iteration = Iteration(fetch, records, shown)
        return self.iteration

    def end_iteration(self, *, again: bool = False) -> None:
        """Return the rest of an iteration's chunk to the buffer. `again`: including the last record."""
        iteration, self.iteration = self.iteration, None
        if iteration is None:
            return
        index = iteration.leave(again=again)
        before = iteration.chunk[index - 1] if index else None
        self._buffer.give_back(iteration.fetch, before, iteration.chunk[index:])
        self.make_room()

    def finish_chunk(self, iteration: Iteration) -> None:
        """The user's loop has processed all records of a chunk."""
        if self.iteration is iteration:
            self.iteration = None
            self._buffer.release(iteration.fetch)
            reader = iteration.fetch.reader
            if reader is not None and reader.exhausted:
                self.make_room()

    def gather(self, columns: Columns, rows_max: int) -> bool:
        """Let `columns` gather up to `rows_max` fetched records; return whether there were any."""
        buffer = self._buffer
        while buffer.ready and columns.rows < rows_max and not columns.is_full:
            try:
                took = buffer.take(rows_max - columns.rows, collect=columns.add)
            except Exception:
                if not columns.rows:
                    raise
                break  # the rows before it first; the next poll raises it
            if took is None:
                break
            reader = took[0].reader
            if reader is not None and reader.exhausted:
                self.make_room()
        if not columns.rows:
            self.make_room()  # the buffer may have dropped stale pieces
            return False
        self._counters["records"] += columns.rows
        return True

    def take_bytes(self) -> Fetched | None:
        """Take the next fetched bytes."""
        took = self._buffer.take_fetch()
        if took is None:
            self.make_room()  # the buffer may have dropped stale pieces
            return None
        fetch, position = took
        self.make_room()
        topic, partition = fetch.state.partition
        return Fetched(topic, partition, fetch.records, position, fetch.next_offset, fetch.aborted)
