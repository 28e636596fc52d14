"""The tasks with aiokafka, as its users write them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.library.tasks import BATCH_BYTES, LINGER_MS, Task, quantiles, rate


async def _producer(task: Task, linger_ms: int = LINGER_MS) -> Any:
    chosen = {} if task.has_default_batches else {"linger_ms": linger_ms, "max_batch_size": BATCH_BYTES}
    producer = AIOKafkaProducer(bootstrap_servers=task.bootstrap, acks=1, **chosen)
    await producer.start()
    await producer.send_and_wait(task.topic, b"first")
    return producer


async def _consumer(task: Task) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([TopicPartition(task.topic, 0)])
    return consumer


def send(task: Task) -> dict[str, float]:
    async def work() -> float:
        producer = await _producer(task)
        value, topic, seen = task.value, task.topic, [0]

        def delivered(_future: Any) -> None:
            seen[0] += 1

        started = time.perf_counter()
        for _ in range(task.records):
            future = await producer.send(topic, value)
            if task.callbacks:
                future.add_done_callback(delivered)
        await producer.flush()
        seconds = time.perf_counter() - started
        await producer.stop()
        return seconds

    return rate(task.records, asyncio.run(work()))


def iterate(task: Task) -> dict[str, float]:
    async def work() -> float:
        consumer = await _consumer(task)
        await consumer.getone()
        started = time.perf_counter()
        left = task.records - 1
        total = 0
        async for record in consumer:
            total += len(record.value)
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - started
        await consumer.stop()
        return seconds

    return rate(task.records, asyncio.run(work()))


def latency(task: Task) -> dict[str, float]:
    async def pace(producer: Any) -> None:
        begun = time.perf_counter()
        for number in range(task.records):
            wait = begun + number / task.rate - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            await producer.send(task.topic, b"%d" % time.perf_counter_ns())

    async def work() -> list[int]:
        producer = await _producer(task, linger_ms=0)
        consumer = await _consumer(task)
        await consumer.getone()
        found: list[int] = []
        pacing = asyncio.create_task(pace(producer))
        async for record in consumer:
            found.append(time.perf_counter_ns() - int(record.value))
            if len(found) == task.records:
                break
        await pacing
        await consumer.stop()
        await producer.stop()
        return found

    return quantiles(asyncio.run(work()))
