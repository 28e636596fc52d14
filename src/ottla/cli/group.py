"""`ottla group`: lists groups, describes them with their lag, resets and deletes them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem, near_names
from ottla.cli.output import Cell, Styled, duration_text, emit, emit_each, print_result, show
from ottla.cli.session import Session, session_of

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.groups import GroupListing
    from ottla.client.values import OffsetAndMetadata, TopicPartition

app = typer.Typer(help="List, describe, reset and delete groups.", no_args_is_help=True)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.", show_default=False)]
GroupsArgument = Annotated[
    list[str], typer.Argument(metavar="GROUP", help="Names of groups.", show_default=False)
]

_INACTIVE = ("Empty", "Dead")


@app.command("list")
def list_groups(
    context: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="Only groups that match: app-*, or a part of the name.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only groups in this state, such as Stable or Empty."),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Only groups of this type: classic, consumer, share, streams."
        ),
    ] = None,
    lag: Annotated[bool, typer.Option("--lag", help="Show the lag of each group.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only names, one per line.")] = False,
) -> None:
    """List groups of all types."""
    from ottla.cli.lookups import matching

    session = session_of(context)
    with session.admin() as admin:
        found = admin.list_groups(states=state or (), types=type_ or ()).all()
        by_name = {one.group_id: one for one in found}
        rows = [_listed(by_name[name]) for name in matching(by_name, pattern)]
        if lag:
            _add_lag(admin, rows)
    if quiet and not session.is_structured:
        for row in rows:
            print(row["group"])
        return
    show(
        session,
        rows,
        columns=["group", "type", "state", *(["lag"] if lag else [])],
        wide=["protocol_type"],
        formats={"state": _state_cell},
        empty="No groups found.",
    )


def _listed(one: GroupListing) -> dict[str, Any]:
    return {
        "group": one.group_id,
        "type": None if one.type is None else str(one.type),
        "state": None if one.state is None else str(one.state),
        "protocol_type": one.protocol_type,
    }


def _add_lag(admin: Admin, rows: list[dict[str, Any]]) -> None:
    from ottla.cli.lag import ends_of

    names = [row["group"] for row in rows if row["type"] != "Share"]
    offsets = admin.list_consumer_group_offsets(names).succeeded if names else {}
    _, ends = ends_of(admin, sorted({key for of_group in offsets.values() for key in of_group}))
    for row in rows:
        committed = offsets.get(row["group"], {})
        lags = [
            max(ends[key] - at.offset, 0) for key, at in committed.items() if at is not None and key in ends
        ]
        row["lag"] = sum(lags) if lags else None


@app.command("describe")
def describe(
    context: typer.Context,
    names: GroupsArgument,
    members: Annotated[
        bool, typer.Option("--members", help="Show only the members and their assignments.")
    ] = False,
    no_time: Annotated[
        bool, typer.Option("--no-time", help="Do not read records to compute the lag in seconds.")
    ] = False,
) -> None:
    """Describe groups: offsets, lag in records and in seconds, members."""
    from ottla.cli.lookups import find_groups

    session = session_of(context)
    with session.admin() as admin:
        listed = find_groups(admin, names)
        facts = [_facts(session, admin, one, with_time=not (no_time or members)) for one in listed.values()]
    emit_each(session, facts, lambda fact: _show_described(session, fact, members_only=members))


def _show_described(session: Session, fact: Mapping[str, Any], *, members_only: bool) -> None:
    show(
        session,
        {**fact, "members": len(fact["members"])},
        columns=["group", "type", "state", "members", "lag", "lag_seconds"],
        wide=["assignor", "coordinator", "epoch"],
        formats={"state": _state_cell, "lag_seconds": duration_text},
    )
    if not members_only and fact["partitions"]:
        print()
        show(
            session,
            fact["partitions"],
            columns=[
                "topic",
                "partition",
                "current_offset",
                "log_end_offset",
                "lag",
                "lag_seconds",
                "client_id",
            ],
            wide=["member_id", "host", "log_start_offset", "metadata"],
            formats={"lag_seconds": duration_text},
        )
    if fact["members"] and (members_only or session.is_wide):
        print()
        show(
            session,
            fact["members"],
            columns=["member_id", "client_id", "host", "instance_id", "partitions"],
            wide=["epoch", "subscribed_topics"],
        )


def _facts(session: Session, admin: Admin, listed: GroupListing, *, with_time: bool) -> dict[str, Any]:
    from ottla.cli.lag import lag_rows

    kind = str(listed.type)
    about = _about(admin, listed)
    rows: list[dict[str, Any]]
    if kind == "Share":
        rows = _share_rows(admin, listed.group_id)
    else:
        owners = {_partition(text): member for member in about["members"] for text in member["partitions"]}
        committed = admin.list_consumer_group_offsets(listed.group_id).result(listed.group_id)
        rows = lag_rows(session, admin, committed, owners, with_time=with_time)
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    ages = [row["lag_seconds"] for row in rows if row.get("lag_seconds") is not None]
    return {
        "group": listed.group_id,
        "type": kind,
        **about,
        "lag": sum(lags) if lags else None,
        "lag_seconds": max(ages) if ages else None,
        "partitions": rows,
    }


def _about(admin: Admin, listed: GroupListing) -> dict[str, Any]:
    """The common fields of groups of every type: state, coordinator, members."""
    name, kind = listed.group_id, str(listed.type)
    described: Any
    if kind == "Share":
        described = admin.describe_share_groups([name]).result(name)
    elif kind == "Streams":
        described = admin.describe_streams_groups([name]).result(name)
    elif kind == "Consumer" or listed.protocol_type in ("consumer", ""):
        described = admin.describe_consumer_groups([name]).result(name)
    else:
        described = admin.describe_classic_groups([name]).result(name)
    return {
        "state": str(described.state),
        "assignor": getattr(described, "assignor", None) or getattr(described, "protocol", None),
        "coordinator": described.coordinator_id,
        "epoch": getattr(described, "group_epoch", None),
        "members": [_member(one) for one in described.members],
    }


def _member(one: Any) -> dict[str, Any]:
    assignment = getattr(one, "assignment", ())
    return {
        "member_id": one.member_id,
        "client_id": one.client_id,
        "host": one.host.removeprefix("/"),
        "instance_id": getattr(one, "group_instance_id", None),
        "epoch": getattr(one, "member_epoch", None),
        "subscribed_topics": sorted(getattr(one, "subscribed_topics", None) or ()),
        # Only the members of such a group can interpret its assignment.
        "partitions": [] if isinstance(assignment, bytes) else [str(key) for key in sorted(assignment)],
    }


def _partition(text: str) -> TopicPartition:
    from ottla.client.values import TopicPartition

    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def _share_rows(admin: Admin, name: str) -> list[dict[str, Any]]:
    offsets = admin.list_share_group_offsets({name: None}).result(name)
    return [
        {
            "topic": key.topic,
            "partition": key.partition,
            "current_offset": None if one is None else one.start_offset,
            "lag": None if one is None else one.lag,
        }
        for key, one in sorted(offsets.items())
    ]


def _state_cell(state: str | None) -> Cell:
    styles = {"Stable": "green", "Empty": "yellow", "Dead": "red"}
    return "-" if state is None else Styled(state, styles.get(state, "cyan"))


@app.command("delete")
def delete(
    context: typer.Context,
    names: GroupsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete groups without members, and their committed offsets."""
    from ottla.cli.lookups import confirm, each, find_groups

    session = session_of(context)
    with session.admin() as admin:
        listed = find_groups(admin, names)
        busy = [name for name, one in listed.items() if str(one.state) not in _INACTIVE]
        if busy:
            raise Problem(
                f"Group {busy[0]} is {listed[busy[0]].state}. Stop its members first; ottla group "
                f"describe {busy[0]} --members lists them."
            )
        confirm(f"Delete {', '.join(listed)} and the committed offsets?", yes=yes)
        outcomes = admin.delete_groups(listed)
    code = each(outcomes, lambda name: print_result(session, f"Group {name} deleted."))
    if session.is_structured:
        emit(session, [{"group": name, "deleted": True} for name in outcomes.succeeded])
    raise typer.Exit(code)


