"""A shard of classic groups: a clock that tests turn, a log in memory, clients that keep their answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tests.unit.coordinator.pending import recorded

from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.classic.protocol import ClassicProtocol
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.settings import ClassicSettings
from ottla.coordinator.result import HELD, Caller, Record, Result, StartTimer
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.codec import decode, encode
from ottla.wire.errors import ErrorCode, KafkaError, NotCoordinator
from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.protocol_data import ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

GROUP = "group"


def subscription(*topics: str, version: int = 1) -> bytes:
    """What a consumer sends as its metadata."""
    message = ConsumerProtocolSubscription(topics=list(topics))
    return version.to_bytes(2, "big") + encode(message, min(version, 3))


RANGE = [("range", subscription("t"))]


@dataclass
class Call:
    """A request and what came back."""

    answers: list[Any] = field(default_factory=list)

    @property
    def is_held(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, self.answers
        return self.answers[0]

    @property
    def code(self) -> ErrorCode:
        """The error of the answer, however it was said."""
        if isinstance(self.answer, KafkaError):
            return self.answer.code
        return ErrorCode(self.answer.error_code)


class _Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class _Counting:
    """Randomness that never repeats."""

    def __init__(self) -> None:
        self.count = 0

    def bytes(self, count: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(count, "big")

    def below(self, bound: int) -> int:
        return 0

    def fraction(self) -> float:
        return 0.0


class _Settings:
    def __init__(self, classic: ClassicSettings) -> None:
        self.classic = classic


class _Consumer:
    """The other protocol: remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def classic_join(self, request: Any, caller: Caller, pending: PendingResponse) -> Result[Any]:
        self.asked.append(request)
        return Result(JoinGroupResponse(member_id="from the consumer protocol"))

    def classic_sync(self, request: Any, caller: Caller, pending: PendingResponse) -> Result[Any]:
        self.asked.append(request)
        return Result(SyncGroupResponse(assignment=b"from the consumer protocol"))

    def classic_heartbeat(self, request: Any, caller: Caller) -> Result[Any]:
        self.asked.append(request)
        return Result()

    def classic_leave(self, request: Any, caller: Caller) -> Result[Any]:
        self.asked.append(request)
        return Result()


