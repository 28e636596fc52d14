"""The transaction coordinator of this node.

`ottla.coordinator.transactions` has the state machine; this module connects it to the node's partitions,
producer ids and connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.coordinator.records import kinds_of
from ottla.coordinator.runtime import Coordinator
from ottla.coordinator.transactions.markers import SendMarkers
from ottla.coordinator.transactions.settings import TransactionSettings
from ottla.coordinator.transactions.shard import TransactionShard
from ottla.server.broker import TRANSACTIONS_TOPIC
from ottla.server.coordinators.groups import hosted_partitions, internal_partition_count
from ottla.server.coordinators.marker_sender import MarkerSender, MarkerTargets, TargetParts
from ottla.server.coordinators.requests import CoordinatorRequests
from ottla.server.coordinators.transaction_verification import Verification
from ottla.server.parts import HasNetwork, HasProducerIds, HasSlices
from ottla.server.peers.broker_channels import BrokerChannels
from ottla.server.replicas.partition import flush_soon
from ottla.wire.messages import transaction_records

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta


class Parts(TargetParts, HasProducerIds, HasNetwork, HasSlices, Protocol):
    """The parts of a node that `TransactionCoordinator` uses."""


class TransactionCoordinator:
    """`verification` checks transactional appends before they are made. See the module."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = TransactionSettings.of(parts.config)
        self._has_prepared = False
        self.links = None if parts.network is None else BrokerChannels(parts, parts.network)
        self.verification = Verification(parts, self)
        self.coordinator = Coordinator(
            topic=TRANSACTIONS_TOPIC,
            partition_count=lambda: internal_partition_count(
                parts, TRANSACTIONS_TOPIC, "transaction.state.log.num.partitions"
            ),
            hosted=lambda: hosted_partitions(parts.partitions, TRANSACTIONS_TOPIC),
            new_shard=self._new_shard,
            kinds=kinds_of(transaction_records),
            clock=parts.clock,
            slices=parts.slices,
            write_timeout_ms=parts.config.int_of("request.timeout.ms"),
            flush=lambda partition: flush_soon(parts, partition.topic, partition.index),
            run_effect=self._run_effect,
        )
        self.requests = CoordinatorRequests(self.coordinator)
        self.marker_sender = MarkerSender(MarkerTargets(parts, self.links), self.coordinator)

    def start(self) -> None:
        self.coordinator.update_leadership()

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.coordinator.on_metadata(image, delta)
        registration = image.brokers.get(self._parts.node_id)
        if not self._has_prepared and registration is not None and not registration.fenced:
            self._has_prepared = True
            self._parts.producer_ids.prepare()

    def close(self) -> None:
        self.coordinator.close()
        self.marker_sender.close()
        if self.links is not None:
            self.links.close()

    def _new_shard(self, index: int) -> TransactionShard:
        parts = self._parts
        partition = parts.partitions.get(TRANSACTIONS_TOPIC, index)
        assert partition is not None, "a shard is made for a partition that this node leads"
        return TransactionShard(
            index=index,
            coordinator_epoch=partition.leader_epoch,
            image=parts.image,
            clock=parts.clock,
            settings=self._settings,
            take_producer_id=parts.producer_ids.take,
        )

    def _run_effect(self, index: int, effect: Any) -> None:
        assert isinstance(effect, SendMarkers)
        self.marker_sender.run(index, effect)
