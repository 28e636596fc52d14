"""The notation is parsed completely, and an invalid line is named."""

from __future__ import annotations

import pytest

from ottla.wire.schema import SchemaError, Versions, parse

EXAMPLE = """
# A comment.
ThingRequest request api=7 versions=2-5 flexible=4+ listeners=broker,controller latest-unstable
    names []string 0-3 nullable=1+ default=null is=topicName
    owner Owner 3+ tag=1@4+ ignorable
        id int32 3+ default=-1 key
    others []Other 0+
    limit int64 0+ default=0x7f flexible=none
    struct Other 0+
        name string 0+

ThingKey coordinator-key versions=1 flexible=none
"""


def test_a_message_is_parsed_completely() -> None:
    thing, key = parse(EXAMPLE)
    assert (thing.name, thing.kind, thing.api_key, thing.versions) == (
        "ThingRequest",
        "request",
        7,
        range(2, 6),
    )
    assert (thing.flexible_from, thing.listeners, thing.latest_unstable) == (
        4,
        ("broker", "controller"),
        True,
    )
    names, owner, others, limit = thing.fields
    assert (names.type, names.is_array, names.default_literal, names.entity) == (
        "string",
        True,
        "None",
        "topicName",
    )
    assert names.versions == Versions(0, 3)
    assert [names.is_nullable(version) for version in (0, 1, 9)] == [False, True, True]
    assert (owner.type, owner.is_struct, owner.tag, owner.ignorable) == ("Owner", True, 1, True)
    assert [owner.is_tagged(version) for version in (3, 4)] == [False, True]
    assert (others.is_array, others.is_struct, others.default_literal) == (True, True, None)
    assert (limit.default_literal, limit.never_flexible) == ("127", True)
    assert list(thing.structs) == ["Owner", "Other"]
    assert thing.structs["Owner"].fields[0].is_key
    assert (key.api_key, key.versions, key.flexible_from, key.fields) == (None, range(1, 2), None, ())


def test_the_text_of_a_message_parses_to_the_same_message() -> None:
    for message in parse(EXAMPLE):
        assert parse(message.text) == [message]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("    name string", "needs a name, a type and versions"),
        ("    name string 0+ nulable=0+", "unknown option nulable=0+"),
        ("   name string 0+", "indented by 3 blanks"),
        ("        name string 0+", "indented too deep"),
        ("    owner Owner 0+", "unknown type Owner"),
        ("    a Part 0+\n        x int8 0+\n    b Part 0+\n        y int8 0+", "a name that is taken"),
    ],
)
def test_an_invalid_line_is_named(line: str, complaint: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse("Thing data versions=0 flexible=none\n" + line)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "head", ["Thing", "Thing data", "    Thing data versions=0 flexible=none", "Thing data versions=0"]
)
def test_a_message_needs_a_name_a_kind_and_versions(head: str) -> None:
    with pytest.raises(SchemaError):
        parse(head)
