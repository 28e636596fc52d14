"""Several combined nodes as processes, whose controllers form a quorum; and requests to them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.unit.server.nodes import NodeProcess, free_port, wait_until

from ottla.wire import uuid
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest

LISTENER = "CONTROLLER"


class Status(NamedTuple):
    """The quorum as described by its leader."""

    error: int
    leader_id: int
    epoch: int
    high_watermark: int
    voters: dict[int, int]  # id: log end
    observers: set[int]


class QuorumOf:
    """`count` formatted nodes with ids from 1 on, not started. All are killed at the end."""

    def __init__(self, directory: Path, count: int, *, is_static: bool, **settings: str) -> None:
        self.ports = {node_id: free_port() for node_id in range(1, count + 1)}
        addresses = {node_id: f"127.0.0.1:{port}" for node_id, port in self.ports.items()}
        name = "controller.quorum.voters" if is_static else "controller.quorum.bootstrap.servers"
        entries = [f"{node_id}@{one}" if is_static else one for node_id, one in addresses.items()]
        self.nodes: dict[int, NodeProcess] = {}
        for node_id, address in addresses.items():
            port = free_port()
            properties = {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "controller.listener.names": LISTENER,
                "listeners": f"{LISTENER}://{address},PLAINTEXT://127.0.0.1:{port}",
                name: ",".join(entries),
                "broker.session.timeout.ms": "2000",
                "broker.heartbeat.interval.ms": "400",
                "controller.quorum.election.timeout.ms": "500",
                "controller.quorum.fetch.timeout.ms": "1000",
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
            self.nodes[node_id] = NodeProcess(directory / f"node-{node_id}", properties, port)

    def start(self) -> None:
        """Start all nodes at once, since a majority is needed."""
        for node in self.nodes.values():
            node.start(wait=False)
        wait_until(lambda: all(map(_has_started, self.nodes.values())), "all nodes to start")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()

    # Requests

    def status(self, via: int) -> Status:
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        with self.nodes[via].ask() as asking:
            found = asking.ask(DescribeQuorumRequest(topics=[topic]), 2).topics[0].partitions[0]
        return Status(
            found.error_code,
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            {one.replica_id: one.log_end_offset for one in found.current_voters},
            {one.replica_id for one in found.observers},
        )

    def wait_for_leader(self, via: int, *, other_than: int = -1) -> int:
        """The leader, once elected."""
        found: list[Status] = []

        def is_led() -> bool:
            found.append(self.status(via))
            return found[-1].error == 0 and found[-1].leader_id not in (-1, other_than)

        wait_until(is_led, "a leader of the quorum")
        return found[-1].leader_id

    def create(self, topic: str, via: int) -> int:
        """Create a topic through a node; return the error."""
        wanted = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        with self.nodes[via].ask() as asking:
            response = asking.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
        error: int = response.topics[0].error_code
        return error

    def directory_id(self, node_id: int) -> bytes:
        lines = (self.nodes[node_id].data / "meta.properties").read_text().splitlines()
        (text,) = [line.partition("=")[2] for line in lines if line.startswith("directory.id=")]
        return uuid.from_text(text)

    def add_voter(self, node_id: int, via: int) -> int:
        listener = AddRaftVoterRequest.Listener(name=LISTENER, host="127.0.0.1", port=self.ports[node_id])
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=60_000,
            voter_id=node_id,
            voter_directory_id=self.directory_id(node_id),
            listeners=[listener],
        )
        with self.nodes[via].ask() as asking:
            error: int = asking.ask(request, 1).error_code
        return error

    def remove_voter(self, node_id: int, via: int) -> int:
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=node_id, voter_directory_id=self.directory_id(node_id)
        )
        with self.nodes[via].ask() as asking:
            error: int = asking.ask(request, 0).error_code
        return error

    def upgrade(self, via: int) -> int:
        """Convert the quorum to a dynamic one; return the error."""
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="kraft.version", max_version_level=1, upgrade_type=1
        )
        with self.nodes[via].ask() as asking:
            request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])
            error: int = asking.ask(request, 2).error_code
        return error

    def wait_until_equal(self, via: int) -> None:
        """Wait until every voter has the leader's log."""

        def are_equal() -> bool:
            status = self.status(via)
            return status.error == 0 and set(status.voters.values()) == {status.high_watermark}

        wait_until(are_equal, "equal metadata logs")

    def log_bytes(self, node_id: int) -> bytes:
        segments = sorted((self.nodes[node_id].data / "__cluster_metadata-0").glob("*.log"))
        return b"".join(segment.read_bytes() for segment in segments)


def _has_started(node: NodeProcess) -> bool:
    assert node.process is not None
    assert node.process.poll() is None, node.log_text
    return "Kafka Server started" in node.log_text
