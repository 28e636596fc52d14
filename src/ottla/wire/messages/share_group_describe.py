# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ShareGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")

    NAME = "ShareGroupDescribeRequest"
    KIND = "request"
    API_KEY = 77
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupDescribeRequest request api=77 versions=1 flexible=0+ listeners=broker
    group_ids []string 0+ is=groupId
    include_authorized_operations bool 0+
"""

    def __init__(
        self,
        *,
        group_ids: list[str] = FRESH,
        include_authorized_operations: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is FRESH else group_ids
        self.include_authorized_operations: bool = include_authorized_operations
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    NAME = "ShareGroupDescribeResponse"
    KIND = "response"
    API_KEY = 77
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupDescribeResponse response api=77 versions=1 flexible=0+
    throttle_time_ms int32 0+
    groups []DescribedGroup 0+
        error_code int16 0+
        error_message string 0+ nullable=0+ default=null
        group_id string 0+ is=groupId
        group_state string 0+
        group_epoch int32 0+
        assignment_epoch int32 0+
        assignor_name string 0+
        members []Member 0+
            member_id string 0+
            rack_id string 0+ nullable=0+ default=null
            member_epoch int32 0+
            client_id string 0+
            client_host string 0+
            subscribed_topic_names []string 0+ is=topicName
            assignment Assignment 0+
        authorized_operations int32 0+ default=-2147483648
    struct TopicPartitions 0+
        topic_id uuid 0+
        topic_name string 0+ is=topicName
        partitions []int32 0+
    struct Assignment 0+
        topic_partitions []TopicPartitions 0+
"""

    class Member(Struct):
        __slots__ = ("member_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topic_names", "assignment")

        def __init__(
            self,
            *,
            member_id: str = "",
            rack_id: str | None = None,
            member_epoch: int = 0,
            client_id: str = "",
            client_host: str = "",
            subscribed_topic_names: list[str] = FRESH,
            assignment: ShareGroupDescribeResponse.Assignment = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.rack_id: str | None = rack_id
            self.member_epoch: int = member_epoch
            self.client_id: str = client_id
            self.client_host: str = client_host
            self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is FRESH else subscribed_topic_names
            self.assignment: ShareGroupDescribeResponse.Assignment = ShareGroupDescribeResponse.Assignment() if assignment is FRESH else assignment
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribedGroup(Struct):
        __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "assignor_name", "members", "authorized_operations")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = None,
            group_id: str = "",
            group_state: str = "",
            group_epoch: int = 0,
            assignment_epoch: int = 0,
            assignor_name: str = "",
            members: list[ShareGroupDescribeResponse.Member] = FRESH,
            authorized_operations: int = -2147483648,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.group_id: str = group_id
            self.group_state: str = group_state
            self.group_epoch: int = group_epoch
            self.assignment_epoch: int = assignment_epoch
            self.assignor_name: str = assignor_name
            self.members: list[ShareGroupDescribeResponse.Member] = [] if members is FRESH else members
            self.authorized_operations: int = authorized_operations
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicPartitions(Struct):
        __slots__ = ("topic_id", "topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            topic_name: str = "",
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.topic_name: str = topic_name
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class Assignment(Struct):
        __slots__ = ("topic_partitions",)

        def __init__(
            self,
            *,
            topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = [] if topic_partitions is FRESH else topic_partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[ShareGroupDescribeResponse.DescribedGroup] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[ShareGroupDescribeResponse.DescribedGroup] = [] if groups is FRESH else groups
        self.unknown_tagged_fields = unknown_tagged_fields
