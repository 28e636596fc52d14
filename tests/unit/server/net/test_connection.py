"""Connections over real sockets on loopback: framing, order, limits and back-pressure."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from struct import pack
from typing import Any, cast

import pytest

from ottla.host import HostClock, HostDisk, HostNetwork
from ottla.log.file_slice import FileSlice
from ottla.ports import Buffer, Clock
from ottla.server.net.connection import UNANSWERED_MAX, WRITE_CHUNK_BYTES, Connection, Encoded
from ottla.server.net.connection_quotas import ConnectionLimits, ConnectionQuotas
from ottla.server.net.dispatch import Express, NoExpress
from ottla.server.net.listener import Listener, ListenerSettings
from ottla.server.net.loop_lag import LoopLateness
from ottla.server.net.request_memory import RequestMemory
from ottla.server.net.response_memory import ResponseMemory
from ottla.server.net.turns import Turns
from ottla.waiting.pending_response import PendingResponse

Dispatch = Callable[[Connection, memoryview], None]


class _Dispatcher:
    def __init__(self, dispatch: Dispatch, express: Express | None = None) -> None:
        self.dispatch = dispatch
        self.express = express or NoExpress()

    def request_failed(self, connection: Connection, error: Exception) -> None:
        connection.close(str(error))


class _Quick:
    """A fast path for requests that begin with b"q"; b"qe" is a mistake in it."""

    def __init__(self) -> None:
        self.begun: Any = None
        self.answered = 0
        self.asked = 0

    def answer_read(self, data: memoryview, count: int) -> bytes | None:
        size = int.from_bytes(data[:4], "big")
        return self.answer(data, 4, count) if size == count - 4 else None

    def answer(self, data: memoryview, start: int, end: int) -> bytes | None:
        self.asked += 1
        frame = bytes(data[start:end])
        if frame[:2] == b"qe":
            raise RuntimeError("planted")
        if frame[:1] != b"q":
            return None
        self.answered += 1
        return pack(">i", len(frame)) + frame


@asynccontextmanager
async def listening(
    dispatch: Dispatch,
    *,
    frame_bytes_max: int = 1 << 24,
    memory: RequestMemory | None = None,
    limits: ConnectionLimits | None = None,
    clock: Clock | None = None,
    express: Express | None = None,
) -> AsyncIterator[Listener]:
    listener = Listener(
        ListenerSettings(
            name="PLAINTEXT", host="127.0.0.1", port=0, frame_bytes_max=frame_bytes_max, idle_max_ms=600_000
        ),
        clock=clock or HostClock(),
        memory=memory or RequestMemory(1 << 26),
        answers=ResponseMemory(1 << 26),
        quotas=ConnectionQuotas(clock or HostClock(), limits or ConnectionLimits()),
        lateness=LoopLateness(HostClock()),
        turns=Turns(clock or HostClock()),
    )
    await listener.bind(HostNetwork())
    await listener.serve(_Dispatcher(dispatch, express))  # type: ignore[arg-type]
    try:
        yield listener
    finally:
        await listener.close()


def _echo(connection: Connection, frame: memoryview) -> None:
    connection.answer_now([pack(">i", len(frame)) + bytes(frame)])


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


def _run(main: Any) -> None:
    asyncio.run(asyncio.wait_for(main, 30))


@pytest.mark.parametrize("piece_bytes", [1, 3, 5, 1000, 10**7])
def test_frames_arrive_whole_however_they_are_cut(piece_bytes: int) -> None:
    frames = [
        bytes([n]) * size for n, size in enumerate([8, 9, 20, 4096, 300_000 if piece_bytes > 5 else 50, 8])
    ]
    stream = b"".join(pack(">i", len(frame)) + frame for frame in frames)

    async def main() -> None:
        async with listening(_echo) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)

            async def send() -> None:
                for start in range(0, len(stream), piece_bytes):
                    writer.write(stream[start : start + piece_bytes])
                    await writer.drain()

            sending = asyncio.ensure_future(send())
            assert [await _read_frame(reader) for _ in frames] == frames
            await sending
            writer.close()

    _run(main())


def test_answers_leave_in_the_order_of_their_requests_whatever_settles_first() -> None:
    answers: list[PendingResponse] = []

    def dispatch(connection: Connection, frame: memoryview) -> None:
        answers.append(PendingResponse())
        connection.answer_later(answers[-1], lambda response: [pack(">i", len(response)) + response])

    async def main() -> None:
        async with listening(dispatch) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write((pack(">i", 8) + b"question") * 3)
            while len(answers) < 3:
                await asyncio.sleep(0)
            answers[2].complete(b"third")
            answers[1].complete(b"second")
            answers[0].complete(b"first")
            assert [await _read_frame(reader) for _ in range(3)] == [b"first", b"second", b"third"]
            writer.close()

    _run(main())


def test_a_reader_that_does_not_read_costs_one_chunk_and_stops_the_reading_of_requests(
    tmp_path: Path,
) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(range(256)) * (64 * 1024))
    file = HostDisk().open(str(path))
    size = file.size()
    seen = 0

    def dispatch(connection: Connection, frame: memoryview) -> None:
        nonlocal seen
        seen += 1
        connection.answer_now([pack(">i", size), FileSlice(file, 0, size)])

    async def main() -> None:
        async with listening(dispatch) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 16)
            count = 200
            for _ in range(count):
                writer.write(pack(">i", 8) + b"question")
            await asyncio.sleep(0)
            while not (listener.connections and seen):
                await asyncio.sleep(0.001)
            connection = next(iter(listener.connections))
            while not connection._is_write_paused:
                await asyncio.sleep(0.001)
            for _ in range(100):
                await asyncio.sleep(0)
                assert connection.transport.get_write_buffer_size() <= 2 * WRITE_CHUNK_BYTES
            assert seen < count  # the rest waits in the socket or is held, unhandled
            expected = path.read_bytes()
            for _ in range(3):
                assert await _read_frame(reader) == expected
            writer.transport.abort()

    _run(main())
    file.close()


def _shrink_send_buffer(connection: Connection, size_kib: int) -> None:
    with socket.socket(fileno=os.dup(connection.transport.get_extra_info("socket").fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size_kib * 1024)


def _loops() -> list[Any]:
    try:
        import uvloop
    except ImportError:
        return [asyncio.new_event_loop]
    return [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize("new_loop", _loops())
@pytest.mark.parametrize("has_descriptor", [True, False])
def test_records_from_files_and_from_memory_arrive_in_order_at_a_slow_reader(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop], has_descriptor: bool
) -> None:
    content = bytes(n * 7 % 251 for n in range(1 << 17)) * 4
    path = tmp_path / "records"
    path.write_bytes(content)
    file = HostDisk().open(str(path))
    slices = [
        (5, 1),
        (0, 3 * WRITE_CHUNK_BYTES),
        (77, len(content) - 77),
        (9, 2 * WRITE_CHUNK_BYTES),
        (1, 100_000),
    ]
    expected = b"".join(b"head" + content[start : start + size] for start, size in slices) + b"tail"
    send_buffers = iter((16, 24, 32, 48))  # in KiB: chunks are cut at different places

    def dispatch(connection: Connection, frame: memoryview) -> None:
        if not has_descriptor:
            connection._descriptor = -1
        if bytes(frame) == b"small":
            _shrink_send_buffer(connection, next(send_buffers))
            connection.answer_now([pack(">i", 5) + b"small"])
            return
        parts: list[Any] = [pack(">i", len(expected))]
        for start, size in slices:
            parts += [b"head", FileSlice(file, start, size)]
        connection.answer_now([*parts, b"tail"])

    async def main() -> None:
        async with listening(dispatch) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 12)
            writer.write((pack(">i", 5) + b"small" + pack(">i", 5) + b"large") * 4)
            for _ in range(4):
                assert await _read_frame(reader) == b"small"
                assert await _read_frame(reader) == expected
            writer.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(main(), 30))
    file.close()


def test_a_file_that_ends_before_its_records_closes_the_connection_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(5 * WRITE_CHUNK_BYTES))
    file = HostDisk().open(str(path))

    def dispatch(connection: Connection, frame: memoryview) -> None:
        size = 9 * WRITE_CHUNK_BYTES
        connection.answer_now([pack(">i", size), FileSlice(file, 0, size)])

    async def main() -> None:
        async with listening(dispatch) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(pack(">i", 8) + b"question")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await _read_frame(reader)
            writer.close()

    _run(main())
    file.close()
    assert f"{path} is " in caplog.text
    assert "bytes shorter than the records in it" in caplog.text


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (pack(">i", -5) + b"....", "Frame size -5"),
        (pack(">i", 1001) + b"....", "1001 bytes"),
    ],
)
def test_what_is_no_frame_closes_the_connection_and_says_who_sent_what(
    first: bytes, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with listening(_echo, frame_bytes_max=1000) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            own_port = writer.get_extra_info("sockname")[1]
            writer.write(first)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await _read_frame(reader)
            (line,) = [record.getMessage() for record in caplog.records if "Closed" in record.message]
            assert f"127.0.0.1:{own_port}" in line
            assert cause in line
            writer.close()

    caplog.set_level(logging.WARNING)
    _run(main())


def test_frames_in_memory_stay_within_their_budget() -> None:
    memory = RequestMemory(300_000)
    most = 0

    def dispatch(connection: Connection, frame: memoryview) -> None:
        nonlocal most
        most = max(most, memory.used_bytes)
        connection.answer_now([pack(">i", 2) + b"ok"])

    async def client(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(5):
            writer.write(pack(">i", 250_000) + bytes(250_000))
            assert await _read_frame(reader) == b"ok"
        writer.close()

    async def main() -> None:
        async with listening(dispatch, memory=memory) as listener:
            await asyncio.gather(*(client(listener.port) for _ in range(8)))
        assert memory.used_bytes == 0

    _run(main())
    assert most <= 300_000 + 250_000  # one frame may pass the limit


def test_a_host_gets_no_more_connections_than_allowed() -> None:
    async def main() -> None:
        async with listening(_echo, limits=ConnectionLimits(address_max=2)) as listener:
            pairs = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(2)]
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(pack(">i", 8) + b"question")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await _read_frame(reader)
            pairs[0][1].write(pack(">i", 8) + b"question")
            assert await _read_frame(pairs[0][0]) == b"question"
            for _, other in [*pairs, (reader, writer)]:
                other.close()

    _run(main())


def test_an_answer_that_nobody_waits_for_is_released_when_the_connection_ends() -> None:
    released: list[bool] = []

    def dispatch(connection: Connection, frame: memoryview) -> None:
        pending = PendingResponse()
        pending.when_released(lambda: released.append(True))
        connection.answer_later(pending, lambda response: [response])

    async def main() -> None:
        async with listening(dispatch) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(pack(">i", 8) + b"question")
            while not (listener.connections and next(iter(listener.connections)).has_unanswered):
                await asyncio.sleep(0)
            writer.close()
            while not released:
                await asyncio.sleep(0.001)

    _run(main())


def test_a_frame_that_was_announced_and_not_sent_takes_little_of_the_budget() -> None:
    memory = RequestMemory(300 << 20)

    async def main() -> None:
        async with listening(_echo, memory=memory, frame_bytes_max=100 << 20) as listener:
            writers = []
            for _ in range(12):
                _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                writer.write(pack(">i", 100 << 20) + bytes(8))
                writers.append(writer)
            while not memory.used_bytes >= 12 * 64 * 1024:
                await asyncio.sleep(0.001)
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            frame = bytes(range(256)) * 4096
            writer.write(pack(">i", len(frame)) + frame)
            assert await _read_frame(reader) == frame
            assert memory.used_bytes <= 12 * 64 * 1024
            for one in (*writers, writer):
                one.transport.abort()
            while memory.used_bytes:
                await asyncio.sleep(0.001)

    _run(main())


@pytest.mark.parametrize("new_loop", _loops())
def test_frames_that_do_not_fit_into_the_budget_together_arrive_one_after_the_other(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    memory = RequestMemory(6 << 20)
    size = 5 << 20

    async def client(port: int, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        frame = bytes([number]) * size
        for _ in range(2):
            writer.write(pack(">i", size) + frame)
            assert await _read_frame(reader) == frame
        writer.close()

    async def main() -> None:
        async with listening(_echo, memory=memory) as listener:
            await asyncio.gather(*(client(listener.port, number) for number in range(6)))
            while memory.used_bytes:
                await asyncio.sleep(0.001)
        assert memory.most_bytes <= (6 << 20) + size

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(main(), 60))


def test_a_connection_that_ends_while_its_frame_waits_for_memory_gives_all_of_it_back() -> None:
    large_bytes = 3 << 18
    memory = RequestMemory(1 << 20)

    class Exempt:
        received_bytes = None

        def close(self, reason: str | None = None) -> None: ...

    async def main() -> None:
        assert memory.take(Exempt(), 1 << 23, 1 << 21, lambda: None)  # none but this may pass the limit
        memory.give_back(1 << 21)
        async with listening(_echo, memory=memory) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(pack(">i", 1 << 23) + bytes(40_000))
            while not memory.used_bytes:
                await asyncio.sleep(0.001)
            (connection,) = listener.connections
            others = large_bytes - memory.used_bytes
            memory.take_now(others)
            writer.write(bytes(1 << 19))
            while connection.received_bytes is not None:
                await asyncio.sleep(0.001)
            connection.close()
            while listener.connections:
                await asyncio.sleep(0.001)
            assert memory.used_bytes == others
            writer.close()

    _run(main())


class _StepClock(HostClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_many_requests_of_one_read_leave_the_loop_to_others_in_between() -> None:
    clock = _StepClock()
    served: list[bytes] = []
    turns: list[int] = []  # how many were served at the end of each turn of the loop

    def dispatch(connection: Connection, frame: memoryview) -> None:
        served.append(bytes(frame))
        clock.now += 0.003
        connection.answer_now([pack(">i", len(frame)) + bytes(frame)])

    frames = [pack(">i", number) for number in range(100)]

    async def main() -> None:
        async with listening(dispatch, clock=clock) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"".join(pack(">i", len(frame)) + frame for frame in frames))
            while len(served) < len(frames):
                turns.append(len(served))
                await asyncio.sleep(0)
            turns.append(len(served))
            assert [await _read_frame(reader) for _ in frames] == frames
            writer.close()

    _run(main())
    assert served == frames
    assert max(after - before for before, after in pairwise(turns)) <= 4


def test_answers_of_one_read_that_nobody_reads_stop_it() -> None:
    answer = pack(">i", 100_000) + bytes(100_000)
    served = 0

    def dispatch(connection: Connection, frame: memoryview) -> None:
        nonlocal served
        served += 1
        connection.answer_now([answer])

    async def main() -> None:
        async with listening(dispatch) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 12)
            writer.write((pack(">i", 4) + b"wide") * 2000)
            while not (listener.connections and next(iter(listener.connections))._is_write_paused):
                await asyncio.sleep(0.001)
            for _ in range(100):
                await asyncio.sleep(0)
            assert served < 200
            for _ in range(2000):
                assert len(await _read_frame(reader)) == 100_000
            writer.close()

    _run(main())
    assert served == 2000


def test_settled_answers_leave_the_loop_to_others_in_between() -> None:
    clock = _StepClock()
    first = PendingResponse()
    encoded: list[int] = []
    turns: list[int] = []

    def dispatch(connection: Connection, frame: memoryview) -> None:
        number = int(bytes(frame))

        def encode(response: bytes) -> list[Any]:
            encoded.append(number)
            clock.now += 0.003
            return [pack(">i", len(response)) + response]

        answer = first if number == 0 else PendingResponse()
        connection.answer_later(answer, encode)
        if number:
            answer.complete(b"%d" % number)

    async def main() -> None:
        async with listening(dispatch, clock=clock) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            for number in range(40):
                writer.write(pack(">i", 2) + b"%02d" % number)
            while not (listener.connections and len(next(iter(listener.connections))._queue) == 40):
                await asyncio.sleep(0.001)
            first.complete(b"0")
            while len(encoded) < 40:
                turns.append(len(encoded))
                await asyncio.sleep(0)
            turns.append(len(encoded))
            assert [await _read_frame(reader) for _ in range(40)] == [b"%d" % n for n in range(40)]
            writer.close()

    _run(main())
    assert max(after - before for before, after in pairwise(turns)) <= 4


def test_a_connection_that_fails_in_its_turn_does_not_cost_the_others_theirs() -> None:
    served: list[int] = []

    class Failing:
        def go_on(self, end: float) -> None:
            raise ValueError("it fails")

    class Served:
        def go_on(self, end: float) -> None:
            served.append(1)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        turns = Turns(HostClock())
        turns.ask(Failing())
        turns.ask(Served())
        for _ in range(3):
            await asyncio.sleep(0)
        assert served == [1]
        assert not turns.is_due

    _run(main())


def test_a_frame_that_arrives_behind_too_many_unanswered_requests_is_not_called_slow() -> None:
    answers: list[PendingResponse] = []

    def dispatch(connection: Connection, frame: memoryview) -> None:
        answers.append(PendingResponse())
        connection.answer_later(answers[-1], cast(Encoded, lambda _: [pack(">i", 0)]))

    async def main() -> None:
        async with listening(dispatch) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write((pack(">i", 1) + b"x") * UNANSWERED_MAX + pack(">i", 1 << 20) + bytes(1000))
            while len(answers) < UNANSWERED_MAX:
                await asyncio.sleep(0.001)
            (connection,) = listener.connections
            assert connection.received_bytes is None
            for answer in answers:
                answer.complete(1)
            while connection.received_bytes is None:
                await asyncio.sleep(0.001)
            writer.close()

    _run(main())


def test_a_handler_that_holds_its_connection_is_not_overtaken() -> None:
    held: list[Connection] = []
    served: list[bytes] = []

    def dispatch(connection: Connection, frame: memoryview) -> None:
        served.append(bytes(frame[:4]))
        if bytes(frame[:4]) == b"hold":
            connection.hold()
            held.append(connection)
        connection.answer_now([pack(">i", 4) + bytes(frame[:4])])

    async def main() -> None:
        async with listening(dispatch) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            large = b"hold" + bytes(1 << 20)
            for frame in (b"one ", b"hold", b"two ", large, b"four"):
                writer.write(pack(">i", len(frame)) + frame)
            for count in (1, 2):
                while len(held) < count:
                    await asyncio.sleep(0.001)
                for _ in range(20):
                    await asyncio.sleep(0)
                assert served[-1] == b"hold"
                assert listener.memory.used_bytes > 0
                held[-1].release()
            answers = [await _read_frame(reader) for _ in range(5)]
            assert answers == served == [b"one ", b"hold", b"two ", b"hold", b"four"]
            assert listener.memory.used_bytes == 0
            writer.close()

    _run(main())


@pytest.mark.parametrize("piece_bytes", [1, 7, 9, 10**7])
def test_quick_answers_leave_in_the_order_of_their_requests(piece_bytes: int) -> None:
    frames = [b"quick", b"other", b"quick", b"q" * 300_000 if piece_bytes > 9 else b"quick", b"other", b"q"]
    stream = b"".join(pack(">i", len(frame)) + frame for frame in frames)
    quick = _Quick()

    async def main() -> None:
        async with listening(_echo, express=quick) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            for start in range(0, len(stream), piece_bytes):
                writer.write(stream[start : start + piece_bytes])
                await writer.drain()
                await asyncio.sleep(0)
            assert [await _read_frame(reader) for _ in frames] == frames
            writer.close()

    _run(main())
    assert quick.answered == 4


def test_no_quick_answer_overtakes_one_that_comes_later() -> None:
    quick = _Quick()
    waiting: list[PendingResponse] = []

    def dispatch(connection: Connection, frame: memoryview) -> None:
        answer = PendingResponse()
        kept = bytes(frame)
        parts: list[Buffer | FileSlice] = [pack(">i", len(kept)) + kept]
        connection.answer_later(answer, lambda _response: parts)
        if kept == b"late":
            waiting.append(answer)
        else:
            answer.complete("now")

    async def main() -> None:
        async with listening(dispatch, express=quick) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(pack(">i", 4) + b"late")
            while not waiting:
                await asyncio.sleep(0.001)
            writer.write(pack(">i", 5) + b"quick")
            (connection,) = listener.connections
            while len(connection._queue) < 2:
                await asyncio.sleep(0.001)
            waiting[0].complete("now")
            assert [await _read_frame(reader) for _ in range(2)] == [b"late", b"quick"]
            writer.close()

    _run(main())
    assert quick.answered == 1, "it is served, and its response waits"


def test_a_request_that_is_asked_once_for_a_fast_path_is_not_asked_again() -> None:
    quick = _Quick()

    async def main() -> None:
        async with listening(_echo, express=quick) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(pack(">i", 5) + b"other")
            assert await _read_frame(reader) == b"other"
            writer.close()

    _run(main())
    assert quick.asked == 1


@pytest.mark.parametrize("frame", [b"qe", b"q" * 101])
def test_a_fast_path_that_fails_or_a_frame_too_large_for_it_ends_the_connection(frame: bytes) -> None:
    quick = _Quick()

    async def main() -> None:
        async with listening(_echo, express=quick, frame_bytes_max=100) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(pack(">i", len(frame)) + frame)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await _read_frame(reader)
            writer.close()

    _run(main())
    assert quick.answered == 0


@pytest.mark.parametrize("waits_for_room", [False, True])
def test_a_request_that_is_handled_alone_survives_a_write_pause_for_the_answers_before_it(
    waits_for_room: bool,
) -> None:
    small = pack(">i", 20_000) + bytes(20_000)
    large = pack(">i", 40_000) + b"l" * 40_000
    alone: list[PendingResponse] = []

    def dispatch(connection: Connection, frame: memoryview) -> bool | None:
        if bytes(frame) == b"small":
            connection.answer_now([small])
            return None
        if not connection.begin_alone(frame):
            return True
        answer = PendingResponse()
        alone.append(answer)
        connection.answer_later(answer, cast(Encoded, lambda _response: [large]))
        return None

    async def main() -> None:
        async with listening(dispatch) as listener:  # type: ignore[arg-type]
            answers = listener.answers
            other = _Debtor()
            if waits_for_room:
                assert answers.take(other, answers.limit_bytes)
            connection = Connection(listener)
            peer = SlowPeer(connection)
            connection.connection_made(cast(Any, peer))
            peer.is_blocked = True
            _receive(connection, b"small")
            _receive(connection, b"small", b"alone", b"small")
            assert (peer.pending_bytes, peer.is_writing_paused) == (2 * len(small), True)
            if waits_for_room:
                alone[0].complete("answer")
            peer.drain()
            if waits_for_room:
                answers.give_back(other)
                while len(alone) == 1:
                    await asyncio.sleep(0)
            alone[-1].complete("answer")
            while len(peer.written) < 3 * len(small) + len(large):
                await asyncio.sleep(0)
            assert not connection.has_unanswered
            assert answers.used_bytes == 0
            connection.close()
            await asyncio.sleep(0)
            assert listener.memory.used_bytes == 0

    _run(main())


class _Debtor:
    peer_host = "other"
    unsent_bytes = 0

    def room_granted(self) -> None:
        raise AssertionError("it has room already")

    def close(self, reason: str | None = None) -> None:
        raise AssertionError(reason)


class SlowPeer:
    """A transport whose peer takes nothing while it is blocked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._high_bytes = 0
        self.is_blocked = False
        self.is_reading = True
        self.is_writing_paused = False
        self.pending_bytes = 0
        self.written = bytearray()

    def get_extra_info(self, _name: str) -> Any:
        return None

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self._high_bytes = high

    def get_write_buffer_size(self) -> int:
        return self.pending_bytes

    def abort(self) -> None:
        self.drain()
        asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data
        if self.is_blocked:
            self.pending_bytes += len(data)
            if self.pending_bytes > self._high_bytes and not self.is_writing_paused:
                self.is_writing_paused = True
                self._connection.pause_writing()

    def writelines(self, buffers: list[bytes]) -> None:
        self.write(b"".join(buffers))

    def drain(self) -> None:
        """The peer takes everything."""
        self.is_blocked = False
        self.pending_bytes = 0
        if self.is_writing_paused:
            self.is_writing_paused = False
            self._connection.resume_writing()


def _receive(connection: Connection, *frames: bytes) -> None:
    data = b"".join(pack(">i", len(frame)) + frame for frame in frames)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))
