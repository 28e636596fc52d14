"""A simulated quorum: a seed decides what messages, disks, clocks and operators do.

`World(seed).run()` injects faults and then heals them all. Invariants are checked at every step (`Broken`
names the seed), and progress is checked at the end. The replicas are the production code; logs are lists.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from ottla.raft.effects import (
    Effect,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipLost,
    PersistElection,
    SendRequest,
    SendResponse,
    StartEpoch,
)
from ottla.raft.election_state import NOBODY, ElectionState
from ottla.raft.events import (
    HighWatermarkReceived,
    KraftVersionAppended,
    LeaderDiscovered,
    LeaderResponded,
    LogAppended,
    LogFlushed,
    LogReplaced,
    LogTruncated,
    ReplicaFetched,
    RequestReceived,
    ResponseReceived,
    SnapshotFetched,
    TimePassed,
    VotersAppended,
)
from ottla.raft.fetch_validation import Position, Verdict, judge_fetch
from ottla.raft.messages import Response, UpdateVoter, VoterChangeRefused
from ottla.raft.metadata_log import EpochEnd
from ottla.raft.quorum_state import BOOTSTRAP_OFFSET
from ottla.raft.replica import Replica, Timeouts
from ottla.raft.roles import Follower, Leader, Unattached
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire.errors import ErrorCode

TIMEOUTS = Timeouts(1_000, 2_000, 1_000)
FETCH_RECORDS = 7
FETCH_TIMEOUT_MS = 700
HEALING_MS = 20_000
TURN_MS = 15


class Broken(AssertionError):
    """An invariant is violated."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record; `voters` if it changes them, and `kraft_version` if it raises that."""

    epoch: int
    value: str
    voters: VoterSet | None = None
    kraft_version: int | None = None


@dataclass
class Snapshot:
    id: SnapshotId
    entries: tuple[Entry, ...]  # that it covers
    voters: VoterSet
    kraft_version: int


@dataclass
class Disk:
    """What survives a crash."""

    election: ElectionState = field(default_factory=ElectionState)
    start: int = 0
    entries: list[Entry] = field(default_factory=list)
    snapshot: Snapshot | None = None


class Log:
    """A log in memory, an `Extent` for `judge_fetch`."""

    def __init__(self, disk: Disk) -> None:
        self.start_offset = disk.start
        self.entries = list(disk.entries)
        self.snapshot = disk.snapshot

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def end_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.snapshot.id.epoch if self.snapshot is not None else 0

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self.snapshot.id if self.snapshot is not None else None

    latest_snapshot = earliest_snapshot

    def at(self, offset: int) -> Entry:
        if offset < self.start_offset:
            assert self.snapshot is not None
            return self.snapshot.entries[offset]
        return self.entries[offset - self.start_offset]

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        for index in range(len(self.entries) - 1, -1, -1):  # the last epoch is the most frequent
            if (found := self.entries[index].epoch) <= epoch:
                return EpochEnd(found, self.start_offset + index + 1)
        if self.snapshot is not None:
            return EpochEnd(self.snapshot.id.epoch, self.start_offset)
        return EpochEnd(self.end_epoch, self.end_offset) if not self.entries else EpochEnd(0, 0)

    def truncate_to(self, diverging: EpochEnd) -> None:
        local = self.end_of_epoch(diverging.epoch)
        offset = local.end_offset
        if local.epoch == diverging.epoch:
            offset = min(offset, diverging.end_offset)
        del self.entries[max(offset - self.start_offset, 0) :]


@dataclass(slots=True)
class Fetched:
    error: ErrorCode
    leader_id: int
    epoch: int
    verdict: Verdict | None = None
    records: tuple[Entry, ...] = ()
    high_watermark: int = -1
    snapshot: Snapshot | None = None


