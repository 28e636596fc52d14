"""The producer's open batches: where records go, what a delivery tells, when memory is used up."""

from __future__ import annotations

import gc
import importlib.util
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ottla.client.core import accumulator as loaded
from ottla.client.core.metadata import PartitionView, TopicView
from ottla.client.core.partitioners import Sticky, partition_for_key
from ottla.client.errors import RecordTooLarge
from ottla.client.values import Status
from ottla.host import HostRandom
from ottla.records.builder import BatchBuilder
from ottla.records.record import read_batch


class Made:
    """An accumulator with one topic of three partitions."""

    def __init__(self, module: Any = loaded, **more: Any) -> None:
        self.woken = 0
        self.on_wake: Callable[[], object] = lambda: None
        self.fallen_back: list[tuple[Any, ...]] = []
        settings: dict[str, Any] = {
            "batch_size": 500,
            "codec": 0,
            "level": None,
            "buffer_memory": 100_000,
            "max_request_size": 10_000,
            "ignores_keys": False,
            "may_grow": False,
            "monotonic": lambda: 1.0,
            **more,
        }
        self.accumulator = module.Accumulator(
            random=HostRandom(),
            now_ns=lambda: 7_000_000,
            wake=self.wake,
            fallback=lambda *arguments: self.fallen_back.append(arguments),
            block=lambda delivery, timeout: None,
            wait=lambda delivery: None,
            lock=threading.RLock(),
            **settings,
        )
        partitions = tuple(PartitionView(index, 1, 0, (1,), (1,), ()) for index in range(3))
        view = TopicView("t", b"t" * 16, None, False, partitions)
        self.topic = module.TopicQueues(self.accumulator, "t", view, Sticky(500, HostRandom()))
        self.topic.grow(view)
        self.accumulator.topics["t"] = self.topic
        self.accumulator.is_fast = True

    def wake(self) -> None:
        self.woken += 1
        self.on_wake()

    def batches(self, partition: int) -> list[Any]:
        return list(self.topic.queues[partition].batches)


def test_records_fill_a_batch_and_then_the_next_and_each_new_one_wakes_the_sender() -> None:
    made = Made()
    for _ in range(10):
        made.accumulator.send("t", b"x" * 100, partition=1)
    counts = [batch.count for batch in made.batches(1)]
    assert sum(counts) == 10
    assert len(counts) > 1
    assert made.woken == len(counts)
    assert made.accumulator.used == 500 * len(counts)


def test_batches_grow_while_others_wait(form: Any) -> None:
    made = Made(form, may_grow=True)
    for _ in range(200):
        made.accumulator.send("t", b"x" * 100, partition=1)
    sizes = [batch.builder.bytes_estimate for batch in made.batches(1)]
    assert [size <= 500 for size in sizes[:3]] == [True, True, False]
    assert sizes[:-1] == sorted(sizes[:-1])
    assert made.accumulator.used == sum(batch.reserved for batch in made.batches(1))
    assert max(sizes) <= 10_000  # max.request.size
    assert all(batch.reserved >= batch.builder.bytes_estimate for batch in made.batches(1))


def test_batches_do_not_grow_beyond_their_limit_or_the_memory(form: Any) -> None:
    made = Made(form, may_grow=True, batch_size=60_000, max_request_size=10**6, buffer_memory=350_000)
    while type(made.accumulator.append("t", None, b"x" * 10_000, None, 1, -1, None)) is form.Delivery:
        pass
    assert [batch.reserved for batch in made.batches(1)] == [60_000, 60_000, 120_000, 60_000]
    assert form.GROWN_BYTES_MAX == 131_072


def test_batches_of_a_topic_that_rejected_a_large_one_do_not_grow(form: Any) -> None:
    made = Made(form, may_grow=True)
    made.topic.may_grow = False
    for _ in range(100):
        made.accumulator.send("t", b"x" * 100, partition=1)
    assert {batch.reserved for batch in made.batches(1)} == {500}


