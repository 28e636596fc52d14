"""The table of ratios for the terminal, for the docs, and as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.results import KAFKA, OTTLA, PLAIN, Line, Results, Verdict
from bench.rows import GOALS, Kind, Section
from bench.settling import IMPROVEMENT_MAX, ROUNDS_MAX

_NOISE_SHOWN_MIN = 0.2
_VERDICT_COLORS = {Verdict.MET: "green", Verdict.LIMITED: "cyan", Verdict.SHORT: "red"}
_COLORS = {"throughput": "#2b6cb0", "cpu": "#dd6b20"}
_METHOD = f"""\
Both brokers are single nodes with both roles, the same `server.properties`, replication factor 1 and one
file system; Kafka's JVM has the options of its own start script. Both run all the time; one is under load
while the other idles. The load generators are Kafka's ProducerPerformance, a Java consumer and a paced Java
producer, librdkafka in C, and a loop over raw connections in C. A generator's own warm-up does not count.
After each produce load the end offsets must add up to what was sent.

Kafka gets faster while its JVM compiles it. So each row begins with rounds of the same load on both that do
not count, in turn, until two rounds in a row bring Kafka no figure that is more than {IMPROVEMENT_MAX:.0%}
better than its best one before ({ROUNDS_MAX} at most; at a fixed pace it is the CPU that must no longer
improve). The rounds that count follow, in turn as well. The failover rows, the loads of a coordinator and the
starts have no such rounds, since each of theirs is of new processes.

Groups: the commits are by consumers without membership, each for one partition. The members are raw
connections of one Python process that follows the protocol without a client's pauses. A join is timed from
the first request to the last assignment; the assignment interval of the consumer protocol is 100 ms on both
brokers. For the load both brokers get the same record batches, and what counts is the time from a start to
the first offset fetched, less that of a broker with 1,000 offsets. The hold is the longest time (of the
processor) that an assignor keeps the loop, for 1,000 members and 10,000 partitions.

Transactions: one Java producer commits one after the other, 100 records of 100 B each; the read-process-write
loop is one Java consumer and producer. Committed reads are compared with plain ones of the same topic on the
same broker, by turns in one JVM.

Three nodes: both clusters have three nodes with both roles on this machine, replication factor 3,
min.insync.replicas 2 and six partitions; a load's CPU is that of all three nodes. Failover: a plain
connection writes one record after the other with acks=all, and asks the next node at once when one does not
take it; the figure is the longest time without an acknowledgement, with `broker.session.timeout.ms` 3000,
heartbeats every 500 ms and the quorum's default timeouts on both. Many partitions: one CreateTopics with
2,000 of them, ten seconds of rest, a restart of one node, a deletion; each cluster is alone on the machine.
The slowest answer is that of a request every ten milliseconds on the controllers' listeners all the while.
The work of a new controller is the processor's time from its election to the records that move every
partition of a dead broker.

