"""Calls of the blocking producer while the broker is stopped, ended by another thread; and after a fork."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.client.errors import ClientError, Forked
from ottla.records.builder import BatchBuilder
from ottla.testing import Broker

PLACE = ottla.TopicPartition("t", 0)
OFFSETS = {PLACE: ottla.OffsetAndMetadata(1)}
TABLE = pa.table({"value": [b"x"]})

PLAIN: dict[str, Callable[[Any], object]] = {
    "send": lambda producer: producer.send("unknown", b"x"),
    "delivery": lambda producer: producer.send("t", b"x").result(),
    "flush": lambda producer: _flushed(producer),
    "partitions_for": lambda producer: producer.partitions_for("unknown"),
    "send_arrow": lambda producer: producer.send_arrow("unknown", TABLE),
    "table": lambda producer: producer.send_arrow("t", TABLE).result(),
    "send_batches": lambda producer: producer.send_batches("unknown", [(0, _batch())]),
    "batch": lambda producer: producer.send_batches("t", [(0, _batch())]).result(),
}
FIRST: dict[str, Callable[[Any], object]] = {
    "begin": lambda producer: producer.begin_transaction(),
    "transaction": lambda producer: producer.transaction().__enter__(),
}
WITHIN: dict[str, Callable[[Any], object]] = {
    "commit": lambda producer: producer.commit_transaction(),
    "abort": lambda producer: producer.abort_transaction(),
    "send_offsets": lambda producer: producer.send_offsets(OFFSETS, "group"),
}


LOCAL: dict[str, Callable[[Any], object]] = {"resume": lambda producer: producer.resume("t", 0, 1)}
"""Calls that need no broker, of a producer that has joined a transaction."""


def _batch() -> bytes:
    builder = BatchBuilder(batch_size=1000)
    builder.append(1, None, b"x", None)
    return bytes(builder.build())


def _flushed(producer: Any) -> object:
    """As in Java a flush raises nothing for records that failed: their deliveries tell."""
    delivery = producer.send("t", b"x")
    producer.flush()
    return delivery.exception(0)


@pytest.fixture(scope="module")
def producers() -> Iterator[tuple[Broker, dict[str, Any]]]:
    """A broker in a process of its own, and a producer for each call, ready to make it."""
    with Broker({"num.partitions": "1"}, in_process=False) as broker:
        made: dict[str, Any] = {}
        for name in (*PLAIN, *FIRST, *WITHIN):
            more: dict[str, Any] = {} if name in PLAIN else {"transactional_id": name}
            made[name] = producer = ottla.Producer(broker.bootstrap_servers, **more)
            if name in WITHIN:
                producer.begin_transaction()
            if name not in FIRST:
                producer.send("t", b"before").result()
        handle = made["commit"].transaction_handle()
        for name in LOCAL:
            made[name] = ottla.Producer.join(handle)
            made[name].resume("t", 0, 1)
        yield broker, made
        for producer in made.values():
            producer.close(0)


def test_each_call_says_in_a_forked_child_that_the_producer_is_not_its_own(
    producers: tuple[Broker, dict[str, Any]],
) -> None:
    _, made = producers
    child = os.fork()
    if child == 0:
        wrong = 0
        for name, call in {**PLAIN, **FIRST, **WITHIN, **LOCAL}.items():
            try:
                call(made[name])
                wrong += 1
            except Forked:
                made[name].close()
            except BaseException:  # noqa: BLE001 - the parent sees the number
                wrong += 1
        os._exit(wrong)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    for name in PLAIN:
        made[name].send("t", b"after").result()


def test_a_table_that_was_sent_before_a_fork_is_not_waited_for_in_the_child(
    producers: tuple[Broker, dict[str, Any]],
) -> None:
    broker, made = producers
    assert broker.process_id is not None
    os.kill(broker.process_id, signal.SIGSTOP)
    try:
        table = made["table"].send_arrow("t", TABLE)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                table.result(30)
            except Forked:
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
    finally:
        os.kill(broker.process_id, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(status) == 0
    table.result(60)


def test_a_forked_child_joins_the_transaction_of_its_parent(producers: tuple[Broker, dict[str, Any]]) -> None:
    _, made = producers
    handle = made["abort"].transaction_handle()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert made["abort"].transaction_handle() == handle
            with ottla.Producer.join(handle.to_text()) as joined:
                joined.resume("t", 0, 1)
                joined.send("t", b"of the child", partition=0).result(60)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_each_call_ends_with_an_error_when_another_thread_closes_the_producer(
    producers: tuple[Broker, dict[str, Any]],
) -> None:
    broker, made = producers
    ends: dict[str, object] = {}

    def make(name: str, call: Callable[[Any], object]) -> None:
        try:
            ends[name] = call(made[name])
        except BaseException as error:  # noqa: BLE001 - it is what the test looks at
            ends[name] = error

    assert broker.process_id is not None
    os.kill(broker.process_id, signal.SIGSTOP)
    try:
        threads = {
            name: threading.Thread(target=make, args=(name, call))
            for name, call in {**PLAIN, **FIRST, **WITHIN}.items()
        }
        for thread in threads.values():
            thread.start()
        for name in threads:
            producer = made[name]
            while not _waits(producer):
                assert threads[name].is_alive(), ends
            producer.close(0.05)
        for thread in threads.values():
            thread.join()
    finally:
        os.kill(broker.process_id, signal.SIGCONT)
    assert {name: end for name, end in ends.items() if not isinstance(end, ClientError)} == {}


def _waits(producer: Any) -> bool:
    """Whether a thread waits for something of the producer."""
    batches = list(producer._core.engine.accumulator.incomplete)
    return bool(producer._background._jobs) or any(batch.listeners for batch in batches)