def test_keys_go_by_their_hash_and_records_without_one_stay_together() -> None:
    made = Made(batch_size=100_000, max_request_size=200_000, buffer_memory=10**7)
    for number in range(50):
        key = bytes(range(200, 200 + number))
        delivery = made.accumulator.send("t", b"x", key=key)
        assert delivery.partition == partition_for_key(key, 3)
    assert len({made.accumulator.send("t", b"x").partition for _ in range(50)}) == 1


def test_the_sticky_partition_changes_after_about_a_batch() -> None:
    made = Made(buffer_memory=10**7)
    partitions = [made.accumulator.send("t", b"x" * 90).partition for _ in range(600)]
    assert set(partitions) == {0, 1, 2}
    changes = sum(first != second for first, second in pairwise(partitions))
    assert changes < 200


def test_what_it_cannot_take_by_itself_goes_to_the_fallback() -> None:
    made = Made()
    send = made.accumulator.send
    send("t", "text")
    send("t", b"x", headers={"a": b"1"})
    send("t", b"x", timestamp=5)
    send("t", b"x", partition=-1)
    send("t", b"x", partition=3)
    send("unknown", b"x")
    made.accumulator.is_fast = False
    send("t", b"x")
    assert len(made.fallen_back) == 7
    assert not made.accumulator.incomplete


def test_memory_that_is_used_up_is_said_and_comes_back() -> None:
    made = Made(buffer_memory=1200)
    accumulator = made.accumulator
    while isinstance(found := accumulator.append("t", None, b"x" * 200, None, 0, 1, None), loaded.Delivery):
        continue
    assert found == loaded.NEEDS_ROOM
    batch = made.batches(0)[0]
    accumulator.seal(batch.queue, batch)
    batch.is_done = True
    accumulator.release(batch)
    made.topic.queues[0].batches.popleft()
    assert isinstance(accumulator.append("t", None, b"x" * 200, None, 0, 1, None), loaded.Delivery)


def test_a_record_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
        Made().accumulator.send("t", b"x" * 20_000)
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
        Made(buffer_memory=1000).accumulator.send("t", b"x" * 2_000)


def test_a_sealed_batch_takes_no_more_and_the_next_record_opens_another() -> None:
    made = Made()
    first = made.accumulator.send("t", b"1", partition=0)
    made.accumulator.seal(made.topic.queues[0], made.batches(0)[0])
    second = made.accumulator.send("t", b"2", partition=0)
    assert first.batch is not second.batch
    assert [batch.count for batch in made.batches(0)] == [1, 1]


def test_a_delivery_reports_its_own_offset_and_timestamp() -> None:
    made = Made()
    deliveries = [made.accumulator.send("t", b"x", partition=2) for _ in range(3)]
    (batch,) = made.batches(2)
    assert not deliveries[0].done()
    batch.base_offset, batch.status, batch.is_done = 40, Status.PERSISTED, True
    assert [delivery.result().offset for delivery in deliveries] == [40, 41, 42]
    assert deliveries[1].report() == loaded.DeliveryReport("t", 2, 41, 7, Status.PERSISTED)
    batch.log_append_time = 99
    assert deliveries[1].report().timestamp == 99


def test_errors_of_single_records_are_theirs_and_the_batch_has_one_for_the_others() -> None:
    made = Made()
    deliveries = [made.accumulator.send("t", b"x", partition=0) for _ in range(2)]
    (batch,) = made.batches(0)
    batch.error, batch.record_errors, batch.is_done = ValueError("all"), {1: KeyError("own")}, True
    assert isinstance(deliveries[0].exception(), ValueError)
    with pytest.raises(KeyError):
        deliveries[1].result()


def test_a_delivery_finds_its_record_in_the_piece_that_has_it_now() -> None:
    made = Made(batch_size=5000)
    useful: list[Any] = []
    deliveries = [
        made.accumulator.send("t", b"%d" % number, partition=0, on_delivery=useful.append)
        for number in range(5)
    ]
    (batch,) = made.batches(0)
    told: list[int] = []
    batch.on_done(lambda: told.append(1))
    pieces = []
    for base, count in ((100, 2), (200, 3)):
        builder = BatchBuilder(batch_size=5000)
        for _ in range(count):
            builder.append(7, None, b"x")
        piece = loaded.Batch(batch.queue, builder, 1.0, 0)
        piece.base_offset, piece.is_done = base, True
        pieces.append(piece)
    batch.hand_over(pieces)
    assert told == [1]
    assert [delivery.report().offset for delivery in deliveries] == [100, 101, 200, 201, 202]
    assert pieces[1].call_back() == []
    assert [report.offset for report in useful] == [200, 201, 202]


