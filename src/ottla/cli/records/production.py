"""The sending side of `ottla record produce`: text lines, JSON lines, arguments, or whole files.

Rule: complete lines that were read are sent, even after Ctrl-C, and every delivery is awaited: a failed
record is reported with its position in the input, and sets the exit code. With a `transactional.id` it is all
or nothing: Ctrl-C aborts.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

from ottla.cli.checks.finding import several
from ottla.cli.errors import Problem
from ottla.cli.records.json_lines import BadLine, Headers, Outgoing, from_line
from ottla.cli.records.stop_signals import Stop
from ottla.cli.records.values import BadValue, Kind
from ottla.operations.termination import exit_code_of

if TYPE_CHECKING:
    from ottla.client.core.accumulator import DeliveryReport
    from ottla.client.producer.producer import Producer

LINE_BYTES_MAX = 256 * 1024 * 1024
_PATIENCE_SECONDS = 0.5
_FAULTS_TOLD_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """How lines become records."""

    key: Kind
    value: Kind
    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None
    is_json: bool = False
    empty_is_null: bool = False


def input_records(
    values: list[str] | None, lines: list[str] | None, files: list[str] | None, how: Lines, stop: Stop
) -> Iterator[tuple[str, Outgoing]]:
    """The records to send, each with its origin: an argument, a file, or a line of standard input."""
    if values:
        yield from records_of((value.encode(errors="surrogateescape") for value in values), how, "Argument")
        return
    for path in files or ():
        with open(path, "rb") as content:
            yield path, Outgoing(value=content.read())
    for path in lines or ():
        with open(path, "rb") as content:
            yield from records_of(split(content, how.delimiter, stop), how, f"{path} line")
    if files or lines:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        print("Enter one record per line; finish with Ctrl-D.", file=sys.stderr)
    yield from records_of(split(sys.stdin.buffer, how.delimiter, stop), how, "Line")


def split(stream: BinaryIO, delimiter: bytes, stop: Stop, bytes_max: int = LINE_BYTES_MAX) -> Iterator[bytes]:
    """The pieces between delimiters. The last one may lack its delimiter, except after a signal: it may be
    incomplete."""
    rest = bytearray()
    for chunk in stop.chunks(stream):
        searched = max(len(rest) - len(delimiter) + 1, 0)
        rest += chunk
        if rest.find(delimiter, searched) >= 0:
            *whole, rest = rest.split(delimiter)
            for piece in whole:
                _check_size(piece, bytes_max)
                yield bytes(piece)
        _check_size(rest, bytes_max)
    if rest and not stop.signal:
        yield bytes(rest)


def _check_size(piece: bytes | bytearray, bytes_max: int) -> None:
    if len(piece) > bytes_max:
        raise Problem(f"The record exceeds {bytes_max} bytes. Check the delimiter (-D).")


def records_of(pieces: Iterable[bytes], lines: Lines, origin: str) -> Iterator[tuple[str, Outgoing]]:
    """The records in lines, each with its position for error messages. Empty lines are skipped."""
    for number, piece in enumerate(pieces, 1):
        if not piece or (lines.is_json and not piece.strip()):
            continue
        where = f"{origin} {number}"
        try:
            record = from_line(piece, lines.key, lines.value) if lines.is_json else record_of(piece, lines)
        except (BadLine, BadValue) as error:
            raise Problem(f"{where} is invalid: {error}. The records after it were not sent.") from error
        yield where, record


def record_of(piece: bytes, lines: Lines) -> Outgoing:
    """Parse a record: a key before the delimiter, if there is one, and a value."""
    key: bytes | None = None
    value: bytes = piece
    if lines.key_delimiter is not None:
        before, found, after = piece.partition(lines.key_delimiter)
        if found:
            key, value = before, after
    return Outgoing(value=_part(value, lines.value, lines), key=_part(key, lines.key, lines))


def _part(piece: bytes | None, kind: Kind, lines: Lines) -> bytes | None:
    if piece is None or (lines.empty_is_null and not piece):
        return None
    return kind.from_text(piece)


def parse_header(text: str) -> tuple[str, bytes | None]:
    """name=value; a name alone has the value null."""
    name, equals, value = text.partition("=")
    if not name:
        raise Problem(f"-H {text} has no name: write -H name=value.")
    return name, value.encode(errors="surrogateescape") if equals else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Fields for all records: a default key, extra headers, an overriding partition or timestamp."""

    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    any_partition: bool = False
    timestamp: int | None = None

    def apply(self, record: Outgoing) -> Outgoing:
        return replace(
            record,
            key=self.key if record.key is None else record.key,
            headers=record.headers + self.headers,
            partition=None
            if self.any_partition
            else record.partition
            if self.partition is None
            else self.partition,
            timestamp=record.timestamp if self.timestamp is None else self.timestamp,
        )


