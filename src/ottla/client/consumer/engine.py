"""The consumer's engine: everything that happens in the background, on one event loop.

`Engine` keeps positions, asks leaders and the group for offsets, fetches ahead into a bounded buffer, and
drives the membership. The user's thread (or task) calls `buffer.take`; everything else is called on the loop.
When a poll must do something first (call a rebalance listener, raise an error), the engine sets `is_alert`
and wakes the waiting poll; new records wake it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from ottla.client.config import ConsumerSettings
from ottla.client.consumer.group_member import GroupMember
from ottla.client.consumer.offset_commits import OffsetCommits
from ottla.client.consumer.offset_lookup import OffsetLookup
from ottla.client.core.fetch_buffer import Buffer, CompletedFetch, Reader
from ottla.client.core.fetch_plan import FetchPlanner, Outcome
from ottla.client.core.fetch_session import FetchLimits, Wanted
from ottla.client.core.membership import Change, MemberSettings, Membership, Notify, Send
from ottla.client.core.membership.classic import ClassicMembership
from ottla.client.core.membership.consumer import ConsumerMembership
from ottla.client.core.metadata import ClusterView
from ottla.client.core.positions import LATEST_TIMESTAMP, Phase, Positions, Reset, ViewLeaders
from ottla.client.errors import ClientError, ConfigError, Disconnected
from ottla.client.net.cluster import Cluster
from ottla.client.values import TopicPartition
from ottla.detached import mark_retrieved
from ottla.rare_paths import rarely
from ottla.wire.errors import ErrorCode, KafkaError, for_code
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.uuid import to_text

log = logging.getLogger(__name__)

COUNTERS = (
    "records",
    "fetches",
    "fetched_bytes",
    "failed_fetches",
    "commits",
    "failed_commits",
    "rebalance_calls",
    "assigned_partitions",
    "revoked_partitions",
    "lost_partitions",
    "heartbeat_requests",
    "join_requests",
    "sync_requests",
    "poll_interval_exceeded",
)
_FETCH_LANE = "fetch"
_MANY_BYTES = 64 << 10  # records that keep a user's thread busy for a while
_UNREADABLE = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_HASTY_ANSWERS_MAX = 10
_LEAVE_SECONDS_MIN = 0.1
_FAILED_WORK_MS_MIN = 10
_UNKNOWN_TOPIC_SECONDS = 1.0  # how often to look again for a topic that is not there


class _Fetched:
    """A fetch response whose records are in the buffer, and the request that followed it at once, if any."""

    __slots__ = ("next_request", "outcome", "throttle_ms", "took_ms")

    def __init__(self, throttle_ms: int, outcome: Outcome, took_ms: int) -> None:
        self.throttle_ms = throttle_ms
        self.outcome = outcome
        self.took_ms = took_ms
        self.next_request: asyncio.Future[_Fetched] | None = None


class Engine:
    """The engine of one consumer: `start`, then the operations of the public classes, then `close`."""

    def __init__(
        self,
        settings: ConsumerSettings,
        cluster: Cluster,
        open_reader: Callable[[CompletedFetch, int], Reader],
        assignors: Callable[[], Any],
        wake_user: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.cluster = cluster
        self.counters: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
        self.is_alert = False
        self.is_polling = False
        self.waits_for_user = True  # there is something to ask for when the user has made room in the buffer
        self.polled_at = cluster.clock.monotonic()
        self.positions = Positions(Reset.parse(settings.auto_offset_reset))
        self.buffer = Buffer(open_reader)
        limits = FetchLimits(
            min_bytes=settings.fetch_min_bytes,
            max_wait_ms=settings.fetch_max_wait_ms,
            max_bytes=settings.fetch_max_bytes,
            partition_max_bytes=settings.max_partition_fetch_bytes,
            read_committed=settings.isolation_level == "read_committed",
            rack=settings.client_rack,
        )
        self.fetch_planner = FetchPlanner(
            self.positions,
            self.buffer,
            limits,
            retry_backoff_ms=settings.retry_backoff_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
        )
        self.lookup = OffsetLookup(
            cluster,
            read_committed=limits.read_committed,
            request_timeout_ms=settings.request_timeout_ms,
        )
        self.group: GroupMember | None = None
        if settings.group_id is not None:
            self.group = GroupMember(
                cluster,
                settings.group_id,
                settings.group_instance_id,
                is_stable_required=limits.read_committed,
                alert=self.alert,
                counters=self.counters,
            )
            self.group.expires_at = self._expires_at
        self.commits = OffsetCommits(self.group, settings, self.counters, self._spawn)
        self.errors: list[Exception] = []
        self._assignors = assignors
        self._wake_user = wake_user
        self._woken = asyncio.Event()
        self._asked: set[str] = set()  # what is under way, by name: at most one of each
        self._fetches: set[int] = set()
        self._hasty_answers: Counter[int] = Counter()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._topics: frozenset[str] = frozenset()
        self._moved = asyncio.Event()  # a position is known that was not
        self._looked_at = 0.0
        self._is_closed = False
        self.next_commit_at = self.polled_at + settings.auto_commit_interval_ms / 1000

    @property
    def now_ms(self) -> int:
        return int(self.cluster.clock.monotonic() * 1000)

    # Life.

    def start(self) -> None:
        """Begin to connect. If no server is reachable, a poll raises the reason, and the engine retries."""
        self.cluster.on_view(self._on_view)
        self._spawn(self._again(self._connect))
        self._spawn(self._again(self._run))

    async def _again(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run work again after an unexpected error: without it nothing would be fetched."""
        while True:
            try:
                return await work()
            except Exception as error:
                log.exception("A background task of the consumer failed; restarting it.")
                self.fail(error)
                await asyncio.sleep(max(self.settings.retry_backoff_ms, _FAILED_WORK_MS_MIN) / 1000)

    async def _connect(self) -> None:
        while not self.cluster.view.brokers:
            try:
                await self.cluster.start(timeout_ms=self.settings.default_api_timeout_ms)
            except (ClientError, KafkaError) as error:
                self.fail(error)
                await asyncio.sleep(self.settings.retry_backoff_max_ms / 1000)

    async def leave(self, send: Send | None, seconds: float) -> None:
        """Leave the group within about this many seconds, after the commits in the background."""
        if self.group is None:
            return
        deadline = self.cluster.clock.monotonic() + seconds
        await self.commits.finish(seconds)
        left = deadline - self.cluster.clock.monotonic()
        try:
            async with asyncio.timeout(max(left, _LEAVE_SECONDS_MIN)):
                await self.group.leave(send)
        except TimeoutError:
            log.warning("The brokers did not answer in time while the consumer closed.")

    async def close(self) -> None:
        """Stop everything. The membership has already ended."""
        self._is_closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.group is not None:
            await self.group.leave(None)
        self._end_sessions()
        await self.cluster.close()

    def _end_sessions(self) -> None:
        for node, session in self.fetch_planner.sessions.items():
            request = session.closing()
            if request is not None and node not in self._fetches and node in self.cluster.view.brokers:
                with contextlib.suppress(ClientError, KafkaError):
                    future = self.cluster.send(node, request, lane=_FETCH_LANE, timeout_ms=1000)
                    mark_retrieved(future)

    def alert(self) -> None:
        """Make the user's next poll look for changes and errors; wake the waiting poll."""
        self.is_alert = True
        self._wake_user()

    def wake(self) -> None:
        """Look for requests to send, after any change."""
        self._woken.set()

    def fail(self, error: Exception) -> None:
        """Make the next poll raise an error, unless the same error is already waiting."""
        if all(str(known) != str(error) for known in self.errors):
            self.errors.append(error)
        self.alert()

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Make a poll raise an unexpected error of a finished task."""
        self._tasks.pop(task, None)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            log.error("A background task of the consumer failed.", exc_info=error)
            self.fail(error)

    def _expires_at(self) -> float:
        """When `max.poll.interval.ms` expires, unless the user polls before."""
        last = self.cluster.clock.monotonic() if self.is_polling else self.polled_at
        return last + self.settings.max_poll_interval_ms / 1000

    # What is asked for.

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            self.waits_for_user = True  # until it is known: the user may take records at any moment
            now_ms = self.now_ms
            if (error := self.positions.resolve_failures()) is not None:
                self.fail(error)
            self._ask_offsets(now_ms)
            view = self.cluster.view
            for node, wanted in self.fetch_planner.wanted(view, now_ms).items():
                if node not in self._fetches:
                    self._fetches.add(node)
                    self._spawn(self._fetch(node, wanted))
            self.waits_for_user = self.fetch_planner.is_holding or self.positions.wait_for_user()
            if self.positions.states and self.fetch_planner.without_leader(view, now_ms):
                self.cluster.request_refresh()
            retry_ms = self.fetch_planner.next_retry_ms(now_ms)
            wait = None if retry_ms is None else max(retry_ms - now_ms, 1) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()

    def _ask_offsets(self, now_ms: int) -> None:
        positions = self.positions
        if "committed" not in self._asked and (missing := positions.without_committed()):
            if self.group is None:
                positions.set_committed(dict.fromkeys(missing))
            else:
                self._start("committed", partial(self._ask_committed, self.group, missing))
        wall_ms = self.cluster.clock.now_ms()
        if "resets" not in self._asked and (resets := positions.wanted_resets(now_ms, wall_ms)):
            self._start("resets", partial(self._ask_resets, resets))
        if "validations" not in self._asked and (states := positions.wanted_validations(now_ms)):
            partitions = [state.partition for state in states]
            self._start("validations", partial(self._ask_validations, partitions))

    def _start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._asked.add(name)
        self._spawn(self._finish(name, work))

    async def _finish(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except (ClientError, KafkaError) as error:
            if not isinstance(error, Disconnected):
                self.fail(error)
            await asyncio.sleep(self.settings.retry_backoff_ms / 1000)
        finally:
            self._asked.discard(name)
            self._moved.set()
            self.wake()

    async def _ask_committed(self, group: GroupMember, missing: list[TopicPartition]) -> None:
        states = self.positions.states
        asked = {partition: states.get(partition) for partition in missing}
        found = await group.committed(missing, self.settings.default_api_timeout_ms / 1000)
        # One that was given away meanwhile, and came back, was read further by another member: ask again.
        self.positions.set_committed(
            {partition: one for partition, one in found.items() if states.get(partition) is asked[partition]}
        )

    async def _ask_resets(self, wanted: Mapping[TopicPartition, int]) -> None:
        states = self.positions.states
        wanted = {partition: one for partition, one in wanted.items() if partition in states}
        if not wanted:
            return  # all were given away before this began
        stamps = {partition: states[partition].stamp for partition in wanted}
        found = await self.lookup.once(wanted)
        young = [partition for partition, one in found.items() if one is None]
        if young:  # no record is as young as that: the end is where such records will be
            found.update(await self.lookup.once(dict.fromkeys(young, LATEST_TIMESTAMP)))
        retry_at_ms = self.now_ms + self.settings.retry_backoff_ms
        for partition, stamp in stamps.items():
            one = found.get(partition)
            if one is not None:
                self.positions.reset_to(partition, stamp, one.offset, one.leader_epoch)
            elif partition in states:
                states[partition].retry_at_ms = retry_at_ms

    async def _ask_validations(self, partitions: list[TopicPartition]) -> None:
        states = self.positions.states
        answers = await self.lookup.epoch_ends([states[p] for p in partitions if p in states])
        for partition, stamp, leader_epoch, end_offset, end_epoch in answers:
            before = states[partition].fetch_offset if partition in states else -1
            self.positions.validated(partition, stamp, leader_epoch, end_offset, end_epoch)
            if partition in states and states[partition].fetch_offset != before:
                log.warning(
                    "The log of %s was truncated to offset %d; the consumer's position was %d.",
                    partition,
                    end_offset,
                    before,
                )
        retry_at_ms = self.now_ms + self.settings.retry_backoff_ms
        answered = {answer[0] for answer in answers}
        for partition in partitions:
            if partition not in answered and partition in states:
                states[partition].retry_at_ms = retry_at_ms

    async def _fetch(self, node: int, wanted: dict[TopicPartition, Wanted]) -> None:
        """Fetch from a node, and again as long as it returns records and the buffer has room."""
        try:
            request: asyncio.Future[_Fetched] | None = self._request_records(node, wanted)
            while request is not None:
                request = await self._receive_records(node, request)
        finally:
            self._fetches.discard(node)
            self.wake()

    def _request_records(self, node: int, wanted: dict[TopicPartition, Wanted]) -> asyncio.Future[_Fetched]:
        request, version_max = self.fetch_planner.request(node, wanted)
        timeout_ms = self.settings.request_timeout_ms + self.settings.fetch_max_wait_ms
        return self.cluster.send(
            node,
            request,
            lane=_FETCH_LANE,
            timeout_ms=timeout_ms,
            version_max=version_max,
            then=partial(self._buffer_records, node, self.now_ms),
        )

    def _buffer_records(self, node: int, began_ms: int, answer: FetchResponse) -> _Fetched:
        """Buffer what a node returns, wake the user, and ask for more: in one step.

        With many records the next request is part of the step, and is answered while the user processes
        these: the user's thread, once it has the interpreter, gives it back only when it waits. With few
        records that thread comes first.
        """
        if rarely("a consumer loses an answer"):
            raise Disconnected(f"Node {node} closed the connection.")
        now_ms = self.now_ms
        outcome = self.fetch_planner.answered(node, answer, now_ms)
        fetched = _Fetched(answer.throttle_time_ms, outcome, now_ms - began_ms)
        if outcome.fetches:
            self._wake_user()
        if outcome.bytes >= _MANY_BYTES:
            fetched.next_request = self._request_more(node, fetched)
        return fetched

    def _request_more(self, node: int, fetched: _Fetched) -> asyncio.Future[_Fetched] | None:
        """Ask the node again, if there is room and nothing else depends on its last response."""
        if fetched.throttle_ms > 0 or not fetched.outcome.is_plain:
            return None
        plans = self.fetch_planner.wanted(self.cluster.view, self.now_ms)
        return self._request_records(node, plans[node]) if plans.keys() == {node} else None

    async def _receive_records(
        self, node: int, request: asyncio.Future[_Fetched]
    ) -> asyncio.Future[_Fetched] | None:
        """Wait for a response that `_buffer_records` handles; return the next request, if it was sent."""
        try:
            fetched = await request
        except asyncio.CancelledError:
            self.fetch_planner.failed(node, self.now_ms)
            # Others may have been sent just before the consumer was closed, each with the response before it.
            left: asyncio.Future[_Fetched] | None = request
            while left is not None and not left.cancel():
                left = None if left.cancelled() or left.exception() else left.result().next_request
            raise
        except (ClientError, KafkaError) as error:
            self.fetch_planner.failed(node, self.now_ms)
            self.counters["failed_fetches"] += 1
            self.cluster.request_refresh()
            if not isinstance(error, Disconnected):
                self.fail(error)
            return None
        outcome = fetched.outcome
        self.counters["fetches"] += 1
        self.counters["fetched_bytes"] += outcome.bytes
        for hint in outcome.leaders:
            self.cluster.update_leader(*hint)
        if outcome.refresh or rarely("a consumer asks for metadata"):
            self.cluster.request_refresh()
        for refused in outcome.errors:
            self.fail(refused)
        if fetched.throttle_ms > 0:
            await asyncio.sleep(fetched.throttle_ms / 1000)
        elif self._is_hasty(node, outcome, fetched.took_ms):
            await asyncio.sleep(self.settings.retry_backoff_ms / 1000)
        return fetched.next_request or self._request_more(node, fetched)

    def _is_hasty(self, node: int, outcome: Outcome, took_ms: int) -> bool:
        """Whether a broker repeatedly answers with nothing, without the requested wait."""
        if outcome.useful or took_ms >= self.settings.fetch_max_wait_ms / 2:
            self._hasty_answers.pop(node, None)
            return False
        self._hasty_answers[node] += 1
        return self._hasty_answers[node] > _HASTY_ANSWERS_MAX

    # What is followed.

    def _on_view(self, view: ClusterView) -> None:
        self.positions.follow_leaders(ViewLeaders(view))
        membership = None if self.group is None else self.group.membership
        if membership is not None and self.group is not None:
            if self._pattern is not None:
                membership.subscribe(self._matched(view))
            membership.view_changed(view)
            self.group.wake()
        for topic in sorted(self._topics):
            found = view.topics.get(topic)
            if found is not None and found.error in _UNREADABLE:
                self.fail(for_code(found.error)(f"{topic!r} cannot be read: {found.error.name}."))
        if any(self._is_missing(view, topic) for topic in self._topics):
            asyncio.get_running_loop().call_later(_UNKNOWN_TOPIC_SECONDS, self._look_again)
        self.wake()

    def _is_missing(self, view: ClusterView, topic: str) -> bool:
        found = view.topics.get(topic)
        return found is None or found.error is not None

    def _look_again(self) -> None:
        now = self.cluster.clock.monotonic()
        if not self._is_closed and now - self._looked_at >= _UNKNOWN_TOPIC_SECONDS / 2:
            self._looked_at = now
            self.cluster.request_refresh()

    def _matched(self, view: ClusterView) -> list[str]:
        assert self._pattern is not None
        return [
            name
            for name, topic in view.topics.items()
            if topic.error is None
            and not (topic.internal and self.settings.exclude_internal_topics)
            and self._pattern.fullmatch(name)
        ]

    def _follow(self, topics: Collection[str]) -> None:
        self.cluster.unfollow(self._topics)
        self._topics = frozenset(topics)
        self.cluster.follow(topics)
        missing = [topic for topic in topics if self._is_missing(self.cluster.view, topic)]
        if missing:
            self._spawn(self._refresh_metadata(missing))

    async def _refresh_metadata(self, topics: list[str]) -> None:
        try:
            await self.cluster.refresh(
                topics=topics, allow_auto_topic_creation=self.settings.allow_auto_create_topics
            )
        except (ClientError, KafkaError) as error:
            self.fail(error)

    # What the user asks for.

    def subscribe(self, topics: Collection[str], pattern: str | re.Pattern[str] | None) -> None:
        """Join the group, with topics by name or by pattern."""
        group = self.require_group("subscribe")
        server_pattern: str | None = None
        self._pattern = None
        if isinstance(pattern, str) and self.settings.group_protocol.lower() == "consumer":
            server_pattern = pattern
        elif pattern is not None:
            self._pattern = re.compile(pattern) if isinstance(pattern, str) else pattern
        self.cluster.follow_all(pattern is not None)
        self._follow(topics)
        if group.membership is None or group.membership.is_over:
            self.positions.remove(list(self.positions.states))
            self.buffer.drop_stale()
            group.join(self._membership(), lambda added: self.positions.add(sorted(added), pending=True))
        assert group.membership is not None
        group.membership.view_changed(self.cluster.view)
        if self._pattern is not None:
            topics = self._matched(self.cluster.view)
        group.membership.subscribe(topics, server_pattern)
        group.wake()

    def require_group(self, what: str) -> GroupMember:
        if self.group is None:
            raise ConfigError(f"To {what}, a consumer needs group.id.")
        return self.group

    def _membership(self) -> Membership:
        settings = self.settings
        assert settings.group_id is not None
        member = MemberSettings(
            group_id=settings.group_id,
            instance_id=settings.group_instance_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            rack=settings.client_rack or None,
            server_assignor=settings.group_remote_assignor,
        )
        if settings.group_protocol.lower() == "consumer":
            return ConsumerMembership(member, to_text(self.cluster.random.bytes(16)))
        return ClassicMembership(member, self._assignors())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign these partitions manually. Partitions that are already assigned keep their positions."""
        wanted = frozenset(partitions)
        if self.group is not None:
            self.group.forget_identity()
        self.positions.remove([p for p in self.positions.states if p not in wanted])
        self.buffer.drop_stale()
        self.positions.add(sorted(wanted))
        self._follow({partition.topic for partition in wanted})
        self.positions.follow_leaders(ViewLeaders(self.cluster.view))
        self.wake()

    def clear(self) -> None:
        """Drop the assignment and the subscription."""
        self.positions.remove(list(self.positions.states))
        self.buffer.drop_stale()
        self._pattern = None
        self.cluster.follow_all(False)
        self._follow(())

    def begin_notice(self, notice: Notify) -> Change:
        """Return the next change for the user; partitions to revoke may have been lost before this poll."""
        membership = None if self.group is None else self.group.membership
        if self.group is not None:
            self.group.notifying(notice)
        if notice.change is Change.REVOKED and membership is not None and membership.is_outside:
            return Change.LOST
        return notice.change

    def finish_notice(self, notice: Notify) -> None:
        """The user was notified of a change: remove it from the queue, and apply it."""
        if self.group is not None and self.group.notices and self.group.notices[0] is notice:
            self.group.notices.popleft()
        if notice.change is Change.ASSIGNED:
            self.positions.announced(notice.partitions)
            self.positions.follow_leaders(ViewLeaders(self.cluster.view))
            self.counters["assigned_partitions"] += len(notice.partitions)
        else:
            self.positions.remove(notice.partitions)
            self.buffer.drop_stale()
            self.counters[f"{notice.change.value}_partitions"] += len(notice.partitions)
        if self.group is not None:
            self.group.notified(notice)
        self.wake()

    def seek(self, partition: TopicPartition, offset: int, epoch: int | None) -> None:
        self.positions.seek(partition, offset, epoch)
        self._sought()

    def seek_by(self, partitions: Iterable[TopicPartition], kind: str) -> None:
        for partition in partitions:
            self.positions.seek_by(partition, Reset(kind))
        self._sought()

    def _sought(self) -> None:
        self.buffer.drop_stale()
        self.errors.clear()
        self.positions.follow_leaders(ViewLeaders(self.cluster.view))
        self.wake()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        for partition in partitions:
            self.positions.states[partition].paused = paused
        if paused:
            self.buffer.park()
        else:
            self.buffer.unpark()
            if self.buffer.ready:
                self._wake_user()
        self.wake()

    async def position(self, partition: TopicPartition, notified: frozenset[TopicPartition]) -> int:
        """The next offset that the user gets, once it is known.

        `notified`: the partitions of the change that a listener is handling. It may ask for their positions
        before they may be fetched.
        """
        while True:
            state = self.positions.states.get(partition)
            if state is None or (state.pending and partition not in notified):
                raise ValueError(f"{partition} is not assigned to this consumer.")
            if state.phase is Phase.FAILED and state.error is not None:
                raise state.error.with_traceback(None)  # which would grow with each question
            if state.position >= 0:
                return state.position
            if self.errors:
                raise self.errors.pop(0)  # why it cannot be looked up, say
            if state.pending and not state.is_asked_for:
                state.is_asked_for = True
                self.wake()
            self._moved.clear()
            await self._moved.wait()

    def note_poll(self) -> None:
        """The user polls: a member that had left because no poll came rejoins."""
        withdrawn = None if self.group is None else self.group.note_poll()
        if withdrawn is not None:
            self.positions.remove(withdrawn.partitions)

    async def lag(self, seconds: float, notified: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
        """The lag of each partition that the user has been notified of."""
        committed = self.settings.isolation_level == "read_committed"
        ends: dict[TopicPartition, int] = {}
        missing: list[TopicPartition] = []
        for partition, state in self.positions.states.items():
            if state.pending and partition not in notified:
                continue
            if state.high_watermark >= 0:
                ends[partition] = state.last_stable_offset if committed else state.high_watermark
            else:
                missing.append(partition)
        if missing:
            ends.update(await self.lookup.edges(missing, earliest=False, seconds=seconds))
        found: dict[TopicPartition, int] = {}
        for partition, end in ends.items():
            at = await self.position(partition, notified)
            found[partition] = max(end - at, 0)
        return found
