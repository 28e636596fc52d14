"""Avro for keys and values, with the package fastavro: `pip install 'ottla[avro]'`.

With a `schema_id` the bytes have the framing of a schema registry: a zero, the id in four bytes, then the
value. Without one they contain only the value. A reader looks up the writer's schema by its id in `schemas`;
its own schema is the target, and Avro's resolution rules convert between them.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ottla.client.errors import ConfigError, SerializationError

Schema: TypeAlias = str | Mapping[str, Any] | Sequence[Any]
Schemas: TypeAlias = Mapping[int, Schema] | Callable[[int], Schema]

_FRAME = struct.Struct(">bI")


class Avro:
    """Serializer and deserializer of values of one schema: dicts for records, and so on.

    `schemas` is a mapping, or a callable, from a schema id to its schema: the content of a schema registry.
    """

    def __init__(
        self, schema: Schema, *, schema_id: int | None = None, schemas: Schemas | None = None
    ) -> None:
        try:
            import fastavro
        except ImportError:
            raise ConfigError("Avro needs the package fastavro: pip install 'ottla[avro]'.") from None
        self._avro = fastavro
        self._schema = self._parsed(schema)
        self._id = schema_id
        self._schemas = schemas
        self._written: dict[int, Any] = {} if schema_id is None else {schema_id: self._schema}

    def serialize(self, topic: str, value: Any, /) -> bytes:
        buffer = io.BytesIO()
        if self._id is not None:
            buffer.write(_FRAME.pack(0, self._id))
        try:
            self._avro.schemaless_writer(buffer, self._schema, value)
        except Exception as error:
            raise SerializationError(
                f"A value for {topic} does not fit its Avro schema: {error!r}"
            ) from error
        return buffer.getvalue()

    def deserialize(self, topic: str, data: bytes, headers: Sequence[tuple[str, bytes | None]], /) -> Any:
        written, start = self._schema, 0
        if self._id is not None or self._schemas is not None:
            written, start = self._writers(topic, data), _FRAME.size
        buffer = io.BytesIO(data)
        buffer.seek(start)
        try:
            found = self._avro.schemaless_reader(buffer, written, self._schema)
        except Exception as error:
            raise SerializationError(f"Bytes of {topic} do not match their Avro schema: {error!r}") from error
        if buffer.tell() != len(data):
            raise SerializationError(f"Bytes of {topic} continue after the end of the Avro value.")
        return found

    def _writers(self, topic: str, data: bytes) -> Any:
        """The schema with the id in the frame of a value."""
        if len(data) < _FRAME.size or data[0] != 0:
            raise SerializationError(f"Bytes of {topic} do not begin with a schema id.")
        number = _FRAME.unpack_from(data)[1]
        if number not in self._written:
            self._written[number] = self._parsed(self._looked_up(topic, number))
        return self._written[number]

    def _looked_up(self, topic: str, number: int) -> Schema:
        try:
            if callable(self._schemas):
                return self._schemas(number)
            return (self._schemas or {})[number]
        except Exception as error:
            raise SerializationError(
                f"Schema {number} of a value of {topic} was not found: {error!r}"
            ) from error

    def _parsed(self, schema: Schema) -> Any:
        try:
            plain: Any = json.loads(schema) if isinstance(schema, str) and schema[:1] in '{["' else schema
            return self._avro.parse_schema(plain)
        except Exception as error:
            raise ConfigError(f"Invalid Avro schema: {error!r}") from error
