# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ConsumerGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "topic_partitions")

    NAME = "ConsumerGroupHeartbeatRequest"
    KIND = "request"
    API_KEY = 68
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupHeartbeatRequest request api=68 versions=0-1 flexible=0+ listeners=broker
    group_id string 0+ is=groupId
    member_id string 0+
    member_epoch int32 0+
    instance_id string 0+ nullable=0+ default=null
    rack_id string 0+ nullable=0+ default=null
    rebalance_timeout_ms int32 0+ default=-1
    subscribed_topic_names []string 0+ nullable=0+ default=null is=topicName
    subscribed_topic_regex string 1+ nullable=1+ default=null
    server_assignor string 0+ nullable=0+ default=null
    topic_partitions []TopicPartitions 0+ nullable=0+ default=null
        topic_id uuid 0+
        partitions []int32 0+
"""

    class TopicPartitions(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.subscribed_topic_names: list[str] | None = subscribed_topic_names
        self.subscribed_topic_regex: str | None = subscribed_topic_regex
        self.server_assignor: str | None = server_assignor
        self.topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = topic_partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")

    NAME = "ConsumerGroupHeartbeatResponse"
    KIND = "response"
    API_KEY = 68
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupHeartbeatResponse response api=68 versions=0-1 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ default=null
    member_id string 0+ nullable=0+ default=null
    member_epoch int32 0+
    heartbeat_interval_ms int32 0+
    assignment Assignment 0+ nullable=0+ default=null
        topic_partitions []TopicPartitions 0+
    struct TopicPartitions 0+
        topic_id uuid 0+
        partitions []int32 0+
"""

    class Assignment(Struct):
        __slots__ = ("topic_partitions",)

        def __init__(
            self,
            *,
            topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = [] if topic_partitions is FRESH else topic_partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicPartitions(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: ConsumerGroupHeartbeatResponse.Assignment | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.member_id: str | None = member_id
        self.member_epoch: int = member_epoch
        self.heartbeat_interval_ms: int = heartbeat_interval_ms
        self.assignment: ConsumerGroupHeartbeatResponse.Assignment | None = assignment
        self.unknown_tagged_fields = unknown_tagged_fields
