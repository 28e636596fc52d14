"""`ottla config`: which settings there are, what one of them does, and whether a file is valid."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ottla.config import ConfigError, Definition, ResourceType, definition, definitions

app = typer.Typer(help="Look up settings and check configuration files.", no_args_is_help=True)


class Kind(StrEnum):
    """What settings belong to."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"

    @property
    def resource(self) -> ResourceType:
        return ResourceType[self.name]


KindOption = Annotated[
    Kind | None, typer.Option("--for", help="Only settings of this kind; the default is all kinds.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_settings(
    words: Annotated[
        list[str] | None, typer.Argument(help="Words that the name or the text must hold.")
    ] = None,
    kind: KindOption = None,
    as_json: JsonOption = False,
) -> None:
    """List settings, all or those that hold every given word."""
    wanted = [word.lower() for word in words or ()]
    found = [
        (one, setting)
        for one in ([kind] if kind else Kind)
        for setting in definitions(one.resource).values()
        if not setting.internal or setting.name.startswith("ottla.")
        if all(word in f"{setting.name} {setting.doc}".lower() for word in wanted)
    ]
    if as_json:
        typer.echo(json.dumps([_facts(one, setting) for one, setting in found], indent=2))
        return
    if not found:
        typer.echo("No setting holds all of these words.", err=True)
        raise typer.Exit(1)
    table = Table("setting", "for", "default", "meaning", box=None, pad_edge=False)
    for one, setting in found:
        table.add_row(escape(setting.name), one.value, escape(_default(setting)), escape(setting.doc))
    console = Console()
    # Piped output has no width to fit into: one setting a line then, for grep and its like.
    (console if console.is_terminal else Console(width=400)).print(table)


@app.command("show")
def show_setting(
    name: Annotated[str, typer.Argument(help="Name of the setting, such as retention.ms.")],
    kind: KindOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one setting."""
    found = [
        (one, setting)
        for one in ([kind] if kind else Kind)
        if (setting := definition(one.resource, name)) is not None
    ]
    if not found:
        _fail_unknown(name, kind)
    if as_json:
        typer.echo(json.dumps([_facts(one, setting) for one, setting in found], indent=2))
        return
    console = Console()
    for at, (one, setting) in enumerate(found):
        if at:
            console.print()
        table = Table.grid(padding=(0, 2))
        for label, value in _facts(one, setting).items():
            if value not in (None, "", []):
                shown = ", ".join(value) if isinstance(value, list) else str(value)
                table.add_row(label.replace("_", " "), escape(shown))
        console.print(table)


app.command("describe", hidden=True, help="The same as show.")(show_setting)


@app.command("check")
def check_file(
    file: Annotated[str, typer.Argument(help="A server.properties file.")],
    override: Annotated[list[str] | None, typer.Option(help="Set one setting: NAME=VALUE.")] = None,
) -> None:
    """Check a configuration file as a node would at its start."""
    from ottla.tools.configuration import load_configuration, parse_overrides

    try:
        config = load_configuration(file, parse_overrides(override or []))
    except OSError as error:
        typer.echo(f"{file} cannot be read: {error.strerror}.", err=True)
        raise typer.Exit(1) from error
    except ConfigError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from error
    except ValueError as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from error
    for warning in config.warnings:
        typer.echo(warning, err=True)
    roles = " and ".join(sorted(config.roles))
    typer.echo(f"{file} is valid: node {config.node_id}, {roles}.")


def _fail_unknown(name: str, kind: Kind | None) -> None:
    import difflib

    known = {known for one in ([kind] if kind else Kind) for known in definitions(one.resource)}
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else " Try: ottla config list"
    typer.echo(f"{name} is not a known setting.{hint}", err=True)
    raise typer.Exit(1)


def _default(setting: Definition) -> str:
    if setting.required:
        return "(required)"
    return "(null)" if setting.default is None else setting.default or "(empty)"


def _facts(kind: Kind, setting: Definition) -> dict[str, str | list[str] | None]:
    return {
        "name": setting.name,
        "for": kind.value,
        "meaning": setting.doc,
        "type": setting.type.name.lower(),
        "default": _default(setting),
        "kafka_default": setting.kafka_default if setting.kafka_default != setting.default else None,
        "allowed": setting.valid,
        "importance": setting.importance.lower(),
        "change": setting.scope.value,
        "taken_from": list(setting.synonyms),
    }
