"""`ottla doctor`: diagnoses a cluster from this machine, with cause and remedy for each problem."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Annotated

import typer

from ottla.cli.checks.finding import Finding, State
from ottla.cli.output import clean, emit, is_terminal
from ottla.cli.session import Session, session_of

app = typer.Typer(no_args_is_help=False)

_MARKS = {State.OK: "✓", State.WARNING: "!", State.PROBLEM: "✗"}
_STYLES = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "bold red"}


@app.command()
def doctor(
    context: typer.Context,
    seconds: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Seconds to wait for a broker's answer."),
    ] = 10.0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show only warnings and problems.")] = False,
) -> None:
    """Diagnose a cluster. Each problem is shown with its cause and a fix. Exit code 1 on a problem.

    Checks name resolution, connections, advertised listeners, API versions, the quorum, clocks, disks,
    partitions, hanging transactions, groups and risky settings. Read-only.
    """
    session = session_of(context)
    found = []
    for finding in _examine(session, int(seconds * 1000)):
        found.append(finding)
        if not session.is_structured and not (quiet and finding.state is State.OK):
            _print(finding)
    problems = sum(one.state is State.PROBLEM for one in found)
    warnings = sum(one.state is State.WARNING for one in found)
    if session.is_structured:
        rows = [
            {"check": one.check, "state": one.state, "cause": one.cause, "cure": one.cure or None}
            for one in found
            if not (quiet and one.state is State.OK)
        ]
        emit(session, {"problems": problems, "warnings": warnings, "findings": rows})
    else:
        print(_summary(problems, warnings))
    if problems:
        raise typer.Exit(1)


def _examine(session: Session, timeout_ms: int) -> Iterable[Finding]:
    from ottla.cli.checks import health
    from ottla.cli.checks.connections import findings, look
    from ottla.client.admin import Admin

    config = session.client_config("admin")
    connections = look(config, timeout_ms)
    yield from findings(connections)
    if not connections.can_go_on:
        return
    config = {"default.api.timeout.ms": str(timeout_ms), "request.timeout.ms": str(timeout_ms), **config}
    with Admin(config) as admin:
        silent = frozenset(node for node, one in connections.brokers.items() if one.answer is None)
        patient = health.Patient(admin, timeout_ms, lambda: time.time_ns() // 1_000_000, unreachable=silent)
        yield from health.examine(patient)


def _print(finding: Finding) -> None:
    """Print a finding: wrapped on a terminal, one line per sentence in a pipe."""
    cause, cure = clean(finding.cause), clean(finding.cure)
    if not is_terminal():
        print(f"{finding.state.upper():<8} {finding.check:<13} {cause}")
        if cure:
            print(f"{'':<8} {'':<13} -> {cure}")
        sys.stdout.flush()
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(width=1)
    table.add_column(width=12, style="bold")
    table.add_column(overflow="fold")
    body = Text(cause)
    if cure:
        body.append(f"\n→ {cure}", style="cyan")
    table.add_row(Text(_MARKS[finding.state], style=_STYLES[finding.state]), finding.check, body)
    Console().print(table)


def _summary(problems: int, warnings: int) -> str:
    if not problems and not warnings:
        return "No problems found."
    parts = [
        f"{count} {name}{'' if count == 1 else 's'}" for count, name in _counts(problems, warnings) if count
    ]
    return f"Found {' and '.join(parts)}."


def _counts(problems: int, warnings: int) -> tuple[tuple[int, str], tuple[int, str]]:
    return (problems, "problem"), (warnings, "warning")