@dataclass(slots=True)
class Written:
    """What was written to a partition."""

    count: int = 0
    first_offset: int = -1
    last_offset: int = -1


@dataclass(slots=True)
class Outcome:
    """The delivery results. Reports arrive on the producer's thread."""

    sent: int = 0
    sent_bytes: int = 0
    failed: int = 0
    partitions: dict[int, Written] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def listener(self, where: str) -> Callable[[DeliveryReport], None]:
        def heard(report: DeliveryReport) -> None:
            with self.lock:
                if report.error is not None:
                    self._fail(where, report.error)
                    return
                written = self.partitions.setdefault(report.partition, Written())
                written.count += 1
                if written.first_offset < 0:
                    written.first_offset = report.offset
                written.last_offset = max(written.last_offset, report.offset)

        return heard

    def _fail(self, where: str, error: Exception) -> None:
        self.failed += 1
        if len(self.faults) < _FAULTS_TOLD_MAX:
            self.faults.append(f"{where} was not written: {error}")

    @property
    def written(self) -> int:
        return sum(one.count for one in self.partitions.values())


class Aborted(Problem):
    """A signal arrived before the whole transaction was read."""

    def __init__(self, number: int) -> None:
        super().__init__("The transaction was aborted; no records were written.")
        self.exit_code = exit_code_of(number)


def send_all(
    producer: Producer,
    topic: str,
    records: Iterable[tuple[str, Outgoing]],
    common: Common,
    outcome: Outcome,
    stop: Stop,
) -> None:
    """Send all records and wait for every delivery report."""
    if producer.settings.transactional_id is not None:
        with producer.transaction():
            _send(producer, topic, records, common, outcome)
            if stop.signal:
                raise Aborted(stop.signal)
        return
    try:
        _send(producer, topic, records, common, outcome)
    finally:
        _flush(producer, stop)


def _flush(producer: Producer, stop: Stop) -> None:
    from ottla.client.errors import TimedOut

    is_told = False
    while True:
        try:
            producer.flush(_PATIENCE_SECONDS)
            return
        except TimedOut:
            if stop.signal and not is_told:
                is_told = True
                print(
                    "Waiting for acknowledgements of the records read; press Ctrl-C again to give up.",
                    file=sys.stderr,
                )


def _send(
    producer: Producer, topic: str, records: Iterable[tuple[str, Outgoing]], common: Common, outcome: Outcome
) -> None:
    count: int | None = None
    for where, record in records:
        full = common.apply(record)
        if count is None:
            count = producer.partitions_for(topic)
        if full.partition is not None and full.partition >= count:
            raise Problem(
                f"{where} is for partition {full.partition}, but {topic} has "
                f"{several(count, 'partition')}. Use -p any to let the partitioner choose."
            )
        producer.send(
            topic,
            full.value,
            full.key,
            full.headers or None,
            full.partition,
            full.timestamp,
            on_delivery=outcome.listener(where),
        )
        outcome.sent += 1
        outcome.sent_bytes += len(full.value or b"") + len(full.key or b"")


def print_outcome(topic: str, outcome: Outcome, seconds: float) -> None:
    """The delivery report, on standard error."""
    rate = f", {outcome.written / seconds:,.0f} records/s" if seconds > 0 and outcome.written else ""
    print(
        f"{topic}: {outcome.written} of {several(outcome.sent, 'record')} written ({outcome.sent_bytes} "
        "bytes of keys "
        f"and values) in {seconds:.2f} s{rate}.",
        file=sys.stderr,
    )
    for partition, written in sorted(outcome.partitions.items()):
        first, last = written.first_offset, written.last_offset
        where = "" if last < 0 else f", offset {first}" if first == last else f", offsets {first} to {last}"
        print(f"  partition {partition}: {several(written.count, 'record')}{where}", file=sys.stderr)
