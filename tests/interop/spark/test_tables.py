"""Each table takes each batch once, whenever its driver dies."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.spark.tables import CheckpointChanged, ParquetTable, PostgresTable, SqliteTable, TableError
from ottla.spark.tables.marker import Marker
from tests.interop import peers
from tests.interop.library import postgres
from tests.interop.spark.table_driver import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 4
ROWS_PER_FILE = 50


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres.running() as text:
        yield text


def drive(directory: Path, connection: str, step: str, batch: int) -> int:
    """Run the driver to its end or its death; its exit code."""
    command = [
        sys.executable,
        "-m",
        "tests.interop.spark.table_driver",
        str(directory),
        connection,
        step,
        str(batch),
    ]
    environment = {**os.environ, "PYTHONPATH": f"{peers.ROOT / 'src'}{os.pathsep}{peers.ROOT}"}
    log = directory / "driver.log"
    with log.open("ab") as output:
        process = peers.start_process(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=peers.ROOT, env=environment
        )
        try:
            code = process.wait(PATIENCE_SECONDS * 2)
        finally:
            peers.end_process(process)
    assert code in (0, -signal.SIGKILL), log.read_text(errors="replace")[-8000:]
    return code


def write_input(directory: Path) -> list[int]:
    """Files of rows, each a batch; the ids of all rows."""
    (directory / "input").mkdir()
    for number in range(FILES):
        rows = [
            {
                "id": identity,
                "name": f'r"{identity},\n',
                "price": "1.10",
                "at": "2026-01-02T03:04:05Z",
                "tags": ["a"],
            }
            for identity in range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        ]
        path = directory / "input" / f"{number}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes the oldest first
    return list(range(FILES * ROWS_PER_FILE))


def rows_of(directory: Path, connection: str) -> dict[str, list[int]]:
    """The ids in each table, as readers see them that know nothing of Spark."""
    import psycopg
    import pyarrow.dataset
    from pyiceberg.catalog import load_catalog

    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/ice",
    }
    with psycopg.connect(connection) as server:
        stored = [row[0] for row in server.execute('SELECT id FROM "rows"').fetchall()]
    with sqlite3.connect(directory / "rows.db") as file:
        local = [row[0] for row in file.execute('SELECT id FROM "rows"').fetchall()]
    file.close()
    return {
        "parquet": pyarrow.dataset.dataset(str(directory / "parquet"), partitioning="hive")
        .to_table()["id"]
        .to_pylist(),
        "delta": _delta_ids(directory / "delta"),
        "iceberg": load_catalog("default", **catalog)
        .load_table("shop.rows")
        .scan()
        .to_arrow()["id"]
        .to_pylist(),
        "postgres": stored,
        "sqlite": local,
    }


def _delta_ids(path: Path) -> list[int]:
    """By Delta's own log: the files that were added and not removed."""
    import pyarrow.parquet

    live: set[str] = set()
    for log in sorted((path / "_delta_log").glob("*.json")):
        for line in log.read_text().splitlines():
            action = json.loads(line)
            live |= {action["add"]["path"]} if "add" in action else set()
            live -= {action["remove"]["path"]} if "remove" in action else set()
    return [one for file in live for one in pyarrow.parquet.read_table(path / file)["id"].to_pylist()]


def test_no_table_has_a_row_twice_or_not_at_all_when_its_driver_is_killed(
    tmp_path: Path, database: str
) -> None:
    expected = write_input(tmp_path)
    for step, batch in (("written", 0), ("committed", 2)):
        assert drive(tmp_path, database, step, batch) == -signal.SIGKILL
        assert (tmp_path / f"died-{step}-{batch}").exists(), "all tables were in the window"
        if step == "written":
            assert list((tmp_path / "delta").glob("*.parquet")), "Delta was writing a file"
            assert not list((tmp_path / "delta" / "_delta_log").glob("*.json")), "and had not committed it"
        assert not any((tmp_path / "checkpoints").glob(f"*/commits/{batch}")), (
            "Spark had not committed the batch"
        )
    found = rows_of(tmp_path, database)
    done = expected[: 3 * ROWS_PER_FILE]  # batches 0 to 2 were committed by the tables, and 2 not by Spark
    assert {kind: sorted(ids) for kind, ids in found.items()} == dict.fromkeys(found, done)

    assert drive(tmp_path, database, "none", 0) == 0

    found = rows_of(tmp_path, database)
    assert {kind: sorted(ids) for kind, ids in found.items()} == dict.fromkeys(found, expected)
    with sqlite3.connect(tmp_path / "rows.db") as file:
        assert file.execute('SELECT name, price, at, tags FROM "rows" WHERE id = 7').fetchone() == (
            'r"7,\n',
            "1.10",
            "2026-01-02 03:04:05.000000",
            '["a"]',
        )
    file.close()
    import psycopg

    with psycopg.connect(database) as server:
        name, _, at, tags = (
            server.execute('SELECT name, price, at, tags FROM "rows" WHERE id = 7').fetchone() or ()
        )
        assert (name, at, tags) == ('r"7,\n', datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), ["a"])


