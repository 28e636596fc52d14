"""The contents of a log directory file as rows: batches or records, index and checkpoint entries.

Rule: rows are yielded up to the first damage, which is then reported with its position and cause. Access is
read-only, so the broker may be running.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.cli.records.values import TEXT, BadValue, Kind, to_base64
from ottla.host import HostDisk, map_for_reading
from ottla.log import checkpoints
from ottla.log.directories import properties
from ottla.log.index import OffsetIndex, TimeIndex
from ottla.log.leader_epochs import CHECKPOINT_NAME, EpochCache
from ottla.log.producer_state import decode_snapshot
from ottla.log.transactions import ENTRY_BYTES, aborted_problem, decode_aborted
from ottla.ports import Buffer
from ottla.raft import election_state
from ottla.records.batch import BatchHeader, Codec, check_crc, iterate_headers
from ottla.records.record import Record, read_batch
from ottla.wire import uuid
from ottla.wire.errors import CorruptMessage, KafkaError, MalformedMessage

Row = dict[str, Any]

CHECKPOINTS = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_STARTS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.CLEANED,
)
_BATCH_COLUMNS = ("offset", "last_offset", "records", "position", "bytes", "time", "codec", "flags")
_BATCH_WIDE = ("leader_epoch", "producer_id", "producer_epoch", "sequence", "crc_is_right")


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged position in a file."""

    file: str
    place: str
    cause: str

    def __str__(self) -> str:
        where = f"{self.file}, {self.place}" if self.place else self.file
        return f"{where}: {self.cause}"


@dataclass(slots=True)
class Contents:
    """The contents of a file. `damages` is complete once `rows` is exhausted."""

    kind: str
    columns: tuple[str, ...]
    rows: Iterator[Row]
    wide: tuple[str, ...] = ()
    damages: list[Damage] = field(default_factory=list)


class UnknownFile(ValueError):
    """A file that does not belong in a log directory."""


def contents_of(path: Path, *, shows_records: bool = False, key: Kind = TEXT, value: Kind = TEXT) -> Contents:
    """Read a file; its name determines the format."""
    name, suffix = path.name, path.suffix
    if suffix in (".log", ".checkpoint"):
        return _log(path, shows_records, key, value)
    reader = _BY_NAME.get(name) or _BY_SUFFIX.get(suffix)
    if reader is None:
        raise UnknownFile(
            f"{path} is not a known log directory file. Known names: .log, .index, .timeindex, .txnindex, "
            f".snapshot, .checkpoint, {', '.join(_BY_NAME)}."
        )
    return reader(path)


# Logs and snapshots of the metadata


