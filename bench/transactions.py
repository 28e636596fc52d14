"""The generators of the transaction rows: a producer, a read-process-write loop, and committed reads."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from tests.interop.peers import java_command

from bench.generators import CLIENT_JVM, GeneratorFailed, Outcome, Target, java_classes, run_program

RECORDS = 100
SIZE = 100
READ_COMMITTED = "isolation.level=read_committed"
READ_UNCOMMITTED = "isolation.level=read_uncommitted"
COMPARED_READS = 3


def commits(target: Target) -> Outcome:
    """One producer, transactions of 100 records over all partitions. Transactions a second."""
    return _outcome(_commit(target))


def read_process_write(target: Target) -> Outcome:
    """One application that moves 100 records and their offset in each transaction. Transactions a second."""
    command = java_command(
        "ReadProcessWrite",
        *(target.bootstrap, target.topic, str(SIZE), str(RECORDS)),
        *(str(target.records), str(target.records // 3), str(target.timeout_s)),
        classes=java_classes(),
        jvm=CLIENT_JVM,
    )
    return _outcome(_told(command, target))


def committed_reads(target: Target) -> Outcome:
    """How fast what was written in transactions is read as committed, where reading it as it is is 1.

    The two ways take turns, each in a JVM of its own that reads the topic several times.
    """
    _commit(target)
    rates: dict[str, list[float]] = {READ_UNCOMMITTED: [], READ_COMMITTED: []}
    for _ in range(COMPARED_READS):
        for way, found in rates.items():
            found.append(_read(target, way))
    uncommitted, committed = (median(found) for found in rates.values())
    return Outcome(committed / uncommitted, {"committed": committed, "uncommitted": uncommitted})


def _commit(target: Target) -> Any:
    command = java_command(
        "TransactionLoad",
        *(target.bootstrap, target.topic, str(target.partitions), str(SIZE), str(RECORDS)),
        *(str(target.records), str(target.records // 3)),
        classes=java_classes(),
        jvm=CLIENT_JVM,
    )
    return _told(command, target)


def _read(target: Target, way: str) -> float:
    """Records a second of the later half of the passes."""
    passes = 10
    command = java_command(
        "AssignedConsumer",
        *(target.bootstrap, target.topic, str(target.partitions), str(target.records * RECORDS)),
        *(str(passes), str(target.timeout_s), way),
        classes=java_classes(),
        jvm=CLIENT_JVM,
    )
    lines = run_program(command, target.timeout_s).splitlines()
    counted = [json.loads(line) for line in lines if line.startswith("{")][passes // 2 :]
    if len(counted) != passes - passes // 2:
        raise GeneratorFailed(f"The consumer did not tell of all its passes:\n{lines[-5:]}")
    return float(median(one["records"] / one["seconds"] for one in counted))


def _told(command: list[str], target: Target) -> Any:
    return json.loads(run_program(command, target.timeout_s).strip().splitlines()[-1])


def _outcome(told: Any) -> Outcome:
    details = {name.removesuffix("_us") + "_ms": told[name] / 1e3 for name in told if name.endswith("_us")}
    return Outcome(told["transactions"] / told["seconds"], details)
