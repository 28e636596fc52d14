"""Transactions change hands with the data directory: what was begun on one broker is ended on the other.

At every handover some are open (of both protocols, over several partitions, with the offsets of a group) and
one has just been decided. The next broker knows them as they are, hides what is not committed, lets their
producers go on where they were, and ends them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.interop import peers
from tests.interop.clients.conftest import broker_kinds
from tests.interop.groups_raw.brokers import wait_for_coordinator
from tests.interop.groups_raw.conversation import Talk
from tests.interop.transactions_tool.producers import Producer

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
GROUP = "group-of-a-transaction"
PARTITIONS = [("alpha", 0), ("alpha", 1), ("beta", 0)]
# A Kafka broker that starts after a kill believes its old leadership for a moment, sends the markers of what
# was decided before its listener is up, and when it hears that it leads no more it takes the partitions for
# deleted: CompleteCommit, and no marker. So it is not asked to carry out what another one decided.
SKIPS_MARKERS = "kafka"
NAMES = ("new-commits", "new-aborts", "old-commits", "old-aborts", "just-decided")


class Life:
    """What happens over all brokers, and what a reader should see by now."""

    def __init__(self) -> None:
        self.producers: dict[str, Producer] = {}
        self.committed: dict[tuple[str, int], list[bytes]] = {key: [] for key in PARTITIONS}
        self.described: dict[str, Any] = {}
        self.offset = -1
        self.round = 0

    def begin(self, talk: Talk, *, is_awaited: bool) -> None:
        """Leave transactions open; the last one is decided when this returns, or has its markers too."""
        self.round += 1
        for name in NAMES:
            if name not in self.producers:
                self.producers[name] = Producer(talk, name, is_new=not name.startswith("old")).init()
            self._write(self.producers[name], "begun")
        self.producers["new-commits"].commit_offset(GROUP, "alpha", self.round)
        self.described = described(talk)
        self.producers["just-decided"].end(committed=True, is_awaited=is_awaited)

    def _write(self, producer: Producer, what: str) -> None:
        if not producer.is_new:
            producer.add(alpha=[0, 1], beta=[0])
        for topic, index in PARTITIONS:
            values = [
                f"{producer.name} {what} {self.round} {topic}-{index} {number}".encode()
                for number in range(3)
            ]
            producer.write(topic, index, values=values)
            if not producer.name.endswith("aborts"):
                self.committed[topic, index] += values

    def take_over(self, broker: peers.BrokerProcess, talk: Talk) -> None:
        for producer in self.producers.values():
            producer.talk = talk
        self.producers["just-decided"].wait_settled()
        now = described(talk)
        assert now.pop("just-decided")["transaction_state"] == "CompleteCommit"
        expected = {name: shown for name, shown in self.described.items() if name != "just-decided"}
        assert now == expected
        # Everything after the first open transaction is hidden, the decided one too.
        seen = read_committed(broker)
        assert all(b" begun %d " % self.round not in value for values in seen.values() for value in values)
        assert committed_offset(talk) == self.offset
        for name in NAMES[:-1]:
            self._write(self.producers[name], "gone on")
            self.producers[name].end(committed=name.endswith("commits"))
        self.offset = self.round
        assert committed_offset(talk) == self.offset
        # Whoever of them wrote first is another matter in each partition; each is there once.
        assert_committed(broker, self.committed)


def cut_last_batch(log: Path) -> bytes:
    """Take the last batch out of a log, as if the machine had lost it; its bytes."""
    content = log.read_bytes()
    position = start = 0
    while position < len(content):
        start = position
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    assert position == len(content), f"the last batch of {log} is torn already"
    log.write_bytes(content[:start])
    return content[start:]


def described(talk: Talk) -> dict[str, Any]:
    rows = talk.hears("DescribeTransactions", transactional_ids=list(NAMES)).transaction_states
    return {
        row.transactional_id: {
            "transaction_state": row.transaction_state,
            "producer": (row.producer_id, row.producer_epoch),
            "times": (row.transaction_timeout_ms, row.transaction_start_time_ms),
            "partitions": {(topic.topic, index) for topic in row.topics for index in topic.partitions},
        }
        for row in rows
    }


def committed_offset(talk: Talk) -> int:
    topics = [{"name": "alpha", "partition_indexes": [0]}]
    groups = [{"group_id": GROUP, "topics": topics}]
    [answer] = talk.quietly("OffsetFetch", 9, groups=groups, require_stable=False).groups
    return int(answer.topics[0].partitions[0].committed_offset)


def read_committed(broker: peers.BrokerProcess) -> dict[tuple[str, int], list[bytes]]:
    """Every record up to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: dict[tuple[str, int], list[bytes]] = {key: [] for key in PARTITIONS}
    unread = set(PARTITIONS)
    try:
        consumer.assign([TopicPartition(topic, index, 0) for topic, index in PARTITIONS])
        while unread:
            message = consumer.poll(30.0)
            assert message is not None, f"nothing more came of {unread}"
            error = message.error()
            if error is None:
                found[message.topic(), message.partition()].append(message.value())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unread.discard((message.topic(), message.partition()))
    finally:
        consumer.close()
    return found


