"""Faults at the worst moment: while their target is in the middle of an operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.testing.world import Crashed
from ottla.testing.world.nemesis import Nemesis
from ottla.testing.world.request_tap import Arrival
from tests.sim.scenarios.targets import (
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    active_controller,
    leader_of,
    leads_any,
    living_clients,
    node_at,
)

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedClient, SimulatedNode
    from tests.sim.workload.story import Story

PRODUCE, FETCH, OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP = 0, 1, 8, 11, 14
ADD_PARTITIONS_TO_TXN, END_TXN, WRITE_TXN_MARKERS, TXN_OFFSET_COMMIT = 24, 26, 27, 28
CONSUMER_GROUP_HEARTBEAT = 68


# Leaders


async def kill_the_leader(story: Story, nemesis: Nemesis) -> None:
    """Kill the leader of one partition, repeatedly."""
    topic, index = story.partitions[0]
    node = leader_of(story.world, topic, index)
    if node is None or nemesis.pick_victim(node) is None:
        return
    try:
        node.crash()
        nemesis.count("leader killed")
        await nemesis.wait_duration()
        await nemesis.start_until_serving(node)
    finally:
        nemesis.release(node)


async def kill_the_controller(story: Story, nemesis: Nemesis) -> None:
    node = active_controller(story.world)
    if node is None or nemesis.pick_victim(node) is None:
        return
    try:
        node.crash()
        nemesis.count("controller killed")
        await nemesis.wait_duration()
        await nemesis.start_until_serving(node)
    finally:
        nemesis.release(node)


async def pause_the_leader(story: Story, nemesis: Nemesis) -> None:
    """Pause the leader beyond its session: when it resumes, another node leads, and it does not know."""
    topic, index = story.partitions[0]
    node = leader_of(story.world, topic, index)
    if node is None or nemesis.pick_victim(node) is None:
        return
    try:
        node.pause()
        until = story.world.now + nemesis.between((5.0, 15.0))
        is_replaced = False
        while story.world.now < until:
            await asyncio.sleep(0.5)
            other = leader_of(story.world, topic, index)
            if not is_replaced and other is not None and other is not node:
                is_replaced = True
                nemesis.count("leader replaced in its sleep")
    finally:
        node.resume()
        nemesis.release(node)


# At a step of a protocol


class Trap:
    """Waits for a request, or for a write of the node that received it, and then kills that node (or
    another).

    `when(arrival)` says whether this is the request; `victim(arrival)` returns the node to kill.
    """

    def __init__(
        self,
        nemesis: Nemesis,
        effect: str,
        when: Callable[[Arrival], bool],
        victim: Callable[[Arrival], SimulatedNode | None],
        *,
        write: tuple[str, int] | None = None,
        wait_s: float | None = None,
    ) -> None:
        self._nemesis = nemesis
        self._effect = effect
        self._when = when
        self._victim = victim
        self._write = write
        self._wait_s = wait_s
        self.struck: SimulatedNode | None = None

    async def spring(self) -> None:
        """Wait for the request, and restart the killed node."""
        tap = self._nemesis.tap
        tap.listeners.append(self._on_arrival)
        try:
            await self._nemesis.wait_duration()
            if self.struck is not None:
                self._disarm(self.struck)
                await self._nemesis.start_until_serving(self.struck)
        finally:
            if self._on_arrival in tap.listeners:
                tap.listeners.remove(self._on_arrival)
            if self.struck is not None:
                self._disarm(self.struck)
                self._nemesis.release(self.struck)

    def _on_arrival(self, arrival: Arrival) -> None:
        if self.struck is not None or not self._when(arrival):
            return
        node = self._victim(arrival)
        if node is None or not node.is_serving or self._nemesis.pick_victim(node) is None:
            return
        self.struck = node
        if self._write is not None:
            self._arm(node, *self._write)
        elif self._wait_s is None:
            self._kill(node)
        else:
            loop = self._nemesis.world.loop
            loop.call_in_at(loop.root, loop.now + self._wait_s, self._kill, node)

    def _kill(self, node: SimulatedNode) -> None:
        if node.is_running:
            self._nemesis.count(self._effect)
            self._nemesis.world.note("nemesis", self._effect)
            node.crash()

    def _arm(self, node: SimulatedNode, path_part: str, count: int) -> None:
        """Kill it at its `count`-th write of such a file: before it, or right after."""
        disk, left, after = node.disk, count, self._wait_s is not None
        assert disk is not None
        loop = self._nemesis.world.loop

        def on_call(operation: str, path: str) -> None:
            nonlocal left
            if operation != "pwrite" or path_part not in path or not path.endswith(".log"):
                return
            left -= 1
            if left == 0 and after:
                loop.call_in(loop.root, self._kill, node)
            elif left == 0:
                self._kill(node)
                raise Crashed

        disk.slow_call = on_call

    def _disarm(self, node: SimulatedNode) -> None:
        if self._write is not None and node.disk is not None:
            node.disk.slow_call = None


async def kill_the_transaction_coordinator(story: Story, nemesis: Nemesis) -> None:
    """Kill it at each step of the end of a transaction: see `STEPS_OF_A_COMMIT`."""
    world, rng = story.world, nemesis.rng

    def at(host: str) -> SimulatedNode | None:
        return node_at(world, host)

    def ends(arrival: Arrival) -> bool:
        return arrival.api_key == END_TXN

    def marks(arrival: Arrival) -> bool:
        return arrival.api_key == WRITE_TXN_MARKERS

    step = nemesis.least_frequent(STEPS_OF_A_COMMIT)
    if step == "asked to end":
        trap = Trap(nemesis, step, ends, lambda one: at(one.target))
    elif step == "begins to end":
        trap = Trap(nemesis, step, ends, lambda one: at(one.target), wait_s=0.0005 * rng.random())
    elif step == "before the decision is written":
        trap = Trap(nemesis, step, ends, lambda one: at(one.target), write=(TRANSACTIONS_TOPIC, 1))
    elif step == "after the decision is written":
        trap = Trap(
            nemesis, step, ends, lambda one: at(one.target), write=(TRANSACTIONS_TOPIC, 1), wait_s=0.0
        )
    elif step == "markers are sent":
        trap = Trap(nemesis, step, marks, lambda one: at(one.source))
    elif step == "markers arrive":
        trap = Trap(nemesis, step, marks, lambda one: at(one.target))
    elif step == "markers are written":
        wait_s = 0.002 * rng.random()
        trap = Trap(nemesis, step, marks, lambda one: at(one.source), wait_s=wait_s)
    elif step == "before the end is written":
        trap = Trap(nemesis, step, ends, lambda one: at(one.target), write=(TRANSACTIONS_TOPIC, 2))
    else:
        trap = Trap(
            nemesis, step, ends, lambda one: at(one.target), write=(TRANSACTIONS_TOPIC, 2), wait_s=0.0
        )
    await trap.spring()


STEPS_OF_A_COMMIT = (
    "asked to end",
    "begins to end",
    "before the decision is written",
    "after the decision is written",
    "markers are sent",
    "markers arrive",
    "markers are written",
    "before the end is written",
    "after the end is written",
)


async def kill_the_group_coordinator(story: Story, nemesis: Nemesis) -> None:
    """Kill it when a member joins or syncs, at a heartbeat of a new member (KIP-848), or at its write."""
    world, rng = story.world, nemesis.rng
    api_key = rng.choice((JOIN_GROUP, JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT))

    def when(arrival: Arrival) -> bool:
        if arrival.api_key != api_key:
            return False
        return api_key != CONSUMER_GROUP_HEARTBEAT or arrival.decode().member_epoch == 0

    write = (GROUPS_TOPIC, 1 + int(3 * rng.random())) if rng.random() < 0.4 else None
    wait_s = None if rng.random() < 0.3 else nemesis.between((0.0, 0.1))
    trap = Trap(
        nemesis,
        "coordinator killed in a rebalance",
        when,
        lambda one: node_at(world, one.target),
        write=write,
        wait_s=wait_s,
    )
    await trap.spring()


async def pause_the_coordinators(story: Story, nemesis: Nemesis) -> None:
    """Pause a coordinator of groups or transactions until others have taken over."""
    topic = nemesis.rng.choice((GROUPS_TOPIC, TRANSACTIONS_TOPIC))
    nodes = [node for node in story.world.nodes.values() if leads_any(node, topic)]
    node = nemesis.rng.choice(nodes) if nodes else None
    if node is None or nemesis.pick_victim(node) is None:
        return
    try:
        node.pause()
        await asyncio.sleep(nemesis.between((4.0, 12.0)))
        nemesis.count("coordinator paused")
    finally:
        node.resume()
        nemesis.release(node)


async def cut_in_mid_produce(story: Story, nemesis: Nemesis) -> None:
    """The leader receives a request but its producer gets no response; or the request was lost."""
    world, rng = story.world, nemesis.rng
    tap = nemesis.tap
    way = rng.choice(("reset", "reset later", "cut"))
    hit: list[Arrival] = []

    def on_arrival(arrival: Arrival) -> None:
        if hit or arrival.api_key != PRODUCE or not arrival.source.startswith(_WRITERS):
            return
        hit.append(arrival)
        nemesis.count("cut in mid-produce")
        if way == "reset":
            world.reset(arrival.source, arrival.target)
        elif way == "reset later":
            loop = world.loop
            when = loop.now + 0.01 * rng.random()
            loop.call_in_at(loop.root, when, world.reset, arrival.source, arrival.target)
        else:
            world.cut(arrival.target, arrival.source)

    tap.listeners.append(on_arrival)
    try:
        await nemesis.wait_duration()
    finally:
        if on_arrival in tap.listeners:
            tap.listeners.remove(on_arrival)
        if hit and way == "cut":
            world.wires.heal(hit[0].target, hit[0].source)


_WRITERS = ("writer", "feeder", "ledger", "application", "table", "brief")


async def pause_in_a_transaction(story: Story, nemesis: Nemesis) -> None:
    """An application sleeps beyond its member's session, with a transaction open, and then continues it."""
    world, loop = story.world, story.world.loop
    hit: list[SimulatedClient] = []

    def on_arrival(arrival: Arrival) -> None:
        if hit or arrival.api_key != PRODUCE or not arrival.source.startswith("application"):
            return
        found = [one for one in living_clients(world, "application") if one.host == arrival.source]
        if found:
            hit.append(found[0])
            world.note(arrival.source, "paused in a transaction")
            nemesis.count("paused in a transaction")
            loop.call_in(loop.root, found[0].process.pause)

    tap = nemesis.tap
    tap.listeners.append(on_arrival)
    try:
        await asyncio.sleep(1.0)
        if hit:
            await asyncio.sleep(nemesis.between((9.5, 13.0)))
    finally:
        if on_arrival in tap.listeners:
            tap.listeners.remove(on_arrival)
        for client in hit:
            if not client.process.is_dead:
                world.note(client.host, "resumed")
                client.process.resume()


async def pause_a_client(story: Story, nemesis: Nemesis) -> None:
    """Pause a client in the middle of an operation; it continues as if nothing had happened."""
    clients = living_clients(story.world, *_WRITERS, "classic-group", "consumer-group")
    if not clients:
        return
    client = nemesis.rng.choice(clients)
    story.world.note(client.host, "paused")
    client.process.pause()
    nemesis.count("client paused")
    try:
        await asyncio.sleep(nemesis.between((2.0, 25.0)))
    finally:
        if not client.process.is_dead:
            story.world.note(client.host, "resumed")
            client.process.resume()
