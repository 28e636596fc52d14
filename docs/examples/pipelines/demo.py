"""`make demo`: a cluster, orders and payments, a pipeline whose driver is killed, and the proof that each row
arrived once.

The generator keeps a ledger of what it sent, so what must come out is known. The pipeline is orders.yaml,
run by `ottla pipeline run` as anybody would; the kill is a kill -9 of its driver, JVM and workers while rows
of an open transaction are in the topic. In the end the topic, the Parquet files, the database and the dead
letters are read by programs that know nothing of Spark, and compared with the ledger.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import ottla
from ottla.client.admin import Admin, IsolationLevel, NewTopic, OffsetSpec
from ottla.client.values import TopicPartition
from ottla.spark import SparkMissing
from ottla.spark.java import install_java
from ottla.testing import Cluster

PIPELINE = Path(__file__).with_name("orders.yaml")
TOPICS = ("orders", "payments", "paid-orders", "orders-dead-letters")
SINKS = ("paid-orders", "archive", "totals", "dead_letter")
PARTITIONS = 3
PATIENCE_SECONDS = 300
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEP = timedelta(milliseconds=60)  # of event time, between two orders


@dataclass(slots=True)
class Ledger:
    """What was sent, and what must come of it."""

    orders: int = 0
    payments: int = 0
    bad: int = 0
    paid: dict[int, datetime] = field(default_factory=dict)  # order -> when it was ordered
    closing: set[int] = field(default_factory=set)
    is_complete: threading.Event = field(default_factory=threading.Event)
    sent: list[tuple[float, int]] = field(default_factory=list)  # when, how many so far


@dataclass(slots=True)
class Seen:
    """The reports of the pipeline: (when, sink, rows so far, lag)."""

    lines: list[tuple[float, str, int, int]] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    before: Counter[str] = field(default_factory=Counter)  # rows of earlier runs
    started: set[str] = field(default_factory=set)

    def batches(self, sink: str) -> int:
        return sum(name == sink for _, name, _, _ in self.lines)


def say(what: str, text: str) -> None:
    print(f"  {what:<11}{text}", flush=True)


# --- the generator


def generate(servers: str, ledger: Ledger, orders: int, rate: float, began: float) -> None:
    """Orders in the order of their time, and payments in theirs; about one in a hundred is broken."""
    chance = random.Random(7)
    due: list[tuple[datetime, int, float]] = []
    with ottla.Producer(servers, linger_ms=20) as producer:

        def send(topic: str, number: int, value: dict[str, Any] | bytes) -> None:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            producer.send(topic, data, key=str(number))

        def pay(until: datetime) -> None:
            while due and due[0][0] <= until:
                at, number, amount = heapq.heappop(due)
                send("payments", number, {"order_id": number, "paid": amount, "paid_at": at.isoformat()})
                ledger.payments += 1

        start = time.monotonic()
        for number in range(orders):
            at = BEGIN + number * STEP
            amount = round(chance.uniform(1, 120), 2)
            order = {
                "order_id": number,
                "customer": f"c{number % 97}",
                "amount": amount,
                "ordered_at": at.isoformat(),
            }
            kind = chance.random()
            if kind < 0.005:
                send("orders", number, b'{"order_id": ' + str(number).encode())
            elif kind < 0.01:
                send("orders", number, {**order, "amount": -amount})
            else:
                send("orders", number, order)
            is_bad = kind < 0.01
            ledger.bad += is_bad
            ledger.orders += 1
            if chance.random() < 0.9:
                heapq.heappush(due, (at + timedelta(seconds=chance.uniform(0, 300)), number, amount))
                if not is_bad:
                    ledger.paid[number] = at
            pay(at)
            if number % 500 == 0:
                ledger.sent.append((time.monotonic() - began, ledger.orders + ledger.payments))
                time.sleep(max(0.0, start + number / rate - time.monotonic()))
        pay(BEGIN + timedelta(days=1))
        _close(send, ledger, BEGIN + timedelta(days=2))
    ledger.sent.append((time.monotonic() - began, ledger.orders + ledger.payments))
    ledger.is_complete.set()


def _close(send: Any, ledger: Ledger, at: datetime) -> None:
    """The last record of each day's business: it closes the windows that are still open."""
    for number in range(-60, 0):  # enough that each partition gets some
        order = {"order_id": number, "customer": "closing", "amount": 1.0, "ordered_at": at.isoformat()}
        send("orders", number, order)
        send("payments", number, {"order_id": number, "paid": 1.0, "paid_at": at.isoformat()})
        ledger.closing.add(number)


