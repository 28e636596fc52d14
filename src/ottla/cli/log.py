"""`ottla log`: dumps and verifies the files of a log directory, without a broker."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem
from ottla.cli.logs.contents import Contents, Damage, Row, UnknownFile, contents_of
from ottla.cli.output import Formatter, Styled, clean, emit, show, size_text
from ottla.cli.records.terminal import time_text
from ottla.cli.records.values import NAMES, BadValue, Kind, kind_of
from ottla.cli.session import Session, session_of

app = typer.Typer(help="Inspect and verify log files.", no_args_is_help=True)

_VALUE_LETTERS_MAX = 120
_KINDS = ", ".join(name for name in NAMES if name != "avro")


@app.command("dump")
def dump(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files of a log directory, or a directory of them.")
    ],
    records: Annotated[
        bool, typer.Option("-r", "--records", help="Show records instead of batches.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("-c", "--count", metavar="NUMBER", min=0, help="Maximum number of rows.")
    ] = None,
    key_as: Annotated[str, typer.Option("--key-as", metavar="KIND", help=f"Key format: {_KINDS}.")] = "text",
    value_as: Annotated[
        str, typer.Option("--value-as", metavar="KIND", help=f"Value format: {_KINDS}.")
    ] = "text",
) -> None:
    """Dump segments, indexes, snapshots, checkpoints, quorum-state and meta.properties; report damage.

    Records of internal topics and the metadata log are decoded by their schemas. Read-only.
    """
    session = session_of(context)
    key, value = _kind(key_as), _kind(value_as)
    damages: list[Damage] = []
    found: list[Any] = []
    for path in paths:
        if path.is_dir():
            rows = _directory(path)
            # A segment is named after its first offset, so the column would be redundant.
            columns = tuple(name for name in rows[0] if name != "segment")
            _show_rows(session, rows, columns, ("segment",), str(path), found)
            continue
        try:
            contents = contents_of(path, shows_records=records, key=key, value=value)
        except UnknownFile as error:
            raise Problem(str(error)) from error
        taken = _take(contents, count)
        title = f"{path}: {contents.kind}"
        _show_rows(session, taken, contents.columns, contents.wide, title, found, contents)
        damages += contents.damages
    if session.is_structured:
        emit(session, found[0] if len(found) == 1 else found)
    for damage in damages:
        print(f"ottla: {clean(str(damage))}.", file=sys.stderr)
    if damages:
        raise Problem(_CURE)


_CURE = (
    "After a crash, a broker truncates its newest segment there at startup; in other files, restore the "
    "partition from another replica."
)


def _kind(name: str) -> Kind:
    try:
        return kind_of(name)
    except BadValue as error:
        raise Misuse(f"{error}.") from error


def _take(contents: Contents, count: int | None) -> list[Row]:
    from itertools import islice

    return list(islice(contents.rows, count))


def _directory(path: Path) -> list[Row]:
    from ottla.cli.logs.verification import summary_rows

    rows = summary_rows(path)
    if not rows:
        raise Problem(f"{path} contains no segments. Pass a partition directory or a log directory.")
    return rows


def _show_rows(
    session: Session,
    rows: list[Row],
    columns: tuple[str, ...],
    wide: tuple[str, ...],
    title: str,
    found: list[Any],
    contents: Contents | None = None,
) -> None:
    if session.is_structured:
        entry: dict[str, Any] = {"file": title.rpartition(": ")[0] or title, "rows": rows}
        if contents is not None:
            entry |= {"kind": contents.kind, "damages": [_damage_row(one) for one in contents.damages]}
        found.append(entry)
        return
    formats: dict[str, Formatter] = {
        "time": _time,
        "newest_time": _time,
        "bytes": size_text,
        "key": _short,
        "value": _short,
        "flags": lambda flags: Styled(", ".join(flags) or "-", "red" if "bad CRC" in flags else ""),
        "damages": lambda found: Styled(f"{len(found)} places" if found else "-", "red" if found else ""),
        "headers": lambda pairs: (
            ", ".join(f"{name}={'null' if text is None else text}" for name, text in pairs or ()) or "-"
        ),
    }
    show(session, rows, columns=columns, wide=wide, title=title, formats=formats, empty=f"{title}, empty.")


def _time(timestamp_ms: int | None) -> str:
    return "-" if timestamp_ms is None else time_text(timestamp_ms)


def _short(content: Any) -> str:
    """A key or value in a table, truncated if long."""
    text = "null" if content is None else content if isinstance(content, str) else json.dumps(content)
    return text if len(text) <= _VALUE_LETTERS_MAX else f"{text[: _VALUE_LETTERS_MAX - 1]}…"


def _damage_row(damage: Damage) -> Row:
    return {"file": damage.file, "place": damage.place, "cause": damage.cause}


@app.command("verify")
def verify_command(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A log directory, a partition directory, or a file.")
    ],
    records: Annotated[
        bool, typer.Option("-r", "--records", help="Also decompress and parse every record.")
    ] = False,
) -> None:
    """Verify every batch, index and checkpoint below a directory. Exit code 1 on damage."""
    from ottla.cli.logs.verification import verify

    session = session_of(context)
    if not path.exists():
        raise Problem(f"{path} does not exist. Pass a log directory, such as a broker's log.dirs.")
    verdict = verify(path, reads_records=records)
    if not verdict.files:
        raise Problem(f"{path} contains no log files. Pass a log directory, such as a broker's log.dirs.")
    counts = {
        "directories": verdict.directories,
        "files": verdict.files,
        "batches": verdict.batches,
        "records": verdict.records,
        "bytes": verdict.bytes,
    }
    if session.is_structured:
        problems = [_damage_row(one) for one in verdict.problems]
        emit(
            session,
            {**counts, "problems": problems, "remarks": [_damage_row(one) for one in verdict.remarks]},
        )
    else:
        if verdict.problems:
            rows = [_damage_row(one) for one in verdict.problems]
            show(session, rows, columns=("file", "place", "cause"), formats={"cause": _red})
        for remark in verdict.remarks:
            print(f"{clean(str(remark))}: a broker may be writing it, or will truncate it at startup.")
        print(
            f"{verdict.files} files in {verdict.directories} directories: {verdict.batches} batches, "
            f"{verdict.records} records, {size_text(verdict.bytes)}. {_verdict(len(verdict.problems))}"
        )
    if verdict.problems:
        raise typer.Exit(1)


def _red(text: str) -> Styled:
    return Styled(text, "red")


def _verdict(problems: int) -> str:
    if not problems:
        return "No damage found."
    return f"{problems} {'place is' if problems == 1 else 'places are'} damaged. {_CURE}"
