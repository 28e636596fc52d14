"""The rows of the table: the load of each, and its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bench import generators, groups, transactions
from bench.generators import Outcome, Target
from bench.goals import Goal

LATENCY_RATE = 5_000
CONNECTIONS = 500
GROUP_REBALANCES = 3
CLUSTER_PARTITIONS = 6
CLUSTER_RATE = 1_000
MANY_PARTITIONS = 2_000

ACKS_ONE = ("acks=1", "enable.idempotence=false")
ACKS_ALL = ("acks=all", "enable.idempotence=false")
IDEMPOTENT = ("acks=all", "enable.idempotence=true")
ONE_RECORD_A_REQUEST = (*ACKS_ONE, "batch.size=1", "linger.ms=0")

Load = Callable[[Target], Outcome]


class Kind(StrEnum):
    """How a row is evaluated."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    RATE = "rate"
    TIME = "time"
    LOAD = "load"
    START = "start"
    MEMORY = "memory"
    HOLD = "hold"
    TRANSACTIONS = "transactions"
    COMMITTED = "committed"
    REPLICATED = "replicated"
    REPLICATED_LATENCY = "replicated latency"
    FAILOVER = "failover"
    MANY = "many"
    MANY_MEMORY = "many memory"
    STALL = "stall"
    REIGN = "reign"


class Section(StrEnum):
    """The parts of the table."""

    BROKER = "One broker"
    GROUPS = "Groups"
    TRANSACTIONS = "Transactions"
    CLUSTER = "Three nodes"


_CLUSTER_KINDS = (
    Kind.REPLICATED,
    Kind.REPLICATED_LATENCY,
    Kind.FAILOVER,
    Kind.MANY,
    Kind.MANY_MEMORY,
    Kind.STALL,
    Kind.REIGN,
)
_GROUP_KINDS = (Kind.RATE, Kind.TIME, Kind.LOAD, Kind.HOLD)
_LESS_IS_BETTER = (Kind.LATENCY, Kind.TIME, Kind.REPLICATED_LATENCY)

GOALS: Mapping[Kind, Goal] = {
    Kind.THROUGHPUT: Goal(ratio_min=1.5, cpu_ratio_max=0.5),
    Kind.LATENCY: Goal(ratio_max=1.0, cpu_ratio_max=0.5),
    Kind.RATE: Goal(ratio_min=1.2),
    Kind.TIME: Goal(ratio_max=1.0),
    Kind.LOAD: Goal(ratio_max=1.0),
    Kind.HOLD: Goal(value_max=10.0),
    Kind.TRANSACTIONS: Goal(ratio_min=1.3),
    Kind.COMMITTED: Goal(value_min=0.95),
    Kind.REPLICATED: Goal(ratio_min=1.3, every_round=True),
    Kind.REPLICATED_LATENCY: Goal(ratio_max=0.77, every_round=True),
    Kind.FAILOVER: Goal(ratio_max=1.0),
    Kind.MANY: Goal(ratio_max=1.0),
    Kind.MANY_MEMORY: Goal(value_below=150.0),
    Kind.STALL: Goal(value_max=500.0),  # a quarter of the time between two heartbeats
    Kind.REIGN: Goal(value_below=1000.0),
    Kind.START: Goal(value_max=0.4),
    Kind.MEMORY: Goal(value_below=80.0),
}
"""The goal of each kind of row, unless the row has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Its load runs on a new topic; on one with some unmeasured load before, if first writes to many partitions
    would dominate (`primed`); or on one to read from (`filled`). The run checks that the topic has all sent
    records, unless the load sends none there (`is_stored`). A quick run skips rows without `is_quick`. A load
    may be for three nodes instead of one broker (`is_cluster`). At a fixed pace (`is_paced`) the CPU that a
    broker uses shows whether it is warm, since percentiles vary too much.
    """

    name: str
    title: str
    unit: str
    kind: Kind = Kind.THROUGHPUT
    records: int = 0
    quick_records: int = 0
    size: int = 100
    partitions: int = 1
    filled: bool = False
    primed: bool = False
    is_stored: bool = True
    is_quick: bool = True
    is_cluster: bool = False
    is_paced: bool = False
    load: Load | None = None
    own_goal: Goal | None = None

    @property
    def goal(self) -> Goal:
        return self.own_goal or GOALS[self.kind]

    @property
    def is_less_better(self) -> bool:
        return self.kind in _LESS_IS_BETTER

    @property
    def section(self) -> Section:
        if self.kind in _CLUSTER_KINDS:
            return Section.CLUSTER
        if self.kind in _GROUP_KINDS:
            return Section.GROUPS
        if self.kind in (Kind.TRANSACTIONS, Kind.COMMITTED):
            return Section.TRANSACTIONS
        return Section.BROKER


