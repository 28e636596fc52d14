"""Checks the history of a run: `check(history)` returns every broken guarantee. Pure, and independent of the
code under test.

It follows Jepsen's Kafka workload: unique values, three outcomes, a final read from the beginning; and it
adds white-box checks: leaders by epoch, watermarks, replicas, metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.sim.checker import groups, latency, reads, replicas, tables, transactions, writes
from tests.sim.checker.history import (
    Anomaly,
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
    Quiet,
    Read,
    ReplicaLog,
    Send,
    TableLog,
    Transaction,
    Wait,
    Watermark,
)

__all__ = [
    "CHECKS",
    "Anomaly",
    "Assigned",
    "Commit",
    "Committed",
    "Exposed",
    "FinalLog",
    "Generation",
    "History",
    "KeyedSend",
    "Leads",
    "MetadataLog",
    "Outcome",
    "Quiet",
    "Read",
    "ReplicaLog",
    "Send",
    "TableLog",
    "Transaction",
    "Wait",
    "Watermark",
    "check",
]

Check = Callable[[History], Iterator[Anomaly]]

CHECKS: tuple[Check, ...] = (
    writes.lost_writes,
    writes.duplicates,
    writes.impossible_values,
    writes.two_values,
    writes.reordering,
    reads.read_then_lost,
    reads.skipped,
    reads.out_of_order,
    reads.uncommitted_reads,
    reads.committed_view,
    transactions.torn_transactions,
    transactions.broken_sums,
    groups.generations_back,
    groups.two_owners,
    groups.offsets_back,
    replicas.two_leaders,
    replicas.watermarks_back,
    replicas.exposed_watermarks,
    replicas.replicas_differ,
    replicas.metadata_differs,
    tables.table_values,
    tables.table_places,
    tables.last_values,
    latency.late_sends,
    latency.late_waits,
    latency.needless_elections,
)


def check(history: History) -> list[Anomaly]:
    """All anomalies, grouped by kind; an empty list means that every guarantee held."""
    return [anomaly for look in CHECKS for anomaly in look(history)]
