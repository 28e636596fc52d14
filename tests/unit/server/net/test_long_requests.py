"""Requests that take more than one slice: others run meanwhile, and what a client sees stays in order.

The clock moves by a millisecond whenever it is looked at, so a slice ends after a few steps on every machine.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.coordinator.groups.shards import outcome_of
from tests.unit.server.handlers.support import broker_of, image_of

from ottla.host import HostClock, HostNetwork
from ottla.server.broker import Broker
from ottla.server.net import step_runner
from ottla.server.net.connection import READ_BUFFER_BYTES
from ottla.server.net.connection_quotas import ConnectionLimits, ConnectionQuotas
from ottla.server.net.dispatch import Api, Dispatcher, RequestContext
from ottla.server.net.forwarding import Handle
from ottla.server.net.listener import Listener, ListenerSettings
from ottla.server.net.long_requests import REPEATS_MAX, Steps, few_repeats
from ottla.server.net.request_memory import RequestMemory
from ottla.server.net.response_memory import ResponseMemory
from ottla.server.net.step_runner import AT_ONCE_MAX, FREED_IN_STEP, long_lists
from ottla.server.net.turns import Turns
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import codec
from ottla.wire import frame as frames
from ottla.wire.errors import MalformedMessage
from ottla.wire.message import Message
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

LONG, SHORT = 42, 12
_Result = DeleteGroupsResponse.DeletableGroupResult


class StepClock(HostClock):
    """Moves by a millisecond at each look."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return self.looks / 1000


