"""A read-process-write application whose instances and whose broker are killed again and again.

What comes out is what went in, each record once; so the sum for each key is right.
OTTLA_TEST_CHAOS_SECONDS=300 runs it for five minutes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop import peers
from tests.interop.clients.admins import ConfluentAdmin
from tests.interop.clients.conftest import broker_kinds

CHAOS_S = float(os.environ.get("OTTLA_TEST_CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
PARTITIONS = 10
INSTANCES = 3
KEYS = 20
RATE = 400
PROPERTIES = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
}
HANGS_AFTER_S = 80.0  # more than the client's own timeouts together
MOVER = Path(__file__).parent / "mover.py"


class Writing(threading.Thread):
    """An idempotent producer that writes numbered records until it is told to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 5,
            }
        )
        self._is_over = threading.Event()
        self.written: list[tuple[bytes, bytes]] = []
        self.failures: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._is_over.wait(0.05):
            for _ in range(RATE // 20):
                record = (b"k%d" % (number % KEYS), b"%d" % number)
                self._producer.produce(
                    self._topic,
                    key=record[0],
                    value=record[1],
                    partition=number % PARTITIONS,
                    on_delivery=self._on_delivery,
                )
                self.written.append(record)
                number += 1
            self._producer.poll(0)

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures.append(str(error))

    def end(self) -> None:
        self._is_over.set()
        self.join()
        assert self._producer.flush(120) == 0


class Instances:
    """The instances of the application: one that ends, or hangs, is started again.

    librdkafka may wait for ever in send_offsets_to_transaction when the answer to a Produce was lost, with
    any broker. One that hangs anywhere else is a failure.
    """

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.exits: Counter[int] = Counter()
        self.hangs = 0

    def keep(self) -> None:
        for number in range(INSTANCES):
            process = self._processes.get(number)
            if process is not None and process.poll() is None and self._hangs(number):
                self._check_hang(number, process)
                self.hangs += 1
                self.kill(number)
            if process is not None and process.poll() is not None:
                self.exits[process.returncode] += 1
                process = None
            if process is None:
                self._processes[number] = self._start(number)

    def _hangs(self, number: int) -> bool:
        return time.time() - self._alive(number).stat().st_mtime > HANGS_AFTER_S

    def _check_hang(self, number: int, process: subprocess.Popen[bytes]) -> None:
        log = self._log(number)
        size = len(log.read_text())
        process.send_signal(signal.SIGUSR1)
        peers.wait_until(lambda: "in main" in log.read_text()[size:], 60, "a hung instance's stack")
        assert "in _send_offsets" in log.read_text()[size:], f"{number} hangs:\n{log.read_text()[-2000:]}"

    def _alive(self, number: int) -> Path:
        return self._directory / f"mover-{number}.alive"

    def _log(self, number: int) -> Path:
        return self._directory / f"mover-{number}.log"

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        alive = self._alive(number)
        alive.touch()
        with self._log(number).open("ab") as log:
            return peers.start_process(
                [
                    sys.executable,
                    str(MOVER),
                    self._bootstrap,
                    "app",
                    f"app-{number}",
                    "in",
                    "out",
                    str(alive),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def kill(self, number: int) -> None:
        process = self._processes[number]
        process.kill()
        process.wait()

    def close(self) -> None:
        for process in self._processes.values():
            peers.end_process(process)


@pytest.mark.parametrize("kind", broker_kinds())
def test_what_comes_out_is_what_went_in_each_record_once(kind: str, tmp_path: Path) -> None:
    print(f"seed {SEED}: OTTLA_TEST_SEED={SEED} draws the same kills")
    chance = random.Random(SEED)
    kills: Counter[str] = Counter()
    with peers.running(kind, properties=PROPERTIES) as broker:
        admin = ConfluentAdmin(broker.bootstrap)
        for topic in ("in", "out"):
            assert admin.create_topic(topic, partitions=PARTITIONS).code == 0
        instances = Instances(broker.bootstrap, tmp_path)
        writing = Writing(broker.bootstrap, "in")
        try:
            instances.keep()
            writing.start()
            end = time.monotonic() + CHAOS_S
            while time.monotonic() < end:
                time.sleep(chance.uniform(1.0, 4.0))  # what happens meanwhile is the test
                if chance.random() < 0.4:
                    broker.restart(clean=False)
                    kills["broker"] += 1
                else:
                    instances.kill(chance.randrange(INSTANCES))
                    kills["instance"] += 1
                instances.keep()
            writing.end()
            assert writing.failures == []
            found = _read(broker.bootstrap, "out", len(writing.written), instances)
        finally:
            instances.close()
    moved = Counter(found)
    expected = Counter(writing.written)
    assert not (lost := expected - moved), f"{len(lost)} lost, for instance {list(lost)[:5]} {kills}"
    assert not (doubled := moved - expected), f"{len(doubled)} doubled: {list(doubled)[:5]} {kills}"
    assert _sums(found) == _sums(writing.written)
    ended = f"instances ended: {instances.exits}, hung: {instances.hangs}"
    print(f"{len(found)} records moved once each; killed: {dict(kills)}; {ended}")


def _sums(records: list[tuple[bytes, bytes]]) -> dict[bytes, int]:
    sums: Counter[bytes] = Counter()
    for key, value in records:
        sums[key] += int(value)
    return dict(sums)


def _read(bootstrap: str, topic: str, count: int, instances: Instances) -> list[tuple[bytes, bytes]]:
    """All committed records, once there are `count`; a few more polls show whether one came twice."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[tuple[bytes, bytes]] = []
    quiet = 0
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and quiet < 4:
        instances.keep()
        messages = [one for one in consumer.consume(5_000, timeout=0.5) if one.error() is None]
        found += [(one.key() or b"", one.value() or b"") for one in messages]
        quiet = quiet + 1 if len(found) >= count and not messages else 0
    consumer.close()
    return found
