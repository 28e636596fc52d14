"""Java's behaviour in the output of Kafka's tools."""

from __future__ import annotations

import pytest

from ottla.operations.java_order import (
    double_text,
    map_order,
    message_of,
    partition_hash,
    string_hash,
    text_of,
)
from ottla.wire.errors import GroupIdNotFound, NonEmptyGroup, TopicAuthorizationFailed


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("topic", 110546223), ("polygenelubricants", 2**31), ("ä", 228)],
)
def test_strings_hash_as_in_java(text: str, expected: int) -> None:
    assert string_hash(text) == expected


def test_keys_are_ordered_by_bucket_and_then_by_insertion() -> None:
    # "Aa" and "BB" have the same hash: they keep their order.
    assert map_order(["b", "BB", "Aa", "a"], string_hash) == ["BB", "Aa", "a", "b"]
    assert map_order(["b", "Aa", "BB", "a"], string_hash) == ["Aa", "BB", "a", "b"]


def test_a_map_that_grew_has_more_buckets() -> None:
    letters = [chr(97 + index) for index in range(13)]
    assert map_order([*letters[:11], "p"], string_hash) == ["p", *letters[:11]]  # twelve fit into 16
    assert map_order([*letters[:12], "p"], string_hash) == [*letters[:12], "p"]  # thirteen do not
    assert map_order(["p", "a"], string_hash) == ["p", "a"]  # 112 is in bucket 0 of 16
    assert map_order(["p", "a"], string_hash, 64) == ["a", "p"]  # and in bucket 48 of 64


def test_partitions_hash_by_topic_and_number() -> None:
    assert partition_hash(("a", 0)) == 31 * 31 + 97
    assert partition_hash(("a", 2)) == 31 * 33 + 97


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (50.5, "50.5"),
        (1000.0, "1000.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.0001, "1.0E-4"),
    ],
)
def test_numbers_are_written_as_in_java(value: float, expected: str) -> None:
    assert double_text(value) == expected


def test_errors_are_printed_with_class_and_default_message() -> None:
    assert message_of(GroupIdNotFound("Group g not found.")) == "Group g not found."
    assert text_of(GroupIdNotFound()) == (
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
    )
    assert text_of(NonEmptyGroup()).startswith("org.apache.kafka.common.errors.GroupNotEmptyException: ")
    assert text_of(TopicAuthorizationFailed("no")).endswith("TopicAuthorizationException: no")
    assert text_of(ValueError("plain")) == "plain"
