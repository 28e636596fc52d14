"""`ottla reassign`: plans, starts, monitors and cancels the reassignment of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem
from ottla.cli.output import Cell, Styled, clean, count_text, emit, is_terminal, print_result, show, size_text
from ottla.cli.session import Session, session_of

if TYPE_CHECKING:
    from ottla.cli.reassignment.progress import Moving
    from ottla.cli.reassignment.proposals import Plan
    from ottla.client.values import TopicPartition

app = typer.Typer(help="Move replicas between brokers.", no_args_is_help=True)

TopicsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOPIC", help="Topics, by name or pattern: orders-*.", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="All topics, including internal ones.")]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="IDS", help="Target brokers: 1,2,3. Default: all."),
]
DrainOption = Annotated[
    str | None,
    typer.Option("--drain", metavar="IDS", help="Move all replicas off these brokers."),
]
FactorOption = Annotated[
    int | None,
    typer.Option("--replication-factor", "-r", metavar="NUMBER", min=1, help="New replication factor."),
]
RacksOption = Annotated[bool, typer.Option(help="Spread the replicas of a partition over racks.")]
FileOption = Annotated[
    str | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Read the plan from a file in the format of kafka-reassign-partitions.",
    ),
]
ThrottleOption = Annotated[
    str | None,
    typer.Option(
        "--throttle", metavar="SIZE", help="Replication rate limit per broker and second: 50MB, 10MiB."
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_NOTHING = "No reassignment is in progress."
_NOTHING_LEFT = "Reassignment complete."
_CLEARED = " Throttle removed."


# plan


@app.command("plan")
def plan(
    context: typer.Context,
    topics: TopicsArgument = None,
    all_topics: AllOption = False,
    to: ToOption = None,
    drain: DrainOption = None,
    replication_factor: FactorOption = None,
    racks: RacksOption = True,
    save: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the plan to a file, for start or kafka-reassign-partitions."
        ),
    ] = None,
    save_current: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the current assignment to a file, for rollback.")
    ] = None,
) -> None:
    """Show which replicas would move. Moves nothing."""
    from ottla.cli.reassignment.proposals import planned, write_plan

    session = session_of(context)
    with session.admin() as admin:
        found = planned(admin, topics or [], all_topics, to, drain, replication_factor, racks)
    for path, rows in ((save, found.after), (save_current, found.before)):
        if path is not None:
            write_plan(path, rows)
    if session.is_structured:
        emit(session, found.facts())
        return
    _show_plan(session, found)
    if found.after and save is not None:
        print_result(session, f"Wrote the plan to {save}. Start it with: ottla reassign start --file {save}")


def _show_plan(session: Session, found: Plan) -> None:
    if not found.after:
        print_result(session, "No replicas need to move.")
        return
    facts = found.facts()
    show(
        session,
        [{**row, "after": _marked(row)} for row in facts["partitions"]],
        columns=["topic", "partition", "before", "after", "copied_bytes"],
        wide=["adding", "removing"],
        formats={"after": _after_cell, "copied_bytes": size_text},
    )
    print()
    show(session, facts["brokers"], columns=["broker", "replicas_before", "replicas_after"])
    print()
    copied = size_text(facts["copied_bytes"])
    print(
        f"{count_text(len(found.after), 'partition')} {'changes' if len(found.after) == 1 else 'change'},"
        f" {count_text(facts['replicas_added'], 'replica')} will be copied ({copied})."
    )


def _marked(row: Mapping[str, Any]) -> tuple[list[int], bool]:
    return row["after"], bool(row["adding"])


def _after_cell(value: tuple[list[int], bool]) -> Cell:
    row, is_copied = value
    return Styled(_commas(row), "green") if is_copied else _commas(row)


# start


@app.command("start")
def start(
    context: typer.Context,
    topics: TopicsArgument = None,
    all_topics: AllOption = False,
    to: ToOption = None,
    drain: DrainOption = None,
    replication_factor: FactorOption = None,
    racks: RacksOption = True,
    file: FileOption = None,
    throttle: ThrottleOption = None,
    yes: YesOption = False,
    wait: Annotated[
        bool | None,
        typer.Option("--wait/--no-wait", help="Wait for completion. Default on a terminal."),
    ] = None,
) -> None:
    """Start a reassignment, from the flags of plan or from a file."""
    from ottla.cli.lookups import confirm
    from ottla.cli.reassignment.monitor import clear_throttles, watch
    from ottla.cli.reassignment.proposals import plan_of_file, planned, start_plan

    session = session_of(context)
    rate = None if throttle is None else _rate(throttle)
    if file is not None and (topics or all_topics or to or drain or replication_factor):
        raise Misuse("--file contains the whole plan and cannot be combined with other selections.")
    stays = is_terminal() and not session.is_structured if wait is None else wait
    with session.admin() as admin:
        if file is not None:
            found = plan_of_file(admin, file)
        else:
            found = planned(admin, topics or [], all_topics, to, drain, replication_factor, racks)
        if not session.is_structured:
            _show_plan(session, found)
        if found.after:
            confirm("Start?", yes=yes)
            start_plan(admin, found, rate)
        if session.is_structured:
            emit(session, {**found.facts(), "throttle_bytes_per_second": rate, "started": bool(found.after)})
        if not found.after:
            return
        print_result(session, f"{count_text(len(found.after), 'partition')} started moving.")
        if stays:
            watch(session, admin)
            if rate is not None:
                clear_throttles(admin, {place.topic for place in found.after})
            print_result(session, f"{_NOTHING_LEFT}{'' if rate is None else _CLEARED}")
        elif not session.is_structured:
            print("Show progress with: ottla reassign status")
            if rate is not None:
                print("After completion, remove the throttle with: ottla reassign throttle off")


# status


@app.command("status")
def status(
    context: typer.Context,
    watch: Annotated[
        bool | None,
        typer.Option(
            "--watch/--no-watch", help="Show a progress bar until completion. Default on a terminal."
        ),
    ] = None,
) -> None:
    """Show the reassignments in progress."""
    from ottla.cli.reassignment.monitor import look, throttled
    from ottla.cli.reassignment.monitor import watch as watch_moves

    session = session_of(context)
    stays = is_terminal() and not session.is_structured if watch is None else watch
    with session.admin() as admin:
        standing = watch_moves(session, admin) if stays else None
        moving = {} if stays else look(admin)
        limits = throttled(admin)
    if session.is_structured:
        emit(session, _status_facts(moving, limits))
        return
    if standing is not None:
        print_result(session, _NOTHING_LEFT if standing.partitions else _NOTHING)
    else:
        _show_status(session, moving)
    if limits and not moving:
        print(f"Brokers {_commas(limits)} still have a throttle. Remove it with: ottla reassign throttle off")


def _show_status(session: Session, moving: Mapping[TopicPartition, Moving]) -> None:
    show(
        session,
        _status_rows(moving),
        columns=[
            "topic",
            "partition",
            "replicas",
            "adding",
            "removing",
            "copied_bytes",
            "total_bytes",
            "percent",
        ],
        formats={"copied_bytes": size_text, "total_bytes": size_text, "percent": lambda value: f"{value}%"},
        empty=_NOTHING,
    )


def _status_rows(moving: Mapping[TopicPartition, Moving]) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": [broker for broker in one.replicas if broker not in one.removing],
            "adding": list(one.adding),
            "removing": list(one.removing),
            "copied_bytes": one.copied_bytes,
            "total_bytes": one.total_bytes,
            "percent": 100 * one.copied_bytes // one.total_bytes if one.total_bytes else 100,
        }
        for place, one in sorted(moving.items())
    ]


def _status_facts(moving: Mapping[TopicPartition, Moving], throttled: Mapping[int, int]) -> dict[str, Any]:
    return {
        "partitions": _status_rows(moving),
        "copied_bytes": sum(one.copied_bytes for one in moving.values()),
        "total_bytes": sum(one.total_bytes for one in moving.values()),
        "throttles": [
            {"broker": broker, "bytes_per_second": rate} for broker, rate in sorted(throttled.items())
        ],
    }


# throttle


@app.command("throttle")
def change_throttle(
    context: typer.Context,
    rate: Annotated[str, typer.Argument(metavar="SIZE|off", help="Bytes per second, such as 50MB, or off.")],
) -> None:
    """Change or remove the throttle of the reassignments in progress."""
    from ottla.cli.reassignment.monitor import clear_throttles
    from ottla.operations.reassignments import moves_of, set_throttle

    session = session_of(context)
    if rate.lower() == "off":
        with session.admin() as admin:
            cleared = clear_throttles(admin)
        sentence = "Throttle removed." if cleared else "No throttle is set."
        print_result(session, sentence, {"throttle_cleared": cleared})
        return
    wanted = _rate(rate)
    with session.admin() as admin:
        under_way = admin.list_partition_reassignments()
        if not under_way:
            raise Problem(
                "No reassignment is in progress, so there is nothing to throttle. Check with: ottla "
                "reassign status"
            )
        set_throttle(admin, moves_of(under_way, {}, {}), wanted)
    sentence = f"{count_text(len(under_way), 'partition')} throttled to {size_text(wanted)}/s."
    print_result(session, sentence, {"throttle_bytes_per_second": wanted})


# cancel


@app.command("cancel")
def cancel(context: typer.Context, topics: TopicsArgument = None, yes: YesOption = False) -> None:
    """Cancel reassignments of some or all topics, and restore the previous replicas."""
    from ottla.cli.lookups import confirm
    from ottla.cli.reassignment.monitor import clear_throttles

    session = session_of(context)
    with session.admin() as admin:
        moving = admin.list_partition_reassignments()
        names = {place.topic for place in moving}
        if topics:
            names = {found for name in topics for found in _named(names, name)}
        chosen = sorted(place for place in moving if place.topic in names)
        if chosen:
            confirm(f"Cancel the reassignment of {count_text(len(chosen), 'partition')}?", yes=yes)
        outcomes = admin.alter_partition_reassignments(dict.fromkeys(chosen)) if chosen else None
        cleared = clear_throttles(admin, names) if chosen and len(chosen) == len(moving) else False
    failed = {} if outcomes is None else outcomes.failed
    done = [place for place in chosen if place not in failed]
    said = f"{count_text(len(done), 'partition')} cancelled." if chosen else _NOTHING
    facts = {
        "cancelled": [{"topic": place.topic, "partition": place.partition} for place in done],
        "throttle_cleared": cleared,
    }
    print_result(session, f"{said}{_CLEARED if cleared else ''}", facts)
    if failed:
        place, error = min(failed.items())
        raise Problem(f"{place.topic}-{place.partition} cannot be cancelled: {error}") from error


def _named(names: Iterable[str], name: str) -> list[str]:
    from ottla.cli.lookups import matching

    if any(one in name for one in "*?["):
        return matching(names, name)
    if name not in names:
        raise Problem(
            f"No partition of {clean(name)} is being reassigned. List reassignments with: ottla reassign "
            "status"
        )
    return [name]


# Texts


def _rate(text: str) -> int:
    from ottla.cli.units import size_bytes

    rate = size_bytes(text.removesuffix("/s"), "--throttle")
    if rate <= 0:
        raise Misuse("--throttle 0 would stop replication. Use a rate such as 50MB.")
    return rate


def _commas(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
