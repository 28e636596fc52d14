# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class UpdateRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "current_leader_epoch", "voter_id", "voter_directory_id", "listeners", "k_raft_version_feature")

    NAME = "UpdateRaftVoterRequest"
    KIND = "request"
    API_KEY = 82
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UpdateRaftVoterRequest request api=82 versions=0 flexible=0+ listeners=controller
    cluster_id string 0+ nullable=0+
    current_leader_epoch int32 0+
    voter_id int32 0+
    voter_directory_id uuid 0+
    listeners []Listener 0+
        name string 0+ key
        host string 0+
        port uint16 0+
    k_raft_version_feature KRaftVersionFeature 0+
        min_supported_version int16 0+
        max_supported_version int16 0+
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

    class KRaftVersionFeature(Struct):
        __slots__ = ("min_supported_version", "max_supported_version")

        def __init__(
            self,
            *,
            min_supported_version: int = 0,
            max_supported_version: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.min_supported_version: int = min_supported_version
            self.max_supported_version: int = max_supported_version
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO,
        listeners: list[UpdateRaftVoterRequest.Listener] = FRESH,
        k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.current_leader_epoch: int = current_leader_epoch
        self.voter_id: int = voter_id
        self.voter_directory_id: bytes = voter_directory_id
        self.listeners: list[UpdateRaftVoterRequest.Listener] = [] if listeners is FRESH else listeners
        self.k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = UpdateRaftVoterRequest.KRaftVersionFeature() if k_raft_version_feature is FRESH else k_raft_version_feature
        self.unknown_tagged_fields = unknown_tagged_fields


class UpdateRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "current_leader")

    NAME = "UpdateRaftVoterResponse"
    KIND = "response"
    API_KEY = 82
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UpdateRaftVoterResponse response api=82 versions=0 flexible=0+
    throttle_time_ms int32 0+
    error_code int16 0+
    current_leader CurrentLeader 0+ tag=0@0+
        leader_id int32 0+ default=-1 is=brokerId
        leader_epoch int32 0+ default=-1
        host string 0+
        port int32 0+
"""

    class CurrentLeader(Struct):
        __slots__ = ("leader_id", "leader_epoch", "host", "port")

        def __init__(
            self,
            *,
            leader_id: int = -1,
            leader_epoch: int = -1,
            host: str = "",
            port: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.leader_id: int = leader_id
            self.leader_epoch: int = leader_epoch
            self.host: str = host
            self.port: int = port
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: UpdateRaftVoterResponse.CurrentLeader = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.current_leader: UpdateRaftVoterResponse.CurrentLeader = UpdateRaftVoterResponse.CurrentLeader() if current_leader is FRESH else current_leader
        self.unknown_tagged_fields = unknown_tagged_fields
