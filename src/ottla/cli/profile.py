"""`ottla profile`: manages profiles, named sets of client settings for clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ottla.cli import profiles
from ottla.cli.errors import Misuse
from ottla.cli.output import Cell, Styled, print_result, show
from ottla.cli.session import DEFAULT_SERVERS, check_settings, pairs, session_of

app = typer.Typer(help="Manage connection profiles.", no_args_is_help=True)

ProfileArgument = Annotated[
    str, typer.Argument(metavar="PROFILE", help="Name of the profile.", show_default=False)
]
_SERVERS = "bootstrap.servers"


@app.command("list")
def list_profiles(context: typer.Context) -> None:
    """List profiles and mark the current one."""
    session = session_of(context)
    known = profiles.load()
    used = session.profile_name
    rows = [
        {
            "profile": name,
            "used": name == used,
            "bootstrap_servers": settings.get(_SERVERS, DEFAULT_SERVERS),
            "security_protocol": settings.get("security.protocol", "PLAINTEXT"),
        }
        for name, settings in sorted(known.by_name.items())
    ]
    show(
        session,
        rows,
        columns=["used", "profile", "bootstrap_servers", "security_protocol"],
        formats={"used": _used_cell},
        empty="No profiles found. Create one with: ottla profile set NAME bootstrap.servers=HOST:PORT",
    )


def _used_cell(used: bool) -> Cell:
    return Styled("*", "green") if used else ""


@app.command("show")
def show_profile(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE", help="Name of the profile. Default: the current profile.", show_default=False
        ),
    ] = None,
    secrets: Annotated[bool, typer.Option("--secrets", help="Show passwords.")] = False,
) -> None:
    """Show the settings of a profile, and the settings in effect."""
    session = session_of(context)
    known = profiles.load()
    if name is None:
        # The settings in effect also include the environment and flags.
        chosen: Mapping[str, str] = session.settings
        head: dict[str, Any] = {"profile": session.profile}
    else:
        chosen = known.settings_of(name)
        head = {"profile": name}
    shown = {
        key: "(hidden)" if profiles.is_secret(key) and not secrets else one for key, one in chosen.items()
    }
    show(session, {**head, "file": str(known.path), "settings": shown}, formats={"settings": _lines})


def _lines(settings: Mapping[str, str]) -> str:
    return "  ".join(f"{name}={value}" for name, value in sorted(settings.items())) or "-"


@app.command("set")
def set_profile(
    context: typer.Context,
    name: ProfileArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING=VALUE",
            help="Client settings such as bootstrap.servers=host:9092, or output=FORMAT.",
            show_default=False,
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", "-u", metavar="SETTING", help="Setting to remove; repeatable."),
    ] = None,
) -> None:
    """Create or change a profile. `ottla -b HOST:PORT profile set NAME` works as well."""
    session = session_of(context)
    changes: dict[str, str | None] = dict(pairs(settings or [], "profile set"))
    flags = session.flags
    if flags.bootstrap_server is not None:
        changes[_SERVERS] = flags.bootstrap_server
    changes.update(pairs(flags.properties, "-X"))
    check_settings(
        {one: value or "" for one, value in changes.items() if one != profiles.OUTPUT}, "profile set"
    )
    changes.update(dict.fromkeys(unset or ()))
    known = profiles.load()
    if not changes and name in known.by_name:
        raise Misuse("Specify a setting: ottla profile set NAME bootstrap.servers=HOST:PORT")
    is_new = name not in known.by_name
    if is_new and not changes:
        changes[_SERVERS] = DEFAULT_SERVERS
    known = profiles.set_settings(known, name, changes)
    if is_new and known.current is None:
        known = profiles.use(known, name)
    sentence = f"Profile {name} {'created' if is_new else 'changed'} in {known.path}."
    if known.current == name and is_new:
        sentence += " It is now the current profile."
    print_result(session, sentence, {"profile": name, "file": str(known.path), "used": known.current == name})


@app.command("use")
def use_profile(context: typer.Context, name: ProfileArgument) -> None:
    """Make a profile the default for commands without -p."""
    session = session_of(context)
    known = profiles.use(profiles.load(), name)
    servers = known.by_name[name].get(_SERVERS, DEFAULT_SERVERS)
    print_result(
        session, f"Commands now connect to {servers}.", {"profile": name, "bootstrap_servers": servers}
    )


@app.command("delete")
def delete_profile(context: typer.Context, name: ProfileArgument) -> None:
    """Delete a profile."""
    session = session_of(context)
    known = profiles.load()
    profiles.delete(known, name)
    print_result(session, f"Profile {name} deleted.", {"profile": name, "deleted": True})
