"""Requests to the first broker of a cluster that answers: its metadata, and the quorum leader."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

from ottla.wire.frame import FRAME_BYTES_MAX, read_response, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.metadata import MetadataRequest

ANSWER_SECONDS_MAX = 5.0


def ask_cluster(addresses: Iterable[tuple[str, int] | None]) -> tuple[Any, int | None]:
    """The metadata of all topics and the quorum leader, from the first broker that answers."""
    quorum = DescribeQuorumRequest.TopicData(
        topic_name="__cluster_metadata",
        partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)],
    )
    for address in addresses:
        if address is None:
            continue
        try:
            with socket.create_connection(address, ANSWER_SECONDS_MAX) as connection:
                every_topic = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                metadata = _exchange(connection, every_topic, 12)
                described = _exchange(connection, DescribeQuorumRequest(topics=[quorum]), 2)
        except (OSError, EOFError, ValueError):  # the next one may answer
            continue
        found = described.topics[0].partitions[0] if described.topics else None
        if found is None or found.error_code != 0 or found.leader_id < 0:
            return metadata, None
        return metadata, found.leader_id
    return None, None


def _exchange(connection: socket.socket, request: Message, version: int) -> Any:
    assert request.API_KEY is not None
    connection.sendall(request_frame(request, version, 0, "ottla-cluster"))
    size = int.from_bytes(_exactly(connection, 4), "big")
    if not 0 < size <= FRAME_BYTES_MAX:
        raise ValueError("the answer is not from a Kafka broker")
    return read_response(_exactly(connection, size), request.API_KEY, version)[1]


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        piece = connection.recv(min(count - len(received), 1 << 20))
        if not piece:
            raise EOFError("the connection was closed")
        received += piece
    return bytes(received)
