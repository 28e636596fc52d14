"""Nodes and clients of the simulated world: production code on simulated ports, in processes that can die."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.testing.world.clock import SimulatedClock
from ottla.testing.world.disk import SimulatedDisk
from ottla.testing.world.network import SimulatedNetwork
from ottla.testing.world.process import Process, ProcessDied
from ottla.testing.world.random import SimulatedRandom, stream
from ottla.testing.world.storage import Model, Storage

if TYPE_CHECKING:
    from ottla.aio import Admin, Consumer, Producer
    from ottla.config import BrokerConfig
    from ottla.server.formatter import Request
    from ottla.server.node import Node
    from ottla.testing.world.world import World

_T = TypeVar("_T")

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
FIRST_CONTROLLER = 101
"""The id of the first controller that is not a broker."""

_SETTINGS = {
    # As in ottla.testing.Cluster: stories wait for the next leader, and for the first join of a group.
    "broker.heartbeat.interval.ms": "1000",
    "broker.session.timeout.ms": "4000",
    "group.initial.rebalance.delay.ms": "0",
    # An idle quorum writes no-op records, which wake every node: half of an idle cluster's work.
    "metadata.max.idle.interval.ms": "5000",
    # Each follower polls each leader, whose response takes this long if nothing happens.
    "replica.fetch.wait.max.ms": "2000",
    # In memory, for each node.
    "ottla.metadata.reserve.bytes": "16384",
    # Few partitions, so that each has much traffic and the setup is small.
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
}


class SimulatedNode:
    """A host with a disk, on which a node can run repeatedly."""

    def __init__(self, world: World, config: BrokerConfig, plan: Plan, cluster_id: str) -> None:
        self.world = world
        self.config = config
        self.id = config.node_id
        self.host = _host(self.id)
        self.storage = Storage(plan.model)
        self._plan = plan
        self._cluster_id = cluster_id
        self._formatted = 0
        self.clock_offset_ms = 0
        self.clock_rate = 1.0
        self.life = 0
        self.process: Process | None = None
        self.disk: SimulatedDisk | None = None
        self.clock: SimulatedClock | None = None
        self.node: Node | None = None
        self.is_serving = False
        self.failure: str | None = None
        """The reason why the last process ended by itself, if it did."""
        self._stopping: asyncio.Event | None = None
        self._ended: asyncio.Future[None] | None = None

    @property
    def is_broker(self) -> bool:
        return self.config.is_broker

    @property
    def log_directories(self) -> list[str]:
        """Each on its own disk."""
        return self._plan.log_directories(self.host)

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    @property
    def active_epoch(self) -> int | None:
        """The epoch in which the node believes to lead the quorum."""
        quorum = self.node._quorum if self.node is not None else None
        return quorum.epoch if quorum is not None and quorum.is_active else None

    # The disk

    def format(self, request: Request) -> None:
        """Give it an empty disk, formatted as `kafka-storage format` does."""
        from ottla.server.formatter import format_directories

        assert self.process is None, f"{self.host} is running: stop or crash it first"
        self._formatted += 1
        rng = stream(self.world.seed, self.host, "format", self._formatted)
        clock = SimulatedClock(self.world.loop.root, start=self.world.loop.start)
        self.storage = Storage(self._plan.model)
        disk = SimulatedDisk(rng, storage=self.storage, now_ms=clock.now_ms)
        for path in self.log_directories:
            disk.mount(path)
        format_directories(disk, clock, SimulatedRandom(rng), self.config, request, lambda _: None)
        self.storage.sync_all()

    def wipe(self) -> None:
        """Replace its disk by an empty one. The node loses its data, and is no longer a voter if voters are
        dynamic."""
        from ottla.server.formatter import Request

        self.world.note(self.host, "has a new disk")
        is_dynamic = self._plan.dynamic and self._plan.is_controller(self.id)
        self.format(Request(self._cluster_id, no_initial_controllers=is_dynamic))

    # Life

    async def start(self) -> None:
        """Start it and wait until it serves; raises ProcessDied if it dies before that."""
        from ottla.server.node import Node

        assert self.process is None, f"{self.host} is already running"
        world = self.world
        self.life += 1
        process = self.process = Process(world.loop, f"{self.host}#{self.life}", self.host)
        if self.clock_rate != 1.0:
            process.set_rate(self.clock_rate)
        rng = stream(world.seed, self.host, self.life)
        clock = self.clock = SimulatedClock(
            process, start=world.loop.now - world.now, offset_ms=self.clock_offset_ms
        )
        self.disk = SimulatedDisk(
            stream(world.seed, self.host, self.life, "disk"), storage=self.storage, now_ms=clock.now_ms
        )
        world.wires.power_on(self.host)
        self.node = Node(
            self.config,
            clock=clock,
            random=SimulatedRandom(rng),
            disk=self.disk,
            network=world.wires.network_of(process),
        )
        self.failure = None
        world.note(self.host, "starts")
        serving: asyncio.Future[None] = world.loop.create_future()
        self._ended = process.spawn(self._serve(self.node, serving, process))
        ended = self._ended
        waited: list[asyncio.Future[None]] = [serving, ended]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            raise ProcessDied(f"{self.host} did not start: {self.failure or 'it was killed'}")

    async def _serve(self, node: Node, serving: asyncio.Future[None], process: Process) -> None:
        """The main program of a node, from start to end."""
        stopping = self._stopping = asyncio.Event()
        try:
            await node.start()
            self.is_serving = True
            self.world.note(self.host, "serves")
            node.broker.quorum.subscribe(self.world.record_metadata)
            if not serving.done():
                serving.set_result(None)
            stopped = asyncio.ensure_future(stopping.wait())
            assert node.failure is not None
            waited: list[asyncio.Future[Any]] = [node.failure, stopped]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            self.is_serving = False  # shutting down may take a while
            stopped.cancel()
            if node.failure.done():
                self.failure = repr(node.failure.exception())
                self.world.note(self.host, f"fails: {self.failure}")
            await node.stop()
        except Exception as error:  # noqa: BLE001 - it ends the program
            self.failure = repr(error)
            self.world.note(self.host, f"ends: {self.failure}")
        else:
            self.world.note(self.host, "stopped")
        self.world.loop.call_in(self.world.loop.root, self._exit, process)

    def _exit(self, process: Process) -> None:
        if self.process is process:
            self._end(power_lost=False)

    async def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does."""
        ended = self._ended
        if self._stopping is None or ended is None:
            return
        self._stopping.set()
        await asyncio.wait([ended])

    def crash(self) -> None:
        if self.process is not None:
            self.world.note(self.host, "killed")
            self._end(power_lost=False)

    def lose_power(self) -> None:
        if self.host in self.world.wires.powered_off:
            return
        self.world.note(self.host, "loses power")
        self.world.wires.power_off(self.host)
        self._end(power_lost=True)
        self.storage.lose_power_randomly(stream(self.world.seed, self.host, self.life, "power"))

    def crash_at_change(self, count: int, *, power_lost: bool = True) -> None:
        """Let it die within its `count`-th disk change from now on."""
        if self.disk is not None:
            self.disk.crash_at = (count, self.lose_power if power_lost else self.crash)

    def _end(self, *, power_lost: bool) -> None:
        process, self.process = self.process, None
        self.is_serving = False
        failure = self.node.failure if self.node is not None else None
        if failure is not None and failure.done() and not failure.cancelled():
            failure.exception()  # marks it as retrieved: its reader is dead
        self.node = self.clock = None
        if self.disk is not None:
            self.clock_rate = process.rate if process is not None else self.clock_rate
            self.disk.die()
            self.disk = None
        if process is not None:
            process.kill()
            self.world.wires.process_died(process, power_lost=power_lost)

    def discard(self) -> None:
        """The world ends: drop the process without any fault."""
        if self.process is not None:
            self.process.is_dead = True
        if self.disk is not None:
            self.disk.die()

    def pause(self) -> None:
        if self.process is not None and not self.process.is_paused:
            self.world.note(self.host, "paused")
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self.world.note(self.host, "resumed")
            self.process.resume()

    # Clocks

    def jump_clock(self, milliseconds: int) -> None:
        """Set its time of day forward or back."""
        self.world.note(self.host, f"its clock jumps by {milliseconds} ms")
        self.clock_offset_ms += milliseconds
        if self.clock is not None:
            self.clock.offset_ms = self.clock_offset_ms

    def drift_clock(self, rate: float) -> None:
        """Let its clocks run at `rate` times the normal speed."""
        self.world.note(self.host, f"its clock runs {rate:g} times as fast")
        self.clock_rate = rate
        if self.process is not None:
            self.process.set_rate(rate)


