"""A stream of requests, cut into reads anywhere: the same answers in the same order, whatever way they take.

In between the peer stops reading and goes on, others of the requests are answered late or handled alone, some
wait for replicas, and some take the fast path for their first partitions only.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.support import START_MS, FakeClock
from tests.unit.server.handlers.support import LISTENER, broker_of, connection_of, host_log, image_of

from ottla.host import HostDisk
from ottla.rare_paths import decided_by
from ottla.records.record import Record, build_batch
from ottla.replication.leader import Leadership
from ottla.server.handlers import HANDLERS
from ottla.server.net.dispatch import Api, Dispatcher, NoExpress
from ottla.server.replicas.partition import Partition
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.apis import API_VERSIONS
from ottla.wire.frame import request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest

KINDS = (
    *("plain", "plain", "plain", "all", "none", "large", "damaged", "metadata", "late", "late"),
    *("many", "many", "many for all", "some unknown", "some damaged"),
)
INDEXES = {"many": [0, 1, 2, 1], "many for all": [2, 1, 0], "some unknown": [1, 0, 9, 2, 9]}
LATE_TURNS = 6


def _answer_late(_broker: object, _request: object, _context: object) -> PendingResponse:
    """Like a fetch that waits: meanwhile other requests of the connection are served."""
    answer = PendingResponse()

    def wait(turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(wait, turns - 1)
        else:
            answer.complete(ApiVersionsResponse())

    wait(LATE_TURNS)
    return answer


APIS = [api for api in HANDLERS if api.key != API_VERSIONS] + [Api(API_VERSIONS, _answer_late)]


class _Transport:
    """Collects what is written; the peer may stop to read."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_reading = True
        self.is_closed = False

    def get_extra_info(self, _name: str) -> None:
        return None

    def set_write_buffer_limits(self, **_limits: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None:
        self.is_closed = True


def _request(kind: str, number: int) -> bytes:
    if kind == "late":
        return request_frame(ApiVersionsRequest(), 3, number, "test")
    if kind == "metadata":
        return request_frame(MetadataRequest(topics=None), 12, number, "test")

    def batch_of(size: int, *, is_damaged: bool = False) -> memoryview:
        batch = build_batch([Record(0, START_MS, None, b"v" * size)])
        batch[-1] ^= is_damaged
        return memoryview(batch)

    size = 300_000 if kind == "large" else number % 50
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=batch_of(size, is_damaged=kind == "damaged"))
        for index in INDEXES.get(kind, [0])
    ]
    if kind == "some damaged":
        data += [ProduceRequest.PartitionProduceData(index=1, records=batch_of(9, is_damaged=True))]
    topic = ProduceRequest.TopicProduceData(name="news", partition_data=data)
    acks = {"all": -1, "many for all": -1, "none": 0}.get(kind, 1)
    return request_frame(
        ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[topic]), 9 + number % 4, number, "test"
    )


def _follow(partition: Partition) -> None:
    """Two replicas fetch what the partition has."""
    log = partition.log
    assert log is not None
    if partition.leadership is None:
        environment: Any = SimpleNamespace(
            node_id=1, broker_epoch=1, brokers={}, lag_max_ms=1000, now_ms=lambda: 0
        )
        partition.leadership = Leadership(environment)
        partition.leadership.take(
            replicas=[1, 2, 3], isr=[1, 2, 3], leader_epoch=0, partition_epoch=0, end_offset=0
        )
        partition.isr = [1, 2, 3]
    for node in (2, 3):
        partition.follower_fetched(node, -1, log.log_end_offset, 0, names_epoch=True)


async def _served(
    directory: Path, stream: bytes, reads: list[int], *, is_quick: bool, followed: int
) -> tuple[bytes, bytes]:
    """What the peer got and what the log holds, after the stream was read in pieces of these sizes; a size of
    0: the peer reads no longer, or again."""
    disk = HostDisk(threads=1)
    broker = broker_of(image_of(news=3), clock=FakeClock())
    logs = [host_log(broker, disk, str(directory), "news", index) for index in range(3)]
    dispatcher = Dispatcher(broker, APIS, LISTENER, "broker")
    connection = connection_of(clock=broker.clock)
    listener = connection._listener
    express = dispatcher.express if is_quick else NoExpress()
    listener.dispatch, listener.request_failed = dispatcher.dispatch, dispatcher.request_failed
    listener.express, listener.answer_read = express.answer, express.answer_read
    transport: Any = _Transport()
    connection.connection_made(transport)
    is_paused, position, turn = False, 0, 0
    while position < len(stream) or connection.has_unanswered:
        if turn < len(reads) and reads[turn] == 0:
            is_paused = not is_paused
        elif turn >= len(reads) or not transport.is_reading:
            is_paused = False
        if is_paused != connection._is_write_paused:
            (connection.pause_writing if is_paused else connection.resume_writing)()
        if transport.is_reading and position < len(stream):
            buffer = connection.get_buffer(-1)
            count = min(reads[turn % len(reads)] or 1, len(buffer), len(stream) - position)
            buffer[:count] = stream[position : position + count]
            position += count
            connection.buffer_updated(count)
        await asyncio.sleep(0)
        turn += 1
        assert not transport.is_closed
        if turn % 3 == 0:
            for partition in list(broker.partitions)[:followed]:
                _follow(partition)
    content = b"".join(log.segments.active.file.pread(1 << 24, 0) for log in logs)
    connection.connection_lost(None)
    for log in logs:
        log.close(clean=False)
    disk.close()
    return bytes(transport.written), content


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=12),
    reads=st.lists(st.sampled_from([0, 1, 3, 50, 150, 1000, 100_000, 10**6]), min_size=1, max_size=20),
    is_cut_by_request=st.booleans(),
    followed=st.integers(0, 3),
    rare=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
)
def test_answers_do_not_depend_on_the_reads_or_the_way(
    tmp_path_factory: pytest.TempPathFactory,
    kinds: list[str],
    reads: list[int],
    is_cut_by_request: bool,
    followed: int,
    rare: float,
) -> None:
    requests = [_request(kind, number) for number, kind in enumerate(kinds)]
    stream = b"".join(requests)
    if is_cut_by_request:
        reads = [len(request) for request in requests]
    elif len(stream) > 5000:
        reads = [size if size in (0, 50) or size > 150 else 7000 for size in reads] + [100_000] * 5
    source = Random(7)
    with decided_by(lambda point: "produce request" in point and source.random() < rare):
        quick = asyncio.run(
            _served(tmp_path_factory.mktemp("quick"), stream, reads, is_quick=True, followed=followed)
        )
    directory = tmp_path_factory.mktemp("general")
    general = asyncio.run(_served(directory, stream, [10**6], is_quick=False, followed=followed))
    assert quick == general
