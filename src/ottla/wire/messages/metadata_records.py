# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class RegisterBrokerRecord(Message):
    __slots__ = ("broker_id", "is_migrating_zk_broker", "incarnation_id", "broker_epoch", "end_points", "features", "rack", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs")

    NAME = "RegisterBrokerRecord"
    KIND = "metadata"
    API_KEY = 0
    VERSIONS = range(0, 5)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RegisterBrokerRecord metadata api=0 versions=0-4 flexible=0+
    broker_id int32 0+ is=brokerId
    is_migrating_zk_broker bool 2+ default=false
    incarnation_id uuid 0+
    broker_epoch int64 0+
    end_points []BrokerEndpoint 0+
        name string 0+ key
        host string 0+
        port uint16 0+
        security_protocol int16 0+
    features []BrokerFeature 0+
        name string 0+ key
        min_supported_version int16 0+
        max_supported_version int16 0+
    rack string 0+ nullable=0+
    fenced bool 0+ default=true
    in_controlled_shutdown bool 1+ default=false
    log_dirs []uuid 3+ tag=0@3+
    cordoned_log_dirs []uuid 4+ nullable=4+ tag=1@4+ default=null
"""

    class BrokerEndpoint(Struct):
        __slots__ = ("name", "host", "port", "security_protocol")

        def __init__(
            self,
            *,
            name: str = "",
            host: str = "",
            port: int = 0,
            security_protocol: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.host: str = host
            self.port: int = port
            self.security_protocol: int = security_protocol
            self.unknown_tagged_fields = unknown_tagged_fields

    class BrokerFeature(Struct):
        __slots__ = ("name", "min_supported_version", "max_supported_version")

        def __init__(
            self,
            *,
            name: str = "",
            min_supported_version: int = 0,
            max_supported_version: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.min_supported_version: int = min_supported_version
            self.max_supported_version: int = max_supported_version
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: bytes = ZERO,
        broker_epoch: int = 0,
        end_points: list[RegisterBrokerRecord.BrokerEndpoint] = FRESH,
        features: list[RegisterBrokerRecord.BrokerFeature] = FRESH,
        rack: str | None = "",
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: list[bytes] = FRESH,
        cordoned_log_dirs: list[bytes] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.is_migrating_zk_broker: bool = is_migrating_zk_broker
        self.incarnation_id: bytes = incarnation_id
        self.broker_epoch: int = broker_epoch
        self.end_points: list[RegisterBrokerRecord.BrokerEndpoint] = [] if end_points is FRESH else end_points
        self.features: list[RegisterBrokerRecord.BrokerFeature] = [] if features is FRESH else features
        self.rack: str | None = rack
        self.fenced: bool = fenced
        self.in_controlled_shutdown: bool = in_controlled_shutdown
        self.log_dirs: list[bytes] = [] if log_dirs is FRESH else log_dirs
        self.cordoned_log_dirs: list[bytes] | None = cordoned_log_dirs
        self.unknown_tagged_fields = unknown_tagged_fields


class UnregisterBrokerRecord(Message):
    __slots__ = ("broker_id", "broker_epoch")

    NAME = "UnregisterBrokerRecord"
    KIND = "metadata"
    API_KEY = 1
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UnregisterBrokerRecord metadata api=1 versions=0 flexible=0+
    broker_id int32 0+ is=brokerId
    broker_epoch int64 0+
"""

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.unknown_tagged_fields = unknown_tagged_fields


class TopicRecord(Message):
    __slots__ = ("name", "topic_id")

    NAME = "TopicRecord"
    KIND = "metadata"
    API_KEY = 2
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
TopicRecord metadata api=2 versions=0 flexible=0+
    name string 0+ is=topicName
    topic_id uuid 0+
"""

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: bytes = topic_id
        self.unknown_tagged_fields = unknown_tagged_fields


class PartitionRecord(Message):
    __slots__ = ("partition_id", "topic_id", "replicas", "isr", "removing_replicas", "adding_replicas", "leader", "leader_recovery_state", "leader_epoch", "partition_epoch", "directories", "eligible_leader_replicas", "last_known_elr")

    NAME = "PartitionRecord"
    KIND = "metadata"
    API_KEY = 3
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
PartitionRecord metadata api=3 versions=0-2 flexible=0+
    partition_id int32 0+ default=-1
    topic_id uuid 0+
    replicas []int32 0+ is=brokerId
    isr []int32 0+
    removing_replicas []int32 0+ is=brokerId
    adding_replicas []int32 0+ is=brokerId
    leader int32 0+ default=-1 is=brokerId
    leader_recovery_state int8 0+ tag=0@0+ default=0
    leader_epoch int32 0+ default=-1
    partition_epoch int32 0+ default=-1
    directories []uuid 1+
    eligible_leader_replicas []int32 2+ nullable=2+ tag=1@2+ default=null is=brokerId
    last_known_elr []int32 2+ nullable=2+ tag=2@2+ default=null is=brokerId
"""

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: bytes = ZERO,
        replicas: list[int] = FRESH,
        isr: list[int] = FRESH,
        removing_replicas: list[int] = FRESH,
        adding_replicas: list[int] = FRESH,
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: list[bytes] = FRESH,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.partition_id: int = partition_id
        self.topic_id: bytes = topic_id
        self.replicas: list[int] = [] if replicas is FRESH else replicas
        self.isr: list[int] = [] if isr is FRESH else isr
        self.removing_replicas: list[int] = [] if removing_replicas is FRESH else removing_replicas
        self.adding_replicas: list[int] = [] if adding_replicas is FRESH else adding_replicas
        self.leader: int = leader
        self.leader_recovery_state: int = leader_recovery_state
        self.leader_epoch: int = leader_epoch
        self.partition_epoch: int = partition_epoch
        self.directories: list[bytes] = [] if directories is FRESH else directories
        self.eligible_leader_replicas: list[int] | None = eligible_leader_replicas
        self.last_known_elr: list[int] | None = last_known_elr
        self.unknown_tagged_fields = unknown_tagged_fields


class ConfigRecord(Message):
    __slots__ = ("resource_type", "resource_name", "name", "value")

    NAME = "ConfigRecord"
    KIND = "metadata"
    API_KEY = 4
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ConfigRecord metadata api=4 versions=0 flexible=0+
    resource_type int8 0+
    resource_name string 0+
    name string 0+
    value string 0+ nullable=0+
"""

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.name: str = name
        self.value: str | None = value
        self.unknown_tagged_fields = unknown_tagged_fields


class PartitionChangeRecord(Message):
    __slots__ = ("partition_id", "topic_id", "isr", "leader", "replicas", "removing_replicas", "adding_replicas", "leader_recovery_state", "directories", "eligible_leader_replicas", "last_known_elr")

    NAME = "PartitionChangeRecord"
    KIND = "metadata"
    API_KEY = 5
    VERSIONS = range(0, 3)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
PartitionChangeRecord metadata api=5 versions=0-2 flexible=0+
    partition_id int32 0+ default=-1
    topic_id uuid 0+
    isr []int32 0+ nullable=0+ tag=0@0+ default=null is=brokerId
    leader int32 0+ tag=1@0+ default=-2 is=brokerId
    replicas []int32 0+ nullable=0+ tag=2@0+ default=null is=brokerId
    removing_replicas []int32 0+ nullable=0+ tag=3@0+ default=null is=brokerId
    adding_replicas []int32 0+ nullable=0+ tag=4@0+ default=null is=brokerId
    leader_recovery_state int8 0+ tag=5@0+ default=-1
    directories []uuid 1+ nullable=1+ tag=8@1+ default=null
    eligible_leader_replicas []int32 2+ nullable=2+ tag=6@2+ default=null is=brokerId
    last_known_elr []int32 2+ nullable=2+ tag=7@2+ default=null is=brokerId
"""

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: bytes = ZERO,
        isr: list[int] | None = None,
        leader: int = -2,
        replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        leader_recovery_state: int = -1,
        directories: list[bytes] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.partition_id: int = partition_id
        self.topic_id: bytes = topic_id
        self.isr: list[int] | None = isr
        self.leader: int = leader
        self.replicas: list[int] | None = replicas
        self.removing_replicas: list[int] | None = removing_replicas
        self.adding_replicas: list[int] | None = adding_replicas
        self.leader_recovery_state: int = leader_recovery_state
        self.directories: list[bytes] | None = directories
        self.eligible_leader_replicas: list[int] | None = eligible_leader_replicas
        self.last_known_elr: list[int] | None = last_known_elr
        self.unknown_tagged_fields = unknown_tagged_fields


class FenceBrokerRecord(Message):
    __slots__ = ("id", "epoch")

    NAME = "FenceBrokerRecord"
    KIND = "metadata"
    API_KEY = 7
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
FenceBrokerRecord metadata api=7 versions=0 flexible=0+
    id int32 0+ is=brokerId
    epoch int64 0+
"""

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.id: int = id
        self.epoch: int = epoch
        self.unknown_tagged_fields = unknown_tagged_fields


class UnfenceBrokerRecord(Message):
    __slots__ = ("id", "epoch")

    NAME = "UnfenceBrokerRecord"
    KIND = "metadata"
    API_KEY = 8
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UnfenceBrokerRecord metadata api=8 versions=0 flexible=0+
    id int32 0+ is=brokerId
    epoch int64 0+
"""

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.id: int = id
        self.epoch: int = epoch
        self.unknown_tagged_fields = unknown_tagged_fields


class RemoveTopicRecord(Message):
    __slots__ = ("topic_id",)

    NAME = "RemoveTopicRecord"
    KIND = "metadata"
    API_KEY = 9
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemoveTopicRecord metadata api=9 versions=0 flexible=0+
    topic_id uuid 0+
"""

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.unknown_tagged_fields = unknown_tagged_fields


class DelegationTokenRecord(Message):
    __slots__ = ("owner", "requester", "renewers", "issue_timestamp", "max_timestamp", "expiration_timestamp", "token_id")

    NAME = "DelegationTokenRecord"
    KIND = "metadata"
    API_KEY = 10
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
DelegationTokenRecord metadata api=10 versions=0 flexible=0+
    owner string 0+
    requester string 0+
    renewers []string 0+
    issue_timestamp int64 0+
    max_timestamp int64 0+
    expiration_timestamp int64 0+
    token_id string 0+
"""

    def __init__(
        self,
        *,
        owner: str = "",
        requester: str = "",
        renewers: list[str] = FRESH,
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.owner: str = owner
        self.requester: str = requester
        self.renewers: list[str] = [] if renewers is FRESH else renewers
        self.issue_timestamp: int = issue_timestamp
        self.max_timestamp: int = max_timestamp
        self.expiration_timestamp: int = expiration_timestamp
        self.token_id: str = token_id
        self.unknown_tagged_fields = unknown_tagged_fields


class UserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism", "salt", "stored_key", "server_key", "iterations")

    NAME = "UserScramCredentialRecord"
    KIND = "metadata"
    API_KEY = 11
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
UserScramCredentialRecord metadata api=11 versions=0 flexible=0+
    name string 0+
    mechanism int8 0+
    salt bytes 0+
    stored_key bytes 0+
    server_key bytes 0+
    iterations int32 0+
"""

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        salt: bytes = b"",
        stored_key: bytes = b"",
        server_key: bytes = b"",
        iterations: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.mechanism: int = mechanism
        self.salt: bytes = salt
        self.stored_key: bytes = stored_key
        self.server_key: bytes = server_key
        self.iterations: int = iterations
        self.unknown_tagged_fields = unknown_tagged_fields


class FeatureLevelRecord(Message):
    __slots__ = ("name", "feature_level")

    NAME = "FeatureLevelRecord"
    KIND = "metadata"
    API_KEY = 12
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
FeatureLevelRecord metadata api=12 versions=0 flexible=0+
    name string 0+
    feature_level int16 0+
"""

    def __init__(
        self,
        *,
        name: str = "",
        feature_level: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.feature_level: int = feature_level
        self.unknown_tagged_fields = unknown_tagged_fields


class ClientQuotaRecord(Message):
    __slots__ = ("entity", "key", "value", "remove")

    NAME = "ClientQuotaRecord"
    KIND = "metadata"
    API_KEY = 14
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ClientQuotaRecord metadata api=14 versions=0 flexible=0+
    entity []EntityData 0+
        entity_type string 0+
        entity_name string 0+ nullable=0+
    key string 0+
    value float64 0+
    remove bool 0+
"""

    class EntityData(Struct):
        __slots__ = ("entity_type", "entity_name")

        def __init__(
            self,
            *,
            entity_type: str = "",
            entity_name: str | None = "",
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.entity_type: str = entity_type
            self.entity_name: str | None = entity_name
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        entity: list[ClientQuotaRecord.EntityData] = FRESH,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.entity: list[ClientQuotaRecord.EntityData] = [] if entity is FRESH else entity
        self.key: str = key
        self.value: float = value
        self.remove: bool = remove
        self.unknown_tagged_fields = unknown_tagged_fields


class ProducerIdsRecord(Message):
    __slots__ = ("broker_id", "broker_epoch", "next_producer_id")

    NAME = "ProducerIdsRecord"
    KIND = "metadata"
    API_KEY = 15
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ProducerIdsRecord metadata api=15 versions=0 flexible=0+
    broker_id int32 0+ is=brokerId
    broker_epoch int64 0+ default=-1
    next_producer_id int64 0+
"""

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        next_producer_id: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.next_producer_id: int = next_producer_id
        self.unknown_tagged_fields = unknown_tagged_fields


class BrokerRegistrationChangeRecord(Message):
    __slots__ = ("broker_id", "broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs")

    NAME = "BrokerRegistrationChangeRecord"
    KIND = "metadata"
    API_KEY = 17
    VERSIONS = range(0, 4)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
BrokerRegistrationChangeRecord metadata api=17 versions=0-3 flexible=0+
    broker_id int32 0+ is=brokerId
    broker_epoch int64 0+
    fenced int8 0+ tag=0@0+
    in_controlled_shutdown int8 1+ tag=1@1+
    log_dirs []uuid 2+ tag=2@2+
    cordoned_log_dirs []uuid 3+ nullable=3+ tag=3@3+ default=null
"""

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: list[bytes] = FRESH,
        cordoned_log_dirs: list[bytes] | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.fenced: int = fenced
        self.in_controlled_shutdown: int = in_controlled_shutdown
        self.log_dirs: list[bytes] = [] if log_dirs is FRESH else log_dirs
        self.cordoned_log_dirs: list[bytes] | None = cordoned_log_dirs
        self.unknown_tagged_fields = unknown_tagged_fields


class AccessControlEntryRecord(Message):
    __slots__ = ("id", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")

    NAME = "AccessControlEntryRecord"
    KIND = "metadata"
    API_KEY = 18
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AccessControlEntryRecord metadata api=18 versions=0 flexible=0+
    id uuid 0+
    resource_type int8 0+
    resource_name string 0+
    pattern_type int8 0+
    principal string 0+
    host string 0+
    operation int8 0+
    permission_type int8 0+
"""

    def __init__(
        self,
        *,
        id: bytes = ZERO,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 0,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.id: bytes = id
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.pattern_type: int = pattern_type
        self.principal: str = principal
        self.host: str = host
        self.operation: int = operation
        self.permission_type: int = permission_type
        self.unknown_tagged_fields = unknown_tagged_fields


class RemoveAccessControlEntryRecord(Message):
    __slots__ = ("id",)

    NAME = "RemoveAccessControlEntryRecord"
    KIND = "metadata"
    API_KEY = 19
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemoveAccessControlEntryRecord metadata api=19 versions=0 flexible=0+
    id uuid 0+
"""

    def __init__(
        self,
        *,
        id: bytes = ZERO,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.id: bytes = id
        self.unknown_tagged_fields = unknown_tagged_fields


class NoOpRecord(Message):
    __slots__ = ()

    NAME = "NoOpRecord"
    KIND = "metadata"
    API_KEY = 20
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
NoOpRecord metadata api=20 versions=0 flexible=0+
"""

    def __init__(
        self,
        *,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.unknown_tagged_fields = unknown_tagged_fields


class ZkMigrationStateRecord(Message):
    __slots__ = ("zk_migration_state",)

    NAME = "ZkMigrationStateRecord"
    KIND = "metadata"
    API_KEY = 21
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ZkMigrationStateRecord metadata api=21 versions=0 flexible=0+
    zk_migration_state int8 0+
"""

    def __init__(
        self,
        *,
        zk_migration_state: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.zk_migration_state: int = zk_migration_state
        self.unknown_tagged_fields = unknown_tagged_fields


class RemoveUserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism")

    NAME = "RemoveUserScramCredentialRecord"
    KIND = "metadata"
    API_KEY = 22
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemoveUserScramCredentialRecord metadata api=22 versions=0 flexible=0+
    name string 0+
    mechanism int8 0+
"""

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.mechanism: int = mechanism
        self.unknown_tagged_fields = unknown_tagged_fields


class BeginTransactionRecord(Message):
    __slots__ = ("name",)

    NAME = "BeginTransactionRecord"
    KIND = "metadata"
    API_KEY = 23
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
BeginTransactionRecord metadata api=23 versions=0 flexible=0+
    name string 0+ nullable=0+ tag=0@0+ default=null
"""

    def __init__(
        self,
        *,
        name: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str | None = name
        self.unknown_tagged_fields = unknown_tagged_fields


class EndTransactionRecord(Message):
    __slots__ = ()

    NAME = "EndTransactionRecord"
    KIND = "metadata"
    API_KEY = 24
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
EndTransactionRecord metadata api=24 versions=0 flexible=0+
"""

    def __init__(
        self,
        *,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.unknown_tagged_fields = unknown_tagged_fields


class AbortTransactionRecord(Message):
    __slots__ = ("reason",)

    NAME = "AbortTransactionRecord"
    KIND = "metadata"
    API_KEY = 25
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
AbortTransactionRecord metadata api=25 versions=0 flexible=0+
    reason string 0+ nullable=0+ tag=0@0+ default=null
"""

    def __init__(
        self,
        *,
        reason: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.reason: str | None = reason
        self.unknown_tagged_fields = unknown_tagged_fields


class RemoveDelegationTokenRecord(Message):
    __slots__ = ("token_id",)

    NAME = "RemoveDelegationTokenRecord"
    KIND = "metadata"
    API_KEY = 26
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RemoveDelegationTokenRecord metadata api=26 versions=0 flexible=0+
    token_id string 0+
"""

    def __init__(
        self,
        *,
        token_id: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.token_id: str = token_id
        self.unknown_tagged_fields = unknown_tagged_fields


class RegisterControllerRecord(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "end_points", "features")

    NAME = "RegisterControllerRecord"
    KIND = "metadata"
    API_KEY = 27
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
RegisterControllerRecord metadata api=27 versions=0 flexible=0+
    controller_id int32 0+
    incarnation_id uuid 0+
    zk_migration_ready bool 0+
    end_points []ControllerEndpoint 0+
        name string 0+ key
        host string 0+
        port uint16 0+
        security_protocol int16 0+
    features []ControllerFeature 0+
        name string 0+ key
        min_supported_version int16 0+
        max_supported_version int16 0+
"""

    class ControllerEndpoint(Struct):
        __slots__ = ("name", "host", "port", "security_protocol")

        def __init__(
            self,
            *,
            name: str = "",
            host: str = "",
            port: int = 0,
            security_protocol: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.host: str = host
            self.port: int = port
            self.security_protocol: int = security_protocol
            self.unknown_tagged_fields = unknown_tagged_fields

    class ControllerFeature(Struct):
        __slots__ = ("name", "min_supported_version", "max_supported_version")

        def __init__(
            self,
            *,
            name: str = "",
            min_supported_version: int = 0,
            max_supported_version: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.name: str = name
            self.min_supported_version: int = min_supported_version
            self.max_supported_version: int = max_supported_version
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO,
        zk_migration_ready: bool = False,
        end_points: list[RegisterControllerRecord.ControllerEndpoint] = FRESH,
        features: list[RegisterControllerRecord.ControllerFeature] = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.controller_id: int = controller_id
        self.incarnation_id: bytes = incarnation_id
        self.zk_migration_ready: bool = zk_migration_ready
        self.end_points: list[RegisterControllerRecord.ControllerEndpoint] = [] if end_points is FRESH else end_points
        self.features: list[RegisterControllerRecord.ControllerFeature] = [] if features is FRESH else features
        self.unknown_tagged_fields = unknown_tagged_fields


class ClearElrRecord(Message):
    __slots__ = ("topic_name",)

    NAME = "ClearElrRecord"
    KIND = "metadata"
    API_KEY = 28
    VERSIONS = range(0, 1)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
ClearElrRecord metadata api=28 versions=0 flexible=0+
    topic_name string 0+ is=topicName
"""

    def __init__(
        self,
        *,
        topic_name: str = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.unknown_tagged_fields = unknown_tagged_fields
