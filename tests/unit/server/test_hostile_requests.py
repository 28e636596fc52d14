"""Inputs that brought down, or tricked, servers of this kind before: each gets its refusal and harms nothing.

The node is a process of its own, so that its memory can be read: whatever is sent, it grows by less than four
times the largest frame (or what the records of one batch may grow to) and 64 MB. What it had before may hold
the memory of earlier requests: it is freed in steps, and goes back to the system every half minute.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
from tests.unit.server.asking import Asking, produce_request

from ottla.records.batch import HEADER_BYTES, Codec, write_crc
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, compress
from ottla.records.record import Record, build_batch
from ottla.testing import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.primitives import unsigned_varint

FRAME_BYTES_MAX = 16 * 1024 * 1024
GROWTH_BYTES_MAX = max(4 * FRAME_BYTES_MAX, DECOMPRESSED_BYTES_MAX) + 64 * 1024 * 1024
MEMORY_BYTES_MAX = GROWTH_BYTES_MAX + 96 * 1024 * 1024
INT_MAX = 2**31 - 1


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"socket.request.max.bytes": str(FRAME_BYTES_MAX), "message.max.bytes": "1048588"}
    with Broker(settings, in_process=False) as running:
        with Asking(running.port) as asking:
            asking.create_topic("kept")
            assert asking.produce("kept", [b"first"]).error_code == 0
        yield running


def memory_bytes(broker: Broker, name: str) -> int:
    """The node's memory according to the system: VmRSS now, VmHWM at its peak."""
    status = Path(f"/proc/{broker.process_id}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name))


@pytest.fixture(autouse=True)
def _unharmed(broker: Broker) -> Iterator[None]:
    """After each case the node serves, has its data, and has not exceeded its memory limit."""
    Path(f"/proc/{broker.process_id}/clear_refs").write_text("5")  # resets the peak
    before = memory_bytes(broker, "VmRSS")
    yield
    with Asking(broker.port) as asking:
        assert asking.values("kept")[0] == b"first"
    peak = memory_bytes(broker, "VmHWM")
    assert peak < MEMORY_BYTES_MAX, f"{peak / 2**20:.0f} MB"
    assert peak - before < GROWTH_BYTES_MAX, f"{before / 2**20:.0f} MB grew to {peak / 2**20:.0f} MB"
    assert "Traceback" not in broker.log_text, broker.log_text


def sent(broker: Broker, payload: bytes) -> bytes:
    """The response; empty if the node closed the connection without one."""
    with socket.create_connection(("127.0.0.1", broker.port)) as connection:
        connection.settimeout(120)
        answer = b""
        try:
            connection.sendall(payload)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            return answer  # closed during our send
        return answer


def frame(
    key: int, version: int, body: bytes, *, header_tags: bytes = b"\x00", flexible: bool = True
) -> bytes:
    header = pack(">hhih", key, version, 1, 1) + b"x" + (header_tags if flexible else b"")
    return pack(">i", len(header) + len(body)) + header + body


@pytest.mark.parametrize("size", [INT_MAX, -1, -(2**31), FRAME_BYTES_MAX + 1])
def test_a_frame_of_an_impossible_size_closes_the_connection(broker: Broker, size: int) -> None:
    assert sent(broker, pack(">i", size) + b"\x00" * 64) == b""


@pytest.mark.parametrize("count", [INT_MAX, 1_000_000, 33])
def test_an_array_with_a_wrong_length_closes_the_connection(broker: Broker, count: int) -> None:
    body = pack(">i", count) + b"\x00" * 32
    assert sent(broker, frame(3, 4, body, flexible=False)) == b""  # Metadata: topics


@pytest.mark.parametrize("length", [32767, -1, -2, -32768])
def test_a_string_with_a_wrong_length_closes_the_connection(broker: Broker, length: int) -> None:
    body = pack(">ih", 1, length) + b"abc"
    assert sent(broker, frame(3, 4, body, flexible=False)) == b""


@pytest.mark.parametrize("length", [INT_MAX, -2, -(2**31)])
def test_records_with_a_wrong_length_are_refused(broker: Broker, length: int) -> None:
    body = pack(">hhi", -1, -1, 1000) + pack(">i", 1) + pack(">h", 4) + b"kept" + pack(">i", 1)
    body += pack(">ii", 0, length) + b"\x00" * 61
    answer = sent(broker, frame(0, 8, body, flexible=False) + b"")
    assert len(answer) < 200


def tags(count: int) -> bytes:
    return unsigned_varint(count) + b"".join(unsigned_varint(tag) + b"\x00" for tag in range(1000)) * (
        count // 1000
    )


def test_millions_of_tagged_fields_in_a_header_are_refused(broker: Broker) -> None:
    assert sent(broker, frame(3, 12, b"", header_tags=tags(4_000_000))) == b""


def test_millions_of_tagged_fields_in_a_body_are_refused(broker: Broker) -> None:
    body = b"\x01" + b"\x00\x00" + tags(4_000_000)
    assert sent(broker, frame(3, 12, body)) == b""


def test_many_tagged_fields_in_each_of_many_structs_are_refused(broker: Broker) -> None:
    topic = bytes(16) + b"\x01" + tags(1000)
    count = 4000
    body = unsigned_varint(count + 1) + topic * count + b"\x00\x00\x00"
    assert sent(broker, frame(3, 12, body)) == b""


def test_millions_of_empty_elements_are_refused(broker: Broker) -> None:
    count = 5_000_000
    body = unsigned_varint(count + 1) + b"\x02a\x00" * count + b"\x00\x00\x00"
    assert sent(broker, frame(3, 9, body)) == b""


def test_millions_of_numbers_are_refused(broker: Broker) -> None:
    count = 3_500_000
    topic = b"\x05kept" + unsigned_varint(count + 1) + b"\x00\x00\x00\x01" * count + b"\x00"
    assert sent(broker, frame(43, 2, b"\x00" + b"\x02" + topic + pack(">i", 1000) + b"\x00")) == b""


def test_long_strings_of_wide_characters_are_refused(broker: Broker) -> None:
    text = "a" * 32_000 + "\N{DROMEDARY CAMEL}"
    encoded = text.encode()
    count = 500
    topic = bytes(16) + unsigned_varint(len(encoded) + 1) + encoded + b"\x00"
    assert sent(broker, frame(3, 12, unsigned_varint(count + 1) + topic * count + b"\x00\x00\x00")) == b""


@pytest.mark.parametrize(
    ("codec", "megabytes"), [(Codec.GZIP, 256), (Codec.ZSTD, 256), (Codec.LZ4, 200), (Codec.SNAPPY, 18)]
)
def test_a_decompression_bomb_is_refused(broker: Broker, codec: Codec, megabytes: int) -> None:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"x")], codec=codec)[:HEADER_BYTES]
    batch += compress(codec, bytes(megabytes * 2**20))
    assert len(batch) < 1_048_588
    batch[8:12] = pack(">i", len(batch) - 12)
    write_crc(batch, 0, len(batch))
    request = produce_request("kept", [b"x"])
    request.topic_data[0].partition_data[0].records = memoryview(batch)
    with Asking(broker.port) as asking:
        answer = asking.ask(request, 9).responses[0].partition_responses[0]
    assert answer.error_code in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
    )