class World:
    """See the module. The runtime's part is done at once: everything is committed as it is decided."""

    def __init__(self, *, size_max: int = 1000, delay_ms: int = 3000) -> None:
        self.clock = _Clock()
        self.random = _Counting()
        self.consumer = _Consumer()
        self.settings: Any = _Settings(
            ClassicSettings(
                size_max=size_max,
                initial_rebalance_delay_ms=delay_ms,
            )
        )
        self.log: list[tuple[bytes, bytes | None]] = []
        self.refusal: KafkaError | None = None
        self.calls: list[Call] = []
        self.groups: dict[str, Group] = {}
        self.protocol = ClassicProtocol(self)
        self._timers: dict[Hashable, tuple[int, Callable[[], Result[Any]]]] = {}

    # The runtime

    def ask(self, decision: Callable[[PendingResponse], Result[Any]]) -> Call:
        call = Call()
        self.calls.append(call)
        pending = recorded(call.answers)
        try:
            result = decision(pending)
        except KafkaError as error:
            pending.fail(error)
            return call
        self.take(result, pending)
        return call

    def take(self, result: Result[Any], pending: PendingResponse | None = None) -> None:
        if result.records and self.refusal is not None:
            error, self.refusal = self.refusal, None
            if result.on_failed is not None:
                self.take(result.on_failed(error))
            for waiting in ([pending] if pending else []) + [held for held, _answer in result.late_responses]:
                waiting.fail(error)
            return
        for record in result.records:
            assert isinstance(record.key, GroupMetadataKey)
            assert record.value is None or record.version == 3
            value = None if record.value is None else encode(record.value, 3)
            self.log.append((encode(record.key, 0), value))
            self.replay(record)
        for timer in result.timers:
            if isinstance(timer, StartTimer):
                self._timers[timer.key] = (self.clock.ms + max(timer.delay_ms, 0), timer.decision)
            else:
                self._timers.pop(timer.key, None)
        if pending is not None and result.response is not HELD:
            pending.complete(result.response)
        for held, answer in result.late_responses:
            held.complete(answer)

    def replay(self, record: Record) -> None:
        assert isinstance(record.key, GroupMetadataKey)
        assert record.value is None or isinstance(record.value, GroupMetadataValue)
        self.protocol.replay_group(record.key, record.value)

    def advance(self, ms: int) -> None:
        """Let time pass and timers fire in their order."""
        end = self.clock.ms + ms
        fired = 0
        while due := [(at, key) for key, (at, _decision) in self._timers.items() if at <= end]:
            at, key = min(due, key=lambda pair: pair[0])
            self.clock.ms = max(at, self.clock.ms)
            self.take(self._timers.pop(key)[1]())
            fired += 1
            assert fired < 10_000, f"{key} fires again and again"
        self.clock.ms = end

    def advance_until_answered(self, calls: list[Call]) -> None:
        """Let time pass from timer to timer until these have their answers."""
        while any(call.is_held for call in calls):
            self.advance(max(min(at for at, _decision in self._timers.values()) - self.clock.ms, 0))

    def restart(self) -> None:
        """The shard is lost; what the log has comes back. Those who waited are told to look for it."""
        for pending in self.protocol.pending_responses():
            pending.fail(NotCoordinator())
        self._timers.clear()
        self.groups = {}
        self.protocol = ClassicProtocol(self)
        for key, value in self.log:
            self.replay(
                Record(
                    decode(GroupMetadataKey, key, 0),
                    None if value is None else decode(GroupMetadataValue, value, 3),
                    3,
                )
            )
        self.take(self.protocol.on_loaded())

    @property
    def timer_keys(self) -> set[Hashable]:
        return set(self._timers)

    @property
    def group(self) -> ClassicGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def last_value(self) -> GroupMetadataValue | None:
        value = self.log[-1][1]
        return None if value is None else decode(GroupMetadataValue, value, 3)

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: list[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client_id: str = "client",
    ) -> Call:
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols
            ],
        )
        caller = Caller(version, client_id, "/127.0.0.1")
        return self.ask(lambda pending: self.protocol.join(request, caller, pending))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Call:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=generation,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=receiver, assignment=assignment)
                for receiver, assignment in (assignments or {}).items()
            ],
        )
        return self.ask(lambda pending: self.protocol.sync(request, Caller(5), pending))

    def heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation, group_instance_id=instance_id
        )
        return self.ask(lambda _pending: self.protocol.heartbeat(request, Caller(4))).code

    def leave(self, *identities: tuple[str, str | None]) -> Call:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
                for member_id, instance_id in identities
            ],
        )
        return self.ask(lambda _pending: self.protocol.leave(request, Caller(5)))

    # Whole stories

    def member_id(self, **options: Any) -> str:
        """The id that a dynamic member is given."""
        call = self.join(**options)
        assert call.code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = call.answer.member_id
        return member_id

    def stable(self, count: int = 1, *, static: bool = False, **options: Any) -> list[str]:
        """A group of so many members that all have their assignment, the leader first."""
        if static:
            calls = [self.join(instance_id=f"i{index}", **options) for index in range(count)]
        else:
            calls = [self.join(self.member_id(**options), **options) for _ in range(count)]
        self.advance_until_answered(calls)
        ids = [call.answer.member_id for call in calls]
        leader = calls[0].answer.leader
        ids.sort(key=lambda member_id: member_id != leader)
        self.sync_all(ids)
        return ids

    def sync_all(self, ids: list[str]) -> None:
        """The leader, the first of them, brings everybody the assignment that is its id."""
        group = self.group
        for member_id in reversed(ids):
            given = {receiver: receiver.encode() for receiver in ids} if member_id == ids[0] else {}
            self.sync(member_id, group.generation, given, protocol_name=group.protocol_name)
