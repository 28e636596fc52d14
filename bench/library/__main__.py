"""`python -m bench.library`: run the rows, print the table, write JSON and a plot."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench import machine
from bench.library.results import Measurement, Results, markdown, plot, print_table
from bench.library.rows import AIOKAFKA, KAFKA_PYTHON, LATENCY_RATE, OTTLA, PLAIN, ROWS, Row
from bench.library.tasks import Task
from ottla.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
DOCS = ROOT / "docs"
SLOW = (AIOKAFKA, KAFKA_PYTHON)
WIDTH_WITHOUT_TERMINAL = 180
TASK_SECONDS_MAX = 170
SPARE_RECORDS = 20_000
"""Spare records, so that no reader waits for a last chunk that would not be full."""
_numbers = itertools.count()


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    if options.read:
        results = Results.read(options.read[0])
        for path in options.read[1:]:
            results.measurements += Results.read(path).measurements
    else:
        if options.nice:
            machine.set_niceness(options.nice)
        path = options.into or RESULTS / time.strftime("library-%Y%m%d-%H%M%S.json")
        results = Results.read(path) if options.into and path.exists() else _new_results(options)
        rows = [row for row in ROWS if _is_chosen(row, options) and not results.has(row)]
        _run(rows, results, path, options, console)
        plot(results, path.with_suffix(".png"))
        console.print(f"Written: {path} and its plot beside it", highlight=False)
    print_table(results, console)
    if options.publish:
        plot(results, DOCS / "benchmarks-clients.png")
        (DOCS / "benchmarks-clients.md").write_text(markdown(results, "benchmarks-clients.png"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.library", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer records")
    parser.add_argument("--rounds", type=int, default=3, help="how often each task is run (default: 3)")
    parser.add_argument(
        "--rows", type=lambda text: text.split(","), help="names of rows, with commas between"
    )
    parser.add_argument(
        "--nice",
        type=int,
        default=0,
        help="run all alike with this niceness; only root may give a negative one",
    )
    parser.add_argument(
        "--patience", type=float, default=0.0, help="wait up to so many seconds for a quiet machine"
    )
    parser.add_argument("--long", action="store_true", help="also what takes minutes: memory")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="keep the results in this file after each row, and skip the rows that it has",
    )
    parser.add_argument("--read", type=Path, nargs="*", help="show earlier runs again, together")
    parser.add_argument("--publish", action="store_true", help="write docs/benchmarks-clients.md")
    return parser


def _is_chosen(row: Row, options: argparse.Namespace) -> bool:
    if options.rows:
        return row.name in options.rows
    return options.long or not row.is_long


def _new_results(options: argparse.Namespace) -> Results:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as temporary:
        facts = machine.facts(Path(temporary))
    facts["clients"] = ", ".join(f"{name} {version(name)}" for name in ("confluent-kafka", *SLOW))
    facts.pop("Kafka", None)
    settings: dict[str, object] = {"rounds": options.rounds, "quick": options.quick}
    return Results(facts, settings | {"begun": time.strftime("%Y-%m-%d %H:%M %Z")})


def _run(
    rows: Sequence[Row], results: Results, path: Path, options: argparse.Namespace, console: Console
) -> None:
    """Run the rows, the clients in turn in each round; the results are kept after each row."""
    is_quick, rounds = options.quick, options.rounds
    with Broker({"log.retention.ms": "-1"}, in_process=False) as broker:
        filled: dict[int, str] = {}
        for row in rows:
            records = row.quick_records if is_quick else row.records
            if row.reads and row.size not in filled:
                filled[row.size] = f"filled-{row.size}"
                same = [one for one in rows if one.reads and one.size == row.size]
                largest = max(one.quick_records if is_quick else one.records for one in same)
                task = Task(
                    bootstrap=broker.bootstrap_servers,
                    topic=filled[row.size],
                    records=largest + SPARE_RECORDS,
                    size=row.size,
                )
                _child(OTTLA, "send", task)
            found: list[Measurement] = []
            for number in range(rounds):
                machine.wait_for_quiet(options.patience)
                # The other way round in every second round: what a first run warms up serves all alike.
                for client in row.clients[:: -1 if number % 2 else 1]:
                    task = Task(
                        bootstrap=broker.bootstrap_servers,
                        topic=filled[row.size] if row.reads else f"load-{next(_numbers)}",
                        records=max(1000, int(records * (row.slow_share if client in SLOW else 1.0))),
                        size=row.size,
                        callbacks=row.callbacks,
                        has_default_batches=row.has_default_batches,
                        rate=LATENCY_RATE,
                    )
                    figures = _child(client, row.task, task)
                    value = figures.pop("value")
                    found.append(
                        Measurement(row=row.name, client=client, round=number, value=value, details=figures)
                    )
                    console.print(
                        f"round {number + 1}/{rounds}  {row.name:20} {client:16} {value:>14,.2f} {row.unit}",
                        highlight=False,
                    )
            results.measurements += found
            results.write(path)


def _child(client: str, name: str, task: Task) -> dict[str, float]:
    """Run a task in a separate process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
    environment.pop("OTTLA_KERNEL", None)
    if client == PLAIN:
        environment["OTTLA_KERNEL"] = "python"
    done = subprocess.run(
        [sys.executable, "-m", "bench.library.tasks", client, name, json.dumps(asdict(task))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TASK_SECONDS_MAX,
    )
    if done.returncode:
        raise RuntimeError(f"{client} broke off in {name}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    sys.exit(main())
