# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class DeleteTopicsRequest(Message):
    __slots__ = ("topics", "topic_names", "timeout_ms")

    NAME = "DeleteTopicsRequest"
    KIND = "request"
    API_KEY = 20
    VERSIONS = range(1, 7)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
DeleteTopicsRequest request api=20 versions=1-6 flexible=4+ listeners=broker,controller
    topics []DeleteTopicState 6+
        name string 6+ nullable=6+ default=null is=topicName
        topic_id uuid 6+
    topic_names []string 0-5 ignorable is=topicName
    timeout_ms int32 0+
"""

    class DeleteTopicState(Struct):
        __slots__ = ("name", "topic_id")

        def __init__(
            self,
            *,
            name: str | None = None,
            topic_id: bytes = ZERO,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str | None = name
            self.topic_id: bytes = topic_id
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[DeleteTopicsRequest.DeleteTopicState] = FRESH,
        topic_names: list[str] = FRESH,
        timeout_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[DeleteTopicsRequest.DeleteTopicState] = [] if topics is FRESH else topics
        self.topic_names: list[str] = [] if topic_names is FRESH else topic_names
        self.timeout_ms: int = timeout_ms
        self.unknown_tagged_fields = unknown_tagged_fields


class DeleteTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")

    NAME = "DeleteTopicsResponse"
    KIND = "response"
    API_KEY = 20
    VERSIONS = range(1, 7)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
DeleteTopicsResponse response api=20 versions=1-6 flexible=4+
    throttle_time_ms int32 1+ ignorable
    responses []DeletableTopicResult 0+
        name string 0+ nullable=6+ key is=topicName
        topic_id uuid 6+ ignorable
        error_code int16 0+
        error_message string 5+ nullable=5+ default=null ignorable
"""

    class DeletableTopicResult(Struct):
        __slots__ = ("name", "topic_id", "error_code", "error_message")

        def __init__(
            self,
            *,
            name: str | None = "",
            topic_id: bytes = ZERO,
            error_code: int = 0,
            error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str | None = name
            self.topic_id: bytes = topic_id
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeleteTopicsResponse.DeletableTopicResult] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.responses: list[DeleteTopicsResponse.DeletableTopicResult] = [] if responses is FRESH else responses
        self.unknown_tagged_fields = unknown_tagged_fields