def test_who_asks_late_is_told_at_once() -> None:
    made = Made()
    made.accumulator.send("t", b"x", partition=0)
    (batch,) = made.batches(0)
    batch.is_done = True
    told: list[int] = []
    batch.on_done(lambda: told.append(1))
    assert told == [1]


def test_threads_that_send_at_once_lose_nothing_and_keep_their_order() -> None:
    made = Made(buffer_memory=10**9, batch_size=2000)
    found: dict[int, list[Any]] = {}

    def work(name: int) -> None:
        found[name] = [made.accumulator.send("t", b"x" * 20, partition=0) for _ in range(5000)]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    base = 0
    for batch in made.batches(0):
        batch.base_offset, batch.is_done = base, True
        assert batch.count == batch.builder.count
        base += batch.count
    assert base == 20_000
    offsets = {name: [one.report().offset for one in own] for name, own in found.items()}
    assert all(own == sorted(own) for own in offsets.values())
    assert len({offset for own in offsets.values() for offset in own}) == 20_000


def reported(made: Made, deliveries: dict[bytes, Any]) -> dict[bytes, bytes | None]:
    """For each record, by its value, the value that its batch has at the index which the delivery reports."""
    base = 0
    for batch in made.batches(0):
        made.accumulator.seal(batch.queue, batch)
        batch.base_offset, batch.is_done = base, True
        base += batch.count
    log = [record.value for batch in made.batches(0) for record in read_batch(batch.builder.build(), 0)]
    assert len(log) == len(deliveries)
    return {value: log[delivery.report().offset] for value, delivery in deliveries.items()}


def test_a_record_that_is_sent_while_the_sender_is_woken_is_reported_at_its_own_offset() -> None:
    made = Made()
    deliveries: dict[bytes, Any] = {}

    def send(value: bytes) -> None:
        deliveries[value] = made.accumulator.append("t", None, value, None, 0, 1, None)

    waking = iter([b"second"])

    def send_all() -> None:
        for value in waking:
            send(value)

    made.on_wake = send_all
    send(b"first")
    assert reported(made, deliveries) == {b"first": b"first", b"second": b"second"}


def test_a_callback_is_called_although_the_batch_is_done_as_soon_as_the_sender_is_woken() -> None:
    made = Made()
    useful: list[Any] = []

    def answer() -> None:
        (batch,) = made.batches(0)
        made.accumulator.seal(batch.queue, batch)
        batch.is_done = True
        assert batch.call_back() == []

    made.on_wake = answer
    made.accumulator.append("t", None, b"x", None, 0, 1, useful.append)
    assert len(useful) == 1


@pytest.mark.parametrize("does", ["seals", "sends", "fills"])
def test_a_batch_may_be_sealed_or_grow_while_the_headers_of_a_record_are_read(does: str) -> None:
    made = Made(batch_size=3000)
    deliveries: dict[bytes, Any] = {}

    def send(value: bytes, headers: Any) -> None:
        deliveries[value] = made.accumulator.append("t", None, value, headers, 0, 1, None)

    class Headers:
        def __iter__(self) -> Iterator[tuple[str, bytes]]:
            if does == "seals":
                (batch,) = made.batches(0)
                made.accumulator.seal(batch.queue, batch)
            for number in range({"seals": 0, "sends": 1, "fills": 40}[does]):
                send(b"other %d" % number + b"x" * 100, None)
            return iter([("name", b"h" * 200)])

    send(b"first", None)
    send(b"second", Headers())
    send(b"third", None)
    assert all(value == found for value, found in reported(made, deliveries).items())


