"""The metadata shell: paths, columns, completion, damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.controller.image import ClusterImage
from ottla.controller.records import encode_record
from ottla.raft import snapshots
from ottla.tools import metadata_shell
from ottla.tools.metadata_commands import Shell, columns, completions, pattern_of
from ottla.tools.metadata_nodes import entity_name, read_entity, root
from ottla.wire.messages.metadata_records import FeatureLevelRecord, TopicRecord

LEVEL = 30


def shell() -> Shell:
    image = ClusterImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=LEVEL))
    for number, name in enumerate(("orders", "others", "clicks")):
        image.replay(TopicRecord(name=name, topic_id=bytes([number + 1]) * 16))
    return Shell(root(image), is_interactive=True)


def snapshot(directory: Path) -> Path:
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=LEVEL),
        TopicRecord(name="orders", topic_id=b"o" * 16),
    ]
    values = [encode_record(record, LEVEL) for record in records]
    path = directory / "one.checkpoint"
    path.write_bytes(b"".join(snapshots.build(values, epoch=1, now_ms=5, last_contained_ms=4)))
    return path


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a*", "abc", True),
        ("a?c", "abc", True),
        ("a?", "abc", False),
        ("{ab,cd}*", "cde", True),
        ("{ab,cd}", "ef", False),
        ("a.*", "abc", False),
        ("a.*", "a.c", True),
        (r"\**", "*x", True),
        (r"\**", "x", False),
        ("[a]*", "[a]b", True),
    ],
)
def test_patterns_match_as_in_a_shell(pattern: str, name: str, matches: bool) -> None:
    compiled = pattern_of(pattern)
    assert compiled is not None
    assert bool(compiled.fullmatch(name)) is matches


@pytest.mark.parametrize("name", ["abc", "a.b", "a,b", "{a", "{a,{b}}", "a}"])
def test_a_name_without_a_pattern_matches_itself(name: str) -> None:
    assert pattern_of(name) is None


def test_entries_are_printed_in_columns_that_fit() -> None:
    entries = ["one", "two", "three", "four", "five"]
    assert list(columns(entries, None)) == entries
    assert list(columns(entries, 16)) == ["one    four", "two    five", "three"]
    assert list(columns(entries, 80)) == ["one  two  three  four  five"]
    assert list(columns(entries, 3)) == entries
    assert list(columns([], 80)) == []


def test_tab_completes_paths() -> None:
    here = shell()
    assert completions(here, "") == ["image/", "local/"]
    assert completions(here, "image/topics/byName/o") == [
        "image/topics/byName/orders/",
        "image/topics/byName/others/",
    ]
    assert completions(here, "/image/prod") == ["/image/producerIds/"]
    assert completions(here, "image/prov") == ["image/provenance"]
    assert completions(here, "nothing/here") == []
    list(here.run(["cd", "image/topics"]))
    assert completions(here, "by") == ["byId/", "byName/"]
    assert completions(here, "../prov") == ["../provenance"]


@pytest.mark.parametrize(
    "entity",
    [
        {("user", "ann"), ("client-id", "a(p)p\\")},
        {("user", None)},
        {("ip", "10.0.0.1")},
        {("user", "a)_user(b"), ("client-id", None)},
    ],
)
def test_a_quota_name_survives_a_round_trip(entity: set[tuple[str, str | None]]) -> None:
    assert read_entity(entity_name(frozenset(entity))) == entity


@pytest.mark.parametrize("text", ["", "user", "user(", "user(a", "user(a)x", "role(a)", "user(a)_"])
def test_an_invalid_quota_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as raised:
        read_entity(text)
    assert str(raised.value) == text


def test_a_damaged_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = snapshot(tmp_path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 0xFF
    path.write_bytes(content)
    assert metadata_shell.main(["-s", str(path), "ls"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"Unexpected error: {path} is damaged at byte ")
    assert told.err.count("\n") == 1


def test_a_file_without_metadata_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.checkpoint"
    path.write_bytes(b"")
    assert metadata_shell.main(["-s", str(path), "ls"]) == 1
    assert capsys.readouterr().err == f"Unexpected error: {path} has no metadata in it.\n"


def test_options_may_follow_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = snapshot(tmp_path)
    assert metadata_shell.main(["ls", "/image/topics/byName", "--snapshot", str(path)]) == 0
    assert capsys.readouterr().out == "orders\n"


def test_an_unknown_option_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert metadata_shell.main(["-s", str(snapshot(tmp_path)), "--nothing", "ls"]) == 1
    assert "--nothing" in capsys.readouterr().err
