"""`kafka-dump-log.sh`: dumps the files of a log: batches and records, indexes, producers, snapshots.

It only reads files, so it works on a running broker's directory and on a copy. Rule: damage is reported on
standard error, after everything readable went to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.host import HostDisk, map_for_reading
from ottla.log.index import OffsetIndex, TimeIndex
from ottla.log.producer_state import decode_snapshot
from ottla.log.transactions import decode_aborted
from ottla.operations import decoders
from ottla.operations.failure import Failure
from ottla.operations.log_text import RECORD_INDENT, batch_line, contents, record_line, records_of
from ottla.ports import Buffer
from ottla.records.batch import BatchHeader, iterate_headers
from ottla.records.record import read_batch
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run

_NO_LIMIT = 2**31 - 1
_MESSAGE_BYTES_MAX = 5 * 1024 * 1024
_BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"

_Pairs = dict[str, list[tuple[int, int]]]


@dataclass(slots=True)
class _Findings:
    """The problems found, by file, for the report at the end."""

    index_mismatches: _Pairs = field(default_factory=dict)
    timestamp_mismatches: _Pairs = field(default_factory=dict)
    timestamps_out_of_order: _Pairs = field(default_factory=dict)
    offsets_not_found: _Pairs = field(default_factory=dict)
    gaps: _Pairs = field(default_factory=dict)

    def tell(self) -> None:
        _tell("Mismatches in :", self.index_mismatches, "  Index offset: {}, log offset: {}")
        _tell(
            "Found timestamp mismatch in :",
            self.timestamp_mismatches,
            "  Index timestamp: {}, log timestamp: {}",
        )
        _tell(
            "Found out of order timestamp in :",
            self.timestamps_out_of_order,
            "  Index timestamp: {}, Previously indexed timestamp: {}",
        )
        _tell(
            "The following indexed offsets are not found in :",
            self.offsets_not_found,
            "Indexed offset: {}, found log offset: {}",
        )
        _tell("Non-consecutive offsets in ", self.gaps, "  {} is followed by {}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _dump, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-dump-log", "Dumps log files: batches, records, indexes, snapshots.")
    parser.value("files", shown_as="file1,file2", text="REQUIRED: the files to dump, comma-separated.")
    parser.flag("print-data-log", text="Print the contents of records. Implied by every decoder option.")
    parser.flag("deep-iteration", text="Print each record of a batch. Implied by --print-data-log.")
    parser.flag("skip-record-metadata", text="Print only the contents of records.")
    parser.flag("verify-index-only", text="Verify an index against its log and print only mismatches.")
    parser.flag("index-sanity-check", text="Check an index as a broker does at startup.")
    parser.value(
        "max-message-size", shown_as="bytes", convert=int, default=_MESSAGE_BYTES_MAX, text="Largest batch."
    )
    parser.value(
        "max-bytes",
        shown_as="bytes",
        convert=int,
        default=_NO_LIMIT,
        text="Stop after this many bytes of a log.",
    )
    for name in ("value-decoder-class", "key-decoder-class"):
        parser.value(
            name,
            shown_as="class",
            default="StringDecoder",
            value_is_optional=True,
            text=f"Decoder class for the {name.split('-')[0]} of records.",
        )
    parser.flag("offsets-decoder", text="Decode records of __consumer_offsets.")
    parser.flag("transaction-log-decoder", text="Decode records of __transaction_state.")
    parser.flag("cluster-metadata-decoder", text="Decode records of the cluster metadata.")
    parser.flag("share-group-state-decoder", text="Decode records of __share_group_state.")
    return parser


def _dump(options: Options) -> int:
    options.check_required("files")
    findings = _Findings()
    log = _LogDump(options, findings)
    for path in options.value("files").split(","):
        print(f"Dumping {path}")
        suffix = os.path.splitext(path)[1]
        if suffix in (".log", ".checkpoint"):
            log.dump(path)
        elif suffix == ".index":
            _dump_index(path, options, findings)
        elif suffix == ".timeindex":
            _dump_time_index(path, options, findings)
        elif suffix == ".snapshot":
            _dump_producers(path)
        elif suffix == ".txnindex":
            _dump_aborted(path)
        else:
            print(f"Ignoring unknown file {path}", file=sys.stderr)
    sys.stdout.flush()
    findings.tell()
    return 0


class _LogDump:
    """Dumps logs and metadata snapshots."""

    def __init__(self, options: Options, findings: _Findings) -> None:
        self._findings = findings
        self._decoder = _decoder(options)
        self._prints_contents = self._decoder is not None or options.has("print-data-log")
        self._is_deep = self._prints_contents or options.has("deep-iteration")
        self._skips_metadata = options.has("skip-record-metadata")
        self._bytes_max: int = options.value("max-bytes")
        self._plain = decoders.plain(
            decoders.by_class_name(options.value("key-decoder-class")),
            decoders.by_class_name(options.value("value-decoder-class")),
        )

    def dump(self, path: str) -> None:
        print(_title(path))
        last_offset = -1
        end = 0
        buffer = map_for_reading(path)
        stop = min(len(buffer), self._bytes_max)
        for position, header in iterate_headers(buffer, 0, stop):
            print(batch_line(buffer, position, header))
            if self._is_deep:
                last_offset = self._dump_records(path, buffer, position, header, last_offset)
            end = position + header.length_bytes
        if stop > end and self._bytes_max == _NO_LIMIT:
            print(f"Found {stop - end} invalid bytes at the end of {os.path.basename(path)}")

    def _dump_records(
        self, path: str, buffer: Buffer, position: int, header: BatchHeader, last_offset: int
    ) -> int:
        for record, checksum in records_of(buffer, position, header):
            if record.offset != last_offset + 1:
                _note(self._findings.gaps, path, last_offset, record.offset)
            last_offset = record.offset
            line = "" if self._skips_metadata else record_line(header, record, checksum)
            if self._prints_contents and not header.is_control:
                prefix = f"{RECORD_INDENT} " if self._skips_metadata else " "
                try:
                    line += contents(record, self._decoder or self._plain, prefix)
                except decoders.DecodeError as error:
                    raise Failure(str(error)) from error
            print(line)
        return last_offset


def _decoder(options: Options) -> decoders.Decoder | None:
    """The decoder of an internal topic, if one was chosen, or of single values."""
    chosen: dict[str, Callable[[], decoders.Decoder]] = {
        "offsets-decoder": decoders.offsets,
        "transaction-log-decoder": decoders.transaction_log,
        "cluster-metadata-decoder": decoders.cluster_metadata,
        "share-group-state-decoder": decoders.share_group_state,
    }
    for name, make in chosen.items():
        if options.has(name):
            return make()
    if options.has("value-decoder-class") or options.has("key-decoder-class"):
        try:
            return decoders.plain(
                decoders.by_class_name(options.value("key-decoder-class")),
                decoders.by_class_name(options.value("value-decoder-class")),
            )
        except decoders.DecodeError as error:
            raise Failure(str(error)) from error
    return None


def _title(path: str) -> str:
    name = os.path.basename(path)
    if name.endswith(".log"):
        return f"Log starting offset: {_base_offset(path)}"
    if name == _BOOTSTRAP_SNAPSHOT:
        return "KRaft bootstrap snapshot"
    from ottla.raft.snapshots import parse_name

    parsed = parse_name(name)
    if parsed is None:
        raise Failure(f"{path} is not named like a snapshot: offset-epoch.checkpoint.")
    return f"Snapshot end offset: {parsed[0].offset}, epoch: {parsed[0].epoch}"


def _dump_index(path: str, options: Options, findings: _Findings) -> None:
    index = OffsetIndex(HostDisk(), path, _base_offset(path), os.path.getsize(path), os.path.getsize(path))
    log = map_for_reading(_sibling(path, ".log"))
    if not index.count:
        print(f"{path} is empty.")
        return
    if options.has("index-sanity-check"):
        _check(path, index.problem(len(log)))
        return
    for number in range(index.count):
        offset, position = index.entry(number)
        if number and offset == index.base_offset:
            return  # the rest of the file is preallocated and unused
        found = _first_batch(path, log, position, options.value("max-message-size")).last_offset
        if found != offset:
            _note(findings.index_mismatches, path, offset, found)
        if not options.has("verify-index-only"):
            print(f"offset: {offset} position: {position}")
    if path_mismatches := findings.index_mismatches.get(os.path.abspath(path)):
        path_mismatches.sort(reverse=True)


def _dump_time_index(path: str, options: Options, findings: _Findings) -> None:
    base_offset = _base_offset(path)
    size = os.path.getsize(path)
    times = TimeIndex(HostDisk(), path, base_offset, size, size)
    index_path = _sibling(path, ".index")
    index_size = os.path.getsize(index_path)
    index = OffsetIndex(HostDisk(), index_path, base_offset, index_size, index_size)
    if options.has("index-sanity-check"):
        _check(path, times.problem())
        return
    previous = -1
    log = map_for_reading(_sibling(path, ".log"))
    for number in range(times.count):
        timestamp, offset = times.entry(number)
        if number and offset == base_offset:
            return
        _compare_time(path, log, index.lookup(offset)[1], (timestamp, offset), previous, findings)
        if not options.has("verify-index-only"):
            print(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp


def _compare_time(
    path: str, log: Buffer, position: int, entry: tuple[int, int], previous: int, findings: _Findings
) -> None:
    timestamp, offset = entry
    for at, header in iterate_headers(log, position):
        if header.last_offset < offset:
            continue
        if header.last_offset > offset:
            _note(findings.offsets_not_found, path, offset, header.last_offset)
            return
        largest = max((record.timestamp for record in read_batch(log, at, header, verify=False)), default=-1)
        if largest != timestamp:
            _note(findings.timestamp_mismatches, path, timestamp, largest)
        if previous >= timestamp:
            _note(findings.timestamps_out_of_order, path, timestamp, previous)
        return
    _note(findings.offsets_not_found, path, offset, -1)


def _dump_producers(path: str) -> None:
    with open(path, "rb") as file:
        data = file.read()
    try:
        entries = decode_snapshot(data)
    except ValueError as error:
        print(f"Cannot read snapshot {path}: {error}.", file=sys.stderr)
        return
    for entry in entries:
        first = entry.transaction_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch}"
            f" coordinatorEpoch: {entry.coordinator_epoch}"
            f" currentTxnFirstOffset: OptionalLong{'.empty' if first is None else f'[{first}]'}"
            f" lastTimestamp: {entry.last_timestamp}"
        )
        if entry.batches:
            batch = entry.batches[0]
            line += (
                f" firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence}"
                f" lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta}"
                f" timestamp: {batch.timestamp}"
            )
        print(line)


def _dump_aborted(path: str) -> None:
    with open(path, "rb") as file:
        for entry in decode_aborted(file.read()):
            print(
                f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset}"
                f" lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
            )


def _first_batch(path: str, log: Buffer, position: int, bytes_max: int) -> BatchHeader:
    for _, header in iterate_headers(log, position, min(len(log), position + bytes_max)):
        return header
    raise Failure(f"{path} points to byte {position}, where the log has no complete batch.")


def _base_offset(path: str) -> int:
    name = os.path.basename(path).partition(".")[0]
    if not name.isdecimal():
        raise Failure(f"{path} is not named after an offset, as log files are.")
    return int(name)


def _sibling(path: str, suffix: str) -> str:
    directory, name = os.path.split(os.path.abspath(path))
    return os.path.join(directory, name.partition(".")[0] + suffix)


def _check(path: str, problem: str | None) -> None:
    if problem is not None:
        raise Failure(f"{path} is damaged: {problem}.")
    print(f"{path} passed sanity check.")


def _note(findings: _Pairs, path: str, first: int, second: int) -> None:
    findings.setdefault(os.path.abspath(path), []).append((first, second))


def _tell(title: str, findings: _Pairs, line: str) -> None:
    for path, pairs in findings.items():
        print(f"{title}{path}", file=sys.stderr)
        for pair in pairs:
            print(line.format(*pair), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
