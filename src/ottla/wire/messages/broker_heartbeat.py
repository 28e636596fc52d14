# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message


class BrokerHeartbeatRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down", "offline_log_dirs", "cordoned_log_dirs")

    NAME = "BrokerHeartbeatRequest"
    KIND = "request"
    API_KEY = 63
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
BrokerHeartbeatRequest request api=63 versions=0-2 flexible=0+ listeners=controller
    broker_id int32 0+ is=brokerId
    broker_epoch int64 0+ default=-1
    current_metadata_offset int64 0+
    want_fence bool 0+
    want_shut_down bool 0+
    offline_log_dirs []uuid 1+ tag=0@1+
    cordoned_log_dirs []uuid 2+ nullable=2+ tag=1@2+ default=null
"""

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[bytes] = FRESH,
        cordoned_log_dirs: list[bytes] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.current_metadata_offset: int = current_metadata_offset
        self.want_fence: bool = want_fence
        self.want_shut_down: bool = want_shut_down
        self.offline_log_dirs: list[bytes] = [] if offline_log_dirs is FRESH else offline_log_dirs
        self.cordoned_log_dirs: list[bytes] | None = cordoned_log_dirs
        self.unknown_tagged_fields = unknown_tagged_fields


class BrokerHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "is_caught_up", "is_fenced", "should_shut_down")

    NAME = "BrokerHeartbeatResponse"
    KIND = "response"
    API_KEY = 63
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
BrokerHeartbeatResponse response api=63 versions=0-2 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    is_caught_up bool 0+ default=false
    is_fenced bool 0+ default=true
    should_shut_down bool 0+
"""

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.is_caught_up: bool = is_caught_up
        self.is_fenced: bool = is_fenced
        self.should_shut_down: bool = should_shut_down
        self.unknown_tagged_fields = unknown_tagged_fields
