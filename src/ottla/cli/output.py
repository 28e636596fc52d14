"""Output of commands: tables for people, JSON and YAML for programs.

Rule: `show` gets plain values (JSON types) under stable names, whatever the format; only tables format them,
with `formats`. On a terminal, rich lays out tables; in a pipe they are aligned columns, one row per line,
never truncated. Text from a cluster cannot control the terminal: control characters are escaped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.units import MILLISECONDS

if TYPE_CHECKING:
    from ottla.cli.session import Session

Row = Mapping[str, Any]
_Facts = TypeVar("_Facts", bound=Row)


class Format(StrEnum):
    """The output formats."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Styled:
    """A table cell with a rich style, such as "red" or "bold"; pipes get the text alone."""

    text: str
    style: str


Cell = str | Styled
Formatter = Callable[[Any], Cell]


def show(
    session: Session,
    data: Sequence[Row] | Row,
    *,
    columns: Sequence[str] | None = None,
    wide: Sequence[str] = (),
    title: str | None = None,
    formats: Mapping[str, Formatter] | None = None,
    empty: str = "No results.",
) -> None:
    """Print rows, or one object, in the session's format.

    `columns` are the columns of a table (default: all), `wide` are added by `-o wide`. `formats` turn the
    values of a column into text or `Styled`. JSON and YAML get every field of `data` unchanged.
    """
    if session.is_structured:
        emit(session, data)
        return
    if isinstance(data, Mapping):
        chosen = [*(columns if columns is not None else data), *(wide if session.is_wide else ())]
        _show_object(session, data, chosen, formats or {}, title)
        return
    if not data:
        print(empty, file=sys.stderr)
        return
    chosen = [*(columns if columns is not None else data[0]), *(wide if session.is_wide else ())]
    _show_rows(session, data, chosen, formats or {}, title)


def emit(session: Session, data: object) -> None:
    """Print a value as JSON or YAML."""
    if session.output is Format.YAML:
        import yaml

        text = yaml.safe_dump(_plain(data), sort_keys=False, allow_unicode=True, default_flow_style=False)
        sys.stdout.write(text)
    else:
        print(json.dumps(_plain(data), indent=2, ensure_ascii=False))


def emit_each(session: Session, facts: Sequence[_Facts], show_one: Callable[[_Facts], None]) -> None:
    """Print several results: one list for programs, one after the other for people."""
    if session.is_structured:
        emit(session, facts if len(facts) > 1 else facts[0])
        return
    for at, fact in enumerate(facts):
        if at:
            print()
        show_one(fact)


def print_result(session: Session, sentence: str, data: object = None) -> None:
    """Report a result: a sentence for people, `data` for programs if there is any."""
    if not session.is_structured:
        print(clean(sentence))
    elif data is not None:
        emit(session, data)


def clean(text: str) -> str:
    """Escape control characters, so that no name can control the terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def count_text(count: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size_text(count: int | None) -> str:
    """A human-readable size: 1536 is 1.5 KiB."""
    if count is None or count < 0:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable: TiB is the last unit")


def duration_text(seconds: float | None) -> str:
    """A human-readable duration: 93784 s is 1d 2h."""
    if seconds is None:
        return "-"
    if seconds < 0:
        return f"-{duration_text(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    left = int(seconds)
    parts = []
    for unit in "dhms":
        count, left = divmod(left, MILLISECONDS[unit] // 1000)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def time_text(timestamp_ms: int | None) -> str:
    """A human-readable time, in UTC."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "-"
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError):
        return str(timestamp_ms)


def _plain(data: object) -> Any:
    """Convert mappings, sequences and enums to JSON types."""
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, str):
        return str(data)
    if isinstance(data, bool) or data is None or isinstance(data, float):
        return data
    if isinstance(data, int):
        return int(data)
    if isinstance(data, (Sequence, set, frozenset)) and not isinstance(data, (bytes, bytearray)):
        return [_plain(one) for one in data]
    return str(data)


def _label(name: str, names: Sequence[str], formats: Mapping[str, Formatter]) -> str:
    """The header of a column, without the unit if the values are formatted with one."""
    if name in formats:
        short = name.removesuffix("_bytes").removesuffix("_ms").removesuffix("_seconds")
        name = f"{short}_time" if short != name and short in names else short
    return name.replace("_", " ")


def _cell(value: Any, formatter: Formatter | None) -> Styled:
    shown = formatter(value) if formatter is not None else _text(value)
    return Styled(clean(shown.text), shown.style) if isinstance(shown, Styled) else Styled(clean(shown), "")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(one)}" for key, one in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(one) for one in value) or "-"
    return str(value)


def _show_rows(
    session: Session,
    rows: Sequence[Row],
    columns: Sequence[str],
    formats: Mapping[str, Formatter],
    title: str | None,
) -> None:
    cells = [[_cell(row.get(column), formats.get(column)) for column in columns] for row in rows]
    right = [
        all(isinstance(row.get(column), (int, float)) or row.get(column) is None for row in rows)
        and any(
            isinstance(row.get(column), (int, float)) and not isinstance(row.get(column), bool)
            for row in rows
        )
        for column in columns
    ]
    headers = [_label(column, columns, formats).upper() for column in columns]
    if is_terminal():
        _show_rich(headers, cells, right, title)
        return
    if title:
        print(title)
    widths = [max(len(header), *(len(row[at].text) for row in cells)) for at, header in enumerate(headers)]
    for texts in (headers, *([cell.text for cell in row] for row in cells)):
        parts = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(texts, widths, right, strict=True)
        ]
        print("  ".join(parts).rstrip())


def _show_rich(
    headers: Sequence[str], cells: Sequence[Sequence[Styled]], right: Sequence[bool], title: str | None
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for header, is_right in zip(headers, right, strict=True):
        table.add_column(header, justify="right" if is_right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell.text, style=cell.style) for cell in row))
    Console().print(table)


def _show_object(
    session: Session,
    data: Row,
    fields: Sequence[str],
    formats: Mapping[str, Formatter],
    title: str | None,
) -> None:
    cells = [(_label(one, fields, formats), _cell(data.get(one), formats.get(one))) for one in fields]
    if is_terminal():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for label, cell in cells:
            table.add_row(label, Text(cell.text, style=cell.style))
        console = Console()
        if title:
            console.print(Text(title, style="bold"))
        console.print(table)
        return
    if title:
        print(title)
    width = max((len(label) for label, _ in cells), default=0)
    for label, cell in cells:
        print(f"{label.ljust(width)}  {cell.text}".rstrip())
