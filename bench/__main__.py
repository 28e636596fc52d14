"""`python -m bench`: run the rows, print the table, write JSON and a plot."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from tests.interop.peers import BrokerFailed, PeerMissing

from bench import machine, report, settling
from bench.generators import GeneratorFailed
from bench.results import Results
from bench.rows import ROWS, Kind, Row, Section
from bench.runner import Plan, new_results, run

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
DOCS = ROOT / "docs"
WIDTH_WITHOUT_TERMINAL = 150


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    signal.signal(signal.SIGTERM, _on_terminate)
    if options.read is not None:
        first, *others = [Results.read(path) for path in options.read]
        results = first.with_others(others)
    else:
        if options.nice:
            machine.set_niceness(options.nice)
        plan = Plan(
            rows=options.rows or [row for row in ROWS if row.is_quick or not options.quick],
            rounds=options.rounds or (1 if options.quick else 3),
            warm_ups_max=options.warm_ups or (1 if options.quick else settling.ROUNDS_MAX),
            has_plain=options.plain,
            starts=2 if options.quick else 5,
            is_quick=options.quick,
            has_ceiling=not options.quick if options.ceiling is None else options.ceiling,
            patience_s=options.patience,
            directory=options.directory,
        )
        path = options.into or RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
        try:
            results = new_results(plan)
            if options.into is not None and path.exists():
                results = Results.read(path).continued(results)
            run(
                plan,
                results,
                lambda kept: kept.write(path),
                lambda line: console.print(line, highlight=False),
            )
        except (GeneratorFailed, BrokerFailed, PeerMissing, AssertionError) as error:
            console.print(f"The run broke off: {error}", markup=False)
            return 1
        report.plot(results, path.with_suffix(".png"))
        console.print(f"Written: {path} and its plot beside it", highlight=False)
    report.print_table(results, console)
    if options.publish:
        _publish(results)
    return 0


def _publish(results: Results) -> None:
    pictures = {
        Section.BROKER: (Kind.THROUGHPUT, "benchmarks.png"),
        Section.CLUSTER: (Kind.REPLICATED, "benchmarks-cluster.png"),
    }
    plots = {
        section: name for section, (kind, name) in pictures.items() if report.plot(results, DOCS / name, kind)
    }
    (DOCS / "benchmarks.md").write_text(report.markdown(results, plots))


def _on_terminate(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)  # runs the cleanup that stops every process


def chosen_rows(text: str) -> list[Row]:
    """The rows with these names, or of these sections, with commas between."""
    chosen = {name.strip() for name in text.split(",")} - {""}
    known = {row.name for row in ROWS} | {_section_name(section) for section in Section}
    if unknown := sorted(chosen - known):
        raise argparse.ArgumentTypeError(f"no row {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [row for row in ROWS if row.name in chosen or _section_name(row.section) in chosen]


def _section_name(section: Section) -> str:
    return section.name.lower()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Kafka and Ottla side by side on this machine."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few minutes: fewer rows, small loads, one round after one that warms up",
    )
    parser.add_argument(
        "--rows",
        type=chosen_rows,
        metavar="A,B",
        help=f"only these rows, or the rows of {', '.join(map(_section_name, Section))}: "
        + ", ".join(row.name for row in ROWS),
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds that count (default: 3, quick: 1)")
    parser.add_argument(
        "--warm-ups",
        type=int,
        metavar="N",
        help="at most N rounds before those, until Kafka's figure no longer improves "
        f"(default: {settling.ROUNDS_MAX}, quick: 1)",
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="run an Ottla with nothing compiled, too, to see how much slower it is",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="keep the results in this file after each row, and skip the rows that it has",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="S",
        help="before each row wait up to S seconds for the machine to be quiet (default: 0)",
    )
    parser.add_argument(
        "--ceiling",
        action=argparse.BooleanOptionalAction,
        help="run a third broker that stores nothing, to see what the generators can do (default: not quick)",
    )
    parser.add_argument(
        "--nice",
        type=int,
        default=0,
        metavar="N",
        help="run brokers and generators alike with this niceness; a negative one, which only root may give, "
        "keeps the other work of a machine out of the numbers",
    )
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where data goes (default: temporary)")
    parser.add_argument("--publish", action="store_true", help="write docs/benchmarks.md and its plot")
    parser.add_argument(
        "--read",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="show the results in these files; run nothing. Of a row in several of them the last one counts",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
