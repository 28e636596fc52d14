"""Many connections on one node process: what they cost it, and what others notice of them.

Each function returns what was measured: `test_load.py` asserts on it, and `__main__.py` prints it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla.testing import Broker
from ottla.wire.frame import read_response, request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from tests.interop.peers import wait_until
from tests.unit.server.asking import Asking, fetch_request, produce_request

TOPIC = "load"
RECORD_BYTES = 1000
_HELLO = request_frame(ApiVersionsRequest(), 0, 1, "crowd")
_RECEIVE_BUFFER_BYTES = 4096
_SPARE_FILES = 300
_READ_AGAIN = 5
_WAIT_S = 120


def raise_file_limit(wanted: int) -> int:
    """Allow this process, and what it starts, as many open files as the system lets it: how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted + _SPARE_FILES and soft != resource.RLIM_INFINITY:
        soft = wanted + _SPARE_FILES if hard == resource.RLIM_INFINITY else min(wanted + _SPARE_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft - _SPARE_FILES


def resident_bytes(broker: Broker) -> int:
    for line in Path(f"/proc/{broker.process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the node has no memory")


def socket_count(broker: Broker) -> int:
    count = 0
    for entry in Path(f"/proc/{broker.process_id}/fd").iterdir():
        try:
            count += os.readlink(entry).startswith("socket:")
        except FileNotFoundError:
            continue  # closed while we looked
    return count


def fill(broker: Broker, megabytes: int) -> None:
    """A topic with records to fetch."""
    batch = [bytes(RECORD_BYTES)] * 100
    with Asking(broker.port) as asking:
        asking.create_topic(TOPIC, 1)
        for _ in range(megabytes * 1_000_000 // (100 * RECORD_BYTES)):
            assert asking.produce(TOPIC, batch).error_code == 0


# Open connections


@dataclass(frozen=True, slots=True)
class Open:
    """Connections that stay open and say nothing."""

    count: int
    bytes_each: int
    round_trip_ms: float
    """Of another client, while they are there: the slowest of 200."""


def hold_open(broker: Broker, count: int) -> Open:
    with Asking(broker.port) as asking:
        asking.ask(ApiVersionsRequest(), 0)
        sockets_before, before = socket_count(broker), resident_bytes(broker)
        crowd: list[socket.socket] = []
        try:
            for _ in range(count):
                crowd.append(connect(broker.port))
                crowd[-1].sendall(_HELLO)
            for one in crowd:
                _read_frame(one)
            assert socket_count(broker) >= count
            each = (resident_bytes(broker) - before) // count
            slowest = max(_timed(lambda: asking.ask(ApiVersionsRequest(), 0)) for _ in range(200))
            for one in crowd[:: max(count // 100, 1)]:  # they are served too, and not only held
                one.sendall(_HELLO)
                _read_frame(one)
        finally:
            for one in crowd:
                one.close()
        _await_sockets(broker, sockets_before)
    return Open(count, each, slowest * 1000)


def _await_sockets(broker: Broker, count: int) -> None:
    wait_until(
        lambda: socket_count(broker) <= count,
        _WAIT_S,
        lambda: f"{socket_count(broker)} sockets of the node to become {count}",
    )


def connect(port: int, *, receive_bytes: int | None = None) -> socket.socket:
    one = socket.socket()
    if receive_bytes is not None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    one.settimeout(_WAIT_S)
    one.connect(("127.0.0.1", port))
    return one


def _read_frame(one: socket.socket) -> bytes:
    return _exactly(one, int.from_bytes(_exactly(one, 4), "big"))


def _exactly(one: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        piece = one.recv(count - len(parts))
        if not piece:
            raise ConnectionError("the node closed a connection")
        parts += piece
    return bytes(parts)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# Stalled consumers


@dataclass(frozen=True, slots=True)
class Stalled:
    """Consumers that ask and do not read."""

    count: int
    answer_bytes: int
    grown_bytes: int


def stall(broker: Broker, count: int, *, fetches: int, answer_bytes: int) -> Stalled:
    """Let `count` consumers ask for so much, again and again, and read nothing of it."""
    asked = b"".join(request_frame(_fetch(answer_bytes), 12, number, "stalled") for number in range(fetches))
    with Asking(broker.port) as asking:
        asking.fetch(TOPIC, 0)
        sockets_before, before = socket_count(broker), resident_bytes(broker)
        crowd: list[socket.socket] = []
        most = 0
        try:
            for _ in range(count):
                one = connect(broker.port, receive_bytes=_RECEIVE_BUFFER_BYTES)
                crowd.append(one)
                one.sendall(asked)
            # All of them have their first bytes, and others are answered: the node did what it could.
            for one in crowd:
                assert one.recv(4, socket.MSG_PEEK), "the node closed a connection"
                most = max(most, resident_bytes(broker))
            for _ in range(20):
                assert asking.fetch(TOPIC, 0).error_code == 0
                assert asking.produce(TOPIC, [b"more"]).error_code == 0
                most = max(most, resident_bytes(broker))
            for one in crowd[:: max(count // 5, 1)]:  # who reads again gets what it asked for
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
                for number in range(min(fetches, _READ_AGAIN)):
                    correlation_id, response = read_response(_read_frame(one), 1, 12)
                    assert correlation_id == number
                    assert response.responses[0].partitions[0].error_code == 0
                    assert len(response.responses[0].partitions[0].records) > 0
        finally:
            for one in crowd:
                one.close()
        _await_sockets(broker, sockets_before)
    return Stalled(count, answer_bytes, most - before)


def _fetch(answer_bytes: int) -> FetchRequest:
    request = fetch_request(TOPIC, 0)
    request.topics[0].partitions[0].partition_max_bytes = answer_bytes
    request.max_bytes = answer_bytes
    return request


# A storm of new connections


@dataclass(frozen=True, slots=True)
class Storm:
    """New connections, one after the other, each with one question; and what another client saw meanwhile."""

    connections: int
    seconds: float
    refused: int
    requests: int
    p99_before_ms: float
    p99_ms: float
    grown_bytes: int


def storm(broker: Broker, *, per_second: int, seconds: float) -> Storm:
    """Other clients' requests are timed before the storm and during it."""
    return asyncio.run(_storm(broker, per_second, seconds))


async def _storm(broker: Broker, per_second: int, seconds: float) -> Storm:
    with Asking(broker.port) as asking:
        asking.produce(TOPIC, [b"x"])
    sockets_before, before = socket_count(broker), resident_bytes(broker)
    calm = await _timed_requests(broker.port, asyncio.create_task(asyncio.sleep(min(seconds, 10.0))))
    began = time.monotonic()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.load.storm",
        *map(str, (broker.port, per_second, int(per_second * seconds))),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        blowing = asyncio.create_task(child.communicate())
        times = await _timed_requests(broker.port, blowing)
        output, _ = await blowing
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    answered, refused = map(int, output.split())
    took = time.monotonic() - began
    grown = resident_bytes(broker) - before
    await asyncio.to_thread(_await_sockets, broker, sockets_before)
    return Storm(answered, took, refused, len(times), _p99_ms(calm), _p99_ms(times), grown)


async def _timed_requests(port: int, until: asyncio.Task[object]) -> list[float]:
    """Seconds of each request of a client that writes, reads and asks, in turn, until something is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    frames = [
        request_frame(produce_request(TOPIC, [bytes(RECORD_BYTES)]), 9, 1, "other"),
        request_frame(_fetch(RECORD_BYTES * 10), 12, 2, "other"),
        request_frame(_list_offsets(), 7, 3, "other"),
    ]
    times: list[float] = []
    try:
        while not until.done():
            for frame in frames:
                began = time.perf_counter()
                writer.write(frame)
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                times.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)
    finally:
        writer.transport.abort()
    return times


def _list_offsets() -> ListOffsetsRequest:
    partition = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=-1
    )
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    )


def _p99_ms(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)] * 1000
