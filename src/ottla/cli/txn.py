"""`ottla txn`: lists, describes and aborts transactions, and finds hanging ones.

A transaction hangs if it is open in a partition and no coordinator will end it. It blocks read_committed
consumers forever.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem, unknown
from ottla.cli.output import Cell, Formatter, Styled, duration_text, emit_each, print_result, show, time_text
from ottla.cli.session import session_of

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.transactions import TransactionDescription
    from ottla.client.values import TopicPartition

app = typer.Typer(help="List, describe and abort transactions.", no_args_is_help=True)

IdsArgument = Annotated[
    list[str], typer.Argument(metavar="TRANSACTION", help="Transactional ids.", show_default=False)
]


@app.command("list")
def list_transactions(
    context: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="Only transactional ids that match: app-*, or a part of the id.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only transactions in this state, such as Ongoing."),
    ] = None,
    longer_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only transactions open for longer than this: 5m, 1h.")
    ] = None,
) -> None:
    """List transactions of all coordinators."""
    from ottla.cli.lookups import matching
    from ottla.cli.units import duration_ms

    session = session_of(context)
    least_ms = -1 if longer_than is None else duration_ms(longer_than, "--longer-than")
    states = _states(state or [])
    with session.admin() as admin:
        listed = admin.list_transactions(states=states, duration_ms=least_ms).all()
    by_id = {one.transactional_id: one for one in listed}
    rows = [
        {
            "transactional_id": name,
            "state": str(by_id[name].state),
            "producer_id": by_id[name].producer_id,
            "coordinator": by_id[name].coordinator_id,
        }
        for name in matching(by_id, pattern)
    ]
    show(session, rows, formats={"state": _state_cell}, empty="No transactions found.")


def _states(given: list[str]) -> list[str]:
    from ottla.client.admin import TransactionState

    known = {str(one).lower(): str(one) for one in TransactionState}
    for one in given:
        if one.lower() not in known:
            raise Misuse(f"Unknown state {one}. Use one of {', '.join(known.values())}.")
    return [known[one.lower()] for one in given]


def _state_cell(state: str) -> Cell:
    return Styled(state, {"Ongoing": "cyan", "Unknown": "red"}.get(state, "green"))


@app.command("describe")
def describe(context: typer.Context, names: IdsArgument) -> None:
    """Describe transactions: state, age, timeout, partitions."""
    session = session_of(context)
    with session.admin() as admin:
        found = _described(admin, names)
    facts = [_fact(one) for one in found.values()]
    formats: dict[str, Formatter] = {
        "state": _state_cell,
        "age_seconds": duration_text,
        "timeout_seconds": duration_text,
        "started_ms": time_text,
    }
    emit_each(session, facts, lambda fact: show(session, fact, formats=formats))


def _described(admin: Admin, names: list[str]) -> dict[str, TransactionDescription]:
    from ottla.wire.errors import TransactionalIdNotFound

    results = admin.describe_transactions(list(dict.fromkeys(names)))
    for name, error in results.failed.items():
        if isinstance(error, TransactionalIdNotFound):
            known = [one.transactional_id for one in admin.list_transactions().found]
            raise unknown("transaction", name, known, cure="List them with: ottla txn list") from error
        raise error
    return results.succeeded


def _fact(one: TransactionDescription) -> dict[str, Any]:
    started = one.start_time_ms
    return {
        "transactional_id": one.transactional_id,
        "state": str(one.state),
        "started_ms": started,
        "age_seconds": None if started is None else round(max(_now_ms() - started, 0) / 1000, 1),
        "timeout_seconds": one.timeout_ms / 1000,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator": one.coordinator_id,
        "partitions": [str(key) for key in sorted(one.partitions)],
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@app.command("abort")
def abort(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="TRANSACTION", help="Transactional id.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Topic of a hanging transaction,"),
    ] = None,
    partition: Annotated[int | None, typer.Option(metavar="NUMBER", help="its partition,")] = None,
    start_offset: Annotated[
        int | None, typer.Option(metavar="OFFSET", help="and its start offset; see ottla txn hanging.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Abort an open transaction by its id, or a hanging one by its position. Fences the producer."""
    from ottla.cli.lookups import confirm

    session = session_of(context)
    place = (topic, partition, start_offset)
    if (name is None) == (None in place) or (name is not None and place != (None, None, None)):
        raise Misuse("Specify a transactional id, or --topic, --partition and --start-offset.")
    with session.admin() as admin:
        if name is not None:
            state = str(_described(admin, [name])[name].state)
            if state != "Ongoing":
                raise Problem(
                    f"Transaction {name} is not open: its state is {state}. There is nothing to abort."
                )
            confirm(f"Abort transaction {name} and fence its producer?", yes=yes)
            _terminate(admin, name)
            facts: dict[str, Any] = {"transactional_id": name, "aborted": True}
        else:
            assert topic is not None
            assert partition is not None
            assert start_offset is not None
            confirm(f"Abort the transaction at offset {start_offset} of {topic}-{partition}?", yes=yes)
            _abort_at(admin, topic, partition, start_offset)
            facts = {"topic": topic, "partition": partition, "start_offset": start_offset, "aborted": True}
    print_result(session, "Transaction aborted.", facts)