# --- the pipeline


@contextlib.contextmanager
def driver(
    directory: Path, servers: str, seen: Seen, began: float, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """`ottla pipeline run`, in a process group of its own, so that it can be killed with all it started."""
    command = [sys.executable, "-m", "ottla.cli", "pipeline", "run", str(PIPELINE), "--json", *options]
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVERS": servers, "DEMO_DIRECTORY": str(directory)}
    with open(directory / "driver.log", "a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, start_new_session=True
        )
    reader = threading.Thread(target=_read, args=(process, seen, began))
    reader.start()
    try:
        yield process
    finally:
        kill(process)
        reader.join()


def kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(process: subprocess.Popen[str], seen: Seen, began: float) -> None:
    assert process.stdout is not None
    rows: Counter[str] = Counter()
    for line in process.stdout:
        report = json.loads(line)
        seen.started.add(report["sink"])
        if report["batch"] is not None and report["state"] == "running":
            rows[report["sink"]] = report["rows_total"]
            total = seen.before[report["sink"]] + report["rows_total"]
            seen.lines.append((time.monotonic() - began, report["sink"], total, report["lag"] or 0))
    seen.before.update(rows)


def wait_for(condition: Any, process: subprocess.Popen[str], directory: Path, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            log = (directory / "driver.log").read_text()[-2000:]
            sys.exit(f"The pipeline did not come to {what}:\n{log}")
        time.sleep(0.01)


def uncommitted_rows(admin: Admin) -> int:
    """Rows of an open transaction: how far the topic is ahead of what readers of committed records see."""
    partitions = {TopicPartition("paid-orders", number): OffsetSpec.LATEST for number in range(PARTITIONS)}
    written, committed = (
        sum(one.offset for one in admin.list_offsets(partitions, isolation_level=level).all().values())
        for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
    )
    return written - committed


def in_progress(directory: Path) -> list[str]:
    """The batches that were begun and not committed when the driver died."""
    found = []
    for sink in SINKS:
        begun, done = (
            {int(one.name) for one in (directory / "checkpoints" / sink / kind).glob("[0-9]*")}
            for kind in ("offsets", "commits")
        )
        found += [f"{sink} {number}" for number in sorted(begun - done)]
    return found


# --- the proof


def records(servers: str, topic: str, isolation: str) -> list[Any]:
    """All records of a topic."""
    with ottla.Consumer(servers, isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[Any] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += consumer.poll(timeout=1.0)
        return found


def proof(servers: str, directory: Path, ledger: Ledger) -> list[tuple[str, int, int, int, int]]:
    """(what, expected, found, duplicates, missing) of everything that was written."""
    import pyarrow.dataset

    expected = Counter({*ledger.paid, *ledger.closing})
    topic = Counter(int(one.key) for one in records(servers, "paid-orders", "read_committed"))
    files = pyarrow.dataset.dataset(str(directory / "paid-orders"), partitioning="hive")
    archive = Counter(files.to_table(columns=["order_id"])["order_id"].to_pylist())
    minutes = Counter(at.strftime("%Y-%m-%d %H:%M:00.000000") for at in ledger.paid.values())
    with sqlite3.connect(directory / "totals.db") as database:
        rows = database.execute("SELECT minute, sum(orders) FROM totals GROUP BY minute").fetchall()
    database.close()
    letters = Counter(
        (header["ottla.topic"], header["ottla.partition"], header["ottla.offset"])
        for header in (dict(one.headers) for one in records(servers, "orders-dead-letters", "read_committed"))
    )
    return [
        _row("topic paid-orders", expected, topic),
        _row("parquet paid-orders", expected, archive),
        _row("sqlite totals (orders)", minutes, Counter(dict(rows))),
        (
            "topic orders-dead-letters",
            ledger.bad,
            letters.total(),
            letters.total() - len(letters),
            ledger.bad - len(letters),
        ),
    ]


def _row(what: str, expected: Counter[Any], found: Counter[Any]) -> tuple[str, int, int, int, int]:
    return what, expected.total(), found.total(), (found - expected).total(), (expected - found).total()


def plot(path: Path, ledger: Ledger, seen: Seen) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(8, 5.4), sharex=True, height_ratios=[2, 1])
    top.step(*zip(*ledger.sent, strict=True), where="post", color="black", linestyle=":", label="sent")
    for sink in SINKS:
        points = [(0.0, 0, 0), *((at, rows, lag) for at, name, rows, lag in seen.lines if name == sink)]
        top.step([one[0] for one in points], [one[1] for one in points], where="post", label=sink)
        bottom.step([one[0] for one in points], [one[2] for one in points], where="post")
    for axis in (top, bottom):
        for at in seen.kills:
            axis.axvline(at, color="red", linewidth=1)
        axis.grid(alpha=0.3)
    if seen.kills:
        top.annotate("kill -9", (seen.kills[0], 0), xytext=(4, 4), textcoords="offset points", color="red")
    top.set_ylabel("records read")
    bottom.set_ylabel("lag, records")
    bottom.set_xlabel("seconds")
    top.legend(loc="upper left", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the generator takes")
    parser.add_argument("--directory", type=Path, default=Path("demo"))
    chosen = parser.parse_args()
    try:
        install_java(lambda line: say("java", line))
    except SparkMissing as missing:
        sys.exit(str(missing))
    directory = chosen.directory.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    began = time.monotonic()
    print("Orders and payments, joined and counted by the minute, exactly once\n")
    with Cluster(nodes=3) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS, 3) for topic in TOPICS]).all()
        say("cluster", f"3 nodes, {len(TOPICS)} topics of {PARTITIONS} partitions with 3 replicas")
        ledger, seen = Ledger(), Seen()
        sender = threading.Thread(
            target=generate,
            args=(servers, ledger, chosen.orders, chosen.orders / chosen.seconds, began),
            daemon=True,
        )
        with driver(directory, servers, seen, began) as process:
            say("driver", f"ottla pipeline run {PIPELINE.name}")
            wait_for(lambda: seen.started >= set(SINKS), process, directory, "its start")
            sender.start()
            wait_for(lambda: all(seen.batches(one) for one in SINKS), process, directory, "its batches")
            with Admin(servers) as admin:
                wait_for(lambda: uncommitted_rows(admin), process, directory, "an open transaction")
            kill(process)
            seen.kills.append(time.monotonic() - began)
        lost = ", ".join(in_progress(directory)) or "none"
        say("kill -9", f"after {seen.kills[0]:.0f} s; batches in progress: {lost}")
        sender.join()
        say(
            "generator",
            f"{ledger.orders:,} orders ({ledger.bad:,} of them broken), {ledger.payments:,} payments",
        )
        again = time.monotonic()
        with driver(directory, servers, seen, began, "--once") as process:
            if process.wait(900):
                sys.exit(f"The pipeline has failed:\n{(directory / 'driver.log').read_text()[-2000:]}")
        say(
            "driver",
            f"restarted, and finished reading after {time.monotonic() - again:.0f} s",
        )
        uncommitted = len(records(servers, "paid-orders", "read_uncommitted"))
        found = proof(servers, directory, ledger)
    print(f"\n  {'':<27}{'expected':>9}{'found':>9}{'duplicates':>12}{'missing':>9}")
    for what, *numbers in found:
        print(f"  {what:<27}{numbers[0]:>9,}{numbers[1]:>9,}{numbers[2]:>12,}{numbers[3]:>9,}")
    print(f"\n  {uncommitted - found[0][2]:,} rows of the killed transaction are also in the topic:")
    print("  it was aborted, so read_committed consumers skip them.")
    plot(directory / "demo.png", ledger, seen)
    is_proven = all(row[3] == row[4] == 0 for row in found)
    print(f"\n  {'Every row arrived once.' if is_proven else 'THE PROOF HAS FAILED.'}")
    print(f"  The plot is in {directory / 'demo.png'}.")
    print(f"  It took {time.monotonic() - began:.0f} seconds.")
    sys.exit(0 if is_proven else 1)


if __name__ == "__main__":
    main()
