"""Tasks that take turns at partitions: one transaction, shared sequence numbers, and broken turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

import ottla  # noqa: E402 - they need what is asked for above
from ottla.client.admin import NewTopic  # noqa: E402
from ottla.client.errors import TransactionStateError  # noqa: E402
from ottla.spark.sink.batch_sink import check_turns  # noqa: E402
from ottla.spark.sink.columns import columns_of  # noqa: E402
from ottla.spark.sink.errors import TurnBroken, WritersOverlap  # noqa: E402
from ottla.spark.sink.options import SinkOptions, parse  # noqa: E402
from ottla.spark.sink.row_builder import BuiltBatch  # noqa: E402
from ottla.spark.sink.tasks import Build, Send  # noqa: E402
from ottla.spark.sink.transaction import SharedTransaction  # noqa: E402
from ottla.spark.sink.turns import Turn, Turns  # noqa: E402
from ottla.testing import Broker  # noqa: E402

PARTITIONS = 2
WAIT = 120.0
ROWS = types.StructType().add("key", "string").add("value", "string")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": str(PARTITIONS)}) as started:
        yield started


def options_of(broker: Broker, name: str) -> SinkOptions:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)]).all()
    return parse(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name, "transactionalId": name}
    )


def pieces(options: SinkOptions, task: int, count: int) -> Iterator[BuiltBatch]:
    """Many small batches of a task: ten rows at a time."""
    assert options.topic is not None
    build = Build(options, columns_of(ROWS, options), {options.topic: PARTITIONS})
    for number in range(count):
        values = [f"{task}-{number * 10 + at}" for at in range(10)]
        yield from build.built([pa.RecordBatch.from_pydict({"key": values, "value": values})])


def read(broker: Broker, topic: str, isolation_level: str = "read_committed") -> list[list[str]]:
    """The values of each partition, in order."""
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        broker.bootstrap_servers, isolation_level=isolation_level, auto_offset_reset="earliest"
    )
    places = [(topic, partition) for partition in range(PARTITIONS)]
    found: list[list[str]] = [[] for _ in places]
    with consumer:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in ends):
            for record in consumer.poll(1.0):
                found[record.partition].append(record.value.decode())
    return found


def rows_of(table: Any) -> list[Any]:
    return [SimpleNamespace(**row) for row in table.to_pylist()]


def test_tasks_share_the_partitions_of_one_transaction_and_keep_their_order(
    broker: Broker, tmp_path: Path
) -> None:
    transaction = SharedTransaction(options_of(broker, "turns"))
    assert transaction.prepare("query", 0)
    send = Send(transaction.options, transaction.share(), Turns(str(tmp_path)))
    tasks, count = 4, 40
    begin = threading.Barrier(tasks)

    def run(task: int) -> Any:
        begin.wait(WAIT)
        return send.send(pieces(transaction.options, task, count))

    with ThreadPoolExecutor(tasks) as pool:
        reports = [row for table in pool.map(run, range(tasks)) for row in rows_of(table)]
    check_turns(reports, Turns(str(tmp_path)))
    assert {report.partition for report in reports} == {0, 1}
    assert len(reports) == tasks * PARTITIONS, "each task had rows for each partition"
    assert not any(read(broker, "turns"))
    transaction.commit("query", 0)
    transaction.close()
    found = read(broker, "turns")
    everything = [value for values in found for value in values]
    assert sorted(everything) == sorted(f"{task}-{row}" for task in range(tasks) for row in range(count * 10))
    for values in found:
        for task in range(tasks):
            numbers = [int(value.partition("-")[2]) for value in values if value.startswith(f"{task}-")]
            assert numbers == sorted(numbers)


def test_no_task_writes_after_a_failed_turn(broker: Broker, tmp_path: Path) -> None:
    options = options_of(broker, "broken")
    transaction = SharedTransaction(options)
    assert transaction.prepare("query", 0)
    turns = Turns(str(tmp_path))
    lost = turns.take("broken", 0)
    with pytest.raises(RuntimeError, match="the worker died"), lost.beginning():
        raise RuntimeError("the worker died")
    with pytest.raises(TurnBroken, match="broken-0"):
        Send(options, transaction.share(), turns).send(pieces(options, 0, 20))
    assert turns.written("broken", 0) is None
    assert transaction.explain(RuntimeError("a task failed")) is None


def test_a_fenced_zombie_leaves_a_broken_turn(broker: Broker, tmp_path: Path) -> None:
    options = options_of(broker, "fenced")
    dead = SharedTransaction(options)
    assert dead.prepare("query", 0)
    zombie = Send(options, dead.share(), Turns(str(tmp_path)))
    heir = SharedTransaction(options)
    assert heir.prepare("query", 0)
    # Its first send is refused; if it learns that before it has sent all, its turn is broken.
    with pytest.raises(
        Exception, match=r"owner of the transaction ended it|has fenced this one|is not committed"
    ):
        zombie.send(pieces(options, 0, 20))
    assert None in [zombie.turns and zombie.turns.written("fenced", at) for at in range(PARTITIONS)]
    heir.commit("query", 0)
    heir.close()
    dead.close()
    assert not any(read(broker, "fenced", "read_uncommitted"))


class Answer:
    """A delivery that completes when the test says so."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.listeners: list[Callable[[], object]] = []

    def on_done(self, listener: Callable[[], object]) -> None:
        self.listeners.append(listener)

    def report(self) -> Answer:
        return self

    def come(self) -> None:
        for listener in self.listeners:
            listener()


def sent(turn: Turn, answer: Any, records: int) -> bool:
    return turn.send(lambda: answer, records)


def begun(turn: Turn, answer: Answer, records: int) -> Turn:
    with turn.beginning():
        assert sent(turn, answer, records)
    return turn


def test_a_turn_ends_with_the_last_acknowledgment(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path))
    first, second = Answer(), Answer()
    turn = begun(turns.take("t", 0), first, 10)
    assert sent(turn, second, 5)
    assert turns.written("t", 0) is None, "it is under way"
    first.come()
    assert turns.written("t", 0) is None
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(turns.take, "t", 0)
        second.come()
        after = waiting.result(WAIT)
    assert after.sequence == 15
    assert not sent(turn, second, 5), "the turn is over"
    last = Answer()
    begun(after, last, 1)
    last.come()
    assert turns.written("t", 0) == 16
    assert turns.take("t", 1).sequence == 0, "each partition has its own"


def test_a_turn_with_a_failed_delivery_is_not_counted(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path))
    good, bad = Answer(), Answer(RuntimeError("refused"))
    turn = begun(turns.take("t", 0), bad, 10)
    assert sent(turn, good, 5)
    bad.come()
    good.come()
    with pytest.raises(TurnBroken, match="t-0"):
        turns.take("t", 0)


def test_reports_of_tasks_must_match_their_turns(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path))
    for partition, records in ((0, 10), (1, 7)):
        answer = Answer()
        begun(turns.take("t", partition), answer, records)
        answer.come()

    def report(partition: int, records: int) -> Any:
        return SimpleNamespace(topic="t", partition=partition, records=records)

    check_turns([report(0, 6), report(0, 4), report(1, 7)], turns)
    with pytest.raises(WritersOverlap, match="11 records in t-0 but wrote 10"):
        check_turns([report(0, 6), report(0, 5), report(1, 7)], turns)
    with pytest.raises(WritersOverlap, match="reported 1 partitions but wrote to 2"):
        check_turns([report(0, 10)], turns)


def test_only_a_joined_producer_takes_turns(broker: Broker) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer, pytest.raises(TransactionStateError):
        producer.resume("turns", 0, 5)
