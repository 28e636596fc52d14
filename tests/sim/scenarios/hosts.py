"""Faults of hosts and of the network between them, beyond the random ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.testing.world.nemesis import Nemesis
from ottla.testing.world.request_tap import Arrival
from tests.sim.scenarios.targets import leader_of, partitions_of

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedNode, World
    from tests.sim.workload.story import Story

FETCH_SNAPSHOT = 59


async def lose_all_power(story: Story, nemesis: Nemesis) -> None:
    """Cut the power of all hosts at once."""
    nodes = list(story.world.nodes.values())
    for node in nodes:
        node.lose_power()
    nemesis.count("all lost power")
    await nemesis.wait_duration()
    await asyncio.gather(*(nemesis.start_until_serving(node) for node in nodes))


async def start_a_majority(story: Story, nemesis: Nemesis) -> None:
    """Kill all nodes, and restart only a majority for a while."""
    nodes = list(story.world.nodes.values())
    controllers = [node for node in nodes if node.config.is_controller]
    nemesis.rng.shuffle(controllers)
    late = controllers[: (len(controllers) - 1) // 2][: nemesis.down_max]
    for node in nodes:
        node.crash()
    nemesis.count("all killed")
    await asyncio.sleep(nemesis.between((0.0, 3.0)))
    await asyncio.gather(*(nemesis.start_until_serving(node) for node in nodes if node not in late))
    await nemesis.wait_duration()
    await asyncio.gather(*(nemesis.start_until_serving(node) for node in late))


async def cut_two_off(story: Story, nemesis: Nemesis) -> None:
    """Two nodes are disconnected from each other; all others reach both."""
    world = story.world
    first, second = nemesis.rng.sample(list(world.nodes.values()), 2)
    one_way = nemesis.rng.random() < 0.3
    try:
        world.cut(first, second, both=not one_way)
        nemesis.count("cut between two")
        await nemesis.wait_duration()
    finally:
        world.wires.heal(first.host, second.host)
        world.wires.heal(second.host, first.host)
        world.note("network", f"healed {first.host} and {second.host}")


async def cut_in_halves(story: Story, nemesis: Nemesis) -> None:
    """A minority on one side, with some of the clients; the rest on the other."""
    world, rng = story.world, nemesis.rng
    nodes = list(world.nodes.values())
    minority = rng.sample(nodes, 1 + int(rng.random() * nemesis.down_max))
    struck = [node for node in minority if nemesis.pick_victim(node) is not None]
    if not struck:
        return
    hosts = [node.host for node in struck]
    hosts += [one.host for one in world.clients if not one.process.is_dead and rng.random() < 0.3]
    others = [host for host in world.hosts if host not in hosts]
    try:
        for host in hosts:
            for other in others:
                world.wires.cut(host, other)
                world.wires.cut(other, host)
        world.note("network", f"{', '.join(hosts)} are on their own")
        nemesis.count("cut in halves")
        await nemesis.wait_duration()
    finally:
        for host in hosts:
            for other in others:
                world.wires.heal(host, other)
                world.wires.heal(other, host)
        world.note("network", f"{', '.join(hosts)} are back")
        for node in struck:
            nemesis.release(node)


async def hold_a_follower_back(story: Story, nemesis: Nemesis) -> None:
    """The leader's traffic to one follower is slow: it lags, and drops out of the ISR."""
    world = story.world
    topic, index = story.partitions[0]
    leader = leader_of(world, topic, index)
    followers = [node for node in world.nodes.values() if node.is_broker and node is not leader]
    if leader is None or not followers:
        return
    follower = nemesis.rng.choice(followers)
    way = world.wires.link(leader.host, follower.host)
    if way.bytes_per_second is not None:
        return
    way.bytes_per_second = nemesis.rng.choice((200.0, 1000.0, 5000.0))
    world.note("network", f"{leader.host} -> {follower.host} carries {way.bytes_per_second:g} bytes a second")
    nemesis.count("follower held back")
    try:
        await nemesis.wait_duration()
    finally:
        way.bytes_per_second = None
        way.free_at = min(way.free_at, world.loop.now)
        world.note("network", f"{leader.host} -> {follower.host} is as fast as before")


