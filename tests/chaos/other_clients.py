"""Clients of other projects, written like their users' code, that record their operations in a history.

confluent-kafka (librdkafka): an idempotent producer, transactions, members of groups of both protocols.
aiokafka: an idempotent producer and a member of a group.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.clients import Schedule, SeededRandom, SharedRecorder
from tests.interop import peers
from tests.interop.cluster.load import REQUEST_MS, settings_of
from tests.interop.cluster.nodes import SECONDS_MAX
from tests.sim.checker import FinalLog, Outcome, Read
from tests.sim.checker.history import Partition, Place

_AIO_LOGGER = logging.getLogger("aiokafka")
_AIO_LOGGER.propagate = False  # disconnects are normal here

AIO_FAILURES = (AioKafkaError, OSError, asyncio.CancelledError)
"""Errors that end an aiokafka client instance. Nobody cancels it here: it leaks its internal
cancellations."""

STEP_S = 15.0
STEPS_MAX = 40


class Worker(threading.Thread):
    """Works until the run ends; `error` holds an unexpected exception."""

    def __init__(self, name: str, schedule: Schedule, recorder: SharedRecorder, bootstrap: str) -> None:
        super().__init__(name=name, daemon=True)
        self.schedule, self.recorder, self.bootstrap = schedule, recorder, bootstrap
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
            self.error = error
            self.recorder.record_error(self.name, error)

    def work(self) -> None:
        raise AssertionError("a worker says what it does")

    def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)


class ConfluentWriter(Worker):
    """An idempotent producer: no record may be lost or duplicated, however long that takes."""

    def __init__(self, name: str, *common: Any, partitions: list[Partition], rate: float, seed: str) -> None:
        super().__init__(name, *common)
        self._partitions, self._rate = partitions, rate
        self._chance = SeededRandom(f"{seed}/{name}")

    def work(self) -> None:
        settings = {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": 600_000}
        producer = Producer(settings_of(self.bootstrap) | settings | {"request.timeout.ms": REQUEST_MS})
        while not self.schedule.is_ending:
            partition = self._partitions[self._chance.below(len(self._partitions))]
            for _ in range(1 + self._chance.below(3)):
                produce(producer, self.recorder, self.name, partition)
            producer.poll(0)
            self.pause(4 * self._chance.fraction() / self._rate)
        left = producer.flush(SECONDS_MAX)
        assert left == 0, f"{left} records were not acknowledged"


def produce(
    producer: Producer,
    recorder: SharedRecorder,
    process: str,
    partition: Partition,
    *,
    transaction: str | None = None,
) -> None:
    number, value = recorder.send(process, partition, transaction=transaction)

    def note(error: KafkaError | None, message: Message) -> None:
        if error is None:  # after a lost response the client may not know the offset
            recorder.sent(number, Outcome.OK, message.offset())

    try:
        producer.produce(partition[0], value.encode(), partition=partition[1], on_delivery=note)
    except (BufferError, KafkaException):
        recorder.sent(number, Outcome.FAILED)  # the producer rejected it: no request contains it
        raise


class ConfluentTransactor(Worker):
    """Transactions over several partitions, one in four of which aborts. A fatal error ends an instance."""

    def __init__(self, name: str, *common: Any, partitions: list[Partition], seed: str) -> None:
        super().__init__(name, *common)
        self._partitions = partitions
        self._chance = SeededRandom(f"{seed}/{name}")
        self.lives = 0

    def work(self) -> None:
        producer = self._begin()
        while not self.schedule.is_ending:
            number, name = self.recorder.begin(f"{self.name}.{self.lives}")
            try:
                self._transact(producer, number, name)
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise
                self.recorder.record_error(self.name, error)
                producer = self._begin()
            self.pause(self._chance.fraction())

    def _begin(self) -> Producer:
        self.lives += 1
        settings = {"transactional.id": self.name, "linger.ms": 2, "request.timeout.ms": REQUEST_MS}
        producer = Producer(settings_of(self.bootstrap) | settings)
        _until_done(producer.init_transactions)
        return producer

    def _transact(self, producer: Producer, number: int, name: str) -> None:
        process = f"{self.name}.{self.lives}"
        producer.begin_transaction()
        try:
            for _ in range(1 + self._chance.below(5)):
                partition = self._partitions[self._chance.below(len(self._partitions))]
                produce(producer, self.recorder, process, partition, transaction=name)
                producer.poll(0)
            if self._chance.below(4):
                self.recorder.committing(number)
                _until_done(producer.commit_transaction)
                self.recorder.ended(number, Outcome.OK)
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.recorder.record_error(self.name, error)
        _until_done(producer.abort_transaction)
        self.recorder.ended(number, Outcome.FAILED)


def _until_done(step: Callable[[float], object]) -> None:
    """Retry a step as the client requires: retriable errors mean another call."""
    last: KafkaException | None = None
    for _ in range(STEPS_MAX):
        try:
            step(STEP_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            last = error
        else:
            return
    raise AssertionError(f"it may be tried again for ever: {last}")


class ReadWindows:
    """The records that a group member reads, per partition, in the order of its polls.

    It starts at the group's committed offset, or at the next record: never below.
    """

    def __init__(self, recorder: SharedRecorder, process: str, group: str) -> None:
        self._recorder, self._process, self._group = recorder, process, group
        self._next: dict[Partition, int] = {}
        self._assigned: dict[Partition, float] = {}  # partition: time
        self.done: dict[Partition, int] = {}  # offsets that may be committed

    def forget(self, partitions: Iterable[Partition]) -> None:
        """The partitions were assigned or revoked."""
        for partition in partitions:
            self._next.pop(partition, None)
            self.done.pop(partition, None)
            self._assigned[partition] = self._recorder.world.now

    def take(self, partition: Partition, places: list[Place]) -> None:
        before = self._next.get(partition)
        now, began = self._recorder.world.now, self._assigned.get(partition)
        if before is None and began is not None:
            self._recorder.beginnings.append((self._group, partition, places[0][0], began))
        position, following = places[0][0] if before is None else before, places[-1][0] + 1
        self._next[partition] = self.done[partition] = following
        self._recorder.history.reads.append(
            Read(
                process=self._process,
                partition=partition,
                committed=True,
                position=position,
                next_position=following,
                records=tuple(places),
                ended=now,
                jumped=before is None,
            )
        )


class ConfluentMember(Worker):
    """A member that commits the offsets of records it has read."""

    def __init__(self, name: str, *common: Any, topics: list[str], group: str, protocol: str) -> None:
        super().__init__(name, *common)
        self._topics, self._group, self._protocol = topics, group, protocol

    def work(self) -> None:
        settings = {"group.id": self._group, "group.protocol": self._protocol, "enable.auto.commit": "false"}
        settings |= {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        settings |= {"session.timeout.ms": "10000"} if self._protocol == "classic" else {}
        consumer = Consumer(settings_of(self.bootstrap) | settings | {"check.crcs": True})
        windows = ReadWindows(self.recorder, self.name, self._group)

        def forget(_consumer: Consumer, places: list[TopicPartition]) -> None:
            windows.forget((place.topic, place.partition) for place in places)

        consumer.subscribe(self._topics, on_assign=forget, on_revoke=forget, on_lost=forget)
        try:
            since = 0
            while not self.schedule.is_ending:
                # One by one, so that a revocation happens between two messages, never within a batch.
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    partition = (message.topic() or "", message.partition() or 0)
                    windows.take(partition, [(message.offset() or 0, (message.value() or b"").decode())])
                    since += 1
                if windows.done and (since >= 100 or (message is None and since)):
                    self._commit(consumer, windows)
                    since = 0
            self._commit(consumer, windows)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer, windows: ReadWindows) -> None:
        offsets = dict(windows.done)
        if not offsets:
            return
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        try:
            answered = consumer.commit(offsets=wanted, asynchronous=False) or []
        except KafkaException as error:
            self.recorder.record_error(self.name, error)
            self.recorder.committed(self._group, offsets, Outcome.UNKNOWN)
            return
        for one in answered:
            outcome = Outcome.OK if one.error is None else Outcome.UNKNOWN
            self.recorder.committed(self._group, {(one.topic, one.partition): one.offset}, outcome)


async def aio_write(
    schedule: Schedule,
    recorder: SharedRecorder,
    bootstrap: str,
    name: str,
    partitions: list[Partition],
    rate: float,
) -> None:
    """aiokafka's idempotent producer. After a fatal error it is replaced, as its users do."""
    rng = SeededRandom(name)
    lives = 0
    while not schedule.is_ending:
        lives += 1
        process = f"{name}.{lives}"
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            client_id=process,
            enable_idempotence=True,
            request_timeout_ms=30_000,
            linger_ms=5,
        )
        try:
            await producer.start()
            await _aio_send(schedule, recorder, producer, process, partitions, rng, rate)
        except AIO_FAILURES as error:
            recorder.record_error(process, error)
            if isinstance(error, asyncio.CancelledError):
                recorder.world.note(process, f"cancelled in {_stack_of(error)}")
            await asyncio.sleep(0.5)
        finally:
            with contextlib.suppress(*AIO_FAILURES):
                await producer.stop()


