"""Comparison of reads from replicas."""

from __future__ import annotations

from datetime import datetime

import pytest

from ottla.client.values import TopicPartition
from ottla.records.record import Record, build_batch
from ottla.tools import replica_verification
from ottla.tools.replica_verification import NOTHING, Mismatch, Read, Verification

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
STAMP = "2026-01-02 03:04:05,678"


def batch(offset: int, *values: bytes) -> bytes:
    records = [Record(offset + index, 7, None, value, ()) for index, value in enumerate(values)]
    return bytes(build_batch(records, base_offset=offset))


def verification(offsets: dict[TopicPartition, int]) -> Verification:
    return Verification(offsets, lambda: datetime(2026, 1, 2, 3, 4, 5, 678_901))  # noqa: DTZ001


def test_equal_replicas_advance_the_offset() -> None:
    rounds = verification({A: 0, B: 5})
    both = Read(batch(0, b"x", b"y") + batch(2, b"z"), 3)
    assert list(rounds.take({A: {1: both, 2: both}, B: {2: Read(b"", 9)}})) == []
    assert rounds.offsets == {A: 3, B: 5}
    assert rounds.report() == f"{STAMP}: max lag is 4 for partition b-3 at offset 5 among 2 partitions"


def test_only_records_below_every_high_watermark_count() -> None:
    rounds = verification({A: 0})
    long, short = batch(0, b"x") + batch(1, b"y"), batch(0, b"x")
    assert list(rounds.take({A: {1: Read(long, 2), 2: Read(short, 2)}})) == []
    assert rounds.offsets == {A: 1}
    assert list(rounds.take({A: {1: Read(batch(1, b"y"), 2), 2: Read(batch(1, b"other"), 1)}})) == []
    assert rounds.offsets == {A: 1}
    assert list(rounds.take({A: {1: Read(batch(1, b"y"), 2), 2: NOTHING}})) == []
    assert rounds.offsets == {A: 1}


def test_a_different_checksum_is_reported_and_comparison_continues() -> None:
    rounds = verification({A: 0})
    one, two = batch(0, b"x") + batch(1, b"y"), batch(0, b"!") + batch(1, b"y")
    (line,) = rounds.take({A: {1: Read(one, 2), 2: Read(two, 2)}})
    assert line.startswith(
        f"{STAMP}: partition a-0 has unmatched checksum at offset 0; replica 1's checksum "
    )
    assert "; replica 2's checksum " in line
    assert rounds.offsets == {A: 2}


def test_different_offsets_end_the_comparison() -> None:
    rounds = verification({A: 0})
    reads = {1: Read(batch(0, b"x", b"y"), 2), 2: Read(batch(0, b"x"), 2)}
    told = f"{STAMP}: partition a-0: replica 1's offset 1 doesn't match replica 2's offset 0"
    with pytest.raises(Mismatch, match=told):
        list(rounds.take({A: reads}))


def test_brokers_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert replica_verification.main(["--time", "-2"]) == 1
    assert 'Missing required argument "[broker-list]"' in capsys.readouterr().err
