"""Writes against the final logs: no acknowledged record is lost, none is duplicated, order is kept."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tests.sim.checker.history import (
    Anomaly,
    FinalLog,
    History,
    Outcome,
    Partition,
    Send,
    partition_text,
)

OBSERVATION_INTERVAL_S = 0.2
"""The interval at which an observer checks the leaders."""


def lost_writes(history: History) -> Iterator[Anomaly]:
    """An acknowledged record (of a committed transaction, if of any) is in the final log, at its offset."""
    outcomes = {transaction.name: transaction.outcome for transaction in history.transactions}
    for log, sends in _by_log(history):
        offsets: dict[str, set[int]] = {}
        for offset, value in log.records:
            offsets.setdefault(value, set()).add(offset)
        for send in sends:
            if send.outcome is not Outcome.OK or not is_kept(history, send, log):
                continue
            if send.transaction is not None and outcomes.get(send.transaction) is not Outcome.OK:
                continue
            where = partition_text(send.partition)
            if send.value not in offsets:
                if not _may_be_gone(send, log):
                    yield Anomaly(
                        "lost write",
                        f"{send.value} was acknowledged at {where}@{send.offset}, and is gone{_acks(send)}",
                    )
            elif send.offset is not None and send.offset not in offsets[send.value]:
                found = ", ".join(map(str, sorted(offsets[send.value])))
                yield Anomaly(
                    "moved write",
                    f"{send.value} was acknowledged at {where}@{send.offset}, is at {found}{_acks(send)}",
                )


def is_kept(history: History, send: Send, log: FinalLog) -> bool:
    """Whether the acknowledgment guarantees that the record survives.

    By all in-sync replicas: always. By the leader: if that node leads to the end, or has the only replica and
    no other node was about to lead. Without acknowledgment: if there was no fault when it was sent.
    """
    if send.acks == 0:
        return any(quiet.began < send.began <= quiet.ended for quiet in history.quiet if quiet.step_s < inf)
    if send.acks == -1 or send.began > _leader_since(history, send.partition):
        return True
    return log.has_one_replica and not _is_between_leaders(history, send)


def _is_between_leaders(history: History, send: Send) -> bool:
    """Whether a reassignment was moving the only replica: the old leader continues until it learns of
    that."""
    leads = [one for one in history.leads if one.partition == send.partition]
    for new in leads:
        if not any(one.epoch < new.epoch for one in leads):
            continue  # the first leader
        old = [led.at for led in history.led if led.partition == new.partition and led.epoch < new.epoch]
        heard_at = max([new.at, *old])
        if new.at - OBSERVATION_INTERVAL_S <= send.ended and send.began <= heard_at + OBSERVATION_INTERVAL_S:
            return True
    return False


def _leader_since(history: History, partition: Partition) -> float:
    """The time from which the partition's last leader was its only self-declared leader."""
    first = [leads for leads in history.leads if leads.partition == partition]
    last_epoch = max((leads.epoch for leads in first), default=-1)
    times = [leads.at for leads in first if leads.epoch == last_epoch]
    times += [leads.at for leads in history.led if leads.partition == partition and leads.epoch < last_epoch]
    return max(times, default=inf)


def _acks(send: Send) -> str:
    return "" if send.acks == -1 else f" (acks={send.acks})"


def duplicates(history: History) -> Iterator[Anomaly]:
    """A record sent once by an idempotent producer occurs once."""
    for log, sends in _by_log(history):
        once = {send.value for send in sends if send.idempotent}
        first: dict[str, int] = {}
        for offset, value in log.records:
            if value in first and value in once:
                yield Anomaly(
                    "duplicate", f"{value} is at {partition_text(log.partition)}@{first[value]} and @{offset}"
                )
            first.setdefault(value, offset)


def impossible_values(history: History) -> Iterator[Anomaly]:
    """Every record in a log was sent to that partition, by a send that did not certainly fail."""
    sent = {send.value: send for send in history.sends}
    for log in history.final:
        for offset, value in log.records:
            place = f"{partition_text(log.partition)}@{offset}"
            send = sent.get(value)
            if send is None:
                yield Anomaly("unknown value", f"{value!r} at {place} was never sent")
            elif send.partition != log.partition:
                yield Anomaly(
                    "stray value", f"{value} at {place} was sent to {partition_text(send.partition)}"
                )
            elif send.outcome is Outcome.FAILED:
                yield Anomaly("failed write", f"{value} at {place} was refused when it was sent")


def two_values(history: History) -> Iterator[Anomaly]:
    """All readers of an offset of a partition saw the same value."""
    seen: dict[tuple[Partition, int], tuple[str, str]] = {}

    def check(partition: Partition, offset: int, value: str, who: str) -> Iterator[Anomaly]:
        first, first_who = seen.setdefault((partition, offset), (value, who))
        if first != value:
            yield Anomaly(
                "two values",
                f"{partition_text(partition)}@{offset} is {first} for {first_who}, {value} for {who}",
            )

    for log in history.final:
        for offset, value in log.records:
            yield from check(log.partition, offset, value, "the final read")
        for offset, value in log.committed:
            yield from check(log.partition, offset, value, "the final committed read")
    for log, sends in _by_log(history):
        for send in sends:
            if send.outcome is not Outcome.OK or send.offset is None or not is_kept(history, send, log):
                continue
            yield from check(send.partition, send.offset, send.value, f"its producer {send.process}")
    for read in history.reads:
        for offset, value in read.records:
            yield from check(read.partition, offset, value, f"consumer {read.process}")


def reordering(history: History) -> Iterator[Anomaly]:
    """The records of one idempotent producer instance in a partition are in the order of its sends."""
    for log, sends in _by_log(history):
        offsets = {value: offset for offset, value in reversed(log.records)}
        last: dict[str, tuple[int, str]] = {}
        for send in sends:
            if not send.idempotent or send.value not in offsets:
                continue
            offset = offsets[send.value]
            before = last.get(send.process)
            if before is not None and before[0] > offset:
                yield Anomaly(
                    "reordering",
                    f"{send.process} sent {before[1]} before {send.value}, in "
                    f"{partition_text(log.partition)} they stand at {before[0]} and {offset}",
                )
            last[send.process] = (offset, send.value)


def _by_log(history: History) -> Iterator[tuple[FinalLog, list[Send]]]:
    sends: dict[Partition, list[Send]] = {}
    for send in history.sends:
        sends.setdefault(send.partition, []).append(send)
    for log in history.final:
        yield log, sends.get(log.partition, [])


def _may_be_gone(send: Send, log: FinalLog) -> bool:
    return log.compacted or (log.expires and send.offset is not None and send.offset < log.start)