class SimulatedClient:
    """A process for client code, on its own host. `spawn` runs coroutines in it."""

    def __init__(
        self,
        world: World,
        process: Process,
        clock: SimulatedClock,
        random: SimulatedRandom,
        network: SimulatedNetwork,
    ) -> None:
        self.world = world
        self.process = process
        self.host = process.host
        self.clock = clock
        self.random = random
        self.network = network
        self._made = 0

    def spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Future[_T]:
        """Run a coroutine here; the caller awaits the future, which fails with ProcessDied if the process
        dies."""
        return self.process.spawn(work)

    def kill(self) -> None:
        """kill -9."""
        self.world.note(self.host, "killed")
        self.process.kill()
        self.world.wires.process_died(self.process, power_lost=False)

    def _settings(self, given: dict[str, Any]) -> dict[str, Any]:
        # Clients number themselves per real process, which may have run other worlds before.
        self._made += 1
        own = {"bootstrap_servers": self.world.bootstrap_servers, "client_id": f"{self.host}-{self._made}"}
        return {**own, **given}

    def producer(self, **settings: Any) -> Producer:
        """An `ottla.aio.Producer` of this host. Create and use it in `spawn`."""
        from ottla.aio import Producer

        return Producer(
            clock=self.clock, network=self.network, random=self.random, **self._settings(settings)
        )

    def consumer(self, **settings: Any) -> Consumer[Any, Any]:
        """An `ottla.aio.Consumer` of this host. Create and use it in `spawn`."""
        from ottla.aio import Consumer

        return Consumer(
            clock=self.clock, network=self.network, random=self.random, **self._settings(settings)
        )

    def admin(self, **settings: Any) -> Admin:
        """An `ottla.aio.Admin` of this host. Create and use it in `spawn`."""
        from ottla.aio import Admin

        return Admin(clock=self.clock, network=self.network, random=self.random, **self._settings(settings))


