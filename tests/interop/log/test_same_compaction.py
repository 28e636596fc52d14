"""Kafka's own cleaner and ours on two logs with the same life: the cleaned files are equal, byte by byte."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.host import HostDisk, HostRandom
from ottla.log.compaction.cleaner import Cleaner, CleanerConfig
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.batch import Codec
from ottla.records.control import end_txn_marker
from ottla.records.record import Record, build_batch
from ottla.records.validate import Origin
from tests.interop import peers
from tests.interop.log.log_peer import LogPeer, Pair
from tests.unit.log.support import Bench, append, end_transaction, produced, read_all

NOW_MS = 1_700_000_000_000
DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMMON = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "delete.retention.ms": "500"}
SETTINGS = {
    "small": COMMON | {"internal.segment.bytes": "700", "index.interval.bytes": "100"},
    "plain": COMMON | {"internal.segment.bytes": "3000", "index.interval.bytes": "300"},
    "dense": COMMON | {"internal.segment.bytes": "2000", "index.interval.bytes": "0"},
}
PARTITION = ("topic", 0)


@pytest.fixture(scope="module")
def peer() -> Iterator[LogPeer]:
    peer = LogPeer()
    yield peer
    peer.close()


class Life:
    """A random life of a compacted pair of logs."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.random = random.Random(seed)
        self.disk = HostDisk(threads=1)
        self.logs: dict[tuple[str, int], Log] = {PARTITION: pair.log}
        self.cleaner = Cleaner(
            self.disk,
            pair.clock,
            HostRandom(),
            CleanerConfig(io_buffer_bytes=1 << 14),
            self.logs,
            _refuse,
        )
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.cleanings = 0

    def records(self) -> list[Record]:
        rnd = self.random
        return [
            Record(
                0,
                self.pair.clock.time_ms - rnd.randrange(50),
                b"k%d" % rnd.randrange(8),
                None if rnd.random() < 0.2 else rnd.randbytes(rnd.randrange(30)),
                (("h", b"1"),) if rnd.random() < 0.2 else (),
            )
            for _ in range(rnd.randint(1, 5))
        ]

    def append(self) -> None:
        rnd = self.random
        records = self.records()
        producer_id = rnd.choice([-1, -1, 1, 2, 3, 4])
        if producer_id < 0:
            self.pair.append(bytes(build_batch(records)))
            return
        sequence = self.sequences.get(producer_id, 0)
        is_transactional = producer_id > 2
        batch = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=is_transactional,
        )
        self.pair.append(bytes(batch))
        self.sequences[producer_id] = sequence + len(records)
        if is_transactional:
            self.open.add(producer_id)

    def end_transaction(self) -> None:
        if not self.open:
            return
        producer_id = self.random.choice(sorted(self.open))
        self.open.discard(producer_id)
        marker = end_txn_marker(
            commit=self.random.random() < 0.5,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=1,
            timestamp=self.pair.clock.time_ms,
        )
        self.pair.append(bytes(marker), origin=Origin.COORDINATOR)

    def clean(self) -> None:
        pair = self.pair
        pair.set_watermark(pair.log.log_end_offset)
        self.logs[PARTITION] = pair.log
        dirty = self.cleaner.cleaned_offset(PARTITION, pair.log) or 0
        if not asyncio.run(self.cleaner.clean_next()):
            assert self.cleaner.uncleanable == {}
            return
        self.cleanings += 1
        pair.both(f"ok {self.cleaner.cleaned_offset(PARTITION, pair.log)}", "clean", dirty)
        pair.compare_state()

    def step(self) -> None:
        rnd, pair = self.random, self.pair
        choice = rnd.random()
        if choice < 0.6:
            self.append()
        elif choice < 0.7:
            self.end_transaction()
        elif choice < 0.8:
            pair.set_time(pair.clock.time_ms + rnd.choice([1, 50, 400]))
        elif choice < 0.86:
            if pair.log.active_segment.size_bytes:
                pair.roll()
        elif choice < 0.95:
            self.clean()
        else:
            pair.compare_aborted(pair.log.log_start_offset, pair.log.log_end_offset)
            pair.compare_read(rnd.randint(0, pair.log.log_end_offset), 100_000, "TXN_COMMITTED")

    def finish(self) -> None:
        for producer_id in sorted(self.open):
            self.open = {producer_id}
            self.end_transaction()
        for _ in range(3):
            self.append()
            self.pair.roll()
            self.pair.set_time(self.pair.clock.time_ms + 600)
            self.clean()
        assert self.cleanings > 2


@pytest.mark.peer
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(6))
def test_cleaned_files_are_those_of_kafka(peer: LogPeer, tmp_path: Path, name: str, seed: int) -> None:
    pair = Pair(peer, tmp_path, SETTINGS[name], NOW_MS)
    life = Life(pair, seed * 100 + len(name))
    for _ in range(150):
        life.step()
    life.finish()
    pair.close_and_compare_files()


@pytest.mark.peer
def test_kafkas_dump_log_finds_nothing_wrong_in_cleaned_segments(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LogConfig.from_texts(SETTINGS["plain"]))
    log = bench.open()
    cleaner = Cleaner(bench.disk, bench.clock, HostRandom(), CleanerConfig(), {PARTITION: log}, _refuse)
    rnd = random.Random(5)
    for number in range(200):
        codec = Codec(number % len(Codec))
        keys = [b"k%d" % rnd.randrange(60) for _ in range(4)]
        values = [None if rnd.random() < 0.1 else rnd.randbytes(30) for _ in keys]
        records = [
            Record(0, bench.clock.time_ms, key, value) for key, value in zip(keys, values, strict=True)
        ]
        append_stamp = bench.clock.time_ms if number % 7 == 0 else None
        append(log, memoryview(build_batch(records, codec=codec, log_append_time=append_stamp)))
        append(log, produced(2, 2 * number, 2, transactional=True))
        end_transaction(log, 2, commit=number % 3 != 0)
        if number % 50 == 49:
            bench.clock.time_ms += 600
            log.roll()
            assert asyncio.run(cleaner.clean_next())
    expected = [(record.offset, record.timestamp) for record in read_all(log)]
    log.close()
    files = sorted(str(path) for path in Path(log.directory).iterdir())
    logs = ",".join(path for path in files if path.endswith(".log"))
    text = _dump("--deep-iteration", "--print-data-log", "--files", logs)
    found = re.findall(r"^\| offset: (\d+) (?:CreateTime|LogAppendTime): (-?\d+)", text, re.M)
    assert [(int(offset), int(time)) for offset, time in found] == expected
    assert "deleteHorizonMs: OptionalLong[" in text
    assert {name for name in ("gzip", "snappy", "lz4", "zstd") if f"compresscodec: {name}" in text} == {
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    }
    _dump("--verify-index-only", "--files", ",".join(path for path in files if path.endswith("index")))
    _dump("--index-sanity-check", "--files", ",".join(path for path in files if path.endswith("eindex")))


def _dump(*arguments: str) -> str:
    result = peers.kafka_tool(DUMP, *arguments)
    text = (result.stdout + result.stderr).decode()
    assert not re.search(r"mismatch|corrupt|exception|not found|isvalid: false", text, re.I), text
    return text


def _refuse(log: Log, error: OSError) -> None:
    raise AssertionError(f"{log}: {error}")
