"""Control records."""

from __future__ import annotations

import pytest

from ottla.ports import Buffer
from ottla.records.batch import HEADER_BYTES, read_header
from ottla.records.control import (
    PLAIN_MARKER_BYTES,
    ControlType,
    control_batch,
    control_type,
    coordinator_epoch,
    end_txn_marker,
    plain_end_txn_marker,
)
from ottla.records.record import read_batch
from ottla.wire.errors import InvalidRecord


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_has_its_type_and_coordinator_epoch(commit: bool) -> None:
    batch = end_txn_marker(
        commit=commit,
        producer_id=9,
        producer_epoch=4,
        coordinator_epoch=17,
        timestamp=5,
        base_offset=30,
        leader_epoch=2,
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 4, -1)
    assert (header.base_offset, header.partition_leader_epoch) == (30, 2)
    (record,) = read_batch(batch)
    assert control_type(record.key) == (ControlType.COMMIT if commit else ControlType.ABORT)
    assert coordinator_epoch(record.value) == 17
    assert record.timestamp == 5
    assert len(batch) == HEADER_BYTES + PLAIN_MARKER_BYTES
    assert plain_end_txn_marker(batch, HEADER_BYTES) == (commit, 17)


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16])
def test_a_marker_in_another_encoding_is_not_decoded_here(place: int) -> None:
    batch = end_txn_marker(commit=True, producer_id=9, producer_epoch=4, coordinator_epoch=17, timestamp=5)
    batch[HEADER_BYTES + place] ^= 0x42
    assert plain_end_txn_marker(batch, HEADER_BYTES) is None


def test_a_batch_of_quorum_records_keeps_their_order() -> None:
    entries: list[tuple[ControlType, Buffer]] = [
        (ControlType.KRAFT_VERSION, b"one"),
        (ControlType.KRAFT_VOTERS, b"two"),
    ]
    batch = control_batch(entries, timestamp=8, base_offset=3, leader_epoch=1)
    header = read_header(batch)
    assert header.is_control
    assert not header.is_transactional
    found = [(control_type(record.key), record.value) for record in read_batch(batch)]
    assert found == entries


def test_an_unknown_type_is_unknown_and_a_newer_version_is_read() -> None:
    assert control_type(b"\x00\x00\x00\x63") == ControlType.UNKNOWN
    assert control_type(b"\x00\x05\x00\x01\xff") == ControlType.COMMIT
    assert coordinator_epoch(b"\x00\x01\x00\x00\x00\x07more") == 7


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_an_invalid_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        control_type(key)


@pytest.mark.parametrize("value", [None, b"\x00\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x01"])
def test_a_marker_without_an_epoch_is_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        coordinator_epoch(value)
