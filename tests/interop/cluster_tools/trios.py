"""Three nodes of one kind that are controller and broker, with a dynamic quorum; and one that may join it."""

from __future__ import annotations

import base64
import re
import socket
import struct
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.wire import frame
from ottla.wire.message import Message
from ottla.wire.messages.describe_configs import DescribeConfigsRequest as Describing
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest as Altering
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.peers import BrokerProcess, KafkaBroker, OttlaBroker

NODES = (1, 2, 3)
JOINING = 4
MARKED = "alpha"  # the topic whose settings are changed to see how far brokers are
SECONDS_MAX = 120.0
SETTINGS = {
    "broker.session.timeout.ms": "60000",  # a slow machine fences nobody
    "broker.heartbeat.interval.ms": "1000",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "500",
    "auto.create.topics.enable": "false",
}
_SMALL_HEAP = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xms64m", "-Xmx384m")


def directory_id(node_id: int) -> str:
    """The same on both sides, and none that a tool could take for an option."""
    return base64.urlsafe_b64encode(b"directory of n %d" % node_id).decode().rstrip("=")


class Member(BrokerProcess):
    """One of the nodes. Format names the directories of all, so that they need not find each other."""

    ports: dict[int, int]

    def properties(self) -> dict[str, str]:
        joins = self.node_id == JOINING
        listeners = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        known = {
            **super().properties(),
            **SETTINGS,
            "node.id": str(self.node_id),
            "process.roles": "controller" if joins else "broker,controller",
            "listeners": listeners if joins else f"PLAINTEXT://127.0.0.1:{self.port},{listeners}",
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{self.ports[node_id]}" for node_id in NODES
            ),
            "log.dirs": str(self.data),
        }
        if joins:
            del known["advertised.listeners"]
        return known

    def format_command(self) -> list[str]:
        words = super().format_command()
        words = words[: words.index("--standalone")]
        if self.node_id == JOINING:
            return [*words, "--no-initial-controllers"]
        voters = ",".join(
            f"{node_id}@127.0.0.1:{self.ports[node_id]}:{directory_id(node_id)}" for node_id in NODES
        )
        return [*words, "--initial-controllers", voters]

    def wait_ready(self) -> None:
        if self.node_id != JOINING:
            super().wait_ready()


class KafkaMember(Member, KafkaBroker):
    def __init__(self, directory: Path, controller_port: int) -> None:
        super().__init__(directory, controller_port=controller_port, jvm=_SMALL_HEAP)


class OttlaMember(Member, OttlaBroker):
    def __init__(self, directory: Path, controller_port: int) -> None:
        super().__init__(directory, controller_port=controller_port)


