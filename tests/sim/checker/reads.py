"""Reads against the final logs: a poll returns exactly the records that are visible from its position on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from tests.sim.checker.history import (
    Anomaly,
    FinalLog,
    History,
    Outcome,
    Partition,
    Place,
    Read,
    partition_text,
)


def read_then_lost(history: History) -> Iterator[Anomaly]:
    """A record that a consumer read still exists: consumers see nothing above the high watermark."""
    logs = {log.partition: (log, dict(log.records)) for log in history.final}
    for read in history.reads:
        if read.partition not in logs:
            continue
        log, values = logs[read.partition]
        for offset, value in read.records:
            if offset >= log.start and offset not in values and not log.compacted:
                yield Anomaly(
                    "lost after it was read",
                    f"{read.process} read {value} at {partition_text(read.partition)}@{offset}: gone",
                )


def skipped(history: History) -> Iterator[Anomaly]:
    """A poll skips no visible record between its first and next position."""
    logs = {log.partition: log for log in history.final}
    views = {
        (log.partition, committed): _offsets(log.committed if committed else log.records)
        for log in history.final
        for committed in (False, True)
    }
    for read in history.reads:
        log = logs.get(read.partition)
        if log is None or log.compacted:
            continue
        visible = log.committed if read.committed else log.records
        offsets = views[read.partition, read.committed]
        begin = bisect_left(offsets, read.position)
        end = bisect_left(offsets, read.next_position)
        got = {offset for offset, _ in read.records}
        for offset, value in visible[begin:end]:
            if offset not in got:
                yield Anomaly(
                    "skipped",
                    f"{read.process} polled {partition_text(read.partition)} from {read.position} to "
                    f"{read.next_position} and did not get {value}@{offset}",
                )


def out_of_order(history: History) -> Iterator[Anomaly]:
    """Offsets increase within a poll, stay within its bounds, and the next poll continues where it ended."""
    last: dict[tuple[str, Partition], Read] = {}
    for read in history.reads:
        where = partition_text(read.partition)
        position = read.position
        for offset, value in read.records:
            if not position <= offset < read.next_position:
                yield Anomaly(
                    "reads out of order",
                    f"{read.process} got {value} at {where}@{offset}, at a position of {position}, "
                    f"in a poll up to {read.next_position}",
                )
            position = offset + 1
        before = last.get((read.process, read.partition))
        if before is not None and not read.jumped and before.next_position != read.position:
            yield Anomaly(
                "moved position",
                f"{read.process} stood at {where}@{before.next_position} and polled from {read.position}",
            )
        last[read.process, read.partition] = read


def uncommitted_reads(history: History) -> Iterator[Anomaly]:
    """read_committed shows nothing of a transaction that was aborted, or before its commit was requested."""
    transactions = {transaction.name: transaction for transaction in history.transactions}
    of_value = {send.value: send.transaction for send in history.sends if send.transaction is not None}
    for read in history.reads:
        if not read.committed:
            continue
        for offset, value in read.records:
            transaction = transactions.get(of_value.get(value) or "")
            if transaction is None:
                continue
            place = f"{partition_text(read.partition)}@{offset}"
            if transaction.outcome is Outcome.FAILED:
                yield Anomaly(
                    "aborted read",
                    f"{read.process} read {value} at {place} of {transaction.name}, which aborted",
                )
            elif read.ended < transaction.end_began:
                yield Anomaly(
                    "uncommitted read",
                    f"{read.process} read {value} at {place} before {transaction.name} was to end",
                )


def committed_view(history: History) -> Iterator[Anomaly]:
    """The committed view of a log is a subset of the complete one."""
    for log in history.final:
        values = dict(log.records)
        for offset, value in log.committed:
            if values.get(offset) != value:
                yield Anomaly(
                    "views differ",
                    f"{value} is in the committed view of {partition_text(log.partition)}@{offset} only",
                )
        yield from _growing(log)


def _growing(log: FinalLog) -> Iterator[Anomaly]:
    for name, records in (("final", log.records), ("final committed", log.committed)):
        offsets = _offsets(records)
        if any(later <= earlier for earlier, later in pairwise(offsets)):
            yield Anomaly("reads out of order", f"the {name} read of {partition_text(log.partition)}")


def _offsets(records: tuple[Place, ...]) -> list[int]:
    return [offset for offset, _ in records]
