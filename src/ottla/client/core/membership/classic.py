"""The classic protocol: members join, one of them assigns for all, each syncs.

```
OUT ──(notified of revocations)── JOINING ── ASSIGNING (the leader) ── SYNCING ── NOTIFYING ── STABLE
 ▲                                                                                               │
 └─────────── the group rebalances (by a heartbeat), a subscription changes ──────────────────┘
```

Rule: an eager member gives everything back before it joins; a cooperative one keeps what it has, is told
after the sync what to give back, and joins once more so that others can get it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.client.core.membership.interface import (
    Change,
    Effect,
    Fail,
    MemberSettings,
    Notify,
    RefreshMetadata,
    Send,
)
from ottla.client.core.subscription import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.values import TopicPartition
from ottla.wire.errors import ErrorCode, MalformedMessage, for_code
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from ottla.client.core.assignors import Assignor
    from ottla.client.core.metadata import ClusterView

PROTOCOL_TYPE = "consumer"
_JOIN_SLACK_MS = 5_000
_TROUBLE_WAIT_MS = 1_000  # before joining again after what is not the coordinator's fault

_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class _State(Enum):
    OUT = "not in a generation, or about to join the next one"
    JOINING = "JoinGroup is under way"
    ASSIGNING = "this member leads and learns of the topics"
    SYNCING = "SyncGroup is under way"
    NOTIFYING = "the user is notified of the new assignment"
    STABLE = "nothing to do but heartbeats"


class ClassicMembership:
    """A member of a group with `group.protocol=classic`."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        self._settings = settings
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = all(assignor.protocol == "cooperative" for assignor in assignors)
        self.member_id = ""
        self.generation = -1
        self._identity = (-1, "")
        self._is_identity_live = (
            False  # nothing was taken from the user since it was notified of an assignment
        )
        self.owned: frozenset[TopicPartition] = frozenset()
        self._topics: frozenset[str] | None = None
        self._state = _State.OUT
        self._prepared = False  # the user has given back what must be given back before a join
        self._rejoin = False
        self._gave_back = False  # what the sync of this generation took from it
        self._reason = ""
        self._notices: list[Notify] = []
        self._notifying: Notify | None = None
        self._asking: Send | None = None
        self._beating: Send | None = None
        self._beat_at_ms = 0
        self._retry_at_ms = 0
        self._protocol = ""
        self._members: dict[str, MemberSubscription] = {}
        self._group_topics: frozenset[str] = frozenset()
        self._learning = False
        self._keeps = False  # it leads, and the group has its assignment already
        self._led_counts: dict[str, int] | None = None
        self._sync: SyncGroupRequest | None = None
        self._stale = False
        self._leave_first: Send | None = None
        self._failed: Exception | None = None
        self._troubles: list[Exception] = []  # what the user must see, though the member goes on
        self._over = False

    @property
    def is_stable(self) -> bool:
        return self._state is _State.STABLE and not self._rejoin

    @property
    def is_over(self) -> bool:
        return self._over

    @property
    def is_outside(self) -> bool:
        return self.generation < 0

    @property
    def identity(self) -> tuple[int, str]:
        return self._identity

    def subscribe(self, topics: Collection[str], pattern: str | None = None) -> None:
        new = frozenset(topics)
        if new != self._topics:
            if self._topics is not None:
                self.rejoin("the subscription has changed")
            self._topics = new

    def rejoin(self, reason: str) -> None:
        self._rejoin, self._reason = True, reason

    # What to do.

    def effects(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._over:
            return effects
        if self._leave_first is not None:
            effects.append(self._leave_first)
            self._leave_first = None
        effects += map(Fail, self._troubles)
        self._troubles = []
        if self._topics is None or self._stale:
            return effects
        if self._state is _State.STABLE and self._rejoin:
            self._begin()
        if self._notifying is None and self._notices:
            self._notify_user(effects)
        if self._notifying is None:
            self._advance(effects, now_ms)
        if self._heartbeat_due(now_ms):
            effects.append(self._heartbeat(now_ms))
        return effects

    def _begin(self) -> None:
        """Begin the next generation."""
        self._state, self._prepared, self._rejoin = _State.OUT, False, False
        self._asking = None
        self._sync = None
        self._notices = []

    def _advance(self, effects: list[Effect], now_ms: int) -> None:
        match self._state:
            case _State.OUT:
                if not self._prepared:
                    self._prepare(effects)
                if self._notifying is not None:
                    return
                if self._failed is not None:
                    effects.append(Fail(self._failed))
                    self._failed, self._over = None, True
                elif now_ms >= self._retry_at_ms:
                    try:
                        effects.append(self._join())
                    except Exception as error:  # noqa: BLE001 - an assignor of the user's may raise anything
                        effects.append(Fail(error))
                        self._retry_at_ms = now_ms + _TROUBLE_WAIT_MS
            case _State.ASSIGNING if not self._learning:
                self._learning = True
                effects.append(RefreshMetadata(self._group_topics))
            case _State.SYNCING if self._sync is not None:
                sync, self._sync = self._sync, None
                self._asking = Send("sync", sync, self._join_timeout_ms, self.generation)
                effects.append(self._asking)
            case _State.NOTIFYING:
                self._state = _State.STABLE
                self._beat_at_ms = min(self._beat_at_ms, now_ms + self._settings.heartbeat_interval_ms)
                if self._rejoin:
                    effects += self.effects(now_ms)
            case _:
                pass

    def _prepare(self, effects: list[Effect]) -> None:
        self._prepared = True
        if self.generation < 0:
            given, change = self.owned, Change.LOST
        elif self._cooperative:
            topics = self._topics or frozenset()
            given = frozenset(partition for partition in self.owned if partition.topic not in topics)
            change = Change.REVOKED
        else:
            given, change = self.owned, Change.REVOKED
        if given:
            self._notices = [Notify(change, given)]
            self._notify_user(effects)

    def _notify_user(self, effects: list[Effect]) -> None:
        notice = self._notices.pop(0)
        if notice.change is Change.ASSIGNED:
            self.owned |= notice.partitions
        self._notifying = notice
        effects.append(notice)

    def notifying(self, notice: Notify) -> None:
        if notice is self._notifying and notice.change is Change.ASSIGNED:
            self._is_identity_live = True
            self._renew_identity()
            # After a cooperative member gave something back, the generation that it joins next gives that to
            # others: a transaction over it must not pass for one of that generation.
            self._is_identity_live = not self._gave_back

    def notified(self, notice: Notify) -> None:
        if notice is not self._notifying:
            return
        self._notifying = None
        if notice.change is not Change.ASSIGNED:
            self.owned -= notice.partitions
            # What the user still processes is of the generation that ends here: the next one is not its own
            # before it is notified of its new partitions.
            self._is_identity_live = False

    def _renew_identity(self) -> None:
        if self._is_identity_live and self.generation >= 0:
            self._identity = (self.generation, self.member_id)

    def withdraw(self, notice: Notify) -> None:
        if notice is self._notifying:
            self._notifying = None
            self._notices = []
            self._prepared = False
            if notice.change is Change.ASSIGNED:
                self.owned -= notice.partitions

    def wake_at_ms(self) -> int | None:
        if self._over or self._topics is None or self._stale:
            return None
        times = []
        if self._state is _State.OUT and self._notifying is None:
            times.append(self._retry_at_ms)
        if self._beating is None and self._beats:
            times.append(self._beat_at_ms)
        return min(times) if times else None

    # Joining.

    @property
    def _join_timeout_ms(self) -> int:
        settings = self._settings
        return max(settings.request_timeout_ms, settings.rebalance_timeout_ms + _JOIN_SLACK_MS)

    def _join(self) -> Send:
        self._rejoin = False  # whatever asked for it is in what is sent now
        settings = self._settings
        topics = sorted(self._topics or ())
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(
                name=name,
                metadata=encode_subscription(
                    MemberSubscription(
                        tuple(topics),
                        assignor.subscription_user_data(topics),
                        tuple(sorted(self.owned)),
                        self.generation,
                        settings.rack,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=self._reason or None,
        )
        self._reason = ""
        self._state = _State.JOINING
        self._beating = None
        self._asking = Send("join", request, self._join_timeout_ms, self.generation)
        return self._asking

    def answered(self, sent: Send, answer: Any, now_ms: int) -> None:
        if sent is self._beating:
            self._beating = None
            if sent.generation == self.generation:
                self._heard(answer.error_code, now_ms)
        elif sent is self._asking:
            self._asking = None
            if sent.kind == "join":
                self._joined(answer, now_ms)
            else:
                self._synced(answer, now_ms)

    def _joined(self, answer: Any, now_ms: int) -> None:
        code = answer.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._state = _State.OUT
            return
        if code:
            self._state = _State.OUT
            self._refused(code, now_ms)
            return
        if answer.protocol_name not in self._assignors:
            self._fail(for_code(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)(f"unknown: {answer.protocol_name}"))
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._renew_identity()
        self._protocol = answer.protocol_name
        self._beat_at_ms = now_ms + self._settings.heartbeat_interval_ms
        self._learning = False
        self._led_counts = None
        self._group_topics = frozenset()
        if answer.leader == answer.member_id:
            self._keeps = answer.skip_assignment
            try:
                self._members = {
                    member.member_id: decode_subscription(member.metadata, member.group_instance_id)
                    for member in answer.members
                }
            except MalformedMessage as error:
                self._stumble(error, now_ms)
                return
            self._group_topics = frozenset(t for member in self._members.values() for t in member.topics)
            self._state = _State.ASSIGNING
        else:
            self._make_sync({})

    def metadata_arrived(self, view: ClusterView, now_ms: int) -> None:
        """The metadata of the group's topics have arrived: compute the assignment."""
        if self._state is not _State.ASSIGNING:
            return
        if self._keeps:
            self._led_counts = self._counts(view)
            self._make_sync({})
            return
        try:
            assigned = self._assignors[self._protocol].assign(view, self._members)
            self._led_counts = self._counts(view)
            encoded = {member: encode_assignment(found) for member, found in assigned.items()}
        except Exception as error:  # noqa: BLE001 - an assignor of the user's may raise anything
            self._stumble(error, now_ms)
            return
        self._make_sync(encoded)

    def _make_sync(self, assignments: Mapping[str, bytes]) -> None:
        self._state = _State.SYNCING
        self._sync = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=encoded)
                for member, encoded in assignments.items()
            ],
        )

    def _synced(self, answer: Any, now_ms: int) -> None:
        if answer.error_code:
            self._begin()
            self._refused(answer.error_code, now_ms)
            return
        assignor = self._assignors[self._protocol]
        try:
            assigned, user_data = decode_assignment(answer.assignment)
        except MalformedMessage as error:
            self._stumble(error, now_ms)
            return
        topics = self._topics or frozenset()
        if any(partition.topic not in topics for partition in assigned):
            self.rejoin("the assignment belongs to an older subscription")
        wanted = frozenset(partition for partition in assigned if partition.topic in topics)
        try:
            assignor.on_assignment(assigned, user_data, self.generation)
        except Exception as error:  # noqa: BLE001 - an assignor of the user's may raise anything
            self._troubles.append(error)  # as in Java the assignment counts
        self._notices = []
        revoked = self.owned - wanted
        self._gave_back = bool(revoked)
        if revoked:
            self._notices.append(Notify(Change.REVOKED, revoked))
            self.rejoin("partitions were revoked")
        self._notices.append(Notify(Change.ASSIGNED, wanted - self.owned))
        self._state = _State.NOTIFYING

    def _refused(self, code: int, now_ms: int) -> None:
        """A join or a sync was rejected: prepare the next attempt."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget(member=True)
        elif code == ErrorCode.ILLEGAL_GENERATION:
            self._forget(member=False)
        elif code in _RETRIED:
            if code != ErrorCode.REBALANCE_IN_PROGRESS:
                self._retry_at_ms = now_ms + self._settings.retry_backoff_ms
        else:
            self._fail(for_code(code)())

    def _forget(self, *, member: bool) -> None:
        """The group continues without this generation: its partitions are lost."""
        self.generation = -1
        if member:
            self.member_id = ""
        self._prepared = False

    def _stumble(self, error: Exception, now_ms: int) -> None:
        """Handle an error of another member or an assignor: a poll raises it, and the member rejoins."""
        self._begin()
        self._troubles.append(error)
        self._retry_at_ms = now_ms + _TROUBLE_WAIT_MS

    def _fail(self, error: Exception) -> None:
        self._begin()
        self._failed = error
        self._forget(member=True)

    def unanswered(self, sent: Send, now_ms: int) -> None:
        if sent is self._beating:
            self._beating = None
            self._beat_at_ms = now_ms + self._settings.retry_backoff_ms
        elif sent is self._asking:
            self._asking = None
            self._begin()
            self._prepared = sent.kind == "join"  # a join changes nothing that the user has to be notified of
            self._retry_at_ms = now_ms + self._settings.retry_backoff_ms

    # Heartbeats.

    @property
    def _beats(self) -> bool:
        """Whether a heartbeat is due; a join in flight counts as one."""
        return self.generation >= 0 and self._state is not _State.JOINING and not self._over

    def _heartbeat_due(self, now_ms: int) -> bool:
        return self._beats and self._beating is None and now_ms >= self._beat_at_ms

    def _heartbeat(self, now_ms: int) -> Send:
        settings = self._settings
        self._beat_at_ms = now_ms + settings.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
        )
        timeout_ms = min(settings.request_timeout_ms, settings.session_timeout_ms)
        self._beating = Send("heartbeat", request, timeout_ms, self.generation)
        return self._beating

    def _heard(self, code: int, now_ms: int) -> None:
        if not code or code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            return
        if code == ErrorCode.NOT_COORDINATOR:
            self._beat_at_ms = now_ms + self._settings.retry_backoff_ms
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self._state in (_State.STABLE, _State.NOTIFYING):
                self.rejoin(self._reason or "the group is rebalancing")
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._begin()
            self._forget(member=code == ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            self._fail(for_code(code)())

    # What else happens.

    def view_changed(self, view: ClusterView) -> None:
        """The leader checks whether topics have grown, appeared or disappeared since it assigned."""
        if self._led_counts is not None and self._counts(view) != self._led_counts:
            self._led_counts = None
            self.rejoin("the topics of the group have changed")

    def _counts(self, view: ClusterView) -> dict[str, int]:
        return {
            topic: len(view.topics[topic].partitions)
            for topic in self._group_topics
            if topic in view.topics and view.topics[topic].error is None
        }

    def expire(self, now_ms: int) -> None:
        if self._stale or self._over:
            return
        self._stale = True  # outside the group too: it must not join before the user polls
        self._leave_first = self._leave_request()
        self._begin()
        self._forget(member=True)

    def polled(self) -> None:
        self._stale = False

    def _leave_request(self, *, force: bool = False) -> Send | None:
        settings = self._settings
        if not self.member_id or (settings.instance_id is not None and not force):
            return None  # a static member stays until its session ends, so that it finds its place again
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=self.member_id, group_instance_id=settings.instance_id
        )
        request = LeaveGroupRequest(group_id=settings.group_id, members=[identity])
        return Send("leave", request, settings.request_timeout_ms, -1)

    def leave(self, *, remain: bool | None = None) -> tuple[Notify | None, Send | None]:
        change = Change.LOST if self.generation < 0 else Change.REVOKED
        notice = Notify(change, self.owned) if self.owned else None
        send = None if remain else self._leave_request(force=remain is False)
        self._over = True
        self.owned = frozenset()
        return notice, send