def _stack_of(error: BaseException) -> str:
    """The call stack of an error without a message."""
    frames = traceback.extract_tb(error.__traceback__)
    return " > ".join(f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in frames)


async def _aio_send(
    schedule: Schedule,
    recorder: SharedRecorder,
    producer: Any,
    process: str,
    partitions: list[Partition],
    rng: SeededRandom,
    rate: float,
) -> None:
    failed: list[BaseException] = []
    waiting: set[asyncio.Future[Any]] = set()

    def record_outcome(number: int, done: asyncio.Future[Any]) -> None:
        waiting.discard(done)
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is None:
            recorder.sent(number, Outcome.OK, done.result().offset)
        else:
            failed.append(error)

    while not schedule.is_ending and not failed:
        topic, index = partition = partitions[rng.below(len(partitions))]
        number, value = recorder.send(process, partition)
        future = await producer.send(topic, value.encode(), partition=index)
        waiting.add(future)
        future.add_done_callback(lambda done, number=number: record_outcome(number, done))
        await asyncio.sleep(2 * rng.fraction() / rate)
    if waiting:
        await asyncio.wait(list(waiting))
    if failed:
        raise failed[0]


class AioNotes(logging.Handler):
    """Adds aiokafka's log about positions to the timeline, since it may reset them without an error."""

    def __init__(self, recorder: SharedRecorder) -> None:
        super().__init__(logging.INFO)
        self._recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "offset" in text.lower():
            self._recorder.world.note("aiokafka", text[:200])

    def __enter__(self) -> AioNotes:
        _AIO_LOGGER.setLevel(logging.INFO)
        _AIO_LOGGER.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        _AIO_LOGGER.removeHandler(self)


