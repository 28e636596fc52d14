"""The channel to a controller that moves, disappears and returns: requests are retried until answered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from tests.unit.reports import reported

from ottla.host import HostClock
from ottla.server.peers.controller_channel import Address, ControllerChannel
from ottla.wire.errors import ErrorCode, RequestTimedOut, StaleBrokerEpoch
from ottla.wire.message import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

OLD, NEW = ("old", 1), ("new", 2)


class ScriptedChannel(ControllerChannel):
    """Each attempt gets the next item of the script: a response, or an error to raise."""

    def __init__(self, *script: Message | OSError | asyncio.Future[Any]) -> None:
        super().__init__(
            cast(Any, None),
            HostClock(),
            lambda: self.controller,
            client_id="test",
            retry_seconds=0.001,
            socket_timeout_ms=10_000,
        )
        self.controller: Address | None = OLD
        self.script = list(script)
        self.asked: list[Address] = []

    async def _ask_once(self, address: Address, request: Message) -> Any:
        self.asked.append(address)
        step = self.script.pop(0)
        if isinstance(step, OSError):
            raise step
        if isinstance(step, asyncio.Future):
            return await step
        if step == MOVED:
            self.controller = NEW
        return step


MOVED = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
BEAT = BrokerHeartbeatRequest(broker_id=1)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


def test_a_request_to_an_old_controller_goes_to_the_next() -> None:
    answer = BrokerHeartbeatResponse(is_caught_up=True)

    async def work() -> None:
        channel = ScriptedChannel(MOVED, answer)
        assert await channel.ask(BEAT, timeout_ms=5000) == answer
        assert channel.asked == [OLD, NEW]

    run(work())


def test_not_controller_for_one_topic_is_retried() -> None:
    result = CreateTopicsResponse.CreatableTopicResult(name="a", error_code=ErrorCode.NOT_CONTROLLER)
    done = CreateTopicsResponse()

    async def work() -> None:
        channel = ScriptedChannel(CreateTopicsResponse(topics=[result]), done)
        assert await channel.ask(CreateTopicsRequest(), timeout_ms=5000) == done

    run(work())


def test_a_broken_connection_is_retried() -> None:
    answer = BrokerHeartbeatResponse()

    async def work() -> None:
        channel = ScriptedChannel(ConnectionRefusedError("refused"), ConnectionResetError("reset"), answer)
        assert await channel.ask(BEAT, timeout_ms=5000) == answer

    run(work())


def test_the_controllers_error_is_raised() -> None:
    async def work() -> None:
        channel = ScriptedChannel(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        with pytest.raises(StaleBrokerEpoch):
            await channel.ask(BEAT, timeout_ms=5000)

    run(work())


def test_a_timeout_names_the_last_problem() -> None:
    async def work() -> None:
        channel = ScriptedChannel()
        channel.controller = None
        with pytest.raises(RequestTimedOut, match="no active controller is known"):
            await channel.ask(BEAT, timeout_ms=20)
        channel = ScriptedChannel(asyncio.get_running_loop().create_future())
        with pytest.raises(RequestTimedOut, match="old:1 does not answer"):
            await channel.ask(BEAT, timeout_ms=20)

    run(work())


def test_a_controller_that_kept_refusing_is_not_called_silent() -> None:
    """The timeout, not the controller, ends the last of many attempts."""

    class Clock(HostClock):
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    class LateChannel(ScriptedChannel):
        async def _ask_once(self, address: Address, request: Message) -> Any:
            clock.now += 0.99  # of the second that is available
            return await super()._ask_once(address, request)

    clock = Clock()

    async def work() -> None:
        channel = LateChannel(ConnectionRefusedError("refused."), asyncio.get_running_loop().create_future())
        channel._clock = clock
        with pytest.raises(RequestTimedOut, match=r"old:1 is unreachable: refused\.$"):
            await channel.ask(BEAT, timeout_ms=1000)
        assert len(channel.asked) == 2

    run(work())


def test_a_failure_during_a_cancellation_is_not_reported() -> None:
    async def work() -> None:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        channel = ScriptedChannel(answer)
        asking = asyncio.ensure_future(channel.ask(BEAT, timeout_ms=5000))
        while not channel.asked:
            await asyncio.sleep(0)
        answer.set_exception(ConnectionResetError("reset"))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        del asking, answer
        await asyncio.sleep(0)

    assert reported(work()) == []


def test_a_response_during_a_cancellation_does_not_undo_it() -> None:
    """asyncio.wait_for of Python 3.11 does that, and a loop that should stop would run forever."""

    async def work() -> None:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        channel = ScriptedChannel(answer)
        asking = asyncio.ensure_future(channel.ask(BEAT, timeout_ms=5000))
        while not channel.asked:
            await asyncio.sleep(0)
        answer.set_result(BrokerHeartbeatResponse())
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    run(work())
