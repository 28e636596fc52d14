"""The cluster under test: three nodes (or four), with proxies in front of every port.

Node 0 represents the clients of this process: cuts and delays between 0 and a node affect them. Nodes can run
under strace, and on file systems that are filled.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.chaos.disks import SmallDisk
from tests.chaos.proxy_process import ProxyProcess
from tests.chaos.timeline import Timeline
from tests.interop import peers
from tests.interop.cluster.nodes import CONTROLLERS, SECONDS_MAX, Five, Node
from tests.unit.server.asking import Asking

CLIENTS = 0
ASK_SECONDS = 10.0


class ChaosNode(Node):
    """A node that another command, such as strace, may start."""

    wrapper: tuple[str, ...] = ()

    def start_command(self) -> list[str]:
        return [*self.wrapper, *super().start_command()]

    @property
    def has_ended(self) -> bool:
        """Whether it exited by itself."""
        return self.process is not None and self.process.poll() is not None

    def ask(self) -> Asking:
        asking = Asking(self.port)
        asking.socket.settimeout(ASK_SECONDS)
        return asking


class ChaosCluster(Five):
    """Three nodes. The timeline records everything done to them."""

    node_ids: tuple[int, ...] = CONTROLLERS
    node_class = ChaosNode
    nodes: dict[int, ChaosNode]  # type: ignore[assignment]

    def __init__(
        self,
        directory: Path,
        *,
        timeline: Timeline | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.timeline = timeline or Timeline()
        self._fronts: dict[int, int] = {}
        self.stopped: set[int] = set()
        self._closing = contextlib.ExitStack()
        links = self._closing.enter_context(ProxyProcess())
        super().__init__(directory, links=links, settings=settings)
        self.net = links
        self.small: SmallDisk | None = None  # the small disk of one node, if it has one

    def client_address(self, node: Node) -> str:
        if node.node_id not in self._fronts:
            assert self.links is not None
            self._fronts[node.node_id] = self.links.listen(node.node_id, node.port, source=CLIENTS)
        return f"127.0.0.1:{self._fronts[node.node_id]}"

    def close(self) -> None:
        for node_id in list(self.stopped):
            self.resume(node_id)
        try:
            super().close()
        finally:
            self._closing.close()

    def process_ids(self) -> dict[str, int]:
        """The ids of all processes: nodes, proxies, and this process with the clients."""
        nodes = {f"nodes/{one.node_id}": one.process for one in self.nodes.values()}
        found = {name: process.pid for name, process in nodes.items() if process is not None}
        return {**found, "proxies": self.net.process_id, "clients": os.getpid()}

    def others(self, *node_ids: int) -> list[int]:
        return [node_id for node_id in self.nodes if node_id not in node_ids]

    # Starting and stopping

    def start(self, *node_ids: int) -> Self:
        for node_id in node_ids or self.nodes:
            self._note(node_id, "starts")
        super().start(*node_ids)
        for node_id in node_ids or self.nodes:
            self._note(node_id, "serves")
        return self

    def kill(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self._note(node_id, "killed")
            self.nodes[node_id].kill()

    def stop(self, node_id: int) -> None:
        """Stop it cleanly, as SIGTERM does."""
        self._note(node_id, "stops")
        code = self.nodes[node_id].stop()
        self._note(node_id, "stopped")
        assert code == 0, f"node {node_id} ended with {code}:\n{self.nodes[node_id].log_tail()}"

    def pause(self, node_id: int) -> None:
        self._note(node_id, "paused")
        self.stopped.add(node_id)
        os.kill(self.nodes[node_id].pid, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self.stopped.discard(node_id)
        with contextlib.suppress(ProcessLookupError, AssertionError):
            os.kill(self.nodes[node_id].pid, signal.SIGCONT)
            self._note(node_id, "resumed")

    def wait_until_ended(self, node_id: int) -> int:
        """Wait for a node that exits by itself, for example after its disk failed; return its exit code."""
        node = self.nodes[node_id]
        peers.wait_until(
            lambda: node.has_ended, SECONDS_MAX, lambda: f"node {node_id} to end:\n{node.log_tail(20)}", 0.05
        )
        assert node.process is not None
        code = int(node.process.returncode)
        self._note(node_id, f"ends: {code}")
        node.kill()
        return code

    def start_stopped(self) -> None:
        """Start all stopped nodes, like a service manager."""
        for node_id, node in self.nodes.items():
            if node.has_ended:
                assert node.process is not None
                self._note(node_id, f"ends: {node.process.returncode}")
                node.kill()
        missing = [node_id for node_id, node in self.nodes.items() if node.process is None]
        if missing:
            self.start(*missing)

    @contextlib.contextmanager
    def kept_running(self) -> Iterator[None]:
        """Restart nodes that exit during the block: one may exit long after its fault was repaired."""
        is_over = threading.Event()

        def keep() -> None:
            while not is_over.wait(1.0):
                with contextlib.suppress(peers.BrokerFailed):  # retried in the next round
                    self.start_stopped()

        keeping = threading.Thread(target=keep, daemon=True)
        keeping.start()
        try:
            yield
        finally:
            is_over.set()
            keeping.join()

    def wipe(self, node_id: int) -> None:
        """Delete everything on the disk of a stopped node. A mounted disk stays mounted."""
        self._note(node_id, "wiped")
        data = self.nodes[node_id].data
        for path in data.iterdir() if data.exists() else ():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _note(self, node_id: int, what: str) -> None:
        self.timeline.note(f"node-{node_id}", what)

    def note(self, what: str) -> None:
        self.timeline.note("faults", what)

    # Queries

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The leader, according to one of the nodes."""
        for node_id in self.running:
            if node_id not in self.stopped:
                found = self.partitions([topic], at=node_id).get((topic, partition))
                if found is not None:
                    return None if found.leader_id < 0 else int(found.leader_id)
        return None

    def wait_for_leader(self, topic: str, partition: int = 0, *, other_than: int | None = None) -> int:
        found: list[int | None] = [None]

        def is_led() -> bool:
            found[0] = self.leader(topic, partition)
            return found[0] is not None and found[0] != other_than

        peers.wait_until(
            is_led, SECONDS_MAX, lambda: f"{topic}-{partition} to be led by another: {found[0]}", 0.1
        )
        assert found[0] is not None
        return found[0]

    def coordinator(self, kind: int, name: str) -> int | None:
        """The coordinator of a group (0) or a transactional id (1), according to one of the nodes."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        for node_id in self.running:
            if node_id in self.stopped:
                continue
            with contextlib.suppress(OSError, EOFError), self.nodes[node_id].ask() as asking:
                (found,) = asking.ask(request, 4).coordinators
                return None if found.error_code else int(found.node_id)
        return None

    def elect_preferred(self) -> None:
        """Elect the first replica of every partition."""
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000)
        with contextlib.suppress(OSError, EOFError), self.nodes[self.running[0]].ask() as asking:
            asking.ask(request, 2)

    def quorum_ends(self) -> dict[int, int]:
        """The end of each controller's metadata log, according to its leader; empty without a leader."""
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        for node_id in CONTROLLERS:
            with (
                contextlib.suppress(OSError, EOFError),
                Asking(self.nodes[node_id].controller_port) as asking,
            ):
                asking.socket.settimeout(ASK_SECONDS)
                answer = asking.ask(DescribeQuorumRequest(topics=[topic]), 2)
                if answer.error_code == 0 and answer.topics[0].partitions[0].error_code == 0:
                    voters = answer.topics[0].partitions[0].current_voters
                    return {one.replica_id: one.log_end_offset for one in voters}
        return {}

    def wait_until_quorum_agrees(self) -> None:
        """Wait until every controller has all metadata up to now."""
        goal = max(self._known_ends().values())
        seen: dict[int, int] = {}

        def has_all() -> bool:
            seen.clear()
            seen.update(self.quorum_ends())
            return set(seen) == set(CONTROLLERS) and min(seen.values()) >= goal

        peers.wait_until(has_all, SECONDS_MAX, lambda: f"all controllers at {goal}: {seen}", 0.1)

    def _known_ends(self) -> dict[int, int]:
        found: dict[int, int] = {}

        def is_known() -> bool:
            found.update(self.quorum_ends())
            return bool(found)

        peers.wait_until(is_known, SECONDS_MAX, "a leader of the quorum", 0.1)
        return found

    def logged(self, node_id: int, text: str) -> bool:
        log = self.nodes[node_id].log_file
        return log.exists() and text in log.read_text(errors="replace")

    def segments(self, node_id: int, name: str) -> list[Path]:
        """The segments of a partition (or of __cluster_metadata-0) on a node, oldest first."""
        return sorted((self.nodes[node_id].data / name).glob("*.log"))

    def preferred(self, topic: str, partition: int = 0) -> int:
        """The preferred replica of a partition."""
        return int(self.partitions([topic], at=self.running[0])[topic, partition].replica_nodes[0])

    def has_deleted_metadata(self, node_id: int) -> bool:
        """Whether a node has deleted the first segments of its metadata log."""
        segments = self.segments(node_id, "__cluster_metadata-0")
        return bool(segments) and int(segments[0].stem) > 0


class FourNodes(ChaosCluster):
    """Nodes 1 to 3 are controllers and brokers, node 4 is a broker: partitions can be reassigned."""

    node_ids = (*CONTROLLERS, 4)