class Node:
    """One replica with its disk, a clock that drifts, and a loop that fetches from the leader."""

    def __init__(self, world: World, node_id: int, bootstrap: VoterSet, *, is_static: bool) -> None:
        self.world = world
        self.id = node_id
        self.key = ReplicaKey(node_id, bytes([node_id]) * 16)
        self.voter = Voter(self.key, (VoterEndpoint("C", f"node-{node_id}", 1),))
        self.bootstrap = bootstrap
        self.is_static = is_static
        self.disk = Disk()
        self.rate = 1.0
        self.incarnation = 0
        self.alive = False
        self.applied = 0
        self.is_following = False

    # Starting and crashing

    def start(self) -> None:
        world = self.world
        self.alive = True
        self.incarnation += 1
        self.rate = world.random.uniform(0.9, 1.1)
        self.log = Log(self.disk)
        self.outbox: deque[Effect | Callable[[], None]] = deque()
        self.is_persisting = self.is_following = self.is_flushing = False
        self.applied = 0
        static = self.bootstrap if self.is_static else VoterSet()
        self.replica = Replica(self.voter, static, timeouts=TIMEOUTS, draw=world.random.randrange)
        if not self.is_static and len(self.bootstrap):
            self.replica.step(KraftVersionAppended(BOOTSTRAP_OFFSET, 1))
            self.replica.step(VotersAppended(BOOTSTRAP_OFFSET, self.bootstrap))
        self._take_snapshot_facts()
        for offset in range(self.log.start_offset, self.log.end_offset):
            self._take_control(offset, self.log.at(offset))
        end = self.log.end_offset, self.log.end_epoch
        self.act(self.replica.start(self.disk.election, *end, self.now))

    def crash(self) -> None:
        """A random part of what was not flushed is lost."""
        self.alive = False
        self.incarnation += 1
        disk, log = self.disk, self.log
        if log.start_offset == disk.start and log.entries[: len(disk.entries)] == disk.entries:
            kept = self.world.random.randint(len(disk.entries), len(log.entries))
            disk.entries = log.entries[:kept]

    @property
    def now(self) -> int:
        return int(self.world.now * self.rate)

    def later(self, low_ms: float, high_ms: float, work: Callable[[], None]) -> None:
        incarnation = self.incarnation

        def if_same_incarnation() -> None:
            if self.alive and self.incarnation == incarnation:
                work()

        self.world.after(self.world.random.uniform(low_ms, high_ms), if_same_incarnation)

    # Effects, in their order

    def act(self, effects: list[Effect]) -> None:
        if not effects:
            return
        for effect in effects:
            if isinstance(effect, LeadershipLost):
                self.world.note(f"{self.id} no longer leads epoch {effect.epoch}")
            else:
                self.outbox.append(effect)
        self._pump()

    def _pump(self) -> None:
        while self.outbox and not self.is_persisting:
            effect = self.outbox.popleft()
            if isinstance(effect, PersistElection):
                self.is_persisting = True
                self.later(0, 8, lambda election=effect.election: self._persisted(election))  # type: ignore[misc]
            elif isinstance(effect, StartEpoch):
                self._start_epoch(effect)
            elif isinstance(effect, HighWatermarkAdvanced):
                self.world.committed(self, effect.offset)
            elif isinstance(effect, SendRequest):
                self._send_request(effect)
            elif isinstance(effect, LeaderChanged):
                self.world.note(f"{self.id} learns that {effect.leader_id} leads epoch {effect.epoch}")
            elif callable(effect):
                effect()

    def _persisted(self, election: ElectionState) -> None:
        self.disk.election = election
        self.is_persisting = False
        self._pump()

    def _start_epoch(self, effect: StartEpoch) -> None:
        role = self.replica.role
        if not isinstance(role, Leader) or role.epoch != effect.epoch:
            return  # it has already lost the leadership
        self.world.elected(self, effect.epoch)
        if self.log.end_offset != role.start_offset:
            raise Broken("an epoch does not start at the end of the log")
        self.append(Entry(effect.epoch, f"leader {self.id}"))
        if effect.voters is not None:
            self.append(Entry(effect.epoch, "voters", effect.voters, effect.kraft_version))

    # Leading

    @property
    def leads(self) -> bool:
        return self.alive and not self.outbox and isinstance(self.replica.role, Leader)

    def append(self, entry: Entry) -> int:
        offset = self.log.end_offset
        self.world.appended(offset, entry)
        self.log.entries.append(entry)
        self.replica.step(LogAppended(offset + 1, entry.epoch))
        self._take_control(offset, entry)
        self.flush()
        return offset

    def flush(self) -> None:
        if self.is_flushing:
            return
        self.is_flushing = True
        start, entries, snapshot = self.log.start_offset, list(self.log.entries), self.log.snapshot
        self.later(0, 15, lambda: self._flushed(start, entries, snapshot))

    def _flushed(self, start: int, entries: list[Entry], snapshot: Snapshot | None) -> None:
        self.is_flushing = False
        log = self.log
        if (log.start_offset, log.entries[: len(entries)]) != (start, entries):
            self.flush()  # truncated since
            return
        self.disk.start, self.disk.entries, self.disk.snapshot = start, entries, snapshot
        end_epoch = entries[-1].epoch if entries else log.end_epoch
        self.act(self.replica.step(LogFlushed(start + len(entries), end_epoch, self.now)))
        if len(log.entries) > len(entries):
            self.flush()

    @property
    def is_flushed(self) -> bool:
        return not self.is_flushing and self.replica.end_offset == self.log.end_offset

    def _take_control(self, offset: int, entry: Entry) -> None:
        if entry.kraft_version is not None:
            self.replica.step(KraftVersionAppended(offset, entry.kraft_version))
        if entry.voters is not None:
            self.replica.step(VotersAppended(offset, entry.voters))

    def _take_snapshot_facts(self) -> None:
        snapshot = self.log.snapshot
        if snapshot is not None:
            self.replica.step(KraftVersionAppended(snapshot.id.offset - 1, snapshot.kraft_version))
            self.replica.step(VotersAppended(snapshot.id.offset - 1, snapshot.voters))

    def write_snapshot(self) -> None:
        """Replace committed and delivered records by a snapshot."""
        offset = min(self.applied, len(self.disk.entries) + self.disk.start)
        if offset <= self.log.start_offset or self.is_flushing:
            return
        at = offset - 1
        snapshot = Snapshot(
            SnapshotId(offset, self.log.at(at).epoch),
            tuple(self.log.at(index) for index in range(offset)),
            self.replica.voters.at(at),
            self.replica.kraft_version.at(at),
        )
        kept = self.log.entries[offset - self.log.start_offset :]
        self.log.start_offset, self.log.entries, self.log.snapshot = offset, kept, snapshot
        self.disk.entries = self.disk.entries[offset - self.disk.start :]
        self.disk.start, self.disk.snapshot = offset, snapshot

    def change_voters(self, change: Callable[[Replica], VoterSet]) -> None:
        try:
            voters = change(self.replica)
        except VoterChangeRefused:
            return
        self.world.note(f"{self.id} changes the voters to {voters.ids}")
        self.append(Entry(self.replica.epoch, "voters", voters))

    def update_voter(self, request: UpdateVoter) -> None:
        if self.leads and self.replica.epoch == request.epoch:
            try:
                voters = self.replica.with_updated_voter(request.voter, self.now)
            except VoterChangeRefused:
                return
            if voters is not None:
                self.append(Entry(self.replica.epoch, "voters", voters))

    def move(self) -> None:
        """Change the address at the next start."""
        (endpoint,) = self.voter.endpoints
        self.voter = replace(self.voter, endpoints=(replace(endpoint, port=endpoint.port + 1),))

    def replace_disk(self) -> None:
        """Lose everything: the node is another replica under the same id."""
        key = ReplicaKey(self.id, self.world.random.randbytes(16))
        self.key, self.voter = key, replace(self.voter, key=key)
        self.disk, self.bootstrap = Disk(), VoterSet()

    # Requests and fetches

    def _send_request(self, effect: SendRequest) -> None:
        replica_id, request = effect.replica_id, effect.request
        receiver = self.world.nodes.get(replica_id)
        if receiver is None or receiver is self:
            return
        incarnation = self.incarnation

        def at_receiver(node: Node) -> None:
            if isinstance(request, UpdateVoter):
                node.update_voter(request)
                return
            *effects, sent = node.replica.step(RequestReceived(request, node.now))
            assert isinstance(sent, SendResponse)
            response = sent.response
            node.act(effects)
            node.outbox.append(lambda: self.world.send(node, self, lambda me: back(me, response)))
            node._pump()

        def back(me: Node, response: Response) -> None:
            if me.incarnation == incarnation:
                me.act(me.replica.step(ResponseReceived(replica_id, request, response, me.now)))

        self.world.send(self, receiver, at_receiver)

    def poll(self) -> None:
        """Do what is due now, and fetch."""
        self.act(self.replica.step(TimePassed(self.now)))
        if self.is_following or not isinstance(self.replica.role, (Follower, Unattached)):
            return
        if self.is_flushed:
            self._fetch()

    def _fetch(self) -> None:
        role, world = self.replica.role, self.world
        leader = world.nodes.get(role.leader_id) if isinstance(role, Follower) else None
        if leader is None or world.random.random() < 0.1:
            leader = world.random.choice([node for node in world.nodes.values() if node is not self])
        self.is_following = True
        epoch, asked, incarnation = self.replica.epoch, leader, self.incarnation
        position = Position(self.log.end_offset, self.log.end_epoch, epoch)
        turn = world.next_turn()
        self.turn = turn

        def at_leader(node: Node) -> None:
            fetched = node.serve_fetch(self.key, position)
            world.send(node, self, back_with(fetched))

        def back_with(fetched: Fetched) -> Callable[[Node], None]:
            def back(me: Node) -> None:
                if me.incarnation == incarnation and me.turn == turn and me.is_following:
                    me.is_following = False
                    me.take_fetched(position, fetched)

            return back

        def time_out() -> None:
            if self.turn == turn:
                self.is_following = False

        world.send(self, asked, at_leader)
        self.later(FETCH_TIMEOUT_MS, FETCH_TIMEOUT_MS, time_out)

    def serve_fetch(self, key: ReplicaKey, position: Position) -> Fetched:
        replica = self.replica
        verdict = judge_fetch(replica, self.log, position)
        known = replica.leader_id, replica.epoch
        if isinstance(verdict, ErrorCode):
            return Fetched(verdict, *known)
        fetched = Fetched(ErrorCode.NONE, *known, verdict, high_watermark=replica.high_watermark)
        if isinstance(verdict, SnapshotId):
            replica.step(SnapshotFetched(key, self.now))
            fetched.snapshot = self.log.snapshot
        elif not isinstance(verdict, EpochEnd):
            end = min(position.offset + FETCH_RECORDS, replica.end_offset)
            fetched.records = tuple(self.log.at(offset) for offset in range(position.offset, end))
            self.act(replica.step(ReplicaFetched(key, position.offset, self.now)))
            if isinstance(replica.role, Leader):
                fetched.high_watermark = replica.high_watermark
        return fetched

    def take_fetched(self, position: Position, fetched: Fetched) -> None:
        self.act(self.replica.step(LeaderDiscovered(fetched.leader_id, fetched.epoch, self.now)))
        role = self.replica.role
        if fetched.error is not ErrorCode.NONE or fetched.epoch != self.replica.epoch:
            return
        if not isinstance(role, Follower) or role.leader_id != fetched.leader_id:
            return
        if self.log.end_offset != position.offset:
            raise Broken("the log changed under a fetch")
        self.replica.step(LeaderResponded(self.now))
        verdict = fetched.verdict
        if isinstance(verdict, EpochEnd):
            self.log.truncate_to(verdict)
            if self.log.end_offset < self.replica.high_watermark:
                raise Broken(f"{self.id} truncates committed records")
            self.replica.step(LogTruncated(self.log.end_offset, self.log.end_epoch))
            self.flush()
            return
        if isinstance(verdict, SnapshotId):
            assert fetched.snapshot is not None
            self._adopt(fetched.snapshot)
            return
        for entry in fetched.records:
            offset = self.log.end_offset
            self.world.appended(offset, entry)
            self.log.entries.append(entry)
            self._take_control(offset, entry)
        if fetched.records:
            self.replica.step(LogAppended(self.log.end_offset, self.log.end_epoch))
            self.flush()
        if fetched.high_watermark >= 0:
            self.act(self.replica.step(HighWatermarkReceived(fetched.high_watermark, self.log.end_offset)))

    def _adopt(self, snapshot: Snapshot) -> None:
        offset = snapshot.id.offset
        if offset <= self.replica.high_watermark:
            return
        self.log.start_offset, self.log.entries, self.log.snapshot = offset, [], snapshot
        self.disk.start, self.disk.entries, self.disk.snapshot = offset, [], snapshot
        self.replica.step(LogReplaced(offset, snapshot.id.epoch))
        self._take_snapshot_facts()
        self.act(self.replica.step(HighWatermarkReceived(offset, offset)))


