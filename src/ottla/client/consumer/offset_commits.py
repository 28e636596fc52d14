"""Commits of a consumer's offsets: those that the user waits for, and those in the background.

Rule: each commit has a deadline, and at most one automatic commit is in progress, so they do not pile up if a
coordinator does not answer. A commit applies to the partitions as they were owned when it was requested
(`Ownership`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from ottla.client.config import ConsumerSettings
from ottla.client.consumer.group_member import GroupMember, Ownership
from ottla.client.errors import ClientError, ConfigError
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.wire.errors import KafkaError

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
Committed: TypeAlias = Callable[[Offsets], None]
OnCommit: TypeAlias = Callable[[Offsets, Exception | None], object]


class OffsetCommits:
    """Called on the loop. `spawn` runs a coroutine until the consumer closes."""

    def __init__(
        self,
        group: GroupMember | None,
        settings: ConsumerSettings,
        counters: Counter[str],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._group = group
        self._settings = settings
        self._counters = counters
        self._spawn = spawn
        self._is_automatic_under_way = False
        self._asked_for = 0  # commits of the user's in the background that are not done
        self._are_done = asyncio.Event()

    def _require_group(self) -> GroupMember:
        if self._group is None:
            raise ConfigError("To commit, a consumer needs group.id.")
        return self._group

    async def commit(self, offsets: Offsets, *, seconds: float) -> None:
        """Commit, with retries for up to `seconds`."""
        group = self._require_group()
        asked_at = group.ownership
        await asyncio.sleep(0)  # commits that were asked for before, in the background, go first
        await group.commit(offsets, asked_at=asked_at, seconds=seconds)

    def commit_soon(self, offsets: Offsets, committed: Committed, on_commit: OnCommit | None = None) -> None:
        """Commit once in the background; `on_commit` is called on the loop with the outcome."""
        asked_at = self._require_group().ownership
        self._asked_for += 1
        self._spawn(self._commit_soon(asked_at, offsets, committed, on_commit))

    async def _commit_soon(
        self, asked_at: Ownership, offsets: Offsets, committed: Committed, on_commit: OnCommit | None
    ) -> None:
        try:
            await self._commit_once(asked_at, offsets, committed, on_commit)
        finally:
            self._asked_for -= 1
            if not self._asked_for:
                self._are_done.set()

    async def finish(self, seconds: float) -> None:
        """Wait up to this many seconds for the commits of `commit_soon`."""
        if not self._asked_for:
            return
        self._are_done.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._are_done.wait()
        except TimeoutError:
            log.warning("%d commits were not acknowledged within %g s.", self._asked_for, seconds)

    def commit_last(self, offsets: Offsets, committed: Committed, done: Callable[[], None]) -> None:
        """Commit in the background before partitions are revoked, with retries as long as allowed."""
        self._spawn(self._commit_last(offsets, committed, done))

    async def _commit_last(self, offsets: Offsets, committed: Committed, done: Callable[[], None]) -> None:
        try:
            await self.commit(offsets, seconds=self._settings.default_api_timeout_ms / 1000)
        except (ClientError, KafkaError) as error:
            log.warning("Failed to commit offsets: %s", error)
        else:
            _call_back(committed, offsets)
        finally:
            done()

    def commit_automatically(self, offsets: Offsets, committed: Committed) -> None:
        """As `commit_soon`, unless the last one is still in progress: the next one has newer offsets."""
        if not self._is_automatic_under_way:
            self._is_automatic_under_way = True
            self._spawn(self._commit_automatically(self._require_group().ownership, offsets, committed))

    async def _commit_automatically(
        self, asked_at: Ownership, offsets: Offsets, committed: Committed
    ) -> None:
        try:
            await self._commit_once(asked_at, offsets, committed, None)
        finally:
            self._is_automatic_under_way = False

    async def _commit_once(
        self, asked_at: Ownership, offsets: Offsets, committed: Committed, on_commit: OnCommit | None
    ) -> None:
        failure: Exception | None = None
        seconds = self._settings.default_api_timeout_ms / 1000
        try:
            await self._require_group().commit(offsets, asked_at=asked_at, seconds=seconds, retries=False)
        except (ClientError, KafkaError) as error:
            failure = error
            self._counters["failed_commits"] += 1
            if on_commit is None:
                log.warning("Failed to commit offsets: %s", error)
        else:
            _call_back(committed, offsets)
        if on_commit is not None:
            _call_back(on_commit, offsets, failure)


def _call_back(callback: Callable[..., Any], *arguments: object) -> None:
    try:
        callback(*arguments)
    except BaseException:  # SystemExit too: it would end the loop, and the heartbeats with it
        log.exception("A commit callback failed.")
