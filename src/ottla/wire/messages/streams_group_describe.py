# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class StreamsGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")

    NAME = "StreamsGroupDescribeRequest"
    KIND = "request"
    API_KEY = 89
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupDescribeRequest request api=89 versions=0 flexible=0+ listeners=broker
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


class StreamsGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    NAME = "StreamsGroupDescribeResponse"
    KIND = "response"
    API_KEY = 89
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupDescribeResponse response api=89 versions=0 flexible=0+
    throttle_time_ms int32 0+
    groups []DescribedGroup 0+
        error_code int16 0+
        error_message string 0+ nullable=0+ default=null
        group_id string 0+ is=groupId
        group_state string 0+
        group_epoch int32 0+
        assignment_epoch int32 0+
        topology Topology 0+ nullable=0+ default=null
            epoch int32 0+
            subtopologies []Subtopology 0+ nullable=0+ default=null
                subtopology_id string 0+
                source_topics []string 0+ is=topicName
                repartition_sink_topics []string 0+ is=topicName
                state_changelog_topics []TopicInfo 0+
                repartition_source_topics []TopicInfo 0+
        members []Member 0+
            member_id string 0+
            member_epoch int32 0+
            instance_id string 0+ nullable=0+ default=null
            rack_id string 0+ nullable=0+ default=null
            client_id string 0+
            client_host string 0+
            topology_epoch int32 0+
            process_id string 0+
            user_endpoint Endpoint 0+ nullable=0+ default=null
            client_tags []KeyValue 0+
            task_offsets []TaskOffset 0+
            task_end_offsets []TaskOffset 0+
            assignment Assignment 0+
            target_assignment Assignment 0+
            is_classic bool 0+
        authorized_operations int32 0+ default=-2147483648
    struct Endpoint 0+
        host string 0+
        port uint16 0+
    struct TaskOffset 0+
        subtopology_id string 0+
        partition int32 0+
        offset int64 0+
    struct Assignment 0+
        active_tasks []TaskIds 0+
        standby_tasks []TaskIds 0+
        warmup_tasks []TaskIds 0+
    struct TaskIds 0+
        subtopology_id string 0+
        partitions []int32 0+
    struct KeyValue 0+
        key string 0+
        value string 0+
    struct TopicInfo 0+
        name string 0+ is=topicName
        partitions int32 0+
        replication_factor int16 0+
        topic_configs []KeyValue 0+
