"""A consumer of the classic protocol with a cooperative assignor, for groups that have both kinds."""

from __future__ import annotations

from typing import Any

from tests.unit.coordinator.groups.consumer.consumer_world import World
from tests.unit.coordinator.pending import recorded

from ottla.coordinator.result import HELD, Caller
from ottla.wire import codec
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest

CALLER = Caller(9, "classic", "/127.0.0.1")


def versioned(message: Any, version: int = 1) -> bytes:
    return version.to_bytes(2, "big") + codec.encode(message, version)


def read(assignment: bytes) -> dict[str, list[int]]:
    version = int.from_bytes(assignment[:2], "big")
    message = codec.decode(ConsumerProtocolAssignment, assignment, version, 2)
    return {listed.topic: listed.partitions for listed in message.assigned_partitions}


class ClassicConsumer:
    """See the module. It is driven step by step."""

    def __init__(self, world: World, topics: list[str], *, instance_id: str | None = None) -> None:
        self.world = world
        self.topics = topics
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}
        self.answers: list[Any] = []
        self.leads = False
        self.has_joined = False  # and not asked for its assignment yet
        self.protocols = ["cooperative-sticky", "range"]

    def join(self) -> int:
        """The error code; -1 while the answer is held."""
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in self.owned.items()
            ],
        )
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=versioned(subscription))
                for name in self.protocols
            ],
        )
        self.answers.clear()
        pending = recorded(self.answers)
        response = self.world.take(self.world.shard.classic.join(request, CALLER, pending))
        if response is HELD:
            if not self.answers:
                return -1
            response = self.answers[0]
        return self.joined(response)

    def joined(self, response: Any) -> int:
        code: int = response.error_code
        if response.member_id:
            self.id = response.member_id
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            return self.join()
        if code == 0:
            self.generation = response.generation_id
            self.leads = response.leader == self.id
            self.has_joined = True
        return code

    def sync(self, assignments: dict[str, dict[str, list[int]]] | None = None) -> int:
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=versioned(
                        ConsumerProtocolAssignment(
                            assigned_partitions=[
                                ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
                                for topic, partitions in assignment.items()
                            ]
                        )
                    ),
                )
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        answers: list[Any] = []
        pending = recorded(answers)
        response = self.world.take(self.world.shard.classic.sync(request, CALLER, pending))
        if response.error_code == 0:
            self.owned = read(response.assignment)
            self.has_joined = False
        code: int = response.error_code
        return code

    def beat(self) -> int:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance_id,
        )
        try:
            response = self.world.take(self.world.shard.classic.heartbeat(request, CALLER))
        except KafkaError as error:
            return error.code
        code: int = response.error_code
        return code

    @property
    def may_own(self) -> set[tuple[bytes, int]]:
        """What this client may be working on."""
        topics = self.world.image.topics_by_name
        return {
            (topics[topic].id, partition)
            for topic, partitions in self.owned.items()
            for partition in partitions
        }

    def rejoin_if_told(self) -> None:
        if self.beat() == ErrorCode.REBALANCE_IN_PROGRESS:
            assert self.join() == 0
            assert self.sync() == 0

    def leave(self) -> int:
        request = LeaveGroupRequest(
            group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=self.id)]
        )
        response = self.world.take(self.world.shard.classic.leave(request, CALLER))
        code: int = response.members[0].error_code
        return code