def batch(spark: SparkSession, *rows: tuple[int, int | None, str | None]) -> Any:
    return spark.createDataFrame(list(rows), "id INT, version INT, name STRING")


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_a_database_keeps_each_key_once_and_its_newest_version(
    spark: SparkSession, tmp_path: Path, database: str, kind: str
) -> None:
    table: PostgresTable | SqliteTable
    if kind == "postgres":
        table = PostgresTable(query="q", connection=database, table="keyed", key=("id",), version="version")
    else:
        table = SqliteTable(
            query="q", database=str(tmp_path / "k.db"), table="keyed", key=("id",), version="version"
        )
    table.write(batch(spark, (1, 1, "a"), (2, 5, "b")), Marker("q", "c", 0))
    table.write(batch(spark, (1, 2, "newer"), (2, 4, "older"), (3, 1, None)), Marker("q", "c", 1))
    table.write(batch(spark, (1, 9, "batch 1 comes again")), Marker("q", "c", 1))

    query = 'SELECT id, version, name FROM "keyed" ORDER BY id'
    if isinstance(table, SqliteTable):
        with sqlite3.connect(table.database) as file:
            found = file.execute(query).fetchall()
        file.close()
    else:
        import psycopg

        with psycopg.connect(database) as server:
            found = server.execute(query).fetchall()
    assert found == [(1, 2, "newer"), (2, 5, "b"), (3, 1, None)]

    with pytest.raises(CheckpointChanged, match="another checkpoint"):
        table.write(batch(spark, (4, 1, "x")), Marker("q", "another", 0))
    with pytest.raises(CheckpointChanged, match="older than the table"):
        table.write(batch(spark, (4, 1, "x")), Marker("q", "c", 0))
    table.forget()
    table.write(batch(spark, (4, 1, "x")), Marker("q", "another", 0))


def test_a_key_that_the_rows_do_not_have_is_told_with_the_nearest(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = SqliteTable(query="q", database=str(tmp_path / "k.db"), table="t", key=("idd",))
    with pytest.raises(TableError, match=r"'idd'.*Did you mean 'id'"):
        table.write(batch(spark, (1, 1, "a")), Marker("q", "c", 0))


def test_small_batches_of_parquet_are_joined_and_none_is_lost_when_that_breaks_off(
    spark: SparkSession, tmp_path: Path
) -> None:
    from ottla.spark.tables.parquet import Place

    path = str(tmp_path / "rows")
    table = ParquetTable(query="q", path=path)
    for number in range(4):
        table.write(batch(spark, (number, number, "x")), Marker("q", "c", number))
    place = Place.open(path)
    assert place.compact(spark) == 3
    assert sorted(place.batches()) == [2, 3]

    def ids() -> list[int]:
        return sorted(row.id for row in spark.read.parquet(path).select("id").collect())

    assert ids() == [0, 1, 2, 3]
    table.write(batch(spark, (3, 3, "again")), Marker("q", "c", 3))
    table.write(batch(spark, (4, 4, "x")), Marker("q", "c", 4))
    # What a crash leaves behind between the decision and the rename.
    joined = spark.read.parquet(place.batch(2), place.batch(3))
    joined.coalesce(1).write.parquet(place.address(place.hidden("compacted")))
    place.write_text("compaction.json", json.dumps({"joined": [2, 3]}))
    place.remove(place.batch(2))
    ParquetTable(query="q", path=path, compact_batches=10).write(
        batch(spark, (5, 5, "x")), Marker("q", "c", 5)
    )
    assert ids() == [0, 1, 2, 3, 4, 5]
    assert sorted(place.batches()) == [3, 4, 5]
    table.forget()
    table.write(batch(spark, (6, 6, "x")), Marker("q", "another", 0))
    assert ids() == [0, 1, 2, 3, 4, 5, 6]
