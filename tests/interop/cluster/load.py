"""A load that checks its own results: idempotent producers, a group that commits, and transactions.

All clients are confluent-kafka (librdkafka), used as its users do: retriable errors are retried. `Load.check`
reads everything from the beginning: acknowledged records must exist once, in order.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import peers
from tests.interop.cluster.nodes import SECONDS_MAX

PLAIN = "plain"
IN_TRANSACTIONS = "in-transactions"
PARTITIONS = 5  # so every node leads one
PRODUCERS = 2
GROUPS = {"classic": 1, "consumer": 2}  # protocols, which name the groups too, with their members
TOPICS = {PLAIN: PARTITIONS, IN_TRANSACTIONS: PARTITIONS}
PAUSE_S = 0.02
REQUEST_MS = 5_000  # a leader that is cut off is silent: clients look for another one after this


def settings_of(bootstrap: str) -> dict[str, Any]:
    """A client's settings; logging is off, since disconnects are normal here."""
    return {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "reconnect.backoff.max.ms": 500,
        "socket.timeout.ms": 6_000,
        "topic.metadata.refresh.interval.ms": 2_000,
    }


def create_topics(bootstrap: str, replicas: int = 3) -> None:
    admin = AdminClient(settings_of(bootstrap))
    config = {"min.insync.replicas": "2"}
    new = [NewTopic(name, count, replicas, config=config) for name, count in TOPICS.items()]
    for made in admin.create_topics(new, operation_timeout=SECONDS_MAX).values():
        made.result(SECONDS_MAX)


class _Worker(threading.Thread):
    """Repeats a task until `end`, which raises its error."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._is_over = threading.Event()
        self._problem: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self._problem = error
            raise

    def work(self) -> None:
        raise AssertionError("a worker says what it does")

    def end(self) -> None:
        self._is_over.set()
        self.join(SECONDS_MAX)
        assert not self.is_alive(), f"{type(self).__name__} has not ended"
        self.raise_problem()

    def ask_to_end(self) -> None:
        self._is_over.set()

    def raise_problem(self) -> None:
        if self._problem is not None:
            raise AssertionError(f"{type(self).__name__} ended: {self._problem!r}") from self._problem


class Producing(_Worker):
    """Writes "producer:number" with increasing numbers, to each partition in turn."""

    def __init__(self, bootstrap: str, number: int) -> None:
        super().__init__()
        self._number = number
        self._producer = Producer(
            settings_of(bootstrap)
            | {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": 600_000}
            | {"request.timeout.ms": REQUEST_MS}
        )
        self.sent = 0
        # Number -> partition and offset, as acknowledged. Where an answer was lost, and that to a later batch
        # tells the client that this one must be there, it does not know the offset.
        self.offsets: dict[int, tuple[int | None, int | None]] = {}
        self.failures: list[str] = []

    def work(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            for _ in range(PARTITIONS):
                value = b"%d:%d" % (self._number, self.sent)
                partition = self.sent % PARTITIONS
                self._producer.produce(PLAIN, value, partition=partition, on_delivery=self._noting(self.sent))
                self.sent += 1
            self._producer.poll(0)
        left = self._producer.flush(SECONDS_MAX)
        assert left == 0, f"{left} records were not acknowledged"

    def _noting(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.offsets[number] = message.partition(), message.offset()
            else:
                self.failures.append(f"{number}: {error}")

        return note


class Ledger:
    """The records read and offsets committed by the members of a group together."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.lock = threading.Lock()
        self.read: dict[int, set[int]] = defaultdict(set)  # partition -> offsets
        self.committed: Counter[int] = Counter()  # partition -> the highest offset that was acknowledged
        self.problems: list[str] = []

    def acknowledged(self) -> dict[int, int]:
        with self.lock:
            return dict(self.committed)

    @property
    def read_count(self) -> int:
        with self.lock:
            return sum(len(offsets) for offsets in self.read.values())

    def wait_until_read(self, count: int) -> None:
        try:
            peers.wait_until(lambda: self.read_count >= count, SECONDS_MAX, "all to be read", 0.1)
        except AssertionError as error:
            counts = {partition: len(read) for partition, read in self.read.items()}
            raise AssertionError(f"{error} by {self.group}: {counts} of {count} in all") from None


