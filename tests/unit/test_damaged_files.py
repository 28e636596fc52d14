"""Damaged files at a node's startup: every reader raises its documented errors, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.damage import damaged, within_memory

from ottla.controller.bootstrap import bootstrap_checkpoint, default_bootstrap_records, read_bootstrap
from ottla.log import checkpoints
from ottla.log.directories.properties import (
    DirectoryError,
    MetaProperties,
    format_clean_shutdown,
    format_meta,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_meta,
    parse_partition_metadata,
)
from ottla.log.leader_epochs import EpochCache
from ottla.log.producer_state import ProducerEntry, RememberedBatch, decode_snapshot, encode_snapshot
from ottla.log.transactions import AbortedTransaction, aborted_problem, decode_aborted, encode_aborted
from ottla.properties import decode
from ottla.raft import election_state, snapshots
from ottla.raft.election_state import ElectionFileDamaged, ElectionState
from ottla.raft.snapshots import SnapshotDamaged
from ottla.raft.voters import ReplicaKey

PATH = "/data/file"
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_A_UUID = bytes(range(16))


@dataclass(frozen=True)
class Reader:
    """A file format: its reader, a valid content, and the errors it may raise."""

    name: str
    sound: bytes
    read: Callable[[bytes], Any]
    error: type[Exception]
    check: Callable[[Any], None] = lambda found: None
    names_path: bool = True


def _check_offsets(found: dict[tuple[str, int], int]) -> None:
    for (topic, partition), offset in found.items():
        assert topic
        assert 0 <= partition <= INT32_MAX
        assert 0 <= offset <= INT64_MAX


def _check_election(found: ElectionState) -> None:
    assert 0 <= found.epoch <= INT32_MAX
    assert -1 <= found.leader_id <= INT32_MAX
    assert found.voted is None or 0 <= found.voted.id <= INT32_MAX
    assert type(found.epoch) is type(found.leader_id) is int


def _check_meta(found: MetaProperties) -> None:
    assert found.node_id is None or 0 <= found.node_id <= INT32_MAX
    assert found.directory_id is None or len(found.directory_id) == 16


def _check_epochs(found: EpochCache) -> None:
    entries = found.entries
    assert entries == sorted(entries)
    for entry in entries:
        assert 0 <= entry.epoch <= INT32_MAX
        assert 0 <= entry.start_offset <= INT64_MAX
    assert EpochCache.from_text(found.to_text()).entries == entries


def _check_marker(found: int) -> None:
    assert -1 <= found <= INT64_MAX


def _sound_aborted(content: bytes) -> list[AbortedTransaction]:
    problem = aborted_problem(content, 10)
    if problem is not None:
        raise ValueError(problem)
    return list(decode_aborted(content))


_META = MetaProperties(cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=7, directory_id=_A_UUID)
_STATE = ElectionState(5, 3, ReplicaKey(3, _A_UUID))
_PRODUCERS = [
    ProducerEntry(
        number,
        epoch=2,
        last_timestamp=9,
        batches=(RememberedBatch(4, 30, 4, 9), RememberedBatch(9, 40, 4, 9)),
    )
    for number in range(3)
]
_SNAPSHOT = b"".join(
    snapshots.build(
        [b"record %d" % number for number in range(20)], epoch=3, now_ms=1_000, last_contained_ms=900
    )
)
_BOOTSTRAP = bootstrap_checkpoint(default_bootstrap_records(), 1_000)

READERS = [
    Reader(
        "meta.properties",
        format_meta(_META, 1_000).encode(),
        lambda content: parse_meta(decode(content), PATH),
        DirectoryError,
        _check_meta,
    ),
    Reader(
        "quorum-state",
        election_state.to_json(_STATE, 1, [1, 2, 3]),
        lambda content: election_state.from_json(content, PATH),
        ElectionFileDamaged,
        _check_election,
    ),
    Reader(
        "quorum-state of static voters",
        election_state.to_json(ElectionState(5, 3), 0, [1, 2, 3]),
        lambda content: election_state.from_json(content, PATH),
        ElectionFileDamaged,
        _check_election,
    ),
    Reader(
        "an offset checkpoint",
        checkpoints.format({("orders", 0): 17, ("orders", 1): 2**40, ("other", 12): 0}).encode(),
        lambda content: checkpoints.decode(content, PATH),
        checkpoints.CheckpointError,
        _check_offsets,
    ),
    Reader(
        "leader-epoch-checkpoint",
        b"0\n3\n1 0\n4 17\n5 2000\n",
        lambda content: EpochCache.from_text(content.decode()),
        ValueError,
        _check_epochs,
        names_path=False,
    ),
    Reader(
        "partition.metadata",
        format_partition_metadata(_A_UUID).encode(),
        lambda content: parse_partition_metadata(decode(content), PATH),
        DirectoryError,
    ),
    Reader(
        ".kafka_cleanshutdown", format_clean_shutdown(77), parse_clean_shutdown, ValueError, _check_marker
    ),
    Reader(
        "a .snapshot of producers", encode_snapshot(_PRODUCERS), decode_snapshot, ValueError, names_path=False
    ),
    Reader(
        "a .txnindex",
        b"".join(encode_aborted(AbortedTransaction(1, at, at + 5, at)) for at in (10, 20, 30)),
        _sound_aborted,
        ValueError,
        names_path=False,
    ),
    Reader(
        "a snapshot of metadata", _SNAPSHOT, lambda content: snapshots.read(content, PATH), SnapshotDamaged
    ),
    Reader(
        "bootstrap.checkpoint", _BOOTSTRAP, lambda content: read_bootstrap(content, PATH), SnapshotDamaged
    ),
]
EACH = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


@EACH
def test_a_valid_file_is_read(reader: Reader) -> None:
    reader.check(reader.read(reader.sound))


@EACH
@settings(max_examples=100)
@given(st.data())
def test_any_file_is_read_or_refused_with_a_typed_error(reader: Reader, data: st.DataObject) -> None:
    content = data.draw(damaged(reader.sound) | damaged(reader.sound).flatmap(damaged))
    with within_memory(len(content)):
        try:
            found = reader.read(content)
        except reader.error as error:
            refusal = str(error)
        else:
            reader.check(found)
            return
    assert len(refusal) < 1_000  # a log line must not contain the whole file
    assert not reader.names_path or PATH in refusal
