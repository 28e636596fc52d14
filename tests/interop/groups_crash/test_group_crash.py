"""Kill -9 of the node mid-rebalance and mid-commit: groups recover, no record is lost, offsets never go back.

OTTLA_TEST_KILLS says how often (8 unless told); the moments are random, and a failure names the seed.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from tests.interop import peers
from tests.interop.clients.admins import ConfluentAdmin
from tests.interop.clients.conftest import broker_kinds
from tests.interop.groups_crash.workers import HEARTBEAT_MS, SESSION_MS, WORKERS, Progress
from tests.interop.groups_raw.conversation import Talk

KILLS = int(os.environ.get("OTTLA_TEST_KILLS", "8"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "0")) or random.randrange(1, 2**31)
RECOVER_EVERY = 4  # so many kills come at random, then every group must get on before the next
TOPIC = "shared"
PARTITIONS = 6
MEMBERS = 2
PROPERTIES = {
    # A killed broker registers again once its old session has run out; Kafka's default is 9 s.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "offsets.topic.num.partitions": "5",
}
RECOVERY_S = 60.0


class Producing(threading.Thread):
    """Writes a little all the time."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = confluent_kafka.Producer({**settings, "reconnect.backoff.max.ms": 200})
        self._stopping = threading.Event()
        self.sent = 0
        self.acknowledged = 0

    def run(self) -> None:
        while not self._stopping.wait(0.05):
            for index in range(PARTITIONS * 2):
                self._producer.produce(
                    TOPIC, b"%d" % self.sent, partition=index % PARTITIONS, on_delivery=self._delivered
                )
                self.sent += 1
            self._producer.poll(0)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is None:
            self.acknowledged += 1

    def finish(self) -> None:
        self._stopping.set()
        self.join()
        assert self._producer.flush(RECOVERY_S) == 0
        assert self.acknowledged == self.sent


class Watch:
    """Looks at committed offsets from outside, as they are on the broker."""

    def __init__(self, broker: peers.BrokerProcess) -> None:
        self._broker = broker

    def committed(self, group: str) -> dict[int, int]:
        """Waits while the coordinator is not there yet."""
        found: dict[int, int] = {}

        def fetched() -> bool:
            try:
                with Talk(self._broker, 1, {}) as talk:
                    asked = [{"group_id": group, "topics": None}]
                    [answer] = talk.quietly("OffsetFetch", 9, groups=asked).groups
            except OSError:
                return False
            if answer.error_code:
                return False
            for topic in answer.topics:
                found.update({row.partition_index: row.committed_offset for row in topic.partitions})
            return True

        peers.wait_until(fetched, RECOVERY_S, f"offsets of {group}")
        return found

    def states(self, groups: list[Progress]) -> list[str]:
        with Talk(self._broker, 1, {}) as talk:
            listed = talk.quietly("ListGroups", 5).groups
        names = {progress.group for progress in groups}
        return [row.group_state for row in listed if row.group_id in names]

    def check(self, progress: Progress) -> None:
        """What was acknowledged before is there now, or more."""
        acknowledged = progress.acknowledged()
        committed = self.committed(progress.group)
        behind = {
            partition: (offset, committed.get(partition))
            for partition, offset in acknowledged.items()
            if committed.get(partition, -1) < offset
        }
        assert not behind, f"{progress.group}: acknowledged offsets are gone (acknowledged, found): {behind}"


def wait_for_all(groups: list[Progress], done: Callable[[Progress], bool], what: str) -> None:
    for progress in groups:
        peers.wait_until(lambda at=progress: done(at), RECOVERY_S, f"{progress.group} {what}", 0.05)  # type: ignore[misc]


@pytest.mark.parametrize("kind", broker_kinds())
def test_groups_survive_a_node_that_is_killed_again_and_again(kind: str) -> None:
    chance = random.Random(SEED)
    print(f"OTTLA_TEST_SEED={SEED}")
    with peers.running(kind, properties=PROPERTIES) as broker:
        assert ConfluentAdmin(broker.bootstrap).create_topic(TOPIC, partitions=PARTITIONS).code == 0
        producing = Producing(broker.bootstrap)
        producing.start()
        groups = [Progress(name) for name in WORKERS]
        workers = [
            WORKERS[progress.group](broker.bootstrap, TOPIC, progress)
            for progress in groups
            for _ in range(MEMBERS)
        ]
        for worker in workers:
            worker.start()
        states: Counter[str] = Counter()
        try:
            wait_for_all(groups, lambda progress: progress.commits > 0, "to commit for the first time")
            for number in range(1, KILLS + 1):
                states.update(kill_once(broker, groups, chance))
                if number % RECOVER_EVERY == 0 or number == KILLS:
                    counts = {progress.group: progress.commits for progress in groups}
                    wait_for_all(groups, lambda at: at.commits > counts[at.group], "to commit again")  # noqa: B023
            producing.finish()
            everything_is_committed(broker, groups)
            print(f"{KILLS} kills; groups were then {dict(states)}")
            print({progress.group: progress.commits for progress in groups}, "commits acknowledged")
        finally:
            for worker in workers:
                worker.stop()
        for worker in workers:
            worker.join(RECOVERY_S)
            assert worker.failure is None, (
                f"{type(worker).__name__} of {worker.progress.group}: {worker.failure}"
            )


def kill_once(broker: peers.BrokerProcess, groups: list[Progress], chance: random.Random) -> list[str]:
    """Somebody joins or leaves, the node dies at any moment of that, and is started again.

    Returns the states that the groups were in just before.
    """
    progress = chance.choice(groups)
    passing = WORKERS[progress.group](broker.bootstrap, TOPIC, progress)
    passing.start()
    threading.Event().wait(chance.uniform(0, 0.8))
    if chance.random() < 0.5:
        passing.stop()
        threading.Event().wait(chance.uniform(0, 0.2))
    watch = Watch(broker)
    states = watch.states(groups)
    broker.kill()
    broker.start()
    for each in groups:
        watch.check(each)
    passing.stop()
    return states


def everything_is_committed(broker: peers.BrokerProcess, groups: list[Progress]) -> None:
    """In the end every group has every record, and has committed it."""
    admin = ConfluentAdmin(broker.bootstrap)
    ends = {index: admin.list_offset(TOPIC, index, "latest").value for index in range(PARTITIONS)}
    watch = Watch(broker)
    wait_for_all(
        groups, lambda progress: watch.committed(progress.group) == ends, f"to commit everything: {ends}"
    )
    for progress in groups:
        watch.check(progress)
        for index, end in ends.items():
            missing = set(range(end)) - progress.delivered[index]
            assert not missing, f"{progress.group} never got {sorted(missing)[:10]} of partition {index}"
