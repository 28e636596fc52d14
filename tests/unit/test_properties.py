"""The .properties syntax: the same as Java's loader, and round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import properties

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("  a = b ", "a", "b "),
        ("a: b", "a", "b"),
        ("a b", "a", "b"),
        ("a\t=\tb", "a", "b"),
        ("a", "a", ""),
        ("a==b", "a", "=b"),
        ("a=b=c", "a", "b=c"),
        ("=b", "", "b"),
        (r"a\=b=c", "a=b", "c"),
        (r"a\ b c", "a b", "c"),
        (r"a=C:\\data\\x", "a", "C:\\data\\x"),
        (r"a=\u00e9\n", "a", "é\n"),
        (r"a=\ud83d\ude00", "a", "😀"),
        (r"a=\q", "a", "q"),
        ("a=b # no comment", "a", "b # no comment"),
        (
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "listeners",
            "PLAINTEXT://:9092,CONTROLLER://:9093",
        ),
    ],
)
def test_a_line_is_split_as_java_splits_it(line: str, key: str, value: str) -> None:
    assert properties.parse(line) == [(key, value, 1)]


def test_comments_and_blank_lines_are_skipped_but_counted() -> None:
    assert properties.parse("# one\n\n  ! two\n\ta=1\r\nb=2\rc=3") == [
        ("a", "1", 4),
        ("b", "2", 5),
        ("c", "3", 6),
    ]


def test_a_backslash_at_the_end_continues_the_line() -> None:
    text = "a=one,\\\n   two,\\\n#three\nb=\\\\\nc=last\\"
    assert properties.parse(text) == [("a", "one,two,#three", 1), ("b", "\\", 4), ("c", "last", 5)]


def test_a_continued_line_may_end_in_a_blank_one() -> None:
    assert properties.parse("a=b\\\n\nc=d") == [("a", "b", 1), ("c", "d", 3)]


def test_the_later_of_two_equal_keys_counts() -> None:
    assert properties.as_dict("a=1\na=2") == {"a": "2"}


@pytest.mark.parametrize("text", ["a=1\nb=\\u12", "a=1\nb=\\uzzzz", "a=1\nb\\u=1"])
def test_a_malformed_escape_names_its_line(text: str) -> None:
    with pytest.raises(properties.PropertiesError, match="line 2") as caught:
        properties.parse(text)
    assert caught.value.line == 2


def test_bytes_that_are_not_utf_8_are_read_as_latin_1() -> None:
    assert properties.decode("é".encode()) == "é"
    assert properties.decode("é".encode("latin-1")) == "é"


@given(st.dictionaries(TEXTS, TEXTS), st.lists(st.text("abc #=")))
def test_written_entries_are_read_back(entries: dict[str, str], comments: list[str]) -> None:
    assert properties.as_dict(properties.format(entries, comments)) == entries


@given(st.text())
def test_any_text_parses_or_is_refused_with_a_line(text: str) -> None:
    lines = text.count("\n") + text.count("\r") + 1
    try:
        found = [entry.line for entry in properties.parse(text)]
    except properties.PropertiesError as error:
        found = [error.line]
    assert found == sorted(found)
    assert all(1 <= line <= lines for line in found)


def test_a_single_backslash_is_no_entry() -> None:
    assert properties.parse("\\\n\n\\\n# comment\na=1\n\\") == [("a", "1", 5)]
