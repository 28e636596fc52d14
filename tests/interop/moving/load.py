"""A load that knows what it was promised: every value once, in the order of its partition.

The producer is idempotent and is never told of an error: what a move or an election makes it see can be tried
again, and is. So what it was given to write is what must be read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.interop import peers

SECONDS_MAX = 120.0
Place = tuple[str, int]


class Load:
    """Writes to every partition of some topics until it is stopped, in a thread of its own."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int], *, pause_s: float = 0.02) -> None:
        """`topics`: how many partitions each has."""
        self.places = [(topic, index) for topic, count in topics.items() for index in range(count)]
        self.written: dict[Place, list[bytes]] = {place: [] for place in self.places}
        self.acknowledged: dict[Place, int] = dict.fromkeys(self.places, 0)
        self._problems: list[str] = []
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(SECONDS_MAX * 1000),
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self._pause_s):
            for place in self.places:
                value = f"{place[0]} {place[1]} {number}".encode()
                self.written[place].append(value)
                self._producer.produce(
                    place[0], value, key=value[-2:], partition=place[1], on_delivery=self._settle(place)
                )
            self._producer.poll(0)
            number += 1

    def _settle(self, place: Place) -> Any:
        def on_delivery(error: KafkaError | None, _message: object) -> None:
            if error is None:
                self.acknowledged[place] += 1
            else:
                self._problems.append(f"{place}: {error}")

        return on_delivery

    def wait_for_more(self, count: int = 1) -> None:
        """Until every partition has acknowledged so many more than now."""
        goals = {place: known + count for place, known in self.acknowledged.items()}

        def are_there() -> bool:
            self.check()
            return all(self.acknowledged[place] >= goal for place, goal in goals.items())

        peers.wait_until(
            are_there, SECONDS_MAX, lambda: f"{count} acknowledgements everywhere: {self.acknowledged}"
        )

    def check(self) -> None:
        assert not self._problems, self._problems[:3]

    def stop(self) -> None:
        """All that was written is acknowledged."""
        self._stop.set()
        self._thread.join(SECONDS_MAX)
        assert self._producer.flush(SECONDS_MAX) == 0, f"not all was acknowledged: {self.acknowledged}"
        self.check()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(SECONDS_MAX)
        self._producer.purge()
        self._producer.flush(1)


def read_values(bootstrap: str, place: Place, **settings: object) -> list[bytes]:
    """All values of a partition, from its first to its end as it is now."""
    return [value for _, value in read_records(bootstrap, place, **settings)]


def read_records(bootstrap: str, place: Place, **settings: object) -> list[tuple[bytes | None, bytes]]:
    """All keys and values of a partition."""
    topic, index = place
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-all",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
            **settings,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0)])
        found: list[tuple[bytes | None, bytes]] = []
        is_at_end = False
        deadline = time.monotonic() + SECONDS_MAX
        while not is_at_end:
            assert time.monotonic() < deadline, f"{topic}-{index}: {len(found)} records came, and no end"
            for message in consumer.consume(1000, timeout=0.1):
                if message.error() is None:
                    found.append((message.key(), message.value()))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    is_at_end = True
                else:
                    assert message.error().retriable(), message.error()
        return found
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, offsets: Mapping[Place, int]) -> None:
    """Commit offsets for a group that has no members."""
    chosen = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    _of_group(
        bootstrap, group, lambda consumer: list(consumer.commit(offsets=chosen, asynchronous=False) or ())
    )


def committed(bootstrap: str, group: str, places: Iterable[Place]) -> dict[Place, int]:
    """The offsets that a group has committed."""
    asked = [TopicPartition(*place) for place in places]
    known = _of_group(bootstrap, group, lambda consumer: list(consumer.committed(asked, timeout=10)))
    return {(one.topic, one.partition): one.offset for one in known}


def _of_group(bootstrap: str, group: str, ask: Callable[[Any], list[Any]]) -> list[Any]:
    """Ask the coordinator of a group, again as long as it is elsewhere or loading."""
    answered: list[Any] = []
    problems: list[object] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})

    def has_answered() -> bool:
        try:
            answered[:] = ask(consumer)
            problems[:] = [one.error for one in answered if one.error is not None]
        except KafkaException as error:
            problems[:] = [error.args[0]]
        return not problems

    try:
        peers.wait_until(
            has_answered, SECONDS_MAX, lambda: f"the coordinator of {group}: {problems}", pause_s=0.2
        )
    finally:
        consumer.close()
    return answered


class Transactions:
    """Writes transactions to partition 0 of a topic until it is stopped; every third one is aborted."""

    def __init__(self, bootstrap: str, topic: str, *, records: int = 5, pause_s: float = 0.05) -> None:
        self.committed: list[bytes] = []
        self.ended = 0
        self._topic = topic
        self._records = records
        self._pause_s = pause_s
        self._problem: BaseException | None = None
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"moves {topic}",
                "transaction.timeout.ms": 120_000,
                "message.timeout.ms": 110_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._again(lambda: self._producer.init_transactions(SECONDS_MAX))
            while not self._stop.wait(self._pause_s):
                self._one()
                self.ended += 1
        except BaseException as error:  # noqa: BLE001 - told in `check`, by the test's own thread
            self._problem = error

    def _one(self) -> None:
        values = [f"{self._topic} {self.ended} {number}".encode() for number in range(self._records)]
        self._producer.begin_transaction()
        try:
            for value in values:
                self._producer.produce(self._topic, value, partition=0)
            if self.ended % 3 != 2:
                self._again(lambda: self._producer.commit_transaction(SECONDS_MAX))
                self.committed += values
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        self._again(lambda: self._producer.abort_transaction(SECONDS_MAX))

    def _again(self, act: Callable[[], None]) -> None:
        """As the client's documentation asks for: what is retriable is called again."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                return act()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def check(self) -> None:
        assert self._problem is None, f"transaction {self.ended}: {self._problem!r}"

    def wait_for_more(self, count: int = 3) -> None:
        goal = self.ended + count

        def are_there() -> bool:
            self.check()
            return self.ended >= goal

        peers.wait_until(
            are_there, SECONDS_MAX, lambda: f"{goal} transactions, of which there are {self.ended}"
        )

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive(), f"transaction {self.ended} did not end"
        self.check()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(1)