class Trio:
    """The nodes of one side, and what its tools print without what is its own."""

    def __init__(self, kind: str, directory: Path, tools: Tools) -> None:
        self.kind = kind
        self.directory = directory
        self.tools = tools
        made = KafkaMember if kind == "kafka" else OttlaMember
        ports = {node_id: peers.free_port() for node_id in (*NODES, JOINING)}
        self.nodes: dict[int, BrokerProcess] = {}
        for node_id, port in ports.items():
            node = made(directory / f"node-{node_id}", port)
            node.node_id = node_id
            node.ports = ports
            self.nodes[node_id] = node
        self.masks = {f"127.0.0.1:{node.port}": f"(broker {id})" for id, node in self.nodes.items()}
        self.masks |= {
            f"127.0.0.1:{node.controller_port}": f"(controller {id})" for id, node in self.nodes.items()
        }
        self.masks |= {str(node.port): f"(port {id})" for id, node in self.nodes.items()}
        self.masks |= {
            str(node.controller_port): f"(controller port {id})" for id, node in self.nodes.items()
        }
        self.masks |= {str(node.data): f"(data {id})" for id, node in self.nodes.items()}
        self.masks[str(directory)] = "(side)"
        self._changes = 0

    def start(self) -> Self:
        for node_id in NODES:
            self.nodes[node_id].start(wait=False)
        for node_id in NODES:
            self.nodes[node_id].wait_ready()
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

        def are_all_there() -> bool:
            return len(self.admin.list_topics(timeout=SECONDS_MAX).brokers) == len(NODES)

        peers.wait_until(are_all_there, SECONDS_MAX, f"three brokers of {self.kind}", pause_s=0.1)
        return self

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()

    @property
    def _live(self) -> list[int]:
        return [node_id for node_id in NODES if self.nodes[node_id].process is not None]

    @property
    def servers(self) -> str:
        return ",".join(self.nodes[node_id].bootstrap for node_id in self._live)

    @property
    def controllers(self) -> str:
        return ",".join(f"127.0.0.1:{self.nodes[node_id].controller_port}" for node_id in self._live)

    def create(self, topic: str, assignment: list[list[int]], **settings: str) -> None:
        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment, config=config)
        self.admin.create_topics([new], operation_timeout=SECONDS_MAX)[topic].result(SECONDS_MAX)
        for index, replicas in enumerate(assignment):
            self.wait_for(topic, index, leader=replicas[0], replicas=replicas)

    def fill(self, topic: str, count: int, size_bytes: int) -> None:
        """Write records to the first partition of a topic."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for _ in range(count):
            producer.produce(topic, value=b"x" * size_bytes, partition=0)
        assert producer.flush(SECONDS_MAX) == 0

    def wait_for(self, topic: str, index: int, *, leader: int, replicas: list[int]) -> None:
        """Until every live broker says so: the tools ask any of them."""

        def is_so() -> bool:
            known = self.admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
            if index not in known:
                return False
            found = known[index]
            return bool(
                found.leader == leader and found.replicas == replicas and set(found.isrs) == set(replicas)
            )

        peers.wait_until(is_so, SECONDS_MAX, f"{topic}-{index} led by {leader} on {replicas}", pause_s=0.1)
        self.settle()

    def settle(self) -> None:
        """Until every broker knows of every change so far: of one more, that is, as they come in order.

        By requests of our own: a client may ask another node than the one that it is meant for.
        """
        self._changes += 1
        value = str(1000 + self._changes)

        def is_changed() -> bool:
            entry = Altering.AlterableConfig(name="flush.messages", config_operation=0, value=value)
            resource = Altering.AlterConfigsResource(resource_type=2, resource_name=MARKED, configs=[entry])
            answer = _ask(self.nodes[self._live[0]].port, Altering(resources=[resource]), 1)
            return bool(answer.responses[0].error_code == 0)

        def knows(node_id: int) -> bool:
            resource = Describing.DescribeConfigsResource(
                resource_type=2, resource_name=MARKED, configuration_keys=["flush.messages"]
            )
            answer = _ask(self.nodes[node_id].port, Describing(resources=[resource]), 4)
            return any(entry.value == value for entry in answer.results[0].configs)

        peers.wait_until(is_changed, SECONDS_MAX, f"{self.kind} to take change {value}")
        for node_id in self._live:
            peers.wait_until(
                lambda id=node_id: knows(id),  # type: ignore[misc]
                SECONDS_MAX,
                f"broker {node_id} of {self.kind} to know of change {value}",
            )

    def run(self, main_class: str, command: str, *, through: str = "server") -> Ran:
        """A tool's command, with what is in braces put in; `through`: which kind of listener."""
        servers = self.servers if through == "server" else self.controllers
        words = command.format(side=self.directory, **self._places()).split(" ") if command else []
        place = [] if through == "nothing" else [f"--bootstrap-{through}", servers]
        return self.tools.run(main_class, *place, *words)

    def _places(self) -> dict[str, str]:
        return {f"data{node_id}": str(node.data) for node_id, node in self.nodes.items()} | {
            f"properties{node_id}": str(node.properties_file) for node_id, node in self.nodes.items()
        }

    def shown(self, ran: Ran) -> list[str]:
        return [_without_numbers(line) for line in ran.lines(self.masks)]


def _ask(port: int, request: Message, version: int) -> Any:
    assert request.API_KEY is not None
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as connection:
        connection.sendall(frame.request_frame(request, version, 7, "settle"))
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return frame.read_response(stream.read(size), request.API_KEY, version)[1]


_NUMBERS = [
    (
        re.compile(r"^(LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): -?\d+"),
        r"\1: n",
    ),
    (re.compile(r"\bEpoch: \d+"), "Epoch: n"),
    (re.compile(r"\bLocal controller \d+"), "Local controller n"),
    (re.compile(r"\bTopicId: \S+"), "TopicId: (id)"),
    (re.compile(r"\b(epoch|offset)[ =:]+\d+"), r"\1 n"),
    (re.compile(r"\b[A-Za-z0-9_-]{22}\b(?=.*\bLag\b)"), "(id)"),
]


_IN_SYNC = re.compile(r"\bIsr: ([\d,]+)")
_VOTERS = re.compile(r"\[(ReplicaKey[^]]*)\]")


def _in_order(voters: re.Match[str]) -> str:
    return "[" + ", ".join(sorted(re.findall(r"ReplicaKey\([^)]*\)", voters[1]))) + "]"


def _without_numbers(line: str) -> str:
    line = _VOTERS.sub(_in_order, line)
    line = _IN_SYNC.sub(lambda found: "Isr: " + ",".join(sorted(found[1].split(","))), line)
    for pattern, replacement in _NUMBERS:
        line = pattern.sub(replacement, line)
    return line
