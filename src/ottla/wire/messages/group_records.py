# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class LegacyOffsetCommitKey(Message):
    __slots__ = ("group", "topic", "partition")

    NAME = "LegacyOffsetCommitKey"
    KIND = "coordinator-key"
    API_KEY = 0
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
LegacyOffsetCommitKey coordinator-key api=0 versions=0 flexible=none
    group string 0
    topic string 0
    partition int32 0
"""

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group: str = group
        self.topic: str = topic
        self.partition: int = partition
        self.unknown_tagged_fields = unknown_tagged_fields


class LegacyOffsetCommitValue(Message):
    __slots__ = ("offset", "metadata", "commit_timestamp")

    NAME = "LegacyOffsetCommitValue"
    KIND = "coordinator-value"
    API_KEY = 0
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
LegacyOffsetCommitValue coordinator-value api=0 versions=0 flexible=none
    offset int64 0
    metadata string 0
    commit_timestamp int64 0
"""

    def __init__(
        self,
        *,
        offset: int = 0,
        metadata: str = "",
        commit_timestamp: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.offset: int = offset
        self.metadata: str = metadata
        self.commit_timestamp: int = commit_timestamp
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetCommitKey(Message):
    __slots__ = ("group", "topic", "partition")

    NAME = "OffsetCommitKey"
    KIND = "coordinator-key"
    API_KEY = 1
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
OffsetCommitKey coordinator-key api=1 versions=0 flexible=none
    group string 0
    topic string 0
    partition int32 0
"""

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group: str = group
        self.topic: str = topic
        self.partition: int = partition
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetCommitValue(Message):
    __slots__ = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")

    NAME = "OffsetCommitValue"
    KIND = "coordinator-value"
    API_KEY = 1
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
OffsetCommitValue coordinator-value api=1 versions=0-4 flexible=4+
    offset int64 0+
    leader_epoch int32 3+ default=-1 ignorable
    metadata string 0+
    commit_timestamp int64 0+
    expire_timestamp int64 1 default=-1 ignorable
    topic_id uuid 4+ tag=0@4+ ignorable
"""

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = ZERO,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.offset: int = offset
        self.leader_epoch: int = leader_epoch
        self.metadata: str = metadata
        self.commit_timestamp: int = commit_timestamp
        self.expire_timestamp: int = expire_timestamp
        self.topic_id: bytes = topic_id
        self.unknown_tagged_fields = unknown_tagged_fields


class GroupMetadataKey(Message):
    __slots__ = ("group",)

    NAME = "GroupMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 2
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
GroupMetadataKey coordinator-key api=2 versions=0 flexible=none
    group string 0
"""

    def __init__(
        self,
        *,
        group: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group: str = group
        self.unknown_tagged_fields = unknown_tagged_fields


class GroupMetadataValue(Message):
    __slots__ = ("protocol_type", "generation", "protocol", "leader", "current_state_timestamp", "members")

    NAME = "GroupMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 2
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 4
    SCHEMA = """\
GroupMetadataValue coordinator-value api=2 versions=0-4 flexible=4+
    protocol_type string 0+
    generation int32 0+
    protocol string 0+ nullable=0+
    leader string 0+ nullable=0+
    current_state_timestamp int64 2+ default=-1 ignorable
    members []MemberMetadata 0+
    struct MemberMetadata 0+
        member_id string 0+
        group_instance_id string 3+ nullable=3+ default=null ignorable
        client_id string 0+
        client_host string 0+
        rebalance_timeout int32 1+ default=-1 ignorable
        session_timeout int32 0+
        subscription bytes 0+
        assignment bytes 0+
"""

    class MemberMetadata(Struct):
        __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "rebalance_timeout", "session_timeout", "subscription", "assignment")

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = None,
            client_id: str = "",
            client_host: str = "",
            rebalance_timeout: int = -1,
            session_timeout: int = 0,
            subscription: bytes = b"",
            assignment: bytes = b"",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.member_id: str = member_id
            self.group_instance_id: str | None = group_instance_id
            self.client_id: str = client_id
            self.client_host: str = client_host
            self.rebalance_timeout: int = rebalance_timeout
            self.session_timeout: int = session_timeout
            self.subscription: bytes = subscription
            self.assignment: bytes = assignment
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: list[GroupMetadataValue.MemberMetadata] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.protocol_type: str = protocol_type
        self.generation: int = generation
        self.protocol: str | None = protocol
        self.leader: str | None = leader
        self.current_state_timestamp: int = current_state_timestamp
        self.members: list[GroupMetadataValue.MemberMetadata] = [] if members is FRESH else members
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "ConsumerGroupMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 3
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerGroupMetadataKey coordinator-key api=3 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash")

    NAME = "ConsumerGroupMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 3
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupMetadataValue coordinator-value api=3 versions=0 flexible=0+
    epoch int32 0+
    metadata_hash int64 0+ tag=0@0+ default=0
"""

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.epoch: int = epoch
        self.metadata_hash: int = metadata_hash
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupPartitionMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "ConsumerGroupPartitionMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 4
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerGroupPartitionMetadataKey coordinator-key api=4 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupPartitionMetadataValue(Message):
    __slots__ = ("topics",)

    NAME = "ConsumerGroupPartitionMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 4
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupPartitionMetadataValue coordinator-value api=4 versions=0 flexible=0+
    topics []TopicMetadata 0+
        topic_id uuid 0+
        topic_name string 0+
        num_partitions int32 0+
        partition_metadata []PartitionMetadata 0+
            partition int32 0+
            racks []string 0+
"""

    class PartitionMetadata(Struct):
        __slots__ = ("partition", "racks")

        def __init__(
            self,
            *,
            partition: int = 0,
            racks: list[str] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.partition: int = partition
            self.racks: list[str] = [] if racks is FRESH else racks
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicMetadata(Struct):
        __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            topic_name: str = "",
            num_partitions: int = 0,
            partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.topic_name: str = topic_name
            self.num_partitions: int = num_partitions
            self.partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = [] if partition_metadata is FRESH else partition_metadata
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = [] if topics is FRESH else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupMemberMetadataKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "ConsumerGroupMemberMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 5
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerGroupMemberMetadataKey coordinator-key api=5 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupMemberMetadataValue(Message):
    __slots__ = ("instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex", "rebalance_timeout_ms", "server_assignor", "classic_member_metadata")

    NAME = "ConsumerGroupMemberMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 5
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupMemberMetadataValue coordinator-value api=5 versions=0 flexible=0+
    instance_id string 0+ nullable=0+
    rack_id string 0+ nullable=0+
    client_id string 0+
    client_host string 0+
    subscribed_topic_names []string 0+
    subscribed_topic_regex string 0+ nullable=0+
    rebalance_timeout_ms int32 0+ default=-1
    server_assignor string 0+ nullable=0+
    classic_member_metadata ClassicMemberMetadata 0+ nullable=0+ tag=0@0+
        session_timeout_ms int32 0+
        supported_protocols []ClassicProtocol 0+
            name string 0+
            metadata bytes 0+
"""

    class ClassicProtocol(Struct):
        __slots__ = ("name", "metadata")

        def __init__(
            self,
            *,
            name: str = "",
            metadata: bytes = b"",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.metadata: bytes = metadata
            self.unknown_tagged_fields = unknown_tagged_fields

    class ClassicMemberMetadata(Struct):
        __slots__ = ("session_timeout_ms", "supported_protocols")

        def __init__(
            self,
            *,
            session_timeout_ms: int = 0,
            supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.session_timeout_ms: int = session_timeout_ms
            self.supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = [] if supported_protocols is FRESH else supported_protocols
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = FRESH,
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is FRESH else subscribed_topic_names
        self.subscribed_topic_regex: str | None = subscribed_topic_regex
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.server_assignor: str | None = server_assignor
        self.classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata() if classic_member_metadata is FRESH else classic_member_metadata
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "ConsumerGroupTargetAssignmentMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 6
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerGroupTargetAssignmentMetadataKey coordinator-key api=6 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp")

    NAME = "ConsumerGroupTargetAssignmentMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 6
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupTargetAssignmentMetadataValue coordinator-value api=6 versions=0 flexible=0+
    assignment_epoch int32 0+
    assignment_timestamp int64 0+ tag=0@0+ default=0 ignorable
"""

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.assignment_epoch: int = assignment_epoch
        self.assignment_timestamp: int = assignment_timestamp
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupTargetAssignmentMemberKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "ConsumerGroupTargetAssignmentMemberKey"
    KIND = "coordinator-key"
    API_KEY = 7
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerGroupTargetAssignmentMemberKey coordinator-key api=7 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("topic_partitions",)

    NAME = "ConsumerGroupTargetAssignmentMemberValue"
    KIND = "coordinator-value"
    API_KEY = 7
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupTargetAssignmentMemberValue coordinator-value api=7 versions=0 flexible=0+
    topic_partitions []TopicPartition 0+
        topic_id uuid 0+
        partitions []int32 0+
"""

    class TopicPartition(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = [] if topic_partitions is FRESH else topic_partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "ConsumerGroupCurrentMemberAssignmentKey"
    KIND = "coordinator-key"
    API_KEY = 8
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerGroupCurrentMemberAssignmentKey coordinator-key api=8 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions", "partitions_pending_revocation")

    NAME = "ConsumerGroupCurrentMemberAssignmentValue"
    KIND = "coordinator-value"
    API_KEY = 8
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupCurrentMemberAssignmentValue coordinator-value api=8 versions=0 flexible=0+
    member_epoch int32 0+
    previous_member_epoch int32 0+
    state int8 0+
    assigned_partitions []TopicPartitions 0+
    partitions_pending_revocation []TopicPartitions 0+
    struct TopicPartitions 0+
        topic_id uuid 0+
        partitions []int32 0+
        assignment_epochs []int32 0+ nullable=0+ tag=0@0+
"""

    class TopicPartitions(Struct):
        __slots__ = ("topic_id", "partitions", "assignment_epochs")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            assignment_epochs: list[int] | None = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.assignment_epochs: list[int] | None = [] if assignment_epochs is FRESH else assignment_epochs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = FRESH,
        partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.member_epoch: int = member_epoch
        self.previous_member_epoch: int = previous_member_epoch
        self.state: int = state
        self.assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = [] if assigned_partitions is FRESH else assigned_partitions
        self.partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = [] if partitions_pending_revocation is FRESH else partitions_pending_revocation
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupMemberMetadataKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "ShareGroupMemberMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 10
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareGroupMemberMetadataKey coordinator-key api=10 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupMemberMetadataValue(Message):
    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names")

    NAME = "ShareGroupMemberMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 10
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupMemberMetadataValue coordinator-value api=10 versions=0 flexible=0+
    rack_id string 0+ nullable=0+
    client_id string 0+
    client_host string 0+
    subscribed_topic_names []string 0+
"""

    def __init__(
        self,
        *,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.rack_id: str | None = rack_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is FRESH else subscribed_topic_names
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "ShareGroupMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 11
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareGroupMetadataKey coordinator-key api=11 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash")

    NAME = "ShareGroupMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 11
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupMetadataValue coordinator-value api=11 versions=0 flexible=0+
    epoch int32 0+
    metadata_hash int64 0+
"""

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.epoch: int = epoch
        self.metadata_hash: int = metadata_hash
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupTargetAssignmentMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "ShareGroupTargetAssignmentMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 12
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareGroupTargetAssignmentMetadataKey coordinator-key api=12 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp")

    NAME = "ShareGroupTargetAssignmentMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 12
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupTargetAssignmentMetadataValue coordinator-value api=12 versions=0 flexible=0+
    assignment_epoch int32 0+
    assignment_timestamp int64 0+ tag=0@0+ default=0 ignorable
"""

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.assignment_epoch: int = assignment_epoch
        self.assignment_timestamp: int = assignment_timestamp
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupTargetAssignmentMemberKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "ShareGroupTargetAssignmentMemberKey"
    KIND = "coordinator-key"
    API_KEY = 13
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareGroupTargetAssignmentMemberKey coordinator-key api=13 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("topic_partitions",)

    NAME = "ShareGroupTargetAssignmentMemberValue"
    KIND = "coordinator-value"
    API_KEY = 13
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupTargetAssignmentMemberValue coordinator-value api=13 versions=0 flexible=0+
    topic_partitions []TopicPartition 0+
        topic_id uuid 0+
        partitions []int32 0+
"""

    class TopicPartition(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = [] if topic_partitions is FRESH else topic_partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupCurrentMemberAssignmentKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "ShareGroupCurrentMemberAssignmentKey"
    KIND = "coordinator-key"
    API_KEY = 14
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareGroupCurrentMemberAssignmentKey coordinator-key api=14 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions")

    NAME = "ShareGroupCurrentMemberAssignmentValue"
    KIND = "coordinator-value"
    API_KEY = 14
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupCurrentMemberAssignmentValue coordinator-value api=14 versions=0 flexible=0+
    member_epoch int32 0+
    previous_member_epoch int32 0+
    state int8 0+
    assigned_partitions []TopicPartitions 0+
    struct TopicPartitions 0+
        topic_id uuid 0+
        partitions []int32 0+
"""

    class TopicPartitions(Struct):
        __slots__ = ("topic_id", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.member_epoch: int = member_epoch
        self.previous_member_epoch: int = previous_member_epoch
        self.state: int = state
        self.assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = [] if assigned_partitions is FRESH else assigned_partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupStatePartitionMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "ShareGroupStatePartitionMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 15
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ShareGroupStatePartitionMetadataKey coordinator-key api=15 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class ShareGroupStatePartitionMetadataValue(Message):
    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics")

    NAME = "ShareGroupStatePartitionMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 15
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ShareGroupStatePartitionMetadataValue coordinator-value api=15 versions=0 flexible=0+
    initializing_topics []TopicPartitionsInfo 0+
    initialized_topics []TopicPartitionsInfo 0+
    deleting_topics []TopicInfo 0+
    struct TopicPartitionsInfo 0+
        topic_id uuid 0+
        topic_name string 0+
        partitions []int32 0+
    struct TopicInfo 0+
        topic_id uuid 0+
        topic_name string 0+
"""

    class TopicPartitionsInfo(Struct):
        __slots__ = ("topic_id", "topic_name", "partitions")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            topic_name: str = "",
            partitions: list[int] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.topic_name: str = topic_name
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicInfo(Struct):
        __slots__ = ("topic_id", "topic_name")

        def __init__(
            self,
            *,
            topic_id: bytes = ZERO,
            topic_name: str = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.topic_id: bytes = topic_id
            self.topic_name: str = topic_name
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = FRESH,
        initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = FRESH,
        deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = [] if initializing_topics is FRESH else initializing_topics
        self.initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = [] if initialized_topics is FRESH else initialized_topics
        self.deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = [] if deleting_topics is FRESH else deleting_topics
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupRegularExpressionKey(Message):
    __slots__ = ("group_id", "regular_expression")

    NAME = "ConsumerGroupRegularExpressionKey"
    KIND = "coordinator-key"
    API_KEY = 16
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
ConsumerGroupRegularExpressionKey coordinator-key api=16 versions=0 flexible=none
    group_id string 0
    regular_expression string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        regular_expression: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.regular_expression: str = regular_expression
        self.unknown_tagged_fields = unknown_tagged_fields


class ConsumerGroupRegularExpressionValue(Message):
    __slots__ = ("topics", "version", "timestamp")

    NAME = "ConsumerGroupRegularExpressionValue"
    KIND = "coordinator-value"
    API_KEY = 16
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConsumerGroupRegularExpressionValue coordinator-value api=16 versions=0 flexible=0+
    topics []string 0+
    version int64 0+
    timestamp int64 0+
"""

    def __init__(
        self,
        *,
        topics: list[str] = FRESH,
        version: int = 0,
        timestamp: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[str] = [] if topics is FRESH else topics
        self.version: int = version
        self.timestamp: int = timestamp
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "StreamsGroupMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 17
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
StreamsGroupMetadataKey coordinator-key api=17 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash", "validated_topology_epoch", "last_assignment_configs")

    NAME = "StreamsGroupMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 17
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupMetadataValue coordinator-value api=17 versions=0 flexible=0+
    epoch int32 0+
    metadata_hash int64 0+
    validated_topology_epoch int32 0+ tag=0@0+ default=-1
    last_assignment_configs []LastAssignmentConfig 0+ nullable=0+ tag=1@0+
    struct LastAssignmentConfig 0+
        key string 0+
        value string 0+
"""

    class LastAssignmentConfig(Struct):
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

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        validated_topology_epoch: int = -1,
        last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.epoch: int = epoch
        self.metadata_hash: int = metadata_hash
        self.validated_topology_epoch: int = validated_topology_epoch
        self.last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = [] if last_assignment_configs is FRESH else last_assignment_configs
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupMemberMetadataKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "StreamsGroupMemberMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 19
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
StreamsGroupMemberMetadataKey coordinator-key api=19 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupMemberMetadataValue(Message):
    __slots__ = ("instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch", "process_id", "user_endpoint", "client_tags")

    NAME = "StreamsGroupMemberMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 19
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupMemberMetadataValue coordinator-value api=19 versions=0 flexible=0+
    instance_id string 0+ nullable=0+
    rack_id string 0+ nullable=0+
    client_id string 0+
    client_host string 0+
    rebalance_timeout_ms int32 0+ default=-1
    topology_epoch int32 0+
    process_id string 0+
    user_endpoint Endpoint 0+ nullable=0+ default=null
    client_tags []KeyValue 0+
    struct Endpoint 0+
        host string 0+
        port uint16 0+
    struct KeyValue 0+
        key string 0+
        value string 0+
"""

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

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout_ms: int = -1,
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = None,
        client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.topology_epoch: int = topology_epoch
        self.process_id: str = process_id
        self.user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = user_endpoint
        self.client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = [] if client_tags is FRESH else client_tags
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupTargetAssignmentMetadataKey(Message):
    __slots__ = ("group_id",)

    NAME = "StreamsGroupTargetAssignmentMetadataKey"
    KIND = "coordinator-key"
    API_KEY = 20
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
StreamsGroupTargetAssignmentMetadataKey coordinator-key api=20 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp")

    NAME = "StreamsGroupTargetAssignmentMetadataValue"
    KIND = "coordinator-value"
    API_KEY = 20
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupTargetAssignmentMetadataValue coordinator-value api=20 versions=0 flexible=0+
    assignment_epoch int32 0+
    assignment_timestamp int64 0+ tag=0@0+ default=0 ignorable
"""

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.assignment_epoch: int = assignment_epoch
        self.assignment_timestamp: int = assignment_timestamp
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupTargetAssignmentMemberKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "StreamsGroupTargetAssignmentMemberKey"
    KIND = "coordinator-key"
    API_KEY = 21
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
StreamsGroupTargetAssignmentMemberKey coordinator-key api=21 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")

    NAME = "StreamsGroupTargetAssignmentMemberValue"
    KIND = "coordinator-value"
    API_KEY = 21
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupTargetAssignmentMemberValue coordinator-value api=21 versions=0 flexible=0+
    active_tasks []TaskIds 0+
    standby_tasks []TaskIds 0+
    warmup_tasks []TaskIds 0+
    struct TaskIds 0+
        subtopology_id string 0+
        partitions []int32 0+
"""

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
        active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = FRESH,
        standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = FRESH,
        warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = [] if active_tasks is FRESH else active_tasks
        self.standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = [] if standby_tasks is FRESH else standby_tasks
        self.warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = [] if warmup_tasks is FRESH else warmup_tasks
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupCurrentMemberAssignmentKey(Message):
    __slots__ = ("group_id", "member_id")

    NAME = "StreamsGroupCurrentMemberAssignmentKey"
    KIND = "coordinator-key"
    API_KEY = 22
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
StreamsGroupCurrentMemberAssignmentKey coordinator-key api=22 versions=0 flexible=none
    group_id string 0
    member_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "active_tasks", "standby_tasks", "warmup_tasks", "active_tasks_pending_revocation", "standby_tasks_pending_revocation", "warmup_tasks_pending_revocation")

    NAME = "StreamsGroupCurrentMemberAssignmentValue"
    KIND = "coordinator-value"
    API_KEY = 22
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupCurrentMemberAssignmentValue coordinator-value api=22 versions=0 flexible=0+
    member_epoch int32 0+
    previous_member_epoch int32 0+
    state int8 0+
    active_tasks []TaskIds 0+
    standby_tasks []TaskIds 0+
    warmup_tasks []TaskIds 0+
    active_tasks_pending_revocation []TaskIds 0+
    standby_tasks_pending_revocation []TaskIds 0+
    warmup_tasks_pending_revocation []TaskIds 0+
    struct TaskIds 0+
        subtopology_id string 0+
        partitions []int32 0+
        assignment_epochs []int32 0+ nullable=0+ tag=0@0+
"""

    class TaskIds(Struct):
        __slots__ = ("subtopology_id", "partitions", "assignment_epochs")

        def __init__(
            self,
            *,
            subtopology_id: str = "",
            partitions: list[int] = FRESH,
            assignment_epochs: list[int] | None = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.subtopology_id: str = subtopology_id
            self.partitions: list[int] = [] if partitions is FRESH else partitions
            self.assignment_epochs: list[int] | None = [] if assignment_epochs is FRESH else assignment_epochs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = FRESH,
        standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = FRESH,
        warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = FRESH,
        active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = FRESH,
        standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = FRESH,
        warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.member_epoch: int = member_epoch
        self.previous_member_epoch: int = previous_member_epoch
        self.state: int = state
        self.active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = [] if active_tasks is FRESH else active_tasks
        self.standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = [] if standby_tasks is FRESH else standby_tasks
        self.warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = [] if warmup_tasks is FRESH else warmup_tasks
        self.active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = [] if active_tasks_pending_revocation is FRESH else active_tasks_pending_revocation
        self.standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = [] if standby_tasks_pending_revocation is FRESH else standby_tasks_pending_revocation
        self.warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = [] if warmup_tasks_pending_revocation is FRESH else warmup_tasks_pending_revocation
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupTopologyKey(Message):
    __slots__ = ("group_id",)

    NAME = "StreamsGroupTopologyKey"
    KIND = "coordinator-key"
    API_KEY = 23
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = None
    SCHEMA = """\
StreamsGroupTopologyKey coordinator-key api=23 versions=0 flexible=none
    group_id string 0
"""

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.unknown_tagged_fields = unknown_tagged_fields


class StreamsGroupTopologyValue(Message):
    __slots__ = ("epoch", "subtopologies")

    NAME = "StreamsGroupTopologyValue"
    KIND = "coordinator-value"
    API_KEY = 23
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
StreamsGroupTopologyValue coordinator-value api=23 versions=0 flexible=0+
    epoch int32 0+
    subtopologies []Subtopology 0+
        subtopology_id string 0+
        source_topics []string 0+
        source_topic_regex []string 0+
        state_changelog_topics []TopicInfo 0+
        repartition_sink_topics []string 0+
        repartition_source_topics []TopicInfo 0+
        copartition_groups []CopartitionGroup 0+
            source_topics []int16 0+
            source_topic_regex []int16 0+
            repartition_source_topics []int16 0+
    struct TopicConfig 0+
        key string 0+
        value string 0+
    struct TopicInfo 0+
        name string 0+
        partitions int32 0+
        replication_factor int16 0+
        topic_configs []TopicConfig 0+
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
            state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = FRESH,
            repartition_sink_topics: list[str] = FRESH,
            repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = FRESH,
            copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.subtopology_id: str = subtopology_id
            self.source_topics: list[str] = [] if source_topics is FRESH else source_topics
            self.source_topic_regex: list[str] = [] if source_topic_regex is FRESH else source_topic_regex
            self.state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = [] if state_changelog_topics is FRESH else state_changelog_topics
            self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is FRESH else repartition_sink_topics
            self.repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = [] if repartition_source_topics is FRESH else repartition_source_topics
            self.copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = [] if copartition_groups is FRESH else copartition_groups
            self.unknown_tagged_fields = unknown_tagged_fields

    class TopicConfig(Struct):
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
            topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = FRESH,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.partitions: int = partitions
            self.replication_factor: int = replication_factor
            self.topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = [] if topic_configs is FRESH else topic_configs
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[StreamsGroupTopologyValue.Subtopology] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.epoch: int = epoch
        self.subtopologies: list[StreamsGroupTopologyValue.Subtopology] = [] if subtopologies is FRESH else subtopologies
        self.unknown_tagged_fields = unknown_tagged_fields
