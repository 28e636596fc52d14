# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class StreamsGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "shutdown_application")

    NAME = "StreamsGroupHeartbeatRequest"
    KIND = "request"
    API_KEY = 88
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupHeartbeatRequest request api=88 versions=0 flexible=0+ listeners=broker
    group_id string 0+ is=groupId
    member_id string 0+
    member_epoch int32 0+
    endpoint_information_epoch int32 0+
    instance_id string 0+ nullable=0+ default=null
    rack_id string 0+ nullable=0+ default=null
    rebalance_timeout_ms int32 0+ default=-1
    topology Topology 0+ nullable=0+ default=null
        epoch int32 0+
        subtopologies []Subtopology 0+
            subtopology_id string 0+
            source_topics []string 0+ is=topicName
            source_topic_regex []string 0+
            state_changelog_topics []TopicInfo 0+
            repartition_sink_topics []string 0+ is=topicName
            repartition_source_topics []TopicInfo 0+
            copartition_groups []CopartitionGroup 0+
                source_topics []int16 0+
                source_topic_regex []int16 0+
                repartition_source_topics []int16 0+
    active_tasks []TaskIds 0+ nullable=0+ default=null
    standby_tasks []TaskIds 0+ nullable=0+ default=null
    warmup_tasks []TaskIds 0+ nullable=0+ default=null
    process_id string 0+ nullable=0+ default=null
    user_endpoint Endpoint 0+ nullable=0+ default=null
    client_tags []KeyValue 0+ nullable=0+ default=null
    task_offsets []TaskOffset 0+ nullable=0+ default=null
    task_end_offsets []TaskOffset 0+ nullable=0+ default=null
    shutdown_application bool 0+ default=false
    struct KeyValue 0+
        key string 0+
        value string 0+
    struct TopicInfo 0+
        name string 0+ is=topicName
        partitions int32 0+
        replication_factor int16 0+
        topic_configs []KeyValue 0+
    struct Endpoint 0+
        host string 0+
        port uint16 0+
    struct TaskOffset 0+
        subtopology_id string 0+
        partition int32 0+
        offset int64 0+
    struct TaskIds 0+
        subtopology_id string 0+
        partitions []int32 0+
"""

    class CopartitionGroup(Struct):
        __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")

        def __init__(
            self,
            *,
            source_topics: list[int] = FRESH,
            source_topic_regex: list[int] = FRESH,
            repartition_source_topics: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.source_topics: list[int] = [] if source_topics is FRESH else source_topics
            self.source_topic_regex: list[int] = [] if source_topic_regex is FRESH else source_topic_regex
            self.repartition_source_topics: list[int] = [] if repartition_source_topics is FRESH else repartition_source_topics
            self.unknown_tagged_fields = unknown_tagged_fields

    class Subtopology(Struct):
        __slots__ = ("subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics", "copartition_groups")

        def __init__(
            self,
            *,
            subtopology_id: str = "",
            source_topics: list[str] = FRESH,
            source_topic_regex: list[str] = FRESH,
            state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = FRESH,
            repartition_sink_topics: list[str] = FRESH,
            repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = FRESH,
            copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.subtopology_id: str = subtopology_id
            self.source_topics: list[str] = [] if source_topics is FRESH else source_topics
            self.source_topic_regex: list[str] = [] if source_topic_regex is FRESH else source_topic_regex
            self.state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = [] if state_changelog_topics is FRESH else state_changelog_topics
            self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is FRESH else repartition_sink_topics
            self.repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = [] if repartition_source_topics is FRESH else repartition_source_topics
            self.copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = [] if copartition_groups is FRESH else copartition_groups
            self.unknown_tagged_fields = unknown_tagged_fields

    class Topology(Struct):
        __slots__ = ("epoch", "subtopologies")

        def __init__(
            self,
            *,
            epoch: int = 0,
            subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.epoch: int = epoch
            self.subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = [] if subtopologies is FRESH else subtopologies
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
            topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: int = partitions
            self.replication_factor: int = replication_factor
            self.topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = [] if topic_configs is FRESH else topic_configs
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

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: StreamsGroupHeartbeatRequest.Topology | None = None,
        active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = None,
        client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = None,
        task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = None,
        task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = None,
        shutdown_application: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.endpoint_information_epoch: int = endpoint_information_epoch
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.topology: StreamsGroupHeartbeatRequest.Topology | None = topology
        self.active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = active_tasks
        self.standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = standby_tasks
        self.warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = warmup_tasks
        self.process_id: str | None = process_id
        self.user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = user_endpoint
        self.client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = client_tags
        self.task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = task_offsets
        self.task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = task_end_offsets
        self.shutdown_application: bool = shutdown_application
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "acceptable_recovery_lag", "task_offset_interval_ms", "status", "active_tasks", "standby_tasks", "warmup_tasks", "endpoint_information_epoch", "partitions_by_user_endpoint")

    NAME = "StreamsGroupHeartbeatResponse"
    KIND = "response"
    API_KEY = 88
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupHeartbeatResponse response api=88 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ default=null
    member_id string 0+
    member_epoch int32 0+
    heartbeat_interval_ms int32 0+
    acceptable_recovery_lag int32 0+
    task_offset_interval_ms int32 0+
    status []Status 0+ nullable=0+
    active_tasks []TaskIds 0+ nullable=0+ default=null
    standby_tasks []TaskIds 0+ nullable=0+ default=null
    warmup_tasks []TaskIds 0+ nullable=0+ default=null
    endpoint_information_epoch int32 0+
    partitions_by_user_endpoint []EndpointToPartitions 0+ nullable=0+ default=null
        user_endpoint Endpoint 0+
        active_partitions []TopicPartition 0+
        standby_partitions []TopicPartition 0+
    struct Status 0+
        status_code int8 0+
        status_detail string 0+
    struct TopicPartition 0+
        topic string 0+ is=topicName
        partitions []int32 0+
    struct TaskIds 0+
        subtopology_id string 0+
        partitions []int32 0+
    struct Endpoint 0+
        host string 0+
        port uint16 0+
"""

    class EndpointToPartitions(Struct):
        __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")

        def __init__(
            self,
            *,
            user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = FRESH,
            active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = FRESH,
            standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = StreamsGroupHeartbeatResponse.Endpoint() if user_endpoint is FRESH else user_endpoint
            self.active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = [] if active_partitions is FRESH else active_partitions
            self.standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = [] if standby_partitions is FRESH else standby_partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class Status(Struct):
        __slots__ = ("status_code", "status_detail")

        def __init__(
            self,
            *,
            status_code: int = 0,
            status_detail: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.status_code: int = status_code
            self.status_detail: str = status_detail
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicPartition(Struct):
        __slots__ = ("topic", "partitions")

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic: str = topic
            self.partitions: list[int] = [] if partitions is FRESH else partitions
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

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: list[StreamsGroupHeartbeatResponse.Status] | None = FRESH,
        active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.heartbeat_interval_ms: int = heartbeat_interval_ms
        self.acceptable_recovery_lag: int = acceptable_recovery_lag
        self.task_offset_interval_ms: int = task_offset_interval_ms
        self.status: list[StreamsGroupHeartbeatResponse.Status] | None = [] if status is FRESH else status
        self.active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = active_tasks
        self.standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = standby_tasks
        self.warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = warmup_tasks
        self.endpoint_information_epoch: int = endpoint_information_epoch
        self.partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = partitions_by_user_endpoint
        self.unknown_tagged_fields = unknown_tagged_fields
