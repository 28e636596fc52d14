"""A node process under thousands of frames over real sockets: many connections, pipelined, in pieces,
truncated.

At the end it serves an unmodified client, has all its records and no more sockets than before, has used at
most four times the largest frame plus 64 MB of memory, and has logged no error.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.testing import Broker
from ottla.wire.errors import MalformedMessage, UnsupportedVersion
from ottla.wire.frame import read_request, read_response, request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from tests.fuzz.grammar import KEPT, TOPICS, Grammar, Lexicon
from tests.fuzz.mutation import Mutation
from tests.fuzz.session import served
from tests.interop.peers import wait_until
from tests.unit.server.asking import Asking

FRAMES = int(os.environ.get("OTTLA_FUZZ_TCP_FRAMES", "10000"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))
FRAME_BYTES_MAX = 16 * 1024 * 1024
MEMORY_BYTES_MAX = 4 * FRAME_BYTES_MAX + 64 * 1024 * 1024
VALUES = [b"kept-%d" % number for number in range(1000)]
CONNECTIONS = 60
PATIENCE_S = 5.0
"""The time after which a connection is given up: a request asked to wait longer, or a length is wrong."""

_UNTOUCHED = frozenset({57, 64, 80, 81})
"""UpdateFeatures, UnregisterBroker and the voters' APIs: they legitimately break the node."""
_PARTITIONS_MAX = 16
_LAST_NUMBER = b"\x7e\xad\xbe\xef"
_LAST = request_frame(ApiVersionsRequest(), 0, int.from_bytes(_LAST_NUMBER, "big"), "fuzz")


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {
        "socket.request.max.bytes": str(FRAME_BYTES_MAX),
        "queued.max.request.bytes": str(2 * FRAME_BYTES_MAX),
        "auto.create.topics.enable": "false",
    }
    with Broker(settings, in_process=False) as running:
        with Asking(running.port) as asking:
            asking.create_topic(KEPT, retention_ms="-1", retention_bytes="-1", cleanup_policy="delete")
            for start in range(0, len(VALUES), 100):
                assert asking.produce(KEPT, VALUES[start : start + 100]).error_code == 0
            for topic in TOPICS:
                asking.create_topic(topic, 2)
        yield running


def test_a_node_process_survives_any_bytes(broker: Broker) -> None:
    sockets, threads = _sockets(broker), _status(broker, "Threads")
    sender = _Sender(broker.port)
    asyncio.run(sender.run(FRAMES))
    assert sender.frames >= FRAMES
    assert sender.answers > FRAMES / 20, "hardly anything was answered"
    wait_until(lambda: _sockets(broker) <= sockets, 120, lambda: f"{_sockets(broker)} sockets, not {sockets}")
    assert _read_back(broker) == VALUES
    assert _status(broker, "VmHWM") * 1024 < MEMORY_BYTES_MAX
    assert _status(broker, "Threads") <= threads + 16
    log = broker.log_text
    errors = [line for line in log.splitlines() if " ERROR " in line or "Traceback" in line]
    assert not errors, f"seed {SEED}: {log[log.index(errors[0]) :][:4000]}"
    print(
        f"{sender.frames} frames on {sender.connections} connections, {sender.answers} answers, "
        f"{_status(broker, 'VmHWM') // 1024} MB at most"
    )


