"""`ottla record`: produces and consumes records, like kcat.

`-o` and `-p` have the meanings of both kcat and `ottla`: `-o json` is a format and `-o -100` an offset, `-p
prod` is a profile and `-p 0,2` are partitions. `--output`, `--offset`, `--profile` and `--partition` are
unambiguous.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.errors import Misuse, Problem
from ottla.cli.output import Format, is_terminal
from ottla.cli.records.positions import (
    At,
    InvalidPosition,
    Position,
    parse_partitions,
    parse_place,
    parse_time,
)
from ottla.cli.records.stop_signals import Stop, flush
from ottla.cli.records.values import NAMES, BadValue, Kind, avro_of, kind_of
from ottla.cli.session import Flags, Session, session_of
from ottla.operations.termination import exit_code_of, terminable

if TYPE_CHECKING:
    from ottla.cli.records.consumption import Record, Wanted
    from ottla.cli.records.production import Common
    from ottla.client.consumer.consumer import Consumer

app = typer.Typer(help="Produce and consume records.", no_args_is_help=True)

_RAW = "raw"
_TAIL = 10
_WAIT_MS_MAX = "15000"
_FORMATS = (_RAW, *Format)
_KINDS = ", ".join(NAMES)

KeyAs = Annotated[str, typer.Option("--key-as", metavar="KIND", help=f"Key format: {_KINDS}.")]
ValueAs = Annotated[str, typer.Option("--value-as", metavar="KIND", help=f"Value format: {_KINDS}.")]
KeySchema = Annotated[
    str | None, typer.Option("--key-schema", metavar="FILE", help="File with the Avro schema of keys.")
]
ValueSchema = Annotated[
    str | None, typer.Option("--value-schema", metavar="FILE", help="File with the Avro schema of values.")
]
Registry = Annotated[
    str | None,
    typer.Option("--registry", metavar="URL", help="URL of the schema registry, for --value-as avro."),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--partition",
        metavar="NUMBER",
        help="Partitions: 0, 0,2 or 3-5. Anything else is a profile name.",
    ),
]
Delimiter = Annotated[
    str,
    typer.Option("-D", "--delimiter", metavar="TEXT", help=r"Record delimiter. Escapes: \n, \t, \x00."),
]
KeyDelimiter = Annotated[
    str | None, typer.Option("-K", "--key-delimiter", metavar="TEXT", help="Delimiter between key and value.")
]


@app.command("consume")
def consume(
    context: typer.Context,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topics to consume.")],
    places: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--offset",
            metavar="PLACE",
            help="Start offset: beginning, end, 123, -100 (the last 100 of each partition), @TIME "
            "(@2026-01-31T12:00, @-15m, ms); e@TIME: stop at that time. Or an output format: raw, "
            "json, table, yaml.",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "-n", "--last", metavar="NUMBER", min=0, help="Start with the last N records over all partitions."
        ),
    ] = None,
    follow: Annotated[
        bool | None,
        typer.Option(
            "-F/-e",
            "--follow/--exit",
            help="Follow new records, or exit at the end. Default: follow on a terminal, in a group, with "
            "-c or with -o end; exit in a pipe.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-c", "--count", metavar="NUMBER", min=0, help="Exit after N records.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "-g", "--group", metavar="GROUP", help="Consume as a member of this group, and commit offsets."
        ),
    ] = None,
    partition: Partitions = None,
    format: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--format",
            metavar="FORMAT",
            help=r"kcat format string: %t %p %o %k %s %S %K %h %T %R, \n. Example: '%p:%o %k=%s\n'.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON lines, like -o json.")] = False,
    delimiter: Delimiter = r"\n",
    key_delimiter: KeyDelimiter = None,
    null: Annotated[
        bool, typer.Option("-Z", "--null", help="Print NULL for a null or empty key or value.")
    ] = False,
    key_as: KeyAs = "text",
    value_as: ValueAs = "text",
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    registry: Registry = None,
    grep: Annotated[
        str | None,
        typer.Option(
            "--grep", metavar="REGEX", help="Only records whose value matches this regular expression."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Only records with this key.")
    ] = None,
    isolation: Annotated[
        str,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            help="Isolation level: uncommitted, or committed to skip aborted transactions.",
        ),
    ] = "uncommitted",
) -> None:
    """Consume records: on a terminal the last ten and then new ones, in a pipe all existing ones."""
    from ottla.cli.records.consumption import Reading

    session, numbers = _session_and_partitions(session_of(context), partition)
    kinds = _kinds(key_as, value_as, key_schema, value_schema, registry)
    output, begin, stop_ms = _places(session, places or [], "json" if as_json else None)
    wanted = _wanted(topics, numbers, group, begin, stop_ms, last, follow, count)
    style = format
    if style is None and (key_delimiter is not None or delimiter != r"\n" or null) and output in (None, _RAW):
        style = f"{'' if key_delimiter is None else f'%k{key_delimiter}'}%s{delimiter}"
    show = _shower(style, output, kinds, names_topic=len(topics) > 1, null=b"NULL" if null else b"")
    matches = _filter(grep, key, kinds)
    session.check_reachable()
    with terminable():
        reading = Reading(
            _consumer(session, wanted, isolation),
            wanted,
            show,
            write=sys.stdout.buffer.write,
            flush=lambda: flush(sys.stdout.buffer),
            matches=matches,
        )
        try:
            reading.run()
        finally:
            reading.close()
    if reading.unreadable:
        raise Problem(
            f"{reading.unreadable} records could not be decoded. Omit --key-as and --value-as to see them."
        )


def _session_and_partitions(session: Session, texts: list[str] | None) -> tuple[Session, tuple[int, ...]]:
    """Read `-p`: numbers are partitions, anything else is a profile."""
    names = [text for text in texts or () if not re.fullmatch(r"[\d,\s-]+", text) and text != "any"]
    if names:
        session = Session(Flags(profile=names[-1]).over(session.flags))
    try:
        numbers = parse_partitions([text for text in texts or () if text not in names and text != "any"])
    except InvalidPosition as error:
        raise Misuse(f"-p: {error}.") from error
    return session, tuple(numbers)


def _kinds(
    key_as: str, value_as: str, key_schema: str | None, value_schema: str | None, registry: str | None
) -> tuple[Kind, Kind]:
    try:
        return (
            kind_of(key_as, avro_of(key_schema, registry) if key_as == "avro" else None),
            kind_of(value_as, avro_of(value_schema, registry) if value_as == "avro" else None),
        )
    except BadValue as error:
        raise Misuse(f"{error}.") from error


def _places(
    session: Session, texts: list[str], output: str | None
) -> tuple[str | None, Position | None, int | None]:
    """Read all `-o` values: the format, the start and the stop."""
    begin: Position | None = None
    stop_ms: int | None = None
    for text in texts:
        if text in _FORMATS:
            output = text
            continue
        try:
            place = parse_place(text, _now_ms())
        except InvalidPosition as error:
            raise Misuse(f"-o {error}. Formats are {', '.join(_FORMATS)}.") from error
        if place.at is At.STOP_TIME:
            stop_ms = place.number
        elif begin is not None:
            raise Misuse("Two start offsets given. Use -o once for the start, and e@TIME for the end.")
        else:
            begin = place
    if output is None and session.flags.output is not None:
        output = session.flags.output if session.flags.output == _RAW else session.output
    return output, begin, stop_ms


def _wanted(
    topics: list[str],
    partitions: tuple[int, ...],
    group: str | None,
    begin: Position | None,
    stop_ms: int | None,
    last: int | None,
    follow: bool | None,
    count: int | None,
) -> Wanted:
    from ottla.cli.records.consumption import BEGINNING, Wanted

    if group is not None and (partitions or stop_ms is not None or last is not None):
        raise Misuse("-g cannot be combined with -p, -n or -o e@: the group assigns partitions and offsets.")
    if group is not None and begin is not None and begin.at not in (At.BEGINNING, At.END, At.STORED):
        raise Misuse(
            "-g starts at the committed offsets, or at beginning or end without any. For another start, "
            "omit -g or use ottla group reset."
        )
    if group is None and begin is not None and begin.at is At.STORED:
        raise Misuse("-o stored means the committed offsets of a group. Specify the group with -g.")
    if last is not None and begin is not None:
        raise Misuse("-n and -o both set the start. Use only one of them.")
    if follow is None:
        is_at_end = begin is not None and begin.at is At.END
        follow = (is_terminal() or is_at_end or group is not None or count is not None) and stop_ms is None
    if last is None and begin is None and group is None and is_terminal() and follow and stop_ms is None:
        last = _TAIL
    return Wanted(
        topics=tuple(dict.fromkeys(topics)),
        partitions=partitions,
        group=group,
        start=begin or (Position(At.STORED) if group is not None else BEGINNING),
        stop_ms=stop_ms,
        last=last,
        follows=follow,
        count_max=count,
    )


def _shower(
    style: str | None, output: str | None, kinds: tuple[Kind, Kind], *, names_topic: bool, null: bytes
) -> Callable[[Record], bytes]:
    """The function that prints a record."""
    if style is not None:
        from ottla.cli.records.formats import BadFormat, formatter

        try:
            return formatter(style, *kinds, null)
        except BadFormat as error:
            raise Misuse(f"-f: {error}.") from error
    if output == Format.JSON:
        from ottla.cli.records.json_lines import to_line

        return lambda record: to_line(record, *kinds) + b"\n"
    if output == Format.YAML:
        return _yaml_shower(kinds)
    if output in (Format.TABLE, Format.WIDE) or (output is None and is_terminal()):
        import os

        from ottla.cli.records.terminal import line_formatter

        return line_formatter(
            key=kinds[0],
            value=kinds[1],
            is_coloured=is_terminal() and not os.environ.get("NO_COLOR"),
            names_topic=names_topic or output == Format.WIDE,
        )
    from ottla.cli.records.formats import formatter

    return formatter(r"%s\n", *kinds)


def _yaml_shower(kinds: tuple[Kind, Kind]) -> Callable[[Record], bytes]:
    import json

    import yaml

    from ottla.cli.records.json_lines import to_line

    def show(record: Record) -> bytes:
        text = yaml.safe_dump([json.loads(to_line(record, *kinds))], sort_keys=False, allow_unicode=True)
        return str(text).encode()

    return show


def _filter(grep: str | None, key: str | None, kinds: tuple[Kind, Kind]) -> Callable[[Record], bool] | None:
    if grep is None and key is None:
        return None
    try:
        pattern = None if grep is None else re.compile(grep.encode(errors="surrogateescape"))
        wanted_key = None if key is None else kinds[0].from_text(key.encode(errors="surrogateescape"))
    except re.error as error:
        raise Misuse(f"--grep {grep} is not a valid regular expression: {error}.") from error
    except BadValue as error:
        raise Misuse(f"--key: {error}.") from error

    def matches(record: Record) -> bool:
        if wanted_key is not None and record.key != wanted_key:
            return False
        if pattern is None:
            return True
        try:
            return record.value is not None and pattern.search(kinds[1].shown(record.value)) is not None
        except BadValue:
            return True  # so that the caller reports it

    return matches


def _consumer(session: Session, wanted: Wanted, isolation: str) -> Consumer[bytes | None, bytes | None]:
    from ottla.client.consumer.consumer import Consumer

    levels = {"committed": "read_committed", "uncommitted": "read_uncommitted"}
    level = levels.get(isolation.removeprefix("read_"))
    if level is None:
        raise Misuse(f"--isolation {isolation} is unknown. Use committed or uncommitted.")
    config = session.client_config("consumer", client_id="ottla-consume", default_api_timeout_ms="30000")
    config["isolation.level"] = level
    config["group.id"] = wanted.group
    config["allow.auto.create.topics"] = "false"
    config["auto.offset.reset"] = "latest" if wanted.start.at is At.END else "earliest"
    if wanted.group is None:
        config["enable.auto.commit"] = "false"
    return Consumer(config)


@app.command("produce")
def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to produce to.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="VALUE", help="Record values. Default: lines of standard input."),
    ] = None,
    lines: Annotated[
        list[str] | None,
        typer.Option("-l", "--lines", metavar="FILE", help="Read records from the lines of a file."),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("-F", "--file", metavar="FILE", help="Send a whole file as one record."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("-J", "--json", help="Input lines are JSON, as written by consume -o json.")
    ] = False,
    key: Annotated[
        str | None, typer.Option("-k", "--key", metavar="KEY", help="Key for records without one.")
    ] = None,
    key_delimiter: KeyDelimiter = None,
    delimiter: Delimiter = r"\n",
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header for all records; repeatable."),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--partition",
            metavar="NUMBER",
            help="Target partition; any: let the partitioner choose, even for JSON lines. Anything else "
            "is a profile name.",
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "-t", "--timestamp", metavar="TIME", help="Timestamp for all records: ms, ISO 8601 or -15m."
        ),
    ] = None,
    null: Annotated[bool, typer.Option("-Z", "--null", help="Send empty keys and values as null.")] = False,
    count: Annotated[
        int | None, typer.Option("-c", "--count", metavar="NUMBER", min=0, help="Exit after N records.")
    ] = None,
    key_as: KeyAs = "text",
    value_as: ValueAs = "text",
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    compression: Annotated[
        str | None,
        typer.Option(
            "-z", "--compression", metavar="CODEC", help="Compression: none, gzip, snappy, lz4 or zstd."
        ),
    ] = None,
    acks: Annotated[str | None, typer.Option("-a", "--acks", metavar="ACKS", help="all, 1 or 0.")] = None,
    idempotence: Annotated[
        bool | None,
        typer.Option(
            "--idempotence/--no-idempotence",
            help="Produce idempotently: no duplicates, in order.",
            show_default=False,
        ),
    ] = None,
    partitioner: Annotated[
        str | None,
        typer.Option(
            "--partitioner",
            metavar="NAME",
            help="Partitioner: round_robin, random, or the name of a Kafka class.",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print a delivery report to standard error.")
    ] = False,
) -> None:
    """Produce records from arguments, files, or lines of standard input. Empty lines are skipped.

    With -X transactional.id=NAME, all records form one transaction. `record consume -o json a | record
    produce --json b` copies records with their keys, headers, partitions and timestamps.
    """
    from itertools import islice

    from ottla.cli.records.production import Lines, Outcome, input_records, print_outcome, send_all

    session, numbers = _session_and_partitions(session_of(context), partition)
    kinds = _kinds(key_as, value_as, key_schema, value_schema, None)
    how = Lines(
        key=kinds[0],
        value=kinds[1],
        delimiter=_delimiter(delimiter, "-D"),
        key_delimiter=None if key_delimiter is None else _delimiter(key_delimiter, "-K"),
        is_json=as_json,
        empty_is_null=null,
    )
    common = _common(key, header or [], numbers, "any" in (partition or ()), timestamp, kinds[0])
    if sum(map(bool, (values, lines, file))) > 1:
        raise Misuse("Specify records by only one of: arguments, --lines, --file.")
    config = session.client_config("producer", client_id="ottla-produce", max_block_ms=_WAIT_MS_MAX)
    chosen = {
        "compression.type": compression,
        "acks": acks,
        "enable.idempotence": None if idempotence is None else str(idempotence).lower(),
        "partitioner.class": partitioner,
    }
    config |= {name: value for name, value in chosen.items() if value is not None}
    session.check_reachable()
    outcome = Outcome()
    began = time.monotonic()
    from ottla.client.producer.producer import Producer

    with Stop() as stop:
        records = islice(input_records(values, lines, file, how, stop), count)
        try:
            with Producer(config) as producer:
                send_all(producer, topic, records, common, outcome, stop)
        finally:
            if verbose:
                print_outcome(topic, outcome, time.monotonic() - began)
            for fault in outcome.faults:
                print(f"ottla: {fault}", file=sys.stderr)
    if outcome.failed:
        raise Problem(f"{outcome.failed} of {outcome.sent} records were not written to {topic}.")
    if stop.signal:
        raise SystemExit(exit_code_of(stop.signal))


def _delimiter(text: str, flag: str) -> bytes:
    from ottla.cli.records.formats import unescape

    found = unescape(text)
    if not found:
        raise Misuse(f"{flag} is empty. Specify at least one character.")
    return found


def _common(
    key: str | None,
    headers: list[str],
    partitions: tuple[int, ...],
    any_partition: bool,
    timestamp: str | None,
    key_kind: Kind,
) -> Common:
    from ottla.cli.records.production import Common, parse_header

    if len(partitions) > 1 or (partitions and any_partition):
        raise Misuse("-p takes one partition. Omit it to let the partitioner choose.")
    try:
        return Common(
            key=None if key is None else key_kind.from_text(key.encode(errors="surrogateescape")),
            headers=tuple(parse_header(text) for text in headers),
            partition=partitions[0] if partitions else None,
            any_partition=any_partition,
            timestamp=None if timestamp is None else parse_time(timestamp, _now_ms()),
        )
    except BadValue as error:
        raise Misuse(f"--key: {error}.") from error
    except InvalidPosition as error:
        raise Misuse(f"--timestamp {error}.") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
