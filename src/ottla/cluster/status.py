"""The status of a cluster, from its supervisor and from the first broker that answers."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from ottla.cluster.broker_requests import ask_cluster
from ottla.cluster.group import NodeGroup, bootstrap_servers
from ottla.cluster.supervisor import node_states, read_state


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
    log: str | None
    """None: the output of the supervisor."""


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


def cluster_status(group: NodeGroup) -> ClusterStatus:
    """The nodes of the group, and those that its supervisor runs."""
    state = read_state(group.directory) or {"pid": None, "nodes": {}}
    running = node_states(state)
    facts = {node_id: node.facts() for node_id, node in group.nodes.items()}
    facts |= {node_id: node.facts for node_id, node in running.items()}
    alive = {node_id for node_id, node in running.items() if _is_alive(node.pid)}
    ready = {node_id for node_id in alive if running[node_id].is_ready}
    metadata, leader = ask_cluster(facts[node_id].local_address for node_id in sorted(ready))
    partitions = None if metadata is None else [p for topic in metadata.topics for p in topic.partitions]
    led = Counter(partition.leader_id for partition in partitions or ())
    nodes = [
        NodeStatus(
            node_id=node_id,
            roles=one.roles,
            port=one.address[1] if one.address else None,
            controller_port=one.controller_port,
            pid=running[node_id].pid if node_id in alive else None,
            is_alive=node_id in alive,
            is_ready=node_id in ready,
            restarts=running[node_id].restarts if node_id in running else 0,
            is_quorum_leader=node_id == leader,
            partitions_led=led[node_id] if partitions is not None else None,
            log=one.log,
        )
        for node_id, one in sorted(facts.items())
    ]
    return ClusterStatus(
        directory=str(group.directory),
        bootstrap_servers=bootstrap_servers(one.address for _, one in sorted(facts.items())),
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