class Work:
    """A handler of DeleteGroups in steps, one for each group, and one of Heartbeat; what they did in turn."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.gate = asyncio.Event()
        self.closed = 0
        self.later: PendingResponse | None = None
        self.handle_long: Handle = self.long
        self.handle_short: Handle = self.short

    def long(self, _broker: Broker, request: DeleteGroupsRequest, _context: RequestContext) -> Steps[Any]:
        self.events.append("begun")
        response = DeleteGroupsResponse()
        try:
            for group_id in request.groups_names:
                while group_id == "wait" and not self.gate.is_set():
                    yield
                response.results.append(_Result(group_id=group_id))
                yield
        except GeneratorExit:
            self.closed += 1
            raise
        self.events.append("done")
        if self.later is not None:
            self.later.complete(response)
            return self.later
        return response

    def short(self, _broker: Broker, _request: Any, _context: RequestContext) -> HeartbeatResponse:
        self.events.append("short")
        return HeartbeatResponse()


@asynccontextmanager
async def _serving(
    work: Work,
    memory: RequestMemory | None = None,
    *,
    answers: ResponseMemory | None = None,
    amplifies: bool = False,
) -> AsyncIterator[Listener]:
    broker = broker_of(image_of(), clock=StepClock())
    listener = Listener(
        ListenerSettings(
            name="PLAINTEXT", host="127.0.0.1", port=0, frame_bytes_max=1 << 24, idle_max_ms=600_000
        ),
        clock=HostClock(),
        memory=memory or RequestMemory(1 << 26),
        answers=answers or ResponseMemory(1 << 26),
        quotas=ConnectionQuotas(HostClock(), ConnectionLimits()),
        lateness=broker.lateness,
        turns=Turns(HostClock()),
    )
    await listener.bind(HostNetwork())
    handlers = [Api(LONG, work.handle_long, amplifies=amplifies), Api(SHORT, work.handle_short)]
    await listener.serve(Dispatcher(broker, handlers, "PLAINTEXT", "broker"))
    try:
        yield listener
    finally:
        await listener.close()


def _names(count: int, *last: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=[f"group-{index}" for index in range(count)] + list(last))


def _frame(request: Message, correlation_id: int = 1) -> bytes:
    return frames.request_frame(request, 2, correlation_id, "tests")


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    size = int.from_bytes(await reader.readexactly(4), "big")
    body = await reader.readexactly(size)
    return int.from_bytes(body[:4], "big"), body


def _decoded(body: bytes) -> list[str]:
    response = codec.decode(DeleteGroupsResponse, body, 2, 5)
    return [result.group_id for result in response.results]


async def _until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0)


def _run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


@pytest.mark.parametrize("count", [3, 100, 5_000, 40_000], ids=["short", "handled", "read", "large"])
def test_a_request_of_any_length_is_answered_whole(count: int) -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 24)
            request = _names(count)
            writer.write(_frame(request, 7))
            correlation_id, body = await _answer(reader)
            assert correlation_id == 7
            assert _decoded(body) == request.groups_names
            writer.close()

    _run(main())


def test_another_connection_is_served_while_a_long_request_goes_on() -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            other_reader, other = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_frame(_names(10, "wait")))
            await _until(lambda: work.events)
            other.write(_frame(HeartbeatRequest()))
            await _answer(other_reader)
            assert work.events == ["begun", "short"]
            work.gate.set()
            assert len(_decoded((await _answer(reader))[1])) == 11
            writer.close()
            other.close()

    _run(main())


def test_requests_behind_a_long_one_wait_until_it_is_handled_and_answers_keep_their_order() -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_frame(_names(10, "wait"), 1) + _frame(HeartbeatRequest(), 2))
            await _until(lambda: work.events)
            writer.write(_frame(HeartbeatRequest(), 3))
            for _ in range(100):
                await asyncio.sleep(0)
            assert work.events == ["begun"]
            work.gate.set()
            assert [(await _answer(reader))[0] for _ in range(3)] == [1, 2, 3]
            assert work.events == ["begun", "done", "short", "short"]
            writer.close()

    _run(main())


def test_a_long_request_whose_answer_comes_later_is_answered_in_its_turn() -> None:
    async def main() -> None:
        work = Work()
        work.later = PendingResponse()
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            request = _names(1_000)
            writer.write(_frame(request, 1) + _frame(HeartbeatRequest(), 2))
            correlation_id, body = await _answer(reader)
            assert correlation_id == 1
            assert _decoded(body) == request.groups_names
            assert (await _answer(reader))[0] == 2
            writer.close()

    _run(main())


def test_a_frame_that_is_read_in_slices_is_not_changed_by_what_arrives_meanwhile() -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work) as listener:
            first_reader, first = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 24)
            second_reader, second = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 24)
            request, other = _names(15_000), DeleteGroupsRequest(groups_names=["x" * 12] * 12_000)
            assert len(_frame(request)) < READ_BUFFER_BYTES
            first.write(_frame(request))
            second.write(_frame(other))
            assert _decoded((await _answer(first_reader))[1]) == request.groups_names
            assert _decoded((await _answer(second_reader))[1]) == other.groups_names
            first.close()
            second.close()

    _run(main())


def test_a_long_request_ends_with_its_connection_and_gives_its_memory_back() -> None:
    async def main() -> None:
        work, memory = Work(), RequestMemory(1 << 26)
        async with _serving(work, memory) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            frame = _frame(_names(30_000, "wait"))
            writer.write(frame)
            await _until(lambda: work.events)
            assert memory.used_bytes >= len(frame) - 4, "a frame is in the budget until it is handled"
            next(iter(listener.connections)).close()
            await _until(lambda: work.closed)
            await _until(lambda: not memory.used_bytes)
            assert work.events == ["begun"]
            writer.close()

    _run(main())


def test_few_long_requests_are_under_way_at_a_time() -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work) as listener:
            opened = [
                await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 24)
                for _ in range(3 * AT_ONCE_MAX)
            ]
            for _, writer in opened:
                writer.write(_frame(_names(3_000, "wait")))
            await _until(lambda: len(work.events) >= AT_ONCE_MAX)
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert work.events == ["begun"] * AT_ONCE_MAX
            work.gate.set()
            for reader, writer in opened:
                assert len(_decoded((await _answer(reader))[1])) == 3_001
                writer.close()

    _run(main())


def test_a_long_frame_that_cannot_be_read_closes_its_connection() -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            frame = _frame(_names(30_000))[:-1000]
            writer.write((len(frame) - 4).to_bytes(4, "big") + frame[4:])
            assert await reader.read() == b""
            assert work.events == []
            writer.close()

    _run(main())


def test_no_garbage_is_collected_while_a_long_request_goes_on() -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_frame(_names(10, "wait")))
            await _until(lambda: work.events)
            await _until(lambda: not gc.isenabled())
            work.gate.set()
            await _answer(reader)
            assert gc.isenabled()
            writer.close()

    assert gc.isenabled()
    _run(main())


@pytest.mark.parametrize("is_coroutine", [True, False])
def test_what_a_request_named_is_freed_in_steps_once_its_answer_is_there(is_coroutine: bool) -> None:
    """Whoever brings the answer later may be the last to have the request."""
    count = 20 * FREED_IN_STEP

    class Name(str):
        alive = 0

        def __new__(cls, text: str) -> Name:
            cls.alive += 1
            return super().__new__(cls, text)

        def __del__(self) -> None:
            Name.alive -= 1

    async def main() -> None:
        later: list[PendingResponse] = []

        def handle(_broker: Broker, request: DeleteGroupsRequest, _context: RequestContext) -> Any:
            request.groups_names = [Name(name) for name in request.groups_names]

            async def answer() -> DeleteGroupsResponse:
                assert request.groups_names
                return DeleteGroupsResponse()

            if is_coroutine:
                return answer()
            later.append(PendingResponse())
            return later[0]

        work = Work()
        work.handle_long = handle
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_frame(_names(count)))
            seen = [0]
            while seen[-1] or len(seen) == 1:
                for one in later:
                    one.complete(DeleteGroupsResponse())
                await asyncio.sleep(0)
                if Name.alive != seen[-1]:
                    seen.append(Name.alive)
            assert seen[1] == count
            freed = [before - after for before, after in pairwise(seen[1:])]
            assert max(freed) < count / 2, "in several turns of the loop"
            await _answer(reader)
            writer.close()

    _run(main())


def test_garbage_is_collected_while_a_long_request_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_runner, "PAUSE_S_MAX", 10_000)

    async def main() -> None:
        answer = PendingResponse()

        def handle(
            _broker: Broker, request: DeleteGroupsRequest, _context: RequestContext
        ) -> Steps[PendingResponse]:
            for _ in request.groups_names:
                yield
            work.events.append("handled")
            return answer

        work = Work()
        work.handle_long = handle
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_frame(_names(1_000)))
            await _until(lambda: work.events)
            await _until(gc.isenabled)
            assert not answer.is_completed
            answer.complete(DeleteGroupsResponse())
            await _answer(reader)
            assert gc.isenabled()
            writer.close()

    _run(main())


def test_a_request_that_is_answered_later_leaves_no_garbage() -> None:
    async def main() -> None:
        def handle(_broker: Broker, _request: Any, _context: RequestContext) -> Steps[PendingResponse]:
            yield
            answer = PendingResponse()
            asyncio.get_running_loop().call_soon(answer.complete, DeleteGroupsResponse())
            return answer

        work = Work()
        work.handle_long = handle
        async with _serving(work) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            gc.collect()
            gc.disable()
            try:
                for _ in range(100):
                    writer.write(_frame(_names(3)))
                    await _answer(reader)
                assert gc.collect() < 100
            finally:
                gc.enable()
            writer.close()

    _run(main())


def test_what_was_read_of_a_refused_frame_comes_with_the_error_so_that_it_can_be_freed_in_steps() -> None:
    encoded = codec.encode(_names(1_000), 2)[:-100]
    with pytest.raises(MalformedMessage) as caught:
        outcome_of(codec.sliced_decoder(DeleteGroupsRequest, 2)(encoded, 0))
    (names,) = long_lists(caught.value.unfinished)
    assert len(names) > 900


@pytest.mark.parametrize(("repeats", "left"), [(REPEATS_MAX, REPEATS_MAX + 2), (REPEATS_MAX + 1, 2)])
def test_few_repeats_stay_and_many_are_merged(repeats: int, left: int) -> None:
    kept = outcome_of(few_repeats(["b", "a"] + ["b"] * repeats))
    assert kept[:2] == ["b", "a"]
    assert len(kept) == left


def test_a_request_that_may_have_a_large_answer_is_handled_after_all_before_it_and_before_all_behind_it() -> (
    None
):
    async def main() -> None:
        work, held = Work(), PendingResponse()

        def hold(*_: object) -> PendingResponse:
            work.events.append("short")
            return held

        work.handle_short = hold
        async with _serving(work, amplifies=True) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(_frame(HeartbeatRequest(), 1) + _frame(_names(10, "wait"), 2))
            writer.write(_frame(HeartbeatRequest(), 3))
            await _until(lambda: work.events)
            for _ in range(100):
                await asyncio.sleep(0)
            assert work.events == ["short"]
            held.complete(HeartbeatResponse())
            await _until(lambda: len(work.events) > 1)
            for _ in range(100):
                await asyncio.sleep(0)
            assert work.events == ["short", "begun"]
            work.gate.set()
            assert [(await _answer(reader))[0] for _ in range(3)] == [1, 2, 3]
            assert work.events == ["short", "begun", "done", "short"]
            writer.close()

    _run(main())


def test_a_large_answer_for_which_there_is_no_room_is_dropped_and_made_again_once_there_is() -> None:
    async def main() -> None:
        work, memory, answers = Work(), RequestMemory(1 << 26), ResponseMemory(1)
        first = _Reader()
        assert answers.take(first, 1)
        async with _serving(work, memory, answers=answers, amplifies=True) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 24)
            request = _names(5_000)
            writer.write(_frame(request, 1) + _frame(HeartbeatRequest(), 2))
            await _until(lambda: "done" in work.events)
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert work.events == ["begun", "done"]
            other_reader, other = await asyncio.open_connection("127.0.0.1", listener.port)
            other.write(_frame(_names(3), 9))
            assert (await _answer(other_reader))[0] == 9, "a small answer needs no room"
            answers.give_back(first)
            correlation_id, body = await _answer(reader)
            assert correlation_id == 1
            assert _decoded(body) == request.groups_names
            assert (await _answer(reader))[0] == 2
            assert work.events == ["begun", "done"] * 3 + ["short"]
            await _until(lambda: not answers.used_bytes and not memory.used_bytes)
            writer.close()
            other.close()

    _run(main())


def test_a_connection_that_waits_for_room_and_is_lost_keeps_nothing() -> None:
    async def main() -> None:
        work, memory, answers = Work(), RequestMemory(1 << 26), ResponseMemory(1)
        first = _Reader()
        assert answers.take(first, 1)
        async with _serving(work, memory, answers=answers, amplifies=True) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 24)
            writer.write(_frame(_names(5_000)))
            await _until(lambda: "done" in work.events)
            await _until(lambda: memory.used_bytes)
            next(iter(listener.connections)).close()
            await _until(lambda: not listener.connections)
            answers.give_back(first)
            assert (answers.used_bytes, memory.used_bytes) == (0, 0)
            writer.close()

    _run(main())


def test_large_answers_are_begun_by_a_few_requests_at_a_time_and_others_wait_as_frames() -> None:
    async def main() -> None:
        work = Work()
        async with _serving(work, amplifies=True) as listener:
            opened = [
                await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(3 * AT_ONCE_MAX)
            ]
            for _, writer in opened:
                writer.write(_frame(_names(10, "wait")))
            await _until(lambda: len(work.events) == len(opened))
            assert work.closed == 2 * AT_ONCE_MAX
            work.gate.set()
            for reader, writer in opened:
                assert len(_decoded((await _answer(reader))[1])) == 11
                writer.close()

    _run(main())


class _Reader:
    """Another connection that owes a large answer."""

    peer_host = "elsewhere"
    unsent_bytes = 1

    def close(self, reason: str | None = None) -> None: ...

    def room_granted(self) -> None: ...
