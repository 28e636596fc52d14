"""The nodes that one machine runs from one configuration: `ottla serve --nodes`.

`derivation.py` says how they differ. Here are their directories: the first node is formatted as any node, by
`kafka-storage format` or by itself, and the others with its cluster id. A node that holds replicas is never
left out: its partitions would have no leader, and nothing would say why.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from ottla.cluster.cores import usable_cores
from ottla.cluster.derivation import (
    DIRECTORY,
    ID_STEP,
    NODES_MAX,
    CannotDerive,
    node_ids,
    node_overrides,
)
from ottla.cluster.group import ClusterError, NodeGroup, NodeStart
from ottla.cluster.ports import free_ports
from ottla.cluster.supervisor import Supervisor, stops_on_signals
from ottla.config import BrokerConfig
from ottla.operations.configuration import ConfigurationSource

AUTO = "auto"
CRASHES_MAX = 10
"""After as many crashes of a node in a row, about two minutes, the supervisor gives up."""

logger = logging.getLogger("ottla.cluster.machine")


def run_machine(source: ConfigurationSource, count: int) -> None:
    """Run the nodes until SIGTERM or Ctrl-C. Raises ClusterError, ConfigError and OSError."""
    config = source.load()
    refuse_lost_nodes(config, count)
    group = machine_group(source, count)
    if not config.auto_format:
        stored_cluster_id(config, source)
    group.directory.mkdir(parents=True, exist_ok=True)
    for line in _plan_lines(group, config):
        logger.info("%s", line)
    supervisor = Supervisor(
        group,
        lambda line: logger.warning("%s", line),
        lambda: format_nodes(group, source),
        crashes_max=CRASHES_MAX,
    )
    with stops_on_signals(supervisor.request_stop):
        supervisor.run(
            lambda cluster_id: logger.info(
                "All %d nodes of cluster %s are up. Clients connect to %s",
                len(group.nodes),
                cluster_id,
                group.bootstrap_servers,
            )
        )
    logger.info("All nodes have stopped")


def node_count(text: str) -> int:
    """The number of nodes that `--nodes` asks for; raises ValueError."""
    if text == AUTO:
        return min(usable_cores(), NODES_MAX)
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= NODES_MAX:
        return int(text)
    raise ValueError(f"--nodes {text} is not a number of nodes. Use 1 to {NODES_MAX}, or {AUTO}.")


def machine_group(
    source: ConfigurationSource,
    count: int,
    *,
    find_ports: Callable[[int], list[int]] = free_ports,
) -> NodeGroup:
    """The first `count` nodes of this machine. Raises ClusterError, ConfigError and OSError."""
    config = source.load()
    try:
        settings = node_overrides(config, count, machine=socket.gethostname(), free_ports=find_ports)
    except CannotDerive as error:
        raise ClusterError(str(error)) from error
    nodes = {}
    for node_id, overrides in settings.items():
        own = source.with_overrides(overrides)
        nodes[node_id] = NodeStart(
            config=own.load(),
            words=("--shared-log", *own.words()),
            log=None,
            has_environment=True,
            settings_place=source.file or "--port or --override listeners=...",
        )
    return NodeGroup(directory=_state_directory(config), nodes=nodes, selector=_selector(source, config))


def stored_group(source: ConfigurationSource) -> NodeGroup:
    """The nodes of this machine that have directories. They need not run."""
    config = source.load()
    numbers = [_number(config, node_id) for node_id in stored_replicas(config)]
    count = 1 + max([number for number in numbers if number is not None], default=0)
    return machine_group(source, count, find_ports=lambda count: [0] * count)


def group_in(data: Path) -> NodeGroup | None:
    """The running nodes of a machine whose first log directory is `data`; None if it has no further ones."""
    directory = data / DIRECTORY
    if not directory.is_dir():
        return None
    return NodeGroup(directory=directory, nodes={}, selector=f"--data {data}")


def stored_replicas(config: BrokerConfig) -> dict[int, int]:
    """The nodes after the first that have directories, with the number of replicas in them."""
    found: dict[int, int] = {}
    for base in config.all_directories:
        for directory in _entries(Path(base) / DIRECTORY):
            if directory.name.isdecimal() and directory.is_dir():
                node_id = int(directory.name)
                found[node_id] = found.get(node_id, 0) + sum(map(_is_replica, _entries(directory)))
    return found


def refuse_lost_nodes(config: BrokerConfig, count: int) -> None:
    """Fail if a node that would not start holds replicas."""
    try:
        ids = node_ids(config, count)
    except CannotDerive as error:
        raise ClusterError(str(error)) from error
    others = {node_id: held for node_id, held in stored_replicas(config).items() if node_id not in ids}
    lost = sorted(node_id for node_id, held in others.items() if held)
    if lost:
        needed = max(
            (number + 1 for one in lost if (number := _number(config, one)) is not None), default=None
        )
        again = "" if needed is None else f"Start with --nodes {needed}; to use fewer, move the replicas: "
        shown = ",".join(map(str, lost))
        raise ClusterError(
            f"{_nodes(lost)} of this machine would not start with --nodes {count}, but hold"
            f"{'s' if len(lost) == 1 else ''} {sum(others[one] for one in lost)} replicas below "
            f"{_state_directory(config)}. {again}ottla reassign start --drain {shown}"
        )
    for node_id in sorted(others):
        logger.info(
            "Node %d has directories without replicas and does not start. If it is not to come back, "
            "unregister it: kafka-cluster.sh unregister --id %d",
            node_id,
            node_id,
        )


def warn_of_other_nodes(config: BrokerConfig) -> None:
    """Add a warning to the configuration of a node that starts alone while others hold replicas."""
    lost = [node_id for node_id, held in sorted(stored_replicas(config).items()) if held]
    if lost:
        config.warnings += (
            f"Only this node starts, but there are replicas of other nodes of this machine, "
            f"{', '.join(map(str, lost))}, in {_state_directory(config)}. Start all of them with ottla serve "
            "FILE --nodes auto.",
        )


def _nodes(ids: list[int]) -> str:
    return f"Node{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def _number(config: BrokerConfig, node_id: int) -> int | None:
    """Which node of this machine has this id; None if none has."""
    number, rest = divmod(node_id - config.node_id, ID_STEP)
    return number if number > 0 and rest == 0 else None


def _is_replica(directory: Path) -> bool:
    from ottla.log.directories.names import Kind, parse_name
    from ottla.server.formatter import METADATA_LOG

    named = parse_name(directory.name)
    return directory.name != METADATA_LOG and named is not None and named.kind in (Kind.CURRENT, Kind.FUTURE)


def _entries(directory: Path) -> Iterator[Path]:
    try:
        yield from directory.iterdir()
    except OSError:  # it does not exist, or its disk has failed, with which the nodes deal
        return


def format_nodes(group: NodeGroup, source: ConfigurationSource) -> str:
    """Format what is not formatted: the first node if it may, the others always. Returns the cluster id."""
    from ottla.host import HostClock, HostDisk, HostRandom
    from ottla.log.directories.properties import DirectoryError
    from ottla.server.formatter import FormatError, Request, format_directories, format_if_new

    clock, random, disk = HostClock(), HostRandom(), HostDisk()
    first, *others = (node.config for node in group.nodes.values())
    try:
        format_if_new(disk, clock, random, first, logger.debug)
        cluster_id = stored_cluster_id(first, source)
        request = Request(cluster_id, ignore_formatted=True)
        for config in others:
            format_directories(disk, clock, random, config, request, logger.debug)
    except (DirectoryError, FormatError) as error:
        raise ClusterError(str(error)) from error
    except OSError as error:
        raise ClusterError(f"Cannot format the directories of the nodes: {error}") from error
    finally:
        disk.close()
    return cluster_id


def stored_cluster_id(config: BrokerConfig, source: ConfigurationSource) -> str:
    """The cluster of the first node; ClusterError if it is not formatted."""
    from ottla.host import HostDisk
    from ottla.log.directories.properties import DirectoryError, read_meta

    disk = HostDisk()
    try:
        for directory in config.all_directories:
            try:
                meta = read_meta(disk, directory)
            except OSError as error:
                logger.warning("Cannot read %s: %s", directory, error)
                continue
            if meta is not None and meta.cluster_id is not None:
                return meta.cluster_id
    except DirectoryError as error:
        raise ClusterError(str(error)) from error
    finally:
        disk.close()
    shown = source.file or "FILE"
    raise ClusterError(
        f"{', '.join(config.all_directories)} is not formatted. Format it once before the first start: "
        f"kafka-storage.sh format --cluster-id ID --config {shown}. This formats the other nodes, too."
    )


def _state_directory(config: BrokerConfig) -> Path:
    return Path(config.metadata_log_directory) / DIRECTORY


def _selector(source: ConfigurationSource, config: BrokerConfig) -> str:
    """The file, unless the command line names other directories."""
    elsewhere = {"log.dir", "log.dirs", "metadata.log.dir"} & source.overrides.keys()
    if source.file is not None and source.data is None and not elsewhere:
        return source.file
    return f"--data {os.path.relpath(config.metadata_log_directory)}"


def _plan_lines(group: NodeGroup, config: BrokerConfig) -> Iterator[str]:
    for node_id, node in group.nodes.items():
        listeners = ", ".join(map(str, node.config.listeners))
        directories = ", ".join(node.config.log_directories)
        yield f"Node {node_id} ({', '.join(node.roles)}): {listeners}; data in {directories}"
    if config.is_broker and config.rack is not None and len(group.nodes) > 1:
        yield (
            f"broker.rack={config.rack} is set, so replicas are spread over racks, and those in the same "
            "rack may share this machine"
        )