async def leave_one_standing(story: Story, nemesis: Nemesis) -> None:
    """All in-sync replicas but the leader drop out, then the leader loses its unflushed records. The replicas
    that dropped out last have everything that was acknowledged: one of them must lead."""
    world = story.world
    topic, index = story.partitions[0]
    leader = leader_of(world, topic, index)
    brokers = [node for node in world.nodes.values() if node.is_broker]
    if leader is None or any(nemesis.pick_victim(node) is None for node in brokers):
        return
    others = [node for node in brokers if node is not leader]
    nemesis.rng.shuffle(others)
    try:
        for node in others:
            if nemesis.rng.random() < 0.5:
                await node.stop()
            else:
                node.pause()
            await asyncio.sleep(nemesis.between((0.0, 3.0)))
        await _wait(lambda: _in_sync(leader, topic, index) == 1, 20.0)
        if _in_sync(leader, topic, index) == 1:
            nemesis.count("last one standing lost its tail")
        leader.lose_power()
        await asyncio.sleep(nemesis.between((0.0, 3.0)))
        for node in others:
            node.resume()
        revived = [leader, *others] if nemesis.rng.random() < 0.5 else [*others, leader]
        await asyncio.gather(*(nemesis.start_until_serving(node) for node in revived))
    finally:
        for node in brokers:
            node.resume()
            nemesis.release(node)


def _in_sync(node: SimulatedNode, topic: str, index: int) -> int:
    found = [one for one in partitions_of(node) if (one.topic, one.index) == (topic, index)]
    return len(found[0].isr) if found and found[0].is_leader else 0


async def _wait(holds: object, seconds: float) -> None:
    for _ in range(int(seconds / 0.2)):
        if holds():  # type: ignore[operator]
            return
        await asyncio.sleep(0.2)


def others_have_all(world: World, node: SimulatedNode) -> bool:
    """Whether each partition has a leader and a serving in-sync replica besides this node; otherwise its disk
    must not be lost."""
    led: dict[tuple[str, int], tuple[int, list[int]]] = {}
    hosted: set[tuple[str, int]] = set()
    for other in world.nodes.values():
        for one in partitions_of(other):
            hosted.add((one.topic, one.index))
            if one.is_leader and led.get((one.topic, one.index), (-1, []))[0] < one.leader_epoch:
                led[one.topic, one.index] = (one.leader_epoch, list(one.isr))
    return hosted == led.keys() and all(
        any(replica != node.id and world.nodes[replica].is_serving for replica in in_sync)
        for _, in_sync in led.values()
    )


async def replace_a_disk(story: Story, nemesis: Nemesis) -> None:
    """A broker returns with a new disk, and gets metadata from a snapshot and records from the others."""
    world = story.world
    candidates = [node for node in world.nodes.values() if node.is_broker and not node.config.is_controller]
    if not candidates:
        return
    node = nemesis.pick_victim(nemesis.rng.choice(candidates))
    if node is None:
        return
    if not others_have_all(world, node):
        nemesis.release(node)
        return

    def on_arrival(arrival: Arrival) -> None:
        if arrival.api_key == FETCH_SNAPSHOT and arrival.source == node.host:
            nemesis.count("snapshot fetched")
            tap.listeners.remove(on_arrival)

    tap = nemesis.tap
    tap.listeners.append(on_arrival)
    try:
        node.crash()
        node.wipe()
        await asyncio.sleep(nemesis.between((0.0, 3.0)))
        nemesis.count("disk replaced")
        await nemesis.start_until_serving(node)
        await nemesis.wait_duration()
    finally:
        if on_arrival in tap.listeners:
            tap.listeners.remove(on_arrival)
        nemesis.release(node)