def assert_committed(broker: peers.BrokerProcess, expected: dict[tuple[str, int], list[bytes]]) -> None:
    """Kafka's last stable offset may come a moment after the end of a transaction: it is waited for."""
    wanted = {key: sorted(values) for key, values in expected.items()}
    found: dict[tuple[str, int], list[bytes]] = {}

    def is_there() -> bool:
        found.update({key: sorted(values) for key, values in read_committed(broker).items()})
        return found == wanted

    try:
        peers.wait_until(is_there, 20, "everything that is committed", pause_s=0.5)
    except AssertionError:
        assert found == wanted
        raise


def relays() -> list[list[str]]:
    """Who hands on to whom; with Kafka alone the test itself is proven."""
    if broker_kinds() == ["kafka"]:
        return [["kafka", "kafka", "kafka"]]
    return [["ottla", "kafka", "ottla"], ["kafka", "ottla", "kafka"]]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("kinds", relays(), ids="-to-".join)
def test_open_transactions_change_hands(tmp_path: Path, kinds: list[str], clean: bool) -> None:
    port, controller_port = peers.free_port(), peers.free_port()
    life = Life()
    for number, kind in enumerate(kinds):
        with (
            peers.running(
                kind, tmp_path, port=port, controller_port=controller_port, properties=PROPERTIES
            ) as broker,
            Talk(broker, 1, {}) as talk,
        ):
            wait_for_coordinator(broker)
            if number:
                life.take_over(broker, talk)
            if number < len(kinds) - 1:
                life.begin(talk, is_awaited=not clean and kinds[number + 1] == SKIPS_MARKERS)
            if clean:
                broker.stop()
            else:
                broker.kill()


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("kinds", [["kafka", "ottla"], ["ottla", "ottla"]], ids="-to-".join)
def test_what_one_broker_decided_the_other_carries_out(
    tmp_path: Path, kinds: list[str], is_commit: bool
) -> None:
    """The first is killed with the decision in its log, and one of three markers in the partitions."""
    options: dict[str, Any] = {
        "port": peers.free_port(),
        "controller_port": peers.free_port(),
        "properties": PROPERTIES,
    }
    written = [b"one", b"two", b"three"]
    with peers.running(kinds[0], tmp_path, **options) as broker, Talk(broker, 1, {}) as talk:
        wait_for_coordinator(broker)
        producer = Producer(talk, "decided").init()
        for topic, index in PARTITIONS:
            producer.write(topic, index, values=written)
        producer.end(committed=is_commit)
        broker.kill()
    for name in ("alpha-1", "beta-0", "__transaction_state-0"):
        lost = cut_last_batch(broker.data / name / "00000000000000000000.log")
        is_control = bool(lost[22] & 0x20)
        assert is_control == (not name.startswith("__"))
    with peers.running(kinds[1], tmp_path, **options) as broker, Talk(broker, 1, {}) as talk:
        wait_for_coordinator(broker)
        producer.talk = talk
        producer.wait_settled()
        assert producer.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
        assert_committed(broker, {key: written if is_commit else [] for key in PARTITIONS})
        # The producer goes on with what its end gave it.
        producer.write("beta", 0, values=[b"later"])
        producer.end(committed=True)
        expected = {key: written if is_commit else [] for key in PARTITIONS}
        assert_committed(broker, {**expected, ("beta", 0): [*expected["beta", 0], b"later"]})
