"""What the tests of the consumer share: records from another client, and reading until a count is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer

from ottla import Consumer, ConsumerRecord
from tests.interop.library.support import PATIENCE_SECONDS

WAIT_SECONDS = float(PATIENCE_SECONDS)
PROTOCOLS = ["classic", "consumer"]


def fill(
    bootstrap: str,
    topic: str,
    numbers: Iterable[int],
    *,
    partitions: int = 1,
    timestamp: int = 0,
    **settings: Any,
) -> None:
    """Write one record for each number, to the partition that it falls on; all are acknowledged."""
    failures: list[Any] = []
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for number in numbers:
        producer.produce(
            topic,
            str(number).encode(),
            key=b"k%d" % (number % 7),
            partition=number % partitions,
            timestamp=timestamp,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(WAIT_SECONDS) == 0
    assert not failures, failures


def numbers_of(records: Iterable[ConsumerRecord[Any, Any]]) -> list[int]:
    return [int(record.value) for record in records]


def read(consumer: Consumer[Any, Any], count: int) -> list[ConsumerRecord[Any, Any]]:
    """Poll until `count` records have come."""
    found: list[ConsumerRecord[Any, Any]] = []
    read_until([consumer], lambda: len(found) >= count, f"{count} records", found)
    return found


def read_until(
    consumers: Sequence[Consumer[Any, Any]],
    condition: Callable[[], bool],
    what: str,
    found: list[ConsumerRecord[Any, Any]] | None = None,
) -> list[ConsumerRecord[Any, Any]]:
    """Poll the consumers in turn until the condition holds."""
    seen: list[ConsumerRecord[Any, Any]] = [] if found is None else found
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        for consumer in consumers:
            seen += consumer.poll(0.05)
        if time.monotonic() > deadline:
            state = [(sorted(map(str, one.assignment)), one.metrics()) for one in consumers]
            raise AssertionError(f"{what} did not come; {len(seen)} records came; the consumers: {state}")
    return seen


def confluent_member(bootstrap: str, group: str, topic: str, **settings: Any) -> ConfluentConsumer:
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    return consumer
