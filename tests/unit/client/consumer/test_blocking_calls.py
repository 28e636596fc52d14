"""Every call of the blocking consumer after a fork, from a second thread, and while its broker stands still:
each ends with a true answer. `tests/sim/test_consumer_calls_under_faults.py` has the twin in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from ottla import Consumer, OffsetAndMetadata, Producer, TopicPartition
from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.consumer.polling import Polling
from ottla.client.core.assignors.range_and_round_robin import Range
from ottla.client.errors import Closed
from ottla.testing import Broker
from ottla.wire.messages.offset_commit import OffsetCommitRequest

T0 = TopicPartition("t", 0)
RECORDS = 20
SECONDS = 0.2

CALLS: dict[str, Callable[[Consumer[Any, Any]], Any]] = {
    "poll": lambda c: c.poll(SECONDS),
    "iteration": lambda c: list(c.records(idle_timeout=SECONDS)),
    "batches": lambda c: list(c.batches(idle_timeout=SECONDS)),
    "arrow": lambda c: list(c.arrow(idle_timeout=SECONDS)),
    "fetched": lambda c: c.fetched(SECONDS),
    "commit": lambda c: c.commit({T0: 1}, timeout=SECONDS),
    "commit without waiting": lambda c: c.commit({T0: 1}, wait=False),
    "committed": lambda c: c.committed([T0], timeout=SECONDS),
    "position": lambda c: c.position(T0, timeout=SECONDS),
    "lag": lambda c: c.lag(timeout=SECONDS),
    "seek": lambda c: c.seek(T0, 2),
    "seek to the end": lambda c: c.seek_to_end(),
    "position behind the end": lambda c: c.position(T0, timeout=SECONDS),
    "seek to the beginning": lambda c: c.seek_to_beginning(),
    "offsets for times": lambda c: c.offsets_for_times({T0: 0}, timeout=SECONDS),
    "beginning offsets": lambda c: c.beginning_offsets([T0], timeout=SECONDS),
    "end offsets": lambda c: c.end_offsets([T0], timeout=SECONDS),
    "partitions of a topic": lambda c: c.partitions_for("t", timeout=SECONDS),
    "pause": lambda c: c.pause([T0]),
    "resume": lambda c: c.resume([T0]),
    "assign": lambda c: c.assign([T0]),
    "unsubscribe": lambda c: c.unsubscribe(),
    "subscribe": lambda c: c.subscribe(["t"]),
    "subscribe by pattern": lambda c: c.subscribe(pattern="t|other"),
    "unsubscribe again": lambda c: c.unsubscribe(),
    "group metadata": lambda c: c.group_metadata().group_id,
}
WAKING: dict[str, Callable[[Consumer[Any, Any]], Any]] = {
    "wakeup": lambda c: c.wakeup(),
    "poll that is woken up": lambda c: c.poll(60),
}


@contextmanager
def reading(broker: Broker) -> Iterator[Consumer[Any, Any]]:
    """A consumer that has read all."""
    with Producer(broker.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send("t", b"x", partition=0)
    settings: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    # A commit in the background ends with this, and an unsubscribe waits for it.
    with Consumer(broker.bootstrap_servers, default_api_timeout_ms=5000, **settings) as consumer:
        consumer.assign([T0])
        read = 0
        while read < RECORDS:
            read += len(consumer.poll(1.0))
        yield consumer


def outcomes(
    consumer: Consumer[Any, Any], calls: dict[str, Callable[[Consumer[Any, Any]], Any]] = CALLS
) -> dict[str, str]:
    """How each call ended: what it raised, or the value."""
    found = {}
    for name, call in calls.items():
        try:
            found[name] = repr(call(consumer))
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            found[name] = type(error).__name__
    return found


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(in_process=False) as running:
        yield running


REFUSED = "TimedOut"
WITHOUT_BROKER = {
    "poll": "[]",
    "iteration": "[]",
    "batches": "[]",
    "arrow": "[]",
    "fetched": "None",
    "commit": REFUSED,
    "commit without waiting": "None",
    "committed": REFUSED,
    "position": str(RECORDS),
    "lag": str({T0: 0}),
    "seek": "None",
    "seek to the end": "None",
    "position behind the end": REFUSED,
    "seek to the beginning": "None",
    "offsets for times": REFUSED,
    "beginning offsets": REFUSED,
    "end offsets": REFUSED,
    "partitions of a topic": REFUSED,
    "pause": "None",
    "resume": "None",
    "assign": "None",
    "unsubscribe": "None",
    "subscribe": "None",
    "subscribe by pattern": "None",
    "unsubscribe again": "None",
    "group metadata": "'g'",
    "wakeup": "None",
    "poll that is woken up": "WokenUp",
}


def test_each_call_ends_while_the_broker_stands_still_and_the_consumer_goes_on(broker: Broker) -> None:
    with reading(broker) as consumer:
        assert broker.process_id is not None
        os.kill(broker.process_id, signal.SIGSTOP)
        try:
            found = outcomes(consumer, {**CALLS, **WAKING})
        finally:
            os.kill(broker.process_id, signal.SIGCONT)
        assert found == WITHOUT_BROKER
        consumer.assign([T0])
        consumer.seek(T0, 5)
        while not (records := consumer.poll(1.0)):
            pass
        assert records[0].offset == 5
        consumer.commit({T0: 6})
        assert consumer.committed([T0])[T0].offset == 6  # type: ignore[union-attr]


def test_each_call_ends_while_the_broker_is_down() -> None:
    with contextlib.ExitStack() as stack:
        with Broker(in_process=False) as broker:
            consumer = stack.enter_context(reading(broker))
        found = outcomes(consumer, {**CALLS, **WAKING})
        assert found == {**WITHOUT_BROKER, "partitions of a topic": "NoBrokerAvailable"}
        began = time.monotonic()
        consumer.close(timeout=SECONDS)
        assert time.monotonic() - began < SECONDS + 5


def test_a_close_ends_while_the_broker_stands_still(broker: Broker) -> None:
    with reading(broker) as consumer:
        consumer.commit({T0: 1})
        assert broker.process_id is not None
        os.kill(broker.process_id, signal.SIGSTOP)
        try:
            began = time.monotonic()
            consumer.commit({T0: 2}, wait=False)
            consumer.close(timeout=SECONDS)
            assert time.monotonic() - began < SECONDS + 5
        finally:
            os.kill(broker.process_id, signal.SIGCONT)


def test_each_call_in_a_forked_child_says_what_to_do_and_the_parent_goes_on(broker: Broker) -> None:
    with reading(broker) as consumer:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                found = outcomes(consumer)
                consumer.close()
                os.write(writer, json.dumps(found).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            found = json.loads(told.read())
        os.waitpid(child, 0)
        assert set(found.values()) == {"Forked"}, found
        consumer.seek(T0, 0)
        while not consumer.poll(1.0):
            pass
        consumer.commit()


def test_each_call_of_a_second_thread_is_refused_while_the_first_one_polls(broker: Broker) -> None:
    with reading(broker) as consumer:
        found: list[BaseException] = []

        def poll() -> None:
            try:
                consumer.poll(60.0)
            except BaseException as error:  # noqa: BLE001 - it is what is looked at
                found.append(error)

        polling = threading.Thread(target=poll)
        polling.start()
        while not consumer._core.engine.is_polling:
            pass
        found_here = outcomes(consumer)
        assert found_here.pop("group metadata") == "'g'"  # for the thread that has the producer
        assert set(found_here.values()) == {"RuntimeError"}
        with pytest.raises(RuntimeError, match="one thread at a time"):
            consumer.close()
        consumer.wakeup()
        polling.join()
        assert [type(error).__name__ for error in found] == ["WokenUp"]


def test_a_listener_of_the_blocking_consumer_may_use_it_until_it_is_closed(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send("u", b"x", partition=0)
    u0 = TopicPartition("u", 0)
    told: list[Any] = []

    def on_assigned(partitions: list[TopicPartition]) -> None:
        told.append(consumer.position(u0, timeout=30))
        told.append(consumer.lag(timeout=30))

    def on_revoked(partitions: list[TopicPartition]) -> None:
        consumer.commit({u0: 7})
        consumer.close()  # it is closing
        told.append("revoked")

    consumer = Consumer(
        broker.bootstrap_servers, group_id="listeners", auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe(["u"], on_assigned=on_assigned, on_revoked=on_revoked)
    while not consumer.poll(1.0):
        pass
    consumer.close()
    assert told == [0, {u0: RECORDS}, "revoked"]
    with Consumer(broker.bootstrap_servers, group_id="listeners") as other:
        assert other.committed([u0])[u0].offset == 7  # type: ignore[union-attr]


def test_a_listener_that_fails_when_the_consumer_unsubscribes_does_not_keep_its_partitions(
    broker: Broker,
) -> None:
    def on_revoked(partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    with Producer(broker.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send("failing", b"x", partition=0)
    with Consumer(
        broker.bootstrap_servers, group_id="failing", auto_offset_reset="earliest", max_poll_records=1
    ) as consumer:
        consumer.subscribe(["failing"], on_revoked=on_revoked)
        while not consumer.poll(1.0):
            pass
        with pytest.raises(ZeroDivisionError):
            consumer.unsubscribe()
        assert consumer.assignment == frozenset()
        assert consumer.poll(SECONDS) == []
        consumer.assign([("failing", 0)])  # it is not subscribed any more


def test_a_seek_of_all_partitions_leaves_those_alone_that_no_listener_was_notified_of(
    broker: Broker,
) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send("unknown-yet", b"x", partition=0)
    positions: list[int] = []

    def on_assigned(partitions: list[TopicPartition]) -> None:
        positions.extend(consumer.position(partition, timeout=30) for partition in partitions)

    with Consumer(broker.bootstrap_servers, group_id="unknown", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["unknown-yet"], on_assigned=on_assigned)
        while not consumer._core.engine.positions.states:  # the assignment has come
            time.sleep(0.01)
        assert consumer.assignment == frozenset()
        consumer.seek_to_end()
        consumer.pause()
        while not consumer.assignment:
            consumer.poll(SECONDS)
        assert consumer.paused == frozenset()
        assert positions == [0]


def test_positions_are_committed_when_other_partitions_are_assigned(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send("left", b"x", partition=0)
    left = TopicPartition("left", 0)
    with Consumer(
        broker.bootstrap_servers,
        group_id="left",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=3_600_000,
    ) as consumer:
        consumer.assign([left])
        read = 0
        while read < RECORDS:
            read += len(consumer.poll(1.0))
        consumer.assign([T0])
    with Consumer(broker.bootstrap_servers, group_id="left") as other:
        committed = other.committed([left])[left]
        assert committed is not None
        assert committed.offset == RECORDS


def test_a_poll_ends_at_once_when_a_listener_that_is_awaited_closes_the_consumer(broker: Broker) -> None:
    async def main() -> None:
        consumer = AsyncConsumer(broker.bootstrap_servers, group_id="closing")
        wait_for_wake = consumer._caller.wait_for_wake
        has_reason_to_go_on: list[bool] = []

        async def close(partitions: list[TopicPartition]) -> None:
            await consumer.close()
            consumer._caller.wait_for_wake = wait_after_close  # type: ignore[method-assign]

        async def wait_after_close(seconds: float) -> None:
            has_reason_to_go_on.append(consumer._caller._woken.is_set())
            await wait_for_wake(seconds)

        await consumer.subscribe(["t"], on_assigned=close)
        with pytest.raises(Closed):
            async for _ in consumer:
                pass
        assert all(has_reason_to_go_on)

    asyncio.run(main())


def test_an_awaited_consumer_that_could_not_be_made_leaves_no_tasks_behind(broker: Broker) -> None:
    async def main() -> None:
        with pytest.raises(re.error):
            AsyncConsumer(broker.bootstrap_servers, group_id="pattern", pattern="(")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        _, left = await asyncio.wait(others, timeout=30)
        assert left == set()

    asyncio.run(main())


class InterruptionOfTelling:
    """Raises KeyboardInterrupt at one of the points, counted, at which a poll calls something or comes back
    from it while it tells the listener of a change. A Ctrl-C comes at such points, too."""

    def __init__(self, point: int) -> None:
        self.left = point
        self.has_come = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        caller = frame.f_back
        if caller is None or caller.f_code is not Polling._notify.__code__:
            return None
        if event in ("call", "return"):
            self.left -= 1
            if self.left == 0:
                self.has_come = True
                raise KeyboardInterrupt
        return self


def polled_under(interruption: InterruptionOfTelling, consumer: Consumer[Any, Any]) -> list[Any]:
    tracer = sys.gettrace()
    if not interruption.has_come:
        sys.settrace(interruption)
    try:
        return consumer.poll(0.05)
    except KeyboardInterrupt:
        return []
    finally:
        sys.settrace(tracer)


def test_a_change_of_the_assignment_survives_ctrl_c_at_each_point_at_which_the_listener_is_told(
    broker: Broker,
) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("v", b"x", partition=0)
    settings: dict[str, Any] = {
        "group_id": "interrupted",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    points = 0
    with Consumer(broker.bootstrap_servers, **settings) as consumer:
        while True:
            told: list[Any] = []
            consumer.subscribe(["v"], on_assigned=told.append)
            interruption = InterruptionOfTelling(points + 1)
            polls = 0
            while not polled_under(interruption, consumer):
                polls += 1
                assert polls < 1000
            assert 1 <= len(told) <= 2
            consumer.unsubscribe()
            if not interruption.has_come:
                break
            points += 1
    assert points >= 8


def test_a_listener_that_polls_is_told_of_a_change_once(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("w", b"x", partition=0)
    told: list[Any] = []

    def on_assigned(partitions: list[TopicPartition]) -> None:
        told.append(partitions)
        consumer.poll(0.01)

    with Consumer(broker.bootstrap_servers, group_id="nested", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["w"], on_assigned=on_assigned)
        while not consumer.poll(1.0):
            pass
    assert told == [[TopicPartition("w", 0)]]


def hold_commits(consumer: Consumer[Any, Any]) -> tuple[asyncio.Event, asyncio.Event]:
    """Two events of the consumer's loop: a commit was to be sent; commits may be sent."""
    cluster = consumer._core.engine.cluster
    ask = cluster.ask
    is_asked, is_free = asyncio.Event(), asyncio.Event()

    async def hold(node: int, request: Any, **options: Any) -> Any:
        if isinstance(request, OffsetCommitRequest):
            is_asked.set()
            await is_free.wait()
        return await ask(node, request, **options)

    cluster.ask = hold  # type: ignore[method-assign, assignment]
    return is_asked, is_free


