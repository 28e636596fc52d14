"""Offset checkpoints: Kafka's text, and damage, which is never read as an empty list."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.host import HostDisk
from ottla.log import checkpoints

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=20)
OFFSETS = st.dictionaries(st.tuples(TOPICS, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1))


def test_the_text_is_kafkas() -> None:
    assert checkpoints.format({("a", 0): 5, ("b.c", 12): 0}) == "0\n2\na 0 5\nb.c 12 0\n"


@given(OFFSETS)
def test_what_is_written_is_read_back(offsets: dict[checkpoints.Partition, int]) -> None:
    assert checkpoints.parse(checkpoints.format(offsets), "x") == offsets


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("1\n0\n", 1, "version 1"),
        ("x\n0\n", 1, "version"),
        ("0\n", 2, "missing"),
        ("0\n-1\n", 2, "number of entries"),
        ("0\n2\na 0 5\n", 2, "declares 2 entries but contains 1"),
        ("0\n0\na 0 5\n", 2, "declares 0 entries but contains 1"),
        ("0\n1\na 0\n", 3, "is not `topic partition offset`"),
        ("0\n1\n\n", 3, "is not `topic partition offset`"),
        ("0\n1\na 0 5 6\n", 3, "is not `topic partition offset`"),
        ("0\n1\na b 5\n", 3, "the partition is 'b'"),
        ("0\n1\na 2147483648 5\n", 3, "the partition"),
        ("0\n1\na 0 9223372036854775808\n", 3, "the offset"),
        ("0\n1\na 0 -1\n", 3, "the offset"),
        ("0\n1\na 0 \u0665\n", 3, "the offset"),
        ("0\n1\na 0 " + "9" * 10000 + "\n", 3, "the offset"),
        ("0\n2\na 0 5\na 0 6\n", 4, "occurs twice"),
        ("0\n1\na 0 55", 3, "incomplete"),
    ],
)
def test_damage_is_an_error_that_names_file_line_and_cause(text: str, line: int, cause: str) -> None:
    with pytest.raises(checkpoints.CheckpointError) as caught:
        checkpoints.parse(text, "/data/x-checkpoint")
    assert str(caught.value).startswith(f"/data/x-checkpoint is damaged in line {line}: ")
    assert cause in str(caught.value)


@given(OFFSETS, st.data())
def test_a_truncated_file_is_never_read_as_fewer_entries(
    offsets: dict[checkpoints.Partition, int], data: st.DataObject
) -> None:
    text = checkpoints.format(offsets)
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(checkpoints.CheckpointError):
        checkpoints.parse(text[:cut], "x")


def test_a_missing_or_empty_file_holds_no_entry(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.CLEANED
    disk = HostDisk()
    assert checkpoints.read(disk, str(path)) == {}
    path.touch()  # Kafka makes checkpoint files empty before it first writes them
    assert checkpoints.read(disk, str(path)) == {}


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = str(tmp_path / checkpoints.RECOVERY_POINTS)
    disk = HostDisk()
    checkpoints.write(disk, path, {("a", 0): 5})
    checkpoints.write(disk, path, {("b", 1): 6})
    assert checkpoints.read(disk, path) == {("b", 1): 6}
    assert disk.list(str(tmp_path)) == [checkpoints.RECOVERY_POINTS]


def test_bytes_that_are_no_text_are_damage(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.LOG_STARTS
    path.write_bytes(b"0\n1\n\xff\xfe 0 1\n")
    with pytest.raises(checkpoints.CheckpointError, match="byte 4"):
        checkpoints.read(HostDisk(), str(path))
