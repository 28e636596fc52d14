"""A world of one partition for tests: logs of numbered records, a controller, brokers with stale metadata."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from ottla.log.leader_epochs import EpochCache
from ottla.replication.follower import (
    Append,
    FindOffsets,
    Following,
    GiveUp,
    PartitionFetch,
    Position,
    Truncate,
    out_of_range,
)
from ottla.replication.leader import AcceptedChange, Leadership, Proposal
from ottla.server.replicas.partition import Partition
from ottla.wire.errors import ErrorCode, KafkaError

TOPIC_ID = b"t" * 16
LAG_MAX_MS = 1000


class ModelLog:
    """A log whose records are (epoch, value), one per offset."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []
        self.epochs = EpochCache()
        self.high_watermark = 0
        self.log_start_offset = 0
        self.flushed = 0
        self.is_flush_due = False
        self.recovery_point = 0
        self.config = SimpleNamespace(flush_messages=1 << 63)
        self.name = "t-0"

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    def append(self, value: Any, *, leader_epoch: int, **_options: Any) -> Any:
        self.take(leader_epoch, value)
        return SimpleNamespace(last_offset=len(self.records) - 1)

    def take(self, epoch: int, value: int) -> None:
        if epoch != self.epochs.latest_epoch:
            self.epochs.assign(epoch, len(self.records))
        self.records.append((epoch, value))

    def advance_high_watermark(self, offset: int) -> bool:
        offset = min(offset, len(self.records))
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def assign_epoch_start_offset(self, epoch: int, offset: int) -> None:
        self.epochs.assign(epoch, offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, len(self.records))

    def truncate_to(self, offset: int) -> None:
        del self.records[offset:]
        self.epochs.truncate_from_end(offset if offset < len(self.records) else len(self.records))
        self.flushed = min(self.flushed, offset)
        self.high_watermark = min(self.high_watermark, offset)


@dataclass(frozen=True)
class BrokerStatus:
    epoch: int
    fenced: bool = False
    in_controlled_shutdown: bool = False


