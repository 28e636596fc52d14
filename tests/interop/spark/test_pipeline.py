"""Pipelines on a real Spark and a real broker: checked before they start, run, restarted, started over."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import ottla
from ottla.client.admin import Admin, NewTopic
from ottla.spark.pipeline import state
from ottla.spark.pipeline.build import Builder
from ottla.spark.pipeline.check import checked_outputs
from ottla.spark.pipeline.faults import PipelineError
from ottla.spark.pipeline.model import Pipeline
from ottla.spark.pipeline.parse import parse
from ottla.spark.pipeline.progress import Progress
from ottla.spark.pipeline.run import QueryFailed, Runner
from tests.interop import peers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 120


class Bench:
    """A broker, a Spark and a directory; topics of one test have names of their own."""

    def __init__(self, spark: SparkSession, servers: str, directory: Path) -> None:
        self.spark, self.servers, self.directory = spark, servers, directory
        self.mark = uuid4().hex[:8]

    def topic(self, name: str, partitions: int = 1) -> str:
        made = f"{name}-{self.mark}"
        with Admin(self.servers) as admin:
            admin.create_topics([NewTopic(made, partitions, 1)]).all()
        return made

    def send(self, topic: str, *values: Any) -> None:
        with ottla.Producer(self.servers) as producer:
            sent = [
                producer.send(topic, one if isinstance(one, bytes) else json.dumps(one).encode(), key=b"k")
                for one in values
            ]
            for delivery in sent:
                delivery.result(PATIENCE_SECONDS)

    def records(self, topic: str, count: int) -> list[Any]:
        """What is committed in a topic, once so many records are there."""
        with ottla.Consumer(
            self.servers, group_id=uuid4().hex, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.subscribe([topic])
            found: list[Any] = []

            def has_all() -> bool:
                found.extend(consumer.poll(timeout=0.2))
                return len(found) >= count

            peers.wait_until(
                has_all, PATIENCE_SECONDS, lambda: f"{count} records in {topic}; there are {len(found)}"
            )
            return found + list(consumer.poll(timeout=0.5))

    def pipeline(self, text: str) -> Pipeline:
        return parse(text, file="p.yaml", directory=str(self.directory), environment={"MARK": self.mark})

    def builder(self, pipeline: Pipeline) -> Builder:
        return Builder(self.spark, pipeline, file="p.yaml", servers=self.servers, properties={})

    def faults(self, text: str) -> list[str]:
        pipeline = self.pipeline(text)
        with pytest.raises(PipelineError) as caught:
            checked_outputs(self.spark, self.builder(pipeline), "p.yaml")
        return str(caught.value).splitlines()

    def runner(self, text: str, *, once: bool = True, report: Callable[[Progress], None] = str) -> Runner:  # type: ignore[assignment]
        pipeline = self.pipeline(text)
        builder = self.builder(pipeline)
        outputs = checked_outputs(self.spark, builder, "p.yaml")
        return Runner(pipeline, builder, outputs, once=once, report=report)


@pytest.fixture
def bench(spark: SparkSession, broker: peers.BrokerProcess, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(spark, broker.bootstrap, tmp_path)
    for query in spark.streams.active:
        query.stop()


ORDERS = """\
name: p-${MARK}
sources:
  orders:
    topic: orders-${MARK}
    schema: id BIGINT, amount DOUBLE
    bad_rows: BAD_ROWS
    checks:
      - {name: positive, expression: amount > 0, otherwise: BAD_ROWS}
steps:
  doubled:
    sql: |
      SELECT id, amount * 2 AS twice
      FROM orders
dead_letter: {topic: 'dead-${MARK}'}
sinks:
  out: {from: doubled, topic: 'out-${MARK}', key: id}
  rows: {from: doubled, sqlite: rows.db, table: rows, key: id}
restart: {attempts: 0}
"""


def test_unknown_columns_streams_and_modes_are_told_at_their_place_before_anything_starts(
    bench: Bench,
) -> None:
    found = bench.faults("""\
name: p
sources:
  orders: {topic: orders, schema: 'id BIGINT, amount DOUBLE, at TIMESTAMP'}
steps:
  wrong:
    sql: |
      SELECT id,
             amuont
      FROM orders
  lost: {sql: SELECT * FROM odrers}
  broken: {sql: 'SELECT id FROM orders WHERE ('}
  good: {sql: 'SELECT id, count(*) AS n FROM orders GROUP BY id'}
sinks:
  a: {from: wrong, topic: out}
  b: {from: lost, topic: out}
  c: {from: broken, topic: out}
