"""The tasks with kafka-python, as its users write them."""

from __future__ import annotations

import threading
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from bench.library.tasks import BATCH_BYTES, LINGER_MS, Task, quantiles, rate


def _producer(task: Task, linger_ms: int = LINGER_MS) -> Any:
    chosen = {} if task.has_default_batches else {"linger_ms": linger_ms, "batch_size": BATCH_BYTES}
    producer = KafkaProducer(bootstrap_servers=task.bootstrap, acks=1, enable_idempotence=False, **chosen)
    producer.send(task.topic, b"first").get(timeout=60)
    return producer


def _consumer(task: Task) -> Any:
    consumer = KafkaConsumer(
        bootstrap_servers=task.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(task.topic, 0)])
    return consumer


def send(task: Task) -> dict[str, float]:
    producer = _producer(task)
    value, topic, seen = task.value, task.topic, [0]

    def delivered(_metadata: Any) -> None:
        seen[0] += 1

    started = time.perf_counter()
    for _ in range(task.records):
        future = producer.send(topic, value)
        if task.callbacks:
            future.add_callback(delivered)
    producer.flush()
    seconds = time.perf_counter() - started
    producer.close()
    return rate(task.records, seconds)


def iterate(task: Task) -> dict[str, float]:
    consumer = _consumer(task)
    next(consumer)
    started = time.perf_counter()
    left = task.records - 1
    total = 0
    for record in consumer:
        total += len(record.value)
        left -= 1
        if not left:
            break
    seconds = time.perf_counter() - started
    consumer.close()
    return rate(task.records, seconds)


def latency(task: Task) -> dict[str, float]:
    producer = _producer(task, linger_ms=0)
    consumer = _consumer(task)
    next(consumer)
    found: list[int] = []

    def pace() -> None:
        begun = time.perf_counter()
        for number in range(task.records):
            wait = begun + number / task.rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            producer.send(task.topic, b"%d" % time.perf_counter_ns())

    pacing = threading.Thread(target=pace)
    pacing.start()
    for record in consumer:
        found.append(time.perf_counter_ns() - int(record.value))
        if len(found) == task.records:
            break
    pacing.join()
    producer.close()
    consumer.close()
    return quantiles(found)
