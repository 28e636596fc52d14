"""Untrusted bytes: truncated, oversized or ill-formed input is a MalformedMessage."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.unit.wire.instances import CLASS_VERSIONS, Instances

from ottla.wire import codec
from ottla.wire.errors import MalformedMessage, UnsupportedVersion
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.primitives import read_unsigned_varint, unsigned_varint


def test_a_message_truncated_anywhere_is_refused() -> None:
    for cls, version in CLASS_VERSIONS:
        encoded = codec.encode(Instances((cls.NAME, version, "cut")).message(cls, version), version)
        step = max(1, len(encoded) // 40)
        for end in range(0, len(encoded), step):
            with pytest.raises(MalformedMessage):
                codec.decode(cls, encoded[:end], version)


def test_bytes_after_a_message_are_refused_if_exact() -> None:
    encoded = codec.encode(HeartbeatRequest(group_id="g"), 4) + b"!"
    with pytest.raises(MalformedMessage, match="followed by 1 extra bytes"):
        codec.decode(HeartbeatRequest, encoded, 4)
    assert codec.decode(HeartbeatRequest, encoded, 4, exact=False) == HeartbeatRequest(group_id="g")


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x04"])
def test_a_count_of_more_elements_than_bytes_remain_is_refused_before_anything_is_allocated(
    count: bytes,
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="topics declares"):
            codec.decode(MetadataRequest, count + b"\0\0", 1)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_compact_count_of_more_elements_than_bytes_remain_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="topics declares 2147483646 elements, but 3 bytes"):
        codec.decode(MetadataRequest, unsigned_varint((1 << 31) - 1) + b"\0\0\0", 9)


@pytest.mark.parametrize("version", [7, 9])
def test_a_length_past_the_end_is_refused_without_allocating_it(version: int) -> None:
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="orders")])
    encoded = codec.encode(request, version)
    for value in (20, 100):
        broken = bytearray(encoded)
        broken[encoded.index(b"orders") - 1] = value
        with pytest.raises(MalformedMessage, match=r"ends too early|elements"):
            codec.decode(ProduceRequest, broken, version)


def test_null_in_a_non_nullable_field_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="field group_id is null"):
        codec.decode(HeartbeatRequest, b"\xff\xff" + bytes(8), 0)
    with pytest.raises(MalformedMessage, match="field group_id is null"):
        codec.decode(HeartbeatRequest, bytes(12), 4)
    with pytest.raises(MalformedMessage, match="topics is null"):
        codec.decode(CreateTopicsRequest, b"\xff\xff\xff\xff" + bytes(8), 2)
    with pytest.raises(MalformedMessage, match="topics is null"):
        codec.decode(CreateTopicsRequest, bytes(8), 5)
    with pytest.raises(MalformedMessage, match="auth_bytes is null"):
        codec.decode(SaslAuthenticateRequest, b"\xff\xff\xff\xff", 1)


def test_text_that_is_not_utf_8_is_refused() -> None:
    encoded = codec.encode(HeartbeatRequest(group_id="group"), 4).replace(b"group", b"gr\xffup")
    with pytest.raises(MalformedMessage, match="UTF-8"):
        codec.decode(HeartbeatRequest, encoded, 4)


def test_a_compact_string_over_the_limit_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="group_id declares 32768 bytes"):
        codec.decode(HeartbeatRequest, unsigned_varint(32_769) + bytes(40_000), 4)


@pytest.mark.parametrize(
    "encoded",
    [
        b"\xff\xff\xff\xff\x0f",  # 2^32 - 1
        b"\x80\x80\x80\x80\x08",  # 2^31
        b"\xff\xff\xff\xff\xff\x01",  # six bytes
        b"\x80",
        b"",
    ],
)
def test_an_oversized_or_truncated_varint_is_refused(encoded: bytes) -> None:
    with pytest.raises((MalformedMessage, IndexError)):
        read_unsigned_varint(encoded, 0)


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, 1 << 28, (1 << 31) - 1]
)
def test_a_varint_survives_a_round_trip(value: int) -> None:
    encoded = unsigned_varint(value)
    assert read_unsigned_varint(b"xx" + encoded + b"yy", 2) == (value, 2 + len(encoded))


def test_a_tag_count_beyond_the_input_is_refused() -> None:
    encoded = codec.encode(HeartbeatRequest(), 4)
    with pytest.raises(MalformedMessage):
        codec.decode(HeartbeatRequest, encoded[:-1] + unsigned_varint((1 << 31) - 1), 4)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="ProduceRequest has no version 2; versions 3 to 13"):
        codec.decoder(ProduceRequest, 2)
    with pytest.raises(UnsupportedVersion):
        codec.encode(ProduceRequest(), 14)
