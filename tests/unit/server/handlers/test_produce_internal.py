"""Who may write to the topics that a cluster keeps its own state in."""

from __future__ import annotations

import socket

import pytest
from tests.unit.server.asking import Asking, produce_request

from ottla.testing import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import read_response, request_frame
from ottla.wire.messages.produce import ProduceResponse

VERSION = 9


def _produce_as(client_id: str, port: int, topic: str, acks: int) -> ProduceResponse.PartitionProduceResponse:
    request = produce_request(topic, [b"x"], acks=acks)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request_frame(request, VERSION, 1, client_id))
        stream = connection.makefile("rb")
        size = int.from_bytes(stream.read(4), "big")
        response = read_response(stream.read(size), 0, VERSION)[1]
    answer: ProduceResponse.PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_only_an_admin_client_writes_to_an_internal_topic(topic: str, acks: int) -> None:
    with Broker() as broker, Asking(broker.port) as asking:
        asking.create_topic(topic)
        refused = _produce_as("somebody", broker.port, topic, acks)
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert refused.base_offset == -1
        assert _produce_as("__admin_client", broker.port, topic, acks).base_offset == 0
        assert asking.values(topic) == [b"x"]
