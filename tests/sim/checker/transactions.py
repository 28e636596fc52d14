"""Transactions are atomic, and read-process-write is exactly once."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.checker.history import Anomaly, History, Outcome, Send, SourcePlace, partition_text


def torn_transactions(history: History) -> Iterator[Anomaly]:
    """Committed: all acknowledged records are visible. Aborted: none. Unknown: all or none."""
    visible = {value for log in history.final for _, value in log.committed}
    complete = {log.partition for log in history.final if not log.compacted and log.start == 0}
    sends: dict[str, list[Send]] = {}
    for send in history.sends:
        if send.transaction is not None and send.partition in complete:
            sends.setdefault(send.transaction, []).append(send)
    for transaction in history.transactions:
        written = [send for send in sends.get(transaction.name, ()) if send.outcome is Outcome.OK]
        seen = [send for send in sends.get(transaction.name, ()) if send.value in visible]
        missing = [send for send in written if send.value not in visible]
        if transaction.outcome is Outcome.FAILED and seen:
            yield Anomaly("aborted records", f"{transaction.name} aborted, yet {_places(seen)} are visible")
        elif transaction.outcome is Outcome.OK and missing:
            yield Anomaly("torn transaction", f"{transaction.name} committed without {_places(missing)}")
        elif transaction.outcome is Outcome.UNKNOWN and seen and missing:
            yield Anomaly(
                "torn transaction",
                f"of {transaction.name}, {_places(seen)} are visible and {_places(missing)} are not",
            )


def broken_sums(history: History) -> Iterator[Anomaly]:
    """Read-process-write: each record below the group's committed offset yields exactly one visible record.

    If several groups read the same topic, the process's name must include the group; in the workloads one
    group reads a topic.
    """
    made: dict[SourcePlace, list[str]] = {}
    visible = {value for log in history.final for _, value in log.committed}
    read_topics = set()
    for send in history.sends:
        if send.source is not None:
            read_topics.add(send.source[0])
            if send.value in visible:
                made.setdefault(send.source, []).append(send.value)
    for source, values in made.items():
        if len(values) > 1:
            yield Anomaly("processed twice", f"{_source_text(source)} became {', '.join(values)}")
    positions: dict[tuple[str, int], int] = {}
    for committed in history.committed:
        if committed.offset is not None and committed.partition[0] in read_topics:
            positions[committed.partition] = max(committed.offset, positions.get(committed.partition, 0))
    for log in history.final:
        for offset, value in log.committed:
            source = (*log.partition, offset)
            if offset < positions.get(log.partition, 0) and source not in made:
                yield Anomaly("never processed", f"{value} at {_source_text(source)}, below the position")


def _places(sends: list[Send]) -> str:
    shown = ", ".join(f"{send.value} ({partition_text(send.partition)})" for send in sends[:4])
    return shown if len(sends) <= 4 else f"{shown} and {len(sends) - 4} more"


def _source_text(source: SourcePlace) -> str:
    return f"{source[0]}-{source[1]}@{source[2]}"
