"""A controller's state for tests, with brokers that registered and were unfenced through real decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.config import BrokerConfig, development_config
from ottla.controller.bootstrap import activation_records, bootstrap_records
from ottla.controller.brokers import broker_heartbeat, register_broker
from ottla.controller.config_rules import BrokerConfigRules
from ottla.controller.feature_levels import SUPPORTED_FEATURES, resolve_features
from ottla.controller.image import ClusterImage
from ottla.controller.registrations import PartitionRegistration
from ottla.controller.result import Decided, decided, finished
from ottla.controller.state import ControllerSettings, ControllerState
from ottla.controller.topics import create_topics
from ottla.wire.message import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_T = TypeVar("_T")
_CONFIG: list[BrokerConfig] = []


def identifier(*parts: object) -> bytes:
    return hashlib.md5(repr(parts).encode()).digest()


class Chance:
    """Draws that are the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def bytes(self, count: int) -> bytes:
        self._count += 1
        return hashlib.sha512(str(self._count).encode()).digest()[:count]

    def below(self, bound: int) -> int:
        return int.from_bytes(self.bytes(8), "big") % bound


class Cluster:
    """A state, the records that made it, and short ways to do things to it."""

    def __init__(self, *, features: dict[str, int] | None = None, release: str | None = None) -> None:
        if not _CONFIG:
            _CONFIG.append(development_config())
        chance = Chance()
        self.log: list[Message] = []
        self.epochs: dict[int, int] = {}
        self.state = ControllerState(
            ClusterImage(),
            ControllerSettings(node_id=1, cluster_id=CLUSTER_ID, supported_features=SUPPORTED_FEATURES),
            BrokerConfigRules(_CONFIG[0]),
            next_offset=1,
            now_ms=0,
            kraft_version=0,
            random_bytes=chance.bytes,
            random_below=chance.below,
        )
        levels = resolve_features(release=release, features=features or {})
        self.apply(activation_records(self.state.image, bootstrap_records(levels), 1))

    @property
    def image(self) -> ClusterImage:
        return self.state.image

    def apply(self, records: list[Message]) -> None:
        self.log += records
        finished(self.state.apply(records))

    def do(self, decision: Callable[..., Decided[_T]], *arguments: object, **keywords: object) -> _T:
        """Decide, replay, answer."""
        result = decided(decision(self.state, *arguments, **keywords))
        if result.when_appended is not None:
            result.when_appended()
        self.apply(list(result.records))
        return result.response

    def refuse(self, decision: Callable[..., Decided[Any]], *arguments: object) -> Sequence[Message]:
        """Decide, and let the log refuse the records: they come back here."""
        return decided(decision(self.state, *arguments)).records

    def register(
        self,
        broker_id: int,
        *,
        rack: str | None = None,
        directories: int | Sequence[bytes] = 1,
        run: int = 1,
        previous_epoch: int = -1,
    ) -> int:
        if isinstance(directories, int):
            directories = [identifier("directory", broker_id, number) for number in range(directories)]
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=identifier("run", broker_id, run),
            listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="localhost", port=9092)],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack=rack,
            log_dirs=list(directories),
            previous_broker_epoch=previous_epoch,
        )
        self.epochs[broker_id] = self.do(register_broker, request, 4).broker_epoch
        return self.epochs[broker_id]

    def heartbeat(self, broker_id: int, **fields: object) -> BrokerHeartbeatResponse:
        fields.setdefault("current_metadata_offset", self.state.next_offset - 1)
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            **fields,  # type: ignore[arg-type]
        )
        return self.do(broker_heartbeat, request)

    def start(self, *broker_ids: int) -> Cluster:
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            self.register(broker_id)
            self.heartbeat(broker_id)
        return self

    def create(self, name: str, *assignments: list[int], configs: dict[str, str] | None = None) -> None:
        """A topic with these replicas, one list for each partition."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreateTopicsRequest.CreatableReplicaAssignment(
                            partition_index=index, broker_ids=brokers
                        )
                        for index, brokers in enumerate(assignments)
                    ],
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                        for key, value in (configs or {}).items()
                    ],
                )
            ]
        )
        response = self.do(create_topics, request)
        assert [topic.error_code for topic in response.topics] == [0], response.topics

    def partition(self, name: str, index: int = 0) -> PartitionRegistration:
        found = self.image.partition(name, index)
        assert found is not None
        return found
