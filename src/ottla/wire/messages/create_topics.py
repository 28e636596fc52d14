# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class CreateTopicsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")

    NAME = "CreateTopicsRequest"
    KIND = "request"
    API_KEY = 19
    VERSIONS = range(2, 8)
    FLEXIBLE_FROM = 5
    SCHEMA = """\
CreateTopicsRequest request api=19 versions=2-7 flexible=5+ listeners=broker,controller
    topics []CreatableTopic 0+
        name string 0+ key is=topicName
        num_partitions int32 0+
        replication_factor int16 0+
        assignments []CreatableReplicaAssignment 0+
            partition_index int32 0+ key
            broker_ids []int32 0+ is=brokerId
        configs []CreatableTopicConfig 0+
            name string 0+ key
            value string 0+ nullable=0+
    timeout_ms int32 0+ default=60000
    validate_only bool 1+ default=false
"""

    class CreatableReplicaAssignment(Struct):
        __slots__ = ("partition_index", "broker_ids")

        def __init__(
            self,
            *,
            partition_index: int = 0,
            broker_ids: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition_index: int = partition_index
            self.broker_ids: list[int] = [] if broker_ids is FRESH else broker_ids
            self.unknown_tagged_fields = unknown_tagged_fields

    class CreatableTopicConfig(Struct):
        __slots__ = ("name", "value")

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.value: str | None = value
            self.unknown_tagged_fields = unknown_tagged_fields

    class CreatableTopic(Struct):
        __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")

        def __init__(
            self,
            *,
            name: str = "",
            num_partitions: int = 0,
            replication_factor: int = 0,
            assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = FRESH,
            configs: list[CreateTopicsRequest.CreatableTopicConfig] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.num_partitions: int = num_partitions
            self.replication_factor: int = replication_factor
            self.assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = [] if assignments is FRESH else assignments
            self.configs: list[CreateTopicsRequest.CreatableTopicConfig] = [] if configs is FRESH else configs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[CreateTopicsRequest.CreatableTopic] = FRESH,
        timeout_ms: int = 60000,
        validate_only: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[CreateTopicsRequest.CreatableTopic] = [] if topics is FRESH else topics
        self.timeout_ms: int = timeout_ms
        self.validate_only: bool = validate_only
        self.unknown_tagged_fields = unknown_tagged_fields


class CreateTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    NAME = "CreateTopicsResponse"
    KIND = "response"
    API_KEY = 19
    VERSIONS = range(2, 8)
    FLEXIBLE_FROM = 5
    SCHEMA = """\
CreateTopicsResponse response api=19 versions=2-7 flexible=5+
    throttle_time_ms int32 2+ ignorable
    topics []CreatableTopicResult 0+
        name string 0+ key is=topicName
        topic_id uuid 7+ ignorable
        error_code int16 0+
        error_message string 1+ nullable=0+ ignorable
        topic_config_error_code int16 5+ tag=0@5+ ignorable
        num_partitions int32 5+ default=-1 ignorable
        replication_factor int16 5+ default=-1 ignorable
        configs []CreatableTopicConfigs 5+ nullable=5+ ignorable
            name string 5+
            value string 5+ nullable=5+
            read_only bool 5+
            config_source int8 5+ default=-1 ignorable
            is_sensitive bool 5+
"""

    class CreatableTopicConfigs(Struct):
        __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
            read_only: bool = False,
            config_source: int = -1,
            is_sensitive: bool = False,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.value: str | None = value
            self.read_only: bool = read_only
            self.config_source: int = config_source
            self.is_sensitive: bool = is_sensitive
            self.unknown_tagged_fields = unknown_tagged_fields

    class CreatableTopicResult(Struct):
        __slots__ = ("name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions", "replication_factor", "configs")

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: bytes = ZERO,
            error_code: int = 0,
            error_message: str | None = "",
            topic_config_error_code: int = 0,
            num_partitions: int = -1,
            replication_factor: int = -1,
            configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.topic_id: bytes = topic_id
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.topic_config_error_code: int = topic_config_error_code
            self.num_partitions: int = num_partitions
            self.replication_factor: int = replication_factor
            self.configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = [] if configs is FRESH else configs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreateTopicsResponse.CreatableTopicResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[CreateTopicsResponse.CreatableTopicResult] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields
