"""`AsyncConsumer`, which is awaited: the twin of `Consumer`, with the engine on the user's own event loop."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.config import ConsumerSettings
from ottla.client.consumer.base import (
    CLOSE_SECONDS,
    LEAVE_SECONDS_MAX,
    WAIT_SECONDS_MAX,
    ConsumerBase,
    Fetched,
    K,
    Offsets,
    Partitions,
    Told,
    V,
    bounded,
    engine_of,
    place,
)
from ottla.client.core.membership import Call, Change
from ottla.client.errors import ClientError, Closed, TimedOut
from ottla.client.values import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.detached import cannot_await
from ottla.ports import Clock, Network, Random
from ottla.records.consumed import ConsumerRecord
from ottla.wire.errors import KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")


class AsyncConsumer(ConsumerBase[K, V]):
    """Reads records on the running event loop. Not for several tasks at once, except `wakeup`."""

    def __init__(
        self,
        settings: Mapping[str, object] | str | ConsumerSettings | None = None,
        /,
        *,
        topics: Collection[str] | str | None = None,
        pattern: str | re.Pattern[str] | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        random: Random | None = None,
        **keywords: Any,
    ) -> None:
        """As `Consumer`. Make it while a loop runs."""
        super().__init__(
            settings
            if isinstance(settings, ConsumerSettings)
            else ConsumerSettings.parse(settings, **keywords)
        )
        asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._user: asyncio.Task[Any] | None = None
        self._is_free = asyncio.Event()  # the task that used it while another one closed it is through
        self._is_listening = False  # a listener runs
        self._ending: asyncio.Future[None] | None = None
        self._engine = engine_of(
            self, self._settings, self._bell.set, clock=clock, network=network, random=random
        )
        self._wake_engine = self._engine.kick
        self._soon = _at_once
        if topics is not None or pattern is not None:
            self._engine.require_group("subscribe")
        self._engine.start()
        if topics is not None or pattern is not None:
            self._subscribe(topics, pattern)

    @contextmanager
    def _use(self) -> Iterator[None]:
        """One task at a time, and a consumer that is open."""
        self._check()
        task = asyncio.current_task()
        if self._user not in (None, task) and not self._is_listening:
            raise RuntimeError(
                "A consumer is for one task at a time: only wakeup() and close() may come from another."
            )
        is_outermost = self._user is None
        if is_outermost:  # a task that a listener began may outlive the poll: it is never the user
            self._user = task
        try:
            self._settle()
            yield
        finally:
            if is_outermost:
                self._user = None
                self._is_free.set()

    def _seconds(self, timeout: float | None) -> float:
        return self._settings.default_api_timeout_ms / 1000 if timeout is None else timeout

    # Reading.

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord[K, V]]:
        """The next records, at most `max.poll.records`; none when `timeout` seconds have passed.

        Rebalance listeners are called, and awaited, in here.
        """
        limit = self._settings.max_poll_records if max_records is None else max_records
        with self._use():
            return await self._await(lambda: self._take(limit), timeout) or []

    async def _await(self, take: Callable[[], Any], timeout: float | None) -> Any:
        engine = self._engine
        monotonic = engine.cluster.clock.monotonic
        now = engine.polled_at = monotonic()
        found = None
        if not (engine.is_alert or now >= engine.next_commit_at) or await self._attend(now):
            found = take()
        if found:
            return found
        if timeout is not None and timeout <= 0:
            self._check_membership()
            return found
        deadline = None if timeout is None else now + timeout
        engine.is_polling = True
        try:
            while True:
                self._bell.clear()
                now = monotonic()
                if not (engine.is_alert or now >= engine.next_commit_at) or await self._attend(now):
                    found = take()
                if found:
                    return found
                wait = engine.next_commit_at - monotonic()
                if deadline is None:
                    self._check_membership()
                else:
                    left = deadline - monotonic()
                    if left <= 0:
                        self._check_membership()
                        return None
                    wait = min(wait, left)
                await self._rest(min(max(wait, 0.0), WAIT_SECONDS_MAX))
        finally:
            engine.polled_at = monotonic()
            engine.is_polling = False

    async def _rest(self, seconds: float) -> None:
        """Wait for the bell."""
        try:
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        except TimeoutError:
            return

    async def _attend(self, now: float) -> bool:
        """Tell of rebalances, commit what is due, raise what went wrong; whether records may be given."""
        engine = self._engine
        if self._is_closing and not self._is_listening:
            engine.is_alert = True
            raise Closed("The consumer was closed while it was used.")
        engine.is_alert = False
        is_all_told = True
        try:
            self._next_trouble()
            if engine.group is not None and not self._is_telling:
                engine.came_back()
                while engine.group.calls and is_all_told:
                    is_all_told = await self._tell(engine.group.calls[0])
            elif self._is_telling:
                engine.is_alert = True  # a listener polls: the poll that called it looks again
        except BaseException:
            engine.is_alert = True  # there may be more
            raise
        if not is_all_told:
            engine.is_alert = True
        self._commit_when_due(now, is_all_told)
        return is_all_told

    async def _tell(self, call: Call) -> bool:
        """Tell the listener of a change, which counts as told also where the listener raises; False: not yet.

        The call stays the first of the queue until then: when the poll is cancelled, the next one tells it
        again.
        """
        is_told = False
        self._is_telling = True
        try:
            change = self._engine.begin_call(call)
            self._telling = call.partitions
            if change is Change.REVOKED and not self._is_committed_before(call):
                return False
            await self._listen(change, call.partitions)
            is_told = True
        except Exception:
            is_told = True
            raise
        finally:
            self._is_telling = False
            self._telling = frozenset()
            if is_told:
                self._engine.finished(call)
        return True

    async def _listen(self, change: Change, partitions: frozenset[TopicPartition]) -> None:
        """Call the listener. It may use the consumer, also in tasks of its own (`asyncio.wait_for`)."""
        self._is_listening = True
        try:
            result = self._callbacks.call(change, partitions)
            if isawaitable(result):
                await result
        finally:
            self._is_listening = False

    async def _commit_quietly(self, seconds: float | None = None) -> None:
        offsets = self._engine.positions.consumed()
        if not self._commits_itself or not offsets:
            return
        try:
            await self._engine.commits.commit(offsets, seconds=self._seconds(seconds))
        except (ClientError, KafkaError) as error:
            log.warning("Offsets could not be committed: %s", error)
        else:
            self._interceptors.committed(offsets)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """All records, for ever. The position is behind the record that the loop has in hand."""
        return self.records()

    async def records(self, idle_timeout: float | None = None) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate; with `idle_timeout` until no record has come for so many seconds."""
        while True:
            with self._use():
                iteration = await self._await(self._take_chunk, idle_timeout)
            if iteration is None:
                return
            for record in iteration.records:
                yield record
            self._done(iteration)

    async def batches(
        self, max_records: int | None = None, idle_timeout: float | None = None
    ) -> AsyncIterator[list[ConsumerRecord[K, V]]]:
        """Lists of records as they come, instead of single ones."""
        limit = self._settings.max_poll_records if max_records is None else max_records
        while True:
            with self._use():
                records = await self._await(lambda: self._take(limit), idle_timeout)
            if not records:
                return
            yield records

    async def arrow(self, max_rows: int = 65_536, idle_timeout: float | None = None) -> AsyncIterator[Any]:
        """As `Consumer.arrow`."""
        from ottla.client.arrow import take

        while True:
            with self._use():
                batch = await self._await(lambda: take(self, max_rows), idle_timeout)
            if batch is None:
                return
            yield batch

    async def fetched(self, timeout: float | None = 1.0) -> Fetched | None:
        """The next fetched bytes of a partition, as they came from the broker; None after `timeout`."""
        with self._use():
            found: Fetched | None = await self._await(self._take_bytes, timeout)
            return found

    # Subscribing.

    async def subscribe(
        self,
        topics: Collection[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
        on_assigned: Told | None = None,
        on_revoked: Told | None = None,
        on_lost: Told | None = None,
    ) -> None:
        """As `Consumer.subscribe`; listeners may be coroutine functions."""
        with self._use():
            names = self._checked_subscription(topics, pattern)
            self._callbacks.set(listener, on_assigned, on_revoked, on_lost)
            if not names and pattern is None:
                await self.unsubscribe()
                return
            self._subscribe(names, pattern)

    def _subscribe(self, topics: Collection[str] | str | None, pattern: str | re.Pattern[str] | None) -> None:
        self._engine.polled_at = self._engine.cluster.clock.monotonic()
        self._engine.subscribe(self._checked_subscription(topics, pattern), pattern)
        self._is_subscribed = True

    async def assign(self, partitions: Partitions) -> None:
        """Read these partitions, without the group's say."""
        with self._use():
            self._check_by_hand()
            self._engine.assign([TopicPartition(*partition) for partition in partitions])

    async def unsubscribe(self) -> None:
        """Leave the group and read nothing. Listeners are told."""
        with self._use():
            await self._commit_quietly()
            await self._leave(None, LEAVE_SECONDS_MAX)
            self._engine.clear()
            self._is_subscribed = False

    async def _leave(self, leave_group: bool | None, seconds: float) -> None:
        group = self._engine.group
        if group is None:
            return
        remain = None if leave_group is None else not leave_group
        call, send = group.farewell(remain=remain)
        try:
            if call is not None:
                await self._listen(call.change, call.partitions)
        finally:
            await self._engine.leave(send, seconds)

    # Positions.

    async def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata
    ) -> None:
        """Go on from `offset`."""
        with self._use():
            [named] = self._assigned([partition])
            self._engine.seek(named, *place(offset))

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        with self._use():
            self._engine.seek_by(self._assigned(partitions), "earliest")

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        with self._use():
            self._engine.seek_by(self._assigned(partitions), "latest")

    async def pause(self, partitions: Partitions | None = None) -> None:
        """Give no records of these partitions until they are resumed; they stay assigned."""
        with self._use():
            self._engine.pause(self._assigned(partitions), True)

    async def resume(self, partitions: Partitions | None = None) -> None:
        with self._use():
            self._engine.pause(self._assigned(partitions), False)

    async def position(
        self, partition: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> int:
        """The offset of the next record that this consumer gives."""
        with self._use():
            named = TopicPartition(*partition)
            work = self._engine.position(named, self._telling)
            return await _in_time(work, self._seconds(timeout), f"The position of {named}")

    async def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How far each partition's end is ahead of the position."""
        with self._use():
            seconds = self._seconds(timeout)
            return await _in_time(self._engine.lag(seconds, self._telling), seconds, "The lag")

    async def committed(
        self, partitions: Partitions | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing was."""
        with self._use():
            group = self._engine.require_group("ask for committed offsets")
            return await group.committed(self._named(partitions), self._seconds(timeout))

    async def commit(
        self,
        offsets: Offsets | None = None,
        *,
        wait: bool = True,
        timeout: float | None = None,
        on_commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], Any]
        | None = None,
    ) -> None:
        """As `Consumer.commit`."""
        with self._use():
            self._engine.require_group("commit")
            stored = self._offsets(offsets)
            if not wait:
                self._engine.commits.commit_soon(stored, self._interceptors.committed, on_commit)
                return
            await self._engine.commits.commit(stored, seconds=self._seconds(timeout))
            self._interceptors.committed(stored)
            if on_commit is not None:
                on_commit(stored, None)

    # Looking up.

    async def offsets_for_times(
        self, times: Mapping[Any, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record that is not older than a time (ms since 1970); None: none."""
        with self._use():
            wanted = {TopicPartition(*partition): time for partition, time in times.items()}
            return await self._engine.lookup.until(wanted, self._seconds(timeout))

    async def beginning_offsets(
        self, partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        with self._use():
            return await self._edges(partitions, True, timeout)

    async def end_offsets(
        self, partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record; for read_committed, the last stable offset."""
        with self._use():
            return await self._edges(partitions, False, timeout)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; none where it does not exist."""
        with self._use():
            return await self._partitions_of(topic, self._seconds(timeout))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for a producer's transaction."""
        return self._engine.require_group("be in a group").metadata

    # The end.

    def wakeup(self) -> None:
        """Have the poll that waits now, or the next one, raise WokenUp. On the loop's thread."""
        self._is_woken = True
        self._engine.alert()

    async def close(self, timeout: float = CLOSE_SECONDS, *, leave_group: bool | None = None) -> None:
        """As `Consumer.close`. A poll that another task waits for raises Closed.

        If it is cancelled, connections and tasks end all the same; another call waits for that.
        """
        if self._ending is not None:
            await asyncio.shield(self._ending)
        if self._is_closed or self._is_closing:
            return
        self._is_closing = True
        clock = self._engine.cluster.clock.monotonic
        deadline = clock() + timeout
        try:
            await self._end_use(timeout)
            self._user = asyncio.current_task()
            self._settle()
            await self._commit_quietly(max(deadline - clock(), 0.0))
            await self._leave(leave_group, max(min(deadline - clock(), LEAVE_SECONDS_MAX), 0.1))
        finally:
            self._is_closed = True
            work = bounded(self._engine.close(), max(deadline - clock(), 1.0))
            self._ending = asyncio.ensure_future(work)
            await asyncio.shield(self._ending)

    async def _end_use(self, seconds: float) -> None:
        """Have another task that uses the consumer end that, if it does so in time."""
        if self._user in (None, asyncio.current_task()) or self._is_listening:
            return
        self._is_free.clear()
        self._engine.alert()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_free.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and not self._is_closed:
            self._settle(again=True)  # the record in hand was not done with
        if cannot_await(kind):
            self._is_closed = True
        else:
            await self.close()


async def _in_time(work: Coroutine[Any, Any, T], seconds: float, what: str) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise TimedOut(f"{what} was not known within {seconds:g} s.") from error


def _at_once(function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)
