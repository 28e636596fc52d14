# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data")

    NAME = "ConsumerProtocolAssignment"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 4)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerProtocolAssignment data versions=0-3 flexible=none
    assigned_partitions []TopicPartition 0+
        topic string 0+ key is=topicName
        partitions []int32 0+
    user_data bytes 0+ nullable=0+ default=null
"""

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

    def __init__(
        self,
        *,
        assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = FRESH,
        user_data: bytes | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = [] if assigned_partitions is FRESH else assigned_partitions
        self.user_data: bytes | None = user_data
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")

    NAME = "ConsumerProtocolSubscription"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 4)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerProtocolSubscription data versions=0-3 flexible=none
    topics []string 0+
    user_data bytes 0+ nullable=0+ default=null
    owned_partitions []TopicPartition 1+ ignorable
        topic string 1+ key is=topicName
        partitions []int32 1+
    generation_id int32 2+ default=-1 ignorable
    rack_id string 3+ nullable=3+ default=null ignorable
"""

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

    def __init__(
        self,
        *,
        topics: list[str] = FRESH,
        user_data: bytes | None = None,
        owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = FRESH,
        generation_id: int = -1,
        rack_id: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[str] = [] if topics is FRESH else topics
        self.user_data: bytes | None = user_data
        self.owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = [] if owned_partitions is FRESH else owned_partitions
        self.generation_id: int = generation_id
        self.rack_id: str | None = rack_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ControlRecordTypeSchema(Message):
    __slots__ = ("type",)

    NAME = "ControlRecordTypeSchema"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ControlRecordTypeSchema data versions=0 flexible=none
    type int16 0+
"""

    def __init__(
        self,
        *,
        type: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.type: int = type
        self.unknown_tagged_fields = unknown_tagged_fields


class DefaultPrincipalData(Message):
    __slots__ = ("type", "name", "token_authenticated")

    NAME = "DefaultPrincipalData"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DefaultPrincipalData data versions=0 flexible=0+
    type string 0+
    name string 0+
    token_authenticated bool 0+
"""

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.type: str = type
        self.name: str = name
        self.token_authenticated: bool = token_authenticated
        self.unknown_tagged_fields = unknown_tagged_fields


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)

    NAME = "EndTxnMarker"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
EndTxnMarker data versions=0 flexible=none
    coordinator_epoch int32 0+
"""

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.coordinator_epoch: int = coordinator_epoch
        self.unknown_tagged_fields = unknown_tagged_fields


class KRaftVersionRecord(Message):
    __slots__ = ("version", "k_raft_version")

    NAME = "KRaftVersionRecord"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
KRaftVersionRecord data versions=0 flexible=0+
    version int16 0+
    k_raft_version int16 0+
"""

    def __init__(
        self,
        *,
        version: int = 0,
        k_raft_version: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.version: int = version
        self.k_raft_version: int = k_raft_version
        self.unknown_tagged_fields = unknown_tagged_fields


class LeaderChangeMessage(Message):
    __slots__ = ("version", "leader_id", "voters", "granting_voters")

    NAME = "LeaderChangeMessage"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
LeaderChangeMessage data versions=0-1 flexible=0+
    version int16 0+
    leader_id int32 0+ is=brokerId
    voters []Voter 0+
    granting_voters []Voter 0+
    struct Voter 0+
        voter_id int32 0+
        voter_directory_id uuid 1+
"""

    class Voter(Struct):
        __slots__ = ("voter_id", "voter_directory_id")

        def __init__(
            self,
            *,
            voter_id: int = 0,
            voter_directory_id: bytes = ZERO,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.voter_id: int = voter_id
            self.voter_directory_id: bytes = voter_directory_id
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        version: int = 0,
        leader_id: int = 0,
        voters: list[LeaderChangeMessage.Voter] = FRESH,
        granting_voters: list[LeaderChangeMessage.Voter] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.version: int = version
        self.leader_id: int = leader_id
        self.voters: list[LeaderChangeMessage.Voter] = [] if voters is FRESH else voters
        self.granting_voters: list[LeaderChangeMessage.Voter] = [] if granting_voters is FRESH else granting_voters
        self.unknown_tagged_fields = unknown_tagged_fields


class RequestHeader(Message):
    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id")

    NAME = "RequestHeader"
    KIND = "header"
    API_KEY = None
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2
    SCHEMA = """\
RequestHeader header versions=1-2 flexible=2+
    request_api_key int16 0+
    request_api_version int16 0+
    correlation_id int32 0+
    client_id string 1+ nullable=1+ flexible=none
"""

    def __init__(
        self,
        *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.request_api_key: int = request_api_key
        self.request_api_version: int = request_api_version
        self.correlation_id: int = correlation_id
        self.client_id: str | None = client_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ResponseHeader(Message):
    __slots__ = ("correlation_id",)

    NAME = "ResponseHeader"
    KIND = "header"
    API_KEY = None
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 1
    SCHEMA = """\
ResponseHeader header versions=0-1 flexible=1+
    correlation_id int32 0+
"""

    def __init__(
        self,
        *,
        correlation_id: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.correlation_id: int = correlation_id
        self.unknown_tagged_fields = unknown_tagged_fields


class SnapshotFooterRecord(Message):
    __slots__ = ("version",)

    NAME = "SnapshotFooterRecord"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
SnapshotFooterRecord data versions=0 flexible=0+
    version int16 0+
"""

    def __init__(
        self,
        *,
        version: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.version: int = version
        self.unknown_tagged_fields = unknown_tagged_fields


class SnapshotHeaderRecord(Message):
    __slots__ = ("version", "last_contained_log_timestamp")

    NAME = "SnapshotHeaderRecord"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
SnapshotHeaderRecord data versions=0 flexible=0+
    version int16 0+
    last_contained_log_timestamp int64 0+
"""

    def __init__(
        self,
        *,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.version: int = version
        self.last_contained_log_timestamp: int = last_contained_log_timestamp
        self.unknown_tagged_fields = unknown_tagged_fields


class VotersRecord(Message):
    __slots__ = ("version", "voters")

    NAME = "VotersRecord"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
VotersRecord data versions=0 flexible=0+
    version int16 0+
    voters []Voter 0+
        voter_id int32 0+ is=brokerId
        voter_directory_id uuid 0+
        endpoints []Endpoint 0+
            name string 0+ key
            host string 0+
            port uint16 0+
        k_raft_version_feature KRaftVersionFeature 0+
            min_supported_version int16 0+
            max_supported_version int16 0+
"""

    class Endpoint(Struct):
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

    class Voter(Struct):
        __slots__ = ("voter_id", "voter_directory_id", "endpoints", "k_raft_version_feature")

        def __init__(
            self,
            *,
            voter_id: int = 0,
            voter_directory_id: bytes = ZERO,
            endpoints: list[VotersRecord.Endpoint] = FRESH,
            k_raft_version_feature: VotersRecord.KRaftVersionFeature = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.voter_id: int = voter_id
            self.voter_directory_id: bytes = voter_directory_id
            self.endpoints: list[VotersRecord.Endpoint] = [] if endpoints is FRESH else endpoints
            self.k_raft_version_feature: VotersRecord.KRaftVersionFeature = VotersRecord.KRaftVersionFeature() if k_raft_version_feature is FRESH else k_raft_version_feature
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        version: int = 0,
        voters: list[VotersRecord.Voter] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.version: int = version
        self.voters: list[VotersRecord.Voter] = [] if voters is FRESH else voters
        self.unknown_tagged_fields = unknown_tagged_fields
