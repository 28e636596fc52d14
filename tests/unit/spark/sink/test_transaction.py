"""The transaction of a batch on a real broker: shared by tasks, with the marker, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

import ottla  # noqa: E402 - they need what is asked for above
from ottla.client.admin import FeatureUpdate, UpgradeType  # noqa: E402
from ottla.client.core.partitioners import partition_for_key  # noqa: E402
from ottla.client.errors import AbortableError  # noqa: E402
from ottla.spark.sink.batch_sink import check_epochs, check_writers  # noqa: E402
from ottla.spark.sink.columns import columns_of  # noqa: E402
from ottla.spark.sink.errors import (  # noqa: E402
    Fenced,
    MarkerMissing,
    OtherQuery,
    SinkError,
    TransactionTooShort,
    WritersOverlap,
)
from ottla.spark.sink.options import SinkOptions, parse  # noqa: E402
from ottla.spark.sink.row_builder import slot_of  # noqa: E402
from ottla.spark.sink.tasks import Build, BuildAndSend, Send, SendPlainly, built_of  # noqa: E402
from ottla.spark.sink.transaction import SharedTransaction  # noqa: E402
from ottla.testing import Broker  # noqa: E402

PARTITIONS = 4
ROWS = types.StructType().add("key", "string").add("value", "string")


@pytest.fixture(scope="module", params=["2", "1"], ids=["protocol-2", "protocol-1"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker({"num.partitions": str(PARTITIONS)}) as started:
        if request.param == "1":
            with ottla.Admin(started.bootstrap_servers) as admin:
                older = FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)
                admin.update_features({"transaction.version": older}).all()
        yield started


def options_of(broker: Broker, name: str, **more: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name, "transactionalId": name}
    return parse({**given, **more})


def build_of(options: SinkOptions, slots: int = 1) -> Build:
    counts = {} if options.topic is None else {options.topic: PARTITIONS}
    return Build(options, columns_of(ROWS, options), counts, slots)


def rows(first: int, count: int) -> list[Any]:
    numbers = range(first, first + count)
    return [
        pa.RecordBatch.from_pydict(
            {"key": [f"k{number}" for number in numbers], "value": [str(number) for number in numbers]}
        )
    ]


def write(transaction: SharedTransaction, first: int, count: int, tasks: int = 2) -> None:
    """Like Spark: build, shuffle by slot, send by several tasks."""
    build, send = build_of(transaction.options, tasks), Send(transaction.options, transaction.share(), None)
    (table,) = build(iter(rows(first, count)))
    for slot in range(tasks):
        mask = pa.array([one == slot for one in table["slot"].to_pylist()])
        list(send(iter([table.filter(mask)])))


def read(broker: Broker, topic: str, isolation_level: str = "read_committed") -> list[str]:
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        broker.bootstrap_servers, isolation_level=isolation_level, auto_offset_reset="earliest"
    )
    places = [(topic, partition) for partition in range(PARTITIONS)]
    with consumer:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found: list[str] = []
        while any(consumer.position(place) < ends[place] for place in ends):
            found += [record.value.decode() for record in consumer.poll(1.0)]
        return found


def test_tasks_write_in_one_transaction_and_a_batch_is_written_once(broker: Broker) -> None:
    transaction = SharedTransaction(options_of(broker, "once"))
    assert transaction.prepare("query", 0)
    write(transaction, 0, 1000, tasks=3)
    assert read(broker, "once") == []
    transaction.commit("query", 0)
    assert sorted(map(int, read(broker, "once"))) == list(range(1000))
    assert transaction.prepare("query", 1)
    write(transaction, 1000, 500)
    transaction.commit("query", 1)
    transaction.close()
    again = SharedTransaction(transaction.options)
    assert not again.prepare("query", 1)
    assert again.prepare("query", 2)
    again.commit("query", 2)
    again.close()
    assert sorted(map(int, read(broker, "once"))) == list(range(1500))


def test_a_dead_drivers_transaction_is_aborted_and_its_tasks_fenced(broker: Broker) -> None:
    dead = SharedTransaction(options_of(broker, "dead"))
    assert dead.prepare("query", 0)
    write(dead, 0, 100)
    zombie = Send(dead.options, dead.share(), None)
    heir = SharedTransaction(dead.options)
    assert heir.prepare("query", 0)
    with pytest.raises(AbortableError):
        zombie.send(build_of(dead.options).built(rows(0, 10)))
    write(heir, 0, 100)
    with pytest.raises(AbortableError):
        zombie.send(build_of(dead.options).built(rows(0, 10)))
    heir.commit("query", 0)
    assert sorted(map(int, read(broker, "dead"))) == list(range(100))
    assert len(read(broker, "dead", "read_uncommitted")) == 200
    with pytest.raises(Fenced, match="its own transactionalId"):
        dead.commit("query", 0)
    with pytest.raises(AbortableError):
        zombie.send(build_of(dead.options).built(rows(0, 10)))
    heir.close()
    assert sorted(map(int, read(broker, "dead"))) == list(range(100))


def test_an_aborted_batch_is_rewritten_with_a_new_epoch(broker: Broker) -> None:
    transaction = SharedTransaction(options_of(broker, "retried"))
    assert transaction.prepare("query", 0)
    write(transaction, 0, 50)
    before = transaction.share()
    assert transaction.explain(RuntimeError("a task died")) is None
    assert transaction.prepare("query", 0)
    after = transaction.share()
    assert (after.producer_id, after.producer_epoch) != (before.producer_id, before.producer_epoch)
    write(transaction, 0, 50)
    transaction.commit("query", 0)
    transaction.close()
    assert sorted(map(int, read(broker, "retried"))) == list(range(50))


def test_a_shared_id_or_a_missing_marker_is_reported(broker: Broker) -> None:
    options = options_of(broker, "shared")
    first = SharedTransaction(options)
    with pytest.raises(MarkerMissing, match="missingMarker=accept"):
        first.prepare("one", 4)
    accepting = SharedTransaction(replace(options, accepts_missing_marker=True))
    assert accepting.prepare("one", 4)
    accepting.commit("one", 4)
    accepting.close()
    with pytest.raises(OtherQuery, match=r"belongs to another query \(one, at batch 4\).*takeOver=true"):
        SharedTransaction(options).prepare("two", 0)
    with pytest.raises(OtherQuery, match="checkpoint is older"):
        SharedTransaction(options).prepare("one", 2)
    taking = SharedTransaction(replace(options, take_over=True))
    assert taking.prepare("two", 0)
    taking.commit("two", 0)
    taking.close()
    assert not SharedTransaction(options).prepare("two", 0)


def test_a_batch_over_the_transaction_timeout_names_the_setting(broker: Broker) -> None:
    options = options_of(broker, "long", **{"kafka.transaction.timeout.ms": "1000"})
    now = [0.0]
    transaction = SharedTransaction(options, lambda: now[0])
    assert transaction.prepare("query", 0)
    write(transaction, 0, 10)
    other = SharedTransaction(options)
    assert other.prepare("query", 0)  # bumps the epoch, as the coordinator does after the timeout
    now[0] = 1.5
    with pytest.raises(TransactionTooShort, match=r"took 1.5 s.*kafka.transaction.timeout.ms.*maxOffsets"):
        transaction.commit("query", 0)
    other.close()
    too_long = options_of(broker, "long", **{"kafka.transaction.timeout.ms": "2000000000"})
    with pytest.raises(SinkError, match=r"transaction\.max\.timeout\.ms"):
        SharedTransaction(too_long).prepare("query", 0)


def test_rows_are_partitioned_like_java_with_one_slot_per_partition(broker: Broker) -> None:
    options = replace(options_of(broker, "placed"), topic=None)
    columns = columns_of(types.StructType(list(ROWS)).add("topic", "string"), options)
    build = Build(options, columns, {"a": 4, "b": 3}, slots=3)
    batch = rows(0, 300)[0]
    table = batch.append_column("topic", pa.array(["a", "b", "a"] * 100))
    found: dict[tuple[str, int], int] = {}
    for built in build(iter([table, table])):
        for one, slot in zip(built_of([built]), built["slot"].to_pylist(), strict=True):
            assert slot == slot_of(one.topic, one.partition, 3)
            found[one.topic, one.partition] = found.get((one.topic, one.partition), 0) + one.records
    expected: dict[tuple[str, int], int] = {}
    for number in range(300):
        topic, count = ("b", 3) if number % 3 == 1 else ("a", 4)
        key = (topic, partition_for_key(b"k%d" % number, count))
        expected[key] = expected.get(key, 0) + 2
    assert found == expected


def test_one_task_builds_and_sends(broker: Broker) -> None:
    transaction = SharedTransaction(options_of(broker, "straight"))
    assert transaction.prepare("query", 0)
    send = Send(transaction.options, transaction.share(), None)
    task = BuildAndSend(build_of(transaction.options), send)
    (report,) = task(iter(rows(0, 40)))
    assert sum(report["records"].to_pylist()) == 40
    transaction.commit("query", 0)
    transaction.close()
    plain = parse(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "topic": "straight",
            "delivery": "at-least-once",
        }
    )
    assert SendPlainly(build_of(plain))(rows(40, 60)) == 60
    assert sorted(map(int, read(broker, "straight"))) == list(range(100))


def test_overlapping_or_outdated_writers_are_not_committed() -> None:
    handle: Any = SimpleNamespace(producer_id=7, producer_epoch=2)

    def report(partition: int, task: int, epoch: int = 2) -> Any:
        return SimpleNamespace(topic="t", partition=partition, task=task, producer_id=7, producer_epoch=epoch)

    check_writers([report(0, 1), report(1, 1), report(2, 5)])
    with pytest.raises(WritersOverlap, match="Two tasks wrote to t-1"):
        check_writers([report(0, 1), report(1, 1), report(1, 5)])
    check_epochs([report(0, 1), report(1, 5)], handle)
    with pytest.raises(WritersOverlap, match="7/1"):
        check_epochs([report(0, 1), report(1, 2, epoch=1)], handle)
