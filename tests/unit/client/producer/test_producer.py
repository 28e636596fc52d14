"""The producer on a broker in this process, and behind a proxy that breaks its connections."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.client.proxy import CUT, END_TXN, HOLD, INIT_PRODUCER_ID, PASS, PRODUCE, Proxy

import ottla
import ottla.aio
from ottla.client.errors import (
    AbortableError,
    BufferExhausted,
    Closed,
    ConfigError,
    SerializationError,
    TimedOut,
    TransactionStateError,
)
from ottla.records.builder import BatchBuilder
from ottla.testing import Broker

WAIT = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "3"}) as started:
        yield started


@pytest.fixture
def proxied() -> Iterator[tuple[Broker, Proxy]]:
    """A broker that clients reach through a proxy only, and the proxy."""
    with Proxy() as proxy:
        settings = {
            "num.partitions": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://{proxy.address}",
        }
        with Broker(settings) as started:
            proxy.target_port = started.port
            yield started, proxy


def offsets(producer: Any, topic: str, count: int) -> list[int]:
    deliveries = [producer.send(topic, b"%d" % number, partition=0) for number in range(count)]
    return [delivery.result(WAIT).offset for delivery in deliveries]


def batch_of(value: bytes) -> bytes:
    builder = BatchBuilder(batch_size=1000)
    builder.append(1, None, value, None)
    return bytes(builder.build())


def test_callbacks_hear_of_each_record_in_order(broker: Broker) -> None:
    heard: list[int] = []
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for _ in range(1000):
            producer.send(
                "callbacks", b"x", partition=1, on_delivery=lambda report: heard.append(report.offset)
            )
        producer.flush(WAIT)
        assert heard == list(range(1000))


def test_a_failing_callback_stops_nobody(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        first = producer.send("failing", b"x", on_delivery=lambda report: 1 / 0)
        assert first.result(WAIT).error is None
        assert producer.send("failing", b"x").result(WAIT).error is None
    assert "A delivery callback failed" in caplog.text


def test_a_callback_that_exits_does_not_end_the_thread_of_the_producer(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        first = producer.send("exiting", b"x", on_delivery=lambda report: sys.exit(3))
        assert first.result(WAIT).error is None
        assert producer.send("exiting", b"x").result(WAIT).error is None
    assert "A delivery callback failed" in caplog.text


def test_a_callback_that_exits_ends_the_loop_that_the_user_runs(broker: Broker) -> None:
    async def main() -> None:
        async with ottla.aio.Producer(broker.bootstrap_servers) as producer:
            await (await producer.send("exiting", b"x", on_delivery=lambda report: sys.exit(3)))

    with pytest.raises(SystemExit):
        asyncio.run(main())


def test_when_the_thread_of_the_producer_ends_all_its_records_fail(proxied: tuple[Broker, Proxy]) -> None:
    _, proxy = proxied
    with ottla.Producer(proxy.address) as producer:
        producer.send("t", b"x").result(WAIT)
        proxy.rule = lambda proxy, key, stage: HOLD if key == PRODUCE else PASS
        held = producer.send("t", b"y")
        producer._background.soon(sys.exit, 3)
        with pytest.raises(Closed):
            held.result(WAIT)
        with pytest.raises(Closed):
            producer.send("t", b"z")
        with pytest.raises(Closed):
            producer.flush(WAIT)
    proxy.release()


def test_what_is_neither_bytes_nor_text_needs_a_serializer(broker: Broker) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        with pytest.raises(SerializationError, match="value_serializer"):
            producer.send("serializer", 17)
        assert producer.send("serializer", memoryview(b"view"), key=bytearray(b"k")).result(WAIT).offset == 0
        assert producer.send("serializer", None, key="k").result(WAIT).error is None
        with pytest.raises(ValueError, match="partition"):
            producer.send("serializer", b"x", partition=-3)


def test_a_partition_that_does_not_come_is_waited_for_and_then_said_so(broker: Broker) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        assert producer.partitions_for("three") == 3
        with pytest.raises(TimedOut, match="3 partitions"):
            producer._background.run(producer._core.engine.topic("three", 9, 200))


def test_an_invalid_topic_is_refused_at_once(broker: Broker) -> None:
    with (
        ottla.Producer(broker.bootstrap_servers) as producer,
        pytest.raises(Exception, match="Cannot write to topic"),
    ):
        producer.send("no spaces here", b"x")


def test_without_a_broker_send_says_why_after_max_block_ms() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with ottla.Producer(f"127.0.0.1:{port}", max_block_ms=300) as producer, pytest.raises(TimedOut) as caught:
        producer.send("t", b"x")
    assert "nothing listens" in str(caught.value) or "max.block.ms" in str(caught.value)


def test_transactions_need_an_id(broker: Broker) -> None:
    with (
        ottla.Producer(broker.bootstrap_servers) as producer,
        pytest.raises(ConfigError, match=r"transactional\.id"),
    ):
        producer.begin_transaction()


def test_after_close_nothing_is_taken_and_closing_again_is_harmless(broker: Broker) -> None:
    producer = ottla.Producer(broker.bootstrap_servers, linger_ms=60_000)
    delivery = producer.send("closing", b"x")
    producer.close()
    assert delivery.result(0).error is None
    producer.close()
    with pytest.raises(Closed):
        producer.send("closing", b"x")


def test_a_send_that_waits_while_its_transaction_is_aborted_is_not_part_of_the_next_one(
    broker: Broker,
) -> None:
    async def main() -> None:
        async with ottla.aio.Producer(broker.bootstrap_servers, transactional_id="late") as producer:
            await producer.begin_transaction()
            waiting = [
                asyncio.create_task(producer.send("late", b"aborted", partition=0)),
                asyncio.create_task(producer.send_batches("late", [(0, batch_of(b"aborted"))])),
                asyncio.create_task(producer.send_arrow("late", pa.table({"value": [b"aborted"]}))),
            ]
            await asyncio.sleep(0)  # each of them waits for the metadata of a topic that is new
            await producer.abort_transaction()
            await producer.begin_transaction()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [TransactionStateError] * 3
            await producer.send("late", b"committed", partition=0)
            await producer.commit_transaction()
        async with ottla.aio.Consumer(
            broker.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            await consumer.assign([("late", partition) for partition in range(3)])
            assert [record.value for record in await consumer.poll(WAIT)] == [b"committed"]

    asyncio.run(main())


def test_batches_that_are_sent_while_another_task_closes_the_producer_are_refused(broker: Broker) -> None:
    async def main() -> None:
        producer = ottla.aio.Producer(broker.bootstrap_servers)
        await producer.partitions_for("closed-early")
        closed = asyncio.Event()

        def batches() -> Iterator[tuple[int, bytes]]:
            yield 0, batch_of(b"0")
            closing.append(asyncio.create_task(close()))
            while not closed.is_set():
                yield 0, batch_of(b"1")

        async def close() -> None:
            await producer.close(0)
            closed.set()

        closing: list[asyncio.Task[None]] = []
        with pytest.raises(Closed):
            await producer.send_batches("closed-early", batches())
        await closing[0]
        metrics = producer.metrics()
        assert (metrics["batches"], metrics["buffered_bytes"]) == (0, 0)

    asyncio.run(main())


def test_threads_that_close_and_send_at_once_leave_no_record_without_a_report(broker: Broker) -> None:
    """A record is sent, refused, or reported as failed; every close returns."""
    errors: list[Exception] = []
    for _ in range(20):
        producer = ottla.Producer(broker.bootstrap_servers, linger_ms=20)
        producer.send("races", b"x").result(WAIT)
        deliveries: list[ottla.Delivery] = []

        def send(producer: Any = producer, deliveries: list[ottla.Delivery] = deliveries) -> None:
            try:
                while True:
                    deliveries.append(producer.send("races", b"x", headers={"a": b"1"}))
            except Closed:
                return

        def close(producer: Any = producer) -> None:
            try:
                producer.close()
            except Exception as error:  # noqa: BLE001 - it is what the test looks at
                errors.append(error)

        threads = [threading.Thread(target=work) for work in (send, send, send, close, close, close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(delivery.done() for delivery in deliveries)
    assert errors == []


def test_a_coroutine_that_is_closed_without_its_loop_awaits_nothing_for_its_transaction(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async def begin() -> None:
        producer = ottla.aio.Producer(broker.bootstrap_servers, transactional_id="left")
        async with producer.transaction():
            has_begun.set()
            await asyncio.get_running_loop().create_future()

    has_begun = asyncio.Event()
    work = begin()
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    loop.run_until_complete(has_begun.wait())
    loop.close()
    work.close()
    assert not task.done()
    assert "Failed to abort" not in caplog.text


def test_a_callback_cannot_close_the_producer_and_does_not_harm_it(broker: Broker) -> None:
    refusals: list[BaseException] = []
    called = threading.Event()

    def close(report: object) -> None:
        try:
            producer.close()
        except RuntimeError as refusal:
            refusals.append(refusal)
        called.set()

    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send("closed-by-a-callback", b"x", on_delivery=close)
        assert called.wait(WAIT)
        assert "cannot close it" in str(refusals[0])
        assert producer.send("closed-by-a-callback", b"y").result(WAIT).error is None


def test_waiters_for_memory_are_forgotten_when_they_stop_waiting(proxied: tuple[Broker, Proxy]) -> None:
    _, proxy = proxied
    proxy.rule = lambda proxy, key, stage: HOLD if (key, stage) == (PRODUCE, "request") else PASS

    async def main() -> None:
        producer = ottla.aio.Producer(
            proxy.address, buffer_memory=30_000, batch_size=10_000, max_block_ms=500
        )
        sends = (producer.send("full", b"x" * 1000) for _ in range(100))
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert any(isinstance(outcome, BufferExhausted) for outcome in outcomes)
        assert not producer._core.engine.memory
        proxy.release()
        await producer.close()

    asyncio.run(main())


def test_ctrl_c_ends_a_wait(broker: Broker) -> None:
    with ottla.Producer(broker.bootstrap_servers, linger_ms=60_000) as producer:
        delivery = producer.send("interrupted", b"x")
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

        def wait() -> None:
            timer.start()  # here, since the signal may come at any moment from now on
            delivery.result(WAIT)

        with pytest.raises(KeyboardInterrupt):
            wait()
        timer.join()


def test_the_async_producer_waits_for_room_and_has_its_own_words_for_blocking(broker: Broker) -> None:
    async def main() -> None:
        async with ottla.aio.Producer(
            broker.bootstrap_servers, buffer_memory=50_000, batch_size=5_000
        ) as producer:
            deliveries = [await producer.send("room", b"x" * 400, partition=0) for _ in range(1000)]
            with pytest.raises(RuntimeError, match="await"):
                (await producer.send("room", b"x")).report()
            assert [(await one).offset for one in deliveries] == list(range(1000))

    asyncio.run(main())


def test_memory_that_stays_full_is_an_error_after_max_block_ms(proxied: tuple[Broker, Proxy]) -> None:
    _, proxy = proxied
    proxy.rule = lambda proxy, key, stage: HOLD if (key, stage) == (PRODUCE, "request") else PASS
    with ottla.Producer(
        proxy.address, buffer_memory=30_000, batch_size=10_000, max_block_ms=3_000
    ) as producer:

        def fill() -> None:
            for _ in range(1000):
                producer.send("full", b"x" * 1000)

        with pytest.raises(BufferExhausted, match=r"buffer\.memory"):
            fill()
        proxy.release()


@pytest.mark.parametrize("stage", ["request", "answer"])
def test_a_cut_before_or_after_the_broker_wrote_loses_and_doubles_nothing(
    proxied: tuple[Broker, Proxy], stage: str
) -> None:
    _, proxy = proxied
    turns = iter(range(10**9))

    def rule(proxy: Proxy, key: int, at: str) -> str:
        return CUT if key == PRODUCE and at == stage and next(turns) % 3 == 1 else PASS

    proxy.rule = rule
    with ottla.Producer(proxy.address, batch_size=200, linger_ms=0, retry_backoff_ms=5) as producer:
        assert offsets(producer, "cut", 300) == list(range(300))
        assert producer.metrics()["retries"] > 0
    assert proxy.cuts > 0


def test_a_producer_id_is_asked_for_again_when_the_answer_is_lost(proxied: tuple[Broker, Proxy]) -> None:
    _, proxy = proxied
    cuts = iter([CUT, CUT])
    proxy.rule = lambda proxy, key, at: (
        next(cuts, PASS) if (key, at) == (INIT_PRODUCER_ID, "answer") else PASS
    )
    with ottla.Producer(proxy.address) as producer:
        assert offsets(producer, "id", 10) == list(range(10))
    assert proxy.cuts == 2


def test_a_record_that_is_given_up_says_whether_it_may_be_there(proxied: tuple[Broker, Proxy]) -> None:
    _, proxy = proxied
    with ottla.Producer(
        proxy.address, linger_ms=0, request_timeout_ms=200, delivery_timeout_ms=600, retry_backoff_ms=20
    ) as producer:
        while producer.send("doubt", b"before").report(WAIT).error is not None:
            continue  # a machine that is busy may take longer than this producer waits
        proxy.rule = lambda proxy, key, at: CUT if (key, at) == (PRODUCE, "answer") else PASS
        report = producer.send("doubt", b"doubtful").report(WAIT)
        while report.status is not ottla.Status.POSSIBLY_PERSISTED:
            report = producer.send("doubt", b"doubtful").report(WAIT)
        assert isinstance(report.error, TimedOut)
        proxy.rule = lambda proxy, key, at: PASS
        while (report := producer.send("doubt", b"after").report(WAIT)).error is not None:
            continue
        assert report.status is ottla.Status.PERSISTED


def test_a_commit_whose_answer_is_lost_is_still_one_commit(proxied: tuple[Broker, Proxy]) -> None:
    _, proxy = proxied
    cuts = iter([CUT])
    proxy.rule = lambda proxy, key, at: next(cuts, PASS) if (key, at) == (END_TXN, "answer") else PASS
    with ottla.Producer(proxy.address, transactional_id="lost-answer") as producer:
        for turn in range(3):
            with producer.transaction() as transaction:
                first = transaction.send("ends", b"%d" % turn)
            assert first.result(0).offset == 2 * turn, "one record and one marker a turn"
    assert proxy.cuts == 1


def test_retries_that_are_not_allowed_fail_the_record_at_once(proxied: tuple[Broker, Proxy]) -> None:
    _, proxy = proxied
    with ottla.Producer(proxy.address, enable_idempotence=False, retries=0, linger_ms=0) as producer:
        producer.send("once", b"x").result(WAIT)
        cuts = iter([CUT])
        proxy.rule = lambda proxy, key, at: next(cuts, PASS) if (key, at) == (PRODUCE, "answer") else PASS
        report = producer.send("once", b"x").report(WAIT)
        assert report.error is not None
        assert report.status is ottla.Status.POSSIBLY_PERSISTED
        assert producer.send("once", b"x").result(WAIT).offset == 2


@pytest.mark.parametrize("protocol", [1, 2])
def test_transactions_of_both_protocols_commit_abort_and_carry_offsets(
    broker: Broker, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if protocol == 1:
        monkeypatch.setattr("ottla.client.producer.transactions.FEATURE", "a feature that no cluster has")
    topic = f"protocol-{protocol}"
    with ottla.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        for turn in range(3):
            with producer.transaction() as transaction:
                own = transaction.send(topic, b"kept", partition=0)
                transaction.send_offsets(
                    {ottla.TopicPartition(topic, 0): ottla.OffsetAndMetadata(turn)}, topic
                )
            assert own.result(0).offset == 4 * turn
            producer.begin_transaction()
            assert producer.send(topic, b"dropped", partition=0).result(WAIT).offset == 4 * turn + 2
            producer.abort_transaction()
        assert producer._core.transactions.protocol == protocol


def test_an_empty_transaction_asks_nobody_to_end_it(broker: Broker) -> None:
    with ottla.Producer(broker.bootstrap_servers, transactional_id="empty") as producer:
        for _ in range(3):
            with producer.transaction():
                pass
        with producer.transaction() as transaction:
            assert transaction.send("empty", b"x", partition=0) is not None


def test_a_record_that_is_refused_aborts_its_transaction_and_the_next_one_works() -> None:
    def too_large(producer: ottla.Producer) -> None:
        with producer.transaction() as transaction:
            transaction.send("refusing", b"x" * 900_000, partition=0)

    settings = {"num.partitions": "1", "message.max.bytes": "10000"}
    with (
        Broker(settings) as small,
        ottla.Producer(small.bootstrap_servers, transactional_id="refused") as producer,
    ):
        with pytest.raises(AbortableError, match="aborted"):
            too_large(producer)
        with producer.transaction() as transaction:
            delivery = transaction.send("refusing", b"small", partition=0)
        assert delivery.result(0).error is None


def test_closing_aborts_the_transaction_that_is_under_way(broker: Broker) -> None:
    producer = ottla.Producer(broker.bootstrap_servers, transactional_id="closed")
    producer.begin_transaction()
    producer.send("closed", b"x", partition=0).result(WAIT)
    producer.close()
    with ottla.Producer(broker.bootstrap_servers) as other:
        assert other.send("closed", b"y", partition=0).result(WAIT).offset == 2, "a marker stands between"


@pytest.mark.parametrize("protocol", [1, 2])
def test_after_an_abort_with_records_in_doubt_the_next_transaction_goes_through(
    proxied: tuple[Broker, Proxy], protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, proxy = proxied
    if protocol == 1:
        monkeypatch.setattr("ottla.client.producer.transactions.FEATURE", "a feature that no cluster has")
    with ottla.Producer(proxy.address, transactional_id="doubt", linger_ms=0, retry_backoff_ms=5) as producer:
        cut = threading.Event()

        def rule(proxy: Proxy, key: int, at: str) -> str:
            if (key, at) != (PRODUCE, "answer"):
                return PASS
            cut.set()
            return CUT

        for turn in range(3):
            producer.begin_transaction()
            proxy.rule = rule
            cut.clear()
            dropped = producer.send("doubt", b"%d" % turn)
            assert cut.wait(WAIT)
            producer.abort_transaction()
            assert dropped.report(WAIT).error is not None
            proxy.rule = lambda proxy, key, at: PASS
            with producer.transaction() as transaction:
                kept = transaction.send("doubt", b"kept")
            assert kept.result(WAIT).error is None