The ceiling is what the same generator reaches on a broker that reads requests and answers them but stores
nothing: close to it, the generator is the limit and not the broker. CPU is user and system time of the
broker's process during the load; busy is the share of one core that Ottla's took."""


def print_table(results: Results, console: Console) -> None:
    table = Table(title="Ottla against Kafka, medians of the rounds", title_justify="left")
    table.add_column("row")
    for name in ("Kafka", "Ottla", "ceiling", "", "ratio", "CPU s", "CPU ratio", "busy", "noise"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    table.add_column("wanted", no_wrap=True)
    for line in results.lines():
        color = _VERDICT_COLORS[line.verdict]
        table.add_row(
            line.title,
            _number(line.kafka),
            _number(line.ottla),
            _number(line.ceiling),
            line.unit,
            f"{line.ratio:.2f}" if line.ratio is not None else "",
            f"{line.kafka_cpu_s:.1f} / {line.ottla_cpu_s:.1f}" if line.kafka_cpu_s else "",
            f"{line.cpu_ratio:.2f}" if line.cpu_ratio is not None else "",
            f"{line.ottla_busy:.0%}" if line.ottla_busy is not None else "",
            f"{line.noise:.0%}" if line.noise else "",
            f"{line.wanted} [{color}]{line.verdict}[/]",
        )
    console.print(table)
    console.print(
        "ceiling: the same generator on a broker that stores nothing. CPU s: of Kafka's and Ottla's broker "
        "process for the same load. busy: how much of one core Ottla's broker used. noise: how much of one "
        "core other work on this machine took.",
        highlight=False,
    )
    cold = [line.name for line in results.lines() if not line.is_kafka_warm]
    if cold:
        console.print(f"[yellow]Kafka may not have been warm in: {', '.join(cold)}.[/]", highlight=False)
    noisy = [line.name for line in results.lines() if line.noise > _NOISE_SHOWN_MIN]
    if noisy:
        console.print(f"[yellow]The machine was not quiet during: {', '.join(noisy)}.[/]", highlight=False)


def markdown(results: Results, plots: Mapping[Section, str]) -> str:
    """The page docs/benchmarks.md; `plots` are the names of the existing pictures."""
    lines = results.lines()
    parts = [
        "<!-- Written by python -m bench --publish. Do not edit. -->",
        "",
        "# Benchmarks",
        "",
        f"Apache Kafka and Ottla on one machine, in turn, {_rounds(lines)} after Kafka is warm; medians. "
        "[Each round](#each-round) is below. `make bench` repeats it on yours, `make bench ARGS=--quick` in "
        "a few minutes.",
    ]
    for section in Section:
        chosen = [line for line in lines if line.section is section]
        if not chosen:
            continue
        parts += ["", f"## {section}", ""]
        parts += [
            "| load | Kafka | Ottla | ceiling | unit | ratio | CPU s of both | CPU ratio | busy | wanted |"
        ]
        parts += ["|---|--:|--:|--:|---|--:|--:|--:|--:|---|"]
        parts += [_markdown_line(line) for line in chosen]
        if section in plots:
            parts += ["", f"![The ratios as bars]({plots[section]})"]
    parts += ["", *_rounds_table(lines), *_plain_table(lines)]
    parts += [
        "## The machine",
        "",
        *(f"- {name}: {value}" for name, value in results.machine.items()),
        f"- run: {results.settings['begun']}; other work on the machine took {_noise(results)} of one core "
        "meanwhile",
        "",
        "## How it is measured",
        "",
        _METHOD,
        "",
    ]
    return "\n".join(parts)


def _rounds_table(lines: Sequence[Line]) -> list[str]:
    """Every figure of both; those before Kafka was warm are in brackets."""
    rows = []
    for line in lines:
        mark = "" if line.is_kafka_warm else " \\*"
        figures = (_all_rounds(line.warm_ups[name], line.rounds[name]) for name in (KAFKA, OTTLA))
        ratios = " ".join(f"{ratio:.2f}" for ratio in line.ratios)
        rows.append(f"| {line.title}{mark} | {line.unit} | {' | '.join(figures)} | {ratios} |")
    cold = "\\* Kafka's figures still improved when the rounds that count began."
    return [
        "## Each round",
        "",
        "In brackets: the rounds until Kafka was warm, which do not count.",
        "",
        "| load | unit | Kafka | Ottla | ratio |",
        "|---|---|---|---|---|",
        *rows,
        "",
        *([cold, ""] if any(not line.is_kafka_warm for line in lines) else []),
    ]


def _all_rounds(warm_ups: Sequence[float], rounds: Sequence[float]) -> str:
    before = f"({' '.join(map(_short, warm_ups))}) " if warm_ups else ""
    return before + " ".join(map(_short, rounds))


def _plain_table(lines: Sequence[Line]) -> list[str]:
    """How much slower Ottla is as plain Python; nothing if it did not run."""
    rows = [
        f"| {line.title} | {_number(line.ottla)} | {_number(line.plain)} | {line.unit} "
        f"| {line.plain / line.ottla:.2f} | {_ratio(line.plain_cpu_ratio)} "
        f"| {_all_rounds((), line.rounds[PLAIN])} |"
        for line in lines
        if line.plain is not None and line.ottla
    ]
    if not rows:
        return []
    return [
        "## Not compiled",
        "",
        "The same node as plain Python, as where there is no C compiler (`OTTLA_KERNEL=python`), in the same "
        "rounds.",
        "",
        "| load | compiled | plain | unit | ratio | CPU ratio | rounds of the plain one |",
        "|---|--:|--:|---|--:|--:|---|",
        *rows,
        "",
    ]


def _rounds(lines: Sequence[Line]) -> str:
    counts = {len(line.rounds[OTTLA]) for line in lines if line.kind is not Kind.MEMORY}
    least, most = min(counts, default=1), max(counts, default=1)
    said = str(most) if least == most else f"{least} to {most}"
    return f"{said} round{'s' if most != 1 else ''}"


def _noise(results: Results) -> str:
    shares = [line.noise for line in results.lines() if line.noise]
    return f"{min(shares):.0%} to {max(shares):.0%}" if shares else "nothing"


def _markdown_line(line: Line) -> str:
    cells = [
        line.title,
        _number(line.kafka),
        _number(line.ottla),
        _number(line.ceiling),
        line.unit,
        _ratio(line.ratio),
        f"{line.kafka_cpu_s:.1f} / {line.ottla_cpu_s:.1f}" if line.kafka_cpu_s else "",
        _ratio(line.cpu_ratio),
        f"{line.ottla_busy:.0%}" if line.ottla_busy is not None else "",
        f"{line.wanted}: {'**short**' if line.verdict is Verdict.SHORT else line.verdict}",
    ]
    return f"| {' | '.join(cells)} |"


def plot(results: Results, path: Path, kind: Kind = Kind.THROUGHPUT) -> bool:
    """Bars: throughput and CPU of Ottla relative to Kafka. Returns whether there was anything to plot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = [line for line in results.lines() if line.kind is kind][::-1]
    if not lines:
        return False
    wanted, cpu_wanted = GOALS[kind].ratio_min or 1.0, GOALS[kind].cpu_ratio_max
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.5 * len(lines)))
    places = range(len(lines))
    axes.barh(
        [place + 0.2 for place in places],
        [line.ratio or 0.0 for line in lines],
        0.38,
        color=_COLORS["throughput"],
        label=f"throughput (wanted: {wanted:g} or more)",
        xerr=[
            [max(0.0, (line.ratio or 0.0) - min(line.ratios, default=0.0)) for line in lines],
            [max(0.0, max(line.ratios, default=0.0) - (line.ratio or 0.0)) for line in lines],
        ],
        error_kw={"ecolor": "#718096", "capsize": 2},
    )
    axes.barh(
        [place - 0.2 for place in places],
        [line.cpu_ratio or 0.0 for line in lines],
        0.38,
        color=_COLORS["cpu"],
        label=f"broker CPU (wanted: {cpu_wanted:g} or less)" if cpu_wanted else "CPU of all nodes",
    )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.axvline(wanted, color=_COLORS["throughput"], linewidth=1, linestyle="--")
    if cpu_wanted:
        axes.axvline(cpu_wanted, color=_COLORS["cpu"], linewidth=1, linestyle="--")
    axes.set_yticks(list(places), [line.title for line in lines])
    axes.set_xlabel("Ottla, where Kafka is 1")
    axes.legend(loc="lower right", fontsize="small")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True


def _ratio(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else ""


def _short(value: float) -> str:
    """A figure of three digits."""
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if value >= 1e4 else _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
