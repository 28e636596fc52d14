"""Control records: transaction markers, and the control records of a Raft quorum in its log.

A control batch has the control bit set; the key of its records is (version, type), two bytes each. Clients
never write one. In a newer version the known fields are read; an unknown type is UNKNOWN, not an error.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

from ottla.ports import Buffer
from ottla.records.batch import NO_LEADER_EPOCH
from ottla.records.record import Record, build_batch
from ottla.wire.errors import InvalidRecord

_KEY = Struct(">hh")
_END_TXN_MARKER = Struct(">hi")
_PLAIN_MARKER = Struct(">5bhhbhib")  # a complete record: sizes, attributes, deltas, key, value
_PLAIN_BEFORE_KEY = (32, 0, 0, 0, 8)
_PLAIN_BEFORE_VALUE = 12
PLAIN_MARKER_BYTES = _PLAIN_MARKER.size


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


def control_type(key: Buffer | None) -> ControlType:
    """The type in the key of a control record."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(f"The key of a control record must have at least {_KEY.size} bytes.")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"Invalid version {version} of a control record: the data may be corrupt.")
    if number in ControlType.__members__.values():
        return ControlType(number)
    return ControlType.UNKNOWN


def coordinator_epoch(value: Buffer | None) -> int:
    """The epoch of the transaction coordinator that wrote an ABORT or COMMIT marker."""
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise InvalidRecord(
            f"The value of a transaction marker must have at least {_END_TXN_MARKER.size} bytes."
        )
    version, epoch = _END_TXN_MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"Invalid version {version} of a transaction marker: the data may be corrupt.")
    return int(epoch)


def plain_end_txn_marker(records: Buffer, position: int) -> tuple[bool, int] | None:
    """(commit?, coordinator epoch) of a marker in the encoding that brokers write.

    None if it is another type or another encoding, which `read_batch` must decode. `PLAIN_MARKER_BYTES` bytes
    must be present.
    """
    *before_key, version, kind, before_value, value_version, epoch, headers = _PLAIN_MARKER.unpack_from(
        records, position
    )
    if (
        tuple(before_key) != _PLAIN_BEFORE_KEY
        or (version, before_value, value_version, headers) != (0, _PLAIN_BEFORE_VALUE, 0, 0)
        or not 0 <= kind <= 1
    ):
        return None
    return kind == ControlType.COMMIT, epoch


def control_batch(
    entries: list[tuple[ControlType, Buffer]],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of quorum records: each a type and its message, encoded without a leading version."""
    records = [
        Record(0, timestamp, _KEY.pack(0, control_kind), bytes(message)) for control_kind, message in entries
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, control=True)


def end_txn_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a producer's transaction in one partition."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    value = _END_TXN_MARKER.pack(0, coordinator_epoch)
    return build_batch(
        [Record(0, timestamp, _KEY.pack(0, kind), value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