@app.command("reset")
def reset(
    context: typer.Context,
    name: GroupArgument,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:PARTITIONS]",
            help="A topic, or partitions of it: orders, or orders:0,2. Repeatable.",
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics with committed offsets of the group.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE", help="Target: earliest, latest, an offset, or a time such as 2026-01-31T12:00."
        ),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="COUNT", help="Shift by this many records; negative shifts back.")
    ] = None,
    back: Annotated[str | None, typer.Option(metavar="TIME", help="Rewind by a duration: 2h, 7d.")] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Apply the reset; without it, only show the plan.")
    ] = False,
) -> None:
    """Reset the committed offsets of a group. Shows the plan unless --execute is given."""
    from ottla.cli.offset_resets import Target, partitions_of, plan

    session = session_of(context)
    target = Target.read(to=to, shift_by=shift_by, back=back)
    if bool(topics) == all_topics:
        raise Misuse("Specify partitions with --topic TOPIC (repeatable) or --all-topics.")
    with session.admin() as admin:
        there = {one.group_id: one for one in admin.list_groups().found}
        listed = there.get(name)
        committed = admin.list_consumer_group_offsets(name).result(name)
        keys = partitions_of(admin, topics or []) if topics else sorted(committed)
        if not keys:
            raise Problem(f"Group {name} has no committed offsets. Specify topics with --topic.")
        rows = plan(admin, target, keys, committed)
        if execute:
            _set_offsets(admin, name, listed, rows)
    shown = [row | {"executed": execute} for row in rows]
    show(
        session,
        shown,
        columns=[
            "topic",
            "partition",
            "current_offset",
            "new_offset",
            "change",
            "log_start_offset",
            "log_end_offset",
        ],
        formats={"change": _change_cell},
    )
    if not session.is_structured:
        if listed is None:
            hint = near_names(name, there)
            print(f"Group {name} does not exist yet.{' ' + hint if hint else ''}", file=sys.stderr)
        print()
        print(
            "Offsets committed."
            if execute
            else "Dry run: nothing was changed. Add --execute to commit these offsets."
        )


def _set_offsets(admin: Admin, name: str, listed: GroupListing | None, rows: list[dict[str, Any]]) -> None:
    from ottla.client.values import TopicPartition

    if listed is not None and str(listed.state) not in _INACTIVE:
        raise Problem(
            f"Group {name} is {listed.state}, so its members would ignore the reset. Stop them first; "
            f"ottla group describe {name} --members lists them."
        )
    offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
        TopicPartition(row["topic"], row["partition"]): row["new_offset"] for row in rows
    }
    admin.alter_consumer_group_offsets(name, offsets).all()


def _change_cell(change: int | None) -> Cell:
    if change is None:
        return "-"
    return Styled(f"{change:+d}", "yellow") if change else "0"
