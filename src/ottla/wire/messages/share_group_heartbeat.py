# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ShareGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")

    NAME = "ShareGroupHeartbeatRequest"
    KIND = "request"
    API_KEY = 76
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupHeartbeatRequest request api=76 versions=1 flexible=0+ listeners=broker
    group_id string 0+ is=groupId
    member_id string 0+
    member_epoch int32 0+
    rack_id string 0+ nullable=0+ default=null
    subscribed_topic_names []string 0+ nullable=0+ default=null is=topicName
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.rack_id: str | None = rack_id
        self.subscribed_topic_names: list[str] | None = subscribed_topic_names
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")

    NAME = "ShareGroupHeartbeatResponse"
    KIND = "response"
    API_KEY = 76
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupHeartbeatResponse response api=76 versions=1 flexible=0+
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
            topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = [] if topic_partitions is FRESH else topic_partitions
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
        assignment: ShareGroupHeartbeatResponse.Assignment | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.member_id: str | None = member_id
        self.member_epoch: int = member_epoch
        self.heartbeat_interval_ms: int = heartbeat_interval_ms
        self.assignment: ShareGroupHeartbeatResponse.Assignment | None = assignment
        self.unknown_tagged_fields = unknown_tagged_fields