@pytest.mark.parametrize(
    "name", ["..", ".", "../../etc", "a/b", "/etc/passwd", "a\x00b", "a\\b", "", "x" * 250, "~", "-delete\n"]
)
def test_a_topic_name_that_is_a_path_is_refused(broker: Broker, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    before = sorted(path.name for path in broker.data_directory.iterdir())
    with Asking(broker.port) as asking:
        answer = asking.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        made = asking.ask(
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
            ),
            9,
        )
        assert made.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert asking.produce(name, [b"x"]).error_code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        )
    assert sorted(path.name for path in broker.data_directory.iterdir()) == before


@pytest.mark.parametrize("replica", [0, 1, 7, INT_MAX, -3])
def test_a_client_that_fakes_a_replica_has_no_effect(broker: Broker, replica: int) -> None:
    request = FetchRequest(
        replica_id=replica,
        max_wait_ms=1,
        min_bytes=0,
        topics=[
            FetchRequest.FetchTopic(
                topic="kept",
                partitions=[
                    FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
                ],
            )
        ],
    )
    with Asking(broker.port) as asking:
        answer = asking.ask(request, 12)
        errors = {answer.error_code} | {
            part.error_code for one in answer.responses for part in one.partitions
        }
        plain = asking.fetch("kept", 0)
    assert errors - {ErrorCode.NONE} or replica < 0, answer
    assert plain.high_watermark >= 1


def test_a_client_cannot_change_the_isr(broker: Broker) -> None:
    """AlterPartition is only for brokers and controllers: a client listener refuses it."""
    request = AlterPartitionRequest(broker_id=1, broker_epoch=0)
    with Asking(broker.port) as asking:
        asking.send(request, 2)
        with pytest.raises((EOFError, ConnectionResetError)):
            asking.receive(request, 2)


@pytest.mark.parametrize(("epoch", "sequence"), [(32767, 0), (5, 0), (-1, 0), (-2, 0), (0, INT_MAX)])
def test_a_forged_producer_epoch_is_fenced(broker: Broker, epoch: int, sequence: int) -> None:
    with Asking(broker.port) as asking:
        given = asking.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
        rightful = _idempotent(given.producer_id, 0, 0)
        assert asking.ask(rightful, 9).responses[0].partition_responses[0].error_code == 0
        before = len(asking.values("kept"))
        forged = asking.ask(_idempotent(given.producer_id, epoch, sequence), 9)
        code = forged.responses[0].partition_responses[0].error_code
        if code == 0:  # a later epoch starts a new producer session, as in Kafka
            assert epoch > 0
        else:
            assert len(asking.values("kept")) == before


def _idempotent(producer_id: int, epoch: int, sequence: int) -> ProduceRequest:
    request = produce_request("kept", [b"one"])
    batch = build_batch(
        [Record(0, 1_700_000_000_000, None, b"one")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    request.topic_data[0].partition_data[0].records = memoryview(batch)
    return request


def test_an_unexpected_login_is_refused_without_closing_the_connection(broker: Broker) -> None:
    with Asking(broker.port) as asking:
        assert (
            asking.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        )
        token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
        assert asking.ask(token, 2).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert len(asking.ask(MetadataRequest(topics=None), 12).brokers) == 1
    assert sent(broker, pack(">i", 13) + b"\0alice\0secret") == b"", "a bare token is no request"
    assert "secret" not in broker.log_text
