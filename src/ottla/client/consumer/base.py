"""What the blocking and the awaited consumer share: taking records, iteration, listeners, arguments.

Rule: the position of a partition is behind the last record that the user was given. An iteration is given
records in chunks; whatever else the user calls in the midst of one first puts the rest of the chunk back.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias

from ottla import host
from ottla.client.config import ConsumerSettings
from ottla.client.consumer.engine import Engine
from ottla.client.core.fetch_buffer import Piece, Reader
from ottla.client.core.membership import Call, Change
from ottla.client.errors import Closed, WokenUp
from ottla.client.net.cluster import Cluster
from ottla.client.serialization.serializers import Deserialize, deserializer_of
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.ports import Clock, Network, Random
from ottla.records.consumed import ConsumerRecord
from ottla.records.reader import records_of

log = logging.getLogger(__name__)

CLOSE_SECONDS = 30.0
LEAVE_SECONDS_MAX = 5.0
WAIT_SECONDS_MAX = 60.0  # between two looks around of a poll that has no end

if TYPE_CHECKING:  # a Consumer without [K, V] has keys and values of any type; Python has that from 3.13 on
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Told: TypeAlias = Callable[[list[TopicPartition]], Any]
Partitions: TypeAlias = Iterable[TopicPartition | tuple[str, int]]
Offsets: TypeAlias = Mapping[Any, OffsetAndMetadata | int] | ConsumerRecord[Any, Any]


class Listener(Protocol):
    """Hears of rebalances, in the user's own poll. Each method may be missing; lost falls back to revoked."""

    def on_assigned(self, partitions: list[TopicPartition]) -> Any: ...

    def on_revoked(self, partitions: list[TopicPartition]) -> Any: ...

    def on_lost(self, partitions: list[TopicPartition]) -> Any: ...


class Fetched(NamedTuple):
    """Fetched bytes of one partition, for those who read batches themselves."""

    topic: str
    partition: int
    data: memoryview
    from_offset: int
    next_offset: int
    aborted: Sequence[tuple[int, int]]


