"""`ottla config`: reads and changes the settings of a cluster, explains settings, validates files.

`get`, `set`, `unset` and `describe` need a cluster; `list`, `explain` and `check` do not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem, near_names
from ottla.cli.output import Cell, Format, Styled, emit, print_result, show
from ottla.cli.session import Flags, Session, pairs, session_of
from ottla.config import ConfigError, Definition, ResourceType, definition, definitions

app = typer.Typer(help="Read, change and explain settings.", no_args_is_help=True)


class Kind(StrEnum):
    """The kinds of entities that have settings."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"

    @property
    def resource(self) -> ResourceType:
        return ResourceType[self.name]


KindOption = Annotated[
    Kind | None, typer.Option("--for", help="Only settings of this kind. Default: all kinds.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="topic, broker, group, client, user, ip, logger, client-metrics.",
        show_default=False,
    ),
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name or id. `default` means all brokers, users, clients or addresses without settings of "
        "their own.",
        show_default=False,
    ),
]
ClientOption = Annotated[
    str | None, typer.Option("--client", metavar="CLIENT", help="With a user: only for this client id.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Validate only; change nothing.")]


def _json_session(context: typer.Context, as_json: bool) -> Session:
    session = session_of(context)
    return Session(Flags(output=Format.JSON).over(session.flags)) if as_json else session


# Settings of a cluster


@app.command("get")
def get_setting(
    context: typer.Context,
    kind: KindArgument,
    name: NameArgument,
    setting: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Name of the setting.", show_default=False)
    ],
    client: ClientOption = None,
) -> None:
    """Print only the value of one setting."""
    from ottla.cli.settings import Entity, describe

    session = session_of(context)
    entity = Entity.read(kind, name, client)
    with session.admin() as admin:
        rows = {row["name"]: row for row in describe(admin, entity)}
    if setting not in rows:
        cure = f"ottla config describe {entity.kind} {name} --all lists the settings."
        raise Problem(f"{setting} is not a setting of {entity}. {near_names(setting, rows) or cure}")
    row = rows[setting]
    if session.is_structured:
        emit(session, row)
        return
    if row.get("is_secret"):
        raise Problem(f"{setting} is sensitive: brokers do not return its value.")
    print("" if row["value"] is None else row["value"])


@app.command("set")
def set_settings(
    context: typer.Context,
    kind: KindArgument,
    name: NameArgument,
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG=VALUE",
            help="Settings to change; += and -= append to a list and remove from it.",
            show_default=False,
        ),
    ],
    client: ClientOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change settings. Other settings keep their values."""
    _change(session_of(context), kind, name, client, dict(pairs(settings, "config set")), dry_run)


@app.command("unset")
def unset_settings(
    context: typer.Context,
    kind: KindArgument,
    name: NameArgument,
    settings: Annotated[
        list[str],
        typer.Argument(metavar="CONFIG", help="Settings to reset to their defaults.", show_default=False),
    ],
    client: ClientOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Reset settings to their defaults."""
    _change(session_of(context), kind, name, client, dict.fromkeys(settings), dry_run)


def _change(
    session: Session, kind: str, name: str, client: str | None, changes: dict[str, str | None], dry_run: bool
) -> None:
    from ottla.cli.settings import Entity, alter

    entity = Entity.read(kind, name, client)
    with session.admin() as admin:
        alter(admin, entity, _with_passwords(changes), dry_run=dry_run)
    shown = {key: None if value is None else _shown(key, value) for key, value in changes.items()}
    done = [
        f"{key} reset to its default" if value is None else f"{key}={value}" for key, value in shown.items()
    ]
    whose = f"{str(entity)[0].upper()}{str(entity)[1:]}"
    print_result(
        session,
        f"{whose} {'can be changed' if dry_run else 'changed'}: {', '.join(done)}.",
        {"kind": entity.kind, "name": entity.name, "changes": shown, "changed": not dry_run},
    )


def _with_passwords(changes: dict[str, str | None]) -> dict[str, str | None]:
    """Prompt for the password of SCRAM-SHA-512=-, so that it does not appear in the process list."""
    import getpass
    import sys

    def password(name: str) -> str:
        return getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")

    return {
        name: password(name) if value == "-" and name.startswith("SCRAM-") else value
        for name, value in changes.items()
    }


