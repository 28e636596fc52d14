"""Frames are limited before they are stored, and their headers are read as in Kafka."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies

from ottla.wire import frame
from ottla.wire.errors import MalformedMessage
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@given(strategies.lists(strategies.binary(max_size=30), max_size=5), strategies.integers(1, 9))
def test_a_stream_is_split_into_its_frames_however_it_arrives(frames: list[bytes], piece: int) -> None:
    stream = b"".join(struct.pack(">i", len(one)) + one for one in frames)
    reader = frame.FrameReader()
    found: list[bytes] = []
    for start in range(0, len(stream), piece):
        found += reader.feed(stream[start : start + piece])
    assert found == frames


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        (b"\x16\x03\x01\x02", "TLS handshake"),
        (b"GET ", "HTTP request"),
        (b"\xff\xff\xff\xff", "size -1 is negative"),
        (b"\x00\x00\x04\x01", "1025 bytes exceeds the maximum of 1024"),
    ],
)
def test_an_impossible_size_is_named(first: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        frame.FrameReader(1024).feed(first)


def test_a_size_up_to_the_limit_is_accepted() -> None:
    assert frame.read_size(b"\x00\x00\x04\x00", 0, 1024) == 1024
    assert frame.read_size(b"xx\x00\x00\x00\x00", 2) == 0


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("client_id", [None, "", "me", "ü" * 200])
def test_a_request_frame_survives_a_round_trip(version: int, client_id: str | None) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3)
    (read,) = frame.FrameReader().feed(frame.request_frame(request, version, 77, client_id))
    key, read_version, correlation_id, read_client_id, position = frame.read_request_header(read)
    assert (key, read_version, correlation_id, read_client_id) == (12, version, 77, client_id)
    assert frame.read_request(memoryview(read)) == (12, version, 77, client_id, request)
    assert position == 10 + len((client_id or "").encode()) + (1 if version == 4 else 0)


@pytest.mark.parametrize("version", [3, 4])
def test_a_response_frame_survives_a_round_trip(version: int) -> None:
    response = HeartbeatResponse(error_code=25, throttle_time_ms=9)
    (read,) = frame.FrameReader().feed(frame.response_frame(response, version, 77))
    assert frame.read_response(read, 12, version) == (77, response)


def test_the_api_versions_response_header_has_no_tags() -> None:
    written = frame.response_frame(ApiVersionsResponse(error_code=35), 3, 5)
    assert written[4:10] == b"\x00\x00\x00\x05\x00\x23"


def test_tags_of_a_header_are_skipped() -> None:
    written = frame.request_frame(ApiVersionsRequest(client_software_name="x"), 3, 1, "me")[4:]
    tagged = written[:12] + b"\x01\x05\x02ab" + written[13:]
    assert frame.read_request(tagged)[4].client_software_name == "x"


def test_the_header_of_an_unknown_version_is_read() -> None:
    header = struct.pack(">hhih", 18, 99, 5, -1) + b"\x00"
    assert frame.read_request_header(header) == (18, 99, 5, None, 11)


def test_an_unknown_api_key_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="Unknown API key 999"):
        frame.read_request_header(struct.pack(">hhih", 999, 0, 5, -1))


def test_invalid_utf_8_in_a_client_id_is_replaced() -> None:
    header = struct.pack(">hhih", 12, 0, 5, 2) + b"a\xff"
    assert frame.read_request_header(header)[3] == "a\ufffd"


@pytest.mark.parametrize("version", [3, 4])
def test_a_header_truncated_anywhere_is_refused(version: int) -> None:
    written = frame.request_frame(HeartbeatRequest(), version, 1, "me")[4:]
    for end in range(frame.read_request_header(written)[4]):
        with pytest.raises(MalformedMessage):
            frame.read_request_header(written[:end])
    answer = frame.response_frame(HeartbeatResponse(), version, 1)[4:]
    for end in range(len(answer)):
        with pytest.raises(MalformedMessage):
            frame.read_response(answer[:end], 12, version)