class Callbacks:
    """The listener of a subscription."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[Change, Callable[[list[TopicPartition]], Any] | None] = {}

    def set(
        self,
        listener: Any,
        on_assigned: Callable[[list[TopicPartition]], Any] | None,
        on_revoked: Callable[[list[TopicPartition]], Any] | None,
        on_lost: Callable[[list[TopicPartition]], Any] | None,
    ) -> None:
        revoked = on_revoked or getattr(listener, "on_revoked", None)
        self._calls = {
            Change.ASSIGNED: on_assigned or getattr(listener, "on_assigned", None),
            Change.REVOKED: revoked,
            Change.LOST: on_lost or getattr(listener, "on_lost", None) or revoked,
        }

    def call(self, change: Change, partitions: Iterable[TopicPartition]) -> Any:
        """Call it; what it returns may be awaitable."""
        callback = self._calls.get(change)
        return None if callback is None else callback(sorted(partitions))


class Interceptors:
    """What stands between the consumer and its user, in the order of `interceptor.classes`."""

    __slots__ = ("_commit", "_consume")

    def __init__(self, interceptors: Iterable[Any]) -> None:
        made = [one() if isinstance(one, type) else one for one in interceptors]
        self._consume = [one.on_consume for one in made if hasattr(one, "on_consume")]
        self._commit = [one.on_commit for one in made if hasattr(one, "on_commit")]

    def consume(self, records: list[Any]) -> list[Any]:
        for call in self._consume:
            try:
                records = list(call(records))
            except Exception:
                log.exception("An interceptor failed on consumed records; they go on without it.")
        return records

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for call in self._commit:
            try:
                call(offsets)
            except Exception:
                log.exception("An interceptor failed on committed offsets.")

    @property
    def is_consuming(self) -> bool:
        return bool(self._consume)


class Iteration:
    """Where an iteration stands in its chunk.

    The user's loop runs over `records`, a plain iterator of a list, so nothing is done for each record; how
    far it came is asked of the iterator, and it is moved to its end when the chunk is left.
    """

    __slots__ = ("_shown", "chunk", "piece", "records")

    def __init__(self, piece: Piece, chunk: list[Any], shown: list[Any]) -> None:
        self.piece = piece
        self.chunk = chunk  # as it was taken
        self._shown = shown  # as interceptors leave it
        self.records: Any = iter(shown)

    def leave(self, *, again: bool) -> int:
        """End it. How many records of the chunk are done with; `again`: without the one in hand."""
        given = len(self._shown) - self.records.__length_hint__()
        self.records.__setstate__(len(self._shown))
        if given == 0:
            return 0
        last = self._shown[given - 1]
        return next(i for i, record in enumerate(self.chunk) if record.offset == last.offset) + (not again)


class ConsumerBase(Generic[K, V]):
    """The part that does not wait."""

    _engine: Engine
    _settings: ConsumerSettings
    _wake_engine: Callable[[], None]  # there is room in the buffer
    _soon: Callable[..., object]  # has something called on the loop

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._callbacks = Callbacks()
        self._interceptors = Interceptors(settings.interceptor_classes)
        self._iteration: Iteration | None = None
        self._is_subscribed = False
        self._committing_before: Call | None = None  # what was read of partitions that are to be given back
        self._committed_before: Call | None = None
        self._is_telling = False  # a poll tells a listener of a change
        self._telling: frozenset[TopicPartition] = frozenset()  # what a listener hears of just now
        self._is_closing = False  # close() is under way: listeners may still commit
        self._is_closed = False
        self._is_woken = False
        self._commits_itself = settings.enable_auto_commit and settings.group_id is not None
        self._key_deserializer, self._value_deserializer = _deserializers(settings)
        for warning in settings.warnings:
            log.warning("%s", warning)

    def _open(self, piece: Piece, position: int) -> Reader:
        partition = piece.state.partition
        return records_of(
            partition.topic,
            partition.partition,
            piece.records,
            from_offset=position,
            aborted=piece.aborted,
            read_committed=self._settings.isolation_level == "read_committed",
            check_crcs=self._settings.check_crcs,
            max_records=None,
            key_deserializer=self._key_deserializer,
            value_deserializer=self._value_deserializer,
        )

    def _check(self) -> None:
        if self._is_closed:
            raise Closed("The consumer is closed.")

    # Records.

    def _take(self, limit: int) -> list[ConsumerRecord[K, V]]:
        """Up to `limit` records of what is here, of one or more partitions."""
        buffer, found = self._engine.buffer, None
        if not buffer.ready:
            return []
        while buffer.ready:
            try:
                took = buffer.take(limit if found is None else limit - len(found))
            except Exception:
                if found is None:
                    raise
                break  # those before it first; it is raised by the next poll
            if took is None:
                break
            piece, records = took
            if piece.reader is not None and piece.reader.exhausted:
                self._wake_engine()
            if found is None:
                found = records
            else:
                found += records
            if len(found) >= limit or (piece.reader is not None and piece.reader.ended_early):
                break
        if found is None:
            self._wake_engine()  # what was passed over may have made room
            return []
        self._engine.counters["records"] += len(found)
        return self._interceptors.consume(found) if self._interceptors.is_consuming else found

    def _take_chunk(self) -> Iteration | None:
        """The next records for an iteration, of one partition."""
        took = self._engine.buffer.take(self._settings.max_poll_records, hold=True)
        if took is None:
            self._wake_engine()  # what was passed over may have made room
            return None
        piece, records = took
        self._engine.counters["records"] += len(records)
        shown = self._interceptors.consume(records) if self._interceptors.is_consuming else records
        self._iteration = Iteration(piece, records, shown)
        return self._iteration

    def _settle(self, *, again: bool = False) -> None:
        """Leave an iteration: the rest of its chunk is given back. `again`: the last record too."""
        iteration, self._iteration = self._iteration, None
        if iteration is None:
            return
        index = iteration.leave(again=again)
        before = iteration.chunk[index - 1] if index else None
        self._engine.buffer.give_back(iteration.piece, before, iteration.chunk[index:])
        self._wake_engine()

    def _done(self, iteration: Iteration) -> None:
        """An iteration has gone through its chunk."""
        if self._iteration is iteration:
            self._iteration = None
            self._engine.buffer.release(iteration.piece)
            reader = iteration.piece.reader
            if reader is not None and reader.exhausted:
                self._wake_engine()

    def _next_trouble(self) -> None:
        """Raise what the user must see."""
        engine = self._engine
        if self._is_woken:
            self._is_woken = False
            raise WokenUp("wakeup() was called.")
        group = engine.group
        if group is not None and group.errors:
            raise group.errors.popleft()
        if engine.errors:
            raise engine.errors.pop(0)

    def _check_membership(self) -> None:
        """A poll without records says again why the group has ended for this consumer: none will come."""
        group = self._engine.group
        if group is not None and group.ended_by is not None:
            raise group.ended_by.with_traceback(None)  # which would grow with each poll

    def _commit_when_due(self, now: float, is_all_told: bool) -> None:
        """Commit every so often, if the consumer does that by itself."""
        engine = self._engine
        if now < engine.next_commit_at:
            return
        engine.next_commit_at = now + self._settings.auto_commit_interval_ms / 1000
        if self._commits_itself and is_all_told:
            self._soon(
                engine.commits.commit_automatically, engine.positions.consumed(), self._interceptors.committed
            )

    def _is_committed_before(self, call: Call) -> bool:
        """Whether what was read of partitions to be given back is committed, or cannot be.

        The first question begins with it, once for each call. It goes on when a poll ends before it, so that
        short polls get there, too, and alerts the poll that waits.
        """
        if self._committing_before is not call:
            offsets = self._engine.positions.consumed()
            if not self._commits_itself or not offsets:
                return True

            def done() -> None:
                self._committed_before = call
                self._engine.alert()

            self._soon(self._engine.commits.commit_last, offsets, self._interceptors.committed, done)
            self._committing_before = call
        return self._committed_before is call

    def _take_bytes(self) -> Fetched | None:
        took = self._engine.buffer.take_piece()
        if took is None:
            self._wake_engine()  # what was passed over may have made room
            return None
        piece, position = took
        self._wake_engine()
        topic, partition = piece.state.partition
        return Fetched(topic, partition, piece.records, position, piece.next_offset, piece.aborted)

    # Arguments.

    def _checked_subscription(
        self, topics: Collection[str] | str | None, pattern: str | re.Pattern[str] | None
    ) -> frozenset[str]:
        names = frozenset([topics] if isinstance(topics, str) else topics or ())
        if names and pattern is not None:
            raise ValueError("Subscribe to topics by name or by pattern, not both.")
        if not self._is_subscribed and self._engine.positions.states:
            raise ValueError("Partitions are assigned by hand: unsubscribe first.")
        return names

    def _check_by_hand(self) -> None:
        if self._is_subscribed:
            raise ValueError(
                "The consumer is subscribed, and its group assigns partitions: unsubscribe first."
            )

    def _named(self, partitions: Partitions | None) -> list[TopicPartition]:
        if partitions is None:
            return list(self._engine.positions.states)
        return [TopicPartition(*partition) for partition in partitions]

    async def _edges(
        self, partitions: Partitions, earliest: bool, timeout: float | None
    ) -> dict[TopicPartition, int]:
        seconds = self._settings.default_api_timeout_ms / 1000 if timeout is None else timeout
        return await self._engine.lookup.edges(self._named(partitions), earliest=earliest, seconds=seconds)

    async def _partitions_of(self, topic: str, seconds: float) -> list[TopicPartition]:
        view = await self._engine.cluster.refresh(topics=[topic], timeout_ms=seconds * 1000)
        found = view.topics.get(topic)
        return [] if found is None else [TopicPartition(topic, one.index) for one in found.partitions]

    def _offsets(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._engine.positions.consumed()
        if isinstance(offsets, ConsumerRecord):
            partition = TopicPartition(offsets.topic, offsets.partition)
            return {partition: OffsetAndMetadata(offsets.offset + 1, offsets.leader_epoch)}
        return {
            TopicPartition(*partition): offset
            if isinstance(offset, OffsetAndMetadata)
            else OffsetAndMetadata(offset)
            for partition, offset in offsets.items()
        }

    def _assigned(self, partitions: Partitions | None) -> list[TopicPartition]:
        """The partitions named, or all; each must be assigned."""
        states = self._engine.positions.states
        if partitions is None:
            return list(states)
        named = [TopicPartition(*partition) for partition in partitions]
        for partition in named:
            if partition not in states:
                raise ValueError(f"{partition} is not assigned to this consumer.")
        return named

    # What needs no waiting.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads now."""
        states = list(self._engine.positions.states.items())
        return frozenset(
            partition for partition, state in states if not state.pending or partition in self._telling
        )

    @property
    def paused(self) -> frozenset[TopicPartition]:
        states = list(self._engine.positions.states.items())
        return frozenset(partition for partition, state in states if state.paused)

    @property
    def settings(self) -> ConsumerSettings:
        return self._settings

    def metrics(self) -> dict[str, int]:
        """Counters since the start, and what is buffered now."""
        engine = self._engine
        snapshot = dict(engine.counters)
        snapshot["buffered_bytes"] = engine.buffer.bytes_buffered
        snapshot["buffered_pieces"] = len(engine.buffer.ready)
        snapshot["assigned_now"] = len(engine.positions.states)
        return snapshot


