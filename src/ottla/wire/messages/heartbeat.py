# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import Message


class HeartbeatRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")

    NAME = "HeartbeatRequest"
    KIND = "request"
    API_KEY = 12
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
HeartbeatRequest request api=12 versions=0-4 flexible=4+ listeners=broker
    group_id string 0+ is=groupId
    generation_id int32 0+
    member_id string 0+
    group_instance_id string 3+ nullable=3+ default=null
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.unknown_tagged_fields = unknown_tagged_fields


class HeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")

    NAME = "HeartbeatResponse"
    KIND = "response"
    API_KEY = 12
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
HeartbeatResponse response api=12 versions=0-4 flexible=4+
    throttle_time_ms int32 1+ ignorable
    error_code int16 0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields
