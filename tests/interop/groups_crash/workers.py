"""Members of groups that consume and commit until they are told to stop, through broker failures.

Each keeps what it got and what was acknowledged. Errors of a broker that is down are part of the test: a
worker goes on, and whether it got everything in the end is what is checked.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError as PythonKafkaError

SESSION_MS = 3_000
HEARTBEAT_MS = 300
BATCH = 100
POLL_S = 0.2


class Progress:
    """What the members of one group got and committed, all together."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.delivered: dict[int, set[int]] = defaultdict(set)
        self.commits = 0
        self._acknowledged: dict[int, int] = {}
        self._lock = threading.Lock()

    def got(self, partition: int, offset: int) -> None:
        with self._lock:
            self.delivered[partition].add(offset)

    def committed(self, offsets: dict[int, int]) -> None:
        with self._lock:
            self.commits += 1
            for partition, offset in offsets.items():
                self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, 0))

    def acknowledged(self) -> dict[int, int]:
        with self._lock:
            return dict(self._acknowledged)


class Worker(threading.Thread):
    """One member in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, progress: Progress) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.topic = topic
        self.progress = progress
        self.failure: BaseException | None = None
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            self.consume()
        except BaseException as error:  # noqa: BLE001 (handed to the test)
            self.failure = error

    def consume(self) -> None:
        raise AssertionError("a kind of worker says how it consumes")


class ConfluentWorker(Worker):
    """librdkafka; `settings` choose the protocol."""

    settings: dict[str, Any] = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}

    def consume(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.progress.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **self.settings,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self._stopping.is_set():
                self._take(consumer, consumer.consume(BATCH, timeout=POLL_S))
        finally:
            consumer.close()

    def _take(self, consumer: Any, messages: list[Any]) -> None:
        offsets: dict[int, int] = {}
        for message in messages:
            if message.error() is None:
                self.progress.got(message.partition(), message.offset())
                offsets[message.partition()] = message.offset() + 1
        if not offsets:
            return
        rows = [confluent_kafka.TopicPartition(self.topic, *pair) for pair in offsets.items()]
        try:
            done = consumer.commit(offsets=rows, asynchronous=False)
        except confluent_kafka.KafkaException:
            return  # not acknowledged; what comes next is committed over it, or it is delivered again
        self.progress.committed({row.partition: row.offset for row in done if row.error is None})


class ConfluentCooperativeWorker(ConfluentWorker):
    settings = {**ConfluentWorker.settings, "partition.assignment.strategy": "cooperative-sticky"}


class ConfluentModernWorker(ConfluentWorker):
    settings = {"group.protocol": "consumer"}


class PythonWorker(Worker):
    """kafka-python."""

    def consume(self) -> None:
        consumer = kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.progress.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_records=BATCH,
            reconnect_backoff_max_ms=200,
            consumer_timeout_ms=1000,
        )
        try:
            while not self._stopping.is_set():
                try:
                    self._take(consumer, consumer.poll(timeout_ms=int(POLL_S * 1000)))
                except PythonKafkaError:
                    self._stopping.wait(POLL_S)  # the broker is down
        finally:
            consumer.close(autocommit=False)

    def _take(self, consumer: Any, polled: dict[Any, list[Any]]) -> None:
        if not polled:
            return
        offsets = {}
        for place, records in polled.items():
            for record in records:
                self.progress.got(place.partition, record.offset)
            offsets[place] = kafka.OffsetAndMetadata(records[-1].offset + 1, "", -1)
        consumer.commit(offsets)
        self.progress.committed({place.partition: row.offset for place, row in offsets.items()})


class AioWorker(Worker):
    """aiokafka, on a loop of its own."""

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.progress.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=SESSION_MS + 2_000,
        )
        await consumer.start()
        try:
            while not self._stopping.is_set():
                try:
                    polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
                    await self._take(consumer, polled)
                except AioKafkaError:
                    await asyncio.sleep(POLL_S)  # the broker is down
        finally:
            await consumer.stop()

    async def _take(self, consumer: Any, polled: dict[Any, list[Any]]) -> None:
        offsets = {}
        for place, records in polled.items():
            for record in records:
                self.progress.got(place.partition, record.offset)
            offsets[place] = records[-1].offset + 1
        if offsets:
            await consumer.commit(offsets)
            self.progress.committed({place.partition: offset for place, offset in offsets.items()})


WORKERS: dict[str, type[Worker]] = {
    "confluent-classic": ConfluentWorker,
    "confluent-cooperative": ConfluentCooperativeWorker,
    "confluent-consumer": ConfluentModernWorker,
    "kafka-python": PythonWorker,
    "aiokafka": AioWorker,
}