def test_finalizers_that_send_and_seal_in_the_middle_of_a_send_leave_every_report_true() -> None:
    made = Made(batch_size=400, buffer_memory=10**8)
    deliveries: dict[bytes, Any] = {}

    class Parting:
        def __init__(self, name: bytes) -> None:
            self.name, self.cycle = name, self

        def __del__(self) -> None:
            deliveries[self.name] = made.accumulator.append("t", None, self.name, [("a", b"b")], 0, 1, None)
            batch = made.topic.queues[0].open
            if batch is not None and len(deliveries) % 3 == 0:
                made.accumulator.seal(batch.queue, batch)

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for number in range(300):
            Parting(b"late %d" % number)
            value = b"%d " % number + b"x" * (number % 90)
            headers = [("name", value)] if number % 2 else None
            deliveries[value] = made.accumulator.append("t", None, value, headers, 0, 1, None)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(deliveries) == 600
    assert all(value == found for value, found in reported(made, deliveries).items())


@pytest.fixture(params=["compiled", "plain"])
def form(request: pytest.FixtureRequest, plain: Any) -> Any:
    """One form of the accumulator."""
    return loaded if request.param == "compiled" else plain


@pytest.fixture
def plain() -> Any:
    """The accumulator as it is where nothing is compiled."""
    path = Path(loaded.__file__).with_name("accumulator.py")
    spec = importlib.util.spec_from_file_location("plain_accumulator", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_finalizer_that_sends_while_a_record_is_written_does_not_write_to_the_same_batch(
    plain: Any,
) -> None:
    made = Made(plain)

    def send(value: bytes) -> None:
        deliveries[value] = made.accumulator.append("t", None, value, None, 0, 1, None)

    class Interrupted:
        """A builder in which a garbage collection comes in the middle of a record."""

        def __init__(self, builder: Any) -> None:
            self.builder = builder
            self.is_writing = False

        def append_packed(self, *record: Any) -> int:
            assert not self.is_writing
            self.is_writing = True
            if b"finalizer" not in deliveries:
                send(b"finalizer")
            self.is_writing = False
            index: int = self.builder.append_packed(*record)
            return index

        def __getattr__(self, name: str) -> Any:
            return getattr(self.builder, name)

    deliveries: dict[bytes, Any] = {}
    send(b"first")
    batch: Any = made.topic.queues[0].open
    batch.builder = Interrupted(batch.builder)
    send(b"second")
    batch.builder = batch.builder.builder
    send(b"third")
    assert [batch.count for batch in made.batches(0)] == [2, 2]
    assert all(value == found for value, found in reported(made, deliveries).items())


def test_a_topic_that_is_forgotten_in_the_middle_of_a_send_is_asked_for_again() -> None:
    def forget() -> float:
        assert made.accumulator.forget(made.topic)
        return 1.0

    made = Made(monotonic=forget)
    assert made.accumulator.append("t", None, b"x", None, 0, 1, None) == loaded.NEEDS_TOPIC
    assert not made.accumulator.incomplete
    assert not made.batches(0)


def test_a_topic_with_batches_is_not_forgotten() -> None:
    made = Made()
    made.accumulator.send("t", b"x", partition=0)
    assert not made.accumulator.forget(made.topic)
    assert "t" in made.accumulator.topics


def test_a_topic_with_a_batch_on_the_wire_is_not_forgotten() -> None:
    made = Made()
    queue = made.topic.queues[2]
    queue.in_flight = 1
    assert not made.accumulator.forget(made.topic)
    assert made.accumulator.topics == {"t": made.topic}
    queue.in_flight = 0
    assert made.accumulator.forget(made.topic)


def test_a_topic_gets_all_its_new_partitions_at_once() -> None:
    made = Made()
    before = made.topic.queues
    old = list(before)
    partitions = tuple(PartitionView(index, 1, 0, (1,), (1,), ()) for index in range(5))
    made.topic.grow(TopicView("t", b"t" * 16, None, False, partitions))
    assert before == old  # a thread that hashes a key meanwhile sees 3 or 5 of them, never 4
    assert made.topic.queues[:3] == old
    assert [queue.index for queue in made.topic.queues] == [0, 1, 2, 3, 4]
