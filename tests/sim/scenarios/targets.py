"""Finds the targets of faults, by the current state of the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedClient, SimulatedNode, World

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


def partitions_of(node: SimulatedNode) -> list[Any]:
    """The partitions that a serving node hosts."""
    broker = node.node._broker if node.node is not None and node.is_serving else None
    return [] if broker is None or not node.is_broker else list(broker.partitions)


def leader_of(world: World, topic: str, index: int = 0) -> SimulatedNode | None:
    """The node that considers itself the leader of a partition, in the highest epoch."""
    found: list[tuple[int, int]] = [
        (partition.leader_epoch, node.id)
        for node in world.nodes.values()
        for partition in partitions_of(node)
        if partition.is_leader and (partition.topic, partition.index) == (topic, index)
    ]
    return world.nodes[max(found)[1]] if found else None


def leads_any(node: SimulatedNode, topic: str) -> bool:
    return any(one.is_leader and one.topic == topic for one in partitions_of(node))


def active_controller(world: World) -> SimulatedNode | None:
    found = [(node.active_epoch, node.id) for node in world.nodes.values() if node.active_epoch is not None]
    return world.nodes[max(found)[1]] if found else None


def node_at(world: World, host: str) -> SimulatedNode | None:
    return next((node for node in world.nodes.values() if node.host == host), None)


def living_clients(world: World, *roles: str) -> list[SimulatedClient]:
    """Clients whose role has one of these prefixes, and which are still running."""
    return [
        client
        for client in world.clients
        if client.host.startswith(roles) and not client.process.is_dead and client.process._awaited
    ]
