"""A small blocking client for tests: one request, its response, in any version."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from ottla.records.record import Record, build_batch, read_records
from ottla.wire.frame import read_response, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.produce import ProduceRequest


class Asking:
    """One connection. `ask` sends and waits; `send` and `receive` do one each."""

    def __init__(self, port: int, *, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), source_address=(host, 0))
        self.socket.settimeout(120)
        self._correlation_id = 0

    def ask(self, message: Message, version: int) -> Any:
        self.send(message, version)
        return self.receive(message, version)

    def send(self, message: Message, version: int) -> None:
        self._correlation_id += 1
        self.socket.sendall(request_frame(message, version, self._correlation_id, "test"))

    def receive(self, message: Message, version: int) -> Any:
        assert message.API_KEY is not None
        return read_response(self.receive_frame(), message.API_KEY, version)[1]

    def receive_frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            piece = self.socket.recv(count - len(parts))
            if not piece:
                raise EOFError("the connection was closed")
            parts += piece
        return bytes(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # Requests of most tests

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
        assert response.topics[0].error_code == 0, response.topics[0]

    def produce(self, topic: str, values: Sequence[bytes], *, partition: int = 0, acks: int = -1) -> Any:
        """The partition's part of the response."""
        return (
            self.ask(produce_request(topic, values, partition=partition, acks=acks), 9)
            .responses[0]
            .partition_responses[0]
        )

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1
    ) -> Any:
        """The partition's part of the response."""
        request = fetch_request(
            topic, offset, partition=partition, max_wait_ms=max_wait_ms, min_bytes=min_bytes
        )
        return self.ask(request, 12).responses[0].partitions[0]

    def values(self, topic: str, *, partition: int = 0) -> list[bytes | None]:
        """All values of a partition, from its beginning to its end."""
        found: list[bytes | None] = []
        offset = 0
        while True:
            answer = self.fetch(topic, offset, partition=partition)
            assert answer.error_code == 0, answer
            records = [one for one in read_records(whole(answer.records)) if one.offset >= offset]
            if not records:
                return found
            found += [one.value for one in records]
            offset = records[-1].offset + 1


def whole(records: memoryview) -> bytes:
    """Fetched bytes without a truncated last batch."""
    from ottla.records.batch import whole_batches_end

    return bytes(records[: whole_batches_end(records)])


def produce_request(
    topic: str, values: Sequence[bytes], *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    batch = build_batch([Record(index, 1_700_000_000_000, None, value) for index, value in enumerate(values)])
    data = ProduceRequest.PartitionProduceData(index=partition, records=memoryview(batch))
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_request(
    topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1
) -> FetchRequest:
    wanted = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )
