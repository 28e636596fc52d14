"""`World(seed)`: a cluster of production nodes and clients in one process, on virtual time, with faults.

    with World(7) as world:
        world.add_nodes(3)

        async def story() -> None:
            await world.start()
            client = world.client("reader")
            async with client.admin() as admin:
                await admin.create_topics([...])
            world.crash(1)                      # kill -9
            world.cut(2, 3)                     # blocks bytes from node 2 to node 3
            await asyncio.sleep(30)             # virtual seconds
            world.heal()
            await world.restart(1)

        world.run(story())
        assert not world.unhandled

The seed decides everything that the story leaves open: delays, the order of simultaneous events, the outcome
of a power loss, every random number that nodes and clients draw. The same seed and story give the same
`trace_hash` in every process. Run a client's coroutines in `client.spawn(...)`, so that its connections and
timers die with it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import zlib
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from struct import Struct
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from ottla.testing.world.clock import SimulatedClock
from ottla.testing.world.loop import Unhandled, WorldError, WorldLoop
from ottla.testing.world.network import Wires
from ottla.testing.world.nodes import CLIENT_PORT, Plan, SimulatedClient, SimulatedNode, make_nodes
from ottla.testing.world.process import Process
from ottla.testing.world.random import SimulatedRandom, stream

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.testing.world.storage import Model

_T = TypeVar("_T")
_STEP = Struct(">dqI")
_WATCH_SECONDS = 0.25
_NEVER_S = 24 * 3600.0

WRITE_BACK_SECONDS = 10.0
"""The average interval at which a host's system writes back half of its cache."""


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the timeline."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:10.3f}  {self.who:<12} {self.what}"


class TookTooLong(WorldError):
    """The story did not end within its limit of virtual time."""


class World:
    """See the module. `keep_trace` records each step in `steps`, to find where two runs diverge."""

    def __init__(self, seed: int, *, keep_trace: bool = False, log_level: int = logging.WARNING) -> None:
        self.seed = seed
        self.loop = WorldLoop(stream(seed, "loop"))
        self.rng = stream(seed, "world")
        self.timeline: list[Event] = []
        self.logged: list[Unhandled] = []
        """Errors that production code logged: handled there, but perhaps unexpected."""
        self.nodes: dict[int, SimulatedNode] = {}
        self.clients: list[SimulatedClient] = []
        self.steps: list[tuple[float, bytes, int, int]] | None = [] if keep_trace else None
        self.wires = Wires(self.loop, stream(seed, "network"), self.trace)
        self._write_backs = stream(seed, "write back")
        self._start = self.loop.now
        self._trace = zlib.crc32(str(seed).encode())
        self._trace_count = 0
        self._cluster_id = ""
        self._seen_partitions: dict[tuple[bytes, int], int] = {}
        self._seen_epochs: dict[int, int] = {}
        self._handler = _TimelineHandler(self, log_level)
        self._logger = logging.getLogger("ottla")
        self._logger_before = (self._logger.propagate, self._logger.level)
        self._collects = gc.isenabled()
        self._is_open = False

    # Life

    def __enter__(self) -> Self:
        self._is_open = True
        self._logger.addHandler(self._handler)
        self._logger.propagate = False
        self._logger.setLevel(min(self._handler.level, logging.WARNING))
        gc.disable()
        gc.freeze()  # excludes existing objects from the collection after each run
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        try:
            for node in self.nodes.values():
                node.discard()
            for client in self.clients:
                client.process.is_dead = True
            self.loop.end()
        finally:
            self._logger.removeHandler(self._handler)
            self._logger.propagate = self._logger_before[0]
            self._logger.setLevel(self._logger_before[1])
            gc.unfreeze()
            if self._collects:
                gc.enable()

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.loop.now - self._start

    @property
    def unhandled(self) -> list[Unhandled]:
        """Exceptions that nobody has caught so far."""
        return self.loop.unhandled

    def run(self, story: Awaitable[_T], *, limit_s: float = _NEVER_S) -> _T:
        """Run an awaitable to its end, and the world with it. Raises `TookTooLong` after `limit_s`."""

        async def bounded() -> _T:
            try:
                async with asyncio.timeout(limit_s) as bound:
                    return await story
            except TimeoutError as error:
                if not bound.expired():
                    raise
                raise TookTooLong(
                    f"After {limit_s:g} virtual seconds the scenario has not finished. "
                    f"{self.loop.describe_waiting()}"
                ) from error

        outcome = self.loop.run_until_complete(bounded())
        gc.collect()  # asyncio reports an unretrieved exception when its task is collected
        return outcome

    # Events

    def note(self, who: str, what: str) -> None:
        """Add a line to the timeline; it is part of the trace hash."""
        self.timeline.append(Event(self.now, who, what))
        self.trace(b"note", len(self.timeline), zlib.crc32(f"{who} {what}".encode()))

    def trace(self, kind: bytes, number: int, value: int) -> None:
        self._trace = zlib.crc32(kind + _STEP.pack(self.loop.now, number, value), self._trace)
        self._trace_count += 1
        if self.steps is not None:
            self.steps.append((self.loop.now, kind, number, value))

    @property
    def trace_hash(self) -> str:
        """A hash of everything received and of every line of the timeline, with its time."""
        return f"{self._trace:08x}-{self._trace_count}-{self.loop.turns}"

    def history(self, last: int | None = None) -> str:
        """The timeline as text."""
        events = self.timeline if last is None else self.timeline[-last:]
        return "\n".join(map(str, events))

    def picture(self) -> str:
        """The timeline as an SVG document."""
        from ottla.testing.world.timeline_svg import picture

        return picture(self.timeline, title=f"seed {self.seed}, {self.now:.0f} virtual seconds")

    # Nodes

    def add_nodes(
        self,
        count: int,
        *,
        controllers: int | None = None,
        combined: bool = True,
        dynamic: bool = False,
        disks: int = 1,
        settings: Mapping[str, str] | None = None,
        model: Model | None = None,
    ) -> list[SimulatedNode]:
        """Create nodes 1 to `count`, all brokers; the first `controllers` (3, if there are as many) are
        controllers, too. With `combined=False` controllers are separate nodes, from 101 on. With
        `dynamic=True` voters can be added and removed; then all combined nodes are controllers, and the first
        `controllers` of them are voters.

        Each node has `disks` disks with a log directory on each.

        `settings` are as in server.properties. `model` is the model of the file systems (see `storage.py`);
        by default the seed chooses it.
        """
        models: tuple[Model, Model] = ("posix", "journaled")
        chosen = self.rng.choice(models) if model is None else model
        if not self.nodes:
            self.loop.create_task(self._watch())
        plan = Plan(
            count=count,
            controllers=controllers,
            combined=combined,
            dynamic=dynamic,
            disks=disks,
            settings=settings or {},
            model=chosen,
        )
        made = make_nodes(self, plan)
        self.nodes |= {node.id: node for node in made}
        return made

    def node(self, node: int | SimulatedNode) -> SimulatedNode:
        return node if isinstance(node, SimulatedNode) else self.nodes[node]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{node.host}:{CLIENT_PORT}" for node in self.nodes.values() if node.is_broker)

    @property
    def running(self) -> list[SimulatedNode]:
        """Nodes whose process is alive, even if paused."""
        return [node for node in self.nodes.values() if node.is_running]

    async def start(self, *nodes: int) -> None:
        """Start these nodes, or all, and wait until they serve."""
        started = [self.nodes[one] for one in nodes] or list(self.nodes.values())
        await asyncio.gather(*(node.start() for node in started if not node.is_running))

    async def stop(self, *nodes: int) -> None:
        """Stop these nodes, or all, cleanly."""
        stopped = [self.nodes[one] for one in nodes] or list(self.nodes.values())
        await asyncio.gather(*(node.stop() for node in stopped if node.is_running))

    async def restart(self, *nodes: int) -> None:
        """Start these nodes, or all, in whatever state they are, and wait until they serve."""
        await self.start(*nodes)

    def crash(self, node: int | SimulatedNode) -> None:
        """kill -9: written data stays in the system's cache and is not lost."""
        self.node(node).crash()

    def lose_power(self, node: int | SimulatedNode) -> None:
        """Cut the power: unsynced writes are lost or torn, and the host is silent until it starts again."""
        self.node(node).lose_power()

    def pause(self, node: int | SimulatedNode) -> None:
        """SIGSTOP."""
        self.node(node).pause()

    def resume(self, node: int | SimulatedNode) -> None:
        """SIGCONT."""
        self.node(node).resume()

    # Network

    def _host(self, one: int | str | SimulatedNode | SimulatedClient) -> str:
        if isinstance(one, str):
            return one
        return self.nodes[one].host if isinstance(one, int) else one.host

    @property
    def hosts(self) -> list[str]:
        return [*(node.host for node in self.nodes.values()), *(client.host for client in self.clients)]

    def cut(
        self,
        source: int | str | SimulatedNode | SimulatedClient,
        target: int | str | SimulatedNode | SimulatedClient,
        *,
        both: bool = False,
    ) -> None:
        """Block one direction between two hosts; with `both`, both directions."""
        first, second = self._host(source), self._host(target)
        self.note("network", f"cut {first} -{'/' if both else ''}-> {second}")
        self.wires.cut(first, second)
        if both:
            self.wires.cut(second, first)

    def isolate(
        self, one: int | str | SimulatedNode | SimulatedClient, others: Iterable[str] | None = None
    ) -> None:
        """Block both directions between a host and these hosts, or all others."""
        host = self._host(one)
        for other in self.hosts if others is None else others:
            if other != host:
                self.cut(host, other, both=True)

    def partition(self, *groups: Iterable[int | str]) -> None:
        """Separate hosts of different groups from each other."""
        named = [[self._host(one) for one in group] for group in groups]
        for index, group in enumerate(named):
            for other in named[index + 1 :]:
                for first in group:
                    for second in other:
                        self.cut(first, second, both=True)

    def heal(self) -> None:
        """Heal every cut."""
        self.note("network", "healed")
        self.wires.heal_all()

    def reset(
        self,
        first: int | str | SimulatedNode | SimulatedClient,
        second: int | str | SimulatedNode | SimulatedClient,
    ) -> None:
        """Break the connections between two hosts."""
        one, other = self._host(first), self._host(second)
        count = self.wires.reset(one, other)
        self.note("network", f"reset {count} connections of {one} and {other}")

    def slow(
        self,
        source: int | str | SimulatedNode | SimulatedClient,
        target: int | str | SimulatedNode | SimulatedClient,
        *,
        delay_s: float,
        jitter_s: float = 0.0,
        bytes_per_second: float | None = None,
    ) -> None:
        """Set the latency and bandwidth from one host to another."""
        first, second = self._host(source), self._host(target)
        link = self.wires.link(first, second)
        link.delay_s, link.jitter_s, link.bytes_per_second = delay_s, jitter_s, bytes_per_second
        self.note("network", f"{first} -> {second} takes {delay_s * 1000:g} ms")

    # Clients

    def client(self, name: str) -> SimulatedClient:
        """Add a host with a process for client code. A name can be used only once."""
        if name in self.hosts:
            raise WorldError(f"Host {name} already exists. Give each client its own name.")
        process = Process(self.loop, name, name)
        rng = stream(self.seed, name)
        clock = SimulatedClock(process, start=self._start)
        client = SimulatedClient(self, process, clock, SimulatedRandom(rng), self.wires.network_of(process))
        self.clients.append(client)
        return client

    # Observation

    def record_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Record each change of a partition's leader or ISR when the first node learns of it."""
        changed = [
            (topic_id, index) for topic_id, found in delta.partitions_changed.items() for index in found
        ]
        for topic_id, index in changed:
            topic = image.topics.get(topic_id)
            partition = image.partition(topic_id, index)
            if topic is None or partition is None:
                continue
            key = (topic_id, index)
            if partition.partition_epoch > self._seen_partitions.get(key, -1):
                self._seen_partitions[key] = partition.partition_epoch
                leads = f"led by {partition.leader} in epoch {partition.leader_epoch}"
                self.note(f"{topic.name}-{index}", f"{leads}, in sync {[*partition.isr]}")

    async def _watch(self) -> None:
        """Record the quorum's leader, and let systems write their caches back from time to time."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for node in self.nodes.values():
                if self._write_backs.random() < _WATCH_SECONDS / WRITE_BACK_SECONDS:
                    node.storage.write_back(self._write_backs)
                epoch = node.active_epoch
                if epoch is not None and self._seen_epochs.get(epoch) != node.id:
                    if epoch in self._seen_epochs:
                        self.note(
                            node.host,
                            f"LEADS the quorum in epoch {epoch}, as {self._seen_epochs[epoch]} does",
                        )
                    self._seen_epochs[epoch] = node.id
                    self.note(node.host, f"leads the quorum in epoch {epoch}")


class _TimelineHandler(logging.Handler):
    """Adds the log of production code to the timeline.

    A world runs in a single thread. Records of other threads (a real broker in a test, say) do not belong to
    it and go to the usual handlers.
    """

    def __init__(self, world: World, level: int) -> None:
        super().__init__(level)
        self._world = world
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        if record.thread != self._thread:
            logging.getLogger().handle(record)
            return
        process = world.loop.current
        if process.is_dead:
            return
        text = record.getMessage()
        world.note(process.name, f"{record.levelname}: {text}")
        if record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            world.logged.append(
                Unhandled(world.now, process.name, f"{text} {error!r}" if error else text, error)
            )
