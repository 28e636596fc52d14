"""Names of log directories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.directories.names import Kind, name_of, parse_name

UNIQUE = "0123456789abcdef0123456789abcdef"
TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249)


@given(TOPICS, st.integers(0, 2**31 - 1), st.sampled_from(Kind))
def test_a_name_is_parsed_into_what_it_was_made_from(topic: str, index: int, kind: Kind) -> None:
    name = name_of((topic, index), kind, UNIQUE)
    parsed = parse_name(name)
    assert parsed is not None
    assert parsed.kind is kind
    assert parsed.partition[1] == index
    if kind in (Kind.DELETED, Kind.STRAY):
        assert len(name) <= 255
        assert topic.startswith(parsed.partition[0])
    else:
        assert parsed.partition[0] == topic


def test_names_are_kafkas() -> None:
    assert name_of(("orders", 3)) == "orders-3"
    assert name_of(("orders", 3), Kind.DELETED, UNIQUE) == f"orders-3.{UNIQUE}-delete"
    assert name_of(("orders", 3), Kind.FUTURE, UNIQUE) == f"orders-3.{UNIQUE}-future"
    assert len(name_of(("x" * 249, 3), Kind.STRAY, UNIQUE)) == 255


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lost+found",
        "orders",
        "-3",
        "orders-",
        "orders-x",
        "orders-3-delete",
        "orders.u-delete",
        ".x-delete",
        "orders-2147483648",
        "or ders-3",
        "orders-3.-delete",
        "orders--1x",
        "orders-\u0663",
    ],
)
def test_other_names_are_no_logs(name: str) -> None:
    assert parse_name(name) is None