def _produce(size: int, settings: tuple[str, ...], figure: str = "records_per_s") -> Load:
    def load(target: Target) -> Outcome:
        figures = generators.producer_performance(target, size=size, settings=settings)
        return Outcome(figures[figure] / (1e6 if figure == "bytes_per_s" else 1), figures)

    return load


def _paced_by_kafka(target: Target) -> Outcome:
    figures = generators.producer_performance(
        target, size=100, settings=(*ACKS_ONE, "linger.ms=0"), throughput=LATENCY_RATE
    )
    return Outcome(figures["p99_ms"], figures)


def _paced(target: Target) -> Outcome:
    settings = (*ACKS_ONE, "linger.ms=0")
    figures = generators.paced_producer(target, size=100, rate=LATENCY_RATE, settings=settings)
    return Outcome(figures["p99_ms"], figures)


def _librdkafka_produce(target: Target) -> Outcome:
    figures = generators.librdkafka(target, role="produce", size=100)
    return Outcome(figures["records_per_s"], figures)


def _librdkafka_produce_large(target: Target) -> Outcome:
    figures = generators.librdkafka(target, role="produce", size=1024)
    return Outcome(figures["bytes_per_s"] / 1e6, figures)


def _paced_for_all(target: Target) -> Outcome:
    settings = (*ACKS_ALL, "linger.ms=0")
    figures = generators.paced_producer(target, size=100, rate=CLUSTER_RATE, settings=settings)
    return Outcome(figures["p99_ms"], figures)


def _librdkafka_consume(target: Target) -> Outcome:
    figures = generators.librdkafka(target, role="consume", size=100)
    return Outcome(figures["bytes_per_s"] / 1e6, figures)


def fill(target: Target, size: int) -> None:
    """Fill a topic for consumers, with full batches on both brokers."""
    generators.producer_performance(target, size=size, settings=(*ACKS_ONE, "linger.ms=100"))


