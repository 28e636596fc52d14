"""One leader and its followers in random order: appends, fetches, elections, kills, late metadata."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.replication.world import Broker, World

from ottla.replication.leader import AcceptedChange

WEIGHTS = {
    "append": 8,
    "fetch_at_once": 16,
    "ask": 3,
    "serve": 3,
    "finish": 3,
    "lose_fetch": 1,
    "learn": 6,
    "all_learn": 3,
    "elect": 2,
    "alter": 5,
    "shrink": 2,
    "wait": 2,
    "flush": 1,
    "checkpoint": 1,
    "kill": 2,
    "restart": 4,
}


class Life:
    """One partition with three replicas, and its possible events."""

    def __init__(self, min_insync_replicas: int) -> None:
        self.world = World(min_insync_replicas=min_insync_replicas)
        self.value = 0
        self.watermarks: dict[tuple[int, int, int], int] = {}

    def broker(self, node: int) -> Broker:
        return self.world.brokers[node]

    def append(self, node: int, count: int) -> None:
        broker = self.broker(node)
        if broker.is_alive and broker.partition.is_leader:
            for _ in range(count):
                self.value += 1
                broker.partition.append(self.value, acks=1, now_ms=0)  # type: ignore[arg-type]

    def ask(self, node: int) -> None:
        broker = self.broker(node)
        if broker.is_alive and broker.fetch is None:
            broker.ask()

    def serve(self, node: int, count: int) -> None:
        fetch = self.broker(node).fetch
        if fetch is not None and fetch.answer is None and self.broker(fetch.leader_id).is_alive:
            self.broker(fetch.leader_id).serve(node, fetch, count)

    def finish(self, node: int) -> None:
        broker = self.broker(node)
        if broker.is_alive and broker.fetch is not None and broker.fetch.answer is not None:
            broker.finish()

    def fetch_at_once(self, node: int, count: int) -> None:
        self.ask(node)
        self.serve(node, count)
        self.finish(node)

    def lose_fetch(self, node: int) -> None:
        self.broker(node).fetch = None

    def learn(self, node: int) -> None:
        broker = self.broker(node)
        if broker.is_alive:
            self.world.deliver(broker)

    def all_learn(self) -> None:
        for broker in self.world.brokers.values():
            while broker.is_alive and (broker.known is None or broker.known_at + 1 < len(self.world.history)):
                self.world.deliver(broker)

    def elect(self, node: int) -> None:
        self.world.elect(node)

    def alter(self, node: int, is_answered: bool) -> None:
        broker = self.broker(node)
        leadership = broker.partition.leadership
        if broker.is_alive and leadership is not None and leadership.pending is not None:
            answer = self.world.alter(broker, leadership.pending)
            if not is_answered:
                return
            if isinstance(answer, AcceptedChange):
                broker.partition.isr_change_accepted(leadership.pending, answer)
            else:
                broker.partition.isr_change_rejected(leadership.pending, answer)

    def shrink(self, node: int) -> None:
        broker = self.broker(node)
        leadership = broker.partition.leadership
        if broker.is_alive and leadership is not None and broker.partition.is_leader:
            leadership.shrinkage(broker.log.log_end_offset)

    def wait(self, ms: int) -> None:
        self.world.now_ms += ms

    def flush(self, node: int) -> None:
        broker = self.broker(node)
        broker.log.flushed = broker.log.log_end_offset

    def checkpoint(self, node: int) -> None:
        self.broker(node).checkpoint = self.broker(node).log.high_watermark

    def kill(self, node: int, lost: int) -> None:
        if self.broker(node).is_alive:
            self.world.kill(node, lost)

    def restart(self, node: int) -> None:
        if not self.broker(node).is_alive:
            self.world.restart(node)

    def nothing_is_lost(self) -> None:
        self.world.check()
        for broker in self.world.brokers.values():
            if broker.is_alive and broker.partition.is_leader:
                key = (broker.node_id, broker.broker_epoch, broker.partition.leader_epoch)
                assert broker.log.high_watermark >= self.watermarks.get(key, 0)
                self.watermarks[key] = broker.log.high_watermark

    def heal(self) -> None:
        """Without further failures, when everything has arrived, all replicas are equal."""
        for node in (1, 2, 3):
            self.restart(node)
        for _ in range(500):
            if self.is_settled():
                break
            self.all_learn()
            for node in (1, 2, 3):
                self.fetch_at_once(node, 3)
                self.alter(node, True)
            self.world.now_ms += 1
        self.nothing_is_lost()
        assert self.is_settled()

    def is_settled(self) -> bool:
        leader = self.broker(self.world.controller.leader).log
        return set(self.world.controller.isr) == {1, 2, 3} and all(
            broker.log.records == leader.records and broker.log.high_watermark == leader.log_end_offset
            for broker in self.world.brokers.values()
        )


def step(life: Life, random: Random) -> None:
    name = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    node = random.randint(1, 3)
    if name in ("append", "fetch_at_once"):
        getattr(life, name)(node, random.randint(1, 3))
    elif name == "serve":
        life.serve(node, random.randint(0, 3))
    elif name == "kill":
        life.kill(node, random.randint(0, 4))
    elif name == "alter":
        life.alter(node, random.random() < 0.7)
    elif name == "wait":
        life.wait(random.choice([1, 300, 1500]))
    elif name == "all_learn":
        life.all_learn()
    else:
        getattr(life, name)(node)


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=300, deadline=None)
def test_nothing_acknowledged_is_lost_and_all_replicas_agree_in_the_end(seed: int) -> None:
    random = Random(seed)
    life = Life(min_insync_replicas=random.randint(1, 2))
    for _ in range(120):
        step(life, random)
        life.nothing_is_lost()
    life.heal()
