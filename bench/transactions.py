"""The generators of the transaction rows: a producer, a read-process-write loop, and committed reads."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from tests.interop.peers import java_command

from bench.generators import CLIENT_JVM, GeneratorFailed, Outcome, Target, java_classes, run_program

RECORDS = 100
SIZE = 100
COMPARED_PASSES = 40


def commits(target: Target) -> Outcome:
    """One producer, transactions of 100 records over all partitions. Transactions per second."""
    return _outcome(_commit(target))


def read_process_write(target: Target) -> Outcome:
    """One application that moves 100 records and their offset per transaction. Transactions per second."""
    command = java_command(
        "ReadProcessWrite",
        *(target.bootstrap, target.topic, str(SIZE), str(RECORDS)),
        *(str(target.records), str(target.records // 3), str(target.timeout_s)),
        classes=java_classes(),
        jvm=CLIENT_JVM,
    )
    return _outcome(_run(command, target))


def committed_reads(target: Target) -> Outcome:
    """The speed of read_committed reads of transactional records, relative to read_uncommitted.

    Both alternate in one JVM, so that other load on the machine affects both; the first half of the passes is
    a warm-up.
    """
    _commit(target)
    command = java_command(
        "CommittedReads",
        *(target.bootstrap, target.topic, str(target.partitions), str(target.records * RECORDS)),
        *(str(COMPARED_PASSES), str(target.timeout_s)),
        classes=java_classes(),
        jvm=CLIENT_JVM,
    )
    lines = run_program(command, target.timeout_s).splitlines()
    counted = [json.loads(line) for line in lines if line.startswith("{")][COMPARED_PASSES // 2 :]
    if len(counted) != COMPARED_PASSES - COMPARED_PASSES // 2:
        raise GeneratorFailed(f"The consumers did not tell of all their passes:\n{lines[-5:]}")
    committed_s = median(one["committed_s"] for one in counted)
    uncommitted_s = median(one["uncommitted_s"] for one in counted)
    return Outcome(uncommitted_s / committed_s, {"committed_s": committed_s, "uncommitted_s": uncommitted_s})


def _commit(target: Target) -> Any:
    command = java_command(
        "TransactionLoad",
        *(target.bootstrap, target.topic, str(target.partitions), str(SIZE), str(RECORDS)),
        *(str(target.records), str(target.records // 3)),
        classes=java_classes(),
        jvm=CLIENT_JVM,
    )
    return _run(command, target)


def _run(command: list[str], target: Target) -> Any:
    return json.loads(run_program(command, target.timeout_s).strip().splitlines()[-1])


def _outcome(figures: Any) -> Outcome:
    details = {
        name.removesuffix("_us") + "_ms": figures[name] / 1e3 for name in figures if name.endswith("_us")
    }
    return Outcome(figures["transactions"] / figures["seconds"], details)
