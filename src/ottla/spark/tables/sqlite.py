"""SQLite: rows and the marker in one transaction of a database file, on one machine.

Rule: the transaction is IMMEDIATE, so that of two drivers with the same checkpoint the second waits and then
sees the first one's batches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.spark.tables.base import TableSink
from ottla.spark.tables.marker import RELEASED, Marker, is_done
from ottla.spark.tables.rows import SQLITE, check_columns, column, create_table, for_sqlite, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARKERS = (
    "CREATE TABLE IF NOT EXISTS ottla_batches (query TEXT, target TEXT, checkpoint TEXT NOT NULL, "
    "batch INTEGER NOT NULL, PRIMARY KEY (query, target))"
)
_BUSY_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteTable(TableSink):
    """Writes batches to `table` in the file `database`; both are created if missing."""

    database: str
    table: str
    key: tuple[str, ...] = ()
    version: str | None = None

    def write(self, frame: DataFrame, marker: Marker) -> None:
        check_columns(self.key, frame.columns, f"The key of {self.table}")
        check_columns([self.version] if self.version else [], frame.columns, f"The version of {self.table}")
        with self._transaction() as connection:
            if is_done(self._marker(connection), marker, self.table):
                return
        rows = for_sqlite(frame).toArrow()  # outside the transaction: it may take long
        with self._transaction() as connection:
            if is_done(self._marker(connection), marker, self.table):
                return
            connection.execute(create_table(self.table, frame.schema, self.key, SQLITE))
            for chunk in rows.to_batches(max_chunksize=65_536):
                columns = [found.to_pylist() for found in chunk.columns]
                connection.executemany(self._insert(frame.columns), zip(*columns, strict=True))
            connection.execute(
                "INSERT OR REPLACE INTO ottla_batches VALUES (?, ?, ?, ?)",
                (self.query, self.table, marker.checkpoint, marker.batch),
            )
            self.observe("written")
        self.observe("committed")

    def forget(self) -> None:
        with self._transaction() as connection:
            connection.execute(
                "UPDATE ottla_batches SET checkpoint = ?, batch = -1 WHERE query = ? AND target = ?",
                (RELEASED, self.query, self.table),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.database, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_MARKERS)
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back uncommitted rows

    def _marker(self, connection: sqlite3.Connection) -> Marker | None:
        found = connection.execute(
            "SELECT query, checkpoint, batch FROM ottla_batches WHERE query = ? AND target = ?",
            (self.query, self.table),
        ).fetchone()
        return None if found is None else Marker(*found)

    def _insert(self, names: list[str]) -> str:
        columns = [column(name) for name in names]
        statement = (
            f"INSERT INTO {quoted(self.table)} AS stored ({', '.join(columns)}) "
            f"VALUES ({', '.join('?' * len(columns))})"
        )
        if not self.key:
            return statement
        others = [name for name in columns if name not in [column(key) for key in self.key]]
        action = (
            f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
        )
        if self.version and others:
            version = column(self.version)
            action += f" WHERE excluded.{version} >= stored.{version} OR stored.{version} IS NULL"
        return f"{statement} ON CONFLICT ({', '.join(map(column, self.key))}) DO {action}"
