"""The tasks with confluent-kafka, as its users write them."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.library.tasks import BATCH_BYTES, LINGER_MS, Task, quantiles, rate

CHUNK_ROWS = 100_000
POLL_EVERY = 1000
CONSUME_MAX = 500


def _producer(task: Task, linger_ms: int = LINGER_MS) -> Any:
    chosen = {} if task.has_default_batches else {"linger.ms": linger_ms, "batch.size": BATCH_BYTES}
    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "acks": 1,
            **chosen,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.produce(task.topic, b"first")
    producer.flush(60)
    return producer


def _consumer(task: Task) -> Any:
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # With their defaults, it pauses for a second whenever 100,000 messages or 64 MiB wait.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(task.topic, 0, 0)])
    return consumer


def send(task: Task) -> dict[str, float]:
    producer = _producer(task)
    value, topic, seen = task.value, task.topic, [0]

    def delivered(_error: Any, _message: Any) -> None:
        seen[0] += 1

    callback = delivered if task.callbacks else None
    started = time.perf_counter()
    for number in range(task.records):
        while True:
            try:
                if callback is None:
                    producer.produce(topic, value)
                else:
                    producer.produce(topic, value, on_delivery=callback)
                break
            except BufferError:
                producer.poll(0.01)
        if not number % POLL_EVERY:
            producer.poll(0)
    producer.flush()
    seconds = time.perf_counter() - started
    assert not task.callbacks or seen[0] == task.records
    return rate(task.records, seconds)


def iterate(task: Task) -> dict[str, float]:
    consumer = _consumer(task)
    taken = 0
    while not taken:
        taken = len(consumer.consume(1, timeout=1.0))
    total = 0
    started = time.perf_counter()
    while taken < task.records:
        for message in consumer.consume(CONSUME_MAX, timeout=1.0):
            if message.error() is None:
                total += len(message.value())
                taken += 1
    seconds = time.perf_counter() - started
    consumer.close()
    return rate(task.records, seconds)


def each(task: Task) -> dict[str, float]:
    """One call for each message, as in the library's own examples."""
    consumer = _consumer(task)
    poll = consumer.poll
    while poll(1.0) is None:
        pass
    taken, total = 1, 0
    started = time.perf_counter()
    while taken < task.records:
        message = poll(1.0)
        if message is not None and message.error() is None:
            total += len(message.value())
            taken += 1
    seconds = time.perf_counter() - started
    consumer.close()
    return rate(task.records, seconds)


def table_in(task: Task) -> dict[str, float]:
    import pyarrow as pa

    producer = _producer(task)
    table = pa.table({"value": pa.array([task.value] * CHUNK_ROWS, pa.binary())})
    started = time.perf_counter()
    for _ in range(task.records // CHUNK_ROWS):
        for number, value in enumerate(table.column("value").to_pylist()):
            while True:
                try:
                    producer.produce(task.topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
            if not number % POLL_EVERY:
                producer.poll(0)
    producer.flush()
    return rate(task.records // CHUNK_ROWS * CHUNK_ROWS, time.perf_counter() - started)


def table_out(task: Task) -> dict[str, float]:
    """The same columns as ours."""
    import pyarrow as pa

    consumer = _consumer(task)
    taken = 0
    while not taken:
        taken = len(consumer.consume(1, timeout=1.0))
    started, before = time.perf_counter(), taken
    while taken < task.records:
        messages = [one for one in consumer.consume(10_000, timeout=1.0) if one.error() is None]
        batch = pa.record_batch(
            {
                "key": pa.array([one.key() for one in messages], pa.binary()),
                "value": pa.array([one.value() for one in messages], pa.binary()),
                "topic": pa.array([one.topic() for one in messages], pa.string()),
                "partition": pa.array([one.partition() for one in messages], pa.int32()),
                "offset": pa.array([one.offset() for one in messages], pa.int64()),
                "timestamp": pa.array([one.timestamp()[1] for one in messages], pa.timestamp("ms")),
            }
        )
        taken += batch.num_rows
    seconds = time.perf_counter() - started
    consumer.close()
    return rate(taken - before, seconds)


def latency(task: Task) -> dict[str, float]:
    producer = _producer(task, linger_ms=0)
    consumer = _consumer(task)
    while consumer.poll(1.0) is None:
        pass
    found: list[int] = []

    def pace() -> None:
        begun = time.perf_counter()
        for number in range(task.records):
            wait = begun + number / task.rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            producer.produce(task.topic, b"%d" % time.perf_counter_ns())
            producer.poll(0)

    pacing = threading.Thread(target=pace)
    pacing.start()
    while len(found) < task.records:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(time.perf_counter_ns() - int(message.value()))
    pacing.join()
    producer.flush()
    consumer.close()
    return quantiles(found)
