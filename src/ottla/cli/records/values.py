"""Formats of keys and values: text, hex, base64, JSON, Java's numbers, and Avro.

A kind converts bytes to printed text and to JSON values, and back from either. Rule: decoding and encoding
with the same kind gives the same bytes (for JSON and Avro: the same value); invalid input is a BadValue.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ottla.client.serialization.avro import Avro

Json: TypeAlias = Any
"""A JSON value."""

NAMES = (
    "text",
    "hex",
    "base64",
    "json",
    "short",
    "int",
    "long",
    "float",
    "double",
    "boolean",
    "avro",
)
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class BadValue(ValueError):
    """A key or value that is not of its kind; the message has no full stop."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One format of bytes."""

    name: str
    shown: Callable[[bytes], bytes]
    """The form that %s and %k print."""
    to_json: Callable[[bytes], Json]
    from_json: Callable[[Json], bytes]
    from_text: Callable[[bytes], bytes]
    """The bytes of a line of input, or of a part of it."""

    @property
    def is_text(self) -> bool:
        return self.name == "text"


def kind_of(name: str, avro: Avro | None = None) -> Kind:
    """The kind of this name; `avro` knows the schemas."""
    if name == "text":
        return TEXT
    if name == "hex":
        return _by_text("hex", bytes.hex, _from_hex)
    if name == "base64":
        return _by_text("base64", to_base64, from_base64)
    if name == "json":
        return _by_value("json", _json, dumps)
    if name == "avro":
        if avro is None:
            raise BadValue("avro needs --registry URL, or the schema in a file: --value-schema FILE")
        return _by_value(
            "avro", lambda data: _avro_json(_read_avro(avro, data)), lambda value: _write_avro(avro, value)
        )
    if name in NAMES:
        return _number(name)
    raise BadValue(f"{name} is not a format. Use one of {', '.join(NAMES)}")


def dumps(value: Json) -> bytes:
    """Compact JSON in UTF-8, on one line."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise BadValue(f"cannot be encoded as JSON: {error}") from error


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadValue(f"{text!r:.60} is not base64") from error


def _identity(data: bytes) -> bytes:
    return data


def _text_json(data: bytes) -> Json:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadValue("not valid UTF-8") from error


def _json_text(value: Json) -> bytes:
    """Strings as they are, other values as JSON."""
    if not isinstance(value, str):
        return dumps(value)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise BadValue("the text contains an unpaired surrogate, which UTF-8 cannot encode") from error


TEXT = Kind("text", _identity, _text_json, _json_text, _identity)


def _by_text(name: str, to_text: Callable[[bytes], str], from_text: Callable[[str], bytes]) -> Kind:
    """A kind whose JSON form is a string."""

    def from_json(value: Json) -> bytes:
        if not isinstance(value, str):
            raise BadValue(f"{value!r:.60} should be a {name} string")
        return from_text(value)

    def from_line(line: bytes) -> bytes:
        try:
            return from_text(line.decode())
        except UnicodeDecodeError as error:
            raise BadValue(f"expected a {name} string") from error

    return Kind(name, lambda data: to_text(data).encode(), to_text, from_json, from_line)


def _by_value(name: str, read: Callable[[bytes], Json], write: Callable[[Json], bytes]) -> Kind:
    """A kind whose text form is JSON."""
    return Kind(name, lambda data: dumps(read(data)), read, write, lambda line: write(_json(line)))


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise BadValue(f"{text!r:.60} is not hexadecimal") from error


def _json(data: bytes) -> Json:
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"not valid JSON: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _number(name: str) -> Kind:
    from ottla.client.errors import SerializationError
    from ottla.client.serialization.serializers import deserializer_of, serializer_of

    serialize, deserialize = serializer_of(name), deserializer_of(name)
    assert serialize is not None
    assert deserialize is not None

    def read(data: bytes) -> Json:
        try:
            found = deserialize("", data, ())
        except SerializationError:
            raise BadValue(f"{len(data)} bytes are not a valid {name}") from None
        if isinstance(found, float) and not math.isfinite(found):
            return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
        return found

    def write(value: Json) -> bytes:
        if value in _NOT_FINITE and name in ("float", "double"):
            value = float(value)
        try:
            made = serialize("", value)
        except SerializationError:
            raise BadValue(f"{value!r:.60} is not a valid {name}") from None
        assert made is not None
        return made

    def from_line(line: bytes) -> bytes:
        text = line.decode(errors="replace").strip()
        return write(text if text in _NOT_FINITE else _json(text.encode()))

    return Kind(name, lambda data: _plain(read(data)), read, write, from_line)


def _plain(value: Json) -> bytes:
    return value.encode() if isinstance(value, str) else dumps(value)


# Avro


def avro_of(schema_file: str | None, registry: str | None) -> Avro | None:
    """Avro with schemas from a file, a registry, or both; None if neither is given."""
    if schema_file is None and registry is None:
        return None
    from ottla.client.serialization.avro import Avro

    if schema_file is not None:
        with open(schema_file, encoding="utf-8") as file:
            schema: Any = file.read()
        return Avro(schema, schemas=None if registry is None else _Registry(registry))
    assert registry is not None
    return _by_writers(_Registry(registry))


class _Registry:
    """Schemas by id, fetched from a schema registry once each."""

    _SECONDS = 10.0
    _BYTES_MAX = 10_000_000

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadValue(f"--registry {url} is not a URL: it must begin with http:// or https://")
        self._url = url.rstrip("/")

    def __call__(self, number: int) -> Any:
        from urllib.request import urlopen

        with urlopen(f"{self._url}/schemas/ids/{number}", timeout=self._SECONDS) as answer:
            found = json.loads(answer.read(self._BYTES_MAX))
        return json.loads(found["schema"])


def _by_writers(registry: _Registry) -> Avro:
    """Avro that decodes each value with its writer's schema."""
    from ottla.client.serialization.avro import Avro

    class ByWriter(Avro):
        def __init__(self) -> None:
            super().__init__("null", schemas=registry)

        def deserialize(self, topic: str, data: bytes, headers: Any, /) -> Any:
            self._schema = self._writers(topic, data)
            return super().deserialize(topic, data, headers)

    return ByWriter()


def _read_avro(avro: Avro, data: bytes) -> Any:
    from ottla.client.errors import SerializationError

    try:
        return avro.deserialize("it", data, ())
    except SerializationError as error:
        raise BadValue(str(error).rstrip(".")) from error


def _write_avro(avro: Avro, value: Json) -> bytes:
    from ottla.client.errors import SerializationError

    try:
        return avro.serialize("it", value)
    except SerializationError as error:
        raise BadValue(str(error).rstrip(".")) from error


def _avro_json(value: Any) -> Json:
    """Avro values without a JSON equivalent, as strings."""
    if isinstance(value, dict):
        return {name: _avro_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_avro_json(part) for part in value]
    if isinstance(value, bytes):
        return to_base64(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
