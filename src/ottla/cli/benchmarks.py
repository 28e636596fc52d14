"""The measurements of `ottla bench`: produce and consume throughput, and end-to-end latency.

Rule: every part stops after its time or byte limit, whatever the cluster does. Two clusters are measured
alternately, so that other load on the machine affects both.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import Problem

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.producer.producer import Producer

PARTS = ("produce", "consume", "latency")
PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_PAYLOADS = 64
_SAMPLE_EVERY = 50
_SAMPLES_MAX = 1_000_000
_BYTES_MAX = 1024**3
_POLL_RECORDS = 5_000
_ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to send, and for how long."""

    size_bytes: int = 100
    seconds: float = 5.0
    partitions: int = 1
    parts: tuple[str, ...] = PARTS


@dataclass(slots=True)
class Measured:
    """The result of one part: counts, duration, and individual times in ms."""

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    times_ms: list[float] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The table row: rates and percentiles."""
        rate = self.records / self.seconds if self.seconds else 0.0
        found: dict[str, Any] = {
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(rate, 1),
            "mb_per_second": round(self.bytes / self.seconds / 1e6, 3) if self.seconds else 0.0,
        }
        ordered = sorted(self.times_ms)
        for percent in PERCENTILES:
            found[f"p{percent:g}_ms".replace(".", "")] = percentile(ordered, percent)
        found["max_ms"] = round(ordered[-1], 3) if ordered else None
        return found


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """The value that `percent` percent of the samples do not exceed."""
    if not ordered:
        return None
    return round(ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)], 3)


def histogram(times_ms: Sequence[float], buckets: int = 12) -> list[tuple[float, float, int]]:
    """Counts between bounds that grow by the same factor: (from, to, how many)."""
    if not times_ms:
        return []
    low = max(min(times_ms), 0.001)
    high = max(max(times_ms), low * 1.01)
    factor = (high / low) ** (1 / buckets)
    bounds = [low * factor**at for at in range(buckets)] + [high]
    counts = [0] * buckets
    for one in times_ms:
        at = next((at for at in range(buckets) if one <= bounds[at + 1]), buckets - 1)
        counts[at] += 1
    return [(bounds[at], bounds[at + 1], count) for at, count in enumerate(counts)]


class Contestant:
    """One cluster: its topic, its clients, and the results so far."""

    def __init__(
        self,
        name: str,
        topic: str,
        producing: Mapping[str, object],
        consuming: Mapping[str, object],
        load: Load,
    ) -> None:
        self.name = name
        self.measured = {part: Measured() for part in load.parts}
        self._topic = topic
        self._load = load
        self._producing = dict(producing)
        self._consuming = dict(consuming)
        drawing = random.Random(0)
        self._payloads = [bytes(drawing.choices(_LETTERS, k=load.size_bytes)) for _ in range(_PAYLOADS)]
        self._read_to: dict[int, int] = {}

    def run(self, part: str, seconds: float) -> None:
        """One round of a part."""
        measured = self.measured[part]
        {"produce": self._produce, "consume": self._consume, "latency": self._latency}[part](
            measured, seconds
        )

    def _produce(self, measured: Measured, seconds: float) -> None:
        from ottla.client.producer.producer import Producer

        failures: list[Exception] = []
        with Producer(self._producing) as producer:
            producer.partitions_for(self._topic)
            began = time.perf_counter()
            count = self._send_for(producer, measured, began + seconds, failures)
            producer.flush()
            measured.seconds += time.perf_counter() - began
        if failures:
            raise Problem(f"{self.name} rejected records: {failures[0]}")
        measured.records += count
        measured.bytes += count * self._load.size_bytes

    def _send_for(
        self, producer: Producer, measured: Measured, until: float, failures: list[Exception]
    ) -> int:
        clock, topic, payloads = time.perf_counter, self._topic, self._payloads
        limit = _BYTES_MAX // max(self._load.size_bytes, 1)
        count = 0

        def sampled(sent_at: float) -> Any:
            def heard(report: Any) -> None:
                if report.error is not None:
                    failures.append(report.error)
                elif len(measured.times_ms) < _SAMPLES_MAX:
                    measured.times_ms.append((clock() - sent_at) * 1000)

            return heard

        while count < limit and not failures:
            now = clock()
            if now >= until and count:
                break
            producer.send(topic, payloads[count % _PAYLOADS], on_delivery=sampled(now))
            for at in range(1, _SAMPLE_EVERY):
                producer.send(topic, payloads[(count + at) % _PAYLOADS])
            count += _SAMPLE_EVERY
        return count

    def _consume(self, measured: Measured, seconds: float) -> None:
        """Continue where the last round stopped; start over at the end, if time is left."""
        from ottla.client.consumer.consumer import Consumer

        consumer: Consumer[Any, Any] = Consumer(self._consuming)
        with consumer:
            partitions = consumer.partitions_for(self._topic)
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, min(self._read_to.get(partition.partition, 0), ends[partition]))
            total = sum(ends.values())
            left = total - sum(self._read_to.values())
            if not total:
                raise Problem(f"{self.name}: the topic is empty. Measure produce as well.")
            has_read = False
            began = time.perf_counter()
            while (past := time.perf_counter() - began) < seconds or (
                not has_read and past < _ANSWER_SECONDS
            ):
                records = consumer.poll(0.1, _POLL_RECORDS)
                has_read |= bool(records)
                measured.bytes += sum(len(record.value or b"") for record in records)
                measured.records += len(records)
                left -= len(records)
                if left <= 0:
                    consumer.seek_to_beginning()
                    left = total
            measured.seconds += time.perf_counter() - began
            self._read_to = {one.partition: consumer.position(one) for one in partitions}

    def _latency(self, measured: Measured, seconds: float) -> None:
        """Send one record, wait until it is read, and send the next."""
        from ottla.client.consumer.consumer import Consumer
        from ottla.client.producer.producer import Producer

        consumer: Consumer[Any, Any] = Consumer(self._consuming)
        with consumer, Producer({**self._producing, "linger.ms": "0"}) as producer:
            partitions = consumer.partitions_for(self._topic)
            consumer.assign(partitions)
            consumer.seek_to_end()
            for partition in partitions:
                consumer.position(partition)
            self._round_trip(producer, consumer, b"warm")
            began = time.perf_counter()
            number = 0
            while not number or (time.perf_counter() < began + seconds and number < _SAMPLES_MAX):
                payload = b"%d " % number + self._payloads[number % _PAYLOADS]
                sent = time.perf_counter()
                self._round_trip(producer, consumer, payload[: max(self._load.size_bytes, 12)])
                measured.times_ms.append((time.perf_counter() - sent) * 1000)
                number += 1
            measured.seconds += time.perf_counter() - began
            measured.records += number
            measured.bytes += number * self._load.size_bytes

    def _round_trip(self, producer: Producer, consumer: Consumer[Any, Any], payload: bytes) -> None:
        delivery = producer.send(self._topic, payload)
        until = time.perf_counter() + _ANSWER_SECONDS
        while time.perf_counter() < until:
            if any(record.value == payload for record in consumer.poll(1.0)):
                delivery.result(_ANSWER_SECONDS)
                return
        raise Problem(f"{self.name}: a record was not consumed within {_ANSWER_SECONDS:.0f} s.")


def measure(contestants: Sequence[Contestant], load: Load, report: Any) -> None:
    """Measure all parts, alternating between clusters within each."""
    rounds = 1 if len(contestants) == 1 else 3
    for part in load.parts:
        for number in range(rounds):
            # Take turns in going first, so that no cluster always comes second.
            turn = contestants if number % 2 == 0 else contestants[::-1]
            for one in turn:
                report(f"{part} {one.name}" + (f", round {number + 1} of {rounds}" if rounds > 1 else ""))
                one.run(part, load.seconds / rounds)
