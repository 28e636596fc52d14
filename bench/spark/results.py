"""The measurements of a run, their evaluation, and their output as JSON, tables and plots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.settling import is_settled
from bench.spark.all_rows import ROWS
from bench.spark.rows import DEFAULT, OTTLA, TUNED, Row

_COLORS = {OTTLA: "#2b6cb0", DEFAULT: "#a0aec0", TUNED: "#dd6b20"}
_OTHER_COLOR = "#38a169"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One task of one contender in one round, or in one before those that count."""

    row: str
    contender: str
    round: int
    value: float
    is_warm_up: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: medians over the rounds. The first contender is ours."""

    row: Row
    rounds: Mapping[str, list[float]]
    warm_ups: Mapping[str, list[float]]

    @property
    def values(self) -> dict[str, float]:
        return {name: median(values) for name, values in self.rounds.items()}

    @property
    def is_warm(self) -> bool:
        """Whether Spark's own connector no longer got better when the rounds began."""
        return is_warm(self.row, self.warm_ups)

    @property
    def ours(self) -> str:
        return next(iter(self.row.contenders))

    def ratio(self, contender: str) -> float:
        return self.values[self.ours] / self.values[contender]

    @property
    def is_met(self) -> bool:
        ratios = [(self.ratio(name), bound) for name, bound in self.row.wanted.items()]
        if self.row.is_time:
            return all(ratio <= bound for ratio, bound in ratios)
        return all(ratio >= bound for ratio, bound in ratios)

    def cells(self) -> list[str]:
        sign = "≤" if self.row.is_time else "≥"
        others = [name for name in self.row.contenders if name != self.ours]
        wanted = [f"{sign} {self.row.wanted[name]:g}x {name}" for name in others if name in self.row.wanted]
        return [
            self.row.title,
            *(f"{self.values[name]:,.0f}" if name in self.values else "" for name in (OTTLA, DEFAULT, TUNED)),
            self.row.unit,
            ", ".join(f"{self.ratio(name):.2f}x {name}" for name in others),
            ", ".join(wanted),
            "yes" if self.is_met else "no",
        ]

    def round_cells(self) -> list[str]:
        """Every figure of each contender; in brackets those that do not count."""
        cells = [self.row.title + ("" if self.is_warm else " \\*"), self.row.unit]
        for name in (OTTLA, DEFAULT, TUNED):
            before = " ".join(map(_number, self.warm_ups.get(name, [])))
            counted = " ".join(map(_number, self.rounds.get(name, [])))
            cells.append(f"({before}) {counted}" if before else counted)
        return cells


def is_warm(row: Row, warm_ups: Mapping[str, list[float]]) -> bool:
    """Whether the contenders in the JVM have settled."""
    names = [name for name in row.contenders if name in (DEFAULT, TUNED)]
    return all(is_settled(warm_ups.get(name, []), is_less_better=row.is_time) for name in names)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


HEADINGS = ["task", OTTLA, DEFAULT, TUNED, "unit", "ratios", "wanted", "met"]
ROUND_HEADINGS = ["task", "unit", OTTLA, DEFAULT, TUNED]


@dataclass(slots=True)
class Results:
    """The results of one run."""

    machine: dict[str, str]
    settings: dict[str, Any]
    measurements: list[Measurement] = field(default_factory=list)
    others: list[Results] = field(default_factory=list)  # other runs on the same page

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        document = asdict(self)
        del document["others"]
        path.write_text(json.dumps(document, indent=1))

    @classmethod
    def read(cls, path: Path) -> Results:
        document = json.loads(path.read_text())
        return cls(
            document["machine"],
            document["settings"],
            [Measurement(**one) for one in document["measurements"]],
        )

    def has(self, row: Row) -> bool:
        """Whether this row was measured."""
        return any(one.row == row.name for one in self.measurements)

    def lines(self) -> list[Line]:
        found = []
        for row in ROWS:
            rounds, warm_ups = (self._values(row, is_warm_up) for is_warm_up in (False, True))
            if len(rounds) == len(row.contenders):
                found.append(Line(row, rounds, warm_ups))
        return found

    def _values(self, row: Row, is_warm_up: bool) -> dict[str, list[float]]:
        values: dict[str, list[float]] = {name: [] for name in row.contenders}
        for run in (self, *self.others):
            for one in run.measurements:
                if one.row == row.name and one.is_warm_up is is_warm_up:
                    values[one.contender].append(one.value)
        return {name: found for name, found in values.items() if found}


def print_table(results: Results, console: Console) -> None:
    table = Table(*HEADINGS)
    for line in results.lines():
        table.add_row(*line.cells())
    console.print(table)


def _described(run: Results) -> str:
    """The subject and settings of a run, since runs on one page may differ."""
    rows = ", ".join(dict.fromkeys(one.row for one in run.measurements))
    load = f", load average {run.settings['load']} when it began" if "load" in run.settings else ""
    spark = "".join(f", `{name}={value}`" for name, value in run.settings.get("spark", {}).items())
    return (
        f"- {rows}: {run.settings['rounds']} rounds, {run.settings['scale']:g} of all records, "
        f"broker {run.settings['broker']}{load}{spark}"
    )


def markdown(results: Results, picture: str, note: str = "") -> str:
    """The page docs/benchmarks-spark.md. A note adds facts that a reader needs to judge the numbers."""
    rows = results.lines()
    cold = (
        []
        if all(line.is_warm for line in rows)
        else ["\\* The figures still improved when the rounds that count began.", ""]
    )
    lines = [
        "# Spark: side by side",
        "",
        "Ottla's format for Spark and Spark's own connector (its defaults, and tuned: larger fetches, polls "
        "and, for the sink, batches), in one Spark of two cores, on one broker, turn by turn; medians of "
        "the [rounds](#each-round). `make bench-spark` repeats it on yours.",
        "",
        *([note, ""] if note else []),
        f"![the same as a picture]({picture})",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(line.cells()) + " |" for line in rows),
        "",
        "## Each round",
        "",
        "In brackets: rounds that do not count, until Spark's own connector, which the JVM compiles while it "
        "runs, was warm.",
        "",
        "| " + " | ".join(ROUND_HEADINGS) + " |",
        "|" + "---|" * len(ROUND_HEADINGS),
        *("| " + " | ".join(line.round_cells()) + " |" for line in rows),
        "",
        *cold,
        "## The machine",
        "",
        *(f"- {name}: {value}" for name, value in results.machine.items()),
        "",
        "## The runs",
        "",
        *(_described(run) for run in (results, *results.others)),
    ]
    return "\n".join(lines) + "\n"


def plot(results: Results, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = results.lines()
    figure, axes = plt.subplots(1, max(len(lines), 1), figsize=(2.6 * max(len(lines), 1), 3.6), squeeze=False)
    for axis, line in zip(axes[0], lines, strict=False):
        names = list(line.values)
        colors = [_COLORS.get(name, _OTHER_COLOR) for name in names]
        axis.bar(range(len(names)), [line.values[name] for name in names], color=colors)
        axis.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names], fontsize=7)
        axis.set_title(line.row.title.replace(", ", ",\n"), fontsize=8)
        axis.set_ylabel(line.row.unit + (" (less is better)" if line.row.is_time else ""), fontsize=7)
        axis.tick_params(axis="y", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
