# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class DeleteShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")

    NAME = "DeleteShareGroupOffsetsRequest"
    KIND = "request"
    API_KEY = 92
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DeleteShareGroupOffsetsRequest request api=92 versions=0 flexible=0+ listeners=broker
    group_id string 0+ is=groupId
    topics []DeleteShareGroupOffsetsRequestTopic 0+
        topic_name string 0+ is=topicName
"""

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        __slots__ = ("topic_name",)

        def __init__(
            self,
            *,
            topic_name: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class DeleteShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")

    NAME = "DeleteShareGroupOffsetsResponse"
    KIND = "response"
    API_KEY = 92
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DeleteShareGroupOffsetsResponse response api=92 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ default=null
    responses []DeleteShareGroupOffsetsResponseTopic 0+
        topic_name string 0+ is=topicName
        topic_id uuid 0+
        error_code int16 0+
        error_message string 0+ nullable=0+ default=null
"""

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        __slots__ = ("topic_name", "topic_id", "error_code", "error_message")

        def __init__(
            self,
            *,
            topic_name: str = "",
            topic_id: bytes = ZERO,
            error_code: int = 0,
            error_message: str | None = None,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_name: str = topic_name
            self.topic_id: bytes = topic_id
            self.error_code: int = error_code
            self.error_message: str | None = error_message
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = [] if responses is FRESH else responses
        self.unknown_tagged_fields = unknown_tagged_fields
