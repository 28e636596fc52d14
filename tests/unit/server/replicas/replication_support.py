"""Three brokers with replicated partitions: their leaders, ISR and contents."""

from __future__ import annotations

from typing import Any, Self

from tests.unit.server.nodes import NodeProcess, Nodes, wait_until

from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest

SETTINGS = {
    "replica_lag_time_max_ms": "2000",
    "replica_fetch_wait_max_ms": "200",
    "replica_fetch_backoff_ms": "50",
    "replica_high_watermark_checkpoint_interval_ms": "100",
}


class Trio:
    """A controller and three brokers."""

    def __init__(self, nodes: Nodes, **extra: str) -> None:
        self.nodes = nodes
        nodes.controller.start()
        self.brokers: dict[int, NodeProcess] = {
            node_id: nodes.broker(node_id, **{**SETTINGS, "broker_rack": f"rack-{node_id}", **extra}).start()
            for node_id in (1, 2, 3)
        }

    @classmethod
    def of(cls, brokers: dict[int, NodeProcess]) -> Self:
        """Brokers that are already running."""
        made = cls.__new__(cls)
        made.brokers = brokers
        return made

    def create(
        self, topic: str, replicas: tuple[int, ...] = (1, 2, 3), *, at: int = 1, **configs: str
    ) -> None:
        """Create a topic with one partition on these replicas, the first of which leads."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreateTopicsRequest.CreatableReplicaAssignment(
                            partition_index=0, broker_ids=list(replicas)
                        )
                    ],
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=name.replace("_", "."), value=value)
                        for name, value in configs.items()
                    ],
                )
            ],
            timeout_ms=10_000,
        )
        with self.brokers[at].ask() as asking:
            (result,) = asking.ask(request, 7).topics
        assert result.error_code == 0, result
        for node_id, broker in self.brokers.items():
            if broker.process is not None:
                self.wait_until_isr(topic, set(replicas), at=node_id)

    def partition(self, topic: str, *, at: int) -> Any:
        """The partition in a broker's Metadata response."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        with self.brokers[at].ask() as asking:
            (found,) = asking.ask(request, 12).topics
        return found.partitions[0] if found.partitions else None

    def leader(self, topic: str, *, at: int) -> int:
        found = self.partition(topic, at=at)
        return -1 if found is None else int(found.leader_id)

    def isr(self, topic: str, *, at: int) -> set[int]:
        found = self.partition(topic, at=at)
        return set() if found is None else set(found.isr_nodes)

    def wait_until_isr(self, topic: str, isr: set[int], *, at: int) -> None:
        wait_until(lambda: self.isr(topic, at=at) == isr, f"in-sync replicas {isr} of {topic} at {at}")

    def wait_until_led_by(self, topic: str, leaders: set[int], *, at: int) -> int:
        wait_until(lambda: self.leader(topic, at=at) in leaders, f"{topic} to be led by {leaders}")
        return self.leader(topic, at=at)

    def log_end(self, topic: str, *, at: int) -> int:
        """The log end on a broker, leader or not."""
        request = ListOffsetsRequest(
            replica_id=-2,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)],
                )
            ],
        )
        with self.brokers[at].ask() as asking:
            answer = asking.ask(request, 7).topics[0].partitions[0]
        return int(answer.offset) if answer.error_code == 0 else -1

    def produce(self, topic: str, values: list[bytes], *, at: int, acks: int = -1) -> Any:
        with self.brokers[at].ask() as asking:
            return asking.produce(topic, values, acks=acks)

    def values(self, topic: str, *, at: int) -> list[bytes | None]:
        """The values that a broker serves to consumers, leader or not."""
        with self.brokers[at].ask() as asking:
            return asking.values(topic)

    def segment(self, topic: str, *, at: int) -> bytes:
        """The bytes of the first segment on a broker's disk."""
        path = self.brokers[at].data / f"{topic}-0" / f"{0:020d}.log"
        return path.read_bytes()
