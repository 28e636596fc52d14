"""The status of a cluster, from its supervisor and from the first broker that answers."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ottla.cluster.broker_requests import ask_cluster
from ottla.cluster.layout import Layout
from ottla.cluster.supervisor import read_state


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node."""

    node_id: int
    roles: list[str]
    port: int | None
    controller_port: int | None
    pid: int | None
    is_alive: bool
    is_ready: bool
    restarts: int
    is_quorum_leader: bool
    partitions_led: int | None
    """None if no broker answers."""
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The whole cluster. Fields that need a broker's answer are None if no broker answers."""

    directory: str
    bootstrap_servers: str
    supervisor_pid: int | None
    cluster_id: str | None
    quorum_leader: int | None
    partitions: int | None
    under_replicated_partitions: int | None
    offline_partitions: int | None
    nodes: list[NodeStatus]


def cluster_status(layout: Layout) -> ClusterStatus:
    state = read_state(layout.directory) or {"pid": None, "nodes": {}}
    processes: dict[int, dict[str, Any]] = {int(key): one for key, one in state["nodes"].items()}
    alive = {node_id for node_id, one in processes.items() if _is_alive(one["pid"])}
    metadata, leader = ask_cluster(layout, [one for one in alive if processes[one]["is_ready"]])
    partitions = None if metadata is None else [p for topic in metadata.topics for p in topic.partitions]
    led = Counter(partition.leader_id for partition in partitions or ())
    nodes = []
    for node_id, files in layout.nodes.items():
        process = processes.get(node_id, {})
        controllers = files.config.controller_listeners if files.config.is_controller else ()
        nodes.append(
            NodeStatus(
                node_id=node_id,
                roles=files.roles,
                port=files.address[1] if files.address else None,
                controller_port=controllers[0].port if controllers else None,
                pid=process["pid"] if node_id in alive else None,
                is_alive=node_id in alive,
                is_ready=node_id in alive and process["is_ready"],
                restarts=process.get("restarts", 0),
                is_quorum_leader=node_id == leader,
                partitions_led=led[node_id] if partitions is not None else None,
                log=str(files.log),
            )
        )
    return ClusterStatus(
        directory=str(layout.directory),
        bootstrap_servers=layout.bootstrap_servers,
        supervisor_pid=state["pid"],
        cluster_id=metadata.cluster_id if metadata is not None else None,
        quorum_leader=leader,
        partitions=None if partitions is None else len(partitions),
        under_replicated_partitions=(
            None if partitions is None else sum(len(p.isr_nodes) < len(p.replica_nodes) for p in partitions)
        ),
        offline_partitions=None if partitions is None else led[-1],
        nodes=nodes,
    )


def _is_alive(process_id: int | None) -> bool:
    if process_id is None:
        return False
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists and belongs to another user
        return True
    return True