def batches(path: Path, buffer: Buffer, damages: list[Damage]) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Each complete batch with its position and checksum validity, then the damage after the last one."""
    end = 0
    try:
        for position, header in iterate_headers(buffer):
            is_right = True
            try:
                check_crc(buffer, position, header)
            except CorruptMessage as error:
                is_right = False
                where = f"byte {position} (offset {header.base_offset})"
                damages.append(Damage(str(path), where, str(error).rstrip(".")))
            yield position, header, is_right
            end = position + header.length_bytes
    except CorruptMessage as error:
        damages.append(Damage(str(path), f"byte {end}", str(error).rstrip(".")))
        return
    if end < len(buffer):
        damages.append(
            Damage(str(path), f"byte {end}", f"the last {len(buffer) - end} bytes are not a complete batch")
        )


def batch_row(position: int, header: BatchHeader, crc_is_right: bool) -> Row:
    flags = [
        name
        for name, is_set in (
            ("transactional", header.is_transactional),
            ("control", header.is_control),
            ("bad CRC", not crc_is_right),
        )
        if is_set
    ]
    return {
        "offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count if header.magic >= 2 else None,
        "position": position,
        "bytes": header.length_bytes,
        "time": header.max_timestamp if header.max_timestamp >= 0 else None,
        "codec": Codec(header.codec).config_name if header.codec <= max(Codec) else str(header.codec),
        "flags": flags,
        "magic": header.magic,
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "sequence": header.base_sequence,
        "crc": header.crc,
        "crc_is_right": crc_is_right,
    }


def _log(path: Path, shows_records: bool, key: Kind, value: Kind) -> Contents:
    kind = "metadata snapshot" if path.suffix == ".checkpoint" else "log"
    found = Contents(kind, _BATCH_COLUMNS, iter(()), _BATCH_WIDE)
    if shows_records:
        found.columns, found.wide = ("offset", "time", "key", "value", "headers"), ("batch", "control")
        found.rows = _record_rows(path, found.damages, decoder_of(path, key, value))
        return found

    def rows() -> Iterator[Row]:
        buffer = map_for_reading(path)
        for position, header, is_right in batches(path, buffer, found.damages):
            yield batch_row(position, header, is_right)

    found.rows = rows()
    return found


Decoder = Callable[[Record], Row]


def _record_rows(path: Path, damages: list[Damage], decode: Decoder) -> Iterator[Row]:
    from ottla.operations.log_text import control_words

    buffer = map_for_reading(path)
    for position, header, is_right in batches(path, buffer, damages):
        if not is_right:
            continue
        try:
            found = read_batch(buffer, position, header, verify=False)
        except (KafkaError, ValueError) as error:
            damages.append(
                Damage(str(path), f"byte {position} (offset {header.base_offset})", str(error).rstrip("."))
            )
            continue
        for record in found:
            row: Row = {"offset": record.offset, "time": record.timestamp, "batch": header.base_offset}
            if header.is_control:
                words = control_words(record).strip()
                yield {**row, "key": None, "value": words, "control": words}
            else:
                yield {**row, **decode(record)}


def decoder_of(path: Path, key: Kind = TEXT, value: Kind = TEXT) -> Decoder:
    """The decoder for the records of a log: schemas for internal topics, the chosen formats for others."""
    from ottla.operations import decoders

    directory = path.resolve().parent.name
    by_topic: dict[str, Callable[[], decoders.Decoder]] = {
        "__consumer_offsets": decoders.offsets,
        "__transaction_state": decoders.transaction_log,
        "__share_group_state": decoders.share_group_state,
        "__cluster_metadata": decoders.cluster_metadata,
    }
    topic = directory.rpartition("-")[0]
    if path.suffix == ".checkpoint":
        topic = "__cluster_metadata"
    if topic not in by_topic:
        return lambda record: _plain_row(record, key, value)
    internal = by_topic[topic]()

    def decode(record: Record) -> Row:
        try:
            words = internal(record)
        except (decoders.DecodeError, MalformedMessage) as error:
            return {"key": None, "value": f"cannot be read: {error}"}
        return {"key": _parsed(words[0]), "value": _parsed(words[1])}

    return decode


def _parsed(words: str | None) -> Any:
    try:
        return None if words is None else json.loads(words)
    except ValueError:
        return words


def _plain_row(record: Record, key: Kind, value: Kind) -> Row:
    row: Row = {}
    for name, data, kind in (("key", record.key, key), ("value", record.value, value)):
        try:
            row[name] = None if data is None else kind.to_json(data)
        except BadValue:
            row[name] = to_base64(data or b"")
            row[f"{name}_is_base64"] = True
    row["headers"] = [
        [name, None if content is None else content.decode(errors="backslashreplace")]
        for name, content in record.headers
    ]
    return row


# Indexes


def base_offset_of(path: Path) -> int:
    stem = path.name.partition(".")[0]
    if not stem.isdecimal():
        raise UnknownFile(f"{path} is not named after an offset, as log files are.")
    return int(stem)


def index_entries(path: Path) -> Iterator[tuple[int, int]]:
    """(offset, position) of each entry, without the preallocated rest."""
    size = path.stat().st_size
    index = OffsetIndex(HostDisk(), str(path), base_offset_of(path), size, size)
    for number in range(index.count):
        entry = index.entry(number)
        if number and entry[0] == index.base_offset:
            return
        yield entry


def time_entries(path: Path) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of each entry, without the preallocated rest."""
    size = path.stat().st_size
    index = TimeIndex(HostDisk(), str(path), base_offset_of(path), size, size)
    for number in range(index.count):
        entry = index.entry(number)
        if number and entry[1] == index.base_offset:
            return
        yield entry


def _index(path: Path) -> Contents:
    found = Contents("offset index", ("offset", "position"), iter(()))

    def rows() -> Iterator[Row]:
        _check_whole(path, OffsetIndex.ENTRY_BYTES, found.damages)
        previous = (-1, -1)
        for offset, position in index_entries(path):
            yield {"offset": offset, "position": position}
            if offset <= previous[0] or position <= previous[1]:
                _note(
                    found,
                    path,
                    f"offset {offset}",
                    f"it is not greater than the previous offset, {previous[0]}",
                )
            previous = offset, position

    found.rows = rows()
    return found


def _time_index(path: Path) -> Contents:
    found = Contents("time index", ("time", "offset"), iter(()))

    def rows() -> Iterator[Row]:
        _check_whole(path, TimeIndex.ENTRY_BYTES, found.damages)
        previous = -1
        for timestamp, offset in time_entries(path):
            yield {"time": timestamp, "offset": offset}
            if timestamp <= previous:
                _note(
                    found,
                    path,
                    f"offset {offset}",
                    f"its timestamp {timestamp} is not greater than the previous one, {previous}",
                )
            previous = timestamp

    found.rows = rows()
    return found


def _check_whole(path: Path, entry_bytes: int, damages: list[Damage]) -> None:
    size = path.stat().st_size
    if size % entry_bytes:
        place = f"byte {size - size % entry_bytes}"
        damages.append(Damage(str(path), place, f"its {size} bytes are not a multiple of {entry_bytes}"))


