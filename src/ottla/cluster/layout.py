"""The files of a cluster on one machine: each node has a directory with server.properties and data.

The files are authoritative. They are written once, when the cluster is created, and only read afterwards, so
that manual changes persist. With static voters (`controller.quorum.voters`), addresses exist only in these
files: to move nodes to other machines, change the addresses and restart.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla import properties
from ottla.cluster.group import ClusterError, NodeGroup, NodeStart, bootstrap_servers, check_port
from ottla.cluster.ports import free_ports
from ottla.config import BrokerConfig, ConfigError
from ottla.operations.configuration import read

NODES_MAX = 100
PROPERTIES = "server.properties"
_NODE = "node-"
_CLIENTS = "PLAINTEXT"
_CONTROLLERS = "CONTROLLER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A new cluster: nodes 1 to `nodes`, of which the first `controllers` are controllers too."""

    nodes: int = 3
    controllers: int | None = None
    """Three unless given, and one in a cluster of two nodes, where two would not survive more."""
    host: str = "localhost"
    port: int = 0
    """The first node's; the other nodes take the next ones, and controllers those after. 0: free ones."""
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def controller_count(self) -> int:
        if self.controllers is not None:
            return self.controllers
        return 3 if self.nodes >= 3 else 1

    def check(self) -> None:
        if not 1 <= self.nodes <= NODES_MAX:
            raise ClusterError(f"A cluster cannot have {self.nodes} nodes. Choose 1 to {NODES_MAX}.")
        if not 1 <= self.controller_count <= self.nodes:
            raise ClusterError(
                f"A cluster of {self.nodes} nodes cannot have {self.controller_count} controllers. Choose "
                f"1 to {self.nodes}."
            )
        last = self.port + self.nodes + self.controller_count - 1
        if self.port < 0 or last > 65535:
            raise ClusterError(
                f"Ports {self.port} to {last} are outside the valid range, 0 to 65535. Choose another "
                "base port."
            )


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """One node: its directory and its configuration."""

    directory: Path
    config: BrokerConfig

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def properties(self) -> Path:
        return self.directory / PROPERTIES

    @property
    def log(self) -> Path:
        return self.directory / "node.log"

    @property
    def roles(self) -> list[str]:
        return self.start.roles

    @property
    def address(self) -> tuple[str, int] | None:
        """The address for clients."""
        return self.start.address

    @property
    def start(self) -> NodeStart:
        place = str(self.properties)
        return NodeStart(config=self.config, words=(place,), log=self.log, settings_place=place)


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster's directory and its nodes by id."""

    directory: Path
    nodes: dict[int, NodeFiles]

    @property
    def bootstrap_servers(self) -> str:
        return bootstrap_servers(node.address for node in self.nodes.values())

    @property
    def group(self) -> NodeGroup:
        nodes = {node_id: files.start for node_id, files in self.nodes.items()}
        return NodeGroup(directory=self.directory, nodes=nodes, selector=f"--data {self.directory}")

    def node(self, node_id: int) -> NodeFiles:
        if node_id not in self.nodes:
            known = ", ".join(map(str, self.nodes))
            raise ClusterError(f"This cluster has no node {node_id}. Its nodes are {known}.")
        return self.nodes[node_id]


def write_layout(directory: Path, plan: Plan) -> Layout:
    """Write the server.properties of a new cluster's nodes."""
    plan.check()
    ports = _ports(plan)
    clients, controllers = ports[: plan.nodes], ports[plan.nodes :]
    if plan.port:
        for port in ports:
            check_port(plan.host, port, "choose other ports with --port")
    directory.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    try:
        for node_id, settings in _settings(directory, plan, clients, controllers).items():
            home = directory / f"{_NODE}{node_id}"
            home.mkdir()
            made.append(home)
            lines = (f"{name}={value}\n".replace("\\", r"\\") for name, value in settings.items())
            (home / PROPERTIES).touch(mode=0o600)  # passwords may be among the settings
            (home / PROPERTIES).write_text(_HEADING.format(node_id) + "".join(lines))
        return read_layout(directory)
    except BaseException:  # a cluster is written as a whole or not at all
        for home in made:
            shutil.rmtree(home)
        raise


