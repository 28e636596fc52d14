"""A stream of requests, cut into reads anywhere: the same answers in the same order, whatever way they take.

In between the peer stops reading and goes on, and others of the requests are answered late or handled alone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.log.support import START_MS, FakeClock
from tests.unit.server.handlers.support import LISTENER, broker_of, connection_of, host_log, image_of

from ottla.host import HostDisk
from ottla.records.record import Record, build_batch
from ottla.server.handlers import HANDLERS
from ottla.server.net.dispatch import Api, Dispatcher, NoExpress
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.apis import API_VERSIONS
from ottla.wire.frame import request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest

KINDS = ("plain", "plain", "plain", "all", "none", "large", "damaged", "metadata", "late", "late")
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
    batch = build_batch([Record(0, START_MS, None, b"v" * (300_000 if kind == "large" else number % 50))])
    if kind == "damaged":
        batch[-1] ^= 1
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch))
    topic = ProduceRequest.TopicProduceData(name="news", partition_data=[data])
    acks = {"all": -1, "none": 0}.get(kind, 1)
    return request_frame(
        ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic]), 9 + number % 4, number, "test"
    )


async def _served(directory: Path, stream: bytes, reads: list[int], *, is_quick: bool) -> tuple[bytes, bytes]:
    """What the peer got and what the log holds, after the stream was read in pieces of these sizes; a size of
    0: the peer reads no longer, or again."""
    disk = HostDisk(threads=1)
    broker = broker_of(image_of(news=1), clock=FakeClock())
    log = host_log(broker, disk, str(directory), "news")
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
    content = log.segments.active.file.pread(1 << 24, 0)
    connection.connection_lost(None)
    log.close(clean=False)
    disk.close()
    return bytes(transport.written), content


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=12),
    reads=st.lists(st.sampled_from([0, 1, 3, 50, 150, 1000, 100_000, 10**6]), min_size=1, max_size=20),
    is_cut_by_request=st.booleans(),
)
def test_answers_do_not_depend_on_the_reads_or_the_way(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], reads: list[int], is_cut_by_request: bool
) -> None:
    requests = [_request(kind, number) for number, kind in enumerate(kinds)]
    stream = b"".join(requests)
    if is_cut_by_request:
        reads = [len(request) for request in requests]
    elif len(stream) > 5000:
        reads = [size if size in (0, 50) or size > 150 else 7000 for size in reads] + [100_000] * 5
    quick = asyncio.run(_served(tmp_path_factory.mktemp("quick"), stream, reads, is_quick=True))
    general = asyncio.run(_served(tmp_path_factory.mktemp("general"), stream, [10**6], is_quick=False))
    assert quick == general