class _Sender:
    """Draws frames and sends them on many connections concurrently."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._draw = random.Random(SEED)
        self._lexicon = Lexicon()
        self._grammar = Grammar(self._draw, self._lexicon)
        self._mutation = Mutation(self._draw)
        self._served = [one for one in served("broker") if one[0] not in _UNTOUCHED]
        self._pool = [frame for _ in range(200) if (frame := self._drawn()) is not None]
        self.frames = self.answers = self.connections = 0

    def _drawn(self) -> bytes | None:
        key, version = self._draw.choice(self._served)
        return self._grammar.frame(key, version, 7)

    def _next(self, damaged_share: float) -> bytes:
        while True:
            frame = self._drawn()
            if frame is not None:
                if self._draw.random() < damaged_share:
                    frame = self._mutation.mutated(frame, self._draw.choice(self._pool))
                if _may_be_sent(frame):
                    return frame

    async def run(self, count: int) -> None:
        with Asking(self._port) as asking:
            known = asking.ask(MetadataRequest(topics=None), 12)
        self._lexicon.kept_id = next(one.topic_id for one in known.topics if one.name == KEPT)
        self._lexicon.learn(known)
        await asyncio.gather(*(self._talk(count) for _ in range(CONNECTIONS)))

    async def _talk(self, count: int) -> None:
        while self.frames < count:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            self.connections += 1
            try:
                await self._say(reader, writer)
            except (OSError, asyncio.IncompleteReadError):
                continue  # closed by the node, or a request asked to wait
            finally:
                writer.transport.abort()

    async def _say(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        draw = self._draw
        manner = draw.random()
        if manner < 0.3:  # the first request of clients
            writer.write(request_frame(ApiVersionsRequest(), 0, 1, "fuzz"))
            read_response(await _answer(reader), 18, 0)
        damaged_share = draw.choice((0, 0, 0.1, 1))
        frames = [self._next(damaged_share) for _ in range(draw.choice((1, 1, 2, 5, 20)))]
        self.frames += len(frames)
        data = b"".join(frames) + _LAST
        if manner > 0.8:  # truncated in the middle of a frame
            data = data[: int(draw.random() * len(data))]
        if draw.random() < 0.3:
            for start in range(0, len(data), max(len(data) // 4, 1)):
                writer.write(data[start : start + max(len(data) // 4, 1)])
                await writer.drain()
                await asyncio.sleep(0)
        else:
            writer.write(data)
            await writer.drain()
        if manner > 0.8:
            if draw.random() < 0.5:
                return  # without a response
            writer.write_eof()
        async with asyncio.timeout(PATIENCE_S):
            while (await _answer(reader))[:4] != _LAST_NUMBER:
                self.answers += 1


async def _answer(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


def _may_be_sent(frame: bytes) -> bool:
    """Whether it leaves the node as a whole intact, and does not fill its disk."""
    if int.from_bytes(frame[4:6], "big", signed=True) in _UNTOUCHED:
        return False
    try:
        key, _, _, _, request = read_request(frame[4:])
    except (MalformedMessage, UnsupportedVersion, KeyError):
        return True
    if key == 19:
        return all(
            one.num_partitions <= _PARTITIONS_MAX and len(one.assignments) <= _PARTITIONS_MAX
            for one in request.topics
        )
    if key == 37:
        return all(one.count <= _PARTITIONS_MAX for one in request.topics)
    if key in (33, 44):
        return all(one.resource_type == 2 for one in request.resources)
    return True


def _read_back(broker: Broker) -> list[bytes]:
    """Read the records with librdkafka."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "after"})
    try:
        consumer.assign([TopicPartition(KEPT, 0, 0)])
        found: list[bytes] = []

        def read() -> bool:
            found.extend(
                message.value() or b"" for message in consumer.consume(1000, 1.0) if not message.error()
            )
            return len(found) >= len(VALUES)

        wait_until(read, 120, lambda: f"{len(found)} of {len(VALUES)} records were read")
        return found
    finally:
        consumer.close()


def _status(broker: Broker, name: str) -> int:
    text = Path(f"/proc/{broker.process_id}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))


def _sockets(broker: Broker) -> int:
    count = 0
    for entry in Path(f"/proc/{broker.process_id}/fd").iterdir():
        try:
            count += os.readlink(entry).startswith("socket:")
        except FileNotFoundError:
            continue  # closed meanwhile
    return count


def test_destructive_requests_are_not_sent() -> None:
    assert not _may_be_sent(pack(">ihhih", 10, 64, 0, 1, -1))
    assert _may_be_sent(pack(">ihhih", 10, 3, 0, 1, -1))
