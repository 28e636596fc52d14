"""Avro for the source: the Spark type of a schema, and rows decoded by the client's decoder.

`avro` values have the frame of a schema registry: a zero byte, the schema id, the value. With the option
schemaRegistry the writer's schema is looked up by that id; without it every value is decoded with the given
schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.spark.options import OptionError
from ottla.spark.settings import Decoding, ReadSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

_TIMEOUT_SECONDS = 30.0
_written: dict[tuple[str, str], Any] = {}


def wanted_schema(decoding: Decoding, settings: ReadSettings, which: str) -> Any:
    """The reader's schema: the one in the options, or the registry's latest for the topic."""
    if decoding.schema is not None:
        try:
            return plain(json.loads(decoding.schema))
        except ValueError:
            raise OptionError(f"The option {which}Schema is not an Avro schema in JSON.") from None
    topics = settings.selection.topics
    assert settings.registry is not None
    if len(topics) != 1:
        raise OptionError(
            f"Set the option {which}Schema: a registry can provide the schema only for a single topic."
        )
    return plain(_latest(settings.registry, f"{topics[0]}-{which}"))


def plain(schema: Any) -> Any:
    """Drop the logical types that Spark lacks: times of day become numbers, UUIDs become strings."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: plain(value) if name in ("type", "items", "values") else value
        for name, value in schema.items()
        if name != "logicalType" or value not in ("uuid", "time-millis", "time-micros", "duration")
    }
    if isinstance(schema.get("fields"), list):
        made["fields"] = [plain(field) for field in schema["fields"]]
    return made


# Types.


def type_of_avro(schema: Any, names: dict[str, Any] | None = None) -> DataType:
    """The Spark type of an Avro schema; raises OptionError if Spark has none."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    names = {} if names is None else names
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise OptionError(
                f"Spark has no equivalent of an Avro union of several types: {json.dumps(schema)}."
            )
        return type_of_avro(others[0], names)
    if isinstance(schema, str):
        return names[schema] if schema in names else _primitive(schema)
    kind = schema["type"]
    if kind == "record":
        name = schema.get("name", "")
        made = StructType(
            [StructField(field["name"], type_of_avro(field["type"], names)) for field in schema["fields"]]
        )
        names[name] = made
        names[f"{schema.get('namespace', '')}.{name}"] = made
        return made
    if kind == "array":
        return ArrayType(type_of_avro(schema["items"], names))
    if kind == "map":
        return MapType(StringType(), type_of_avro(schema["values"], names))
    if kind in ("enum", "fixed"):
        found = _logical(schema) or _primitive("string" if kind == "enum" else "bytes")
        names[schema.get("name", "")] = found
        return found
    if isinstance(kind, str):
        return _logical(schema) or _primitive(kind)
    return type_of_avro(kind, names)


def _primitive(name: str) -> DataType:
    from pyspark.sql import types

    found = {
        "boolean": types.BooleanType(),
        "int": types.IntegerType(),
        "long": types.LongType(),
        "float": types.FloatType(),
        "double": types.DoubleType(),
        "bytes": types.BinaryType(),
        "string": types.StringType(),
        "null": types.StringType(),
    }.get(name)
    if found is None:
        raise OptionError(f"The Avro type {name} has no equivalent in Spark, or is recursive.")
    return found


def _logical(schema: dict[str, Any]) -> DataType | None:
    from pyspark.sql import types

    match schema.get("logicalType"):
        case "decimal":
            return types.DecimalType(schema["precision"], schema.get("scale", 0))
        case "date":
            return types.DateType()
        case "timestamp-millis" | "timestamp-micros":
            return types.TimestampType()
        case "local-timestamp-millis" | "local-timestamp-micros":
            return types.TimestampNTZType()
    return None


# Rows.


def avro_converter(
    decoding: Decoding, settings: ReadSettings, which: str, kind: pa.DataType
) -> Callable[[pa.Array], pa.Array]:
    """Decode a column row by row, since Python has no columnar Avro decoder."""
    import pyarrow as pa

    from ottla.client.serialization.avro import Avro

    schema = wanted_schema(decoding, settings, which)
    registry = settings.registry
    if decoding.format == "avro-bare":
        reader = Avro(schema)
    elif registry is not None:
        reader = Avro(schema, schemas=lambda number: _of_id(registry, number))
    else:
        reader = Avro(schema, schemas=lambda number: schema)
    name = f"the {which}s"

    def convert(values: pa.Array) -> pa.Array:
        decoded = [
            None if value is None else reader.deserialize(name, value, ()) for value in values.to_pylist()
        ]
        return pa.array(decoded, kind)

    return convert


def _of_id(registry: str, number: int) -> Any:
    return plain(_asked(registry, f"schemas/ids/{number}"))


def _latest(registry: str, subject: str) -> Any:
    from urllib.parse import quote

    return _asked(registry, f"subjects/{quote(subject, safe='')}/versions/latest")


def _asked(registry: str, path: str) -> Any:
    """Fetch a schema from the registry, once per process. The address may contain user:password."""
    import base64
    import urllib.error
    import urllib.request
    from urllib.parse import unquote, urlsplit

    if (registry, path) not in _written:
        parts = urlsplit(registry)
        host = parts.netloc.rpartition("@")[2]
        request = urllib.request.Request(f"{parts.scheme}://{host}{parts.path.rstrip('/')}/{path}")
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(secret).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                found = json.loads(answer.read())
        except (OSError, ValueError) as error:
            raise OptionError(f"The schema registry at {host} did not return {path}: {error}.") from error
        if found.get("schemaType", "AVRO") != "AVRO":
            raise OptionError(
                f"The schema {path} of the registry at {host} is {found['schemaType']}, not Avro."
            )
        _written[registry, path] = json.loads(found["schema"])
    return _written[registry, path]
