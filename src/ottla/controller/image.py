"""The cluster state that results from the records of the metadata log. Only `replay` changes it.

A snapshot is the image converted back into records: replaying `to_records` into an empty image gives an equal
one. Records between a BeginTransactionRecord and its EndTransactionRecord take effect together at the end,
or, if aborted, never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ottla.controller.image_delta import ConfigResource, ImageDelta
from ottla.controller.registrations import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    InvalidMetadata,
    PartitionRegistration,
    Topic,
)
from ottla.controller.topic_names import collision_key
from ottla.wire import uuid
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

QuotaEntity = frozenset[tuple[str, str | None]]
"""(entity type, entity name or None for the default) pairs."""


class ClusterImage:
    """The content of the metadata log. `offset` is that of the last replayed record, initially -1: the caller
    sets it before each record.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Return to the state of an empty log: a snapshot follows."""
        self.offset = -1
        self.epoch = -1
        self.timestamp_ms = -1
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerRegistration] = {}
        self.registration_offsets: dict[int, int] = {}  # broker id -> where its RegisterBrokerRecord stands
        self.controllers: dict[int, ControllerRegistration] = {}
        self.topics: dict[bytes, Topic] = {}
        self.topics_by_name: dict[str, Topic] = {}
        self.colliding_names: dict[str, set[str]] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = 0
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.scram: dict[tuple[int, str], UserScramCredentialRecord] = {}
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}
        self._transaction: list[Message] | None = None

    def copy(self) -> ClusterImage:
        """An independent copy, which shares the immutable values."""
        copy = ClusterImage()
        copy.offset, copy.epoch, copy.timestamp_ms = self.offset, self.epoch, self.timestamp_ms
        copy.features = self.features.copy()
        copy.brokers = self.brokers.copy()
        copy.registration_offsets = self.registration_offsets.copy()
        copy.controllers = self.controllers.copy()
        copy.topics = {topic_id: topic.copy() for topic_id, topic in self.topics.items()}
        copy.topics_by_name = {topic.name: topic for topic in copy.topics.values()}
        copy.colliding_names = {key: names.copy() for key, names in self.colliding_names.items()}
        copy.configs = {resource: texts.copy() for resource, texts in self.configs.items()}
        copy.client_quotas = {entity: quotas.copy() for entity, quotas in self.client_quotas.items()}
        copy.next_producer_id = self.next_producer_id
        copy.acls = self.acls.copy()
        copy.scram = self.scram.copy()
        copy.delegation_tokens = self.delegation_tokens.copy()
        copy._transaction = None if self._transaction is None else self._transaction.copy()
        return copy

    def __eq__(self, other: object) -> bool:
        """Whether both contain the same cluster state, whatever records led there."""
        if not isinstance(other, ClusterImage):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in (
                "features",
                "brokers",
                "controllers",
                "topics",
                "configs",
                "client_quotas",
                "next_producer_id",
                "acls",
                "scram",
                "delegation_tokens",
            )
        )

    __hash__ = None  # type: ignore[assignment]

    # Looking up

    @property
    def metadata_version(self) -> int:
        """The finalized level, or 0 if the log does not contain one yet."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def is_elr_enabled(self) -> bool:
        return self.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    def partition(self, topic: str | bytes, index: int) -> PartitionRegistration | None:
        """A partition by the name or id of its topic."""
        found = self.topics_by_name.get(topic) if isinstance(topic, str) else self.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def alive_endpoint(self, broker_id: int, listener_name: str) -> Endpoint | None:
        """The endpoint on a listener of a broker that is not fenced."""
        registration = self.brokers.get(broker_id)
        if registration is None or registration.fenced:
            return None
        return registration.endpoint(listener_name)

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """The settings of a resource in the log. Do not change them."""
        return self.configs.get((resource_type, name), {})

    def topic_config(self, name: str) -> dict[str, str]:
        return self.configs.get((TOPIC_RESOURCE, name), {})

    # Changing

    def replay(self, record: Message, delta: ImageDelta | None = None) -> None:
        """Apply one record. InvalidMetadata: the log contradicts itself, so the state cannot be used."""
        if self._transaction is not None:
            self._replay_in_transaction(record, delta)
            return
        try:
            apply = _REPLAYS[type(record)]
        except KeyError:
            raise InvalidMetadata(f"A {record.NAME} is not a record of the metadata log.") from None
        apply(self, record, ImageDelta() if delta is None else delta)

    def _replay_in_transaction(self, record: Message, delta: ImageDelta | None) -> None:
        pending = self._transaction
        assert pending is not None
        if isinstance(record, BeginTransactionRecord):
            raise InvalidMetadata("A metadata transaction starts inside another one.")
        if isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            self._transaction = None
            for one in pending:
                self.replay(one, delta)
        else:
            pending.append(record)

    def _begin(self, record: BeginTransactionRecord, delta: ImageDelta) -> None:
        self._transaction = []

    def _end_without_begin(self, record: Message, delta: ImageDelta) -> None:
        raise InvalidMetadata("A metadata transaction ends without a start.")

    def _ignore(self, record: Message, delta: ImageDelta) -> None:
        """Ignore a record without cluster state."""

    def _feature_level(self, record: FeatureLevelRecord, delta: ImageDelta) -> None:
        if record.name == KRAFT_VERSION:
            return  # the raft layer's control records say it
        if record.feature_level == 0 and record.name != METADATA_VERSION:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level
        delta.features_changed = True

    def _register_broker(self, record: RegisterBrokerRecord, delta: ImageDelta) -> None:
        self.brokers[record.broker_id] = BrokerRegistration.from_record(record)
        self.registration_offsets[record.broker_id] = self.offset
        delta.brokers_changed.add(record.broker_id)

    def _unregister_broker(self, record: UnregisterBrokerRecord, delta: ImageDelta) -> None:
        self._registration(record.broker_id, record.broker_epoch, record)
        del self.brokers[record.broker_id]
        del self.registration_offsets[record.broker_id]
        delta.brokers_changed.add(record.broker_id)

    def _fence_broker(self, record: FenceBrokerRecord, delta: ImageDelta) -> None:
        broker = self._registration(record.id, record.epoch, record)
        self.brokers[record.id] = replace(broker, fenced=True)
        delta.brokers_changed.add(record.id)

    def _unfence_broker(self, record: UnfenceBrokerRecord, delta: ImageDelta) -> None:
        broker = self._registration(record.id, record.epoch, record)
        self.brokers[record.id] = replace(broker, fenced=False)
        delta.brokers_changed.add(record.id)

    def _change_broker(self, record: BrokerRegistrationChangeRecord, delta: ImageDelta) -> None:
        broker = self._registration(record.broker_id, record.broker_epoch, record)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise InvalidMetadata(f"{record!r} contains an invalid value.")
        cordoned = record.cordoned_log_dirs
        self.brokers[record.broker_id] = replace(
            broker,
            fenced=record.fenced > 0 if record.fenced else broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            directories=tuple(record.log_dirs) or broker.directories,
            cordoned_directories=broker.cordoned_directories if cordoned is None else tuple(cordoned),
        )
        delta.brokers_changed.add(record.broker_id)

    def _registration(self, broker_id: int, epoch: int, record: Message) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            held = "none" if broker is None else f"epoch {broker.epoch}"
            raise InvalidMetadata(f"{record!r} does not match the current registration, {held}.")
        return broker

    def _register_controller(self, record: RegisterControllerRecord, delta: ImageDelta) -> None:
        self.controllers[record.controller_id] = ControllerRegistration.from_record(record)
        delta.controllers_changed.add(record.controller_id)

    def _add_topic(self, record: TopicRecord, delta: ImageDelta) -> None:
        if record.name in self.topics_by_name or record.topic_id in self.topics:
            raise InvalidMetadata(f"{record!r} creates a topic whose name or id already exists.")
        topic = Topic(record.name, record.topic_id)
        self.topics[topic.id] = self.topics_by_name[topic.name] = topic
        key = collision_key(topic.name)
        if key is not None:
            self.colliding_names.setdefault(key, set()).add(topic.name)
        delta.topics_created[topic.id] = topic

    def _remove_topic(self, record: RemoveTopicRecord, delta: ImageDelta) -> None:
        topic = self._topic(record.topic_id, record)
        del self.topics[topic.id]
        del self.topics_by_name[topic.name]
        key = collision_key(topic.name)
        if key is not None:
            names = self.colliding_names[key]
            names.discard(topic.name)
            if not names:
                del self.colliding_names[key]
        if self.configs.pop((TOPIC_RESOURCE, topic.name), None) is not None:
            delta.configs_changed.add((TOPIC_RESOURCE, topic.name))
        delta.topic_deleted(topic)

    def _put_partition(self, record: PartitionRecord, delta: ImageDelta) -> None:
        topic = self._topic(record.topic_id, record)
        before = topic.partitions.get(record.partition_id)
        topic.partitions[record.partition_id] = PartitionRegistration.from_record(record)
        delta.partition_changed(topic.id, record.partition_id, before)

    def _change_partition(self, record: PartitionChangeRecord, delta: ImageDelta) -> None:
        topic = self._topic(record.topic_id, record)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise InvalidMetadata(f"{record!r} changes a partition that does not exist.")
        topic.partitions[record.partition_id] = before.merge(record)
        delta.partition_changed(topic.id, record.partition_id, before)

    def _clear_elr(self, record: ClearElrRecord, delta: ImageDelta) -> None:
        if not record.topic_name:
            topics = list(self.topics.values())
        elif record.topic_name in self.topics_by_name:
            topics = [self.topics_by_name[record.topic_name]]
        else:
            raise InvalidMetadata(f"{record!r} refers to a topic that does not exist.")
        for topic in topics:
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    topic.partitions[index] = partition.without_elr()
                    delta.partition_changed(topic.id, index, partition)

    def _topic(self, topic_id: bytes, record: Message) -> Topic:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise InvalidMetadata(
                f"A {record.NAME} refers to topic {uuid.to_text(topic_id)}, which does not exist."
            )
        return topic

    def _set_config(self, record: ConfigRecord, delta: ImageDelta) -> None:
        resource = (record.resource_type, record.resource_name)
        texts = self.configs.setdefault(resource, {})
        if record.value is None:
            texts.pop(record.name, None)
        else:
            texts[record.name] = record.value
        if not texts:
            del self.configs[resource]
        delta.configs_changed.add(resource)

    def _set_quota(self, record: ClientQuotaRecord, delta: ImageDelta) -> None:
        entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
        quotas = self.client_quotas.setdefault(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if not quotas:
            del self.client_quotas[entity]
        delta.client_quotas_changed = True

    def _set_producer_ids(self, record: ProducerIdsRecord, delta: ImageDelta) -> None:
        if record.next_producer_id < self.next_producer_id:
            raise InvalidMetadata(
                f"{record!r} reallocates producer ids: the next free one is {self.next_producer_id}."
            )
        self.next_producer_id = record.next_producer_id
        delta.producer_ids_changed = True

    def _add_acl(self, record: AccessControlEntryRecord, delta: ImageDelta) -> None:
        self.acls[record.id] = record
        delta.acls_changed = True

    def _remove_acl(self, record: RemoveAccessControlEntryRecord, delta: ImageDelta) -> None:
        if self.acls.pop(record.id, None) is None:
            raise InvalidMetadata(f"{record!r} removes an ACL that does not exist.")
        delta.acls_changed = True

    def _set_scram(self, record: UserScramCredentialRecord, delta: ImageDelta) -> None:
        self.scram[record.mechanism, record.name] = record
        delta.scram_changed = True

    def _remove_scram(self, record: RemoveUserScramCredentialRecord, delta: ImageDelta) -> None:
        if self.scram.pop((record.mechanism, record.name), None) is None:
            raise InvalidMetadata(f"{record!r} removes a credential that does not exist.")
        delta.scram_changed = True

    def _set_token(self, record: DelegationTokenRecord, delta: ImageDelta) -> None:
        self.delegation_tokens[record.token_id] = record
        delta.delegation_tokens_changed = True

    def _remove_token(self, record: RemoveDelegationTokenRecord, delta: ImageDelta) -> None:
        self.delegation_tokens.pop(record.token_id, None)
        delta.delegation_tokens_changed = True

    # Snapshot

    def to_records(self) -> Iterator[Message]:
        """The records of a snapshot. The caller ensures that the image does not change meanwhile."""
        level = self.metadata_version
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
        for name in sorted(self.features):
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name=name, feature_level=self.features[name])
        for broker in self.brokers.values():
            yield broker.to_record(level)
        for controller in self.controllers.values():
            yield controller.to_record()
        for topic in self.topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.id)
            for index, partition in topic.partitions.items():
                yield partition.to_record(topic.id, index, level)
        for (resource_type, resource_name), texts in self.configs.items():
            for name, value in texts.items():
                yield ConfigRecord(
                    resource_type=resource_type, resource_name=resource_name, name=name, value=value
                )
        for entity, quotas in self.client_quotas.items():
            for key, quota in quotas.items():
                yield ClientQuotaRecord(
                    entity=[
                        ClientQuotaRecord.EntityData(entity_type=entity_type, entity_name=entity_name)
                        for entity_type, entity_name in sorted(entity, key=lambda part: part[0])
                    ],
                    key=key,
                    value=quota,
                )
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
        yield from self.acls.values()
        yield from self.scram.values()
        yield from self.delegation_tokens.values()