class _AioListener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, windows: ReadWindows) -> None:
        self._windows = windows

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._windows.forget((one.topic, one.partition) for one in revoked)

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._windows.forget((one.topic, one.partition) for one in assigned)


async def aio_member(
    schedule: Schedule, recorder: SharedRecorder, bootstrap: str, name: str, topics: list[str], group: str
) -> None:
    """aiokafka's member of a classic group, which commits the offsets of records it has read."""
    with AioNotes(recorder):
        await _aio_member(schedule, recorder, bootstrap, name, topics, group)


async def _aio_member(
    schedule: Schedule, recorder: SharedRecorder, bootstrap: str, name: str, topics: list[str], group: str
) -> None:
    lives = 0
    while not schedule.is_ending:
        lives += 1
        process = f"{name}.{lives}"
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id=process,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            request_timeout_ms=10_000,
        )
        windows = ReadWindows(recorder, process, group)
        consumer.subscribe(topics, listener=_AioListener(windows))
        try:
            await consumer.start()
            await _aio_read(schedule, recorder, consumer, windows, group, process)
        except AIO_FAILURES as error:
            recorder.record_error(process, error)
            if isinstance(error, asyncio.CancelledError):
                recorder.world.note(process, f"cancelled in {_stack_of(error)}")
            await asyncio.sleep(0.5)
        finally:
            with contextlib.suppress(*AIO_FAILURES):
                await consumer.stop()


async def _aio_read(
    schedule: Schedule,
    recorder: SharedRecorder,
    consumer: Any,
    windows: ReadWindows,
    group: str,
    process: str,
) -> None:
    while not schedule.is_ending:
        found = await consumer.getmany(timeout_ms=500)
        for one, records in found.items():
            places = [(record.offset, record.value.decode()) for record in records]
            windows.take((one.topic, one.partition), places)
        offsets = dict(windows.done)
        if not found or not offsets:
            continue
        try:
            await consumer.commit({aiokafka.TopicPartition(*one): offset for one, offset in offsets.items()})
        except AioKafkaError as error:
            recorder.record_error(process, error)
            recorder.committed(group, offsets, Outcome.UNKNOWN)
        else:
            recorder.committed(group, offsets, Outcome.OK)


def read_committed(bootstrap: str, logs: Iterable[FinalLog]) -> dict[Partition, list[Place]]:
    """Read these partitions from their beginning with confluent-kafka and read_committed."""
    ends = {log.partition: log.end for log in logs}
    settings = {"group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True}
    settings |= {"isolation.level": "read_committed", "check.crcs": True}
    consumer = Consumer(settings_of(bootstrap) | settings)
    found: dict[Partition, list[Place]] = {partition: [] for partition in ends}
    over: set[Partition] = set()

    def is_read() -> bool:
        for message in consumer.consume(5000, timeout=0.5):
            partition, error = (message.topic() or "", message.partition() or 0), message.error()
            if error is None:
                found[partition].append((message.offset() or 0, (message.value() or b"").decode()))
            elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= ends[partition]:
                over.add(partition)
        return over == set(ends)

    try:
        consumer.assign([TopicPartition(*partition, 0) for partition in ends])
        peers.wait_until(is_read, SECONDS_MAX, lambda: f"the end of {set(ends) - over}")
    finally:
        consumer.close()
    return found