def _terminate(admin: Admin, name: str) -> None:
    from ottla.wire.errors import UnsupportedVersion

    try:
        admin.force_terminate_transaction(name)
    except UnsupportedVersion:
        # Older brokers have no API for this, but initializing the transactional id aborts its open
        # transaction.
        admin.fence_producers([name]).all()


def _abort_at(admin: Admin, topic: str, partition: int, start_offset: int) -> None:
    from ottla.cli.lookups import describe_topics
    from ottla.client.admin import AbortSpec
    from ottla.client.values import TopicPartition

    key = TopicPartition(topic, partition)
    if partition not in [one.partition for one in describe_topics(admin, [topic])[topic].partitions]:
        raise Problem(
            f"Topic {topic} has no partition {partition}. List partitions with: ottla topic describe {topic}"
        )
    for producer in admin.describe_producers([key]).result(key):
        if producer.transaction_start_offset == start_offset:
            spec = AbortSpec(
                key, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0
            )
            admin.abort_transaction(spec)
            return
    raise Problem(
        f"No open transaction starts at offset {start_offset} of {key}. List them with: ottla txn hanging"
    )


@app.command("hanging")
def hanging(
    context: typer.Context,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic; repeatable."),
    ] = None,
    longer_than: Annotated[
        str, typer.Option(metavar="TIME", help="Only transactions whose last write is older than this.")
    ] = "15m",
) -> None:
    """Find hanging transactions: open in a partition, and no coordinator will end them."""
    from ottla.cli.lookups import describe_topics
    from ottla.cli.units import duration_ms

    session = session_of(context)
    least_ms = duration_ms(longer_than, "--longer-than")
    with session.admin() as admin:
        if topics:
            describe_topics(admin, topics)
        rows = find_hanging(admin, topics, least_ms)
    show(
        session,
        rows,
        columns=["topic", "partition", "start_offset", "age_seconds", "producer_id"],
        wide=["producer_epoch", "coordinator_epoch", "last_write_ms"],
        formats={"age_seconds": duration_text, "last_write_ms": time_text},
        empty="No hanging transactions found.",
    )
    if rows and not session.is_structured:
        one = rows[0]
        print()
        print(
            f"Abort one with: ottla txn abort --topic {one['topic']} --partition {one['partition']} "
            f"--start-offset {one['start_offset']}"
        )


def find_hanging(admin: Admin, topics: list[str] | None, least_ms: int) -> list[dict[str, Any]]:
    """The hanging transactions in these topics (None: all), a row for each partition."""
    from ottla.operations.hanging_transactions import hanging_transactions

    now_ms = _now_ms()
    return [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "start_offset": one.producer.transaction_start_offset,
            "age_seconds": round((now_ms - one.producer.last_timestamp) / 1000, 1),
            "last_write_ms": one.producer.last_timestamp,
            "producer_id": one.producer.producer_id,
            "producer_epoch": one.producer.producer_epoch,
            "coordinator_epoch": one.producer.coordinator_epoch,
        }
        for one in hanging_transactions(admin, _led_partitions(admin, topics), least_ms)
    ]


def _led_partitions(admin: Admin, topics: list[str] | None) -> list[TopicPartition]:
    from ottla.client.values import TopicPartition

    names = list(admin.list_topics(include_internal=True)) if topics is None else topics
    return [
        TopicPartition(name, one.partition)
        for name, topic in sorted(admin.describe_topics(names).succeeded.items())
        for one in topic.partitions
        if one.leader is not None
    ]
