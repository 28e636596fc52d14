"""Who breaks things: picks faults by the seed, one after the other, and mends everything in the end.

Each fault is a coroutine that breaks something, waits a while and undoes it. Several may overlap. `settle`
ends them: nothing is cut or slow, every node is started, and it returns once all of them serve. `FAULTS` are
those that any story survives; `tests.sim.scenarios` has others, which know what they aim at. `deeds`
counts what was really done: a fault that found nothing to break has done nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ottla.testing.world.process import ProcessDied
from ottla.testing.world.random import stream
from ottla.testing.world.tap import Tap

if TYPE_CHECKING:
    from ottla.testing.world.nodes import SimulatedNode
    from ottla.testing.world.world import World

Fault = Callable[["Nemesis"], Coroutine[Any, Any, None]]


class Nemesis:
    """`faults` are names of `FAULTS`, or faults themselves; `pause_s` is how long it waits between two, at
    least and at most.

    `down_max` nodes may be down, cut off or paused at once; by default a minority.
    """

    def __init__(
        self,
        world: World,
        faults: Sequence[str | Fault] | None = None,
        *,
        pause_s: tuple[float, float] = (1.0, 10.0),
        lasts_s: tuple[float, float] = (0.5, 20.0),
        down_max: int | None = None,
    ) -> None:
        self.world = world
        self.chance = stream(world.seed, "nemesis")
        named = faults if faults is not None else list(FAULTS)
        self.faults = [FAULTS[fault] if isinstance(fault, str) else fault for fault in named]
        self.deeds: Counter[str] = Counter()
        self.mends: list[Callable[[], Awaitable[None]]] = []
        """What must be done in the end for faults that were not over by then."""
        self.down_max = (len(world.nodes) - 1) // 2 if down_max is None else down_max
        self._pause_s = pause_s
        self._lasts_s = lasts_s
        self._struck: dict[int, None] = {}
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._tap: Tap | None = None

    @property
    def tap(self) -> Tap:
        """Shows the requests that arrive anywhere."""
        if self._tap is None:
            self._tap = Tap(self.world.wires)
        return self._tap

    def did(self, deed: str) -> None:
        self.deeds[deed] += 1

    async def run(self, seconds: float) -> None:
        """Break things for so long, then settle."""
        until = self.world.now + seconds
        while self.faults and (wait := self.between(self._pause_s)) < until - self.world.now:
            await asyncio.sleep(wait)
            fault = self.chance.choice(self.faults)
            task = asyncio.ensure_future(fault(self))
            self._under_way[task] = None
            task.add_done_callback(self._over)
        await asyncio.sleep(max(until - self.world.now, 0.0))
        await self.settle()

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def settle(self) -> None:
        """Mend everything, and wait until every node serves."""
        under_way = list(self._under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        world = self.world
        if self._tap is not None:
            self._tap.listeners.clear()
        world.heal()
        for node in world.nodes.values():
            node.resume()
            if node.process is not None and node.clock_rate != 1.0:
                node.drift_clock(1.0)
            node.storage.quota_bytes = None
            if node.disk is not None:
                node.disk.faults.clear()
                node.disk.crash_at = None
        await asyncio.gather(*(self.revive(node) for node in world.nodes.values()))
        while self.mends:
            await self.mends.pop()()
        world.note("nemesis", "everything is mended")

    async def revive(self, node: SimulatedNode) -> None:
        """Have a node run and serve, as often as that takes."""
        while not node.is_serving:
            if not node.is_running:
                try:
                    await node.start()
                except ProcessDied:
                    await asyncio.sleep(1.0)
            else:
                await asyncio.sleep(0.1)

    # What faults are made of

    def between(self, bounds: tuple[float, float]) -> float:
        least, most = bounds
        return float(least + (most - least) * self.chance.random() ** 2)

    def least_done(self, deeds: Sequence[str]) -> str:
        """One of those that were done least, so that all have their turn."""
        least = min(self.deeds[deed] for deed in deeds)
        return self.chance.choice([deed for deed in deeds if self.deeds[deed] == least])

    def strike(self, target: SimulatedNode | None = None) -> SimulatedNode | None:
        """A node (or this one) that may be taken down now; None where enough are."""
        left = [node for node in self.world.nodes.values() if node.id not in self._struck]
        if len(self._struck) >= self.down_max or not left or (target is not None and target not in left):
            return None
        node = target if target is not None else self.chance.choice(left)
        self._struck[node.id] = None
        return node

    def two_hosts(self) -> tuple[str, str]:
        """A node and any other host, in any order."""
        node = self.chance.choice(list(self.world.nodes.values())).host
        other = self.chance.choice([host for host in self.world.hosts if host != node])
        return (node, other) if self.chance.random() < 0.5 else (other, node)

    def spare(self, node: SimulatedNode) -> None:
        self._struck.pop(node.id, None)

    async def last(self) -> None:
        await asyncio.sleep(self.between(self._lasts_s))


async def _down(nemesis: Nemesis, end: Callable[[SimulatedNode], None]) -> None:
    node = nemesis.strike()
    if node is None:
        return
    try:
        end(node)
        await nemesis.last()
        await nemesis.revive(node)
    finally:
        nemesis.spare(node)


async def _crash(nemesis: Nemesis) -> None:
    await _down(nemesis, lambda node: node.crash())


async def _power(nemesis: Nemesis) -> None:
    await _down(nemesis, lambda node: node.lose_power())


async def _crash_within_change(nemesis: Nemesis) -> None:
    node = nemesis.strike()
    if node is None:
        return
    life = node.life
    try:
        node.crash_at_change(1 + int(nemesis.chance.expovariate(1 / 20)))
        await nemesis.last()
        if node.life == life and node.disk is not None:
            node.disk.crash_at = None  # it changed less than that
        await nemesis.revive(node)
    finally:
        nemesis.spare(node)


async def _crash_all(nemesis: Nemesis) -> None:
    nodes = list(nemesis.world.nodes.values())
    for node in nodes:
        node.crash()
    await nemesis.last()
    await asyncio.gather(*(nemesis.revive(node) for node in nodes))


async def _restart(nemesis: Nemesis) -> None:
    node = nemesis.strike()
    if node is None:
        return
    try:
        await node.stop()
        await nemesis.last()
        await nemesis.revive(node)
    finally:
        nemesis.spare(node)


async def _pause(nemesis: Nemesis) -> None:
    node = nemesis.strike()
    if node is None:
        return
    try:
        node.pause()
        await nemesis.last()
    finally:
        node.resume()
        nemesis.spare(node)


async def _isolate(nemesis: Nemesis) -> None:
    node = nemesis.strike()
    if node is None:
        return
    world = nemesis.world
    others = [one.host for one in world.nodes.values() if one is not node]
    if nemesis.chance.random() < 0.5:
        others += [client.host for client in world.clients]
    try:
        world.isolate(node, others)
        await nemesis.last()
    finally:
        for other in others:
            world.wires.heal(node.host, other)
            world.wires.heal(other, node.host)
        world.note("network", f"healed {node.host}")
        nemesis.spare(node)


async def _cut_one_way(nemesis: Nemesis) -> None:
    world = nemesis.world
    source, target = nemesis.two_hosts()
    try:
        world.cut(source, target)
        await nemesis.last()
    finally:
        world.wires.heal(source, target)
        world.note("network", f"healed {source} -> {target}")


async def _reset(nemesis: Nemesis) -> None:
    nemesis.world.reset(*nemesis.two_hosts())


async def _slow(nemesis: Nemesis) -> None:
    world = nemesis.world
    source, target = nemesis.two_hosts()
    way = world.wires.way(source, target)
    before = (way.delay_s, way.jitter_s)
    if before[0] > 0.01:
        return
    try:
        world.slow(source, target, delay_s=nemesis.between((0.01, 1.0)), jitter_s=nemesis.between((0.0, 0.5)))
        await nemesis.last()
    finally:
        world.slow(source, target, delay_s=before[0], jitter_s=before[1])


async def _clock(nemesis: Nemesis) -> None:
    node = nemesis.chance.choice(list(nemesis.world.nodes.values()))
    if nemesis.chance.random() < 0.5:
        node.jump_clock(int(nemesis.chance.uniform(-30_000, 30_000)))
    else:
        node.drift_clock(nemesis.chance.uniform(0.95, 1.05))


async def _slow_disk(nemesis: Nemesis) -> None:
    node = nemesis.chance.choice(list(nemesis.world.nodes.values()))
    disk, process = node.disk, node.process
    if disk is None or process is None or disk.slow_call is not None:
        return
    chance, before = nemesis.chance, disk.delay_s
    nemesis.world.note(node.host, "its disk is slow")

    def stall(operation: str, path: str) -> None:
        if chance.random() < 0.02:
            process.stall(chance.random())

    disk.slow_call, disk.delay_s = stall, (0.01, 3.0)
    try:
        await nemesis.last()
    finally:
        disk.slow_call, disk.delay_s = None, before
        nemesis.world.note(node.host, "its disk is not slow any more")


async def _failing_disk(nemesis: Nemesis) -> None:
    node = nemesis.strike()
    if node is None:
        return
    try:
        disk = node.disk
        if disk is not None:
            operation = nemesis.chance.choice(("*", "pwrite", "fsync", "pread", "open", "rename", "remove"))
            fault = disk.fail(operation, probability=nemesis.chance.choice((0.01, 0.1, 1.0)))
            nemesis.world.note(node.host, f"its disk fails at {operation}, {fault.probability:g} of the time")
            await nemesis.last()
            disk.faults.clear()
        # Whose disk failed is looked after, and booted. Without that a sync that failed could not be seen:
        # what it dropped is still in the cache, and a node that only starts again would count on it.
        node.lose_power()
        await nemesis.revive(node)
    finally:
        nemesis.spare(node)


async def _full_disk(nemesis: Nemesis) -> None:
    node = nemesis.strike()
    if node is None:
        return
    storage = node.storage
    try:
        storage.quota_bytes = storage.used_bytes() + int(nemesis.chance.random() * 20_000)
        nemesis.world.note(node.host, "its disk is nearly full")
        await nemesis.last()
        storage.quota_bytes = None
        nemesis.world.note(node.host, "its disk has room again")
        await nemesis.revive(node)
    finally:
        storage.quota_bytes = None
        nemesis.spare(node)


FAULTS: dict[str, Fault] = {
    "crash": _crash,
    "power": _power,
    "crash within change": _crash_within_change,
    "restart": _restart,
    "pause": _pause,
    "isolate": _isolate,
    "cut": _cut_one_way,
    "reset": _reset,
    "slow": _slow,
    "clock": _clock,
    "crash all": _crash_all,
    "slow disk": _slow_disk,
    "failing disk": _failing_disk,
    "full disk": _full_disk,
}
