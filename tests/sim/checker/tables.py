"""Compacted topics: the last value of every key exists, deleted keys stay deleted, offsets stay.

Compaction may remove any record but the last of its key; so each key is checked against its last write with a
known outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.sim.checker.history import Anomaly, History, KeyedSend, Outcome, TableLog, partition_text


def table_values(history: History) -> Iterator[Anomaly]:
    """Every value in a table was written under that key, and no aborted value is visible."""
    sent = {send.value: send for send in history.keyed if send.value is not None}
    outcomes = {transaction.name: transaction.outcome for transaction in history.transactions}
    for log in history.tables:
        where = partition_text(log.partition)
        for offset, key, value in log.records:
            send = sent.get(value) if value is not None else None
            if value is not None and (send is None or (send.partition, send.key) != (log.partition, key)):
                yield Anomaly(
                    "unknown value", f"{value} under {key} at {where}@{offset} was never sent there"
                )
        for offset, key, value in log.committed:
            send = sent.get(value) if value is not None else None
            if send is not None and outcomes.get(send.transaction or "") is Outcome.FAILED:
                yield Anomaly("aborted records", f"{value} under {key} at {where}@{offset} is visible")


def table_places(history: History) -> Iterator[Anomaly]:
    """An acknowledged record that exists has the acknowledged offset; offsets increase."""
    for log in history.tables:
        where = partition_text(log.partition)
        values = {offset: (key, value) for offset, key, value in log.records}
        for send in history.keyed:
            if send.partition != log.partition or send.offset is None or send.outcome is not Outcome.OK:
                continue
            found = values.get(send.offset)
            if found is not None and found != (send.key, send.value):
                yield Anomaly(
                    "two values",
                    f"{where}@{send.offset} is {send.key}={send.value} for its producer, {found} in the end",
                )
        offsets = [offset for offset, _, _ in log.records]
        if any(later <= earlier for earlier, later in pairwise(offsets)):
            yield Anomaly("reads out of order", f"the final read of {where}")


def last_values(history: History) -> Iterator[Anomaly]:
    """No key has an older value than the last acknowledged one."""
    for log in history.tables:
        last: dict[str, tuple[int, str | None]] = {}
        for offset, key, value in log.committed:
            last[key] = (offset, value)
        for key, send in sorted(_last_known(history, log).items()):
            assert send.offset is not None
            found = last.get(key)
            if found is not None and found[0] >= send.offset:
                continue
            where = f"{partition_text(log.partition)}: {key} became {send.value} at {send.offset}"
            if send.value is None and found is not None and found[1] is not None:
                yield Anomaly("resurrected", f"{where}, and stands at {found[1]}@{found[0]}")
            elif send.value is not None:
                yield Anomaly("lost key", f"{where}, and {'is gone' if found is None else f'is {found}'}")


def _last_known(history: History, log: TableLog) -> dict[str, KeyedSend]:
    """The write of each key with the highest offset, among those that certainly happened."""
    committed = {
        transaction.name for transaction in history.transactions if transaction.outcome is Outcome.OK
    }
    last: dict[str, KeyedSend] = {}
    for send in history.keyed:
        if (
            send.partition == log.partition
            and send.outcome is Outcome.OK
            and send.offset is not None
            and (send.transaction is None or send.transaction in committed)
            and (send.key not in last or send.offset > (last[send.key].offset or 0))
        ):
            last[send.key] = send
    return last
