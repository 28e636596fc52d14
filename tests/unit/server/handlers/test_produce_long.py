"""Produce requests that would hold the loop: they go on later, in order; others are served meanwhile."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.unit.coordinator.groups.shards import outcome_of
from tests.unit.server.asking import produce_request
from tests.unit.server.handlers.support import RunningNode, connection_of

from ottla.host import HostClock
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.log import CheckedBatch, Log
from ottla.records.batch import BatchHeader, Codec, iterate_headers
from ottla.records.compression import compress
from ottla.records.record import Record, assemble, build_batch, read_records
from ottla.records.validate import BYTES_AT_ONCE
from ottla.server.broker import Broker
from ottla.server.coordinators.transaction_verification import Verification
from ottla.server.handlers.produce import PARTITIONS_AT_ONCE, handle
from ottla.server.net.dispatch import RequestContext
from ottla.waiting.pending_response import PendingResponse
from ottla.waiting.tasks import completion_of
from ottla.wire.errors import ErrorCode, KafkaStorageError
from ottla.wire.frame import read_response, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.produce import ProduceRequest

VERSION = 9


def _bomb(codec: Codec = Codec.ZSTD, size: int = 2 * BYTES_AT_ONCE, timestamp: int = 1) -> bytes:
    return bytes(build_batch([Record(0, timestamp, b"k", bytes(size))], codec=codec))


def _request(topic: str, batches: dict[int, bytes], acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=index, records=memoryview(bytearray(batch)))
                    for index, batch in batches.items()
                ],
            )
        ],
    )


class _Client:
    """A connection to the node, on the node's own loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> _Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, message: Message, version: int) -> None:
        self._writer.write(request_frame(message, version, 1, "test"))

    async def receive(self, message: Message, version: int) -> Any:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        assert message.API_KEY is not None
        return read_response(frame, message.API_KEY, version)[1]

    async def ask(self, message: Message, version: int) -> Any:
        self.send(message, version)
        return await self.receive(message, version)


