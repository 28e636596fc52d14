"""`ottla bench`: measures produce and consume throughput and end-to-end latency of a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse
from ottla.cli.output import emit, is_terminal, show
from ottla.cli.session import Flags, Session, session_of

if TYPE_CHECKING:
    from ottla.cli.benchmarks import Contestant, Load

app = typer.Typer(no_args_is_help=False)

_BAR = 40
_SIZE_MAX = 900_000
_TIMES = ("p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
_PARTS = "produce, consume, latency"


@app.command()
def bench(
    context: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Argument(metavar="PART", help=f"What to measure: {_PARTS}. Default: all."),
    ] = None,
    seconds: Annotated[
        float, typer.Option("-s", "--seconds", metavar="NUMBER", min=0.1, help="Duration of each part.")
    ] = 5.0,
    size: Annotated[
        int,
        typer.Option(
            "--size", metavar="BYTES", min=1, max=_SIZE_MAX, help="Size of a record value in bytes."
        ),
    ] = 100,
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="NUMBER", min=1, help="Number of partitions of the topic.")
    ] = 1,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas", metavar="NUMBER", min=1, help="Replication factor. Default: the broker's."
        ),
    ] = None,
    acks: Annotated[str, typer.Option("-a", "--acks", metavar="ACKS", help="all, 1 or 0.")] = "all",
    compression: Annotated[
        str,
        typer.Option(
            "-z", "--compression", metavar="CODEC", help="Compression: none, gzip, snappy, lz4 or zstd."
        ),
    ] = "none",
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare", metavar="HOST:PORT", help="A second cluster to compare with, measured alternately."
        ),
    ] = None,
) -> None:
    """Benchmark produce throughput, consume throughput and end-to-end latency.

    Creates a temporary topic and deletes it afterwards. Produce times run from send to acknowledgement;
    latency times run from send until the record is consumed.
    """
    from ottla.cli.benchmarks import PARTS, Load, measure

    parts = tuple(only or PARTS)
    for part in parts:
        if part not in PARTS:
            raise Misuse(f"{part} is not a benchmark part. Use one of {_PARTS}.")
    if "consume" in parts and "produce" not in parts:
        parts = ("produce", *parts)
    load = Load(
        size_bytes=size,
        seconds=seconds,
        partitions=partitions,
        parts=tuple(one for one in PARTS if one in parts),
    )
    session = session_of(context)
    sessions = [session]
    if compare is not None:
        sessions.append(Session(Flags(bootstrap_server=compare).over(session.flags)))
    with ExitStack() as stack:
        contestants = [
            stack.enter_context(
                _contestant(one, load, replicas, {"acks": acks, "compression.type": compression})
            )
            for one in sessions
        ]
        measure(contestants, load, _progress)
    _clear_progress()
    _show(session, contestants, load)


@contextmanager
def _contestant(
    session: Session, load: Load, replicas: int | None, settings: dict[str, str]
) -> Iterator[Contestant]:
    """A cluster with a temporary topic, which is deleted afterwards."""
    from ottla.cli.benchmarks import Contestant
    from ottla.client.admin import NewTopic

    topic = f"ottla-bench-{os.urandom(6).hex()}"
    producing = session.client_config("producer", client_id="ottla-bench") | settings
    consuming = session.client_config("consumer", client_id="ottla-bench") | {
        "group.id": None,
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    with session.admin() as admin:
        admin.create_topics([NewTopic(topic, load.partitions, replicas)]).all()
        try:
            yield Contestant(session.bootstrap_servers, topic, producing, consuming, load)
        finally:
            admin.delete_topics([topic]).all()


def _progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what} ...", end="", file=sys.stderr, flush=True)


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(session: Session, contestants: list[Contestant], load: Load) -> None:
    from ottla.cli.benchmarks import histogram

    rows = [
        {"part": part, "cluster": one.name, **one.measured[part].row()}
        for part in load.parts
        for one in contestants
    ]
    ratios = _ratios(rows) if len(contestants) == 2 else []
    if session.is_structured:
        emit(
            session,
            {
                "size_bytes": load.size_bytes,
                "partitions": load.partitions,
                "seconds": load.seconds,
                "results": rows,
                "ratios": ratios,
                "histograms": [
                    {
                        "part": part,
                        "cluster": one.name,
                        "buckets": [
                            {"from_ms": round(low, 4), "to_ms": round(high, 4), "count": count}
                            for low, high, count in histogram(one.measured[part].times_ms)
                        ],
                    }
                    for part in load.parts
                    for one in contestants
                    if one.measured[part].times_ms
                ],
            },
        )
        return
    numbers = ["records_per_second", "mb_per_second", *_TIMES]
    show(
        session,
        rows,
        columns=["part", *(["cluster"] if len(contestants) > 1 else []), *numbers],
        wide=["records", "seconds"],
        formats=dict.fromkeys(numbers, _number),
        title=f"{load.size_bytes} bytes per record, {load.seconds:g} s per part, times in ms",
    )
    for ratio in ratios:
        print(ratio["text"])
    if is_terminal():
        for one in contestants:
            if "latency" in load.parts:
                _print_histogram(one.name, histogram(one.measured["latency"].times_ms))


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The second cluster's results relative to the first, for each part."""
    found = []
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        name = "p50_ms" if first["part"] == "latency" else "records_per_second"
        if not first[name] or not second[name]:
            continue
        times = second[name] / first[name] if name == "p50_ms" else first[name] / second[name]
        names = first["cluster"], second["cluster"]
        text = f"{names[0]} takes {times:.2f} times the records of {names[1]}."
        if first["part"] == "consume":
            text = f"{names[0]} gives {times:.2f} times the records of {names[1]}."
        elif name == "p50_ms":
            text = f"{names[0]} is {times:.2f} times as fast as {names[1]}."
        found.append({"part": first["part"], "ratio": round(times, 3), "text": f"{first['part']}: {text}"})
    return found


def _print_histogram(name: str, buckets: list[tuple[float, float, int]]) -> None:
    most = max((count for _, _, count in buckets), default=0)
    if not most:
        return
    print(f"\nend-to-end latency of {name}")
    for low, high, count in buckets:
        bar = "█" * round(count / most * _BAR) or ("▏" if count else "")
        print(f"{low:>9.2f} to {high:>9.2f} ms  {bar} {count}")