class Member(_Worker):
    """A member of the group: reads, and commits its positions."""

    def __init__(self, bootstrap: str, ledger: Ledger) -> None:
        super().__init__()
        settings = {"group.id": ledger.group, "group.protocol": ledger.group}
        settings |= {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
        self._consumer = Consumer(settings_of(bootstrap) | settings)
        self._ledger = ledger
        self._floors: dict[int, int] = {}  # partitions that were given to it: it must not read below

    def work(self) -> None:
        self._consumer.subscribe([PLAIN], on_assign=self._on_assign)
        try:
            while not self._is_over.is_set():
                messages = [one for one in self._consumer.consume(500, timeout=0.2) if one.error() is None]
                if messages:
                    self._take(messages)
        finally:
            self._consumer.close()

    def _on_assign(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        with self._ledger.lock:
            self._floors.update({one.partition: self._ledger.committed[one.partition] for one in places})

    def _take(self, messages: list[Message]) -> None:
        ends: dict[int, int] = {}
        with self._ledger.lock:
            for message in messages:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if offset < self._floors.pop(partition, 0):
                    self._ledger.problems.append(f"partition {partition} was read again from {offset}")
                self._ledger.read[partition].add(offset)
                ends[partition] = offset + 1
        try:
            done = self._consumer.commit(
                offsets=[TopicPartition(PLAIN, partition, end) for partition, end in ends.items()],
                asynchronous=False,
            )
        except KafkaException:
            return  # perhaps it is committed, perhaps not: whoever goes on reads it again then
        with self._ledger.lock:
            for one in done or ():
                if one.error is None:
                    self._ledger.committed[one.partition] = max(
                        self._ledger.committed[one.partition], one.offset
                    )


class Transacting(_Worker):
    """Writes transactions, each with a record in every partition; every fourth is aborted."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._servers = bootstrap
        self.outcomes: dict[int, str] = {}
        self.restarts: list[str] = []

    def work(self) -> None:
        producer = self._begin()
        number = 0
        while not self._is_over.wait(PAUSE_S):
            self.outcomes[number] = "unknown"
            try:
                self.outcomes[number] = self._transact(producer, number)
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise
                self.restarts.append(str(error))
                producer = self._begin()
            number += 1

    def _begin(self) -> Producer:
        settings = {"transactional.id": "transacting", "linger.ms": 2, "request.timeout.ms": REQUEST_MS}
        producer = Producer(settings_of(self._servers) | settings)
        _until_done(producer.init_transactions)
        return producer

    def _transact(self, producer: Producer, number: int) -> str:
        producer.begin_transaction()
        try:
            for partition in range(PARTITIONS):
                producer.produce(IN_TRANSACTIONS, b"%d" % number, partition=partition)
            if number % 4 != 3:
                _until_done(producer.commit_transaction)
                return "committed"
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        _until_done(producer.abort_transaction)
        return "aborted"


def _until_done(step: Callable[[float], object]) -> None:
    """Retry as the client requires: retriable errors mean another call."""
    last: KafkaException | None = None
    for _ in range(20):
        try:
            step(30)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            last = error
        else:
            return
    raise AssertionError(f"it may be tried again for ever: {last}")


class Load:
    """All of the above in parallel."""

    def __init__(self, bootstrap: str) -> None:
        self._servers = bootstrap
        self.producers = [Producing(bootstrap, number) for number in range(PRODUCERS)]
        self.ledgers = [Ledger(group) for group in GROUPS]
        self.members = [
            Member(bootstrap, ledger) for ledger in self.ledgers for _ in range(GROUPS[ledger.group])
        ]
        self.transacting = Transacting(bootstrap)

    @property
    def workers(self) -> list[_Worker]:
        return [*self.producers, self.transacting, *self.members]

    def __enter__(self) -> Load:
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.ask_to_end()

    def progress(self) -> dict[str, int]:
        """The numbers of acknowledged records, ended transactions, and committed offsets per group."""
        ended = sum(outcome != "unknown" for outcome in list(self.transacting.outcomes.values()))
        found = {"records": sum(len(one.offsets) for one in self.producers), "transactions": ended}
        for ledger in self.ledgers:
            found[ledger.group] = sum(ledger.acknowledged().values())
        return found

    def wait_for_progress(self, *names: str) -> None:
        """Wait until these kinds of clients, or all, have made progress."""
        before, began = self.progress(), time.monotonic()
        steps = {"records": 40, "transactions": 2}
        seconds: dict[str, float] = {}  # when each had

        def got_on() -> bool:
            for worker in self.workers:
                worker.raise_problem()
            for name, count in self.progress().items():
                if count >= before[name] + steps.get(name, 1):
                    seconds.setdefault(name, round(time.monotonic() - began, 1))
            return set(names or before) <= set(seconds)

        try:
            peers.wait_until(got_on, SECONDS_MAX, "the load to get on", 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}: {before} -> {self.progress()}") from None
        print(f"got on after (seconds) {seconds}")

    def check_committed(self) -> None:
        """Check that no acknowledged offset of a group has decreased."""
        for ledger in self.ledgers:
            acknowledged = ledger.acknowledged()
            found = committed_offsets(self._servers, ledger.group, acknowledged)
            behind = {one: (end, found[one]) for one, end in acknowledged.items() if found[one] < end}
            assert not behind, f"offsets of {ledger.group} have gone back (acknowledged, found): {behind}"

    def finish(self) -> None:
        """Wait until everything is acknowledged, ended, and read by the groups."""
        for producer in self.producers:
            producer.end()
            assert producer.failures == []
            assert len(producer.offsets) == producer.sent
        self.transacting.end()
        sent = sum(producer.sent for producer in self.producers)
        for ledger in self.ledgers:
            ledger.wait_until_read(sent)
        for member in self.members:
            member.end()
        assert [ledger.problems for ledger in self.ledgers if ledger.problems] == []
        self.check_committed()

    def check(self) -> str:
        """Read everything from the beginning and check it; return a line of figures."""
        self._check_plain()
        self._check_transactions()
        outcomes = Counter(self.transacting.outcomes.values())
        sent = sum(producer.sent for producer in self.producers)
        return f"{sent} records, transactions: {dict(outcomes)}, restarts {self.transacting.restarts}"

    def _check_plain(self) -> None:
        found = read_all(self._servers, PLAIN)
        places: dict[bytes, tuple[int, int]] = {}
        for partition, messages in found.items():
            last: Counter[bytes] = Counter()
            for offset, value in messages:
                assert value not in places, f"{value!r} was written twice: {places[value]}, {offset}"
                places[value] = partition, offset
                producer, _, number = value.partition(b":")
                assert int(number) >= last[producer], f"{value!r} came after {last[producer]}"
                last[producer] = int(number)
        for index, writer in enumerate(self.producers):
            for sent, told in writer.offsets.items():
                place = places.pop(b"%d:%d" % (index, sent), None)
                assert place is not None, f"{index}:{sent} was acknowledged and is lost"
                assert told in (place, (place[0], None)), (
                    f"{index}:{sent} was acknowledged at {told}: {place}"
                )
        assert not places, f"nobody wrote {list(places)[:5]}"

    def _check_transactions(self) -> None:
        found = read_all(self._servers, IN_TRANSACTIONS)
        counts: Counter[int] = Counter()
        for messages in found.values():
            numbers = [int(value) for _, value in messages]
            assert numbers == sorted(set(numbers)), "transactions doubled or out of order"
            counts.update(numbers)
        allowed = {"committed": {PARTITIONS}, "aborted": {0}, "unknown": {0, PARTITIONS}}
        wrong = {
            number: (outcome, counts[number])
            for number, outcome in self.transacting.outcomes.items()
            if counts[number] not in allowed[outcome]
        }
        assert not wrong, f"transactions in part, lost, or not aborted (outcome, partitions): {wrong}"


def committed_offsets(bootstrap: str, group: str, partitions: Iterable[int]) -> dict[int, int]:
    """The committed offsets, as soon as the group's coordinator responds."""
    places = [TopicPartition(PLAIN, partition) for partition in partitions]
    consumer = Consumer(settings_of(bootstrap) | {"group.id": group})
    found: dict[int, int] = {}

    def is_known() -> bool:
        try:
            answered = consumer.committed(places, timeout=10)
        except KafkaException:
            return False
        found.update({one.partition: one.offset for one in answered if one.error is None})
        return len(found) == len(places)

    try:
        peers.wait_until(is_known, SECONDS_MAX, f"committed offsets of {group}", 0.1)
    finally:
        consumer.close()
    return found


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """Partition -> (offset, value) of the records visible with read_committed."""
    settings = {
        "group.id": "checking",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings_of(bootstrap) | settings)
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(TOPICS[topic])]
        ends = {one.partition: _end_of(consumer, one) for one in places}
        consumer.assign(places)
        found: dict[int, list[tuple[int, bytes]]] = {one.partition: [] for one in places}
        over: set[int] = set()

        def is_read() -> bool:
            for message in consumer.consume(5000, timeout=0.5):
                _note(message, found, ends, over)
            return len(over) == len(places)

        peers.wait_until(is_read, SECONDS_MAX, f"the end of {topic}: {ends}")
        return found
    finally:
        consumer.close()


def _end_of(consumer: Consumer, place: TopicPartition) -> int:
    found: list[int] = []

    def is_known() -> bool:
        try:
            found.append(consumer.get_watermark_offsets(place, timeout=10)[1])
        except KafkaException:
            return False
        return True

    peers.wait_until(is_known, SECONDS_MAX, f"the end of {place}")
    return found[-1]


def _note(
    message: Message, found: dict[int, list[tuple[int, bytes]]], ends: dict[int, int], over: set[int]
) -> None:
    partition, error = message.partition(), message.error()
    if partition is None:
        return
    if error is None:
        found[partition].append((message.offset() or 0, message.value() or b""))
    elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= ends[partition]:
        over.add(partition)
