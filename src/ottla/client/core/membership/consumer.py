"""The consumer protocol (KIP-848): the coordinator assigns, and one kind of heartbeat carries everything.

Rule: a heartbeat lists the owned partitions only if they have changed and the user has been notified; it
omits fields that the coordinator already has. If the coordinator's state is in doubt, all fields are sent
again.
"""

from __future__ import annotations

from collections.abc import Collection
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
from ottla.client.values import TopicPartition
from ottla.wire.errors import ErrorCode, for_code
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Request

if TYPE_CHECKING:
    from ottla.client.core.metadata import ClusterView

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

_COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class ConsumerMembership:
    """A member of a group with `group.protocol=consumer`."""

    def __init__(self, settings: MemberSettings, member_id: str) -> None:
        self._settings = settings
        self.member_id = member_id
        self.generation = JOIN_EPOCH
        self._identity = (-1, "")
        self._is_identity_live = False  # nothing was lost since the user was notified of an assignment
        self.owned: frozenset[TopicPartition] = frozenset()
        self._topics: frozenset[str] | None = None
        self._pattern: str | None = None
        self._target: dict[bytes, frozenset[int]] | None = None
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._learning = False
        self._notifying: Notify | None = None
        self._asking: Send | None = None
        self._sent_topics: tuple[frozenset[str] | None, str | None] | None = None
        self._acknowledged: frozenset[TopicPartition] | None = None
        self._interval_ms = settings.heartbeat_interval_ms
        self._next_at_ms = 0
        self._fenced = False
        self._stale = False
        self._leave_first = False
        self._over = False
        self._failed: Exception | None = None
        self._troubles: list[Exception] = []  # what the user must see, though the member goes on

    @property
    def is_stable(self) -> bool:
        return (
            self.generation > 0
            and self._notifying is None
            and self._target is not None
            and self._resolved() == self.owned == self._acknowledged
        )

    @property
    def is_over(self) -> bool:
        return self._over

    @property
    def is_outside(self) -> bool:
        return self.generation <= 0 or self._stale

    @property
    def identity(self) -> tuple[int, str]:
        return self._identity

    def subscribe(self, topics: Collection[str], pattern: str | None = None) -> None:
        self._topics = frozenset(topics)
        self._pattern = pattern
        self._next_at_ms = 0

    # What to do.

    def effects(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._over:
            return effects
        if self._failed is not None:
            self._reconcile(effects)  # what is owned is lost, and the user is notified of that first
            if self._notifying is None:
                effects.append(Fail(self._failed))
                self._failed, self._over = None, True
            return effects
        effects += map(Fail, self._troubles)
        self._troubles = []
        if self._leave_first:
            self._leave_first = False
            effects.append(self._leave_request())
            self._asking = None
            self._fence()
        if self._topics is None or self._stale:
            return effects
        self._reconcile(effects)
        if self._asking is None and self._may_ask(now_ms):
            effects.append(self._heartbeat(now_ms))
        return effects

    def wake_at_ms(self) -> int | None:
        if self._over or self._failed or self._topics is None or self._stale or self._asking is not None:
            return None
        if not self._may_ask(self._next_at_ms):
            return None
        return self._next_at_ms

    def _reconcile(self, effects: list[Effect]) -> None:
        if self._notifying is not None:
            return
        if self._fenced:
            if self.owned:
                self._notify(effects, Change.LOST, self.owned)
            else:
                self._fenced = False
            return
        if self.generation <= 0 or self._target is None:
            return
        target = self._resolved()
        if target is None:
            if not self._learning:
                self._learning = True
                effects.append(RefreshMetadata(None))
            return
        if self.owned - target:
            self._notify(effects, Change.REVOKED, self.owned - target)
        elif target - self.owned:
            added = target - self.owned
            self.owned = target
            self._notify(effects, Change.ASSIGNED, added)

    def _notify(self, effects: list[Effect], change: Change, partitions: frozenset[TopicPartition]) -> None:
        self._notifying = Notify(change, partitions)
        effects.append(self._notifying)

    def notifying(self, notice: Notify) -> None:
        if notice is self._notifying and notice.change is Change.ASSIGNED:
            self._is_identity_live = True
            self._renew_identity()

    def _renew_identity(self) -> None:
        if self._is_identity_live and self.generation > 0:
            self._identity = (self.generation, self.member_id)

    def notified(self, notice: Notify) -> None:
        if notice is not self._notifying:
            return
        self._notifying = None
        if notice.change is not Change.ASSIGNED:
            self.owned -= notice.partitions
        if notice.change is Change.LOST:
            self._fenced = False
            self._is_identity_live = False
        self._next_at_ms = 0  # the coordinator waits for that

    def withdraw(self, notice: Notify) -> None:
        if notice is self._notifying:
            self._notifying = None
            if notice.change is Change.ASSIGNED:
                self.owned -= notice.partitions

    def _resolved(self) -> frozenset[TopicPartition] | None:
        """The target by topic names; None while a name is unknown."""
        found = []
        for topic_id, partitions in (self._target or {}).items():
            name = self._names.get(topic_id)
            if name is None:
                return None
            found += [TopicPartition(name, index) for index in partitions]
        return frozenset(found)

    # Heartbeats.

    def _may_ask(self, now_ms: int) -> bool:
        if self.generation == JOIN_EPOCH and (self._fenced or self._notifying is not None):
            return False  # what was lost must be given up before joining anew
        return now_ms >= self._next_at_ms

    def _heartbeat(self, now_ms: int) -> Send:
        settings = self._settings
        joining = self.generation == JOIN_EPOCH
        request = Request(group_id=settings.group_id, member_id=self.member_id, member_epoch=self.generation)
        request.instance_id = settings.instance_id
        subscription = (self._topics, self._pattern)
        if joining or self._sent_topics is None:
            request.rack_id = settings.rack or None
            request.rebalance_timeout_ms = settings.rebalance_timeout_ms
            request.server_assignor = settings.server_assignor
        if joining or subscription != self._sent_topics:
            request.subscribed_topic_names = sorted(self._topics or ())
            if self._pattern is not None:
                request.subscribed_topic_regex = self._pattern
            elif self._sent_topics is not None and self._sent_topics[1] is not None:
                request.subscribed_topic_regex = ""
        if joining:
            request.topic_partitions = []
        elif self._acknowledged is None or (self._notifying is None and self.owned != self._acknowledged):
            request.topic_partitions = self._known_by_id()
        self._sent_topics = subscription
        self._next_at_ms = now_ms + self._interval_ms
        timeout_ms = settings.request_timeout_ms
        self._asking = Send("heartbeat", request, timeout_ms, self.generation)
        return self._asking

    def _known_by_id(self) -> list[Request.TopicPartitions]:
        """The partitions that the user owns and knows: without those it is being notified of."""
        known = self.owned
        if self._notifying is not None and self._notifying.change is Change.ASSIGNED:
            known -= self._notifying.partitions
        topics: dict[str, list[int]] = {}
        for partition in sorted(known):
            topics.setdefault(partition.topic, []).append(partition.partition)
        return [
            Request.TopicPartitions(topic_id=self._ids[name], partitions=found)
            for name, found in topics.items()
            if name in self._ids
        ]

    def answered(self, sent: Send, answer: Any, now_ms: int) -> None:
        if sent is not self._asking:
            return
        self._asking = None
        code = answer.error_code
        if code:
            self._refused(code, answer.error_message, now_ms)
            return
        if sent.generation != self.generation or self._over or self._stale:
            return
        if answer.member_id:
            self.member_id = answer.member_id
        self.generation = answer.member_epoch
        self._renew_identity()
        self._interval_ms = answer.heartbeat_interval_ms or self._interval_ms
        if sent.request.topic_partitions is not None:  # type: ignore[attr-defined]
            self._acknowledged = self._named(sent.request.topic_partitions)  # type: ignore[attr-defined]
        if answer.assignment is not None:
            self._target = {
                topic.topic_id: frozenset(topic.partitions) for topic in answer.assignment.topic_partitions
            }
        if self._notifying is None and self.owned != self._acknowledged:
            self._next_at_ms = 0

    def _named(self, topics: Collection[Any]) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(self._names.get(topic.topic_id, ""), index)
            for topic in topics
            for index in topic.partitions
        )

    def _refused(self, code: int, message: str | None, now_ms: int) -> None:
        if code in _FENCED:
            self._fence()
            self._next_at_ms = 0
        elif code in _COORDINATOR_MOVED or code in _RETRIED:
            self._repeat(now_ms)
        elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:  # it goes on once that is allowed
            self._troubles.append(for_code(code)(message))
            self._repeat(now_ms)
            self._next_at_ms = now_ms + self._interval_ms
        else:
            self._failed = for_code(code)(message)
            self._fence()

    def _fence(self) -> None:
        self.generation = JOIN_EPOCH
        self._fenced = True
        self._target = None
        self._acknowledged = None
        self._sent_topics = None

    def _repeat(self, now_ms: int) -> None:
        """The coordinator may not have received the heartbeat: send every field again."""
        self._sent_topics = None
        self._acknowledged = None
        self._next_at_ms = now_ms + self._settings.retry_backoff_ms

    def unanswered(self, sent: Send, now_ms: int) -> None:
        if sent is self._asking:
            self._asking = None
            self._repeat(now_ms)

    # What else happens.

    def metadata_arrived(self, view: ClusterView, now_ms: int) -> None:
        self._learning = False
        self.view_changed(view)

    def view_changed(self, view: ClusterView) -> None:
        for topic_id, name in view.topic_names.items():
            self._names[topic_id] = name
            self._ids[name] = topic_id

    def rejoin(self, reason: str) -> None:
        """Does nothing: the coordinator alone decides when to rebalance."""

    def expire(self, now_ms: int) -> None:
        if self._stale or self._over:
            return
        # Outside the group too: the coordinator may have got a join that was not answered.
        self._stale = self._leave_first = True

    def polled(self) -> None:
        if self._stale:
            self._stale = False
            self._next_at_ms = 0

    def _leave_request(self) -> Send:
        static = self._settings.instance_id is not None
        request = Request(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if static else LEAVE_EPOCH,
            instance_id=self._settings.instance_id,
        )
        return Send("leave", request, self._settings.request_timeout_ms, -1)

    def leave(self, *, remain: bool | None = None) -> tuple[Notify | None, Send | None]:
        lost = self._fenced or self._stale or self.generation <= 0
        notice = Notify(Change.LOST if lost else Change.REVOKED, self.owned) if self.owned else None
        is_member = self.generation > 0 or (self._asking is not None and not self._fenced)
        send = self._leave_request() if is_member and not remain else None
        if send is not None and remain is False:
            send.request.member_epoch = LEAVE_EPOCH  # type: ignore[attr-defined]
        self._over = True
        self.owned = frozenset()
        return notice, send
