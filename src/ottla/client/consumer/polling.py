"""What a poll does in the user's thread or task before it returns records.

Rules: errors and changes of the assignment come before records. While partitions are being revoked and their
offsets are not committed yet, no poll returns records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from ottla.client.calls import LoopAccess
from ottla.client.config import ConsumerSettings
from ottla.client.consumer.engine import Engine
from ottla.client.consumer.hooks import Interceptors, RebalanceCallbacks
from ottla.client.core.membership import Change, Notify
from ottla.client.errors import WokenUp
from ottla.client.values import TopicPartition

WAIT_SECONDS_MAX = 60.0  # after so long a poll without an end looks again, also if nothing has woken it

T = TypeVar("T")


class Caller(Protocol):
    """The user's thread or task that calls the consumer."""

    def begin_use(self) -> bool:
        """Begin a call; raise if another thread or task uses the consumer. True for an outermost call."""

    def end_use(self) -> None:
        """End an outermost call."""

    def check_process(self) -> None:
        """Raise in a forked child, which has no loop."""

    def check_may_poll(self) -> None:
        """Raise if polls cannot return records any more."""

    def wake(self) -> None:
        """Wake the waiting poll. Thread-safe."""

    def clear_wake(self) -> None:
        """The poll looks for changes from now on."""

    async def wait_for_wake(self, seconds: float) -> None:
        """Wait until `wake` is called, for `seconds` at most."""

    async def call_listener(self, call: Callable[[], object]) -> None:
        """Call a rebalance listener, which may use the consumer."""

    def make_room(self, engine: Engine) -> None:
        """The user has taken records: let the engine fetch more."""


class Polling:
    """The polls of one consumer, one at a time, except for polls of a listener within another."""

    def __init__(
        self,
        settings: ConsumerSettings,
        engine: Engine,
        loop: LoopAccess,
        caller: Caller,
        callbacks: RebalanceCallbacks,
        interceptors: Interceptors,
    ) -> None:
        self.is_woken = False  # the next poll raises WokenUp
        self.notified: frozenset[TopicPartition] = frozenset()
        """The partitions of the change that a listener is handling."""
        self.commits_automatically = settings.enable_auto_commit and settings.group_id is not None
        self._settings = settings
        self._engine = engine
        self._loop = loop
        self._caller = caller
        self._callbacks = callbacks
        self._interceptors = interceptors
        self._is_notifying = False  # a poll notifies a listener of a change
        self._committing_before: Notify | None = None  # its partitions' offsets are committed first
        self._committed_before: Notify | None = None

    async def wait_for(self, take: Callable[[], T | None], timeout: float | None) -> T | None:
        """Wait until `take` returns something; raise errors and handle rebalances first."""
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
        was_polling, engine.is_polling = engine.is_polling, True  # a listener may poll within a poll
        try:
            while True:
                self._caller.clear_wake()
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
                await self._caller.wait_for_wake(min(max(wait, 0.0), WAIT_SECONDS_MAX))
        finally:
            engine.polled_at = monotonic()
            engine.is_polling = was_polling

    async def _attend(self, now: float) -> bool:
        """Notify of rebalances, commit when due, raise errors; return whether records may be returned."""
        engine = self._engine
        engine.is_alert = False
        are_all_notified = True
        try:
            self._caller.check_may_poll()
            self._raise_error()
            group = engine.group
            if group is not None and not self._is_notifying:
                await self._loop.call(engine.note_poll)
                while group.notices and are_all_notified:
                    are_all_notified = await self._notify(group.notices[0])
            elif self._is_notifying:
                engine.is_alert = True  # a listener polls: the poll that called it looks again
        except BaseException:
            engine.is_alert = True  # there may be more
            raise
        if not are_all_notified:
            engine.is_alert = True
        self._commit_when_due(now, are_all_notified)
        return are_all_notified

    async def _notify(self, notice: Notify) -> bool:
        """Notify the listener of a change, which takes effect even if the listener raises; False: not yet.

        The notice stays first in the queue until the engine has applied it: if the poll is cancelled or
        interrupted with Ctrl-C, the next poll repeats it, or finds it done.
        """
        is_notified = False
        self._is_notifying = True
        try:
            change = self._engine.begin_notice(notice)
            self.notified = notice.partitions
            if change is Change.REVOKED and not self._is_committed_before(notice):
                return False
            await self._caller.call_listener(partial(self._callbacks.call, change, notice.partitions))
            is_notified = True
        except Exception:
            is_notified = True
            raise
        finally:
            self._is_notifying = False
            self.notified = frozenset()
            if is_notified:
                self._loop.soon(self._engine.finish_notice, notice)  # Ctrl-C does not cancel that
                await self._loop.call(_nothing)
        return True

    def _raise_error(self) -> None:
        """Raise the first error that the user must see."""
        engine = self._engine
        if self.is_woken:
            self.is_woken = False
            raise WokenUp("wakeup() was called.")
        group = engine.group
        if group is not None and group.errors:
            raise group.errors.popleft()
        if engine.errors:
            raise engine.errors.pop(0)

    def _check_membership(self) -> None:
        """A poll without records raises the reason why the membership has ended: no records will come."""
        group = self._engine.group
        if group is not None and group.ended_by is not None:
            raise group.ended_by.with_traceback(None)  # which would grow with each poll

    def _commit_when_due(self, now: float, are_all_notified: bool) -> None:
        """Commit at each `auto.commit.interval.ms`, if the consumer commits automatically."""
        engine = self._engine
        if now < engine.next_commit_at:
            return
        engine.next_commit_at = now + self._settings.auto_commit_interval_ms / 1000
        if self.commits_automatically and are_all_notified:
            self._loop.soon(
                engine.commits.commit_automatically, engine.positions.consumed(), self._interceptors.committed
            )

    def _is_committed_before(self, notice: Notify) -> bool:
        """Whether the offsets of partitions to be revoked are committed, or cannot be.

        The first call starts the commit. It continues if a poll ends before it, so that short polls also
        finish it, and alerts the waiting poll.
        """
        if self._committing_before is not notice:
            offsets = self._engine.positions.consumed()
            if not self.commits_automatically or not offsets:
                return True

            def done() -> None:
                self._committed_before = notice
                self._engine.alert()

            self._loop.soon(self._engine.commits.commit_last, offsets, self._interceptors.committed, done)
            self._committing_before = notice
        return self._committed_before is notice


def _nothing() -> None:
    """For `LoopAccess.call`: wait until the loop has run everything scheduled before."""
