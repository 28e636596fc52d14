"""The requests of a sweep: for each array in the schema of a version, one with that array as long as can be.

In a repetitive request all elements are the same and name what the node has most of; in a wide one each names
something else, of which the node has some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ottla.records.record import Record, build_batch
from ottla.wire import codec
from ottla.wire.apis import API_BY_KEY
from ottla.wire.message import Message
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.schema import Field
from tests.fuzz.grammar import _NAME_OF_STRUCT, _TEXT_OF_FIELD

WIDE_TOPIC = "wide"
PARTITIONS = 2_000
TOPIC_COUNT = 300
GROUP_COUNT = 2_000
OFFSETS_GROUP = "offsets"
FULL_GROUP = "full"
DOOMED_TOPIC = "doomed"
DELETING = (20,)
SLOW_PATTERN = "(a?){1000}" * 4

Path = tuple[str, ...]

_BATCH = bytes(build_batch([Record(0, 1, None, b"value")]))
_TEXTS: dict[str, tuple[str, str]] = {
    "topic": (WIDE_TOPIC, "topic-{}"),
    "group": (FULL_GROUP, "group-{}"),
    "member": ("", ""),
    "instance": ("instance", "instance-{}"),
    "transaction": ("txn-0", "txn-{}"),
    "protocol_type": ("consumer", "consumer"),
    "protocol": ("range", "range-{}"),
    "config": ("retention.ms", "config.{}"),
    "config_value": ("1000000", "1000000"),
    "resource": (WIDE_TOPIC, "topic-{}"),
    "principal": ("User:ann", "User:{}"),
    "entity_type": ("user", "user"),
    "entity_name": ("ann", "user-{}"),
    "quota": ("producer_byte_rate", "producer_byte_rate"),
    "feature": ("group.version", "feature-{}"),
    "state": ("Ongoing", "state-{}"),
    "path": ("/data", "/data-{}"),
    "regex": ("a.*", "a.*"),
}
_NUMBERS: dict[str, int] = {
    "resource_type": 2,
    "timeout_ms": 30_000,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "transaction_timeout_ms": 30_000,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "replica_id": -1,
    "timestamp": -1,
    "member_epoch": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "current_leader_epoch": -1,
    "acks": 1,
    "replication_factor": 1,
    "num_partitions": 1,
    "response_partition_limit": PARTITIONS,
    "session_epoch": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "duration_filter": -1,
    "key_type": 0,
    "match_type": 2,
    "retention_time_ms": -1,
}
_PARTITION_FIELDS = {
    "partition",
    "partition_index",
    "index",
    "partition_indexes",
    "partitions",
    "partition_id",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """One request of a sweep."""

    key: int
    version: int
    path: Path
    is_wide: bool
    count: int

    @property
    def name(self) -> str:
        return f"{self.count:,} {'different' if self.is_wide else 'equal'} {'.'.join(self.path) or 'nothing'}"

    def request(self, topic_id: bytes) -> Message:
        message: Message = _Maker(self, topic_id).struct(API_BY_KEY[self.key].request_class(), None, (), 0)
        return message


def shapes(key: int, version: int, count: int) -> Iterator[Shape]:
    """All requests for one version of an API; one without arrays where it has none."""
    paths = list(_array_paths(API_BY_KEY[key].request_class(), version, None, ()))
    for path in paths or [()]:
        for is_wide in (False, True) if path else (False,):
            yield Shape(key, version, path, is_wide, count)


def _array_paths(cls: type[Message], version: int, struct: str | None, before: Path) -> Iterator[Path]:
    for field in _fields(cls, struct):
        if version not in field.versions:
            continue
        path = (*before, field.name)
        if field.is_array:
            yield path
        if field.is_struct and len(path) < 4:
            yield from _array_paths(cls, version, field.type, path)


def _fields(cls: type[Message], struct: str | None) -> tuple[Field, ...]:
    schema = codec.schema(cls)
    return schema.fields if struct is None else schema.structs[struct].fields


class _Maker:
    def __init__(self, shape: Shape, topic_id: bytes) -> None:
        self._shape = shape
        self._topic_id = topic_id

    def struct(self, cls: Any, struct: str | None, path: Path, index: int) -> Any:
        outer = API_BY_KEY[self._shape.key].request_class()
        message = (cls if struct is None else getattr(outer, struct))()
        for field in _fields(outer, struct):
            if self._shape.version in field.versions:
                setattr(
                    message, field.name, self._value(cls, field, (*path, field.name), struct or "", index)
                )
        return message

    def _value(self, cls: Any, field: Field, path: Path, struct: str, index: int) -> Any:
        if not field.is_array:
            return self._one(cls, field, path, struct, index)
        if path != self._shape.path:
            is_on_the_way = path == self._shape.path[: len(path)]
            if field.is_nullable(self._shape.version) and not is_on_the_way:
                return None  # everything that there is: the largest answer
            return [self._one(cls, field, path, struct, index)]
        if not self._shape.is_wide:
            return [self._one(cls, field, path, struct, 0)] * self._shape.count
        return [self._one(cls, field, path, struct, one) for one in range(self._shape.count)]

    def _one(self, cls: Any, field: Field, path: Path, struct: str, index: int) -> Any:
        if field.is_struct:
            return self.struct(cls, field.type, path, index)
        if field.type == "string":
            return self._text(field, struct, index)
        if field.type == "records":
            return memoryview(_BATCH)
        if field.type == "uuid":
            return self._topic_id if field.name == "topic_id" and not index else index.to_bytes(16, "big")
        if field.type == "bytes":
            return _bytes_of(field)
        if field.type == "bool":
            return field.name in ("include_synonyms", "include_documentation", "validate_only")
        if field.type == "float64":
            return 1.0
        if field.name in _PARTITION_FIELDS:
            return index % (2 * PARTITIONS)
        value = _NUMBERS.get(field.name, 0)
        if field.is_array and self._shape.is_wide:
            value = index
        return (
            min(value, 127)
            if field.type == "int8"
            else min(value, 32_767)
            if field.type == "int16"
            else value
        )

    def _text(self, field: Field, struct: str, index: int) -> str:
        key = self._shape.key
        kind = _TEXT_OF_FIELD.get(field.name) or (
            _NAME_OF_STRUCT.get(struct, "topic") if field.name == "name" else ""
        )
        if field.name == "key" and struct == "OpData":
            kind = "quota"
        if field.name == "transactional_id_pattern":
            return SLOW_PATTERN
        same, other = _TEXTS.get(kind, ("text", "text-{}"))
        if kind == "group" and key in (8, 9, 28, 47):
            same = OFFSETS_GROUP
        if kind == "topic" and key in DELETING:
            same, other = DOOMED_TOPIC, "missing-{}"
        if kind == "transaction" and key not in (65, 66):
            same = "txn-new"
        return other.format(index) if self._shape.is_wide and index else same


def _bytes_of(field: Field) -> bytes:
    if field.name in ("metadata", "protocol_metadata"):
        return (0).to_bytes(2, "big") + codec.encode(ConsumerProtocolSubscription(topics=[WIDE_TOPIC]), 0)
    if field.name == "assignment":
        return (0).to_bytes(2, "big") + codec.encode(ConsumerProtocolAssignment(), 0)
    return b""
