"""The measurements of a run, their evaluation, and their output as JSON, tables and plots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.library.rows import CLIENTS, CONFLUENT, OTTLA, PLAIN, ROWS, Row

_COLORS = {OTTLA: "#2b6cb0", PLAIN: "#63b3ed", CONFLUENT: "#dd6b20", "aiokafka": "#38a169"}
_OTHER_COLOR = "#a0aec0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One task of one client in one round."""

    row: str
    client: str
    round: int
    value: float
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: medians over the rounds."""

    row: Row
    rounds: dict[str, list[float]]

    @property
    def values(self) -> dict[str, float]:
        return {client: median(values) for client, values in self.rounds.items()}

    @property
    def ours(self) -> float:
        return self.values[self.row.clients[0]]

    def ratio(self, client: str) -> float:
        return self.ours / self.values[client]

    @property
    def wanted(self) -> str:
        sign = "≤" if self.row.is_time else "≥"
        parts = [f"{sign} {bound:g}x {client}" for client, bound in self.row.wanted.items()]
        if self.row.most is not None:
            parts.append(f"≤ {self.row.most:g} {self.row.unit}")
        return ", ".join(parts)

    @property
    def is_met(self) -> bool:
        if self.row.most is not None and self.ours > self.row.most:
            return False
        ratios = [(self.ratio(client), bound) for client, bound in self.row.wanted.items()]
        if self.row.is_time:
            return all(ratio <= bound for ratio, bound in ratios)
        return all(ratio >= bound for ratio, bound in ratios)

    @property
    def ratios(self) -> str:
        others = [client for client in self.row.clients[1:] if client in self.values]
        return ", ".join(f"{self.ratio(client):.2g}x {client}" for client in others)


@dataclass(slots=True)
class Results:
    """The results of one run."""

    machine: dict[str, str]
    settings: dict[str, object]
    measurements: list[Measurement] = field(default_factory=list)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

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
        """The rows that our client and all the clients it is compared with have run."""
        found = []
        for row in ROWS:
            rounds = {
                client: values
                for client in row.clients
                if (values := [one.value for one in self.measurements if self._is(one, row, client)])
            }
            if row.clients[0] in rounds and all(client in rounds for client in row.wanted):
                found.append(Line(row, rounds))
        return found

    @staticmethod
    def _is(one: Measurement, row: Row, client: str) -> bool:
        return one.row == row.name and one.client == client


def print_table(results: Results, console: Console) -> None:
    table = Table(title="Client libraries on one Ottla node")
    for name in ("task", "unit", *CLIENTS, "ours", "wanted"):
        table.add_column(name, justify="left" if name in ("task", "unit", "ours", "wanted") else "right")
    for line in results.lines():
        color = "green" if line.is_met else "red"
        cells = [_number(line.values.get(client)) for client in CLIENTS]
        verdict = f"{line.wanted} [{color}]{_verdict(line)}[/]"
        table.add_row(line.row.title, line.row.unit, *cells, line.ratios, verdict)
    console.print(table)


def markdown(results: Results, plot_name: str) -> str:
    """The page docs/benchmarks-clients.md."""
    lines = results.lines()
    parts = [
        "<!-- Written by python -m bench.library --publish. Do not edit. -->",
        "",
        "# Benchmarks of the client library",
        "",
        "Client libraries for Python on one Ottla node, in turn in each row; medians of the rounds, which "
        "are [below](#each-round). `make bench-library` repeats it on yours.",
        "",
        f"| task | unit | {' | '.join(CLIENTS)} | ours is | wanted |",
        f"|---|---|{'--:|' * len(CLIENTS)}---|---|",
        *(_markdown_line(line) for line in lines),
        "",
        f"![Rates as bars]({plot_name})",
        "",
        "## Each round",
        "",
        f"| task | unit | {' | '.join(CLIENTS)} |",
        f"|---|---|{'---|' * len(CLIENTS)}",
        *(_markdown_rounds(line) for line in lines),
        "",
        "## The machine",
        "",
        *(f"- {name}: {value}" for name, value in results.machine.items()),
        f"- run: {results.settings['begun']}",
        "",
        "## How it is measured",
        "",
        "Each task is a process of its own (`bench/library/tasks.py`). All clients get the same settings:"
        " acks=1, no idempotence, 5 ms of linger, batches of 128 KiB, no compression, one partition; in the"
        " row of default batches each client has its own linger and batch size. Sending ends when all is"
        " acknowledged. Slow clients send and read a tenth of the records. confluent-kafka"
        " reads with `consume(500)`, its fastest way, or where the row says so with `poll()` for each"
        " message, as in its examples. It may hold 1,000,000 messages, and looks again after 1 ms when its"
        " queue is full: by default it pauses for a second whenever 100,000 messages or 64 MiB wait. For"
        " tables it makes the columns from its messages. For latency producer and consumer share a process,"
        " and the producer does not linger. `ottla-plain` runs with OTTLA_KERNEL=python. Memory is that of a"
        " producer and a consumer in one process.",
        "",
        "[performance.md](performance.md) says what limits the rows.",
        "",
    ]
    return "\n".join(parts)


def _verdict(line: Line) -> str:
    return "met" if line.is_met else "short"


def _markdown_line(line: Line) -> str:
    cells = [line.row.title, line.row.unit, *(_number(line.values.get(client)) for client in CLIENTS)]
    verdict = "met" if line.is_met else "**short**"
    return f"| {' | '.join([*cells, line.ratios, f'{line.wanted}: {verdict}'])} |"


def _markdown_rounds(line: Line) -> str:
    rounds = (" ".join(map(_number, line.rounds.get(client, []))) for client in CLIENTS)
    return f"| {line.row.title} | {line.row.unit} | {' | '.join(rounds)} |"


def plot(results: Results, path: Path) -> None:
    """Bars: each client's rate relative to confluent-kafka's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = [line for line in results.lines() if not line.row.is_time and CONFLUENT in line.values][::-1]
    if not lines:
        return
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.8 * len(lines)))
    shown: set[str] = set()
    for place, line in enumerate(lines):
        for index, client in enumerate(line.values):
            axes.barh(
                place + 0.3 - 0.2 * index,
                line.values[client] / line.values[CONFLUENT],
                0.18,
                color=_COLORS.get(client, _OTHER_COLOR),
                label=None if client in shown else client,
            )
            shown.add(client)
        axes.plot([line.row.wanted[CONFLUENT]] * 2, [place - 0.4, place + 0.4], color="black", linestyle="--")
    axes.set_yticks(range(len(lines)), [line.row.title for line in lines])
    axes.set_xlabel("rate, where confluent-kafka's is 1 (dashed: what is wanted of ours)")
    axes.legend(loc="lower right", fontsize="small")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