""")
    assert found[0] == "p.yaml:8:14: Unknown column 'amuont'. Did you mean 'amount'?"
    assert (
        found[1]
        == "p.yaml:10:29: Unknown source or step 'odrers'; it must be defined above. Did you mean 'orders'?"
    )
    assert found[2].startswith("p.yaml:11:")
    assert "yntax error" in found[2]
    assert len(found) == 3
    assert bench.spark.streams.active == []

    found = bench.faults("""\
name: p
sources:
  orders: {topic: orders, schema: 'id BIGINT, amount DOUBLE', watermark: {column: att, delay: 1 minute}}
sinks:
  a: {from: orders, topic: out}
""")
    assert found == [
        "p.yaml:3:75: The watermark refers to the unknown column 'att'. Known columns: id, amount, "
        "_key, _topic, _partition, _offset, _timestamp, _headers."
    ]

    found = bench.faults("""\
name: p
sources:
  orders: {topic: orders, schema: 'id BIGINT, amount DOUBLE'}
steps:
  counted: {sql: 'SELECT id, count(*) AS n FROM orders GROUP BY id'}
sinks:
  a: {from: counted, topic: out}
  b: {from: orders, topic: out, key: idd}
  c: {from: counted, parquet: out, mode: update}
""")
    assert "append" in found[0]
    assert found[0].startswith("p.yaml:7:3: ")
    assert found[1] == "p.yaml:8:33: The sink 'b' refers to the unknown column 'idd'. Did you mean 'id'?"
    assert found[2].startswith("p.yaml:9:36: The mode update rewrites rows, which parquet does not support")


def test_bad_rows_go_to_the_dead_letters_and_nothing_is_lost(bench: Bench) -> None:
    orders, out, dead = bench.topic("orders"), bench.topic("out"), bench.topic("dead")
    bench.send(
        orders, {"id": 1, "amount": 1.5}, b"{not json", {"id": "x", "amount": 1}, {"id": 2, "amount": -1}
    )
    bench.send(orders, {"id": 3, "amount": 2}, b"", {"id": 4})

    text = ORDERS.replace("BAD_ROWS", "dead_letter")
    bench.runner(text).run()

    assert sorted(json.loads(one.value)["twice"] for one in bench.records(out, 2)) == [3.0, 4.0]
    letters = bench.records(dead, 5)
    assert sorted(one.value for one in letters) == [
        b"",
        b'{"id": "x", "amount": 1}',
        b'{"id": 2, "amount": -1}',
        b'{"id": 4}',
        b"{not json",
    ]
    headers = [dict(one.headers) for one in letters]
    assert sorted(int(one["ottla.offset"]) for one in headers) == [1, 2, 3, 5, 6]
    assert {one["ottla.reason"] for one in headers} == {b"positive", b"it is not JSON of the source's schema"}
    assert {one["ottla.topic"] for one in headers} == {orders.encode()}

    bench.send(orders, {"id": 5, "amount": 5})
    bench.runner(text).run()  # goes on where it was
    assert sorted(json.loads(one.value)["id"] for one in bench.records(out, 3)) == [1, 3, 5]
    with sqlite3.connect(bench.directory / "rows.db") as database:
        assert database.execute("SELECT id, twice FROM rows ORDER BY id").fetchall() == [
            (1, 3.0),
            (3, 4.0),
            (5, 10.0),
        ]
    database.close()


def test_a_bad_row_can_be_an_error_that_says_which_record_it_was(bench: Bench) -> None:
    orders = bench.topic("orders")
    bench.topic("out"), bench.topic("dead")
    bench.send(orders, {"id": 1, "amount": 1.5}, b"{not json")
    seen: list[Progress] = []
    with pytest.raises(QueryFailed, match=rf"bad: it is not JSON.*\(topic {orders}, partition 0, offset 1\)"):
        bench.runner(ORDERS.replace("BAD_ROWS", "fail"), report=seen.append).run()
    assert any(one.state == "failed" for one in seen)
    text = ORDERS.replace("BAD_ROWS", "drop")  # nothing was lost: the same checkpoint goes on
    bench.runner(text).run()
    assert [json.loads(one.value)["id"] for one in bench.records(f"out-{bench.mark}", 1)] == [1]


def test_a_changed_checkpoint_is_refused_and_reset_starts_over(bench: Bench) -> None:
    orders, out = bench.topic("orders"), bench.topic("out")
    bench.topic("dead")
    bench.send(orders, {"id": 1, "amount": 1.5})
    text = ORDERS.replace("BAD_ROWS", "drop")
    bench.runner(text).run()

    with pytest.raises(QueryFailed, match=r"another checkpoint|takeOver|another query"):
        bench.runner(text + "checkpoint: elsewhere\n").run()

    pipeline = bench.pipeline(text)
    found = state.status(pipeline)
    assert [(one["sink"], one["committed_batch"]) for one in found["sinks"]] == [("out", 0), ("rows", 0)]
    assert not found["running"]
    with state.locked(pipeline), pytest.raises(state.PipelineRuns, match="is already running"):
        state.reset(pipeline, ["rows"], {})
    assert state.reset(pipeline, ["out", "rows"], {"bootstrap.servers": bench.servers}) == ["out", "rows"]
    assert [one["committed_batch"] for one in state.status(pipeline)["sinks"]] == [None, None]

    bench.runner(text).run()
    assert [json.loads(one.value)["id"] for one in bench.records(out, 2)] == [1, 1]  # a topic has no key
    with sqlite3.connect(bench.directory / "rows.db") as database:
        assert database.execute("SELECT id FROM rows").fetchall() == [(1,)]
    database.close()


def test_a_topic_that_is_deleted_while_a_query_runs_is_told(bench: Bench) -> None:
    orders, out = bench.topic("orders"), bench.topic("out")
    bench.topic("dead")
    bench.send(orders, {"id": 1, "amount": 1.5})
    text = ORDERS.replace("BAD_ROWS", "drop")
    runner = bench.runner(text, once=False)
    failures: list[str] = []

    def work() -> None:
        try:
            runner.run()
        except QueryFailed as error:
            failures.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        bench.records(out, 1)
        with Admin(bench.servers) as admin:
            admin.delete_topics([orders]).all()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), f"the queries go on: {runner.progress}"
    finally:
        runner.stop()
        thread.join(PATIENCE_SECONDS)
    assert orders in failures[0], failures
    assert len(failures[0]) < 500, "it is a line, not a page"


def test_a_query_that_fails_is_started_again_and_goes_on(bench: Bench) -> None:
    orders = bench.topic("orders")
    bench.topic("out"), bench.topic("dead")
    bench.send(orders, {"id": 1, "amount": 1.5})
    text = ORDERS.replace("BAD_ROWS", "drop").replace("attempts: 0", "attempts: 5, delay: 10 ms")
    database = bench.directory / "rows.db"
    database.mkdir()  # what SQLite cannot open

    def mended(progress: Progress) -> None:
        if progress.sink == "rows" and progress.state == "restarting" and database.is_dir():
            database.rmdir()

    runner = bench.runner(text, report=mended)
    runner.run()
    (rows,) = [one for one in runner.progress if one.sink == "rows"]
    assert rows.state == "done"
    assert rows.restarts >= 1
    with sqlite3.connect(database) as opened:
        assert opened.execute("SELECT id FROM rows").fetchall() == [(1,)]
    opened.close()


def ottla_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=peers.ROOT,
        env={**os.environ, "PYTHONPATH": str(peers.ROOT / "src"), **environment},
    )


def test_the_command_checks_topics_and_runs_to_the_end(broker: peers.BrokerProcess, tmp_path: Path) -> None:
    bench = Bench(None, broker.bootstrap, tmp_path)  # type: ignore[arg-type]
    orders = bench.topic("orders")
    bench.send(orders, {"id": 1, "amount": 1.5}, b"bad")
    file = tmp_path / "p.yaml"
    file.write_text(ORDERS.replace("BAD_ROWS", "dead_letter"))
    where = ("-b", broker.bootstrap)
    told = ottla_command("pipeline", "validate", str(file), "--no-spark", *where, MARK=bench.mark)
    assert told.returncode == 1, told.stdout
    assert (
        f"p.yaml:16:24: The topic 'out-{bench.mark}', which is written here, does not exist." in told.stderr
    )
    assert told.stderr.splitlines()[-1] == f"ottla: {file} has 2 errors; nothing was started."

    told = ottla_command(
        "pipeline", "run", str(file), "--once", "--json", "--create-topics", *where, MARK=bench.mark
    )
    assert told.returncode == 0, told.stderr
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    done = {line["sink"]: line["rows_total"] for line in lines if line["state"] == "done"}
    assert done == {"out": 2, "rows": 2, "dead_letter": 2}
    assert [json.loads(one.value) for one in bench.records(f"out-{bench.mark}", 1)] == [
        {"id": 1, "twice": 3.0}
    ]
    assert [one.value for one in bench.records(f"dead-{bench.mark}", 1)] == [b"bad"]

    told = ottla_command("pipeline", "status", str(file), "-o", "json", MARK=bench.mark)
    assert [one["committed_batch"] for one in json.loads(told.stdout)["sinks"]] == [0, 0, 0]
    picture = tmp_path / "p.svg"
    told = ottla_command("pipeline", "plan", str(file), "--svg", str(picture), MARK=bench.mark)
    assert "step    doubled  <- orders" in told.stdout
    assert picture.read_text().startswith("<svg")