class World:
    """The nodes, the network between them, and the records that are known to be committed."""

    def __init__(self, seed: int, *, is_static: bool = False, voters: int = 3, spares: int = 2) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0.0
        self.history: list[str] = []
        self.ledger: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.acknowledged: dict[str, int] = {}
        self._acknowledged_end = 0
        self._records: dict[tuple[int, int], Entry] = {}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._values = itertools.count()
        self.drop_rate = self.duplicate_rate = 0.0
        self.slow_ms = 5.0
        self.disconnected: set[tuple[int, int]] = set()
        self.is_static = is_static
        ids = range(1, voters + 1)
        if is_static:
            first = VoterSet.static({node_id: (f"node-{node_id}", 1) for node_id in ids}, "C")
        else:
            keys = [ReplicaKey(node_id, bytes([node_id]) * 16) for node_id in ids]
            first = VoterSet(Voter(key, (VoterEndpoint("C", f"node-{key.id}", 1),)) for key in keys)
        count = voters if is_static else voters + spares
        self.nodes = {
            node_id: Node(
                self, node_id, first if node_id <= voters or is_static else VoterSet(), is_static=is_static
            )
            for node_id in range(1, count + 1)
        }

    # Time

    def after(self, delay_ms: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_ms, next(self._count), work))

    def next_turn(self) -> int:
        return next(self._count)

    def pass_time(self, duration_ms: float) -> None:
        end = self.now + duration_ms
        while self._queue and self._queue[0][0] <= end:
            self.now, _, work = heapq.heappop(self._queue)
            try:
                work()
            except Broken as error:
                raise Broken(f"seed {self.seed}, at {self.now:.0f} ms: {error}\n{self.tail}") from None
            except Exception as error:
                raise Broken(f"seed {self.seed}, at {self.now:.0f} ms: {error!r}\n{self.tail}") from error
        self.now = end

    @property
    def tail(self) -> str:
        return "\n".join(self.history[-60:])

    def note(self, text: str) -> None:
        self.history.append(f"{self.now:8.0f} {text}")

    # The network

    def send(self, sender: Node, receiver: Node, work: Callable[[Node], None]) -> None:
        random = self.random
        copies = 2 if random.random() < self.duplicate_rate else 1
        for _ in range(copies):
            if (sender.id, receiver.id) in self.disconnected or random.random() < self.drop_rate:
                continue
            delay_ms = random.uniform(0.5, self.slow_ms)
            if random.random() < 0.02 and self.drop_rate:
                delay_ms *= 100  # late enough to arrive in another epoch
            self.after(delay_ms, lambda: work(receiver) if receiver.alive else None)

    # Invariants

    def elected(self, node: Node, epoch: int) -> None:
        if epoch in self.leaders:
            raise Broken(f"{node.id} and {self.leaders[epoch]} lead epoch {epoch}")
        self.leaders[epoch] = node.id
        self.note(f"{node.id} leads epoch {epoch} with {node.replica.voters.last.ids}")

    def appended(self, offset: int, entry: Entry) -> None:
        known = self._records.setdefault((offset, entry.epoch), entry)
        if known != entry:
            raise Broken(f"offset {offset} of epoch {entry.epoch} is {known} and {entry}")

    def committed(self, node: Node, high_watermark: int) -> None:
        log = node.log
        if high_watermark > log.end_offset:
            raise Broken(f"{node.id} takes {high_watermark} for committed and ends at {log.end_offset}")
        for offset in range(min(node.applied, len(self.ledger)), high_watermark):
            entry = log.at(offset)
            if offset == len(self.ledger):
                self.ledger.append(entry)
            elif self.ledger[offset] != entry:
                raise Broken(f"{node.id} has {entry} at {offset}, where {self.ledger[offset]} was committed")
        node.applied = max(node.applied, high_watermark)
        if isinstance(node.replica.role, Leader):
            for offset in range(self._acknowledged_end, high_watermark):
                self.acknowledged[self.ledger[offset].value] = offset
            self._acknowledged_end = max(self._acknowledged_end, high_watermark)

    # A run

    def run(self, *, faults_ms: int = 30_000) -> None:
        for node in self.nodes.values():
            node.start()
        self.after(0, self._turn)
        self.after(50, self._propose)
        self.pass_time(4_000)
        self._begin_faults()
        self.pass_time(faults_ms)
        self._heal()
        before = len(self.ledger)
        self.pass_time(HEALING_MS)
        self._check_progress(before)

    def _turn(self) -> None:
        for node in self.nodes.values():
            if node.alive:
                node.poll()
        self.after(TURN_MS, self._turn)

    def _propose(self) -> None:
        leaders = [node for node in self.nodes.values() if node.leads]
        if leaders:
            node = self.random.choice(leaders)
            node.append(Entry(node.replica.epoch, f"value {next(self._values)}"))
        self.after(self.random.uniform(5, 120), self._propose)

    def _begin_faults(self) -> None:
        random = self.random
        self.drop_rate = random.choice((0.0, 0.02, 0.1))
        self.duplicate_rate = random.choice((0.0, 0.1))
        self.slow_ms = random.choice((5.0, 50.0, 300.0))
        self.has_faults = True
        self.after(0, self._fault)

    def _fault(self) -> None:
        if not self.has_faults:
            return
        random = self.random
        random.choice(
            (
                self._crash_one,
                self._crash_leader,
                self._partition,
                self._partition_one_way,
                self._change,
                self._change,
            )
        )()
        if random.random() < 0.2:
            random.choice(list(self.nodes.values())).write_snapshot()
        self.after(random.uniform(200, 2_500), self._fault)

    def _crash(self, node: Node) -> None:
        if node.alive:
            self.note(f"{node.id} crashes")
            node.crash()
            self.after(self.random.uniform(10, 6_000), lambda: None if node.alive else self._restart(node))

    def _restart(self, node: Node) -> None:
        random = self.random
        if not self.is_static and random.random() < 0.1:
            node.move()
        if not self.is_static and random.random() < 0.3 and not self._may_vote(node):
            self.note(f"{node.id} gets another disk")
            node.replace_disk()
        self.note(f"{node.id} starts with {node.disk.election} and {len(node.disk.entries)} records")
        node.start()

    def _may_vote(self, node: Node) -> bool:
        """Whether any node knows this one as a voter, so that the loss of its disk may cost a majority."""
        return any(one.replica.voters.last.get(node.id) is not None for one in self.nodes.values())

    def _crash_one(self) -> None:
        self._crash(self.random.choice(list(self.nodes.values())))

    def _crash_leader(self) -> None:
        for node in self.nodes.values():
            if node.leads:
                self._crash(node)
                return

    def _partition(self) -> None:
        ids = list(self.nodes)
        self.random.shuffle(ids)
        at = self.random.randrange(1, len(ids))
        pairs = set(itertools.product(ids[:at], ids[at:]))
        self._disconnect(pairs | {(b, a) for a, b in pairs}, f"{ids[:at]} partitioned from {ids[at:]}")

    def _partition_one_way(self) -> None:
        pair = self.random.sample(list(self.nodes), 2)
        self._disconnect({(pair[0], pair[1])}, f"{pair[0]} does not reach {pair[1]}")

    def _disconnect(self, pairs: set[tuple[int, int]], text: str) -> None:
        self.note(text)
        self.disconnected |= pairs
        self.after(self.random.uniform(500, 8_000), lambda: self.disconnected.difference_update(pairs))

    def _change(self) -> None:
        if self.is_static:
            return
        for node in self.nodes.values():
            if node.leads:
                self._change_voters(node)

    def _change_voters(self, node: Node) -> None:
        voters = node.replica.voters.last
        spare = [one for one in self.nodes.values() if voters.get(one.id) is None]
        if spare and (len(voters) < 3 or self.random.random() < 0.5):
            new = self.random.choice(spare).voter
            node.change_voters(lambda replica: replica.with_voter(new, node.now))
        else:
            old = self.random.choice(list(voters)).key
            node.change_voters(lambda replica: replica.without_voter(old))

    def _heal(self) -> None:
        self.note("all faults are healed")
        self.has_faults = False
        self.drop_rate = self.duplicate_rate = 0.0
        self.slow_ms = 5.0
        self.disconnected.clear()
        for node in self.nodes.values():
            if not node.alive:
                self._restart(node)

    def _check_progress(self, before: int) -> None:
        try:
            if len(self.ledger) < before + 20:
                raise Broken(
                    f"only {len(self.ledger) - before} records were committed after the faults were healed"
                )
            for value, offset in self.acknowledged.items():
                if self.ledger[offset].value != value:
                    raise Broken(f"{value} was acknowledged and then lost")
            leaders = [node for node in self.nodes.values() if node.leads]
            if len(leaders) != 1:
                raise Broken(f"{[node.id for node in leaders]} lead after the faults were healed")
            for node in self.nodes.values():
                if node.applied < before:
                    raise Broken(f"{node.id} knows only {node.applied} of {before} committed records")
                if leaders[0].id != node.replica.leader_id != NOBODY:
                    raise Broken(f"{node.id} follows {node.replica.leader_id}, and {leaders[0].id} leads")
        except Broken as error:
            raise Broken(f"seed {self.seed}: {error}\n{self.tail}") from None
