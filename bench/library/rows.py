"""The rows of the table: the task of the clients, and the target for ours."""

from __future__ import annotations

from dataclasses import dataclass, field

OTTLA = "ottla"
PLAIN = "ottla-plain"
"""Our client with the kernels as plain Python."""
CONFLUENT = "confluent-kafka"
AIOKAFKA = "aiokafka"
KAFKA_PYTHON = "kafka-python"
CLIENTS = (OTTLA, PLAIN, CONFLUENT, AIOKAFKA, KAFKA_PYTHON)
ALL = (OTTLA, CONFLUENT, AIOKAFKA, KAFKA_PYTHON)
LATENCY_RATE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    `task` is the clients' task (`tasks.py`). A row with `reads` reads a prefilled topic. Slow clients get
    fewer records (`slow_share`). `wanted` has the target ratio for each client that ours is compared with: at
    least this share of its rate, or at most this share of its time (`is_time`). `most` limits a figure that
    only our client has.
    """

    name: str
    title: str
    unit: str
    task: str
    clients: tuple[str, ...] = ALL
    records: int
    quick_records: int
    size: int = 100
    reads: bool = False
    callbacks: bool = False
    has_default_batches: bool = False
    is_time: bool = False
    is_long: bool = False
    slow_share: float = 0.1
    wanted: dict[str, float] = field(default_factory=dict)
    most: float | None = None


SEND_WANTED = {CONFLUENT: 0.8, AIOKAFKA: 3.0}
SEND_1K_WANTED = {CONFLUENT: 1.0, AIOKAFKA: 3.0}
ROWS: tuple[Row, ...] = (
    Row(
        name="send-100",
        title="send, 100 B",
        unit="rec/s",
        task="send",
        records=2_000_000,
        quick_records=500_000,
        wanted=SEND_WANTED,
    ),
    Row(
        name="send-1k",
        title="send, 1 KiB",
        unit="rec/s",
        task="send",
        records=500_000,
        quick_records=150_000,
        size=1024,
        wanted=SEND_1K_WANTED,
    ),
    Row(
        name="send-1k-default",
        title="send, 1 KiB, each client's default batches",
        unit="rec/s",
        task="send",
        records=500_000,
        quick_records=150_000,
        size=1024,
        has_default_batches=True,
        wanted=SEND_1K_WANTED,
    ),
    Row(
        name="send-100-callbacks",
        title="send, 100 B, a callback for each",
        unit="rec/s",
        task="send",
        records=1_000_000,
        quick_records=300_000,
        callbacks=True,
        wanted=SEND_WANTED,
    ),
    Row(
        name="iterate-100",
        title="iterate, 100 B",
        unit="rec/s",
        task="iterate",
        records=2_000_000,
        quick_records=500_000,
        reads=True,
        wanted={CONFLUENT: 1.5},
    ),
    Row(
        name="iterate-1k",
        title="iterate, 1 KiB",
        unit="rec/s",
        task="iterate",
        records=400_000,
        quick_records=150_000,
        size=1024,
        reads=True,
        wanted={CONFLUENT: 1.2},
    ),
    Row(
        name="each-1k",
        title="iterate, 1 KiB, beside poll() for each",
        unit="rec/s",
        task="each",
        clients=(OTTLA, CONFLUENT),
        records=400_000,
        quick_records=150_000,
        size=1024,
        reads=True,
        slow_share=1.0,
        wanted={CONFLUENT: 1.2},
    ),
    Row(
        name="arrow-in",
        title="a table into a topic, 100 B",
        unit="rows/s",
        task="table_in",
        clients=(OTTLA, CONFLUENT),
        records=2_000_000,
        quick_records=1_000_000,
        slow_share=1.0,
        wanted={CONFLUENT: 5.0},
    ),
    Row(
        name="arrow-out",
        title="a topic into tables, 100 B",
        unit="rows/s",
        task="table_out",
        clients=(OTTLA, CONFLUENT),
        records=2_000_000,
        quick_records=1_000_000,
        reads=True,
        slow_share=1.0,
        wanted={CONFLUENT: 5.0},
    ),
    Row(
        name="latency",
        title=f"send to receive at {LATENCY_RATE:,} rec/s: p99",
        unit="ms",
        task="latency",
        records=10_000,
        quick_records=4_000,
        slow_share=1.0,
        is_time=True,
        wanted={CONFLUENT: 1.0},
    ),
    Row(
        name="plain-send",
        title="send, 100 B, nothing compiled",
        unit="rec/s",
        task="send",
        clients=(PLAIN, KAFKA_PYTHON),
        records=200_000,
        quick_records=50_000,
        slow_share=1.0,
        wanted={KAFKA_PYTHON: 1.0},
    ),
    Row(
        name="plain-iterate",
        title="iterate, 100 B, nothing compiled",
        unit="rec/s",
        task="iterate",
        clients=(PLAIN, KAFKA_PYTHON),
        records=200_000,
        quick_records=50_000,
        reads=True,
        slow_share=1.0,
        wanted={KAFKA_PYTHON: 1.0},
    ),
    Row(
        name="memory",
        title="memory gained from the first tenth of the records to the last",
        unit="MB",
        task="memory",
        clients=(OTTLA,),
        records=10_000_000,
        quick_records=1_000_000,
        is_long=True,
        most=20.0,
    ),
)
