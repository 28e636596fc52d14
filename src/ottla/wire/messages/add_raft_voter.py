# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class AddRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed")

    NAME = "AddRaftVoterRequest"
    KIND = "request"
    API_KEY = 80
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AddRaftVoterRequest request api=80 versions=0-1 flexible=0+ listeners=controller,broker
    cluster_id string 0+ nullable=0+
    timeout_ms int32 0+
    voter_id int32 0+
    voter_directory_id uuid 0+
    listeners []Listener 0+
        name string 0+ key
        host string 0+
        port uint16 0+
    ack_when_committed bool 1+ default=true
"""

    class Listener(Struct):
        __slots__ = ("name", "host", "port")

        def __init__(
            self,
            *,
            name: str = "",
            host: str = "",
            port: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.host: str = host
            self.port: int = port
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO,
        listeners: list[AddRaftVoterRequest.Listener] = FRESH,
        ack_when_committed: bool = True,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.timeout_ms: int = timeout_ms
        self.voter_id: int = voter_id
        self.voter_directory_id: bytes = voter_directory_id
        self.listeners: list[AddRaftVoterRequest.Listener] = [] if listeners is FRESH else listeners
        self.ack_when_committed: bool = ack_when_committed
        self.unknown_tagged_fields = unknown_tagged_fields


class AddRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    NAME = "AddRaftVoterResponse"
    KIND = "response"
    API_KEY = 80
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AddRaftVoterResponse response api=80 versions=0-1 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    error_message string 0+ nullable=0+ ignorable
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.unknown_tagged_fields = unknown_tagged_fields
