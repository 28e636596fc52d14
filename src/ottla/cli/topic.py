"""`ottla topic`: creates, lists, describes, alters and deletes topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem
from ottla.cli.output import (
    Cell,
    Styled,
    count_text,
    duration_text,
    emit,
    emit_each,
    print_result,
    show,
    size_text,
)
from ottla.cli.session import Session, pairs, session_of
from ottla.cli.topic_facts import (
    OFFLINE,
    OK,
    UNDER_MINIMUM,
    UNDER_REPLICATED,
    add_sizes,
    describe_facts,
    listed_facts,
)

if TYPE_CHECKING:
    from ottla.client.admin import Admin

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC", help="Names of topics.", show_default=False)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="CONFIG=VALUE", help="A topic setting; repeatable."),
]
RetentionOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Retention time: 7d, 12h, forever. Sets retention.ms."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


_VISIBLE_SECONDS = 5.0
_VISIBLE_PAUSE_SECONDS = 0.02


@app.command("create")
def create(
    context: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Names of the topics.", show_default=False)
    ],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-n",
            metavar="NUMBER",
            help="Number of partitions. Default: the brokers'.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", "-r", metavar="NUMBER", help="Replication factor. Default: the brokers'."
        ),
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="Replica assignment: 1:2,2:3 creates two partitions, on brokers 1, 2 and 2, 3.",
        ),
    ] = None,
    settings: SetOption = None,
    retention: RetentionOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate only; change nothing.")] = False,
) -> None:
    """Create topics."""
    from ottla.cli.lookups import each
    from ottla.client.admin import NewTopic
    from ottla.wire.errors import TopicAlreadyExists

    session = session_of(context)
    configs = _settings(settings, retention)
    assignments = None if replicas is None else dict(enumerate(_assignments(replicas)))
    if assignments is not None and (partitions is not None or replication_factor is not None):
        raise Misuse(
            "--replicas already determines the partitions and replicas. Omit --partitions and "
            "--replication-factor."
        )
    new = [
        NewTopic(name, partitions, replication_factor, assignments=assignments, configs=configs)
        for name in names
    ]
    with session.admin() as admin:
        outcomes: dict[str, Any] = dict(admin.create_topics(new, validate_only=dry_run))
        if not dry_run:
            _await_visible(admin, [name for name, one in outcomes.items() if not isinstance(one, Exception)])
        there = [
            name for name, one in outcomes.items() if if_not_exists and isinstance(one, TopicAlreadyExists)
        ]
    made = {name: one for name, one in outcomes.items() if not isinstance(one, Exception)}

    def print_created(name: str) -> None:
        one = made.get(name)
        counts = (
            f", {count_text(one.partitions, 'partition')}, replication factor {one.replication_factor}"
            if one and one.partitions
            else ""
        )
        verb = "already exists" if name in there else "can be created" if dry_run else "created"
        print_result(session, f"Topic {name} {verb}{counts}.")

    outcomes = {
        name: None if name in there else _hinted(one, configs) if isinstance(one, Exception) else one
        for name, one in outcomes.items()
    }
    code = each(outcomes, print_created)
    if session.is_structured:
        emit(session, [_created(name, one, dry_run) for name, one in made.items()])
    raise typer.Exit(code)


def _await_visible(admin: Admin, names: Sequence[str]) -> None:
    """Wait briefly until brokers know new topics, so that the next command finds them."""
    import time

    deadline = time.monotonic() + _VISIBLE_SECONDS
    while names and time.monotonic() < deadline and admin.describe_topics(names).failed:
        time.sleep(_VISIBLE_PAUSE_SECONDS)


def _created(name: str, one: Any, dry_run: bool) -> dict[str, Any]:
    return {
        "topic": name,
        "topic_id": one.topic_id,
        "partitions": one.partitions,
        "replication_factor": one.replication_factor,
        "created": not dry_run,
    }


@app.command("list")
def list_topics(
    context: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="Only topics that match: orders-*, or a part of the name.",
            show_default=False,
        ),
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    unhealthy: Annotated[
        bool,
        typer.Option("--unhealthy", help="Only topics with out-of-sync replicas or leaderless partitions."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only names, one per line.")] = False,
) -> None:
    """List topics with their partitions and replicas."""
    from ottla.cli.lookups import matching

    session = session_of(context)
    with session.admin() as admin:
        listed = admin.list_topics(include_internal=internal)
        names = matching(listed, pattern)
        if quiet and not unhealthy and not session.is_structured:
            for name in names:
                print(name)
            return
        # A topic that was deleted meanwhile is no error in a list.
        described = admin.describe_topics(names).succeeded if names else {}
        rows = [listed_facts(one) for one in described.values()]
        if unhealthy:
            rows = [row for row in rows if row["under_replicated"] or row["offline"]]
        if session.is_wide or session.is_structured:
            add_sizes(admin, described, rows)
    if quiet and not session.is_structured:
        for row in rows:
            print(row["topic"])
        return
    show(
        session,
        rows,
        columns=["topic", "partitions", "replication_factor", "under_replicated", "offline"],
        wide=["size_bytes", "internal", "topic_id"],
        formats={"under_replicated": _bad_count, "offline": _bad_count, "size_bytes": size_text},
        empty="No unhealthy topics found." if unhealthy else "No topics found.",
    )


@app.command("describe")
def describe(context: typer.Context, names: TopicsArgument) -> None:
    """Describe topics: leaders, replicas, offsets, sizes, retention."""
    from ottla.cli.lookups import describe_topics

    session = session_of(context)
    with session.admin() as admin:
        described = describe_topics(admin, names)
        facts = describe_facts(admin, described)
    emit_each(session, facts, lambda fact: _show_described(session, fact))


def _show_described(session: Session, fact: Mapping[str, Any]) -> None:
    shown = {key: value for key, value in fact.items() if key not in ("partitions", "configs")}
    shown["partitions"] = len(fact["partitions"])
    shown["configs"] = fact["configs"]
    show(
        session,
        shown,
        columns=[
            "topic",
            "partitions",
            "replication_factor",
            "records",
            "size_bytes",
            "retention",
            "configs",
        ],
        wide=["topic_id", "internal", "disk_bytes", "min_insync_replicas"],
        formats={"size_bytes": size_text, "disk_bytes": size_text, "retention": _retention_text},
    )
    print()
    show(
        session,
        fact["partitions"],
        columns=[
            "partition",
            "leader",
            "replicas",
            "isr",
            "state",
            "earliest",
            "latest",
            "records",
            "size_bytes",
        ],
        wide=["leader_epoch", "elr", "last_known_elr", "offline_replicas"],
        formats={"state": _state_cell, "size_bytes": size_text, "leader": _leader_cell},
    )


def _retention_text(retention: Mapping[str, Any]) -> str:
    policy = retention["cleanup_policy"] or "-"
    if "delete" not in policy:
        return policy
    age, size = retention["retention_ms"], retention["retention_bytes"]
    limits = []
    if age is not None:
        limits.append(f"after {duration_text(age / 1000)}")
    if size is not None:
        limits.append(f"above {size_text(size)} per partition")
    return f"{policy} {' or '.join(limits) if limits else 'never'}"


def _state_cell(state: str) -> Cell:
    styles = {OK: "green", UNDER_REPLICATED: "yellow", UNDER_MINIMUM: "red", OFFLINE: "bold red"}
    return Styled(state, styles.get(state, ""))


def _leader_cell(leader: int | None) -> Cell:
    return Styled("none", "bold red") if leader is None else str(leader)


def _bad_count(count: int) -> Cell:
    return Styled(str(count), "yellow") if count else str(count)


@app.command("alter")
def alter(
    context: typer.Context,
    name: TopicArgument,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-n", metavar="NUMBER", help="New number of partitions; can only grow."),
    ] = None,
    settings: SetOption = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            "-u",
            metavar="CONFIG",
            help="A setting to reset to its default; repeatable.",
        ),
    ] = None,
    retention: RetentionOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate only; change nothing.")] = False,
) -> None:
    """Add partitions to a topic, and change its settings."""
    from ottla.cli.lookups import describe_topics
    from ottla.client.admin import topic_resource

    session = session_of(context)
    changes: dict[str, str | None] = {**_settings(settings, retention), **dict.fromkeys(unset or ())}
    if partitions is None and not changes:
        raise Misuse("Specify a change: --partitions, --set, --unset or --retention.")
    with session.admin() as admin:
        before = len(describe_topics(admin, [name])[name].partitions)
        if partitions is not None and partitions < before:
            raise Problem(
                f"Topic {name} has {count_text(before, 'partition')}; the number cannot shrink. Create "
                "another topic and copy the records."
            )
        if changes:
            resource = topic_resource(name)
            altered = admin.incremental_alter_configs({resource: changes}, validate_only=dry_run)
            for error in altered.failed.values():
                raise _hinted(error, changes)
        if partitions is not None and partitions != before:
            admin.create_partitions({name: partitions}, validate_only=dry_run).all()
    could = "can be changed" if dry_run else "changed"
    done = [
        f"{key}={value}" if value is not None else f"{key} reset to its default"
        for key, value in changes.items()
    ]
    if partitions is not None:
        done.insert(
            0,
            f"{before} to {partitions} partitions"
            if partitions != before
            else f"{before} partitions unchanged",
        )
    print_result(
        session,
        f"Topic {name} {could}: {', '.join(done)}.",
        {"topic": name, "partitions": partitions or before, "configs": changes, "changed": not dry_run},
    )


@app.command("delete")
def delete(
    context: typer.Context,
    names: TopicsArgument,
    yes: YesOption = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")
    ] = False,
) -> None:
    """Delete topics and all their records."""
    from ottla.cli.lookups import confirm, describe_topics, each

    session = session_of(context)
    with session.admin() as admin:
        if if_exists:
            there = admin.list_topics(include_internal=True)
            names = [name for name in names if name in there]
            if not names:
                print_result(session, "Nothing to delete.", [])
                return
        described = describe_topics(admin, names)
        question = "; ".join(
            f"{name}, {count_text(len(one.partitions), 'partition')}" for name, one in described.items()
        )
        confirm(
            f"Delete {'topic' if len(described) == 1 else 'topics'} {question}, and all records?", yes=yes
        )
        outcomes = admin.delete_topics(described)
    code = each(outcomes, lambda name: print_result(session, f"Topic {name} deleted."))
    if session.is_structured:
        emit(session, [{"topic": name, "deleted": True} for name in outcomes.succeeded])
    raise typer.Exit(code)


def _settings(given: list[str] | None, retention: str | None) -> dict[str, str]:
    from ottla.cli.units import duration_ms

    settings = pairs(given or [], "--set")
    if retention is not None:
        forever = retention.strip().lower() in ("forever", "-1")
        settings["retention.ms"] = "-1" if forever else str(duration_ms(retention, "--retention"))
    return settings


def _hinted(error: Exception, settings: Iterable[str]) -> Exception:
    """The error, with similar names if a setting may be misspelt."""
    from ottla.cli.errors import near_names
    from ottla.config import ResourceType, definitions
    from ottla.wire.errors import InvalidConfig

    known = definitions(ResourceType.TOPIC)
    hints = [near_names(name, known) for name in settings if name not in known]
    if not isinstance(error, InvalidConfig) or not any(hints):
        return error
    return InvalidConfig(f"{str(error).rstrip('.')}. {' '.join(filter(None, hints))}")


def _assignments(text: str) -> list[list[int]]:
    try:
        return [[int(node) for node in one.split(":")] for one in text.split(",")]
    except ValueError:
        raise Misuse(f"--replicas {text} is invalid. Use the form 1:2,2:3.") from None