ROWS: tuple[Row, ...] = (
    Row(
        name="produce-100",
        title="100 B, acks=1",
        unit="rec/s",
        records=1_500_000,
        quick_records=1_000_000,
        load=_produce(100, ACKS_ONE),
    ),
    Row(
        name="produce-1k",
        title="1 KiB, acks=all",
        unit="MB/s",
        records=300_000,
        quick_records=150_000,
        load=_produce(1024, ACKS_ALL, "bytes_per_s"),
    ),
    Row(
        name="produce-single",
        title="one 100 B record a request, acks=1",
        unit="req/s",
        records=60_000,
        quick_records=40_000,
        load=_produce(100, ONE_RECORD_A_REQUEST),
    ),
    Row(
        name="partitions-12",
        title="100 B, acks=1, 12 partitions",
        unit="rec/s",
        records=1_500_000,
        quick_records=1_000_000,
        partitions=12,
        load=_produce(100, ACKS_ONE),
    ),
    Row(
        name="partitions-1000",
        is_quick=False,
        title="100 B, acks=1, 1,000 partitions",
        unit="rec/s",
        records=600_000,
        quick_records=500_000,
        partitions=1000,
        primed=True,
        load=_produce(100, ACKS_ONE),
    ),
    Row(
        name="lz4",
        is_quick=False,
        title="1 KiB, acks=all, lz4",
        unit="MB/s",
        records=250_000,
        quick_records=150_000,
        load=_produce(1024, (*ACKS_ALL, "compression.type=lz4"), "bytes_per_s"),
    ),
    Row(
        name="idempotent",
        is_quick=False,
        title="100 B, acks=all, idempotent",
        unit="rec/s",
        records=1_500_000,
        quick_records=1_000_000,
        load=_produce(100, IDEMPOTENT),
    ),
    Row(
        name="connections-500",
        title="500 connections, one record a request",
        unit="req/s",
        records=200_000,
        quick_records=60_000,
        own_goal=Goal(ratio_min=1.0, cpu_us_max=13.0),
        load=lambda target: generators.connections(target, count=CONNECTIONS, size=100),
    ),
    Row(
        name="librdkafka-produce",
        title="librdkafka, 100 B, acks=all",
        unit="rec/s",
        records=6_000_000,
        quick_records=2_000_000,
        load=_librdkafka_produce,
    ),
    Row(
        name="fetch-100",
        title="Java consumer, 100 B",
        unit="MB/s",
        records=1_000_000,
        quick_records=1_000_000,
        filled=True,
        load=generators.java_consumer,
    ),
    Row(
        name="fetch-1k",
        is_quick=False,
        title="Java consumer, 1 KiB",
        unit="MB/s",
        records=200_000,
        quick_records=100_000,
        size=1024,
        filled=True,
        load=generators.java_consumer,
    ),
    Row(
        name="fetch-12",
        is_quick=False,
        title="Java consumer, 100 B, 12 partitions",
        unit="MB/s",
        records=1_000_000,
        quick_records=1_000_000,
        partitions=12,
        filled=True,
        load=generators.java_consumer,
    ),
    Row(
        name="librdkafka-consume",
        title="librdkafka consumer, 100 B",
        unit="MB/s",
        records=1_000_000,
        quick_records=1_000_000,
        filled=True,
        load=_librdkafka_consume,
    ),
    Row(
        name="latency",
        title="paced 5,000 rec/s, acks=1: p99",
        unit="ms",
        kind=Kind.LATENCY,
        records=30_000,
        quick_records=20_000,
        is_paced=True,
        load=_paced,
    ),
    Row(
        name="latency-tool",
        is_quick=False,
        title="the same by Kafka's tool, in whole ms",
        unit="ms",
        kind=Kind.LATENCY,
        records=20_000,
        quick_records=20_000,
        is_paced=True,
        load=_paced_by_kafka,
    ),
    Row(
        name="group-commits",
        title="offset commits, 20 connections",
        unit="req/s",
        kind=Kind.RATE,
        records=100_000,
        quick_records=40_000,
        is_stored=False,
        load=groups.commits,
    ),
    Row(
        name="group-commits-paced",
        title="paced 5,000 commits/s: p99",
        unit="ms",
        kind=Kind.TIME,
        records=30_000,
        quick_records=20_000,
        is_stored=False,
        is_paced=True,
        load=groups.paced_commits,
    ),
    Row(
        name="group-join-1000",
        is_quick=False,
        title="1,000 members join a group (classic)",
        unit="s",
        kind=Kind.TIME,
        records=1000,
        quick_records=1000,
        is_stored=False,
        load=groups.members("classic", "join_s"),
    ),
    Row(
        name="group-rebalance-1000",
        is_quick=False,
        title="one of 1,000 leaves, all rejoin (classic)",
        unit="s",
        kind=Kind.TIME,
        records=1000,
        quick_records=1000,
        is_stored=False,
        load=groups.members("classic", "rebalance_s", GROUP_REBALANCES),
    ),
    Row(
        name="group-consumer-1000",
        is_quick=False,
        title="1,000 members join a group (consumer)",
        unit="s",
        kind=Kind.TIME,
        records=1000,
        quick_records=1000,
        partitions=1000,
        is_stored=False,
        load=groups.members("consumer", "join_s"),
    ),
    Row(
        name="group-load-1m",
        is_quick=False,
        title="a coordinator loads 1,000,000 offsets",
        unit="s",
        kind=Kind.LOAD,
        records=1_000_000,
        quick_records=200_000,
    ),
    Row(
        name="group-hold",
        title="longest hold of the loop by an assignor",
        unit="ms",
        kind=Kind.HOLD,
    ),
    Row(
        name="transactions-4",
        title="100-record transactions, 4 partitions",
        unit="txn/s",
        kind=Kind.TRANSACTIONS,
        records=2_000,
        quick_records=1_500,
        partitions=4,
        is_stored=False,
        load=transactions.commits,
    ),
    Row(
        name="transactions-1",
        title="100-record transactions, 1 partition",
        unit="txn/s",
        kind=Kind.TRANSACTIONS,
        records=2_000,
        quick_records=1_500,
        is_stored=False,
        load=transactions.commits,
    ),
    Row(
        name="read-process-write",
        title="100 records read, written, offset committed",
        unit="txn/s",
        kind=Kind.TRANSACTIONS,
        records=1_000,
        quick_records=500,
        partitions=2,
        is_stored=False,
        load=transactions.read_process_write,
    ),
    Row(
        name="read-committed",
        is_quick=False,
        title="read_committed, where read_uncommitted is 1",
        unit="",
        kind=Kind.COMMITTED,
        records=1_000,
        quick_records=1_000,
        is_stored=False,
        load=transactions.committed_reads,
    ),
    Row(
        name="cluster-100",
        is_quick=False,
        title="3 nodes, 100 B, acks=all",
        unit="rec/s",
        kind=Kind.REPLICATED,
        records=1_000_000,
        quick_records=500_000,
        partitions=CLUSTER_PARTITIONS,
        is_cluster=True,
        load=_produce(100, ACKS_ALL),
    ),
    Row(
        name="cluster-1k",
        is_quick=False,
        title="3 nodes, 1 KiB, acks=all",
        unit="MB/s",
        kind=Kind.REPLICATED,
        records=120_000,
        quick_records=60_000,
        partitions=CLUSTER_PARTITIONS,
        is_cluster=True,
        load=_produce(1024, ACKS_ALL, "bytes_per_s"),
    ),
    Row(
        name="cluster-librdkafka-100",
        is_quick=False,
        title="3 nodes, librdkafka, 100 B, acks=all",
        unit="rec/s",
        kind=Kind.REPLICATED,
        records=2_000_000,
        quick_records=1_000_000,
        partitions=CLUSTER_PARTITIONS,
        is_cluster=True,
        load=_librdkafka_produce,
    ),
    Row(
        name="cluster-librdkafka-1k",
        is_quick=False,
        title="3 nodes, librdkafka, 1 KiB, acks=all",
        unit="MB/s",
        kind=Kind.REPLICATED,
        records=200_000,
        quick_records=100_000,
        partitions=CLUSTER_PARTITIONS,
        is_cluster=True,
        load=_librdkafka_produce_large,
    ),
    Row(
        name="cluster-latency",
        is_quick=False,
        title="3 nodes, paced 1,000 rec/s, acks=all: p99",
        unit="ms",
        kind=Kind.REPLICATED_LATENCY,
        records=9_000,
        quick_records=6_000,
        partitions=CLUSTER_PARTITIONS,
        is_cluster=True,
        is_paced=True,
        load=_paced_for_all,
    ),
    Row(
        name="failover-kill",
        is_quick=False,
        title="no writes after kill -9 of the leader",
        unit="s",
        kind=Kind.FAILOVER,
    ),
    Row(
        name="failover-controller",
        is_quick=False,
        title="the same where it is the active controller too",
        unit="s",
        kind=Kind.FAILOVER,
    ),
    Row(
        name="failover-stop",
        is_quick=False,
        title="no writes while the leader stops cleanly",
        unit="s",
        kind=Kind.FAILOVER,
    ),
    Row(
        name="many-create",
        is_quick=False,
        title="2,000 x 3 partitions: made at once, in sync",
        unit="s",
        kind=Kind.MANY,
        records=MANY_PARTITIONS,
        quick_records=MANY_PARTITIONS,
    ),
    Row(
        name="many-idle",
        is_quick=False,
        title="2,000 x 3 partitions: CPU of three idle nodes",
        unit="% of a core",
        kind=Kind.MANY,
        records=MANY_PARTITIONS,
        quick_records=MANY_PARTITIONS,
    ),
    Row(
        name="many-restart",
        is_quick=False,
        title="2,000 x 3 partitions: a node stopped, started, in sync",
        unit="s",
        kind=Kind.MANY,
        records=MANY_PARTITIONS,
        quick_records=MANY_PARTITIONS,
    ),
    Row(
        name="many-stall",
        is_quick=False,
        title="2,000 x 3 partitions: slowest answer of a node meanwhile",
        unit="ms",
        kind=Kind.STALL,
        records=MANY_PARTITIONS,
        quick_records=MANY_PARTITIONS,
    ),
    Row(
        name="many-memory",
        is_quick=False,
        title="2,000 x 3 partitions: resident memory of a node",
        unit="MB",
        kind=Kind.MANY_MEMORY,
        records=MANY_PARTITIONS,
        quick_records=MANY_PARTITIONS,
    ),
    Row(
        name="reign-10000",
        is_quick=False,
        title="a new controller fences a broker, 10,000 partitions: work",
        unit="ms",
        kind=Kind.REIGN,
        records=10_000,
        quick_records=10_000,
    ),
    Row(name="start", title="start to first metadata answer", unit="s", kind=Kind.START),
    Row(name="memory", title="resident memory after the runs", unit="MB", kind=Kind.MEMORY),
)