def _host(node_id: int) -> str:
    return f"node-{node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a new cluster. See `World.add_nodes`."""

    count: int
    controllers: int | None = None
    combined: bool = True
    dynamic: bool = False
    disks: int = 1
    settings: Mapping[str, str]
    model: Model

    def log_directories(self, host: str) -> list[str]:
        return [f"/{host}/data{number or ''}" for number in range(self.disks)]

    @property
    def brokers(self) -> list[int]:
        return list(range(1, self.count + 1))

    @property
    def voters(self) -> list[int]:
        """The initial voters of the quorum."""
        chosen = self.controllers if self.controllers is not None else (3 if self.count >= 3 else 1)
        return self.brokers[:chosen] if self.combined else [FIRST_CONTROLLER + one for one in range(chosen)]

    @property
    def node_ids(self) -> list[int]:
        return list(dict.fromkeys([*self.brokers, *self.voters]))

    def is_controller(self, node_id: int) -> bool:
        return node_id in self.voters or (self.dynamic and self.combined)


def make_nodes(world: World, plan: Plan) -> list[SimulatedNode]:
    """Create and format the nodes of a cluster."""
    from ottla.config import BrokerConfig
    from ottla.server.formatter import Request
    from ottla.wire import uuid

    random = SimulatedRandom(stream(world.seed, "format"))
    cluster_id = uuid.to_text(uuid.random(random.bytes))
    first: str | None = None
    if plan.dynamic:
        first = ",".join(
            f"{_controller(one)}:{uuid.to_text(uuid.random(random.bytes))}" for one in plan.voters
        )
    made = []
    for node_id in plan.node_ids:
        given = _properties(node_id, plan)
        text = "".join(f"{name}={value}\n" for name, value in given.items())
        config = BrokerConfig.load(text, file=f"{_host(node_id)}/server.properties", environment={})
        is_spare = plan.dynamic and plan.is_controller(node_id) and node_id not in plan.voters
        node = SimulatedNode(world, config, plan, cluster_id)
        node.format(
            Request(
                cluster_id,
                initial_controllers=first if node_id in plan.voters else None,
                no_initial_controllers=is_spare,
            )
        )
        world.wires.hosts.add(node.host)
        made.append(node)
    return made


def _controller(node_id: int) -> str:
    return f"{node_id}@{_host(node_id)}:{CONTROLLER_PORT}"


def _properties(node_id: int, plan: Plan) -> dict[str, str]:
    host = _host(node_id)
    roles, addresses = [], []
    if node_id in plan.brokers:
        roles.append("broker")
        addresses.append(f"PLAINTEXT://{host}:{CLIENT_PORT}")
    if plan.is_controller(node_id):
        roles.append("controller")
        addresses.append(f"CONTROLLER://{host}:{CONTROLLER_PORT}")
    listeners = ",".join(addresses)
    replicas, in_sync = str(min(plan.count, 3)), "2" if plan.count >= 3 else "1"
    if plan.dynamic:
        servers = ",".join(f"{_host(one)}:{CONTROLLER_PORT}" for one in plan.voters)
        quorum = {"controller.quorum.bootstrap.servers": servers}
    else:
        quorum = {"controller.quorum.voters": ",".join(map(_controller, plan.voters))}
    return {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **quorum,
        "log.dirs": ",".join(plan.log_directories(host)),
        "broker.rack": host,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        **_SETTINGS,
        **plan.settings,
    }