"""

    class Subtopology(Struct):
        __slots__ = ("subtopology_id", "source_topics", "repartition_sink_topics", "state_changelog_topics", "repartition_source_topics")

        def __init__(
            self,
            *,
            subtopology_id: str = "",
            source_topics: list[str] = FRESH,
            repartition_sink_topics: list[str] = FRESH,
            state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = FRESH,
            repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.subtopology_id: str = subtopology_id
            self.source_topics: list[str] = [] if source_topics is FRESH else source_topics
            self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is FRESH else repartition_sink_topics
            self.state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = [] if state_changelog_topics is FRESH else state_changelog_topics
            self.repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = [] if repartition_source_topics is FRESH else repartition_source_topics
            self.unknown_tagged_fields = unknown_tagged_fields

    class Topology(Struct):
        __slots__ = ("epoch", "subtopologies")

        def __init__(
            self,
            *,
            epoch: int = 0,
            subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.epoch: int = epoch
            self.subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = subtopologies
            self.unknown_tagged_fields = unknown_tagged_fields

    class Member(Struct):
        __slots__ = ("member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "assignment", "target_assignment", "is_classic")

        def __init__(
            self,
            *,
            member_id: str = "",
            member_epoch: int = 0,
            instance_id: str | None = None,
            rack_id: str | None = None,
            client_id: str = "",
            client_host: str = "",
            topology_epoch: int = 0,
            process_id: str = "",
            user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = None,
            client_tags: list[StreamsGroupDescribeResponse.KeyValue] = FRESH,
            task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = FRESH,
            task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = FRESH,
            assignment: StreamsGroupDescribeResponse.Assignment = FRESH,
            target_assignment: StreamsGroupDescribeResponse.Assignment = FRESH,
            is_classic: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.member_epoch: int = member_epoch
            self.instance_id: str | None = instance_id
            self.rack_id: str | None = rack_id
            self.client_id: str = client_id
            self.client_host: str = client_host
            self.topology_epoch: int = topology_epoch
            self.process_id: str = process_id
            self.user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = user_endpoint
            self.client_tags: list[StreamsGroupDescribeResponse.KeyValue] = [] if client_tags is FRESH else client_tags
            self.task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = [] if task_offsets is FRESH else task_offsets
            self.task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = [] if task_end_offsets is FRESH else task_end_offsets
            self.assignment: StreamsGroupDescribeResponse.Assignment = StreamsGroupDescribeResponse.Assignment() if assignment is FRESH else assignment
            self.target_assignment: StreamsGroupDescribeResponse.Assignment = StreamsGroupDescribeResponse.Assignment() if target_assignment is FRESH else target_assignment
            self.is_classic: bool = is_classic
            self.unknown_tagged_fields = unknown_tagged_fields

    class DescribedGroup(Struct):
        __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "topology", "members", "authorized_operations")

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = None,
            group_id: str = "",
            group_state: str = "",
            group_epoch: int = 0,
            assignment_epoch: int = 0,
            topology: StreamsGroupDescribeResponse.Topology | None = None,
            members: list[StreamsGroupDescribeResponse.Member] = FRESH,
            authorized_operations: int = -2147483648,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.group_id: str = group_id
            self.group_state: str = group_state
            self.group_epoch: int = group_epoch
            self.assignment_epoch: int = assignment_epoch
            self.topology: StreamsGroupDescribeResponse.Topology | None = topology
            self.members: list[StreamsGroupDescribeResponse.Member] = [] if members is FRESH else members
            self.authorized_operations: int = authorized_operations
            self.unknown_tagged_fields = unknown_tagged_fields

    class Endpoint(Struct):
        __slots__ = ("host", "port")

        def __init__(
            self,
            *,
            host: str = "",
            port: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.host: str = host
            self.port: int = port
            self.unknown_tagged_fields = unknown_tagged_fields

    class TaskOffset(Struct):
        __slots__ = ("subtopology_id", "partition", "offset")

        def __init__(
            self,
            *,
            subtopology_id: str = "",
            partition: int = 0,
            offset: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.subtopology_id: str = subtopology_id
            self.partition: int = partition
            self.offset: int = offset
            self.unknown_tagged_fields = unknown_tagged_fields

    class Assignment(Struct):
        __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")

        def __init__(
            self,
            *,
            active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = FRESH,
            standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = FRESH,
            warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = [] if active_tasks is FRESH else active_tasks
            self.standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = [] if standby_tasks is FRESH else standby_tasks
            self.warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = [] if warmup_tasks is FRESH else warmup_tasks
            self.unknown_tagged_fields = unknown_tagged_fields

    class TaskIds(Struct):
        __slots__ = ("subtopology_id", "partitions")

        def __init__(
            self,
            *,
            subtopology_id: str = "",
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.subtopology_id: str = subtopology_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class KeyValue(Struct):
        __slots__ = ("key", "value")

        def __init__(
            self,
            *,
            key: str = "",
            value: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.key: str = key
            self.value: str = value
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicInfo(Struct):
        __slots__ = ("name", "partitions", "replication_factor", "topic_configs")

        def __init__(
            self,
            *,
            name: str = "",
            partitions: int = 0,
            replication_factor: int = 0,
            topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: int = partitions
            self.replication_factor: int = replication_factor
            self.topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = [] if topic_configs is FRESH else topic_configs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[StreamsGroupDescribeResponse.DescribedGroup] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[StreamsGroupDescribeResponse.DescribedGroup] = [] if groups is FRESH else groups
        self.unknown_tagged_fields = unknown_tagged_fields
