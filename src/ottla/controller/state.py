"""The active controller's state, which every decision reads.

`image` is ahead of the committed one by the decisions that are not committed yet. Decisions read it and never
write it; `apply` replays their records. Time and randomness are passed in, so a decision is a function of
this object and its request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla.controller.heartbeats import Heartbeats
from ottla.controller.image import BROKER_RESOURCE, ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.controller.registrations import Topic, VersionRange
from ottla.controller.result import Steps
from ottla.wire.errors import StaleBrokerEpoch
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

_FOLLOWED = frozenset(
    (
        BrokerRegistrationChangeRecord,
        ConfigRecord,
        FenceBrokerRecord,
        RegisterBrokerRecord,
        RemoveTopicRecord,
        UnfenceBrokerRecord,
        UnregisterBrokerRecord,
    )
)


class ConfigEntry(Protocol):
    """One effective setting, for the response of CreateTopics."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...
    @property
    def source(self) -> int: ...
    @property
    def is_sensitive(self) -> bool: ...
    @property
    def read_only(self) -> bool: ...


class ConfigRules(Protocol):
    """The rules of settings that the controller needs. Errors are KafkaErrors, mostly InvalidConfig."""

    def check(
        self, resource_type: int, name: str, proposed: Mapping[str, str], existing: Mapping[str, str]
    ) -> None:
        """Raise if the new settings of a resource are invalid."""

    def changed(
        self, resource_type: int, current: Mapping[str, str], changes: Iterable[tuple[str, int, str | None]]
    ) -> dict[str, str | None]:
        """The settings after changes (name, operation, value), by name; None = removed."""

    def topic_text(self, dynamic: DynamicConfigs, overrides: Mapping[str, str], name: str) -> str:
        """The effective value of a topic's setting."""

    def describe_topic(self, dynamic: DynamicConfigs, overrides: Mapping[str, str]) -> Sequence[ConfigEntry]:
        """All effective settings of a topic."""


@dataclass(frozen=True, slots=True)
class DynamicConfigs:
    """The dynamic settings of brokers that affect topics: of the cluster and of this node."""

    cluster: Mapping[str, str]
    node: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The controller's settings, from the configuration of this node."""

    node_id: int
    cluster_id: str
    default_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    session_timeout_ms: int = 9_000
    is_topic_deletion_enabled: bool = True
    supported_features: Mapping[str, VersionRange] = field(default_factory=dict)
    quorum_ids: frozenset[int] = frozenset()


class ControllerState:
    """The state of one term: created when this node becomes the active controller, dropped at the end."""

    def __init__(
        self,
        image: ClusterImage,
        settings: ControllerSettings,
        rules: ConfigRules,
        *,
        next_offset: int,
        now_ms: int,
        kraft_version: int,
        random_bytes: Callable[[int], bytes],
        random_below: Callable[[int], int],
    ) -> None:
        self.image = image
        self.settings = settings
        self.rules = rules
        self.next_offset = next_offset
        self.now_ms = now_ms
        """Of a clock that never goes back; whoever calls decisions keeps it up to date."""
        self.waited_ms = 0
        """How long the decision waited for those before it."""
        self.kraft_version = kraft_version
        self.random_bytes = random_bytes
        self.random_below = random_below
        self._texts: dict[tuple[str, str], str] = {}  # what `_topic_text` found, until a setting changes
        self.heartbeats = Heartbeats(settings.session_timeout_ms)
        for broker in image.brokers.values():
            self.heartbeats.register(broker.id, broker.fenced)
            if not broker.fenced:
                self.heartbeats.contact(broker.id, broker.epoch, now_ms)

    def apply(self, records: Sequence[Message]) -> Steps[None]:
        """Replay the records of a decision, which get the next offsets of the log."""
        image, delta, first = self.image, ImageDelta(), self.next_offset
        self.next_offset += len(records)  # at once: the quorum may append its own records during a pause
        for offset, record in enumerate(records, first):
            image.offset = offset
            image.replay(record, delta)
            if type(record) in _FOLLOWED:
                self._follow(record)
            yield

    def _follow(self, record: Message) -> None:
        """Update the heartbeats after changes of registrations, and drop settings of deleted resources."""
        if isinstance(record, ConfigRecord | RemoveTopicRecord):
            self._texts.clear()
        elif isinstance(record, RegisterBrokerRecord):
            self.heartbeats.remove(record.broker_id)
            self.heartbeats.register(record.broker_id, record.fenced)
        elif isinstance(record, UnregisterBrokerRecord):
            self.heartbeats.remove(record.broker_id)
        elif isinstance(record, BrokerRegistrationChangeRecord):
            self.heartbeats.register(record.broker_id, self.image.brokers[record.broker_id].fenced)
        elif isinstance(record, FenceBrokerRecord | UnfenceBrokerRecord):
            self.heartbeats.register(record.id, self.image.brokers[record.id].fenced)

    # Questions that several matters ask

    @property
    def asked_ms(self) -> int:
        """When the decision was asked for.

        Heartbeats that came later have not been decided on, so a broker is silent only if it was so by then.
        """
        return self.now_ms - self.waited_ms

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead and be in sync."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def has_online_directory(self, broker_id: int, directory: bytes) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.has_online_directory(directory)

    def check_broker_epoch(self, broker_id: int, epoch: int) -> None:
        """Reject a stale broker epoch, or a broker that is not registered."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise StaleBrokerEpoch(f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise StaleBrokerEpoch(f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")

    @property
    def dynamic_configs(self) -> DynamicConfigs:
        return DynamicConfigs(
            self.image.config(BROKER_RESOURCE, ""),
            self.image.config(BROKER_RESOURCE, str(self.settings.node_id)),
        )

    def min_insync_replicas(self, topic: Topic) -> int:
        """The topic's min.insync.replicas, at most its replication factor."""
        text = self._topic_text(topic, "min.insync.replicas")
        return min(int(text), len(topic.partitions[0].replicas))

    def is_unclean_election_enabled(self, topic: Topic) -> bool:
        return self._topic_text(topic, "unclean.leader.election.enable").lower() == "true"

    def _topic_text(self, topic: Topic, setting: str) -> str:
        """The effective value of a topic's setting; needed for every partition when a broker leaves."""
        text = self._texts.get((topic.name, setting))
        if text is None:
            overrides = self.image.topic_config(topic.name)
            text = self.rules.topic_text(self.dynamic_configs, overrides, setting)
            self._texts[topic.name, setting] = text
        return text
