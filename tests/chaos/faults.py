"""The faults: one after the other, and some in parallel with a cut or a move.

Each fault is drawn from the seed, lasts some seconds and is repaired at its end. Faults that destroy a
replica's data (`is_grave`) start when all replicas are in sync, and no other fault starts before that is so
again: acknowledged records are on at least two replicas, so one may be lost, but not two.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.errors import ClientError
from ottla.client.values import TopicPartition
from ottla.wire.errors import KafkaError
from tests.chaos.chaos_cluster import CLIENTS, ChaosCluster
from tests.chaos.clients import RealClient
from tests.chaos.disks import SmallDisk, attached, flip_bit
from tests.interop import peers
from tests.interop.cluster.nodes import SECONDS_MAX

_DERIVED = ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint", "*.txnindex")


@dataclass
class Faults:
    """Injects faults into `cluster`. `topics` are the topics of the load, with their partitions."""

    cluster: ChaosCluster
    rng: random.Random
    topics: Mapping[str, int]
    small_disks: Mapping[int, SmallDisk] = field(default_factory=dict)
    may_trace: bool = True
    coordinated: Sequence[tuple[int, str]] = ()  # kinds (0: groups, 1: transactions) and names
    counts: Counter[str] = field(default_factory=Counter)

    # Choosing

    def names(self) -> list[str]:
        found = list(KINDS)
        if not self.small_disks:
            found.remove("full disk")
        if not self.may_trace:
            found = [name for name in found if name not in ("failing fsync", "slow disk")]
        return found

    def one(self, name: str) -> None:
        """Inject this fault, and repair it."""
        kind = KINDS[name]
        if kind.is_grave:
            self.wait_until_in_sync()
        self.cluster.note(f"begin: {name}")
        self.counts[name] += 1
        kind.do(self)
        self.repair()
        self.cluster.note(f"end: {name}")
        if kind.is_grave or self.rng.random() < 0.3:
            self.wait_until_in_sync()

    def repair(self) -> None:
        """Start every node and heal the network."""
        for node_id in list(self.cluster.stopped):
            self.cluster.resume(node_id)
        for disk in self.small_disks.values():
            disk.make_room()
        self.cluster.net.heal(resets=self.rng.random() < 0.5)
        self.cluster.start_stopped()

    def wait_until_in_sync(self) -> None:
        self.cluster.wait_until_in_sync(self.topics)
        self.cluster.wait_until_quorum_agrees()

    def _for(self, least_s: float, most_s: float) -> None:
        time.sleep(self.rng.uniform(least_s, most_s))  # the fault takes effect meanwhile

    def _node(self) -> int:
        return self.rng.choice(list(self.cluster.nodes))

    def _leader(self) -> int:
        topic, count = self.rng.choice(sorted(self.topics.items()))
        return self.cluster.leader(topic, self.rng.randrange(count)) or self._node()

    # Processes

    def kill_one(self) -> None:
        victim = self._node()
        self.cluster.kill(victim)
        self._for(0.2, 6.0)
        self.cluster.start(victim)

    def kill_leader_again_and_again(self) -> None:
        for _ in range(self.rng.randint(2, 4)):
            victim = self._leader()
            self.cluster.kill(victim)
            self._for(0.5, 4.0)
            self.cluster.start(victim)
            self._for(0.0, 2.0)

    def kill_coordinator(self) -> None:
        """Kill the coordinator of a group or of transactions, while members join and leave."""
        if not self.coordinated:
            return
        kind, name = self.rng.choice(self.coordinated)
        victim = self.cluster.coordinator(kind, name) or self._node()
        self.cluster.note(f"node {victim} coordinates {name}")
        self.cluster.kill(victim)
        self._for(0.5, 5.0)
        self.cluster.start(victim)

    def kill_all(self) -> None:
        """Kill all nodes; a majority restarts first."""
        nodes = list(self.cluster.nodes)
        self.cluster.kill(*nodes)
        self.rng.shuffle(nodes)
        # The last in-sync replica is unknown here, so the whole cluster must be waited for.
        late = nodes[-1]
        self.cluster.start(*[node_id for node_id in nodes if node_id != late])
        self._for(0.0, 4.0)
        self.cluster.start(late)

    def pause(self) -> None:
        """Pause a node with SIGSTOP, for less or more than its session."""
        victim = self._leader()
        self.cluster.pause(victim)
        self._for(0.5, 9.0)
        self.cluster.resume(victim)

    def pause_and_kill_another(self) -> None:
        paused = self._leader()
        self.cluster.pause(paused)
        victim = self.rng.choice(self.cluster.others(paused))
        self.cluster.kill(victim)
        self._for(0.5, 5.0)
        self.cluster.resume(paused)
        self.cluster.start(victim)

    def rolling_restart(self) -> None:
        """Restart each node in turn, cleanly, once all replicas are in sync."""
        for node_id in self.cluster.nodes:
            self.cluster.wait_until_in_sync(self.topics)
            self.cluster.stop(node_id)
            self._for(0.0, 2.0)
            self.cluster.start(node_id)

    # The network

    def cut_in_two(self) -> None:
        some = [self._leader()]
        others = self.cluster.others(*some)
        self.cluster.note(f"{some} and {others} do not hear each other")
        self.cluster.net.part(some, others)
        self._for(0.5, 9.0)

    def cut_one_way(self) -> None:
        some = [self._leader()]
        others = self.rng.sample(self.cluster.others(*some), self.rng.randint(1, 2))
        sources, targets = (some, others) if self.rng.random() < 0.5 else (others, some)
        self.cluster.note(f"what {sources} send to {targets} does not arrive")
        self.cluster.net.cut(sources, targets)
        self._for(0.5, 9.0)

    def cut_clients(self) -> None:
        """Block one or both directions between clients and a node."""
        victim = self._leader()
        how = self.rng.choice(("both", "not heard", "do not hear"))
        self.cluster.note(f"clients and node {victim}: {how}")
        if how in ("both", "not heard"):
            self.cluster.net.cut([CLIENTS], [victim])
        if how in ("both", "do not hear"):
            self.cluster.net.cut([victim], [CLIENTS])
        self._for(0.5, 8.0)

    def reset(self) -> None:
        """Reset connections, some in the middle of a message."""
        for _ in range(self.rng.randint(2, 6)):
            victim = self._leader()
            others = [CLIENTS, *self.cluster.others(victim)]
            some = self.rng.sample(others, self.rng.randint(1, len(others)))
            if self.rng.random() < 0.5:
                self.cluster.note(f"connections of {victim} and {some} end")
                self.cluster.net.reset([victim], some)
            else:
                self.cluster.note(f"what {victim} and {some} send next is torn")
                self.cluster.net.tear([victim], some)
            self._for(0.1, 1.0)

    def slow(self) -> None:
        victim = self._node()
        delay_s = self.rng.choice((0.02, 0.1, 0.5))
        others = [CLIENTS, *self.cluster.others(victim)]
        some = self.rng.sample(others, self.rng.randint(1, len(others)))
        self.cluster.note(f"{victim} and {some} hear each other {delay_s} s later")
        self.cluster.net.slow([victim], some, delay_s)
        self._for(2.0, 8.0)

    # Disks

    def full_disk(self) -> None:
        victim = self.rng.choice(sorted(self.small_disks))
        self.cluster.note(f"the disk of node {victim} is full")
        self.small_disks[victim].fill(leave_bytes=self.rng.choice((0, 4096, 20_000)))
        self._for(1.0, 6.0)
        if self.rng.random() < 0.3:
            self.cluster.kill(victim)
        self.small_disks[victim].make_room()
        self.cluster.note(f"the disk of node {victim} has room")

    def failing_fsync(self) -> None:
        """Make every fsync of a node fail for a while; restart the node if it exits."""
        victim = self._node()
        node = self.cluster.nodes[victim]
        self.cluster.note(f"fsync fails on node {victim}")
        log = node.directory / "strace.log"
        with attached(node.pid, ["fsync", "fdatasync"], "error=EIO", log):
            self._for(1.0, 6.0)
        with contextlib.suppress(AssertionError):  # with nothing to flush it stays up
            peers.wait_until(lambda: node.has_ended, 2.0, "its end", 0.1)

    def slow_disk(self) -> None:
        """Delay every write and fsync of a node."""
        victim = self._node()
        node = self.cluster.nodes[victim]
        delay_ms = self.rng.choice((20, 100, 300))
        self.cluster.note(f"the disk of node {victim} takes {delay_ms} ms longer")
        log = node.directory / "strace.log"
        with attached(node.pid, ["fsync", "pwritev", "pwrite64"], f"delay_enter={delay_ms}ms", log):
            self._for(2.0, 8.0)

    def flip_bits(self) -> None:
        """Flip bits in files that a node can rebuild from its logs."""
        victim = self._node()
        self.cluster.kill(victim)
        data = self.cluster.nodes[victim].data
        found = [
            path
            for topic in self.topics
            for directory in sorted(data.glob(f"{topic}-*"))
            for pattern in _DERIVED
            for path in sorted(directory.glob(pattern))
            if path.stat().st_size
        ]
        for path in self.rng.sample(found, min(len(found), 8)):
            position = self.rng.randrange(path.stat().st_size)
            self.cluster.note(f"a bit of {path.parent.name}/{path.name} of node {victim} flips at {position}")
            flip_bit(path, position, self.rng.randrange(8))
        self.cluster.start(victim)

    def wipe(self) -> None:
        victim = self._node()
        self.cluster.kill(victim)
        self.cluster.wipe(victim)
        self._for(0.0, 4.0)
        self.cluster.start(victim)

    # Changes

    def move_partitions(self) -> None:
        """Reassign partitions to other nodes while one of them is killed."""
        nodes = list(self.cluster.nodes)
        wanted = {}
        for topic, count in self.topics.items():
            wanted[TopicPartition(topic, self.rng.randrange(count))] = self.rng.sample(nodes, 3)
        self.cluster.note(f"moving {', '.join(f'{one} to {replicas}' for one, replicas in wanted.items())}")
        if not self._reassign(wanted):
            return
        if self.rng.random() < 0.7:
            self.kill_one()
        self._wait_until_moved()

    def _reassign(self, wanted: Mapping[TopicPartition, list[int]]) -> bool:
        async def ask() -> None:
            async with RealClient("mover", self.cluster.bootstrap, "").admin() as admin:
                (await admin.alter_partition_reassignments(wanted)).all()

        try:
            asyncio.run(ask())
        except (KafkaError, ClientError) as error:  # for example, the quorum has no leader now
            self.cluster.note(f"not moved: {error}")
            return False
        return True

    def _wait_until_moved(self) -> None:
        seen: list[object] = [None]

        async def ask() -> bool:
            async with RealClient("mover", self.cluster.bootstrap, "").admin() as admin:
                seen[0] = await admin.list_partition_reassignments()
            return not seen[0]

        def are_done() -> bool:
            try:
                return asyncio.run(ask())
            except (KafkaError, ClientError) as error:
                seen[0] = error
                return False

        peers.wait_until(are_done, SECONDS_MAX, lambda: f"moves to end: {seen[0]}", 0.5)


@dataclass(frozen=True)
class Kind:
    do: Callable[[Faults], None]
    is_grave: bool = False


KINDS: dict[str, Kind] = {
    "kill": Kind(Faults.kill_one),
    "kill leader repeatedly": Kind(Faults.kill_leader_again_and_again),
    "kill coordinator": Kind(Faults.kill_coordinator),
    "kill all": Kind(Faults.kill_all),
    "pause": Kind(Faults.pause),
    "pause and kill": Kind(Faults.pause_and_kill_another),
    "rolling restart": Kind(Faults.rolling_restart),
    "partition": Kind(Faults.cut_in_two),
    "one-way cut": Kind(Faults.cut_one_way),
    "clients cut off": Kind(Faults.cut_clients),
    "resets": Kind(Faults.reset),
    "slow links": Kind(Faults.slow),
    "full disk": Kind(Faults.full_disk),
    "slow disk": Kind(Faults.slow_disk),
    "failing fsync": Kind(Faults.failing_fsync),
    "bit flips": Kind(Faults.flip_bits, is_grave=True),
    "wiped node": Kind(Faults.wipe, is_grave=True),
    "move partitions": Kind(Faults.move_partitions),
}
