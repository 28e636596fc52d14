"""The checker finds each kind of broken guarantee, and none in a correct run."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest

from tests.sim.checker import (
    Assigned,
    Commit,
    Committed,
    Exposed,
    FinalLog,
    Generation,
    History,
    KeyedSend,
    Leads,
    MetadataLog,
    Outcome,
    Read,
    ReplicaLog,
    Send,
    TableLog,
    Transaction,
    Watermark,
    check,
)

IN, OUT = ("in", 0), ("out", 0)


def sound_history(seed: int) -> History:
    """The history of a small correct model of a cluster: writes, a group, transactions."""
    rng = random.Random(seed)
    history = History()
    logs: dict[tuple[str, int], list[tuple[int, str | None, bool]]] = {IN: [], OUT: []}

    def append(partition: tuple[str, int], value: str | None, visible: bool) -> int:
        logs[partition].append((len(logs[partition]), value, visible))
        return len(logs[partition]) - 1

    time = 0.0
    for number in range(rng.randrange(5, 30)):
        time += 1
        outcome = rng.choice([Outcome.OK, Outcome.OK, Outcome.UNKNOWN, Outcome.FAILED])
        arrived = outcome is Outcome.OK or (outcome is Outcome.UNKNOWN and rng.random() < 0.5)
        offset = append(IN, f"i{number}", True) if arrived else None
        known = offset if outcome is Outcome.OK else None
        history.sends.append(
            Send(process="p", partition=IN, value=f"i{number}", outcome=outcome, began=time, offset=known)
        )
    position = 0
    for number in range(rng.randrange(1, 8)):
        time += 10
        count = rng.randrange(1, 5)
        taken = [(o, v) for o, v, _ in logs[IN][position : position + count] if v is not None]
        if not taken:
            break
        following = taken[-1][0] + 1
        history.reads.append(
            Read(
                process=f"c{number}",
                partition=IN,
                committed=True,
                position=position,
                next_position=following,
                records=tuple(taken),
                ended=time,
                jumped=True,
            )
        )
        outcome = rng.choice([Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN])
        committed = outcome is Outcome.OK or (outcome is Outcome.UNKNOWN and rng.random() < 0.5)
        name = f"t{number}"
        for offset, value in taken:
            made = f"{value}/{number}"
            place = append(OUT, made, committed)
            history.sends.append(
                Send(
                    process=f"c{number}",
                    partition=OUT,
                    value=made,
                    outcome=Outcome.OK,
                    began=time,
                    offset=place,
                    transaction=name,
                    source=(*IN, offset),
                )
            )
        append(OUT, None, False)
        history.transactions.append(
            Transaction(name=name, process=f"c{number}", outcome=outcome, end_began=time + 1)
        )
        if committed:
            position = following
        history.assigned.append(
            Assigned(group="g", member=f"c{number}", generation=number, partitions=(IN,), at=time)
        )
        history.generations.append(Generation(group="g", generation=number, at=time))
        history.committed.append(
            Committed(group="g", partition=IN, offset=position, began=time + 3, ended=time + 4)
        )
    for partition, log in logs.items():
        records = tuple((offset, value) for offset, value, _ in log if value is not None)
        committed_records = tuple((o, v) for o, v, visible in log if v is not None and visible)
        history.final.append(
            FinalLog(partition=partition, start=0, end=len(log), records=records, committed=committed_records)
        )
        batches = tuple((offset, offset, hash(value) & 0xFFFF) for offset, value, _ in log)
        history.replicas += [
            ReplicaLog(node=node, partition=partition, high_watermark=len(log), batches=batches)
            for node in (1, 2, 3)
        ]
        history.leads += [
            Leads(node=1, partition=partition, epoch=0, at=0),
            Leads(node=2, partition=partition, epoch=1, at=5),
        ]
        history.watermarks += [
            Watermark(node=1, partition=partition, epoch=0, high=high, stable=high, at=high)
            for high in range(len(log))
        ]
    history.metadata += [
        MetadataLog(node=node, entries=tuple((n, 1, n * 7) for n in range(4)), applied_to=3, image=99)
        for node in (1, 2, 3)
    ]
    return history


@pytest.mark.parametrize("seed", range(300))
def test_a_correct_run_has_no_anomaly(seed: int) -> None:
    assert check(sound_history(seed)) == []


def small_history() -> History:
    """Three writes, one committed and one aborted transaction, all correct."""
    history = History()
    for number in range(3):
        history.sends.append(
            Send(
                process="p",
                partition=IN,
                value=f"v{number}",
                outcome=Outcome.OK,
                began=number,
                offset=number,
            )
        )
    for name, outcome, offset in (("good", Outcome.OK, 0), ("bad", Outcome.FAILED, 3)):
        for index in range(2):
            history.sends.append(
                Send(
                    process="p",
                    partition=OUT,
                    value=f"{name}{index}",
                    outcome=Outcome.OK,
                    began=10,
                    offset=offset + index,
                    transaction=name,
                    source=("in", 0, index) if name == "good" else None,
                )
            )
        history.transactions.append(Transaction(name=name, process="p", outcome=outcome, end_began=20))
    history.final.append(
        FinalLog(
            partition=IN,
            start=0,
            end=3,
            records=((0, "v0"), (1, "v1"), (2, "v2")),
            committed=((0, "v0"), (1, "v1"), (2, "v2")),
        )
    )
    history.final.append(
        FinalLog(
            partition=OUT,
            start=0,
            end=6,
            records=((0, "good0"), (1, "good1"), (3, "bad0"), (4, "bad1")),
            committed=((0, "good0"), (1, "good1")),
        )
    )
    history.reads.append(
        Read(
            process="c",
            partition=OUT,
            committed=True,
            position=0,
            next_position=3,
            records=((0, "good0"), (1, "good1")),
            ended=30,
        )
    )
    history.committed.append(Committed(group="g", partition=IN, offset=2, began=40, ended=41))
    return history


def _final(history: History, index: int, **changes: object) -> None:
    history.final[index] = dataclasses.replace(history.final[index], **changes)  # type: ignore[arg-type]


def _read(history: History, **changes: object) -> None:
    history.reads[0] = dataclasses.replace(history.reads[0], **changes)  # type: ignore[arg-type]


def lose_a_write(history: History) -> None:
    _final(history, 0, records=((0, "v0"), (2, "v2")), committed=((0, "v0"), (2, "v2")))


def move_a_write(history: History) -> None:
    _final(history, 0, records=((0, "v0"), (1, "v1"), (3, "v2")), committed=(), end=4)


def write_twice(history: History) -> None:
    records = ((0, "v0"), (1, "v1"), (2, "v2"), (3, "v1"))
    _final(history, 0, records=records, committed=records, end=4)


def change_a_value(history: History) -> None:
    _read(history, records=((0, "good0"), (1, "good9")))


def invent_a_value(history: History) -> None:
    records = (*history.final[0].records, (3, "nobody's"))
    _final(history, 0, records=records, committed=records, end=4)


def put_a_value_into_another_topic(history: History) -> None:
    records = (*history.final[1].records, (5, "v2"))
    _final(history, 1, records=records)


def keep_a_refused_write(history: History) -> None:
    history.sends[1] = dataclasses.replace(history.sends[1], outcome=Outcome.FAILED, offset=None)


def swap_two_writes(history: History) -> None:
    history.sends[:3] = [dataclasses.replace(send, offset=None) for send in history.sends[:3]]
    records = ((0, "v1"), (1, "v0"), (2, "v2"))
    _final(history, 0, records=records, committed=records)


def read_what_is_gone(history: History) -> None:
    history.reads.append(
        Read(
            process="d",
            partition=IN,
            committed=False,
            position=0,
            next_position=6,
            records=((0, "v0"), (1, "v1"), (2, "v2"), (5, "v5")),
            ended=1,
        )
    )


def skip_a_record(history: History) -> None:
    _read(history, records=((0, "good0"),))


def read_backwards(history: History) -> None:
    _read(history, records=((1, "good1"), (0, "good0")))


def jump_between_polls(history: History) -> None:
    history.reads.append(dataclasses.replace(history.reads[0], position=4, next_position=5, records=()))


def read_an_aborted_record(history: History) -> None:
    _read(history, next_position=5, records=((0, "good0"), (1, "good1"), (3, "bad0"), (4, "bad1")))


def read_before_the_commit(history: History) -> None:
    _read(history, ended=15)


def show_more_when_committed(history: History) -> None:
    _final(history, 0, committed=((0, "v0"), (1, "v1"), (2, "v2"), (9, "v9")))


def commit_half(history: History) -> None:
    history.reads.clear()
    _final(history, 1, committed=((0, "good0"),))


def commit_half_of_an_unknown_one(history: History) -> None:
    history.transactions[0] = dataclasses.replace(history.transactions[0], outcome=Outcome.UNKNOWN)
    commit_half(history)


def show_an_aborted_transaction(history: History) -> None:
    _final(history, 1, committed=history.final[1].records)
    history.reads.clear()


def process_twice(history: History) -> None:
    history.sends[4] = dataclasses.replace(history.sends[4], source=("in", 0, 0))


def process_never(history: History) -> None:
    history.committed.append(Committed(group="g", partition=IN, offset=3, began=50, ended=51))


def go_back_a_generation(history: History) -> None:
    history.generations += [
        Generation(group="g", generation=5, at=1),
        Generation(group="g", generation=4, at=2),
    ]


def give_a_partition_twice(history: History) -> None:
    history.assigned += [
        Assigned(group="g", member="a", generation=3, partitions=(IN,), at=1),
        Assigned(group="g", member="b", generation=3, partitions=(OUT, IN), at=2),
    ]


def forget_a_commit(history: History) -> None:
    history.commits.append(Commit(group="h", partition=IN, offset=3, outcome=Outcome.OK, ended=5))
    history.committed.append(Committed(group="h", partition=IN, offset=None, began=6, ended=7))


def go_back_in_what_is_committed(history: History) -> None:
    history.committed += [
        Committed(group="h", partition=OUT, offset=3, began=1, ended=2),
        Committed(group="h", partition=OUT, offset=2, began=3, ended=4),
    ]


def lead_twice(history: History) -> None:
    history.leads += [
        Leads(node=1, partition=IN, epoch=4, at=1),
        Leads(node=2, partition=IN, epoch=4, at=9),
    ]


def lower_a_watermark(history: History) -> None:
    history.watermarks += [
        Watermark(node=1, partition=IN, epoch=4, high=7, stable=7, at=1),
        Watermark(node=1, partition=IN, epoch=4, high=6, stable=6, at=2),
    ]


def raise_the_stable_offset(history: History) -> None:
    history.watermarks.append(Watermark(node=1, partition=IN, epoch=4, high=7, stable=8, at=1))


def expose_a_watermark(history: History) -> None:
    history.exposed.append(Exposed(node=1, partition=IN, epoch=0, high=3, replica=2, replica_end=2, at=5.0))


def change_a_replica(history: History) -> None:
    history.replicas += [
        ReplicaLog(node=1, partition=IN, high_watermark=3, batches=((0, 1, 5), (2, 2, 6))),
        ReplicaLog(node=2, partition=IN, high_watermark=3, batches=((0, 1, 5), (2, 2, 7))),
    ]


def change_metadata(history: History) -> None:
    history.metadata += [
        MetadataLog(node=1, entries=((0, 1, 5),), applied_to=0),
        MetadataLog(node=2, entries=((0, 1, 6),), applied_to=0),
    ]


def change_an_image(history: History) -> None:
    history.metadata += [
        MetadataLog(node=1, entries=(), applied_to=8, image=1),
        MetadataLog(node=2, entries=(), applied_to=8, image=2),
    ]


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lose_a_write, "lost write"),
        (move_a_write, "moved write"),
        (write_twice, "duplicate"),
        (change_a_value, "two values"),
        (invent_a_value, "unknown value"),
        (put_a_value_into_another_topic, "stray value"),
        (keep_a_refused_write, "failed write"),
        (swap_two_writes, "reordering"),
        (read_what_is_gone, "lost after it was read"),
        (skip_a_record, "skipped"),
        (read_backwards, "reads out of order"),
        (jump_between_polls, "moved position"),
        (read_an_aborted_record, "aborted read"),
        (read_before_the_commit, "uncommitted read"),
        (show_more_when_committed, "views differ"),
        (commit_half, "torn transaction"),
        (commit_half_of_an_unknown_one, "torn transaction"),
        (show_an_aborted_transaction, "aborted records"),
        (process_twice, "processed twice"),
        (process_never, "never processed"),
        (go_back_a_generation, "generation went back"),
        (give_a_partition_twice, "two owners"),
        (forget_a_commit, "offset went back"),
        (go_back_in_what_is_committed, "offset went back"),
        (lead_twice, "two leaders"),
        (lower_a_watermark, "watermark went back"),
        (raise_the_stable_offset, "stable above watermark"),
        (expose_a_watermark, "exposed watermark"),
        (change_a_replica, "replicas differ"),
        (change_metadata, "metadata differs"),
        (change_an_image, "images differ"),
    ],
)
def test_each_broken_guarantee_is_found(damage: Callable[[History], None], kind: str) -> None:
    history = small_history()
    assert check(history) == []
    damage(history)
    assert kind in {anomaly.kind for anomaly in check(history)}


def test_records_removed_by_retention_or_compaction_are_not_lost() -> None:
    history = small_history()
    lose_a_write(history)
    _final(history, 0, compacted=True)
    assert check(history) == []
    history = small_history()
    _final(history, 0, start=2, records=((2, "v2"),), committed=((2, "v2"),), expires=True)
    assert check(history) == []
    _final(history, 0, expires=False)
    assert {anomaly.kind for anomaly in check(history)} == {"lost write"}


TABLE = ("table", 0)


def table_history(
    sends: list[tuple[str, str | None, int]], left: list[tuple[int, str, str | None]]
) -> History:
    """Acknowledged writes (key, value, offset), and the records that compaction has kept."""
    history = History()
    for key, value, offset in sends:
        history.keyed.append(
            KeyedSend(process="p", partition=TABLE, key=key, value=value, outcome=Outcome.OK, offset=offset)
        )
    history.tables.append(TableLog(partition=TABLE, records=tuple(left), committed=tuple(left)))
    return history


def test_a_table_with_the_last_value_of_each_key_is_correct() -> None:
    sends = [("a", "1", 0), ("b", "2", 1), ("a", "3", 2), ("b", None, 3)]
    assert check(table_history(sends, [(2, "a", "3"), (3, "b", None)])) == []
    assert check(table_history(sends, [(2, "a", "3")])) == []


def test_a_lost_or_resurrected_key_is_found() -> None:
    sends = [("a", "1", 0), ("b", "2", 1), ("a", "3", 2), ("b", None, 3)]
    cases: tuple[tuple[list[tuple[int, str, str | None]], str], ...] = (
        ([(3, "b", None)], "lost key"),
        ([(0, "a", "1"), (3, "b", None)], "lost key"),
        ([(1, "b", "2"), (2, "a", "3")], "resurrected"),
        ([(2, "a", "4"), (3, "b", None)], "unknown value"),
        ([(2, "b", "2")], "two values"),
        ([(3, "b", None), (2, "a", "3")], "reads out of order"),
    )
    for left, kind in cases:
        assert kind in {anomaly.kind for anomaly in check(table_history(sends, left))}, kind