@dataclass(frozen=True)
class Registered:
    """The controller's state of the partition and the brokers at one moment."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    brokers: dict[int, BrokerStatus]


@dataclass
class Fetch:
    """A fetch in flight, perhaps with a response."""

    leader_id: int
    asked: PartitionFetch
    broker_epoch: int
    answer: dict[str, Any] | None = None
    records: list[tuple[int, int]] = field(default_factory=list)


class Broker:
    """One broker: a kill keeps only its log."""

    def __init__(self, world: World, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.log = ModelLog()
        self.checkpoint = 0
        self.is_alive = True
        self.begin()

    def begin(self) -> None:
        self.known: Registered | None = None
        self.known_at = 0  # an index of the controller's history
        self.partition = Partition("t", TOPIC_ID, 0, cast(Any, self.log))
        self.following = Following()
        self.fetch: Fetch | None = None
        self.proposals: list[Proposal] = []
        self.noted = 0  # recorded as acknowledged up to here, in this leader epoch
        self.broker_epoch = self.world.controller.brokers[self.node_id].epoch
        self.log.high_watermark = min(self.checkpoint, self.log.log_end_offset)

    # LeaderEnvironment

    @property
    def brokers(self) -> dict[int, BrokerStatus]:
        return self.known.brokers if self.known is not None else {}

    @property
    def lag_max_ms(self) -> int:
        return LAG_MAX_MS

    def now_ms(self) -> int:
        return self.world.now_ms

    # Metadata

    def learn(self, registered: Registered) -> None:
        """Applies metadata like `Replicas` and `Replication`."""
        before, self.known = self.known, registered
        partition = self.partition
        if registered.partition_epoch < partition.partition_epoch or (
            before is not None and registered.partition_epoch == before.partition_epoch
        ):
            return  # a response was newer, or only brokers have changed
        is_new_epoch = registered.leader_epoch > partition.leader_epoch
        if is_new_epoch:
            self.noted = 0
        partition.replicas = list(registered.replicas)
        partition.isr = list(registered.isr)
        partition.partition_epoch = registered.partition_epoch
        partition.leader_id = registered.leader
        partition.leader_epoch = registered.leader_epoch
        partition.min_insync_replicas = self.world.min_insync_replicas
        partition.is_leader = registered.leader == self.node_id
        key = (TOPIC_ID, 0)
        if partition.is_leader:
            self.following.forget(key)
            if is_new_epoch:
                self.log.assign_epoch_start_offset(registered.leader_epoch, self.log.log_end_offset)
            if partition.leadership is None:
                partition.leadership = Leadership(self)
            partition.leadership.min_insync_replicas = self.world.min_insync_replicas
            partition.leadership.take(
                replicas=registered.replicas,
                isr=registered.isr,
                leader_epoch=registered.leader_epoch,
                partition_epoch=registered.partition_epoch,
                end_offset=self.log.log_end_offset,
            )
            partition.update_high_watermark()
        else:
            partition.leadership = None
            if is_new_epoch:
                self.following.forget(key)
                if registered.leader >= 0:
                    self.following.follow(
                        Position("t", TOPIC_ID, 0, registered.leader_epoch, cast(Any, self.log))
                    )

    # Fetching

    def ask(self) -> None:
        plan = self.following.plan(self.now_ms(), lambda _key: 0, lambda _position: False)
        if plan is not None:
            (asked,) = plan.fetches.values()
            self.fetch = Fetch(self.partition.leader_id, asked, self.broker_epoch)

    def serve(self, follower_id: int, fetch: Fetch, count: int) -> None:
        """Like the fetch handler for a follower."""
        partition, log, asked = self.partition, self.log, fetch.asked
        fetch.answer = answer = {
            "code": 0,
            "diverging_epoch": -1,
            "diverging_end_offset": -1,
            "high_watermark": -1,
            "log_start_offset": 0,
        }
        try:
            partition.leader_log(asked.leader_epoch)
            if asked.last_fetched_epoch >= 0:
                epoch, end_offset = log.end_offset_for_epoch(asked.last_fetched_epoch)
                if end_offset < 0:
                    answer["code"] = ErrorCode.OFFSET_OUT_OF_RANGE
                    return
                if epoch < asked.last_fetched_epoch or end_offset < asked.offset:
                    answer["diverging_epoch"], answer["diverging_end_offset"] = epoch, end_offset
                    return
            if asked.offset > log.log_end_offset:
                answer["code"] = ErrorCode.OFFSET_OUT_OF_RANGE
                return
            proposal = partition.follower_fetched(
                follower_id, fetch.broker_epoch, asked.offset, 0, names_epoch=True
            )
            if proposal is not None:
                self.proposals.append(proposal)
        except KafkaError as error:
            answer["code"] = error.code
            return
        answer["high_watermark"] = log.high_watermark
        fetch.records = log.records[asked.offset : asked.offset + count]

    def finish(self) -> None:
        """Like the fetcher for a response."""
        fetch, self.fetch = self.fetch, None
        assert fetch is not None
        assert fetch.answer is not None
        position = self.following.current(fetch.asked)
        if position is None:
            return
        log = self.log
        step = self.following.step(cast(Any, log), leader_epoch=fetch.asked.leader_epoch, **fetch.answer)
        if isinstance(step, Append):
            for epoch, value in fetch.records:
                if epoch > step.leader_epoch:
                    break
                log.take(epoch, value)
            log.advance_high_watermark(step.high_watermark)
            self.following.appended(position, cast(Any, log), step.high_watermark)
        elif isinstance(step, Truncate):
            self.world.check_cut(self, step.offset)
            log.truncate_to(step.offset)
            position.restart(cast(Any, log))
        elif isinstance(step, FindOffsets):
            leader = self.world.brokers[fetch.leader_id]
            if leader.is_alive and leader.partition.is_leader:
                cut = out_of_range(cast(Any, log), 0, leader.log.log_end_offset).truncate_to
                if cut is not None:
                    self.world.check_cut(self, cut)
                    log.truncate_to(cut)
            position.restart(cast(Any, log))
        elif isinstance(step, GiveUp):
            self.following.forget(position.key)


class World:
    def __init__(self, count: int = 3, min_insync_replicas: int = 1) -> None:
        ids = tuple(range(1, count + 1))
        self.now_ms = 10_000
        self.min_insync_replicas = min_insync_replicas
        self.controller = Registered(1, 1, ids, 1, ids, {node: BrokerStatus(epoch=node) for node in ids})
        self.history = [self.controller]
        self.next_broker_epoch = 100
        self.brokers = {node: Broker(self, node) for node in ids}
        self.acknowledged: dict[int, tuple[int, int]] = {}
        for broker in self.brokers.values():
            broker.learn(self.controller)

    # The controller

    def change(self, **changes: Any) -> None:
        new = replace(self.controller, **changes)
        if new.leader != self.controller.leader or new.leader_epoch != self.controller.leader_epoch:
            new = replace(new, leader_epoch=self.controller.leader_epoch + 1)
        if (new.leader, new.isr) != (self.controller.leader, self.controller.isr):
            new = replace(new, partition_epoch=self.controller.partition_epoch + 1)
        self.controller = new
        self.history.append(new)

    def alive(self, node: int) -> bool:
        return not self.controller.brokers[node].fenced

    def elect(self, node: int) -> None:
        if node in self.controller.isr and self.alive(node) and node != self.controller.leader:
            self.change(leader=node)

    def alter(self, broker: Broker, proposal: Proposal) -> ErrorCode | AcceptedChange:
        """AlterPartition."""
        now = self.controller
        if proposal.leader_epoch != now.leader_epoch or now.leader != broker.node_id:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != now.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for node, epoch in proposal.isr:
            standing = now.brokers[node]
            if standing.fenced or epoch not in (-1, standing.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        self.change(isr=tuple(node for node, _ in proposal.isr))
        return AcceptedChange(now.leader_epoch, self.controller.partition_epoch, self.controller.isr)

    def kill(self, node: int, lost: int) -> None:
        """A broker dies with some of its unflushed records, unless it is the last one in the ISR."""
        broker = self.brokers[node]
        broker.is_alive = False
        isr = tuple(other for other in self.controller.isr if other != node)
        standings = {**self.controller.brokers, node: replace(self.controller.brokers[node], fenced=True)}
        if isr or node not in self.controller.isr:
            kept = max(broker.log.flushed, broker.log.log_end_offset - lost)
            broker.log.truncate_to(kept)
        else:
            isr = self.controller.isr
        leader = self.controller.leader
        if leader == node:
            leader = next((other for other in isr if not standings[other].fenced), -1)
        self.change(leader=leader, isr=isr, brokers=standings)

    def restart(self, node: int) -> None:
        broker = self.brokers[node]
        self.next_broker_epoch += 1
        standings = {**self.controller.brokers, node: BrokerStatus(self.next_broker_epoch)}
        leader = self.controller.leader
        if leader < 0 and node in self.controller.isr:
            leader = node
        self.change(leader=leader, brokers=standings)
        broker.is_alive = True
        broker.begin()

    def deliver(self, broker: Broker) -> None:
        """Deliver the next metadata to a broker; a starting one gets the newest."""
        if broker.known is None:
            broker.known_at = len(self.history) - 1
        elif broker.known_at + 1 < len(self.history):
            broker.known_at += 1
        else:
            return
        broker.learn(self.history[broker.known_at])

    # Invariants

    def note_acknowledged(self, broker: Broker) -> None:
        """Everything below a leader's watermark may have been acknowledged."""
        if broker.is_alive and broker.partition.is_leader:
            for offset in range(broker.noted, broker.log.high_watermark):
                record = broker.log.records[offset]
                assert self.acknowledged.setdefault(offset, record) == record, "two values at one offset"
            broker.noted = broker.log.high_watermark

    def check_cut(self, broker: Broker, offset: int) -> None:
        if broker.node_id in self.controller.isr and broker.broker_epoch == (
            self.controller.brokers[broker.node_id].epoch
        ):
            for at in range(offset, broker.log.log_end_offset):
                assert at not in self.acknowledged or broker.log.records[at] != self.acknowledged[at], (
                    "an in-sync replica cuts off what was acknowledged"
                )

    def check(self) -> None:
        for broker in self.brokers.values():
            self.note_acknowledged(broker)
        for node in self.controller.isr:
            log = self.brokers[node].log
            for offset, record in self.acknowledged.items():
                assert log.log_end_offset > offset, f"in-sync replica {node} lacks offset {offset}"
                assert log.records[offset] == record, f"in-sync replica {node} differs at offset {offset}"
        for broker in self.brokers.values():
            log = broker.log
            assert log.high_watermark <= log.log_end_offset
            for offset in range(log.high_watermark):
                if offset in self.acknowledged:
                    assert log.records[offset] == self.acknowledged[offset], "replicas differ below it"