def _settings(
    directory: Path, plan: Plan, clients: Sequence[int], controllers: Sequence[int]
) -> dict[int, dict[str, str]]:
    """The settings of each node."""
    voters = ",".join(f"{at}@{plan.host}:{port}" for at, port in enumerate(controllers, 1))
    found = {}
    for node_id, port in enumerate(clients, 1):
        listeners = f"{_CLIENTS}://{plan.host}:{port}"
        settings = {"process.roles": "broker", "node.id": str(node_id), "listeners": listeners}
        settings["advertised.listeners"] = listeners
        if node_id <= len(controllers):
            controller = f"{_CONTROLLERS}://{plan.host}:{controllers[node_id - 1]}"
            settings["process.roles"] = "broker,controller"
            settings["listeners"] += f",{controller}"
            settings["advertised.listeners"] += f",{controller}"
        settings["controller.quorum.voters"] = voters
        settings |= _common(plan)
        settings["log.dirs"] = str((directory / f"{_NODE}{node_id}" / "data").absolute())
        found[node_id] = settings | dict(plan.overrides)
    return found


_HEADING = """\
# Node {0} of a cluster on one machine. To move it to its own machine: put that machine's name into listeners,
# advertised.listeners and broker.rack here, and into controller.quorum.voters of every node; copy the data to
# the directories in log.dirs; then start the node with kafka-server-start.sh and this file.
"""


def _common(plan: Plan) -> dict[str, str]:
    """The settings that all nodes share. Topics get up to three replicas."""
    replicas = str(min(plan.nodes, 3))
    in_sync = "2" if plan.nodes >= 3 else "1"
    return {
        "controller.listener.names": _CONTROLLERS,
        "inter.broker.listener.name": _CLIENTS,
        "listener.security.protocol.map": f"{_CLIENTS}:PLAINTEXT,{_CONTROLLERS}:PLAINTEXT",
        "broker.rack": socket.gethostname(),
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _ports(plan: Plan) -> list[int]:
    count = plan.nodes + plan.controller_count
    if plan.port:
        return list(range(plan.port, plan.port + count))
    return free_ports(count)


def is_layout(directory: Path) -> bool:
    """Whether the directory contains a cluster."""
    return any(directory.glob(f"{_NODE}*/{PROPERTIES}"))


def read_layout(directory: Path) -> Layout:
    """Read the cluster in a directory."""
    nodes: dict[int, NodeFiles] = {}
    for home in directory.glob(f"{_NODE}*"):
        file = home / PROPERTIES
        if not file.exists():
            continue
        try:
            config = BrokerConfig.load(
                properties.decode(file.read_bytes()),
                file=str(file),
                environment={},
                base_directory=str(Path.cwd()),
                read=read,
            )
        except (ConfigError, OSError, ValueError) as error:
            raise ClusterError(f"{file} is invalid: {error}") from error
        if config.node_id in nodes:
            raise ClusterError(
                f"{file} and {nodes[config.node_id].properties} have the same node.id {config.node_id}. "
                "Give each node its own node.id."
            )
        nodes[config.node_id] = NodeFiles(home, config)
    if not nodes:
        raise ClusterError(f"{directory} contains no cluster. Create one with: ottla cluster up --nodes 5")
    return Layout(directory, dict(sorted(nodes.items())))


def format_layout(layout: Layout) -> str:
    """Format new nodes for the cluster of the existing ones; returns the cluster id."""
    from ottla.host import HostClock, HostDisk, HostRandom
    from ottla.log.directories.properties import DirectoryError, read_meta
    from ottla.server.formatter import FormatError, Request, format_directories
    from ottla.wire import uuid

    disk = HostDisk()
    try:
        found = {
            node_id: meta.cluster_id
            for node_id, node in layout.nodes.items()
            for path in node.config.all_directories
            if (meta := read_meta(disk, path)) is not None
        }
        if len(set(found.values())) > 1:
            owners = ", ".join(f"node {node_id} of {one}" for node_id, one in found.items())
            raise ClusterError(
                f"The data in {layout.directory} belongs to several clusters ({owners}). Remove the data of "
                "the other cluster, or choose another directory with --data."
            )
        cluster_id = next(iter(found.values()), None) or uuid.to_text(uuid.random(HostRandom().bytes))
        request = Request(cluster_id, ignore_formatted=True)
        for node in layout.nodes.values():
            format_directories(disk, HostClock(), HostRandom(), node.config, request, lambda _: None)
    except (DirectoryError, FormatError) as error:
        raise ClusterError(
            f"The data in {layout.directory} does not match the configuration: {error}"
        ) from error
    except OSError as error:
        raise ClusterError(f"Cannot use the data in {layout.directory}: {error}") from error
    finally:
        disk.close()
    return cluster_id
