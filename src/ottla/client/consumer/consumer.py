"""`Consumer`, which blocks: reading topics, alone or as a member of a group.

The engine runs on a loop in a thread of its own, so heartbeats and fetches go on while user code works;
records are taken from the buffer in the user's thread, without a hop. `async_consumer.py` has the twin.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.config import ConsumerSettings
from ottla.client.consumer.async_consumer import AsyncConsumer
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
    engine_of,
    place,
)
from ottla.client.consumer.engine import Engine
from ottla.client.core.membership import Call, Change
from ottla.client.errors import ClientError, Closed, TimedOut
from ottla.client.net.background import Background
from ottla.client.values import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.records.consumed import ConsumerRecord
from ottla.wire.errors import KafkaError

__all__ = ["AsyncConsumer", "Consumer"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class Consumer(ConsumerBase[K, V]):
    """Reads records. Not for several threads at once: only `wakeup` may be called from another one."""

    def __init__(
        self,
        settings: Mapping[str, object] | str | ConsumerSettings | None = None,
        /,
        *,
        topics: Collection[str] | str | None = None,
        pattern: str | re.Pattern[str] | None = None,
        **keywords: Any,
    ) -> None:
        """`settings`: bootstrap servers as text, or a mapping with dotted names; keywords in snake_case."""
        super().__init__(
            settings
            if isinstance(settings, ConsumerSettings)
            else ConsumerSettings.parse(settings, **keywords)
        )
        self._background = Background("consumer", on_end=self._ended)
        self._bell = threading.Event()
        self._has_ended = False  # the thread: nothing is fetched any more
        self._user: int | None = None
        self._wake_engine = self._kick_engine
        self._soon = self._background.soon
        try:
            self._engine = self._background.run(self._start())
        except BaseException:  # settings that cannot be used, for instance: leave no thread behind
            self._background.stop()
            raise
        if topics is not None or pattern is not None:
            try:
                self.subscribe(topics, pattern=pattern)
            except BaseException:
                self.close()
                raise

    async def _start(self) -> Engine:
        engine = engine_of(self, self._settings, self._bell.set)
        engine.start()
        return engine

    def _ended(self) -> None:
        """The thread has ended: polls that wait, and all after them, say so."""
        self._has_ended = True
        engine = getattr(self, "_engine", None)  # there is none where it could not start
        if engine is not None:
            engine.alert()

    def _kick_engine(self) -> None:
        if self._engine.waits_for_user and not self._has_ended:
            self._background.soon(self._engine.kick)

    # Getting at the loop.

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        return self._background.run(work, seconds)

    def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        async def call() -> T:
            return function(*arguments)

        return self._background.run(call())

    @contextmanager
    def _use(self, *, settle: bool = True) -> Iterator[None]:
        """One thread at a time, and a consumer that is open and of this process."""
        self._check()
        thread = threading.get_ident()
        if self._user is not None and self._user != thread:
            raise RuntimeError("A consumer is for one thread at a time: only wakeup() may come from another.")
        outer, self._user = self._user, thread
        try:
            self._check_fork()
            if settle:
                self._settle()
            yield
        finally:
            self._user = outer

    def _check_fork(self) -> None:
        if self._background.is_forked:
            self._background.loop  # noqa: B018 - says what to do after a fork

    def _seconds(self, timeout: float | None) -> float:
        return self._settings.default_api_timeout_ms / 1000 if timeout is None else timeout

    # Reading.

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord[K, V]]:
        """The next records, at most `max.poll.records`; none when `timeout` seconds have passed.

        Rebalance listeners are called in here.
        """
        limit = self._settings.max_poll_records if max_records is None else max_records
        with self._use():
            return self._await(lambda: self._take(limit), timeout) or []

    def _await(self, take: Callable[[], Any], timeout: float | None) -> Any:
        """What `take` finds, waiting for it; errors and rebalances come first."""
        engine = self._engine
        monotonic = engine.cluster.clock.monotonic
        now = engine.polled_at = monotonic()
        found = None
        if not (engine.is_alert or now >= engine.next_commit_at) or self._attend(now):
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
                if not (engine.is_alert or now >= engine.next_commit_at) or self._attend(now):
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
                self._bell.wait(min(max(wait, 0.0), WAIT_SECONDS_MAX))
        finally:
            engine.polled_at = monotonic()
            engine.is_polling = False

    def _attend(self, now: float) -> bool:
        """Tell of rebalances, commit what is due, raise what went wrong; whether records may be given."""
        engine = self._engine
        engine.is_alert = False
        is_all_told = True
        try:
            if self._has_ended:
                raise Closed(
                    "The consumer's thread has ended, as by sys.exit() in an assignor: the log says why. "
                    "Close this consumer and make another."
                )
            self._next_trouble()
            group = engine.group
            if group is not None and not self._is_telling:
                self._call(engine.came_back)
                while group.calls and is_all_told:
                    is_all_told = self._tell(group.calls[0])
            elif self._is_telling:
                engine.is_alert = True  # a listener polls: the poll that called it looks again
        except BaseException:
            engine.is_alert = True  # there may be more
            raise
        if not is_all_told:
            engine.is_alert = True
        self._commit_when_due(now, is_all_told)
        return is_all_told

    def _tell(self, call: Call) -> bool:
        """Tell the listener of a change, which counts as told also where the listener raises; False: not yet.

        The call stays the first of the queue until the engine has carried it out: wherever Ctrl-C comes, the
        next poll tells it again, or finds it done.
        """
        is_told = False
        self._is_telling = True
        try:
            change = self._engine.begin_call(call)
            self._telling = call.partitions
            if change is Change.REVOKED and not self._is_committed_before(call):
                return False
            self._callbacks.call(change, call.partitions)
            is_told = True
        except Exception:
            is_told = True
            raise
        finally:
            self._is_telling = False
            self._telling = frozenset()
            if is_told:
                self._background.soon(self._engine.finished, call)  # Ctrl-C does not cancel that
                self._call(_be_next)
        return True

    def _commit_quietly(self, seconds: float | None = None) -> None:
        offsets = self._engine.positions.consumed()
        if not self._commits_itself or not offsets:
            return
        try:
            self._wait(self._engine.commits.commit(offsets, seconds=self._seconds(seconds)))
        except (ClientError, KafkaError) as error:
            log.warning("Offsets could not be committed: %s", error)
        else:
            self._interceptors.committed(offsets)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """All records, for ever. The position is behind the record that the loop has in hand."""
        return self.records()

    def records(self, idle_timeout: float | None = None) -> Iterator[ConsumerRecord[K, V]]:
        """Iterate; with `idle_timeout` until no record has come for so many seconds."""
        while True:
            with self._use():
                iteration = self._await(self._take_chunk, idle_timeout)
            if iteration is None:
                return
            yield from iteration.records
            self._done(iteration)

    def batches(
        self, max_records: int | None = None, idle_timeout: float | None = None
    ) -> Iterator[list[ConsumerRecord[K, V]]]:
        """Lists of records as they come, instead of single ones."""
        limit = self._settings.max_poll_records if max_records is None else max_records
        while True:
            with self._use():
                records = self._await(lambda: self._take(limit), idle_timeout)
            if not records:
                return
            yield records

    def arrow(self, max_rows: int = 65_536, idle_timeout: float | None = None) -> Iterator[Any]:
        """Arrow record batches of what was fetched, each of up to `max_rows` records; needs pyarrow.

        Keys and values are bytes: nothing is deserialized, and interceptors are not called.
        """
        from ottla.client.arrow import take

        while True:
            with self._use():
                batch = self._await(lambda: take(self, max_rows), idle_timeout)
            if batch is None:
                return
            yield batch

    def fetched(self, timeout: float | None = 1.0) -> Fetched | None:
        """The next fetched bytes of a partition, as they came from the broker; None after `timeout`."""
        with self._use():
            found: Fetched | None = self._await(self._take_bytes, timeout)
            return found

    # Subscribing.

    def subscribe(
        self,
        topics: Collection[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
        on_assigned: Told | None = None,
        on_revoked: Told | None = None,
        on_lost: Told | None = None,
    ) -> None:
        """Be a member of the group for these topics, or for those that match `pattern` as a whole.

        With `group.protocol=consumer` a pattern given as text is RE2 syntax and the broker matches it;
        a compiled one is matched here.
        """
        with self._use():
            names = self._checked_subscription(topics, pattern)
            self._callbacks.set(listener, on_assigned, on_revoked, on_lost)
            if not names and pattern is None:
                self.unsubscribe()
                return
            self._engine.polled_at = self._engine.cluster.clock.monotonic()  # first: the member looks at it
            self._call(self._engine.subscribe, names, pattern)
            self._is_subscribed = True

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions, without the group's say."""
        with self._use():
            self._check_by_hand()
            self._call(self._engine.assign, [TopicPartition(*partition) for partition in partitions])

    def unsubscribe(self) -> None:
        """Leave the group and read nothing. Listeners are told."""
        with self._use():
            self._commit_quietly()
            self._leave(None, LEAVE_SECONDS_MAX)
            self._call(self._engine.clear)
            self._is_subscribed = False

    def _leave(self, leave_group: bool | None, seconds: float) -> None:
        group = self._engine.group
        if group is None:
            return
        remain = None if leave_group is None else not leave_group
        call, send = self._call(lambda: group.farewell(remain=remain))
        try:
            if call is not None:
                self._callbacks.call(call.change, call.partitions)
        finally:
            self._wait(self._engine.leave(send, seconds))

    # Positions.

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Go on from `offset`."""
        with self._use():
            [named] = self._assigned([partition])
            at, epoch = place(offset)
            self._call(self._engine.seek, named, at, epoch)

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        with self._use():
            self._call(self._engine.seek_by, self._assigned(partitions), "earliest")

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        with self._use():
            self._call(self._engine.seek_by, self._assigned(partitions), "latest")

    def pause(self, partitions: Partitions | None = None) -> None:
        """Give no records of these partitions until they are resumed; they stay assigned."""
        with self._use():
            self._call(self._engine.pause, self._assigned(partitions), True)

    def resume(self, partitions: Partitions | None = None) -> None:
        with self._use():
            self._call(self._engine.pause, self._assigned(partitions), False)

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """The offset of the next record that this consumer gives."""
        with self._use():
            work = self._engine.position(TopicPartition(*partition), self._telling)
            return self._wait(work, self._seconds(timeout))

    def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How far each partition's end is ahead of the position."""
        with self._use():
            seconds = self._seconds(timeout)
            return self._wait(self._engine.lag(seconds, self._telling), seconds)

    def committed(
        self, partitions: Partitions | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing was."""
        with self._use():
            group = self._engine.require_group("ask for committed offsets")
            named = self._named(partitions)
            return self._wait(group.committed(named, self._seconds(timeout)))

    def commit(
        self,
        offsets: Offsets | None = None,
        *,
        wait: bool = True,
        timeout: float | None = None,
        on_commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], Any]
        | None = None,
    ) -> None:
        """Store offsets for the group: the positions, those given, or that behind a record.

        With `wait=False` it is tried once, in the background; `on_commit` hears how it went, there.
        """
        with self._use():
            self._engine.require_group("commit")
            stored = self._offsets(offsets)
            if not wait:
                self._background.soon(
                    self._engine.commits.commit_soon, stored, self._interceptors.committed, on_commit
                )
                return
            self._wait(self._engine.commits.commit(stored, seconds=self._seconds(timeout)))
            self._interceptors.committed(stored)
            if on_commit is not None:
                on_commit(stored, None)

    # Looking up.

    def offsets_for_times(
        self, times: Mapping[Any, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record that is not older than a time (ms since 1970); None: none."""
        with self._use():
            wanted = {TopicPartition(*partition): time for partition, time in times.items()}
            return self._wait(self._engine.lookup.until(wanted, self._seconds(timeout)))

    def beginning_offsets(
        self, partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        with self._use():
            return self._wait(self._edges(partitions, True, timeout))

    def end_offsets(self, partitions: Partitions, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The offset after the last record; for read_committed, the last stable offset."""
        with self._use():
            return self._wait(self._edges(partitions, False, timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; none where it does not exist."""
        with self._use():
            return self._wait(self._partitions_of(topic, self._seconds(timeout)))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for a producer's transaction. From any thread."""
        self._check_fork()
        return self._engine.require_group("be in a group").metadata

    # The end.

    def wakeup(self) -> None:
        """Have the poll that waits now, or the next one, raise WokenUp. From any thread."""
        self._is_woken = True
        self._engine.is_alert = True
        self._bell.set()

    def close(self, timeout: float = CLOSE_SECONDS, *, leave_group: bool | None = None) -> None:
        """Commit if the consumer does that by itself, leave the group, close connections: within `timeout`.

        A static member stays in its group until its session ends; `leave_group` says otherwise.
        """
        if self._is_closed or (self._is_closing and self._user == threading.get_ident()):
            return
        if self._background.is_forked:
            self._is_closed = True  # the parent goes on with it
            return
        if self._has_ended:
            self._is_closed = True  # nothing is left that could be committed or closed
            return
        with self._use():
            self._is_closing = True
            clock = self._engine.cluster.clock.monotonic
            deadline = clock() + timeout
            try:
                self._commit_quietly(timeout)
                self._leave(leave_group, max(min(deadline - clock(), LEAVE_SECONDS_MAX), 0.1))
            finally:
                self._is_closed = True
                try:
                    self._wait(self._engine.close(), max(deadline - clock(), 1.0))
                except TimedOut:
                    log.warning("The consumer's connections did not close in time.")
                finally:
                    self._background.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and not self._is_closed and not self._background.is_forked:
            self._settle(again=True)  # the record in hand was not done with
        self.close()


def _be_next() -> None:
    """Wait until the loop has done what it was given before."""
