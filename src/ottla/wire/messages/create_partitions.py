# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct


class CreatePartitionsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")

    NAME = "CreatePartitionsRequest"
    KIND = "request"
    API_KEY = 37
    VERSIONS = range(0, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
CreatePartitionsRequest request api=37 versions=0-3 flexible=2+ listeners=broker,controller
    topics []CreatePartitionsTopic 0+
        name string 0+ key is=topicName
        count int32 0+
        assignments []CreatePartitionsAssignment 0+ nullable=0+
            broker_ids []int32 0+ is=brokerId
    timeout_ms int32 0+
    validate_only bool 0+
"""

    class CreatePartitionsAssignment(Struct):
        __slots__ = ("broker_ids",)

        def __init__(
            self,
            *,
            broker_ids: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.broker_ids: list[int] = [] if broker_ids is FRESH else broker_ids
            self.unknown_tagged_fields = unknown_tagged_fields

    class CreatePartitionsTopic(Struct):
        __slots__ = ("name", "count", "assignments")

        def __init__(
            self,
            *,
            name: str = "",
            count: int = 0,
            assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.count: int = count
            self.assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = [] if assignments is FRESH else assignments
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = FRESH,
        timeout_ms: int = 0,
        validate_only: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = [] if topics is FRESH else topics
        self.timeout_ms: int = timeout_ms
        self.validate_only: bool = validate_only
        self.unknown_tagged_fields = unknown_tagged_fields


class CreatePartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    NAME = "CreatePartitionsResponse"
    KIND = "response"
    API_KEY = 37
    VERSIONS = range(0, 4)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
CreatePartitionsResponse response api=37 versions=0-3 flexible=2+
    throttle_time_ms int32 0+
    results []CreatePartitionsTopicResult 0+
        name string 0+ is=topicName
        error_code int16 0+
        error_message string 0+ nullable=0+ default=null
"""

    class CreatePartitionsTopicResult(Struct):
        __slots__ = ("name", "error_code", "error_message")

        def __init__(
            self,
            *,
            name: str = "",
            error_code: int = 0,
            error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = [] if results is FRESH else results
        self.unknown_tagged_fields = unknown_tagged_fields
