"""Injects faults: the seed chooses them one after the other, and the nemesis repairs everything at the end.

Each fault is a coroutine that breaks something, waits a while and undoes it. Several may overlap.
`repair_all` ends them: it heals the network, starts every node, and returns when all of them serve. Every
workload must survive `FAULTS`; `tests.sim.scenarios` has targeted ones. `effects` counts what the faults
really did: a fault that found nothing to break is not counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ottla.testing.world.process import ProcessDied
from ottla.testing.world.random import stream
from ottla.testing.world.request_tap import Tap

if TYPE_CHECKING:
    from ottla.testing.world.nodes import SimulatedNode
    from ottla.testing.world.world import World

Fault = Callable[["Nemesis"], Coroutine[Any, Any, None]]


class Nemesis:
    """`faults` are names of `FAULTS`, or faults themselves; `pause_s` is the minimum and maximum pause
    between two.

    At most `down_max` nodes, by default a minority, are down, cut off or paused at once.
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
        self.rng = stream(world.seed, "nemesis")
        named = faults if faults is not None else list(FAULTS)
        self.faults = [FAULTS[fault] if isinstance(fault, str) else fault for fault in named]
        self.effects: Counter[str] = Counter()
        self.repairs: list[Callable[[], Awaitable[None]]] = []
        """Repairs that must run at the end because their faults were interrupted."""
        self.down_max = (len(world.nodes) - 1) // 2 if down_max is None else down_max
        self._pause_s = pause_s
        self._lasts_s = lasts_s
        self._victims: dict[int, None] = {}
        self._running: dict[asyncio.Task[None], None] = {}
        self._tap: Tap | None = None

    @property
    def tap(self) -> Tap:
        """Shows requests as they arrive at any host."""
        if self._tap is None:
            self._tap = Tap(self.world.wires)
        return self._tap

    def count(self, effect: str) -> None:
        self.effects[effect] += 1

    async def run(self, seconds: float) -> None:
        """Inject faults for so long, then repair everything."""
        until = self.world.now + seconds
        while self.faults and (wait := self.between(self._pause_s)) < until - self.world.now:
            await asyncio.sleep(wait)
            fault = self.rng.choice(self.faults)
            task = asyncio.ensure_future(fault(self))
            self._running[task] = None
            task.add_done_callback(self._over)
        await asyncio.sleep(max(until - self.world.now, 0.0))
        await self.repair_all()

    def _over(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def repair_all(self) -> None:
        """Repair everything, and wait until every node serves."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
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
        await asyncio.gather(*(self.start_until_serving(node) for node in world.nodes.values()))
        while self.repairs:
            await self.repairs.pop()()
        world.note("nemesis", "all faults are healed")

    async def start_until_serving(self, node: SimulatedNode) -> None:
        """Start a node, repeatedly if necessary, until it serves."""
        while not node.is_serving:
            if not node.is_running:
                try:
                    await node.start()
                except ProcessDied:
                    await asyncio.sleep(1.0)
            else:
                await asyncio.sleep(0.1)

    # Helpers of faults

    def between(self, bounds: tuple[float, float]) -> float:
        least, most = bounds
        return float(least + (most - least) * self.rng.random() ** 2)

    def least_frequent(self, effects: Sequence[str]) -> str:
        """One of the least frequent effects, so that all get their turn."""
        least = min(self.effects[effect] for effect in effects)
        return self.rng.choice([effect for effect in effects if self.effects[effect] == least])

    def pick_victim(self, target: SimulatedNode | None = None) -> SimulatedNode | None:
        """Pick a node (or check this one) that may go down now; None if `down_max` nodes are down."""
        left = [node for node in self.world.nodes.values() if node.id not in self._victims]
        if len(self._victims) >= self.down_max or not left or (target is not None and target not in left):
            return None
        node = target if target is not None else self.rng.choice(left)
        self._victims[node.id] = None
        return node

    def two_hosts(self) -> tuple[str, str]:
        """A node and any other host, in random order."""
        node = self.rng.choice(list(self.world.nodes.values())).host
        other = self.rng.choice([host for host in self.world.hosts if host != node])
        return (node, other) if self.rng.random() < 0.5 else (other, node)

    def release(self, node: SimulatedNode) -> None:
        self._victims.pop(node.id, None)

    async def wait_duration(self) -> None:
        await asyncio.sleep(self.between(self._lasts_s))


async def _down(nemesis: Nemesis, end: Callable[[SimulatedNode], None]) -> None:
    node = nemesis.pick_victim()
    if node is None:
        return
    try:
        end(node)
        await nemesis.wait_duration()
        await nemesis.start_until_serving(node)
    finally:
        nemesis.release(node)


async def _crash(nemesis: Nemesis) -> None:
    await _down(nemesis, lambda node: node.crash())


async def _power(nemesis: Nemesis) -> None:
    await _down(nemesis, lambda node: node.lose_power())


async def _crash_within_change(nemesis: Nemesis) -> None:
    node = nemesis.pick_victim()
    if node is None:
        return
    life = node.life
    try:
        node.crash_at_change(1 + int(nemesis.rng.expovariate(1 / 20)))
        await nemesis.wait_duration()
        if node.life == life and node.disk is not None:
            node.disk.crash_at = None  # it made fewer changes than that
        await nemesis.start_until_serving(node)
    finally:
        nemesis.release(node)


async def _crash_all(nemesis: Nemesis) -> None:
    nodes = list(nemesis.world.nodes.values())
    for node in nodes:
        node.crash()
    await nemesis.wait_duration()
    await asyncio.gather(*(nemesis.start_until_serving(node) for node in nodes))


async def _restart(nemesis: Nemesis) -> None:
    node = nemesis.pick_victim()
    if node is None:
        return
    try:
        await node.stop()
        await nemesis.wait_duration()
        await nemesis.start_until_serving(node)
    finally:
        nemesis.release(node)


async def _pause(nemesis: Nemesis) -> None:
    node = nemesis.pick_victim()
    if node is None:
        return
    try:
        node.pause()
        await nemesis.wait_duration()
    finally:
        node.resume()
        nemesis.release(node)


async def _isolate(nemesis: Nemesis) -> None:
    node = nemesis.pick_victim()
    if node is None:
        return
    world = nemesis.world
    others = [one.host for one in world.nodes.values() if one is not node]
    if nemesis.rng.random() < 0.5:
        others += [client.host for client in world.clients]
    try:
        world.isolate(node, others)
        await nemesis.wait_duration()
    finally:
        for other in others:
            world.wires.heal(node.host, other)
            world.wires.heal(other, node.host)
        world.note("network", f"healed {node.host}")
        nemesis.release(node)


async def _cut_one_way(nemesis: Nemesis) -> None:
    world = nemesis.world
    source, target = nemesis.two_hosts()
    try:
        world.cut(source, target)
        await nemesis.wait_duration()
    finally:
        world.wires.heal(source, target)
        world.note("network", f"healed {source} -> {target}")


async def _reset(nemesis: Nemesis) -> None:
    nemesis.world.reset(*nemesis.two_hosts())


async def _slow(nemesis: Nemesis) -> None:
    world = nemesis.world
    source, target = nemesis.two_hosts()
    link = world.wires.link(source, target)
    before = (link.delay_s, link.jitter_s)
    if before[0] > 0.01:
        return
    try:
        world.slow(source, target, delay_s=nemesis.between((0.01, 1.0)), jitter_s=nemesis.between((0.0, 0.5)))
        await nemesis.wait_duration()
    finally:
        world.slow(source, target, delay_s=before[0], jitter_s=before[1])


async def _clock(nemesis: Nemesis) -> None:
    node = nemesis.rng.choice(list(nemesis.world.nodes.values()))
    if nemesis.rng.random() < 0.5:
        node.jump_clock(int(nemesis.rng.uniform(-30_000, 30_000)))
    else:
        node.drift_clock(nemesis.rng.uniform(0.95, 1.05))


async def _slow_disk(nemesis: Nemesis) -> None:
    node = nemesis.rng.choice(list(nemesis.world.nodes.values()))
    disk, process = node.disk, node.process
    if disk is None or process is None or disk.slow_call is not None:
        return
    rng, before = nemesis.rng, disk.delay_s
    nemesis.world.note(node.host, "its disk is slow")

    def stall(operation: str, path: str) -> None:
        if rng.random() < 0.02:
            process.stall(rng.random())

    disk.slow_call, disk.delay_s = stall, (0.01, 3.0)
    try:
        await nemesis.wait_duration()
    finally:
        disk.slow_call, disk.delay_s = None, before
        nemesis.world.note(node.host, "its disk is not slow any more")


async def _failing_disk(nemesis: Nemesis) -> None:
    node = nemesis.pick_victim()
    if node is None:
        return
    try:
        disk = node.disk
        if disk is not None:
            operation = nemesis.rng.choice(("*", "pwrite", "fsync", "pread", "open", "rename", "remove"))
            fault = disk.fail(operation, probability=nemesis.rng.choice((0.01, 0.1, 1.0)))
            nemesis.world.note(node.host, f"its disk fails at {operation}, {fault.probability:g} of the time")
            await nemesis.wait_duration()
            disk.faults.clear()
        # An operator reboots a machine after its disk failed. A mere restart could not reveal a failed sync:
        # the cache still has what the sync dropped, and the node would rely on it.
        node.lose_power()
        await nemesis.start_until_serving(node)
    finally:
        nemesis.release(node)


async def _full_disk(nemesis: Nemesis) -> None:
    node = nemesis.pick_victim()
    if node is None:
        return
    storage = node.storage
    try:
        storage.quota_bytes = storage.used_bytes() + int(nemesis.rng.random() * 20_000)
        nemesis.world.note(node.host, "its disk is nearly full")
        await nemesis.wait_duration()
        storage.quota_bytes = None
        nemesis.world.note(node.host, "its disk has room again")
        await nemesis.start_until_serving(node)
    finally:
        storage.quota_bytes = None
        nemesis.release(node)


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
