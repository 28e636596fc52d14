"""The values of the cluster's state: brokers, controllers, topics and their partitions.

Each is built from the record that declares it, and can be converted back to an equal one. All but `Topic` are
frozen: a change creates a new value, so code that holds a value never sees it change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.controller.records import (
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    ELIGIBLE_LEADER_REPLICAS_LEVEL,
)
from ottla.wire import uuid
from ottla.wire.messages.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

NO_LEADER = -1
NO_LEADER_CHANGE = -2

RECOVERED = 0
RECOVERING = 1
NO_RECOVERY_CHANGE = -1


class InvalidMetadata(ValueError):
    """An impossible record: it refers to something unknown, or contradicts the current state."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of one listener of a node. `security_protocol` is Kafka's code (0 = PLAINTEXT)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


VersionRange = tuple[int, int]
"""The lowest and the highest level of a feature that a node supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker's registration, and its state for the controller."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: dict[str, VersionRange] = field(default_factory=dict)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        cordoned = record.cordoned_log_dirs
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=tuple(record.log_dirs),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
        )

    def to_record(self, metadata_version: int) -> RegisterBrokerRecord:
        has_directories = metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL
        cordoned = self.cordoned_directories if metadata_version >= CORDONED_DIRECTORIES_LEVEL else None
        return RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                RegisterBrokerRecord.BrokerEndpoint(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in self.endpoints
            ],
            features=[
                RegisterBrokerRecord.BrokerFeature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in self.features.items()
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.directories) if has_directories else [],
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in sync: neither fenced nor shutting down."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def has_uncordoned_directory(self) -> bool:
        """Whether new replicas may be placed on it."""
        if not self.directories or self.cordoned_directories is None:
            return True
        return not set(self.directories) <= set(self.cordoned_directories)

    @property
    def default_directory(self) -> bytes:
        """The directory to store for a replica that was just placed here."""
        if not self.directories:
            return uuid.DIRECTORY_MIGRATING
        return self.directories[0] if len(self.directories) == 1 else uuid.DIRECTORY_UNASSIGNED

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.endpoints if e.name == listener), None)

    def has_online_directory(self, directory: bytes) -> bool:
        """Whether a replica in `directory` is available: online, or not known to be offline."""
        if directory in (uuid.DIRECTORY_UNASSIGNED, uuid.DIRECTORY_MIGRATING):
            return True
        if directory == uuid.DIRECTORY_LOST:
            return False
        return directory in self.directories or not self.directories


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A controller's registration with the active one."""

    id: int
    incarnation_id: bytes
    zk_migration_ready: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    features: dict[str, VersionRange] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
        )

    def to_record(self) -> RegisterControllerRecord:
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[
                RegisterControllerRecord.ControllerEndpoint(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in self.endpoints
            ],
            features=[
                RegisterControllerRecord.ControllerFeature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in self.features.items()
            ],
        )


class PartitionRegistration(NamedTuple):
    """One partition: replicas, leader, ISR and epochs.

    `directories` corresponds to `replicas`. `elr` are the eligible leader replicas: out of sync, yet known to
    have all committed records. A tuple, since fencing a broker creates thousands in one turn.
    """

    replicas: tuple[int, ...]
    directories: tuple[bytes, ...]
    isr: tuple[int, ...]
    leader: int
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        return cls(
            replicas=tuple(record.replicas),
            directories=_directories(record.directories, len(record.replicas)),
            isr=tuple(record.isr),
            leader=record.leader,
            removing=tuple(record.removing_replicas),
            adding=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        )

    def to_record(self, topic_id: bytes, partition: int, metadata_version: int) -> PartitionRecord:
        has_elr = metadata_version >= ELIGIBLE_LEADER_REPLICAS_LEVEL
        return PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories) if metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL else [],
            eligible_leader_replicas=list(self.elr) if has_elr and self.elr else None,
            last_known_elr=list(self.last_known_elr) if has_elr and self.last_known_elr else None,
        )

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """Apply `change`: every change increments the partition epoch, one with a leader also the leader
        epoch.
        """
        replicas = self.replicas if change.replicas is None else tuple(change.replicas)
        directories = self.directories
        if change.directories is not None:
            directories = _directories(change.directories, len(replicas))
        elif change.replicas is not None:
            is_unknown = set(directories) == {uuid.DIRECTORY_MIGRATING}
            directories = _directories(None if is_unknown else directories, len(replicas))
        elr, last_known = change.eligible_leader_replicas, change.last_known_elr
        names_leader = change.leader != NO_LEADER_CHANGE
        recovery = change.leader_recovery_state
        return PartitionRegistration(
            replicas=replicas,
            directories=directories,
            isr=self.isr if change.isr is None else tuple(change.isr),
            leader=change.leader if names_leader else self.leader,
            removing=self.removing if change.removing_replicas is None else tuple(change.removing_replicas),
            adding=self.adding if change.adding_replicas is None else tuple(change.adding_replicas),
            elr=self.elr if elr is None else tuple(elr),
            last_known_elr=self.last_known_elr if last_known is None else tuple(last_known),
            leader_recovery_state=self.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
            leader_epoch=self.leader_epoch + names_leader,
            partition_epoch=self.partition_epoch + 1,
        )

    def without_elr(self) -> PartitionRegistration:
        """Apply ClearElrRecord."""
        return self._replace(elr=(), last_known_elr=(), partition_epoch=self.partition_epoch + 1)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing or self.adding)

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory_of(self, replica: int) -> bytes:
        return self.directories[self.replicas.index(replica)]


@dataclass(slots=True)
class Topic:
    """A topic and its partitions. Only replay changes the dictionary."""

    name: str
    id: bytes
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)

    def copy(self) -> Topic:
        return Topic(self.name, self.id, self.partitions.copy())


def _directories(given: Sequence[bytes] | None, count: int) -> tuple[bytes, ...]:
    """The directories of `count` replicas; records from before directories were introduced omit them."""
    if not given:
        return (uuid.DIRECTORY_MIGRATING,) * count
    if len(given) != count:
        raise InvalidMetadata(f"A partition has {count} replicas and {len(given)} directories.")
    return tuple(given)
