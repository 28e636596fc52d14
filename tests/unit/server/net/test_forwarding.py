"""Requests that a broker hands on: as they came, and with the API's own error when nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import (
    CONTROLLER_LISTENER,
    broker_of,
    connection_of,
    context_of,
    image_of,
)

from ottla.log.file_slice import FileSlice
from ottla.server.handlers import FORWARDING, HANDLERS, REFUSING
from ottla.server.net.connection import Connection
from ottla.server.net.dispatch import Dispatcher
from ottla.server.peers.controller_channel import mentions_error
from ottla.wire import apis
from ottla.wire.errors import ErrorCode, NotController, RequestTimedOut, UnsupportedVersion
from ottla.wire.frame import read_response, request_frame, response_frame
from ottla.wire.message import Message
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest

_IncrementalResource = IncrementalAlterConfigsRequest.AlterConfigsResource
_IncrementalResponse = IncrementalAlterConfigsResponse


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
    request: Message,
    version: int,
    forward: Callable[[bytes, str, str], Awaitable[bytes]],
    quorum: TimedOutQuorum | None = None,
) -> Recorded:
    """What the client gets."""

    async def work() -> Recorded:
        broker = broker_of(image_of())
        broker.quorum = quorum or TimedOutQuorum()  # type: ignore[assignment]
        dispatcher = Dispatcher(broker, HANDLERS, "PLAINTEXT", "broker", forward=forward)
        connection = connection_of()
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


class MovingQuorum(TimedOutQuorum):
    """The active controller is here when a request comes, and elsewhere when it is decided."""

    is_remote = False

    async def submit(self, decision: object, *, timeout_ms: int | None = None) -> Any:
        self.is_remote = True
        raise NotController("This node is no longer the active controller.")


class StoppingQuorum(TimedOutQuorum):
    """A controller that stops and knows no other."""

    is_remote = False

    async def submit(self, decision: object, *, timeout_ms: int | None = None) -> Any:
        raise NotController("This controller is shutting down.")


async def no_forward(frame: bytes, principal: str, host: str) -> bytes:
    pytest.fail("it was forwarded")


def test_a_request_follows_a_controller_that_moves_while_it_is_decided() -> None:
    frames: list[bytes] = []

    async def forward(frame: bytes, principal: str, host: str) -> bytes:
        frames.append(frame)
        return b"answer"

    assert forwarded(creation(), 7, forward, MovingQuorum()).sent == b"\x00\x00\x00\x06answer"
    assert frames == [request_frame(creation(), 7, 5, "me")[4:]]


def test_the_part_for_the_controller_follows_one_that_moves_while_it_is_decided() -> None:
    class Forwards(MovingQuorum):
        async def forward(self, frame: bytes, principal: str, host: str) -> bytes:
            done = _IncrementalResponse.AlterConfigsResourceResponse(resource_type=2, resource_name="a")
            return response_frame(_IncrementalResponse(responses=[done]), 1, 5)[4:]

    resources = [_IncrementalResource(resource_type=2, resource_name="a")]
    made = IncrementalAlterConfigsRequest(resources=resources)
    recorded = forwarded(made, 1, no_forward, Forwards())
    (answer,) = read_response(recorded.sent[4:], 44, 1)[1].responses
    assert (answer.resource_name, answer.error_code) == ("a", 0)


def requests_of_a_change() -> list[Message]:
    """One of each API whose handler lets the errors of the controller through."""
    return [
        creation(),
        DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="a")], timeout_ms=5000),
        AlterConfigsRequest(
            resources=[AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="a")]
        ),
        CreatePartitionsRequest(
            topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=2)], timeout_ms=5000
        ),
        ElectLeadersRequest(
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="a", partitions=[0])], timeout_ms=5000
        ),
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="a")
            ]
        ),
        AlterPartitionReassignmentsRequest(timeout_ms=5000),
        AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequest.EntryData(
                    entity=[AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="a")],
                    ops=[AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1.0)],
                )
            ]
        ),
        AlterUserScramCredentialsRequest(
            deletions=[AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="a", mechanism=1)]
        ),
        UpdateFeaturesRequest(),
        UnregisterBrokerRequest(broker_id=7),
    ]


def test_the_requests_here_are_all_that_can_be_refused() -> None:
    assert {request.API_KEY for request in requests_of_a_change()} == REFUSING


@pytest.mark.parametrize("made", requests_of_a_change(), ids=lambda request: request.NAME)
def test_a_controller_that_knows_no_other_says_so_in_the_form_of_each_api(made: Message) -> None:
    assert made.API_KEY is not None
    version = apis.API_BY_KEY[made.API_KEY].stable_versions[-1]
    recorded = forwarded(made, version, no_forward, StoppingQuorum())
    correlation_id, response = read_response(recorded.sent[4:], made.API_KEY, version)
    assert correlation_id == 5
    assert mentions_error(response, ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize("made", requests_of_a_change(), ids=lambda request: request.NAME)
def test_a_request_in_an_envelope_gives_the_error_to_the_envelope(made: Message) -> None:
    assert made.API_KEY is not None
    version = apis.API_BY_KEY[made.API_KEY].stable_versions[-1]

    async def work() -> None:
        broker, frame = broker_of(image_of()), request_frame(made, version, 5, "me")[4:]
        broker.quorum = StoppingQuorum()  # type: ignore[assignment]
        dispatcher = Dispatcher(broker, HANDLERS, "CONTROLLER", "controller")
        context = context_of(0, CONTROLLER_LISTENER)
        with pytest.raises(NotController):
            await dispatcher.answer_embedded(frame, context, "User:a")
        timed_out = TimedOutQuorum()
        timed_out.is_remote = False
        broker.quorum = timed_out  # type: ignore[assignment]
        answer = await dispatcher.answer_embedded(
            request_frame(made, version, 5, "me")[4:], context, "User:a"
        )
        assert made.API_KEY is not None
        correlation_id, response = read_response(answer, made.API_KEY, version)
        assert correlation_id == 5
        assert mentions_error(response, ErrorCode.REQUEST_TIMED_OUT)

    asyncio.run(work())


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
