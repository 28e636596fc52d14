"""Random lives of a log, lived by Kafka's log and ours side by side: same answers, same files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.records.batch import Codec, set_base_offset, set_leader_epoch
from ottla.records.control import end_txn_marker
from ottla.records.record import Record, build_batch
from ottla.records.validate import Origin
from tests.interop.log.log_peer import LogPeer, Pair

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "small": {"internal.segment.bytes": "700", "index.interval.bytes": "150", "retention.bytes": "1500"},
    "plain": {"internal.segment.bytes": "4000", "segment.ms": "500", "retention.ms": "1000"},
    "dense": {"index.interval.bytes": "0", "segment.index.bytes": "120"},
    "stamped": {"message.timestamp.type": "LogAppendTime", "internal.segment.bytes": "1200"},
    "unpacked": {"compression.type": "uncompressed", "internal.segment.bytes": "900"},
}


@pytest.fixture(scope="module")
def peer() -> Iterator[LogPeer]:
    peer = LogPeer()
    yield peer
    peer.close()


class Life:
    """One random life of a pair of logs."""

    def __init__(self, pair: Pair, seed: int, *, is_robust: bool) -> None:
        self.pair = pair
        self.random = random.Random(seed)
        self.is_robust = is_robust
        """Kafka fails on scans and on several batches at once when an index has hardly any room."""
        self.whole_from = 0
        self.epoch = 0
        self.sequences: dict[int, tuple[int, int]] = {}  # producer id -> (epoch, next sequence)

    def records(self, count: int) -> list[Record]:
        rnd = self.random
        now_ms = self.pair.clock.time_ms
        return [
            Record(index, now_ms - rnd.randrange(300), b"k", rnd.randbytes(rnd.randrange(40)))
            for index in range(count)
        ]

    def plain(self) -> None:
        codec = self.random.choice([Codec.NONE, Codec.NONE, Codec.GZIP])
        batch = build_batch(self.records(self.random.randint(1, 4)), codec=codec)
        self.pair.append(bytes(batch), leader_epoch=self.epoch)

    def idempotent(self) -> None:
        """Mostly the right sequence; sometimes a retry, a gap, an old or a new epoch."""
        rnd = self.random
        producer_id = rnd.randrange(4)
        epoch, sequence = self.sequences.get(producer_id, (0, rnd.choice([0, 0, 5, 2**31 - 3])))
        count = rnd.randint(1, 4)
        twist = rnd.random()
        asked_epoch, asked = epoch, sequence
        if twist < 0.15:
            asked = max(sequence - count, 0)
        elif twist < 0.2:
            asked = sequence + 1 if sequence < 2**31 - 10 else 1
        elif twist < 0.25:
            asked_epoch, asked = epoch + 1, rnd.choice([0, 0, 1])
        elif twist < 0.28 and epoch:
            asked_epoch = epoch - 1
        batch = build_batch(
            self.records(count),
            producer_id=producer_id,
            producer_epoch=asked_epoch,
            base_sequence=asked,
            transactional=producer_id >= 2 and rnd.random() < 0.9,
        )
        end = self.pair.log.log_end_offset
        self.pair.append(bytes(batch), leader_epoch=self.epoch)
        if self.pair.log.log_end_offset > end:
            following = asked + count
            self.sequences[producer_id] = (asked_epoch, following if following < 2**31 else following - 2**31)

    def end_transaction(self) -> None:
        rnd = self.random
        producer_id = rnd.choice([2, 3])
        epoch, _ = self.sequences.get(producer_id, (0, 0))
        version = rnd.choice([0, 1, 2])
        marker_epoch = max(epoch + rnd.choice([0, 0, 0, 1, -1]), 0)
        marker = end_txn_marker(
            commit=rnd.random() < 0.5,
            producer_id=producer_id,
            producer_epoch=marker_epoch,
            coordinator_epoch=rnd.choice([3, 3, 3, 2, 4]),
            timestamp=self.pair.clock.time_ms,
        )
        answer = self.pair.append(
            bytes(marker), origin=Origin.COORDINATOR, leader_epoch=self.epoch, version=version
        )
        if answer.startswith("ok") and marker_epoch != epoch:
            self.sequences[producer_id] = (marker_epoch, 0)

    def follow(self) -> None:
        rnd = self.random
        offset = self.pair.log.log_end_offset
        parts = bytearray()
        for _ in range(rnd.randint(1, 4)):
            count = rnd.randint(1, 3)
            batch = build_batch(self.records(count))
            set_base_offset(batch, 0, offset)
            set_leader_epoch(batch, 0, self.epoch)
            parts += batch
            offset += count + rnd.choice([0, 0, 2])
        self.pair.follow(bytes(parts), leader_epoch=self.epoch)

    def step(self) -> None:
        rnd, pair, log = self.random, self.pair, self.pair.log
        end = log.log_end_offset
        choice = rnd.random()
        if choice < 0.25:
            self.plain()
        elif choice < 0.55:
            self.idempotent()
        elif choice < 0.65:
            self.end_transaction()
        elif choice < 0.68 and self.is_robust:
            self.follow()
        elif choice < 0.72:
            pair.set_time(pair.clock.time_ms + rnd.choice([1, 50, 400]))
        elif choice < 0.82:
            pair.set_watermark(rnd.choice([end, end, end, self.border()]))
        elif choice < 0.84:
            self.epoch += 1
        elif choice < 0.86:
            pair.roll()
        elif choice < 0.88:
            pair.move_start(rnd.choice([self.border(), end + 1]))
        elif choice < 0.90:
            pair.set_watermark(end)
            pair.retain()
        elif choice < 0.92 and self.is_whole:
            # Below the end Kafka forgets which transactions were not replicated, or that they were.
            pair.set_watermark(end)
            pair.truncate_to(rnd.choice([self.border(), self.border(), end]))
            self.forget()
        elif choice < 0.925:
            self.whole_from = end + rnd.randint(0, 5)
            pair.start_over_at(self.whole_from)
            self.forget()
        elif choice < 0.95:
            pair.reopen(clean=rnd.random() < 0.6 or not self.is_robust or not self.is_whole)
        else:
            self.ask()

    def border(self) -> int:
        """An offset where a batch begins. Kafka takes offsets within a batch for that batch's first one."""
        log = self.pair.log
        borders = [header.base_offset for segment in log.segments for _, header in segment.headers()]
        return self.random.choice(
            [*(offset for offset in borders if offset >= log.log_start_offset), log.log_end_offset]
        )

    @property
    def is_whole(self) -> bool:
        """Whether nothing was deleted. Of what was, Kafka forgets the producers with the next scan."""
        return self.pair.log.log_start_offset == self.whole_from

    def forget(self) -> None:
        """After a truncation producers go on from what the log still knows."""
        entries = self.pair.log.producers.entries
        self.sequences = {
            producer_id: (entry.epoch, entry.last_sequence + 1 if entry.last_sequence < 2**31 - 1 else 0)
            for producer_id, entry in entries.items()
        }

    def ask(self) -> None:
        rnd, pair, log = self.random, self.pair, self.pair.log
        pair.compare_state()
        for _ in range(4):
            offset = rnd.randint(max(log.log_start_offset - 1, 0), log.log_end_offset + 1)
            isolation = rnd.choice(["LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED"])
            pair.compare_read(offset, rnd.choice([1, 100, 500, 100_000]), isolation)
        pair.compare_search(pair.clock.time_ms - rnd.randrange(600))
        pair.compare_epoch(rnd.randint(0, self.epoch + 1))
        pair.compare_aborted(log.log_start_offset, log.log_end_offset)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(8))
def test_kafkas_log_and_ours_cannot_be_told_apart(
    peer: LogPeer, tmp_path: Path, name: str, seed: int
) -> None:
    pair = Pair(peer, tmp_path, SETTINGS[name], NOW_MS)
    life = Life(pair, seed * 1000 + len(name), is_robust=name != "dense")
    for _ in range(120):
        life.step()
    life.ask()
    pair.close_and_compare_files()
