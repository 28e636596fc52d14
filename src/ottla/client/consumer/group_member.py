"""A consumer's requests to its group coordinator: drives a membership, and commits offsets.

The state machines of `core/membership` decide; this module carries out their effects. Changes that the user
must be notified of wait in `notices` for the next poll.

Rule: commits are sent to the coordinator one after the other, in the order of the calls, so an older one
never overwrites a newer one. A commit that is still waiting when its partitions have been revoked is sent
only in the generation in which it was requested: in a later one, the next owner may have committed more. So a
request that may begin the next generation waits for earlier commits; joins have their own connection, and
could arrive first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.core.membership import Change, Effect, Fail, Membership, Notify, RefreshMetadata, Send
from ottla.client.errors import ClientError, CommitFailed, Disconnected, TimedOut
from ottla.client.net.cluster import GROUP, Cluster
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.wire.errors import ErrorCode, KafkaError, RebalanceInProgress, UnsupportedVersion, for_code
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

log = logging.getLogger(__name__)

_LANE = "coordinator"  # heartbeats, commits
_JOIN_LANE = "group"  # what a coordinator holds until a rebalance is over
_NAMES_VERSION_MAX = 9  # of OffsetCommit and OffsetFetch: from 10 on topics go by their ids
_GROUPS_VERSION_MIN = 8  # of OffsetFetch: several groups a request

_LEARN_STREAK_SECONDS = 2.0
_FAILED_DRIVE_SECONDS = 0.1
_COMMITS_FIRST_SECONDS_MAX = 2.0  # so long does a join wait for commits: other members wait for the join

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH}
)
_RETRIABLE = _MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}


class Ownership(NamedTuple):
    """What a member owned when a commit was requested: decides whether the commit is still valid."""

    revocations: int  # how often partitions were given back, or lost, until then
    generation: int | None  # None without a membership


class GroupMember:
    """One consumer in its group. `membership` is None while partitions are assigned manually."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        instance_id: str | None,
        *,
        is_stable_required: bool,
        alert: Callable[[], None],
        counters: Counter[str],
    ) -> None:
        self._cluster = cluster
        self.group_id = group_id
        self.instance_id = instance_id
        self.membership: Membership | None = None
        self.notices: deque[Notify] = deque()
        self._notifying: Notify | None = (
            None  # the last one, while its listener runs or after that was interrupted
        )
        self.errors: deque[Exception] = deque()
        self.ended_by: Exception | None = None  # why the membership is over, if it failed
        self.expires_at: Callable[[], float] = lambda: float("inf")
        self._expired_at = -1.0
        self._alert = alert
        self._counters = counters
        self._is_stable_required = is_stable_required
        self._woken = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._runner: asyncio.Task[None] | None = None
        self._commits = asyncio.Lock()
        self._revocations = 0  # how often partitions were given back, or lost
        self._revoked_at: dict[TopicPartition, int] = {}  # the count at the last time for each
        self._left_at = 0  # the count when the last membership ended, with all its partitions
        self._learned_at = -_LEARN_STREAK_SECONDS
        self._learn_streak = 0
        self._identity = (-1, "")  # of memberships that have ended
        self._announce: Callable[[frozenset[TopicPartition]], None] = lambda partitions: None

    @property
    def now_ms(self) -> int:
        return int(self._cluster.clock.monotonic() * 1000)

    @property
    def metadata(self) -> GroupMetadata:
        """The consumer's identity for a transaction: see `Membership.identity`."""
        self._keep_identity()
        return GroupMetadata(self.group_id, *self._identity, self.instance_id)

    def _keep_identity(self) -> None:
        if self.membership is not None and self.membership.identity[0] >= 0:
            self._identity = self.membership.identity

    @property
    def ownership(self) -> Ownership:
        return Ownership(self._revocations, None if self.membership is None else self.membership.generation)

    def forget_identity(self) -> None:
        """Partitions are now assigned manually: offsets no longer belong to a member."""
        self._identity = (-1, "")

    # Driving the membership.

    def join(self, membership: Membership, announce: Callable[[frozenset[TopicPartition]], None]) -> None:
        """Join the group. `announce` is called with new partitions before the user is notified of them."""
        if self._runner is not None:
            self._runner.cancel()  # of a membership that has come to an end
        self._keep_identity()
        self.ended_by = None
        self.membership = membership
        self._announce = announce
        self._runner = self._spawn(self._run(membership))

    def wake(self) -> None:
        self._woken.set()

    async def _run(self, membership: Membership) -> None:
        while True:
            try:
                await self._drive(membership)
            except Exception as error:
                # An unexpected one: without heartbeats the group would remove this member.
                log.exception("The consumer's group membership failed; restarting it.")
                self.fail(error)
                await asyncio.sleep(_FAILED_DRIVE_SECONDS)

    async def _drive(self, membership: Membership) -> None:
        while True:
            self._woken.clear()
            now_ms = self.now_ms
            expires_at = self.expires_at()
            if expires_at * 1000 <= now_ms and expires_at != self._expired_at:
                self._expired_at = expires_at  # once for each time that the user is late
                log.warning(
                    "poll() was not called for max.poll.interval.ms: the consumer leaves its group until "
                    "the next poll. Poll more often, take fewer records per poll, or raise "
                    "max.poll.interval.ms."
                )
                self._counters["poll_interval_exceeded"] += 1
                membership.expire(now_ms)
                self._alert()  # the next poll brings it back
            for effect in membership.effects(now_ms):
                self._carry_out(membership, effect)
            at_ms = membership.wake_at_ms()
            wake_ms = min(
                float("inf") if at_ms is None else at_ms,
                float("inf") if expires_at == self._expired_at else expires_at * 1000,
            )
            wait = None if wake_ms == float("inf") else max(wake_ms - self.now_ms, 1) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()

    def _carry_out(self, membership: Membership, effect: Effect) -> None:
        match effect:
            case Send():
                self._spawn(self._send(membership, effect))
            case Notify():
                if effect.change is Change.ASSIGNED:
                    self._announce(effect.partitions)
                self.notices.append(effect)
                self._counters["rebalance_calls"] += 1
                self._alert()
            case RefreshMetadata():
                self._spawn(self._refresh_metadata(membership, effect))
            case Fail():
                self.ended_by = effect.error if membership.is_over else None
                self.fail(effect.error)

    def fail(self, error: Exception) -> None:
        """Make the next poll raise an error, unless the same error is already waiting."""
        if all(str(known) != str(error) for known in self.errors):
            self.errors.append(error)
        self._alert()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Make a poll raise an unexpected error of a finished task."""
        self._tasks.pop(task, None)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            log.error("The consumer's group membership failed.", exc_info=error)
            self.fail(error)

    async def _send(self, membership: Membership, send: Send) -> None:
        try:
            answer = await self._ask(send)
        except Disconnected as error:
            log.debug("%s was not answered: %s", send.kind, error)
            membership.unanswered(send, self.now_ms)
        except (ClientError, KafkaError) as error:
            membership.unanswered(send, self.now_ms)
            self.fail(_plain(error, send))
        else:
            self._counters[f"{send.kind}_requests"] += 1
            membership.answered(send, answer, self.now_ms)
        self.wake()

    async def _ask(self, send: Send) -> Any:
        if _may_reassign(send):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_COMMITS_FIRST_SECONDS_MAX), self._commits:
                    pass  # commits that were asked for before have been answered
        node = await self._cluster.coordinator(GROUP, self.group_id)
        lane = _JOIN_LANE if send.kind in ("join", "sync") else _LANE
        try:
            answer = await self._cluster.ask(node, send.request, timeout_ms=send.timeout_ms, lane=lane)
        except Disconnected:
            self._cluster.forget_coordinator(GROUP, self.group_id)
            raise
        if answer.error_code in _MOVED:
            self._cluster.forget_coordinator(GROUP, self.group_id)
        return answer

    async def _refresh_metadata(self, membership: Membership, learn: RefreshMetadata) -> None:
        """Refresh the metadata. Repeated refreshes wait longer each time."""
        now = self._cluster.clock.monotonic()
        self._learn_streak = self._learn_streak + 1 if now - self._learned_at < _LEARN_STREAK_SECONDS else 0
        if self._learn_streak:
            await asyncio.sleep(self._cluster.backoff.delay_ms(self._learn_streak - 1) / 1000)
        try:
            if learn.topics:
                self._cluster.follow(learn.topics)
            await self._cluster.refresh()
        except (ClientError, KafkaError) as error:
            self.fail(error)
        self._learned_at = self._cluster.clock.monotonic()
        membership.metadata_arrived(self._cluster.view, self.now_ms)
        self.wake()

    def note_poll(self) -> Notify | None:
        """The user polls.

        Partitions that were to be revoked and have been lost meanwhile are reported as lost, all at once;
        those that were to be assigned and have been lost before that are withdrawn, and returned.
        """
        membership = self.membership
        if membership is None:
            return None
        membership.polled()
        withdrawn: Notify | None = None
        if membership.is_outside and self.notices:
            notice = self.notices[0]
            if notice.change is Change.REVOKED or (
                notice.change is Change.ASSIGNED and notice is not self._notifying
            ):
                membership.withdraw(self.notices.popleft())
                withdrawn = notice if notice.change is Change.ASSIGNED else None
        for effect in membership.effects(self.now_ms):
            self._carry_out(membership, effect)
        self.wake()
        return withdrawn

    def notifying(self, notice: Notify) -> None:
        """The user is being notified of a change."""
        self._notifying = notice
        if self.membership is not None:
            self.membership.notifying(notice)

    def notified(self, notice: Notify) -> None:
        """The user was notified of a change."""
        if notice.change is not Change.ASSIGNED:
            self._revocations += 1
            self._revoked_at.update(dict.fromkeys(notice.partitions, self._revocations))
        if self.membership is not None:
            self.membership.notified(notice)
        self.wake()

    def end_membership(self, *, remain: bool | None = None) -> tuple[Notify | None, Send | None]:
        """End the membership: returns the user's last notice and the last request to the coordinator."""
        self.notices.clear()
        return (None, None) if self.membership is None else self.membership.leave(remain=remain)

    async def leave(self, send: Send | None) -> None:
        """Stop driving the membership, and leave the group. Without an answer, the session expires."""
        self._runner = None
        self._keep_identity()
        self.ended_by = None
        if self.membership is not None:
            self._revocations += 1
            self._left_at = self._revocations
        self.membership = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if send is not None:
            with contextlib.suppress(ClientError, KafkaError):
                await self._ask(send)

    # Offsets.

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        seconds: float,
        retries: bool = True,
        asked_at: Ownership | None = None,
    ) -> None:
        """Commit offsets within `seconds`, including the wait for earlier commits.

        `asked_at`: the ownership when the user requested the commit, if that was earlier.
        """
        if not offsets:
            return
        if asked_at is None:
            asked_at = self.ownership
        try:
            async with asyncio.timeout(seconds), self._commits:
                await self._commit(offsets, asked_at, retries=retries)
        except TimeoutError as error:
            raise TimedOut(f"Offsets were not committed within {seconds:g} s.") from error
        self._counters["commits"] += 1

    async def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], asked_at: Ownership, *, retries: bool
    ) -> None:
        attempt = 0
        while True:
            error: Exception
            try:
                left = await self._commit_once(offsets, asked_at)
            except Disconnected as lost:
                self._cluster.forget_coordinator(GROUP, self.group_id)
                error = lost
            else:
                if left is None:
                    return
                error = left
            if not retries:
                raise error
            await asyncio.sleep(self._cluster.backoff.delay_ms(attempt) / 1000)
            attempt += 1

    async def _commit_once(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], asked_at: Ownership
    ) -> KafkaError | None:
        """Try a commit once: return None, or a retriable error; raise others."""
        node = await self._cluster.coordinator(GROUP, self.group_id)
        self._check_ownership(offsets, asked_at)
        member = self.membership
        if member is not None and member.is_outside:
            raise CommitFailed(
                "The consumer is not a member of its group now. Call poll() so that it rejoins."
            )
        topics: dict[str, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
        for partition, offset in offsets.items():
            topic = topics.setdefault(
                partition.topic, OffsetCommitRequest.OffsetCommitRequestTopic(name=partition.topic)
            )
            topic.partitions.append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=-1 if member is None else member.generation,
            member_id="" if member is None else member.member_id,
            group_instance_id=self.instance_id,
            topics=list(topics.values()),
        )
        answer = await self._cluster.ask(node, request, lane=_LANE, version_max=_NAMES_VERSION_MAX)
        again: KafkaError | None = None
        for result in answer.topics:
            for one in result.partitions:
                if one.error_code:
                    again = self._refused(one.error_code, TopicPartition(result.name, one.partition_index))
        return again

    def _check_ownership(self, partitions: Iterable[TopicPartition], asked_at: Ownership) -> None:
        """Raise if another member may own the partitions of a commit.

        Within the same generation no other member does: the coordinator accepts the commit, or fences it.
        """
        has_left = self._left_at > asked_at.revocations
        if not has_left and self.ownership.generation == asked_at.generation:
            return
        for partition in partitions:
            if has_left or self._revoked_at.get(partition, 0) > asked_at.revocations:
                raise CommitFailed(f"{partition} was revoked before its offset was committed.")

    def _refused(self, code: int, partition: TopicPartition) -> KafkaError:
        error = for_code(code)(f"The offset of {partition} was not committed: {ErrorCode(code).name}.")
        if code in _MOVED:
            self._cluster.forget_coordinator(GROUP, self.group_id)
        if code in _FENCED:
            raise CommitFailed(
                "The group has rebalanced, and this member is not in the current generation. Call poll() "
                "and continue from the committed offsets. If this happens often, poll more often or raise "
                "max.poll.interval.ms."
            ) from error
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise RebalanceInProgress("The group is rebalancing. Call poll(), then commit.")
        if code not in _RETRIABLE:
            raise error
        return error

    async def committed(
        self, partitions: Iterable[TopicPartition], seconds: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of the group; None if there is none."""
        wanted = list(partitions)
        if not wanted:
            return {}
        attempt = 0
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        found = await self._committed_once(wanted)
                    except Disconnected:
                        self._cluster.forget_coordinator(GROUP, self.group_id)
                        found = None
                    if found is not None:
                        return found
                    await asyncio.sleep(self._cluster.backoff.delay_ms(attempt) / 1000)
                    attempt += 1
        except TimeoutError as error:
            raise TimedOut(f"Committed offsets were not received within {seconds:g} s.") from error

    async def _committed_once(
        self, wanted: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None] | None:
        node = await self._cluster.coordinator(GROUP, self.group_id)
        await self._cluster.connect(node, _LANE)
        versions = self._cluster.versions(node, OffsetFetchRequest.API_KEY or 0, _LANE)
        by_topic: dict[str, list[int]] = {}
        for partition in wanted:
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        request = OffsetFetchRequest(require_stable=self._is_stable_required)
        is_old = versions is not None and versions[-1] < _GROUPS_VERSION_MIN
        if is_old:
            request.require_stable = self._is_stable_required and versions is not None and 7 in versions
            request.group_id = self.group_id
            request.topics = [
                OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in by_topic.items()
            ]
        else:
            asked = OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=self.group_id,
                topics=[
                    OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic.items()
                ],
            )
            request.groups = [asked]
        answer = await self._cluster.ask(node, request, lane=_LANE, version_max=_NAMES_VERSION_MAX)
        result = answer if is_old else answer.groups[0]
        if result.error_code:
            if result.error_code in _MOVED:
                self._cluster.forget_coordinator(GROUP, self.group_id)
            if result.error_code in _RETRIABLE:
                return None
            raise for_code(result.error_code)(f"Cannot read the offsets of group {self.group_id}.")
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
        for topic in result.topics:
            for one in topic.partitions:
                if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                if one.error_code in _RETRIABLE:
                    return None
                if one.error_code:
                    raise for_code(one.error_code)(f"Cannot read the offsets of {topic.name}.")
                if one.committed_offset >= 0:
                    epoch = one.committed_leader_epoch if one.committed_leader_epoch >= 0 else None
                    found[TopicPartition(topic.name, one.partition_index)] = OffsetAndMetadata(
                        one.committed_offset, epoch, one.metadata or ""
                    )
        return found


def _may_reassign(send: Send) -> bool:
    """Whether this request may start a new generation, in which commits of this one are rejected."""
    return send.kind == "join" or getattr(send.request, "topic_partitions", None) is not None


def _plain(error: Exception, send: Send) -> Exception:
    if isinstance(error, UnsupportedVersion) and send.request.NAME.startswith("ConsumerGroup"):
        return UnsupportedVersion(
            "The brokers do not support the consumer group protocol. Set group.protocol=classic."
        )
    return error
