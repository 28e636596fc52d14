"""Requests that a broker hands on: as they came, and with the API's own error when nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import broker_of, connection_of, image_of

from ottla.log.file_slice import FileSlice
from ottla.server.handlers import FORWARDING, HANDLERS
from ottla.server.net.connection import Connection
from ottla.server.net.dispatch import Dispatcher
from ottla.server.net.forwarding import mentions_error
from ottla.wire import apis
from ottla.wire.errors import ErrorCode, RequestTimedOut, UnsupportedVersion
from ottla.wire.frame import read_response, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.elect_leaders import ElectLeadersResponse


class TimedOutQuorum:
    """What handlers find on a broker whose controller does not answer."""

    is_remote = True

    def __init__(self) -> None:
        self.kraft_version = 1

    async def submit(self, decision: object, *, timeout_ms: int | None = None) -> Any:
        raise RequestTimedOut("The active controller did not answer in time.")

    def describe_quorum(self, request: object) -> Any:
        raise RequestTimedOut("The active controller did not answer in time.")


class Recorded(Connection):
    """A connection that keeps what it should send."""

    sent: bytes = b""
    reason: str | None = None

    def answer_now(self, parts: list[Any]) -> None:
        self.sent += b"".join(bytes(part) for part in parts if not isinstance(part, FileSlice))

    def close(self, reason: str | None = None) -> None:
        self.reason = self.reason or reason or "closed"


def forwarded(
    request: Message, version: int, forward: Callable[[bytes, str, str], Awaitable[bytes]]
) -> Recorded:
    """What the client gets."""

    async def work() -> Recorded:
        broker = broker_of(image_of())
        broker.quorum = TimedOutQuorum()  # type: ignore[assignment]
        dispatcher = Dispatcher(broker, HANDLERS, "PLAINTEXT", "broker", forward=forward)
        connection = connection_of(broker)
        recorded = Recorded(connection._listener)
        recorded.peer_host = "10.1.2.3"
        recorded.is_closed = False
        dispatcher.dispatch(recorded, memoryview(request_frame(request, version, 5, "me")[4:]))
        while not (recorded.sent or recorded.reason):
            await asyncio.sleep(0)
        return recorded

    return asyncio.run(asyncio.wait_for(work(), 10))


def creation() -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name="a", num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000)


def test_the_controllers_bytes_come_back_as_they_are() -> None:
    seen: list[tuple[bytes, str, str]] = []

    async def forward(frame: bytes, principal: str, host: str) -> bytes:
        seen.append((frame, principal, host))
        return b"answer"

    recorded = forwarded(creation(), 7, forward)
    assert recorded.sent == b"\x00\x00\x00\x06answer"
    assert seen == [(request_frame(creation(), 7, 5, "me")[4:], "User:ANONYMOUS", "10.1.2.3")]


@pytest.mark.parametrize(("request_made", "key"), [(creation(), 19), (DescribeQuorumRequest(), 55)])
def test_a_controller_that_does_not_answer_is_a_timeout_in_the_apis_own_form(
    request_made: Message, key: int
) -> None:
    async def forward(frame: bytes, principal: str, host: str) -> bytes:
        raise RequestTimedOut("nobody is there")

    version = apis.API_BY_KEY[key].stable_versions[-1]
    recorded = forwarded(request_made, version, forward)
    correlation_id, response = read_response(recorded.sent[4:], key, version)
    assert correlation_id == 5
    assert mentions_error(response, ErrorCode.REQUEST_TIMED_OUT)


def test_a_request_that_the_controller_cannot_read_ends_the_connection() -> None:
    async def forward(frame: bytes, principal: str, host: str) -> bytes:
        raise UnsupportedVersion("too new for it")

    recorded = forwarded(creation(), 7, forward)
    assert recorded.reason == "its CreateTopics request was rejected: too new for it"


def test_an_error_is_found_wherever_it_stands() -> None:
    results = [CreateTopicsResponse.CreatableTopicResult(name="a", error_code=ErrorCode.NOT_CONTROLLER)]
    assert mentions_error(CreateTopicsResponse(topics=results), ErrorCode.NOT_CONTROLLER)
    assert not mentions_error(CreateTopicsResponse(topics=results), ErrorCode.REQUEST_TIMED_OUT)
    deep = ElectLeadersResponse(
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic="a",
                partition_result=[
                    ElectLeadersResponse.PartitionResult(partition_id=0, error_code=ErrorCode.NOT_CONTROLLER)
                ],
            )
        ]
    )
    assert mentions_error(deep, ErrorCode.NOT_CONTROLLER)


def test_whatever_is_handed_on_is_served_by_controllers() -> None:
    for key in FORWARDING:
        assert {"broker", "controller"} <= apis.API_BY_KEY[key].listeners