def _aborted(path: Path) -> Contents:
    columns = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    found = Contents("aborted transaction index", columns, iter(()))

    def rows() -> Iterator[Row]:
        data = path.read_bytes()
        for entry in decode_aborted(data):
            yield entry._asdict()
        problem = aborted_problem(data, base_offset_of(path))
        if problem is not None:
            place = f"byte {len(data) - len(data) % ENTRY_BYTES}" if len(data) % ENTRY_BYTES else ""
            _note(found, path, place, problem)

    found.rows = rows()
    return found


def _producers(path: Path) -> Contents:
    columns = ("producer_id", "epoch", "last_sequence", "last_offset", "transaction_from")
    found = Contents("producer state snapshot", columns, iter(()), ("coordinator_epoch", "time"))

    def rows() -> Iterator[Row]:
        try:
            entries = decode_snapshot(path.read_bytes())
        except ValueError as error:
            _note(found, path, "", str(error))
            return
        for entry in entries:
            yield {
                "producer_id": entry.producer_id,
                "epoch": entry.epoch,
                "first_sequence": entry.first_sequence,
                "last_sequence": entry.last_sequence,
                "last_offset": entry.last_offset,
                "transaction_from": entry.transaction_first_offset,
                "coordinator_epoch": entry.coordinator_epoch,
                "time": entry.last_timestamp,
            }

    found.rows = rows()
    return found


# Small files


def _small(
    kind: str, columns: tuple[str, ...], read: Callable[[Path], list[Row]]
) -> Callable[[Path], Contents]:
    """A reader for a small file, whose errors already name the file and the position."""

    def contents(path: Path) -> Contents:
        found = Contents(kind, columns, iter(()))

        def rows() -> Iterator[Row]:
            try:
                yield from read(path)
            except (ValueError, properties.DirectoryError) as error:
                _note(found, path, "", _without_path(str(error), path))

        found.rows = rows()
        return found

    return contents


def _without_path(cause: str, path: Path) -> str:
    return cause.removeprefix(f"{path} is damaged").removeprefix(str(path)).lstrip(" :,").rstrip(".")


def _offsets(path: Path) -> list[Row]:
    found = checkpoints.read(HostDisk(), str(path))
    return [{"topic": topic, "partition": at, "offset": offset} for (topic, at), offset in found.items()]


def _epochs(path: Path) -> list[Row]:
    return [entry._asdict() for entry in EpochCache.from_text(path.read_text()).entries]


def _election(path: Path) -> list[Row]:
    content = path.read_bytes()
    state = election_state.from_json(content, str(path))
    voted = state.voted
    return [
        {
            "epoch": state.epoch,
            "leader_id": None if state.leader_id == election_state.NOBODY else state.leader_id,
            "voted_for": None if voted is None else voted.id,
            "version": json.loads(content).get("data_version"),
        }
    ]


def _meta(path: Path) -> list[Row]:
    meta = properties.parse_meta(path.read_text(), str(path))
    directory = None if meta.directory_id is None else uuid.to_text(meta.directory_id)
    row = {"cluster_id": meta.cluster_id, "node_id": meta.node_id, "directory_id": directory}
    return [{**row, "version": meta.version}]


def _topic_id(path: Path) -> list[Row]:
    return [{"topic_id": uuid.to_text(properties.parse_partition_metadata(path.read_text(), str(path)))}]


def _shutdown(path: Path) -> list[Row]:
    return [{"broker_epoch": properties.parse_clean_shutdown(path.read_bytes())}]


def _note(found: Contents, path: Path, place: str, cause: str) -> None:
    found.damages.append(Damage(str(path), place, cause))


_BY_SUFFIX: dict[str, Callable[[Path], Contents]] = {
    ".index": _index,
    ".timeindex": _time_index,
    ".txnindex": _aborted,
    ".snapshot": _producers,
}
_BY_NAME: dict[str, Callable[[Path], Contents]] = {
    **{name: _small("checkpoint", ("topic", "partition", "offset"), _offsets) for name in CHECKPOINTS},
    CHECKPOINT_NAME: _small("leader epochs", ("epoch", "start_offset"), _epochs),
    election_state.FILE_NAME: _small("election", ("epoch", "leader_id", "voted_for", "version"), _election),
    properties.META_PROPERTIES: _small(
        "directory", ("cluster_id", "node_id", "directory_id", "version"), _meta
    ),
    properties.PARTITION_METADATA: _small("partition", ("topic_id",), _topic_id),
    properties.CLEAN_SHUTDOWN: _small("clean shutdown marker", ("broker_epoch",), _shutdown),
}


def is_known(path: Path) -> bool:
    """Whether this module can read the file."""
    return path.name in _BY_NAME or path.suffix in (".log", ".checkpoint", *_BY_SUFFIX)
