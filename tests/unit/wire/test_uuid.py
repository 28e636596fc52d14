"""Ids in Kafka's text form."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from ottla.wire import uuid


@given(strategies.binary(min_size=16, max_size=16))
def test_the_text_parses_to_the_same_id(identifier: bytes) -> None:
    text = uuid.to_text(identifier)
    assert len(text) == 22
    assert uuid.from_text(text) == identifier


def test_known_ids_have_kafkas_text() -> None:
    assert uuid.to_text(uuid.ZERO) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid.to_text(uuid.METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid.to_text(b"\xfb\xff" + bytes(14)) == "-_8AAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 25, "+/8AAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAA \n"]
)
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^The id "):
        uuid.from_text(text)


def test_padding_is_accepted_as_kafka_accepts_it() -> None:
    assert uuid.from_text("AAAAAAAAAAAAAAAAAAAAAQ==") == uuid.ONE


def test_a_random_id_is_of_version_4_and_its_text_starts_with_no_dash() -> None:
    draws = iter([b"\xf8" + bytes(15), b"\x01" * 16])
    identifier = uuid.random(lambda count: next(draws))
    assert identifier[0] == 1
    assert (identifier[6] >> 4, identifier[8] >> 6) == (4, 2)


def test_the_first_hundred_ids_are_reserved() -> None:
    assert uuid.is_reserved(uuid.DIRECTORY_LOST)
    assert uuid.is_reserved(bytes(15) + bytes([99]))
    assert not uuid.is_reserved(bytes(15) + bytes([100]))
