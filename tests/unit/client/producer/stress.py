"""Threads, tiny batches, headers, callbacks and finalizers that send, all at once on one producer.

Each round sends records to one topic, reads the topic back, and compares: every record is there once, every
delivery reports the offset at which the log has its record, and every callback was called once with the same
report. A record that is written through a stale pointer, or reported under another record's offset, fails it.

    python -m tests.unit.client.producer.stress --seconds 3600
    OTTLA_KERNEL=python python -m tests.unit.client.producer.stress --rounds 20 --seed 7

The second form runs the plain modules in place of the compiled ones. CONTRIBUTING.md has the command that
runs this under the address sanitizer.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import ottla
from ottla.client.core import accumulator
from ottla.testing import Broker

PARTITIONS = 3
WAIT_SECONDS = 120.0
_BURST = 25
_COLLECT_AFTER = 7
"""So few new containers start a garbage collection: it then runs in the middle of everything."""


class Round:
    """One producer, several threads, one topic."""

    def __init__(self, servers: str, topic: str, seed: int, *, threads: int, records: int) -> None:
        dice = random.Random(seed)
        self.topic = topic
        self.records = records
        self.threads = threads
        self.seed = seed
        self.sent: dict[bytes, Any] = {}
        """The delivery of each record, by the record's first bytes, which are its name."""
        self.called_back: dict[bytes, list[Any]] = {}
        """What the callback of a record was called with."""
        self.failures: list[str] = []
        self.servers = servers
        self.producer = ottla.Producer(
            servers,
            batch_size=dice.choice([1, 120, 400, 400, 3000]),
            linger_ms=dice.choice([0, 0, 1]),
            compression_type=dice.choice(["none", "none", "lz4"]),
        )
        self.producer.partitions_for(topic)

    def run(self) -> None:
        workers = [threading.Thread(target=self._guard, args=(name,)) for name in range(self.threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        gc.collect()  # finalizers that have not sent yet do so now
        self.producer.flush(WAIT_SECONDS)
        self.producer.close()

    def _guard(self, name: int) -> None:
        try:
            self._work(name)
        except BaseException as error:  # noqa: BLE001 - it is reported, and ends the program
            self.failures.append(f"thread {name}: {error!r}")

    def _work(self, name: int) -> None:
        dice = random.Random(f"{self.seed}/{name}")
        for number in range(0, self.records, _BURST):
            if dice.random() < 0.7:
                for count in range(dice.choice([1, 1, 5])):
                    _Parting(self, b"late %d.%d.%d" % (name, number, count), dice.random() < 0.5)
            self._send_burst([b"%d.%d" % (name, number + one) for one in range(_BURST)], dice)

    def _send_burst(self, labels: list[bytes], dice: random.Random) -> None:
        """Many records to one partition, with as little between them as can be: so threads meet there."""
        filling = b"|" + b"v" * dice.choice([0, 0, 5, 60, 300, 1500])
        with_headers = dice.random() < 0.5
        partition = dice.choice([0, 0, 0, *range(PARTITIONS)])
        records = [
            (
                self.topic,
                label + filling,
                None,
                [("name", label), ("none", None)] if with_headers else None,
                partition,
                None,
                self._callback(label) if number % 4 == 0 else None,
            )
            for number, label in enumerate(labels)
        ]
        send = self.producer.send
        deliveries = [send(*record) for record in records]
        self.sent.update(zip(labels, deliveries, strict=True))

    def _callback(self, label: bytes) -> Callable[[Any], object]:
        reports = self.called_back[label] = []
        return reports.append

    def send(self, label: bytes, has_headers: bool, has_callback: bool, dice: random.Random) -> None:
        value = label + b"|" + b"v" * dice.choice([0, 5, 60, 300, 1500])
        headers = [("name", label), ("none", None)] if has_headers else None
        key = label if dice.random() < 0.3 else None
        partition = None if dice.random() < 0.3 else dice.randrange(PARTITIONS)
        callback = self._callback(label) if has_callback else None
        self.sent[label] = self.producer.send(self.topic, value, key, headers, partition, None, callback)

    def check(self) -> list[str]:
        """What is wrong, in sentences; nothing where all is well."""
        found = list(self.failures)
        log: dict[tuple[int, int], Any] = {}
        places = [ottla.TopicPartition(self.topic, index) for index in range(PARTITIONS)]
        with ottla.Consumer(self.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < ends[place] for place in places):
                for record in consumer.poll(timeout=1.0):
                    log[record.partition, record.offset] = record
        if len(log) != len(self.sent):
            found.append(f"{len(self.sent)} records were sent and {len(log)} are in the log")
        for label, delivery in self.sent.items():
            report = delivery.result(WAIT_SECONDS)
            written = log.get((report.partition, report.offset))
            if written is None or written.value.partition(b"|")[0] != label:
                found.append(f"{label!r} is reported at {report}, where the log has {written}")
            elif written.headers and dict(written.headers)["name"] != label:
                found.append(f"{label!r} has the headers of another record: {written}")
            if label in self.called_back and self.called_back[label] != [report]:
                found.append(f"{label!r} was called back with {self.called_back[label]}, and has {report}")
        return found


class _Parting:
    """Garbage in a cycle whose finalizer sends a record, from wherever the collection happens to run."""

    def __init__(self, owner: Round, label: bytes, has_headers: bool) -> None:
        self.owner, self.label, self.has_headers = owner, label, has_headers
        self.cycle = self

    def __del__(self) -> None:
        self.owner.send(self.label, self.has_headers, True, random.Random(self.label.decode()))


def run(*, seconds: float, rounds: int, seed: int, threads: int, records: int) -> int:
    """Rounds until both bounds are reached; the exit code."""
    unraisable: list[str] = []
    sys.unraisablehook = lambda event: unraisable.append(f"a finalizer failed: {event.exc_value!r}")
    sys.setswitchinterval(1e-6)
    print(f"compiled: {accumulator.IS_COMPILED}", flush=True)
    start = time.monotonic()
    count = total = 0
    with Broker({"num.partitions": str(PARTITIONS)}, in_process=False) as broker:
        while count < rounds or time.monotonic() - start < seconds:
            one = Round(
                broker.bootstrap_servers, f"stress-{count}", seed + count, threads=threads, records=records
            )
            before = gc.get_threshold()
            gc.set_threshold(_COLLECT_AFTER, 5, 5)
            try:
                one.run()
            finally:
                gc.set_threshold(*before)
            found = one.check() + unraisable
            if found:
                print(f"seed {seed + count}:", *found[:20], f"{len(found)} findings", sep="\n  ")
                return 1
            total += len(one.sent)
            count += 1
            if seconds:
                print(f"{count} rounds, {total} records", flush=True)
    print(f"{count} rounds, {total} records: every report was true")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--records", type=int, default=1500, help="for each thread and round")
    given = parser.parse_args()
    return run(
        seconds=given.seconds,
        rounds=given.rounds,
        seed=given.seed,
        threads=given.threads,
        records=given.records,
    )


if __name__ == "__main__":
    raise SystemExit(main())