def _shown(name: str, value: str) -> str:
    from ottla.cli.profiles import is_secret

    return "(hidden)" if name.startswith("SCRAM-") or is_secret(name) else value


@app.command("describe")
def describe_settings(
    context: typer.Context,
    kind: KindArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name or id, or `default`.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Include defaults.")] = False,
    client: ClientOption = None,
    for_kind: Annotated[Kind | None, typer.Option("--for", hidden=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Show the settings of a topic, broker, group, user or client, with the source of each value."""
    from ottla.cli.settings import Entity, describe

    session = _json_session(context, as_json)
    if name is None:
        # `config describe retention.ms` is a long-standing alias of `config explain retention.ms`.
        if not any(definition(one.resource, kind) for one in Kind):
            raise Misuse(f"Specify a name: ottla config describe {kind} NAME")
        _explain(session, kind, for_kind)
        return
    entity = Entity.read(kind, name, client)
    with session.admin() as admin:
        rows = describe(admin, entity)
    if not every:
        rows = [row for row in rows if row["is_own"]]
    show(
        session,
        rows,
        columns=["name", "value", "source"],
        wide=["type", "is_read_only", "meaning"],
        formats={"value": _value_cell},
        empty=f"{entity} has no settings of its own. --all shows the defaults.",
    )


def _value_cell(value: Any) -> Cell:
    return Styled("(null)", "dim") if value is None else str(value)


# Descriptions of settings


@app.command("list")
def list_settings(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(help="Words that the name or description must contain.")
    ] = None,
    kind: KindOption = None,
    as_json: JsonOption = False,
) -> None:
    """List all known settings, or those that match every given word."""
    session = _json_session(context, as_json)
    wanted = [word.lower() for word in words or ()]
    found = [
        (one, setting)
        for one in ([kind] if kind else Kind)
        for setting in definitions(one.resource).values()
        if not setting.internal or setting.name.startswith("ottla.")
        if all(word in f"{setting.name} {setting.doc}".lower() for word in wanted)
    ]
    if not found and not session.is_structured:
        raise Problem("No setting matches all of these words. ottla config list shows all settings.")
    rows = [_facts(one, setting) for one, setting in found]
    show(session, rows, columns=["name", "for", "default", "meaning"], wide=["type", "allowed", "change"])


@app.command("explain")
def explain_setting(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG", help="Name of the setting, such as retention.ms.", show_default=False
        ),
    ],
    kind: KindOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain one setting: description, type, default, range, how to change it."""
    _explain(_json_session(context, as_json), name, kind)


app.command("show", hidden=True, help="Same as explain.")(explain_setting)


def _explain(session: Session, name: str, kind: Kind | None) -> None:
    found = [
        (one, setting)
        for one in ([kind] if kind else Kind)
        if (setting := definition(one.resource, name)) is not None
    ]
    if not found:
        known = {known for one in ([kind] if kind else Kind) for known in definitions(one.resource)}
        hint = near_names(name, known) or "Try: ottla config list"
        raise Problem(f"{name} is not a known setting. {hint}")
    facts = [_facts(one, setting) for one, setting in found]
    if session.is_structured:
        emit(session, facts)
        return
    for at, fact in enumerate(facts):
        if at:
            print()
        show(session, fact, columns=[key for key, value in fact.items() if value not in (None, "", [])])


@app.command("check")
def check_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A server.properties file.")],
    override: Annotated[list[str] | None, typer.Option(help="Override a setting: NAME=VALUE.")] = None,
) -> None:
    """Validate a configuration file as a node does at startup."""
    from ottla.operations.configuration import load_configuration, parse_overrides

    try:
        config = load_configuration(file, parse_overrides(override or []))
    except OSError as error:
        raise Problem(f"Cannot read {file}: {error.strerror}.") from error
    except ConfigError as error:
        # The error has one line per invalid setting.
        typer.echo(error, err=True)
        raise typer.Exit(1) from error
    except ValueError as error:
        raise Misuse(str(error)) from error
    for warning in config.warnings:
        typer.echo(warning, err=True)
    roles = " and ".join(sorted(config.roles))
    typer.echo(f"{file} is valid: node {config.node_id}, {roles}.")


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
