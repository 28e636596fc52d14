"""The calls of the blocking and the asyncio consumer, each written once.

`ConsumerCore` is a member of both. The engine runs on its loop; a call runs where its caller does (`Caller`),
and reaches the loop through `LoopAccess`. `ConsumerCalls` lists the calls that are methods of both classes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from ottla.client.calls import Call, LoopAccess
from ottla.client.config import ConsumerSettings
from ottla.client.consumer.engine import Engine
from ottla.client.consumer.hooks import Interceptors, OnChange, RebalanceCallbacks
from ottla.client.consumer.polling import Caller, Polling
from ottla.client.consumer.record_source import Fetched, K, ReaderFactory, RecordSource, V
from ottla.client.errors import ClientError, Closed
from ottla.client.net.cluster import Cluster
from ottla.client.ports import Ports
from ottla.client.values import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.records.consumer_record import ConsumerRecord
from ottla.wire.errors import KafkaError

log = logging.getLogger(__name__)

CLOSE_SECONDS = 30.0
LEAVE_SECONDS_MAX = 5.0

T = TypeVar("T")
Partitions: TypeAlias = Iterable[TopicPartition | tuple[str, int]]
Offsets: TypeAlias = Mapping[Any, OffsetAndMetadata | int] | ConsumerRecord[Any, Any]


class _Use:
    """The duration of one call: no other thread or task may call, and no iteration holds records."""

    __slots__ = ("_core", "_is_outermost")

    def __init__(self, core: ConsumerCore[Any, Any]) -> None:
        self._core = core

    def __enter__(self) -> None:
        core = self._core
        if core.is_closed:
            raise Closed("The consumer is closed.")
        self._is_outermost = core.caller.begin_use()
        try:
            if core.source.iteration is not None:
                core.source.end_iteration()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        if self._is_outermost:
            self._core.caller.end_use()


class ConsumerCore(Generic[K, V]):
    """The calls of one consumer, on one engine. Call `start` first."""

    engine: Engine
    source: RecordSource[K, V]

    def __init__(self, settings: ConsumerSettings, loop: LoopAccess, caller: Caller) -> None:
        self.settings = settings
        self.caller = caller
        self.is_closing = False  # close() is under way: listeners may still commit
        self.is_closed = False
        self._loop = loop
        self._readers = ReaderFactory(settings)
        self._callbacks = RebalanceCallbacks()
        self._interceptors = Interceptors(settings.interceptor_classes)
        self._is_subscribed = False
        for warning in settings.warnings:
            log.warning("%s", warning)

    async def start(self, ports: Ports, *, subscribes: bool) -> None:
        """Create the engine and start it; `subscribes`: the consumer needs a group."""
        engine = await self._loop.run(self._start_engine(ports, subscribes))
        self.engine = engine
        self.source = RecordSource(
            engine.buffer,
            engine.counters,
            self._interceptors,
            self.settings.max_poll_records,
            partial(self.caller.make_room, engine),
        )
        self._polling = Polling(
            self.settings, engine, self._loop, self.caller, self._callbacks, self._interceptors
        )

    async def _start_engine(self, ports: Ports, subscribes: bool) -> Engine:
        settings = self.settings
        cluster = Cluster(settings, clock=ports.clock, network=ports.network, random=ports.random)
        assignors = partial(_assignors, settings)
        engine = Engine(settings, cluster, self._readers.open, assignors, self.caller.wake)
        if subscribes:
            engine.require_group("subscribe")
        engine.start()
        return engine

    # Records

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord[K, V]]:
        """Return the next records, at most `max.poll.records`; empty after `timeout` seconds.

        Rebalance listeners are called in here, and awaited by the asyncio consumer.
        """
        limit = self.settings.max_poll_records if max_records is None else max_records
        return await self.wait_for(partial(self.source.take, limit), timeout) or []

    async def fetched(self, timeout: float | None = 1.0) -> Fetched | None:
        """Return the next fetched bytes of a partition, as the broker sent them; None after `timeout`."""
        return await self.wait_for(self.source.take_bytes, timeout)

    async def wait_for(self, take: Callable[[], T | None], timeout: float | None) -> T | None:
        """Wait until `take` returns something; raise errors and handle rebalances first."""
        with _Use(self):
            return await self._polling.wait_for(take, timeout)

    # Subscribing

    async def subscribe(
        self,
        topics: Collection[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
        on_assigned: OnChange | None = None,
        on_revoked: OnChange | None = None,
        on_lost: OnChange | None = None,
    ) -> None:
        """Join the group with these topics, or with those whose whole name matches `pattern`.

        With `group.protocol=consumer`, a pattern given as a string is in RE2 syntax and the broker matches
        it; a compiled one is matched here. Listeners of an asyncio consumer may be coroutine functions.
        """
        with _Use(self):
            names = self._checked_subscription(topics, pattern)
            self._callbacks.set(listener, on_assigned, on_revoked, on_lost)
            if not names and pattern is None:
                await self.unsubscribe()
                return
            await self._loop.call(self.join_group, names, pattern)

    def join_group(self, topics: Collection[str] | str | None, pattern: str | re.Pattern[str] | None) -> None:
        """On the loop: join the group, or change the member's subscription."""
        names = self._checked_subscription(topics, pattern)
        self.engine.polled_at = self.engine.cluster.clock.monotonic()  # first: the member looks at it
        self.engine.subscribe(names, pattern)
        self._is_subscribed = True

    async def assign(self, partitions: Partitions) -> None:
        """Read these partitions, without a group's assignment."""
        with _Use(self):
            if self._is_subscribed:
                raise ValueError(
                    "The consumer is subscribed, so its group assigns the partitions. Call unsubscribe() "
                    "first."
                )
            wanted = [TopicPartition(*one) for one in partitions]
            self._commit_before_dropping(frozenset(wanted))
            await self._loop.call(self.engine.assign, wanted)

    async def unsubscribe(self) -> None:
        """Leave the group and stop reading. Listeners are called."""
        with _Use(self):
            await self._commit_if_automatic()
            try:
                await self._leave_group(None, LEAVE_SECONDS_MAX)
            finally:  # other members have the partitions now, also if the listener has failed
                self._loop.soon(self.engine.clear)
                self._is_subscribed = False
                await self._loop.call(_nothing)

    def _checked_subscription(
        self, topics: Collection[str] | str | None, pattern: str | re.Pattern[str] | None
    ) -> frozenset[str]:
        names = frozenset([topics] if isinstance(topics, str) else topics or ())
        if names and pattern is not None:
            raise ValueError("Subscribe to topics by name or by pattern, not both.")
        if not self._is_subscribed and self.engine.positions.states:
            raise ValueError("Partitions are assigned manually. Call unsubscribe() first.")
        return names

    async def _commit_if_automatic(self, seconds: float | None = None) -> None:
        """Commit the positions, if the consumer commits automatically; log a failure."""
        offsets = self.engine.positions.consumed()
        if not self._polling.commits_automatically or not offsets:
            return
        try:
            await self._loop.run(self.engine.commits.commit(offsets, seconds=self._seconds(seconds)))
        except (ClientError, KafkaError) as error:
            log.warning("Failed to commit offsets: %s", error)
        else:
            self._interceptors.committed(offsets)

    def _commit_before_dropping(self, kept: frozenset[TopicPartition]) -> None:
        """Commit the positions of all other partitions, which later automatic commits will not have."""
        consumed = self.engine.positions.consumed()
        dropped = {partition: offset for partition, offset in consumed.items() if partition not in kept}
        if dropped and self._polling.commits_automatically:
            self._loop.soon(self.engine.commits.commit_soon, dropped, self._interceptors.committed)

    async def _leave_group(self, leave_group: bool | None, seconds: float) -> None:
        group = self.engine.group
        if group is None:
            return
        remain = None if leave_group is None else not leave_group
        notice, send = await self._loop.call(lambda: group.end_membership(remain=remain))
        try:
            if notice is not None:
                await self.caller.call_listener(
                    partial(self._callbacks.call, notice.change, notice.partitions)
                )
        finally:
            await self._loop.run(self.engine.leave(send, seconds))

    # Positions

    async def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata
    ) -> None:
        """Continue at `offset`."""
        with _Use(self):
            [named] = self._assigned([partition])
            await self._loop.call(self.engine.seek, named, *_offset_and_epoch(offset))

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Continue at the first record of each partition."""
        with _Use(self):
            await self._loop.call(self.engine.seek_by, self._assigned(partitions), "earliest")

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Continue after the last record of each partition."""
        with _Use(self):
            await self._loop.call(self.engine.seek_by, self._assigned(partitions), "latest")

    async def pause(self, partitions: Partitions | None = None) -> None:
        """Return no records of these partitions until they are resumed; they stay assigned."""
        with _Use(self):
            await self._loop.call(self.engine.pause, self._assigned(partitions), True)

    async def resume(self, partitions: Partitions | None = None) -> None:
        """Return records of these partitions again."""
        with _Use(self):
            await self._loop.call(self.engine.pause, self._assigned(partitions), False)

    async def position(
        self, partition: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> int:
        """The offset of the next record that this consumer returns."""
        with _Use(self):
            named = TopicPartition(*partition)
            work = self.engine.position(named, self._polling.notified)
            return await self._loop.run(
                work, self._seconds(timeout), f"The position of {named} was not determined"
            )

    async def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The number of offsets between the position and the end of each partition."""
        with _Use(self):
            seconds = self._seconds(timeout)
            work = self.engine.lag(seconds, self._polling.notified)
            return await self._loop.run(work, seconds, "The lag was not determined")

    async def committed(
        self, partitions: Partitions | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of the group; None for a partition without one."""
        with _Use(self):
            group = self.engine.require_group("read committed offsets")
            return await self._loop.run(group.committed(self._named(partitions), self._seconds(timeout)))

    async def commit(
        self,
        offsets: Offsets | None = None,
        *,
        wait: bool = True,
        timeout: float | None = None,
        on_commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object]
        | None = None,
    ) -> None:
        """Commit offsets: the positions, the given offsets, or the one after a record.

        With `wait=False` the commit is tried once, in the background, which calls `on_commit` with the
        outcome.
        """
        with _Use(self):
            self.engine.require_group("commit")
            stored = self._offsets(offsets)
            if not wait:
                self._loop.soon(
                    self.engine.commits.commit_soon, stored, self._interceptors.committed, on_commit
                )
                return
            await self._loop.run(self.engine.commits.commit(stored, seconds=self._seconds(timeout)))
            self._interceptors.committed(stored)
            if on_commit is not None:
                on_commit(stored, None)

    def _seconds(self, timeout: float | None) -> float:
        return self.settings.default_api_timeout_ms / 1000 if timeout is None else timeout

    def _named(self, partitions: Partitions | None) -> list[TopicPartition]:
        if partitions is None:
            return list(self.assignment)  # without those that no listener was notified of yet
        return [TopicPartition(*partition) for partition in partitions]

    def _assigned(self, partitions: Partitions | None) -> list[TopicPartition]:
        """The given partitions, or all; raises if one is not assigned."""
        states = self.engine.positions.states
        named = self._named(partitions)
        for partition in named:
            if partition not in states:
                raise ValueError(f"{partition} is not assigned to this consumer.")
        return named

    def _offsets(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self.engine.positions.consumed()
        if isinstance(offsets, ConsumerRecord):
            partition = TopicPartition(offsets.topic, offsets.partition)
            return {partition: OffsetAndMetadata(offsets.offset + 1, offsets.leader_epoch)}
        return {
            TopicPartition(*partition): offset
            if isinstance(offset, OffsetAndMetadata)
            else OffsetAndMetadata(offset)
            for partition, offset in offsets.items()
        }

    # Looking up

    async def offsets_for_times(
        self, times: Mapping[Any, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a time (ms since 1970); None if there is none."""
        with _Use(self):
            wanted = {TopicPartition(*partition): time for partition, time in times.items()}
            return await self._loop.run(self.engine.lookup.lookup(wanted, self._seconds(timeout)))

    async def beginning_offsets(
        self, partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The log start offset of each partition."""
        with _Use(self):
            return await self._loop.run(self._edges(partitions, True, timeout))

    async def end_offsets(
        self, partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record; for read_committed, the last stable offset."""
        with _Use(self):
            return await self._loop.run(self._edges(partitions, False, timeout))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; empty if it does not exist."""
        with _Use(self):
            return await self._loop.run(self._partitions_of(topic, self._seconds(timeout)))

    def _edges(
        self, partitions: Partitions, earliest: bool, timeout: float | None
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        return self.engine.lookup.edges(
            self._named(partitions), earliest=earliest, seconds=self._seconds(timeout)
        )

    async def _partitions_of(self, topic: str, seconds: float) -> list[TopicPartition]:
        view = await self.engine.cluster.refresh(topics=[topic], timeout_ms=seconds * 1000)
        found = view.topics.get(topic)
        return [] if found is None else [TopicPartition(topic, one.index) for one in found.partitions]

    # What needs no waiting

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        states = list(self.engine.positions.states.items())
        notified = self._polling.notified
        return frozenset(
            partition for partition, state in states if not state.pending or partition in notified
        )

    @property
    def paused(self) -> frozenset[TopicPartition]:
        states = list(self.engine.positions.states.items())
        return frozenset(partition for partition, state in states if state.paused)

    def metrics(self) -> dict[str, int]:
        engine = self.engine
        snapshot = dict(engine.counters)
        snapshot["buffered_bytes"] = engine.buffer.bytes_buffered
        snapshot["buffered_pieces"] = len(engine.buffer.ready)
        snapshot["assigned_now"] = len(engine.positions.states)
        return snapshot

    def group_metadata(self) -> GroupMetadata:
        self.caller.check_process()
        return self.engine.require_group("be in a group").metadata

    def wakeup(self) -> None:
        self._polling.is_woken = True
        self.engine.alert()

    # The end

    async def leave(self, deadline: float, *, leave_group: bool | None) -> None:
        """Commit if the consumer commits automatically, and leave the group."""
        clock = self.engine.cluster.clock.monotonic
        await self._commit_if_automatic(max(deadline - clock(), 0.0))
        await self._leave_group(leave_group, max(min(deadline - clock(), LEAVE_SECONDS_MAX), 0.1))

    # For calls that are not written here

    def use(self) -> _Use:
        """The duration of such a call."""
        return _Use(self)

    async def on_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function on the engine's loop."""
        return await self._loop.call(function, *arguments)


class ConsumerCalls(Generic[K, V]):
    """The calls of both consumers. `ConsumerCore` implements and documents them."""

    _core: ConsumerCore[K, V]

    poll = Call(ConsumerCore[K, V].poll)
    fetched = Call(ConsumerCore[K, V].fetched)
    subscribe = Call(ConsumerCore[K, V].subscribe)
    assign = Call(ConsumerCore[K, V].assign)
    unsubscribe = Call(ConsumerCore[K, V].unsubscribe)
    seek = Call(ConsumerCore[K, V].seek)
    seek_to_beginning = Call(ConsumerCore[K, V].seek_to_beginning)
    seek_to_end = Call(ConsumerCore[K, V].seek_to_end)
    pause = Call(ConsumerCore[K, V].pause)
    resume = Call(ConsumerCore[K, V].resume)
    position = Call(ConsumerCore[K, V].position)
    lag = Call(ConsumerCore[K, V].lag)
    committed = Call(ConsumerCore[K, V].committed)
    commit = Call(ConsumerCore[K, V].commit)
    offsets_for_times = Call(ConsumerCore[K, V].offsets_for_times)
    beginning_offsets = Call(ConsumerCore[K, V].beginning_offsets)
    end_offsets = Call(ConsumerCore[K, V].end_offsets)
    partitions_for = Call(ConsumerCore[K, V].partitions_for)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions assigned to this consumer."""
        return self._core.assignment

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are assigned and paused."""
        return self._core.paused

    @property
    def settings(self) -> ConsumerSettings:
        return self._core.settings

    def metrics(self) -> dict[str, int]:
        """Counters since the start, and the amount of buffered data."""
        return self._core.metrics()

    def group_metadata(self) -> GroupMetadata:
        """The consumer's identity in its group, for a producer's transaction. Thread-safe."""
        return self._core.group_metadata()

    def wakeup(self) -> None:
        """Make the current or next poll raise WokenUp.

        Any thread may call it on a blocking consumer; on an asyncio consumer only the thread of its loop.
        """
        self._core.wakeup()


def settings_of(
    given: Mapping[str, object] | str | ConsumerSettings | None, keywords: dict[str, Any]
) -> ConsumerSettings:
    return given if isinstance(given, ConsumerSettings) else ConsumerSettings.parse(given, **keywords)


def _nothing() -> None:
    """For `LoopAccess.call`: wait until the loop has done what it was given before."""


def _assignors(settings: ConsumerSettings) -> Any:
    from ottla.client.core.assignors import assignors_of

    return assignors_of(settings.partition_assignment_strategy)


def _offset_and_epoch(offset: int | OffsetAndMetadata) -> tuple[int, int | None]:
    at, epoch = (
        (offset.offset, offset.leader_epoch) if isinstance(offset, OffsetAndMetadata) else (offset, None)
    )
    if at < 0:
        raise ValueError(
            f"Offset {at} is negative. Use seek_to_beginning or seek_to_end to go to an end of the log."
        )
    return at, epoch
