"""Every message survives a round trip in every version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies
from tests.unit.wire.instances import CLASS_VERSIONS, CLASSES, Instances, strategy

from ottla.wire import codec
from ottla.wire.message import Buffer, Message
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceRequest

EXAMPLES_PER_MESSAGE = 8
RANDOM_PER_VERSION = 10


@pytest.mark.parametrize("name", CLASSES)
def test_any_instance_survives_a_round_trip_in_a_drawn_version(name: str) -> None:
    cls = CLASSES[name]

    @settings(max_examples=EXAMPLES_PER_MESSAGE, database=None, derandomize=True)
    @given(strategies.data())
    def holds(data: strategies.DataObject) -> None:
        version = data.draw(strategies.sampled_from(cls.VERSIONS))
        message = data.draw(strategy(cls, version))
        encoded = codec.encode(message, version)
        assert codec.decode(cls, encoded, version) == message

    holds()


def test_random_instances_of_every_version_survive_a_round_trip() -> None:
    for cls, version in CLASS_VERSIONS:
        instances = Instances((cls.NAME, version))
        for _ in range(RANDOM_PER_VERSION):
            message = instances.message(cls, version)
            encoded = codec.encode(message, version)
            decoded = codec.decode(cls, encoded, version)
            assert decoded == message, (cls.NAME, version)
            assert codec.encode(decoded, version) == encoded
            assert b"".join(codec.encode_parts(message, version)) == encoded


@pytest.mark.parametrize(
    ("cls", "version"), [(message, message.VERSIONS[-1]) for message in CLASSES.values()]
)
def test_a_message_without_values_has_the_defaults_on_both_sides(cls: type[Message], version: int) -> None:
    assert codec.decode(cls, codec.encode(cls(), version), version) == cls()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_can_be_decoded_from_any_position(kind: Callable[[bytes], Buffer]) -> None:
    message = _produce_request(b"batch")
    encoded = codec.encode(message, 9)
    decode = codec.decoder(ProduceRequest, 9)
    assert decode(kind(b"before" + encoded + b"after"), 6) == (message, 6 + len(encoded))


def test_records_are_a_view_of_the_input() -> None:
    encoded = bytearray(codec.encode(_produce_request(b"batch"), 9))
    records = codec.decode(ProduceRequest, encoded, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    encoded[encoded.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch"


@pytest.mark.parametrize("version", FetchResponse.VERSIONS)
def test_parts_hold_the_records_by_reference_and_in_order(version: int) -> None:
    class Slice:
        """A stand-in for a slice of a file: it only has a length."""

        def __len__(self) -> int:
            return 7

    first, second, empty = b"first batch", Slice(), b""
    partitions = [FetchResponse.PartitionData(records=records) for records in (first, second, empty, None)]
    message = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=partitions)])
    parts = codec.encode_parts(message, version)
    assert [type(part) for part in parts] == [bytes, bytes, bytes, Slice, bytes]
    assert parts[1] is first
    assert parts[3] is second
    partitions[1].records = b"1234567"
    parts[3] = b"1234567"
    assert b"".join(parts) == codec.encode(message, version)


def test_unknown_tags_are_encoded_in_order() -> None:
    message = _produce_request(b"batch")
    message.unknown_tagged_fields = {9: b"nine", 2: b"two"}
    encoded = codec.encode(message, 9)
    assert encoded.endswith(b"\x02\x02\x03two\x09\x04nine")
    assert codec.decode(ProduceRequest, encoded, 9).unknown_tagged_fields == {2: b"two", 9: b"nine"}


def test_a_codec_is_compiled_once() -> None:
    assert codec.decoder(ProduceRequest, 9) is codec.decoder(ProduceRequest, 9)
    assert codec.encoder(ProduceRequest, 9) is codec.encoder(ProduceRequest, 9)
    assert codec.parts_encoder(ProduceRequest, 9) is codec.parts_encoder(ProduceRequest, 9)


def _produce_request(records: bytes) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=3, records=records)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
