"""The reference deployment: nodes 1, 2 and 3 are controller and broker, 4 and 5 are brokers.

Each is a process with a server.properties of its own. Nodes speak to each other on listeners of their own
(INTERNAL and CONTROLLER), clients on CLIENTS: with `links` every connection between two nodes goes through a
proxy that can be cut, while clients reach each node as before, unless a subclass has proxies for them too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from ottla.wire import uuid
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.interop import peers
from tests.interop.cluster.links import Links
from tests.interop.peers import OttlaBroker
from tests.unit.server.asking import Asking

CONTROLLERS = (1, 2, 3)
BROKERS = (1, 2, 3, 4, 5)
SECONDS_MAX = 120.0
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "request.timeout.ms": "5000",  # how long a coordinator that is cut off keeps a client waiting
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Node(OttlaBroker):
    """One node, which learns its neighbours when it starts."""

    def __init__(self, directory: Path, node_id: int, settings: Mapping[str, str]) -> None:
        super().__init__(directory)
        self.node_id = node_id
        self.internal_port = peers.free_port()
        self.settings = dict(settings)
        self.format_arguments: list[str] = []

    @property
    def is_controller(self) -> bool:
        return self.node_id in CONTROLLERS

    def properties(self) -> dict[str, str]:
        listeners = f"CLIENTS://127.0.0.1:{self.port},INTERNAL://127.0.0.1:{self.internal_port}"
        if self.is_controller:
            listeners += f",CONTROLLER://127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller" if self.is_controller else "broker",
            "node.id": str(self.node_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "broker.rack": f"rack-{self.node_id}",
            "log.dirs": str(self.data),
            **self.settings,
        }

    def format_command(self) -> list[str]:
        return [word for word in super().format_command() if word != "--standalone"] + self.format_arguments

    def ask(self) -> Asking:
        return Asking(self.port)


class Five:
    """All five nodes, and their answers. Everything is killed at the end."""

    node_ids: tuple[int, ...] = BROKERS
    node_class: type[Node] = Node

    def __init__(
        self,
        directory: Path,
        *,
        links: Links | None = None,
        is_dynamic: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """With `is_dynamic` controllers find each other by controller.quorum.bootstrap.servers."""
        self.links = links
        self.nodes = {
            node_id: self.node_class(directory / f"node-{node_id}", node_id, {**SETTINGS, **(settings or {})})
            for node_id in self.node_ids
        }
        controllers = {
            node_id: self._address(node_id, self.nodes[node_id].controller_port) for node_id in CONTROLLERS
        }
        if is_dynamic:
            self._set("controller.quorum.bootstrap.servers", ",".join(controllers.values()))
            first = [f"{node_id}@{one}:{_directory_id(node_id)}" for node_id, one in controllers.items()]
            for node_id in CONTROLLERS:
                self.nodes[node_id].format_arguments = ["--initial-controllers", ",".join(first)]
        else:
            voters = ",".join(f"{node_id}@{one}" for node_id, one in controllers.items())
            self._set("controller.quorum.voters", voters)
        for node_id, node in self.nodes.items():
            self._advertise(node, controllers.get(node_id))

    def _set(self, name: str, value: str) -> None:
        for node in self.nodes.values():
            node.settings[name] = value

    def _address(self, node_id: int, port: int) -> str:
        """The address at which other nodes reach a port of this one."""
        return f"127.0.0.1:{port if self.links is None else self.links.listen(node_id, port)}"

    def _advertise(self, node: Node, controller: str | None) -> None:
        internal = self._address(node.node_id, node.internal_port)
        advertised = f"CLIENTS://{self.client_address(node)},INTERNAL://{internal}"
        if controller is not None:
            advertised += f",CONTROLLER://{controller}"
        node.settings["advertised.listeners"] = advertised

    def client_address(self, node: Node) -> str:
        """The address at which clients reach a node."""
        return node.bootstrap

    @property
    def bootstrap(self) -> str:
        return ",".join(self.client_address(node) for node in self.nodes.values())

    @property
    def running(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.process is not None]

    def start(self, *node_ids: int) -> Self:
        """Start these nodes, or all, in parallel, since a majority is needed."""
        chosen = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in chosen:
            node.start(wait=False)
            if self.links is not None:
                self.links.know(node.node_id, node.pid)
        for node in chosen:
            node.wait_ready()
        return self

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()

    # What they say

    def partitions(self, topics: Iterable[str], *, at: int) -> dict[tuple[str, int], Any]:
        """The partitions in a node's response, with eligible leaders; empty if it does not respond."""
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in topics]
        )
        try:
            with self.nodes[at].ask() as asking:
                found = asking.ask(request, 0).topics
        except (OSError, EOFError):
            return {}
        return {(topic.name, one.partition_index): one for topic in found for one in topic.partitions}

    def wait_until_in_sync(self, topics: Mapping[str, int]) -> None:
        """Wait until every running node reports all replicas of `topics` (with their partitions) in sync,
        with leaders; existing internal topics count, too."""
        seen: dict[int, Any] = {}
        names = [*topics, "__consumer_offsets", "__transaction_state"]

        def is_whole(node_id: int) -> bool:
            found = self.partitions(names, at=node_id)
            seen[node_id] = {
                place: (one.leader_id, one.isr_nodes)
                for place, one in found.items()
                if one.leader_id < 0 or set(one.isr_nodes) != set(one.replica_nodes)
            }
            counts = {name: sum(topic == name for topic, _ in found) for name in topics}
            return not seen[node_id] and counts == topics

        try:
            for node_id in self.running:
                peers.wait_until(functools.partial(is_whole, node_id), SECONDS_MAX, f"all at {node_id}", 0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}; not whole (leader, in sync): {seen}") from None


def _directory_id(node_id: int) -> str:
    return uuid.to_text(bytes([node_id]) * 16)
