"""The commands of `ottla` that talk to a person: Typer reads the command line, rich lays out the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ottla.cli import version_line
from ottla.cli.cluster import cluster_app
from ottla.cli.config import config_app
from ottla.cli.serve import SUMMARY

app = typer.Typer(
    name="ottla",
    help="Ottla: an event streaming platform that speaks Apache Kafka.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(config_app, name="config")
app.add_typer(cluster_app, name="cluster")


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit code."""
    try:
        app(list(arguments), prog_name="ottla")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_line())
        raise typer.Exit


@app.callback()
def _ottla(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Show what runs here."),
    ] = False,
) -> None:
    """Ottla: an event streaming platform that speaks Apache Kafka."""


@app.command(
    "serve",
    help=SUMMARY,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def _serve(context: typer.Context) -> None:
    from ottla.cli.serve import main

    raise typer.Exit(main(context.args))