_REPLAYS: dict[type[Message], Callable[[ClusterImage, Any, ImageDelta], None]] = {
    AbortTransactionRecord: ClusterImage._end_without_begin,
    AccessControlEntryRecord: ClusterImage._add_acl,
    BeginTransactionRecord: ClusterImage._begin,
    BrokerRegistrationChangeRecord: ClusterImage._change_broker,
    ClearElrRecord: ClusterImage._clear_elr,
    ClientQuotaRecord: ClusterImage._set_quota,
    ConfigRecord: ClusterImage._set_config,
    DelegationTokenRecord: ClusterImage._set_token,
    EndTransactionRecord: ClusterImage._end_without_begin,
    FeatureLevelRecord: ClusterImage._feature_level,
    FenceBrokerRecord: ClusterImage._fence_broker,
    NoOpRecord: ClusterImage._ignore,
    PartitionChangeRecord: ClusterImage._change_partition,
    PartitionRecord: ClusterImage._put_partition,
    ProducerIdsRecord: ClusterImage._set_producer_ids,
    RegisterBrokerRecord: ClusterImage._register_broker,
    RegisterControllerRecord: ClusterImage._register_controller,
    RemoveAccessControlEntryRecord: ClusterImage._remove_acl,
    RemoveDelegationTokenRecord: ClusterImage._remove_token,
    RemoveTopicRecord: ClusterImage._remove_topic,
    RemoveUserScramCredentialRecord: ClusterImage._remove_scram,
    TopicRecord: ClusterImage._add_topic,
    UnfenceBrokerRecord: ClusterImage._unfence_broker,
    UnregisterBrokerRecord: ClusterImage._unregister_broker,
    UserScramCredentialRecord: ClusterImage._set_scram,
    ZkMigrationStateRecord: ClusterImage._ignore,
}
