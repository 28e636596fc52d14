"""Rows for databases: the SQL type of each Spark type, and conversion of frames.

Rule: executors convert types that the database lacks (arrays, structs, maps) to JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.spark.tables.marker import TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

POSTGRES = {
    "boolean": "BOOLEAN",
    "byte": "SMALLINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "string": "TEXT",
    "binary": "BYTEA",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "struct": "JSONB",
    "array": "JSONB",
    "map": "JSONB",
}
SQLITE = {
    **dict.fromkeys(("boolean", "byte", "short", "integer", "long"), "INTEGER"),
    **dict.fromkeys(("float", "double"), "REAL"),
    "binary": "BLOB",
}
_NESTED = ("struct", "array", "map")


def quoted(name: str) -> str:
    """Quote an identifier; a dot separates the schema from the table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sql_type(data_type: DataType, types: dict[str, str]) -> str:
    """The SQL type of a column."""
    from pyspark.sql.types import DecimalType

    if isinstance(data_type, DecimalType) and types is POSTGRES:
        return f"NUMERIC({data_type.precision},{data_type.scale})"
    return types.get(data_type.typeName(), "TEXT")


def create_table(table: str, schema: StructType, key: Sequence[str], types: dict[str, str]) -> str:
    """The statement that creates a table for rows of this schema."""
    lines = [f"{column(field.name)} {sql_type(field.dataType, types)}" for field in schema]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(map(column, key))})")
    return f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({', '.join(lines)})"


def check_columns(wanted: Iterable[str], names: Sequence[str], what: str) -> None:
    """Raise TableError for a column that the rows do not have."""
    from ottla.config.similar_names import nearest

    for name in wanted:
        if name not in names:
            near = nearest(name, names)
            hint = f" Did you mean {near!r}?" if near else f" Known columns: {', '.join(names)}."
            raise TableError(f"{what} refers to the unknown column {name!r}.{hint}")


def for_postgres(frame: DataFrame) -> DataFrame:
    """A frame whose CSV form, as Arrow writes it, is valid for COPY."""
    from pyspark.sql import functions as f

    def made(name: str, kind: str) -> Any:
        found = frame[f"`{name}`"]
        if kind in _NESTED:
            return f.to_json(found).alias(name)
        if kind == "binary":
            return f.concat(f.lit("\\x"), f.hex(found)).alias(name)
        if kind == "decimal" or kind not in POSTGRES:
            return found.cast("string").alias(name)
        return found

    return frame.select(*(made(field.name, field.dataType.typeName()) for field in frame.schema))


def for_sqlite(frame: DataFrame) -> DataFrame:
    """A frame of numbers, strings and bytes, the types of SQLite. Times are sortable UTC strings."""
    from pyspark.sql import functions as f

    def made(name: str, kind: str) -> Any:
        found = frame[f"`{name}`"]
        if kind in _NESTED:
            return f.to_json(found).alias(name)
        if kind == "timestamp":
            utc = f.to_utc_timestamp(found, f.current_timezone())
            return f.date_format(utc, "yyyy-MM-dd HH:mm:ss.SSSSSS").alias(name)
        if kind == "boolean":
            return found.cast("int").alias(name)
        return found if kind in SQLITE else found.cast("string").alias(name)

    return frame.select(*(made(field.name, field.dataType.typeName()) for field in frame.schema))