def test_polls_end_in_time_and_give_nothing_while_the_commit_before_a_revocation_is_not_answered(
    broker: Broker,
) -> None:
    first, second = TopicPartition("given-back", 0), TopicPartition("taken", 0)
    told: list[Any] = []
    settings: dict[str, Any] = {
        "group_id": "slow",
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 600_000,
    }
    with (
        Producer(broker.bootstrap_servers) as producer,
        Consumer(broker.bootstrap_servers, **settings) as consumer,
    ):
        for topic in (first.topic, second.topic):
            producer.send(topic, b"x", partition=0).result(60)
        consumer.subscribe([first.topic], on_revoked=told.append)
        while not consumer.poll(1.0):
            pass
        is_asked, is_free = hold_commits(consumer)
        consumer.subscribe([second.topic], on_revoked=told.append)
        producer.send(first.topic, b"y", partition=0).result(60)
        while not is_asked.is_set():
            consumer.poll(0.01)
        for timeout in (0, 0.01, 0.1):
            assert consumer.poll(timeout) == []
        assert list(consumer.records(idle_timeout=0.01)) == []
        assert told == []
        consumer._background.soon(is_free.set)
        while not (records := consumer.poll(1.0)):
            pass
        assert told == [[first]]
        assert [record.topic for record in records] == [second.topic]
        assert consumer.committed([first])[first].offset == consumer.metrics()["records"] - 1  # type: ignore[union-attr]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_commit_that_is_not_waited_for_in_on_revoked_is_sent(broker: Broker, protocol: str) -> None:
    outcomes: list[Any] = []

    def on_revoked(partitions: list[TopicPartition]) -> None:
        consumer.commit(wait=False, on_commit=lambda offsets, error: outcomes.append((offsets, error)))

    first, second = TopicPartition(f"first-{protocol}", 0), TopicPartition(f"second-{protocol}", 0)
    settings: dict[str, Any] = {
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with (
        Producer(broker.bootstrap_servers) as producer,
        Consumer(broker.bootstrap_servers, group_id=f"commits-{protocol}", **settings) as consumer,
    ):
        for place in (first, second):
            producer.send(place.topic, b"x", partition=0).result(60)
        consumer.subscribe([first.topic], on_revoked=on_revoked)
        while not consumer.poll(1.0):
            pass
        consumer.subscribe([second.topic], on_revoked=on_revoked)
        while not consumer.poll(1.0):
            pass
        assert outcomes == [({first: OffsetAndMetadata(1, 0)}, None)]
        assert consumer.committed([first]) == {first: OffsetAndMetadata(1, 0)}


def test_a_consumer_that_subscribes_long_after_it_was_made_is_not_late_with_its_polls(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("z", b"x", partition=0)
    with Consumer(broker.bootstrap_servers, group_id="late", auto_offset_reset="earliest") as consumer:
        for _ in range(5):
            consumer._core.engine.polled_at -= 3600
            consumer.subscribe(["z"])
            consumer.unsubscribe()
        assert consumer.metrics()["poll_interval_exceeded"] == 0


class Exiting(Range):
    """An assignor and an interceptor of the user's that end the thread they run in."""

    name = "exiting"

    def on_assignment(self, *arguments: Any) -> None:
        sys.exit(1)

    def on_commit(self, offsets: Any) -> None:
        sys.exit(1)


def test_polls_raise_after_an_assignor_has_ended_the_consumers_thread(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("x", b"x", partition=0)
    settings: dict[str, Any] = {"group_id": "exiting", "partition_assignment_strategy": [Exiting()]}
    consumer = Consumer(broker.bootstrap_servers, topics=["x"], **settings)
    for _ in range(3):
        with pytest.raises(Closed, match="thread has ended"):
            consumer.poll(60)
    with pytest.raises(Closed):
        consumer.commit({T0: 1})
    consumer.close()
    with pytest.raises(Closed, match="is closed"):
        consumer.poll(60)


@pytest.mark.parametrize("is_automatic", [True, False])
def test_an_interceptor_that_exits_on_a_commit_does_not_end_the_consumers_thread(
    broker: Broker, is_automatic: bool
) -> None:
    topic = f"exits-{is_automatic}"
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, partition=0)
    settings: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "max_poll_records": 1}
    with Consumer(
        broker.bootstrap_servers,
        topics=[topic],
        interceptor_classes=[Exiting()],
        enable_auto_commit=is_automatic,
        auto_commit_interval_ms=1,
        **settings,
    ) as consumer:
        found: list[Any] = []
        while len(found) < RECORDS or not consumer.metrics()["commits"]:
            found += consumer.poll(0.1)
            if not is_automatic:
                consumer.commit(wait=False)
        assert len(found) == RECORDS
        consumer._core._polling.commits_automatically = False  # close() would commit in this thread


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_a_callback_of_a_commit_cannot_end_the_loop(broker: Broker, error: type[BaseException]) -> None:
    def on_commit(offsets: Any, failure: Exception | None) -> None:
        is_told.set()
        raise error

    is_told = threading.Event()
    with reading(broker) as consumer:
        consumer.commit({T0: 3}, wait=False, on_commit=on_commit)
        is_told.wait()
        consumer.commit({T0: 4}, timeout=30)
        assert consumer.committed([T0])[T0].offset == 4  # type: ignore[union-attr]
