"""A process that dies at any disk operation leaves a log that opens with everything it acknowledged."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.log.support import (
    START_MS,
    Bench,
    FaultyDisk,
    append,
    batch,
    end_transaction,
    produced,
    read_all,
)

from ottla.log.config import LogConfig
from ottla.log.log import Log

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=80, retention_bytes=900, file_delete_delay_ms=0)


class Life:
    """A fixed sequence of operations on a log, and what must be found after a crash."""

    def __init__(self) -> None:
        self.written: list[bytes] = []  # every value that an append was asked for
        self.acknowledged = 0  # how many of them
        self.flushed = 0  # offset
        self.start = 0  # the log start, as the last checkpoint would have it

    def append(self, log: Log, records: memoryview, count: int, value: bytes) -> None:
        self.written.extend([value] * count)
        append(log, records)
        self.acknowledged = len(self.written)

    def live(self, log: Log) -> None:
        for number in range(24):
            value = b"%d" % number
            count = 1 + number % 3
            if number % 4 == 3:
                data = produced(7, sum(1 + n % 3 for n in range(3, number, 4)), count, value=value)
            else:
                data = batch(count, value=value)
            self.append(log, data, count, value)
            if number % 5 == 4:
                log.flush()
                self.flushed = log.recovery_point
            if number == 8:
                append(log, produced(9, 0, transactional=True, value=b"aborted"))
                end_transaction(log, 9, commit=False)
            if number % 9 == 8:
                log.delete_old_segments(START_MS)
                log.delete_due(START_MS)
                self.start = log.log_start_offset


def die_at(bench: Bench, operation: int) -> tuple[Life, bool]:
    """Run up to the disk operation of that number; whether it was reached."""
    disk = bench.disk
    assert isinstance(disk, FaultyDisk)
    count = 0

    def fault(_operation: str, _path: str) -> int:
        nonlocal count
        count += 1
        return errno.EIO if count >= operation else 0

    life = Life()
    disk.fault = fault
    try:
        log = bench.open()
        life.live(log)
    except OSError:
        is_dead = True
    else:
        is_dead = False
        log.close(clean=False)
    disk.heal()
    return life, is_dead


@pytest.mark.parametrize("stretch", range(8))
def test_nothing_acknowledged_is_lost_wherever_the_process_dies(tmp_path: Path, stretch: int) -> None:
    operation = stretch + 1
    while True:
        path = tmp_path / str(operation)
        path.mkdir()
        bench = Bench(path, CONFIG, FaultyDisk())
        life, is_dead = die_at(bench, operation)
        log = bench.open(clean=False, recovery_point=life.flushed, log_start_offset=life.start)
        values = [record.value for record in read_all(log, log.segments[0].base_offset or None)]
        values = [value for value in values if value in set(life.written)]
        # Retention deletes from the front only, and the last append may be in the file without a response.
        unanswered = life.written[len(life.written) - len(values) :]
        answered = life.written[life.acknowledged - len(values) : life.acknowledged]
        assert values in (unanswered, answered), operation
        assert len(values) >= min(life.acknowledged, 5), operation
        assert log.producers.end_offset == log.log_end_offset
        append(log, batch(value=b"after"))
        again = bench.reopen(log)
        assert read_all(again, log.log_end_offset - 1)[-1].value == b"after"
        bench.close()
        if not is_dead:
            break
        operation += 8
    assert operation > 60