class _Gate:
    """Keeps the checks of batches on other threads waiting until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = self.left = 0
        self._open = threading.Event()
        check = Log.check

        def gated(log: Log, records: memoryview, now_ms: int) -> Callable[[], CheckedBatch]:
            work = check(log, records, now_ms)

            def waiting() -> CheckedBatch:
                self.entered += 1
                self._open.wait()
                try:
                    return work()
                finally:
                    self.left += 1

            return waiting

        monkeypatch.setattr(Log, "check", gated)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Gate]:
    made = _Gate(monkeypatch)
    yield made
    made.open()


async def _until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_takes_long_is_appended_and_read_back(node: RunningNode, codec: Codec) -> None:
    node.create("a", max_message_bytes=str(1 << 24))
    answer = node.ask(_request("a", {0: _bomb(codec)}), VERSION).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    again = node.ask(produce_request("a", [b"small"]), VERSION).responses[0].partition_responses[0]
    assert again.base_offset == 1


def test_others_are_served_meanwhile_and_what_comes_behind_does_not_overtake(
    node: RunningNode, gate: _Gate
) -> None:
    node.create("a")

    async def main() -> None:
        port = node._node.port
        slow, other = await _Client.open(port), await _Client.open(port)
        large, small = _request("a", {0: _bomb()}), produce_request("a", [b"small"])
        slow.send(large, VERSION)
        slow.send(small, VERSION)
        await _until(lambda: gate.entered)
        other_answer = await other.ask(produce_request("a", [b"other"]), VERSION)
        assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
        partition = node.broker.partitions.get("a", 0)
        assert partition is not None
        assert partition.log is not None
        assert partition.log.log_end_offset == 1
        gate.open()
        answers = [other_answer, await slow.receive(large, VERSION), await slow.receive(small, VERSION)]
        offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
        assert offsets == [0, 1, 2]

    node.run(main())


def test_a_batch_is_judged_by_the_rules_that_hold_when_it_is_appended(node: RunningNode, gate: _Gate) -> None:
    node.create("a", 2)

    async def main() -> None:
        client = await _Client.open(node._node.port)
        request = _request("a", {0: _bomb(), 1: _bomb()})
        client.send(request, VERSION)
        await _until(lambda: gate.entered)
        for index in (0, 1):
            partition = node.broker.partitions.get("a", index)
            assert partition is not None
            log = partition.log
            assert log is not None
            if index == 0:
                log.reconfigure(LogConfig.from_texts({"max.message.bytes": "100"}))
            else:
                partition.is_leader = False
        gate.open()
        (topic,) = (await client.receive(request, VERSION)).responses
        assert [one.error_code for one in topic.partition_responses] == [
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ]

    node.run(main())


def test_a_batch_for_a_topic_that_was_created_again_meanwhile_is_flushed_by_the_rules_of_the_new_one(
    node: RunningNode, gate: _Gate
) -> None:
    node.create("a")

    async def main() -> None:
        client, other = await _Client.open(node._node.port), await _Client.open(node._node.port)
        request = _request("a", {0: _bomb()})
        client.send(request, VERSION)
        await _until(lambda: gate.entered)
        await other.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=9000), 5)
        topic = CreateTopicsRequest.CreatableTopic(
            name="a",
            num_partitions=1,
            replication_factor=1,
            configs=[CreateTopicsRequest.CreatableTopicConfig(name="flush.messages", value="1")],
        )
        created = await other.ask(CreateTopicsRequest(topics=[topic], timeout_ms=9000), 5)
        assert created.topics[0].error_code == 0
        await _until(lambda: node.broker.partitions.get("a", 0))
        gate.open()
        (answer,) = (await client.receive(request, VERSION)).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 0)
        partition = node.broker.partitions.get("a", 0)
        assert partition is not None
        assert partition.log is not None
        assert (partition.log.recovery_point, partition.log.high_watermark) == (1, 1)

    node.run(main())


def test_a_request_without_an_answer_holds_its_connection_until_it_is_appended(
    node: RunningNode, gate: _Gate
) -> None:
    node.create("a")

    async def main() -> None:
        client = await _Client.open(node._node.port)
        client.send(_request("a", {0: _bomb()}, acks=0), VERSION)
        small = produce_request("a", [b"small"])
        client.send(small, VERSION)
        await _until(lambda: gate.entered)
        gate.open()
        answer = (await client.receive(small, VERSION)).responses[0].partition_responses[0]
        assert answer.base_offset == 1

    node.run(main())


@pytest.mark.parametrize("turns", [0, 1])
def test_a_connection_that_ends_meanwhile_gives_back_the_memory_of_its_request(
    node: RunningNode, gate: _Gate, turns: int
) -> None:
    """In turn 0 the task of the request has not begun."""
    node.create("a")

    async def main() -> None:
        connection = connection_of()
        memory = connection._listener.memory
        connection._listener.read_buffer[: len(_bomb())] = _bomb()
        records = connection._listener.read_buffer[: len(_bomb())]
        request = _request("a", {0: b""})
        request.topic_data[0].partition_data[0].records = records
        context = RequestContext(VERSION, 1, "tests", connection, "PLAINTEXT")
        answer = handle(node.broker, request, context)
        assert isinstance(answer, PendingResponse)
        assert memory.used_bytes == len(records)
        for _ in range(turns):
            await _until(lambda: gate.entered)
        answer.abandon()
        gate.open()
        await _until(lambda: not memory.used_bytes)

    node.run(main())


def test_a_node_that_stops_waits_for_the_thread_of_a_long_append_and_appends_no_more(
    tmp_path: Path, gate: _Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = RunningNode(str(tmp_path), {})
    node.create("a")
    ends: list[int] = []

    async def end_appends(broker: Broker) -> None:
        gate.open()
        await end(broker)

    async def close(directories: LogDirectories, **options: Any) -> None:
        ends.append(gate.left)
        gate.open()
        await close_logs(directories, **options)

    end, close_logs = Broker.end_appends, LogDirectories.close
    monkeypatch.setattr(Broker, "end_appends", end_appends)
    monkeypatch.setattr(LogDirectories, "close", close)

    async def main() -> Log:
        client = await _Client.open(node._node.port)
        client.send(_request("a", {0: _bomb()}, acks=0), VERSION)
        await _until(lambda: gate.entered)
        partition = node.broker.partitions.get("a", 0)
        assert partition is not None
        assert partition.log is not None
        return partition.log

    log = node.run(main())
    node.close()
    assert (ends, log.log_end_offset) == ([1], 0)
    with pytest.raises(KafkaStorageError, match="closed"):
        log.append(memoryview(build_batch([Record(0, 1, b"k", b"v")])), leader_epoch=1, now_ms=1)


def _init_producer(node: RunningNode, name: str) -> tuple[int, int]:
    node.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]))
    while True:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answer = node.ask(request)
        if answer.error_code == 0:
            return answer.producer_id, answer.producer_epoch


def test_batches_that_wait_for_verification_are_charged_and_do_not_overtake_each_other(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first takes long once it is verified."""
    node.create("a")
    producer_id, epoch = _init_producer(node, "t")
    options: Any = {"producer_id": producer_id, "producer_epoch": epoch, "transactional": True}
    large = build_batch(
        [Record(0, 1, b"k", bytes(2 * BYTES_AT_ONCE))], codec=Codec.ZSTD, base_sequence=0, **options
    )
    requests = [_request("a", {0: bytes(large)})]
    for sequence in range(1, 4):
        small = build_batch([Record(0, 1, b"k", b"v")], base_sequence=sequence, **options)
        requests.append(_request("a", {0: bytes(small)}))
    for request in requests:
        request.transactional_id = "t"
    questions: list[Callable[[], None]] = []
    ask = Verification._ask_coordinator

    def ask_later(verification: Verification, *arguments: Any) -> None:
        questions.append(lambda: ask(verification, *arguments))

    monkeypatch.setattr(Verification, "_ask_coordinator", ask_later)

    async def main() -> None:
        memory = node._node._memory
        client = await _Client.open(node._node.port)
        for request in requests:
            client.send(request, 12)
        await _until(lambda: questions)
        assert memory.used_bytes >= len(large)
        questions.pop()()
        for offset, request in enumerate(requests):
            (answer,) = (await client.receive(request, 12)).responses[0].partition_responses
            assert (answer.error_code, answer.base_offset) == (0, offset)
        await _until(lambda: not memory.used_bytes)

    node.run(main())


