"""The connections from one broker to others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.host import HostNetwork
from ottla.server.peers.broker_channels import BrokerChannels, BrokerUnknown
from ottla.wire.frame import FrameReader, response_frame
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse


def channels_to(port: int, *, is_fenced: bool = False, timeout_ms: int = 50) -> BrokerChannels:
    """Channels to broker 2 at this port; the follower's timeout is different."""
    registration = SimpleNamespace(
        fenced=is_fenced, endpoint=lambda _: SimpleNamespace(host="127.0.0.1", port=port)
    )
    settings = {"request.timeout.ms": 600_000, "replica.socket.timeout.ms": timeout_ms}
    parts = SimpleNamespace(
        node_id=1,
        image=SimpleNamespace(brokers={2: registration}),
        config=SimpleNamespace(int_of=settings.__getitem__, inter_broker_listener_name="INTERNAL"),
    )
    return BrokerChannels(cast(Any, parts), HostNetwork(), timeout_setting="replica.socket.timeout.ms")


def test_a_silent_broker_is_named_with_the_timeout_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # accepts, and never responds
        channels = channels_to(listening.getsockname()[1])
        with pytest.raises(
            TimeoutError, match=r"broker 2 did not answer for 50 ms \(replica.socket.timeout.ms\)"
        ):
            asyncio.run(channels.ask(2, FetchRequest()))


def test_a_fenced_broker_gets_no_request() -> None:
    with pytest.raises(BrokerUnknown, match="Broker 2 is not alive"):
        asyncio.run(channels_to(1, is_fenced=True).ask(2, FetchRequest()))


class Repeater:
    """Takes responses until one has another throttle time than none."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def begin(self, request: FetchRequest, version: int, client_id: str) -> bool:
        self.version = version
        return request.max_wait_ms > 0

    def take(self, frame: bytes, correlation_id: int) -> bytes | None:
        if frame[5:9] != bytes(4):
            return None
        self.taken.append(correlation_id)
        request = b"\0\1" + self.version.to_bytes(2, "big") + (correlation_id + 1).to_bytes(4, "big")
        return len(request).to_bytes(4, "big") + request


class Leader:
    """Answers fetches with these throttle times, then not at all."""

    def __init__(self, *throttle_times: int) -> None:
        self.times = list(throttle_times)
        self.asked: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        with contextlib.closing(writer):
            while received := await reader.read(65536):
                for frame in frames.feed(received):
                    writer.write(self.answer(frame[1], frame[3], int.from_bytes(frame[4:8], "big")))

    def answer(self, key: int, version: int, correlation_id: int) -> bytes:
        if key != 1:
            served = ApiVersionsResponse.ApiVersion(api_key=1, min_version=4, max_version=18)
            return response_frame(ApiVersionsResponse(api_keys=[served]), version, correlation_id)
        self.asked.append(correlation_id)
        if not self.times:
            return b""
        response = FetchResponse(throttle_time_ms=self.times.pop(0))
        return response_frame(response, version, correlation_id)


def ask_repeatedly(leader: Leader, request: FetchRequest, *, timeout_ms: int) -> tuple[Any, list[int]]:
    repeater = Repeater()

    async def main() -> Any:
        server = await asyncio.start_server(leader.serve, "127.0.0.1", 0)
        channels = channels_to(server.sockets[0].getsockname()[1], timeout_ms=timeout_ms)
        try:
            return await channels.ask_repeatedly(2, request, repeater)
        finally:
            channels.close()
            server.close()

    return asyncio.run(main()), repeater.taken


def test_the_answer_is_the_first_response_that_the_repeater_leaves() -> None:
    leader = Leader(0, 0, 0, 7)
    response, taken = ask_repeatedly(leader, FetchRequest(max_wait_ms=1), timeout_ms=60_000)
    assert response.throttle_time_ms == 7
    assert taken == [2, 3, 4]
    assert leader.asked == [2, 3, 4, 5]


def test_a_request_that_the_repeater_refuses_is_asked_once() -> None:
    response, taken = ask_repeatedly(Leader(0), FetchRequest(max_wait_ms=0), timeout_ms=60_000)
    assert (response.throttle_time_ms, taken) == (0, [])


def test_a_broker_that_falls_silent_between_repeated_requests_is_named() -> None:
    leader = Leader(0, 0)
    with pytest.raises(TimeoutError, match="broker 2 did not answer for 500 ms"):
        ask_repeatedly(leader, FetchRequest(max_wait_ms=1), timeout_ms=500)
    assert leader.asked == [2, 3, 4]