def _deserializers(settings: ConsumerSettings) -> tuple[Deserialize | None, Deserialize | None]:
    return (
        deserializer_of(settings.key_deserializer, "key.deserializer"),
        deserializer_of(settings.value_deserializer, "value.deserializer"),
    )


def engine_of(
    consumer: ConsumerBase[Any, Any],
    settings: ConsumerSettings,
    ring: Callable[[], None],
    *,
    clock: Clock | None = None,
    network: Network | None = None,
    random: Random | None = None,
) -> Engine:
    """An engine for the loop that runs now; on this machine, unless ports to another world are given."""
    cluster = Cluster(
        settings,
        clock=clock or host.HostClock(),
        network=network or host.HostNetwork(),
        random=random or host.HostRandom(),
    )
    return Engine(settings, cluster, consumer._open, lambda: _assignors(settings), ring)


def _assignors(settings: ConsumerSettings) -> Any:
    from ottla.client.core.assignors import assignors_of

    return assignors_of(settings.partition_assignment_strategy)


async def bounded(work: Coroutine[Any, Any, None], seconds: float) -> None:
    """Do it for so long at most."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.warning("The consumer did not hear from the brokers in time when it closed.")


def place(offset: int | OffsetAndMetadata) -> tuple[int, int | None]:
    at, epoch = (
        (offset.offset, offset.leader_epoch) if isinstance(offset, OffsetAndMetadata) else (offset, None)
    )
    if at < 0:
        raise ValueError(f"Offset {at} is below zero: use seek_to_beginning or seek_to_end for the edges.")
    return at, epoch
