"""Kafka's dump-log reads our files and finds nothing to record_error about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.batch import Codec
from tests.interop import peers
from tests.unit.log.support import START_MS, Bench, append, batch, end_transaction, produced, read_all

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile(
    r"mismatch|corrupt|out of order|non-consecutive|exception|invalid|not found|isvalid: false", re.I
)
# What the tool says of every segment that does not begin with offset 0, Kafka's own included.
LATER_SEGMENT = re.compile(r"^Non-consecutive offsets in .*\n  -1 is followed by \d+\n", re.M)


def dump(*arguments: str) -> str:
    result = peers.kafka_tool(DUMP, *arguments)
    text = LATER_SEGMENT.sub("", (result.stdout + result.stderr).decode())
    assert not COMPLAINTS.search(text), text
    return text


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log with every codec, idempotent and transactional producers, several epochs and segments."""
    bench = Bench(tmp_path, LogConfig(segment_bytes=4000, index_interval_bytes=300))
    log = bench.open()
    for number in range(30):
        codec = Codec(number % len(Codec))
        time = START_MS + 10 * number
        append(log, batch(4, codec=codec, timestamp=time, step_ms=2), leader_epoch=number // 10)
        append(log, produced(1, 3 * number, 3, timestamp=time))
        append(log, produced(2, 2 * number, 2, transactional=True, timestamp=time))
        end_transaction(log, 2, commit=number % 3 != 0, timestamp=time)
    append(log, produced(3, 0, transactional=True))
    assert len(log.segments) > 3
    return log


def files(log: Log, suffix: str) -> list[str]:
    return sorted(str(path) for path in Path(log.directory).iterdir() if path.name.endswith(suffix))


def test_every_record_is_read_with_deep_iteration(log: Log) -> None:
    expected = [(record.offset, record.timestamp) for record in read_all(log)]
    log.close()
    text = dump("--deep-iteration", "--print-data-log", "--files", ",".join(files(log, ".log")))
    found = re.findall(r"^\| offset: (\d+) (?:CreateTime|LogAppendTime): (-?\d+)", text, re.M)
    assert [(int(offset), int(time)) for offset, time in found] == expected
    assert "endTxnMarker: ABORT" in text


def test_indexes_agree_with_the_log(log: Log) -> None:
    log.close()
    indexes = files(log, ".index") + files(log, ".timeindex")
    assert any(Path(path).stat().st_size for path in indexes)
    for option in ("--index-sanity-check", "--verify-index-only"):
        dump(option, "--files", ",".join(indexes))
    text = dump("--files", ",".join(indexes))
    assert len(re.findall(r"^offset: \d+ position: \d+", text, re.M)) == sum(
        segment.offset_index.count for segment in log.segments
    )
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", text, re.M)) == sum(
        segment.time_index.count for segment in log.segments
    )


def test_aborted_transactions_and_producers_are_read(log: Log) -> None:
    aborted = log.aborted_transactions(0, log.log_end_offset)
    producers = {entry.producer_id: entry.last_offset for entry in log.producers.entries.values()}
    log.close()
    text = dump("--files", ",".join(files(log, ".txnindex")))
    found = re.findall(
        r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text
    )
    assert [tuple(map(int, entry)) for entry in found] == [tuple(entry) for entry in aborted]
    text = dump("--files", files(log, ".snapshot")[-1])
    entries = re.findall(r"producerId: (\d+) .*?lastOffset: (-?\d+)", text)
    assert {int(producer_id): int(offset) for producer_id, offset in entries} == producers
