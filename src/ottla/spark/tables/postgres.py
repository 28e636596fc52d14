"""PostgreSQL: rows by COPY, and the marker, in one transaction.

    ottla_batches (query, target, checkpoint, batch)     the marker per query and table

With a key, rows pass through a temporary table and are merged by key: the last row of a batch wins, or the
one with the greatest `version`, and an older version never replaces a newer one. Rule: the marker's row is
locked before anything is written, so that of two drivers with the same checkpoint the second sees the first
one's batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark.tables.base import TableSink
from ottla.spark.tables.marker import RELEASED, Marker, TableError, is_done
from ottla.spark.tables.rows import POSTGRES, check_columns, column, create_table, for_postgres, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARKERS = (
    "CREATE TABLE IF NOT EXISTS ottla_batches (query TEXT, target TEXT, checkpoint TEXT NOT NULL, "
    "batch BIGINT NOT NULL, PRIMARY KEY (query, target))"
)
_LOCK = 7_302_011_966_270_301  # an arbitrary number
_ROWS = "ottla_rows"
_ORDER = "ottla_row"
_CHUNK_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTable(TableSink):
    """Writes batches to `table`, which is created if missing. `connection` is a libpq connection string."""

    connection: str
    table: str
    key: tuple[str, ...] = ()
    version: str | None = None

    def write(self, frame: DataFrame, marker: Marker) -> None:
        check_columns(self.key, frame.columns, f"The key of {self.table}")
        check_columns([self.version] if self.version else [], frame.columns, f"The version of {self.table}")
        with self._connect() as connection:
            if self._is_done(connection, marker):
                return
            connection.rollback()  # fetching the rows may take long; hold no lock meanwhile
            rows = for_postgres(frame).toArrow()
            if self._is_done(connection, marker):
                return
            connection.execute(create_table(self.table, frame.schema, self.key, POSTGRES))
            names = [column(name) for name in frame.columns]
            if self.key:
                connection.execute(
                    f"CREATE TEMPORARY TABLE {_ROWS} ON COMMIT DROP AS "
                    f"SELECT {', '.join(names)} FROM {quoted(self.table)} WITH NO DATA"
                )
                connection.execute(f"ALTER TABLE {_ROWS} ADD COLUMN {_ORDER} BIGSERIAL")
                _copy(connection, _ROWS, names, rows)
                connection.execute(self._upsert(names))
            else:
                _copy(connection, quoted(self.table), names, rows)
            connection.execute(
                "UPDATE ottla_batches SET checkpoint = %s, batch = %s WHERE query = %s AND target = %s",
                (marker.checkpoint, marker.batch, self.query, self.table),
            )
            self.observe("written")
            connection.commit()
        self.observe("committed")

    def forget(self) -> None:
        with self._connect() as connection:
            self._prepare(connection)
            connection.execute(
                "UPDATE ottla_batches SET checkpoint = %s, batch = -1 WHERE query = %s AND target = %s",
                (RELEASED, self.query, self.table),
            )

    def _connect(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise TableError("PostgreSQL needs psycopg: `pip install 'ottla[postgres]'`.") from None

        try:
            return psycopg.connect(self.connection)
        except psycopg.OperationalError as error:
            raise TableError(f"Cannot connect to PostgreSQL: {str(error).strip()}") from error

    def _prepare(self, connection: Any) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))  # only one may create it
        connection.execute(_MARKERS)

    def _is_done(self, connection: Any, marker: Marker) -> bool:
        """Whether the batch is stored. Locks out other writers of this query until the commit."""
        self._prepare(connection)
        names = (self.query, self.table)
        connection.execute(
            "INSERT INTO ottla_batches VALUES (%s, %s, %s, -1) ON CONFLICT DO NOTHING", (*names, RELEASED)
        )
        found = connection.execute(
            "SELECT query, checkpoint, batch FROM ottla_batches WHERE query = %s AND target = %s FOR UPDATE",
            names,
        ).fetchone()
        return is_done(Marker(*found), marker, self.table)

    def _upsert(self, names: list[str]) -> str:
        key = [column(name) for name in self.key]
        order = [*([column(self.version)] if self.version else []), _ORDER]
        others = [name for name in names if name not in key]
        action = (
            f"UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in others)}" if others else "NOTHING"
        )
        if self.version and others:
            version = column(self.version)
            action += f" WHERE EXCLUDED.{version} >= stored.{version} OR stored.{version} IS NULL"
        columns = ", ".join(names)
        return (
            f"INSERT INTO {quoted(self.table)} AS stored ({columns}) "
            f"SELECT DISTINCT ON ({', '.join(key)}) {columns} FROM {_ROWS} "
            f"ORDER BY {', '.join(key)}, {', '.join(f'{name} DESC NULLS LAST' for name in order)} "
            f"ON CONFLICT ({', '.join(key)}) DO {action}"
        )


def _copy(connection: Any, target: str, names: list[str], rows: Any) -> None:
    """Copy rows as CSV: both Arrow and COPY read an empty field as NULL and a quoted one as text."""
    import pyarrow as pa
    from pyarrow import csv

    options = csv.WriteOptions(include_header=False)
    with connection.cursor().copy(f"COPY {target} ({', '.join(names)}) FROM STDIN (FORMAT csv)") as copy:
        for chunk in rows.to_batches(max_chunksize=_CHUNK_ROWS):
            buffer = pa.BufferOutputStream()
            csv.write_csv(chunk, buffer, options)
            copy.write(memoryview(buffer.getvalue()))