def test_an_internal_topic_takes_no_batch_that_takes_long(node: RunningNode) -> None:
    node.create("a")
    partition = node.broker.partitions.get("a", 0)
    assert partition is not None
    partition.is_internal = True
    request = _request("a", {0: _bomb()})

    async def main() -> int:
        client = await _Client.open(node._node.port)
        client._writer.write(request_frame(request, VERSION, 1, "__admin_client"))
        (topic,) = (await client.receive(request, VERSION)).responses
        return int(topic.partition_responses[0].error_code)

    assert node.run(main()) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("size", [1000, 100_000])
def test_a_batch_that_its_topic_recompresses_is_compressed_on_another_thread_unless_it_is_small(
    node: RunningNode, gate: _Gate, size: int
) -> None:
    node.create("a", compression_type="zstd", compression_zstd_level="22")
    gate.open()
    value = b"".join(b"%d" % number for number in range(size // 5))
    for codec in (Codec.NONE, Codec.GZIP, Codec.ZSTD):
        entered = gate.entered
        batch = bytes(build_batch([Record(0, 1, b"k", value)], codec=codec))
        answer = node.ask(_request("a", {0: batch}), VERSION).responses[0].partition_responses[0]
        assert answer.error_code == 0
        assert gate.entered - entered == (size > 1000 and codec != Codec.ZSTD)
    partition = node.broker.partitions.get("a", 0)
    assert partition is not None
    assert partition.log is not None
    stored = partition.log.read(0, 1 << 24, limit_offset=3).records
    assert [header.codec for _, header in iterate_headers(stored)] == [Codec.ZSTD] * 3
    assert [record.value for record in read_records(stored)] == [value] * 3


class _SteppingClock(HostClock):
    """A clock on which each reading takes three milliseconds."""

    def __init__(self) -> None:
        self.now = HostClock.monotonic()

    def monotonic(self) -> float:
        self.now += 0.003
        return self.now


def test_many_partitions_are_appended_in_several_turns_of_the_loop(node: RunningNode) -> None:
    node.create("a", 30)
    batch = bytes(build_batch([Record(0, 1, b"k", b"v")]))
    request = _request("a", dict.fromkeys(range(30), batch))

    def appended() -> int:
        return sum(
            partition.log is not None and partition.log.log_end_offset for partition in node.broker.partitions
        )

    async def main() -> None:
        client = await _Client.open(node._node.port)
        node.broker.clock = _SteppingClock()
        client.send(request, VERSION)
        turns = [0]
        collects = []
        while turns[-1] < 30:
            await asyncio.sleep(0)
            turns.append(appended())
            if 0 < turns[-1] < 30:
                collects.append(gc.isenabled())
        assert not any(collects), "its objects are many and no garbage"
        assert max(after - before for before, after in pairwise(turns)) <= 3
        (topic,) = (await client.receive(request, VERSION)).responses
        assert [one.index for one in topic.partition_responses] == list(range(30))
        assert {(one.error_code, one.base_offset) for one in topic.partition_responses} == {(0, 0)}
        assert gc.isenabled()

    node.run(main())


def test_a_search_by_time_in_a_batch_that_takes_long_finds_the_record(node: RunningNode) -> None:
    node.create("a", 2)
    records = [Record(n, 1000 + 10 * n, b"k", bytes(BYTES_AT_ONCE // 2)) for n in range(4)]
    batch = bytes(build_batch(records, codec=Codec.ZSTD))
    for _ in range(2):
        node.ask(_request("a", {0: batch}), VERSION)

    def find(*times: int) -> list[tuple[int, int]]:
        asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=time) for time in times]
        found = []
        for one in asked:
            topic = ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=[one])
            answer = node.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7).topics[0].partitions[0]
            assert answer.error_code == 0
            found.append((answer.offset, answer.timestamp))
        return found

    assert find(0, 1005, 1030, 1031, -3) == [(0, 1000), (1, 1010), (3, 1030), (-1, -1), (3, 1030)]


@pytest.mark.parametrize("members", [1, 40_000])
def test_a_batch_of_gzip_members_that_hold_nothing_is_refused(node: RunningNode, members: int) -> None:
    """It is refused for its work, not for its size."""
    node.create("a", max_message_bytes=str(1 << 24))
    packed = compress(Codec.GZIP, b"\x0c\x00\x00\x00\x01\x01\x00") + compress(Codec.GZIP, b"") * members
    header = BatchHeader(0, 0, -1, 2, 0, int(Codec.GZIP), 0, 1, 1, -1, -1, -1, 1)
    batch = bytes(assemble(header, packed))
    answer = node.ask(_request("a", {0: batch}), VERSION).responses[0].partition_responses[0]
    assert answer.error_code == (0 if members == 1 else ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_a_request_with_many_partitions_is_checked_in_steps(
    node: RunningNode, transactional_id: str | None
) -> None:
    node.create("a", 2)
    batch = bytes(build_batch([Record(0, 1, b"k", b"v")]))
    request = _request("a", dict.fromkeys(range(PARTITIONS_AT_ONCE + 1), batch), acks=1)
    request.transactional_id = transactional_id

    async def main() -> None:
        context = RequestContext(VERSION, 1, "test", connection_of(), "PLAINTEXT")
        steps = handle(node.broker, request, context)
        assert isinstance(steps, Generator)
        count = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                outcome = end.value
                break
            log = node.broker.partitions.by_name["a"][0].log
            assert log is not None
            assert not log.log_end_offset, "checked first, then appended"
            count += 1
        assert count > PARTITIONS_AT_ONCE
        response = await completion_of(outcome) if isinstance(outcome, PendingResponse) else outcome
        codes = [one.error_code for one in response.responses[0].partition_responses]
        assert codes[:2] == [0, 0]
        assert set(codes[2:]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    node.run(main())


def test_records_in_a_shared_buffer_are_copied_before_the_first_pause(node: RunningNode) -> None:
    node.create("a", 2)
    batch = bytearray(build_batch([Record(0, 1, b"k", b"v")]))
    request = _request("a", dict.fromkeys(range(PARTITIONS_AT_ONCE + 1), b""), acks=1)

    async def main() -> None:
        connection = connection_of()
        shared = connection._listener.read_buffer
        shared[: len(batch)] = batch
        for data in request.topic_data[0].partition_data:
            data.records = shared[: len(batch)]
        steps = handle(node.broker, request, RequestContext(VERSION, 1, "test", connection, "PLAINTEXT"))
        assert isinstance(steps, Generator)
        next(steps)
        shared[: len(batch)] = bytes(len(batch))
        outcome = outcome_of(steps)
        response = await completion_of(outcome) if isinstance(outcome, PendingResponse) else outcome
        assert response is not None
        codes = [one.error_code for one in response.responses[0].partition_responses]
        assert codes[:2] == [0, 0]
        assert not connection._holds

    node.run(main())
