"""`python -m bench.spark`: run the rows, print the table, write JSON, a plot and docs/benchmarks-spark.md."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from tests.interop import peers
from tests.interop.spark.support import spark_session

from bench import machine, settling
from bench.spark.all_rows import ROWS
from bench.spark.results import Measurement, Results, is_warm, markdown, plot, print_table
from bench.spark.rows import Bench, Row

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
DOCS = ROOT / "docs"
WIDTH_WITHOUT_TERMINAL = 160
# Spark as users run it: the full compiler, a throughput collector, memory for two tasks.
SPARK = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC", "spark.driver.memory": "2g"}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    if options.read:
        results = Results.read(options.read[0])
        results.others = [Results.read(path) for path in options.read[1:]]
    else:
        path = options.into or RESULTS / time.strftime("spark-%Y%m%d-%H%M%S.json")
        results = Results.read(path) if options.into and path.exists() else _new_results(options)
        chosen = [row for row in ROWS if options.rows is None or row.name in options.rows]
        if missing := [row for row in chosen if not results.has(row)]:
            _run(missing, results, path, options, console)
        console.print(f"Written: {path}", highlight=False)
    print_table(results, console)
    if options.publish:
        plot(results, DOCS / "benchmarks-spark.png")
        (DOCS / "benchmarks-spark.md").write_text(markdown(results, "benchmarks-spark.png", options.note))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rows", type=lambda text: text.split(","), help="names, with commas between")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count (default: 3)")
    parser.add_argument(
        "--warm-ups",
        type=int,
        default=settling.ROUNDS_MAX,
        metavar="N",
        help="at most N rounds before those, until Spark's connector no longer improves "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="keep the results in this file after each row, and skip the rows that it has",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of records; 0.1 is quick")
    parser.add_argument("--broker", choices=("ottla", "kafka"), default="ottla")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark, such as spark.python.unix.domain.socket.enabled=true; the page tells of it",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of Ottla's reader, such as kafka.receive.buffer.bytes=65536; the page tells of it",
    )
    parser.add_argument("--read", type=Path, nargs="*", help="show earlier runs again, together")
    parser.add_argument("--publish", action="store_true", help="write docs/benchmarks-spark.md")
    parser.add_argument("--note", default="", help="a sentence for that page: what a reader must know")
    return parser


def _new_results(options: argparse.Namespace) -> Results:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-spark-") as name:
        facts = machine.facts(Path(name))
    return Results(
        facts,
        {
            "broker": options.broker,
            "rounds": options.rounds,
            "scale": options.scale,
            "load": round(os.getloadavg()[0], 1),
            "spark": {**_pairs(options.set), **_pairs(options.option)},
        },
    )


def _pairs(settings: Sequence[str]) -> dict[str, str]:
    return dict(setting.split("=", 1) for setting in settings)


def _run(
    rows: Sequence[Row], results: Results, path: Path, options: argparse.Namespace, console: Console
) -> None:
    """Run the rows; the results are kept after each."""
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-spark-") as name,
        peers.running(options.broker) as broker,
        spark_session(Path(name), {**SPARK, **_pairs(options.set)}) as spark,
    ):
        bench = Bench(spark, broker.bootstrap, Path(name), options.scale, options=_pairs(options.option))
        for row in rows:
            if row.prepare is not None:
                row.prepare(bench)
            results.measurements += _rounds(row, bench, options, console)
            results.write(path)


def _rounds(row: Row, bench: Bench, options: argparse.Namespace, console: Console) -> list[Measurement]:
    """Rounds that start workers and let the JVM compile, then those that count."""
    found: list[Measurement] = []
    warm_ups: dict[str, list[float]] = {name: [] for name in row.contenders}

    def measure(number: int, is_warm_up: bool) -> None:
        for contender, value in _turn(row, bench, number):
            found.append(
                Measurement(
                    row=row.name, contender=contender, round=number, value=value, is_warm_up=is_warm_up
                )
            )
            if is_warm_up:
                warm_ups[contender].append(value)
            said = f"warm-up {number + 1}" if is_warm_up else f"round {number + 1}"
            console.print(f"{said:9} {row.name:14} {contender:18} {value:10.1f} {row.unit}", highlight=False)

    for number in range(options.warm_ups):
        measure(number, True)
        if is_warm(row, warm_ups):
            break
    for number in range(options.rounds):
        measure(number, False)
    return found


def _turn(row: Row, bench: Bench, number: int) -> list[tuple[str, float]]:
    """Run each contender once; the order rotates between rounds."""
    names = list(row.contenders)
    order = itertools.islice(itertools.cycle(names), number % len(names), number % len(names) + len(names))
    return [(name, row.contenders[name](bench)) for name in order]


if __name__ == "__main__":
    sys.exit(main())
