"""The tasks with Ottla's own client."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import ottla
from bench.library.tasks import BATCH_BYTES, LINGER_MS, Task, quantiles, rate, resident_mb

CHUNK_ROWS = 100_000
IDLE_SECONDS = 60.0
ROUND_RECORDS = 5000


def _producer(task: Task, linger_ms: int = LINGER_MS) -> ottla.Producer:
    chosen: dict[str, Any] = (
        {} if task.has_default_batches else {"linger_ms": linger_ms, "batch_size": BATCH_BYTES}
    )
    producer = ottla.Producer(task.bootstrap, acks=1, enable_idempotence=False, **chosen)
    producer.send(task.topic, b"first").result(60)
    return producer


def _consumer(task: Task) -> ottla.Consumer[bytes, bytes]:
    consumer: ottla.Consumer[bytes, bytes] = ottla.Consumer(task.bootstrap, auto_offset_reset="earliest")
    consumer.assign([(task.topic, 0)])
    return consumer


def send(task: Task) -> dict[str, float]:
    producer = _producer(task)
    value, topic, seen = task.value, task.topic, [0]
    hand_over = producer.send

    def delivered(_report: Any) -> None:
        seen[0] += 1

    started = time.perf_counter()
    if task.callbacks:
        for _ in range(task.records):
            hand_over(topic, value, on_delivery=delivered)
    else:
        for _ in range(task.records):
            hand_over(topic, value)
    producer.flush()
    seconds = time.perf_counter() - started
    producer.close()
    assert not task.callbacks or seen[0] == task.records
    return rate(task.records, seconds)


def iterate(task: Task) -> dict[str, float]:
    with _consumer(task) as consumer:
        records = iter(consumer)
        next(records)
        started = time.perf_counter()
        left = task.records - 1
        total = 0
        for record in records:
            total += len(record.value)
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - started
    return rate(task.records, seconds)


each = iterate


def table_in(task: Task) -> dict[str, float]:
    import pyarrow as pa

    producer = _producer(task)
    table = pa.table({"value": pa.array([task.value] * CHUNK_ROWS, pa.binary())})
    started = time.perf_counter()
    for _ in range(task.records // CHUNK_ROWS):
        producer.send_arrow(task.topic, table)
    producer.flush()
    seconds = time.perf_counter() - started
    producer.close()
    return rate(task.records // CHUNK_ROWS * CHUNK_ROWS, seconds)


def table_out(task: Task) -> dict[str, float]:
    with _consumer(task) as consumer:
        batches = consumer.arrow(idle_timeout=IDLE_SECONDS)
        taken = next(batches).num_rows
        started, before = time.perf_counter(), taken
        while taken < task.records:
            taken += next(batches).num_rows
        seconds = time.perf_counter() - started
    return rate(taken - before, seconds)


def latency(task: Task) -> dict[str, float]:
    producer = _producer(task, linger_ms=0)
    found: list[int] = []
    with _consumer(task) as consumer:
        records = iter(consumer)
        next(records)

        def pace() -> None:
            begun = time.perf_counter()
            for number in range(task.records):
                wait = begun + number / task.rate - time.perf_counter()
                if wait > 0:
                    time.sleep(wait)
                producer.send(task.topic, b"%d" % time.perf_counter_ns())

        pacing = threading.Thread(target=pace)
        pacing.start()
        for record in records:
            found.append(time.perf_counter_ns() - int(record.value))
            if len(found) == task.records:
                break
        pacing.join()
    producer.close()
    return quantiles(found)


def memory(task: Task) -> dict[str, float]:
    """Send and read all records at once; the growth in memory after the first tenth."""
    producer = _producer(task)
    topic, value = task.topic, task.value
    sizes: list[float] = []
    tenth = task.records // 10
    with _consumer(task) as consumer:
        records = iter(consumer)
        next(records)
        for _ in range(10):
            for _ in range(tenth // ROUND_RECORDS):
                for _ in range(ROUND_RECORDS):
                    producer.send(topic, value)
                for _ in range(ROUND_RECORDS):
                    next(records)
            gc.collect()
            sizes.append(resident_mb())
    producer.close()
    return {"value": sizes[-1] - sizes[0], **{f"part_{index}_mb": size for index, size in enumerate(sizes)}}
