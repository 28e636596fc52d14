"""`ottla log dump` and `ottla log verify` on valid and damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import main
from ottla.cli.logs.contents import UnknownFile, contents_of
from ottla.cli.logs.verification import verify
from ottla.host import HostDisk
from ottla.log import checkpoints
from ottla.log.index import OffsetIndex
from ottla.records.batch import Codec
from ottla.records.record import Record, build_batch


def batch(first: int, count: int, **options: Any) -> bytes:
    records = [
        Record(offset, 1_700_000_000_000 + offset, b"key %d" % offset, b"value", (("a", None),))
        for offset in range(first, first + count)
    ]
    return bytes(build_batch(records, codec=options.pop("codec", Codec.NONE), base_offset=first, **options))


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments of a partition: offsets 0 to 5 and 6 to 8."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    first = batch(0, 3)
    (directory / f"{0:020d}.log").write_bytes(first + batch(3, 3, codec=Codec.ZSTD))
    (directory / f"{6:020d}.log").write_bytes(batch(6, 3))
    index = OffsetIndex(HostDisk(), str(directory / f"{0:020d}.index"), 0, 800)
    index.append(5, len(first))
    index.write_out()
    index.close()
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    checkpoints.write(HostDisk(), str(tmp_path / checkpoints.HIGH_WATERMARKS), {("orders", 0): 9})
    return directory


def first_log(partition: Path) -> Path:
    return partition / f"{0:020d}.log"


def test_batches_and_records_are_shown(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(first_log(partition)), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["offset"], row["last_offset"], row["codec"]) for row in found["rows"]] == [
        (0, 2, "none"),
        (3, 5, "zstd"),
    ]

    assert main(["log", "dump", str(first_log(partition)), "--records", "-c", "4", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["key"] for row in rows] == [f"key {offset}" for offset in range(4)]
    assert rows[0]["headers"] == [["a", None]]


def test_a_table_names_file_and_kind(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [partition / f"{0:020d}.index", partition / "leader-epoch-checkpoint"]
    paths.append(partition.parent / checkpoints.HIGH_WATERMARKS)

    assert main(["log", "dump", *map(str, paths)]) == 0
    shown = capsys.readouterr().out
    for words in ("offset index", "POSITION", "leader epochs", "START OFFSET", "checkpoint", "orders"):
        assert words in shown


def test_a_directory_is_shown_by_its_segments(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(partition), "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["first_offset"], row["next_offset"], row["records"]) for row in rows] == [
        (0, 6, 6),
        (6, 9, 3),
    ]
    assert main(["log", "dump", str(partition.parent)]) == 0
    assert "orders-0" in capsys.readouterr().out


def test_valid_directories_pass_verification(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(partition.parent), "--records"]) == 0
    assert "5 files in 2 directories: 3 batches, 9 records" in capsys.readouterr().out


def test_a_flipped_bit_is_reported_with_file_and_byte(
    partition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(first_log(partition).read_bytes())
    position = len(batch(0, 3))
    data[-1] ^= 1
    first_log(partition).write_bytes(data)

    assert main(["log", "verify", str(partition), "-o", "json"]) == 1
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert problem["file"] == str(first_log(partition))
    assert problem["place"] == f"byte {position} (offset 3)"

    assert main(["log", "dump", str(first_log(partition))]) == 1
    said = capsys.readouterr()
    assert "bad CRC" in said.out
    assert f"byte {position}" in said.err


def test_a_truncated_newest_segment_is_only_a_remark(partition: Path) -> None:
    newest, older = partition / f"{6:020d}.log", first_log(partition)
    newest.write_bytes(newest.read_bytes() + batch(9, 2)[:-5])

    verdict = verify(partition)
    assert not verdict.problems
    [remark] = verdict.remarks
    assert "not a complete batch" in remark.cause

    older.write_bytes(older.read_bytes()[:-5])
    assert any("not a complete batch" in one.cause for one in verify(partition).problems)


def test_indexes_are_compared_with_their_log(partition: Path) -> None:
    index = OffsetIndex(HostDisk(), str(partition / f"{0:020d}.index"), 0, 800)
    index.append(4, len(batch(0, 3)))
    index.append(5, 7777)
    index.write_out()
    index.close()

    causes = [one.cause for one in verify(partition).problems]
    assert any("offset 5 is at its byte" in cause for cause in causes)
    assert any("byte 7777, which is not the start of a batch" in cause for cause in causes)


def test_overlapping_segments_and_decreasing_offsets_are_problems(partition: Path) -> None:
    (partition / f"{4:020d}.log").write_bytes(batch(4, 2) + batch(4, 1))

    causes = " ".join(one.cause for one in verify(partition).problems)
    assert "ends at offset 6" in causes
    assert "follows offset 5" in causes


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        (checkpoints.HIGH_WATERMARKS, "0\n2\norders 0 9\n", "line 2"),
        ("leader-epoch-checkpoint", "0\n1\nx\n", "not an epoch"),
        ("meta.properties", "version=7\n", "version 7"),
        ("quorum-state", "{", ""),
        ("partition.metadata", "version: 0\n", "topic_id"),
        ("00000000000000000009.snapshot", "short", "too short"),
        ("00000000000000000009.txnindex", "short", "multiple"),
        ("00000000000000000009.timeindex", "short", "multiple"),
    ],
)
def test_damaged_small_files_are_reported(tmp_path: Path, name: str, text: str, cause: str) -> None:
    path = tmp_path / name
    path.write_text(text)

    [damage, *_] = verify(path).problems
    assert damage.file == str(path)
    assert cause in damage.cause


def test_unknown_files_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownFile):
        contents_of(tmp_path / "notes.txt")
    assert main(["log", "dump", str(tmp_path / "notes.txt")]) == 1
    assert main(["log", "verify", str(tmp_path / "missing")]) == 1
    assert main(["log", "verify", str(tmp_path)]) == 1
    assert main(["log", "dump", str(tmp_path / f"{0:020d}.log")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 4
    assert "Traceback" not in said
