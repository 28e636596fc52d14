"""The transaction coordinator of this node: its shards, its markers, and the questions of brokers.

The state machine is in `ottla.coordinator.transactions`; here it is joined to this node's partitions,
producer ids and connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.coordinator.records import kinds_of
from ottla.coordinator.result import Reply
from ottla.coordinator.runtime import Coordinator
from ottla.coordinator.transactions.marker_sender import NOBODY, MarkerSender, Outcomes, WritableMarker
from ottla.coordinator.transactions.settings import SendMarkers, TransactionSettings
from ottla.coordinator.transactions.shard import TransactionShard
from ottla.coordinator.transactions.states import TopicPartition
from ottla.server.broker import TRANSACTIONS_TOPIC, Broker
from ottla.server.coordinators.groups import Asked, flush_soon, hosted_partitions, internal_partition_count
from ottla.server.coordinators.marker_writer import write_marker
from ottla.server.coordinators.transaction_verification import Verification
from ottla.server.peers.broker_channels import BrokerChannels, BrokerUnknown
from ottla.wire.errors import KafkaError
from ottla.wire.messages import transaction_records
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta


class Transactions(Asked[TransactionShard]):
    """See the module. `verification` is asked before transactional appends."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings = TransactionSettings.of(broker.config)
        self._has_prepared = False
        self.links = None if broker.network is None else BrokerChannels(broker, broker.network)
        self.markers = MarkerSender(_Places(broker, self.links), self)
        self.verification = Verification(broker, self)
        super().__init__(
            Coordinator(
                topic=TRANSACTIONS_TOPIC,
                partition_count=lambda: internal_partition_count(
                    broker, TRANSACTIONS_TOPIC, "transaction.state.log.num.partitions"
                ),
                hosted=lambda: hosted_partitions(broker, TRANSACTIONS_TOPIC),
                new_shard=self._new_shard,
                kinds=kinds_of(transaction_records),
                clock=broker.clock,
                slices=broker.slices,
                write_timeout_ms=broker.config.int_of("request.timeout.ms"),
                flush=lambda partition: flush_soon(broker, partition),
                run_effect=self._run_effect,
            )
        )

    def start(self) -> None:
        self.coordinator.take_seats()

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.coordinator.on_metadata(image, delta)
        registration = image.brokers.get(self._broker.node_id)
        if not self._has_prepared and registration is not None and not registration.fenced:
            self._has_prepared = True
            self._broker.producer_ids.prepare()

    def close(self) -> None:
        self.coordinator.close()
        self.markers.close()
        if self.links is not None:
            self.links.close()

    def _new_shard(self, index: int) -> TransactionShard:
        broker = self._broker
        partition = broker.partitions.get(TRANSACTIONS_TOPIC, index)
        assert partition is not None, "a shard is made for a partition that this node leads"
        return TransactionShard(
            index=index,
            coordinator_epoch=partition.leader_epoch,
            image=broker.image,
            clock=broker.clock,
            settings=self._settings,
            take_producer_id=broker.producer_ids.take,
        )

    def _run_effect(self, index: int, effect: Any) -> None:
        assert isinstance(effect, SendMarkers)
        self.markers.run(index, effect)

    # What the sender of markers reports

    def is_current(self, index: int, coordinator_epoch: int) -> bool:
        partition = self._broker.partitions.get(TRANSACTIONS_TOPIC, index)
        return partition is not None and partition.is_leader and partition.leader_epoch == coordinator_epoch

    def written(
        self,
        index: int,
        markers: SendMarkers,
        partitions: Iterable[TopicPartition],
        failed: Callable[[KafkaError], None],
    ) -> None:
        self.coordinator.ask(
            index,
            lambda shard, _reply: shard.markers_written(markers, partitions),
            Reply(_ignore, failed),
        )


class _Places:
    """Where markers go."""

    def __init__(self, broker: Broker, links: BrokerChannels | None) -> None:
        self.node_id = broker.node_id
        self._broker = broker
        self._links = links

    def leader_of(self, topic: str, index: int) -> int | None:
        registration = self._broker.image.partition(topic, index)
        if registration is None:
            return None
        leader: int = registration.leader
        return leader if leader >= 0 else NOBODY

    def write(self, marker: WritableMarker, done: Callable[[Outcomes], None]) -> None:
        write_marker(self._broker, marker, done)

    async def send(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        if self._links is None:
            raise BrokerUnknown("This node has no connections to other brokers.")
        response: WriteTxnMarkersResponse = await self._links.ask(broker_id, request)
        return response


def _ignore(_response: object) -> None:
    """The report is in the log: nobody waits for that."""
