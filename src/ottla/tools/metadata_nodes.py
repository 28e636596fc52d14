"""The metadata of a cluster as a tree of named nodes, with the names and texts of Kafka's metadata shell.

A node is a text (a file) or a `Directory`. Directories create their children on demand, so that only visited
nodes of a large cluster cost time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from ottla.client.admin.acls import AclPermission, AclResourceType, PatternType
from ottla.client.admin.permissions import AclOperation
from ottla.config import ResourceType
from ottla.controller.feature_levels import metadata_version
from ottla.controller.image import METADATA_VERSION, ClusterImage, QuotaEntity
from ottla.controller.registrations import (
    RECOVERED,
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    PartitionRegistration,
    Topic,
    VersionRange,
)
from ottla.operations.java_order import double_text
from ottla.version import __version__
from ottla.wire import uuid
from ottla.wire.messages.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)

K = TypeVar("K")
V = TypeVar("V")

_FINALIZED = "finalized_"
_DEFAULT = "<default>"
_SCRAM_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_QUOTA_PARTS = {"client-id": "clientId", "ip": "ip", "user": "user"}
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SHORT_MAX = 2**15 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Directory:
    """A node with children."""

    list_names: Callable[[], Iterable[str]]
    child: Callable[[str], Node | None]

    def names(self) -> list[str]:
        return sorted(self.list_names())

    def children(self) -> Iterator[tuple[str, Node]]:
        for name in self.names():
            if (child := self.child(name)) is not None:
                yield name, child


Node = str | Directory


def root(image: ClusterImage) -> Directory:
    """The complete tree: /image is the metadata, /local this program."""
    return _fixed(
        {
            "image": lambda: _image(image),
            "local": lambda: _fixed({"commitId": lambda: "unknown", "version": lambda: __version__}),
        }
    )


def _fixed(makers: Mapping[str, Callable[[], Node]]) -> Directory:
    return Directory(lambda: makers, lambda name: makers[name]() if name in makers else None)


def _listing(
    entries: Mapping[K, V], show: Callable[[V], Node], name_of: Callable[[K], str], read: Callable[[str], K]
) -> Directory:
    """A directory of the entries of a table; `read` parses a name and may raise ValueError."""

    def child(name: str) -> Node | None:
        try:
            key = read(name)
        except ValueError:
            return None
        return show(entries[key]) if key in entries else None

    return Directory(lambda: map(name_of, entries), child)


def _image(image: ClusterImage) -> Directory:
    return _fixed(
        {
            "provenance": lambda: (
                f"offset {image.offset}, epoch {image.epoch}, time {_time_text(image.timestamp_ms)}"
            ),
            "features": lambda: _features(image.features),
            "cluster": lambda: _fixed(
                {
                    "brokers": lambda: _listing(image.brokers, broker_text, str, int),
                    "controllers": lambda: _listing(image.controllers, controller_text, str, int),
                }
            ),
            "topics": lambda: _fixed(
                {
                    "byName": lambda: _listing(image.topics_by_name, _topic, str, str),
                    "byId": lambda: _listing(image.topics, _topic, uuid.to_text, uuid.from_text),
                }
            ),
            "configs": lambda: _listing(image.configs, _texts, _resource_name, _resource),
            "clientQuotas": lambda: _listing(image.client_quotas, _quotas, entity_name, read_entity),
            "producerIds": lambda: _fixed({"nextProducerId": lambda: str(image.next_producer_id or -1)}),
            "acls": lambda: _fixed(
                {"byId": lambda: _listing(image.acls, acl_text, uuid.to_text, uuid.from_text)}
            ),
            "scram": lambda: _fixed(
                {
                    name: lambda mechanism=mechanism: _scram(image, mechanism)  # type: ignore[misc]
                    for name, mechanism in _SCRAM_MECHANISMS.items()
                }
            ),
            "delegationToken": lambda: _listing(image.delegation_tokens, _token_text, str, str),
        }
    )


def _time_text(time_ms: int) -> str:
    when = _EPOCH + timedelta(milliseconds=time_ms)
    fraction = f".{when.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{when:%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"


def _features(levels: Mapping[str, int]) -> Directory:
    finalized = {name: level for name, level in levels.items() if name != METADATA_VERSION}

    def child(name: str) -> Node | None:
        if name == "metadataVersion":
            level = levels.get(METADATA_VERSION)
            return "Optional.empty" if level is None else f"Optional[{metadata_version(level).name}]"
        if name.startswith(_FINALIZED):
            return str(finalized.get(name.removeprefix(_FINALIZED), 0))
        return None

    return Directory(lambda: ["metadataVersion", *(f"{_FINALIZED}{name}" for name in finalized)], child)


# Nodes of the cluster


def broker_text(broker: BrokerRegistration) -> str:
    return (
        f"BrokerRegistration(id={broker.id}, epoch={broker.epoch},"
        f" incarnationId={uuid.to_text(broker.incarnation_id)}, listeners={_endpoints(broker.endpoints)},"
        f" supportedFeatures={_supported(broker.features)}, rack={_optional(broker.rack)},"
        f" fenced={_bool(broker.fenced)}, inControlledShutdown={_bool(broker.in_controlled_shutdown)},"
        f" isMigratingZkBroker={_bool(broker.is_migrating_zk_broker)},"
        f" directories={_ids(broker.directories)},"
        f" cordonedDirectories={_cordoned(broker.cordoned_directories)})"
    )


def controller_text(controller: ControllerRegistration) -> str:
    return (
        f"ControllerRegistration(id={controller.id},"
        f" incarnationId={uuid.to_text(controller.incarnation_id)},"
        f" zkMigrationReady={_bool(controller.zk_migration_ready)},"
        f" listeners={_endpoints(controller.endpoints)},"
        f" supportedFeatures={_supported(controller.features)})"
    )


def _endpoints(endpoints: Iterable[Endpoint]) -> str:
    shown = (
        f"Endpoint(listenerName='{one.name}', securityProtocol={_SECURITY_PROTOCOLS[one.security_protocol]},"
        f" host='{one.host}', port={one.port})"
        for one in sorted(endpoints, key=lambda one: one.name)
    )
    return f"[{', '.join(shown)}]"


def _supported(features: Mapping[str, VersionRange]) -> str:
    shown = (f"{name}: {_range_text(*features[name])}" for name in sorted(features))
    return f"{{{', '.join(shown)}}}"


def _range_text(lowest: int, highest: int) -> str:
    if lowest == highest:
        return str(lowest)
    return f"{lowest}+" if highest == _SHORT_MAX else f"{lowest}-{highest}"


def _optional(text: str | None) -> str:
    return "Optional.empty" if text is None else f"Optional[{text}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _ids(ids: Iterable[bytes]) -> str:
    return f"[{', '.join(map(uuid.to_text, ids))}]"


def _cordoned(ids: Iterable[bytes] | None) -> str:
    return "null" if ids is None else _ids(ids)


# Topics


def _topic(topic: Topic) -> Directory:
    def child(name: str) -> Node | None:
        if name == "name":
            return topic.name
        if name == "id":
            return uuid.to_text(topic.id)
        return partitions.child(name)

    partitions = _listing(topic.partitions, partition_text, str, int)
    return Directory(lambda: ["name", "id", *partitions.list_names()], child)


def partition_text(partition: PartitionRegistration) -> str:
    recovery = "RECOVERED" if partition.leader_recovery_state == RECOVERED else "RECOVERING"
    return (
        f"PartitionRegistration(replicas={list(partition.replicas)},"
        f" directories={_ids(partition.directories)}, isr={list(partition.isr)},"
        f" removingReplicas={list(partition.removing)}, addingReplicas={list(partition.adding)},"
        f" elr={list(partition.elr)}, lastKnownElr={list(partition.last_known_elr)},"
        f" leader={partition.leader}, leaderRecoveryState={recovery},"
        f" leaderEpoch={partition.leader_epoch}, partitionEpoch={partition.partition_epoch})"
    )


# Settings and quotas


def _texts(texts: Mapping[str, str]) -> Directory:
    return _listing(texts, str, str, str)


def _resource_name(resource: tuple[int, str]) -> str:
    kind, name = resource
    return f"{ResourceType(kind).name}:{name}" if name else ResourceType(kind).name


def _resource(text: str) -> tuple[int, str]:
    kind, _, name = text.partition(":")
    if kind not in ResourceType.__members__:
        raise ValueError(text)
    return ResourceType[kind], name


def _quotas(quotas: Mapping[str, float]) -> Directory:
    return _listing(quotas, double_text, str, str)


def entity_name(entity: QuotaEntity) -> str:
    """The name of a quota entity, like clientId(app)_user(ann), with brackets escaped by a backslash."""
    names = dict(entity)
    return "_".join(
        f"{shown}({_escaped(name)})"
        for part, shown in _QUOTA_PARTS.items()
        if part in names
        for name in [names[part]]
    )


def _escaped(name: str | None) -> str:
    return _DEFAULT if name is None else re.sub(r"[\\()]", r"\\\g<0>", name)


_ENTITY_PART = re.compile(r"(clientId|ip|user)\(((?:[^\\)]|\\.)*)\)(?:_(?=.)|$)", re.DOTALL)


def read_entity(text: str) -> QuotaEntity:
    """Parse the output of `entity_name`; raises ValueError if it is invalid."""
    kinds = {shown: part for part, shown in _QUOTA_PARTS.items()}
    parts: dict[str, str | None] = {}
    position = 0
    while position < len(text) or not parts:
        found = _ENTITY_PART.match(text, position)
        if found is None:
            raise ValueError(text)
        name = re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)
        parts[kinds[found[1]]] = None if name == _DEFAULT else name
        position = found.end()
    return frozenset(parts.items())


# ACLs and users


def acl_text(acl: AccessControlEntryRecord) -> str:
    return (
        f"StandardAcl[resourceType={AclResourceType(acl.resource_type).name},"
        f" resourceName={acl.resource_name}, patternType={PatternType(acl.pattern_type).name},"
        f" principal={acl.principal}, host={acl.host}, operation={AclOperation(acl.operation).name},"
        f" permissionType={AclPermission(acl.permission_type).name}]"
    )


def _scram(image: ClusterImage, mechanism: int) -> Directory:
    by_user = {user: record for (kind, user), record in image.scram.items() if kind == mechanism}
    return _listing(by_user, _credential_text, str, str)


def _credential_text(record: UserScramCredentialRecord) -> str:
    return (
        f"ScramCredentialData(salt={record.salt.hex()}, storedKey={record.stored_key.hex()},"
        f" serverKey={record.server_key.hex()}, iterations={record.iterations})"
    )


def _token_text(record: DelegationTokenRecord) -> str:
    """Format like Kafka's shell, with brackets."""
    return (
        f"DelegationTokenDatatokenId={record.token_id}(owner={record.owner}"
        f"(tokenRequester={record.requester}(renewers={' '.join(record.renewers)},"
        f" issueTimestamp={record.issue_timestamp}, maxTimestamp={record.max_timestamp}),"
        f" expiryTimestamp={record.expiration_timestamp}"
    )
