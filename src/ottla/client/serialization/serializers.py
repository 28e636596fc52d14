"""Keys and values to bytes, and back: text, numbers in Java's formats, UUIDs, JSON, Python classes.

A serializer has `serialize(topic, value)`, a deserializer `deserialize(topic, data, headers)`; a plain
callable that takes the value, or the bytes, works too. None is never passed to them: it stays None, a
tombstone.

Rule: a value that does not fit raises SerializationError; nothing is truncated or replaced.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

from ottla.client.errors import ConfigError, SerializationError

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Serialize: TypeAlias = Callable[[str, Any], bytes | None]
Deserialize: TypeAlias = Callable[[str, bytes, Headers], Any]


class Serializer(Protocol[T_contra]):
    """Turns values into bytes."""

    def serialize(self, topic: str, value: T_contra, /) -> bytes | None: ...


class Deserializer(Protocol[T_co]):
    """Turns bytes into values."""

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T_co: ...


class Text:
    """str, in UTF-8 by default."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: str, /) -> bytes:
        if not isinstance(value, str):
            raise _wrong(topic, value, "a str")
        try:
            return value.encode(self._encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(
                f"Cannot encode a string for {topic} as {self._encoding}: {error}."
            ) from error

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> str:
        try:
            return data.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise SerializationError(
                f"Bytes of {topic} are not text in {self._encoding}: {error}."
            ) from error


class Raw:
    """bytes, unchanged."""

    def serialize(self, topic: str, value: bytes | bytearray | memoryview, /) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _wrong(topic, value, "bytes")
        return bytes(value)

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> bytes:
        return data


class Number(Generic[T]):
    """A number in the big-endian format of a Java type: `format` is its letter in struct."""

    def __init__(self, name: str, format: str, kind: type[T]) -> None:
        self._name = name
        self._struct = struct.Struct(f">{format}")
        self._kind = kind

    def serialize(self, topic: str, value: T, /) -> bytes:
        is_number = isinstance(value, self._kind) or (self._kind is float and isinstance(value, int))
        if not is_number or (isinstance(value, bool) and self._kind is not bool):
            raise _wrong(topic, value, f"a {self._kind.__name__}")
        try:
            return self._struct.pack(value)
        except (struct.error, OverflowError) as error:
            raise SerializationError(
                f"{value!r} for {topic} does not fit into a Java {self._name}."
            ) from error

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T:
        if len(data) != self._struct.size:
            raise SerializationError(
                f"A {self._name} has {self._struct.size} bytes, but a value of {topic} has {len(data)}."
            )
        found: T = self._struct.unpack(data)[0]
        return found


class Uuid:
    """A UUID as text, like Kafka's UUIDSerializer."""

    def serialize(self, topic: str, value: UUID, /) -> bytes:
        if not isinstance(value, UUID):
            raise _wrong(topic, value, "a uuid.UUID")
        return str(value).encode()

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> UUID:
        try:
            return UUID(data.decode("ascii"))
        except ValueError as error:
            raise SerializationError(f"Bytes of {topic} are not a UUID.") from error


class Json:
    """JSON values: dict, list, str, int, float, bool, None."""

    def serialize(self, topic: str, value: Any, /) -> bytes:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode()
        except (TypeError, ValueError) as error:
            raise SerializationError(f"Cannot write a value for {topic} as JSON: {error}.") from error

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> Any:
        try:
            return json.loads(data)
        except ValueError as error:
            raise SerializationError(f"Bytes of {topic} are not JSON: {error}.") from error


class Model(Generic[T]):
    """Objects of a class as JSON: a dataclass, a pydantic model, or a msgspec Struct."""

    def __init__(self, kind: type[T]) -> None:
        if not is_model(kind):
            raise ConfigError(f"{kind.__name__} is not a dataclass, pydantic model or msgspec Struct.")
        self._kind = kind
        self._encode, self._decode = _model_ways(kind)

    def serialize(self, topic: str, value: T, /) -> bytes:
        if not isinstance(value, self._kind):
            raise _wrong(topic, value, f"a {self._kind.__name__}")
        try:
            return self._encode(value)
        except (TypeError, ValueError) as error:
            raise SerializationError(
                f"Cannot write a {self._kind.__name__} for {topic} as JSON: {error}"
            ) from error

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T:
        try:
            found: T = self._decode(data)
        except (TypeError, ValueError) as error:
            raise SerializationError(f"Bytes of {topic} are not a {self._kind.__name__}: {error}") from error
        return found


class Nothing:
    """Only None: any data is an error."""

    def serialize(self, topic: str, value: None, /) -> None:
        raise _wrong(topic, value, "None")

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> None:
        raise SerializationError(f"A void value of {topic} must be empty, but has {len(data)} bytes.")


class Boolean(Number[bool]):
    """One byte: 1 for true and 0 for false."""

    def __init__(self) -> None:
        super().__init__("boolean", "?", bool)

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise SerializationError(f"A boolean of {topic} is not the single byte 0 or 1.")
        return data == b"\x01"


def _wrong(topic: str, value: object, wanted: str) -> SerializationError:
    return SerializationError(f"A value for {topic} must be {wanted}, not a {type(value).__name__}.")


# Models -------------------------------------------------------------------------------------------------


def is_model(kind: object) -> bool:
    """Whether a class is a dataclass, a pydantic model or a msgspec Struct."""
    marks = ("__dataclass_fields__", "model_validate_json", "__struct_fields__")
    return isinstance(kind, type) and any(hasattr(kind, mark) for mark in marks)


def _model_ways(kind: Any) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    if hasattr(kind, "model_validate_json"):
        return lambda value: value.model_dump_json().encode(), kind.model_validate_json
    if hasattr(kind, "__struct_fields__"):
        import msgspec

        encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
        decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
        return encode, decode
    from ottla.client.serialization import models

    return models.to_json, lambda data: models.from_json(kind, data)


# Names --------------------------------------------------------------------------------------------------

_MAKERS: dict[str, Callable[[], Any]] = {
    "string": Text,
    "bytes": Raw,
    "short": lambda: Number("short", "h", int),
    "int": lambda: Number("int", "i", int),
    "long": lambda: Number("long", "q", int),
    "float": lambda: Number("float", "f", float),
    "double": lambda: Number("double", "d", float),
    "boolean": Boolean,
    "uuid": Uuid,
    "json": Json,
    "void": Nothing,
}
_PYTHON_TYPES: dict[Any, str] = {
    str: "string",
    bytes: "bytes",
    int: "long",
    float: "double",
    bool: "boolean",
    UUID: "uuid",
    dict: "json",
    list: "json",
}
_JAVA_NAMES = {
    "String": "string",
    "ByteArray": "bytes",
    "ByteBuffer": "bytes",
    "Bytes": "bytes",
    "Short": "short",
    "Integer": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Boolean": "boolean",
    "UUID": "uuid",
    "Void": "void",
}
_JAVA_PACKAGE = "org.apache.kafka.common.serialization."


def serializer_of(setting: Any, name: str = "value.serializer") -> Serialize | None:
    """The callable `(topic, value) -> bytes` of a setting; None accepts bytes unchanged."""
    if setting is None:
        return None
    made = _made(setting, name, "Serializer")
    if hasattr(made, "serialize"):
        serialize: Serialize = made.serialize
        return serialize
    if not callable(made):
        raise ConfigError(f"{name} must be a Serializer, a callable, or a name such as string or json.")
    return lambda topic, value: made(value)


def deserializer_of(setting: Any, name: str = "value.deserializer") -> Deserialize | None:
    """The callable `(topic, bytes, headers) -> value` of a setting; None returns the bytes."""
    if setting is None:
        return None
    made = _made(setting, name, "Deserializer")
    if isinstance(made, Raw):
        return None
    if hasattr(made, "deserialize"):
        deserialize: Deserialize = made.deserialize
        return deserialize
    if not callable(made):
        raise ConfigError(f"{name} must be a Deserializer, a callable, or a name such as string or json.")
    return lambda topic, data, headers: made(data)


def _made(setting: Any, name: str, role: str) -> Any:
    if isinstance(setting, str):
        return _MAKERS[_short_name(setting, name, role)]()
    if isinstance(setting, type):
        if setting in _PYTHON_TYPES:
            return _MAKERS[_PYTHON_TYPES[setting]]()
        if is_model(setting):
            return Model(setting)
        if hasattr(setting, role.removesuffix("r").lower()):
            return setting()
    return setting


def _short_name(setting: str, name: str, role: str) -> str:
    if setting in _MAKERS:
        return setting
    kind = setting.removeprefix(_JAVA_PACKAGE).removesuffix(role)
    if setting.startswith(_JAVA_PACKAGE) and setting.endswith(role) and kind in _JAVA_NAMES:
        return _JAVA_NAMES[kind]
    from ottla.config.similar_names import nearest

    near = nearest(setting, _MAKERS)
    hint = f" Did you mean {near}?" if near else ""
    raise ConfigError(
        f"Unknown {name}={setting}. Use one of {', '.join(_MAKERS)}, a Python class or a callable.{hint}"
    )
