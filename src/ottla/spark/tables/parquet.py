"""Parquet files: one directory per batch, named by its number, that appears atomically.

    path/batch=7/part-*.parquet      what readers see; spark.read, pyarrow and DuckDB find `batch` as a column
    path/_ottla/                     hidden from readers: the marker, and unfinished batches

A batch is written below `_ottla` and then renamed, which is atomic. Rule: a directory with its final name is
complete and never changes; anything below `_ottla` may be deleted. Every `compact_batches` batches are
compacted into one directory. A single file (`compaction.json`) decides that, so the next batch finishes an
interrupted compaction.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ottla.spark.tables.base import TableSink
from ottla.spark.tables.marker import RELEASED, Marker, TableError, is_done

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMN = "batch"
_HIDDEN = "_ottla"
_FILE_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable(TableSink):
    """Writes batches as Parquet below `path`. `files` limits the files per batch; 0 leaves it to Spark."""

    path: str
    partition_by: tuple[str, ...] = ()
    files: int = 0
    compact_batches: int = 0

    def write(self, frame: DataFrame, marker: Marker) -> None:
        place = Place.open(self.path)
        if _COLUMN in frame.columns:
            raise TableError(
                f"The rows for {self.path} have a column {_COLUMN!r}, which is reserved for its "
                "directories. Rename the column."
            )
        owner = place.owner()
        batches = place.batches()
        if owner is None and batches:
            raise TableError(
                f"{self.path} contains batches without a marker of their query. Use another path."
            )
        found = None if owner is None else replace(owner, batch=max([-1, *batches]))
        if is_done(found, marker, self.path):
            return
        if owner is None or owner.checkpoint == RELEASED:
            place.write_text("owner.json", replace(marker, batch=-1).to_text())
        staged, final = place.hidden(f"batch-{marker.batch}"), place.batch(marker.batch)
        place.remove(staged)
        writer = (frame.coalesce(self.files) if self.files else frame).write
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.parquet(place.address(staged))
        self.observe("written")
        place.move(staged, final)
        self.observe("committed")
        if self.compact_batches:
            place.finish_compaction()
            if len(batches) + 1 > self.compact_batches:
                place.compact(frame.sparkSession, self.partition_by)

    def forget(self) -> None:
        """Keep the rows under negative numbers, which no batch of the new checkpoint will have."""
        place = Place.open(self.path)
        place.finish_compaction()
        for number in sorted((batch for batch in place.batches() if batch >= 0), reverse=True):
            place.move(place.batch(number), place.batch(min([0, *place.batches()]) - 1))
        place.write_text("owner.json", Marker(self.query, RELEASED, -1).to_text())


@dataclass(frozen=True, slots=True)
class Place:
    """The directory of a table, on the file system of its address."""

    system: Any
    root: str
    scheme: str

    @classmethod
    def open(cls, path: str) -> Place:
        from pyarrow import fs

        if path.split("://")[0] in ("s3", "s3a", "gs", "gcs", "abfs", "abfss"):
            raise TableError(
                f"{path} is an object store, which cannot rename directories atomically. Use Delta or "
                "Iceberg."
            )
        address = path if ":/" in path else os.path.abspath(path)
        system, root = fs.FileSystem.from_uri(address)
        system.create_dir(f"{root}/{_HIDDEN}", recursive=True)
        return cls(system, root, address.removesuffix("/")[: -len(root.rstrip("/"))])

    def address(self, path: str) -> str:
        """The path in Spark's form."""
        return f"{self.scheme or 'file://'}{path}"

    def hidden(self, name: str) -> str:
        return f"{self.root}/{_HIDDEN}/{name}"

    def batch(self, number: int) -> str:
        return f"{self.root}/{_COLUMN}={number}"

    def batches(self) -> list[int]:
        """The numbers of the visible batches."""
        from pyarrow import fs

        names = (info.base_name for info in self.system.get_file_info(fs.FileSelector(self.root)))
        return [int(name.removeprefix(f"{_COLUMN}=")) for name in names if name.startswith(f"{_COLUMN}=")]

    def exists(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self.system.get_file_info(path).type != fs.FileType.NotFound)

    def owner(self) -> Marker | None:
        text = self.read_text("owner.json")
        return None if text is None else Marker.from_text(text)

    def read_text(self, name: str) -> str | None:
        if not self.exists(self.hidden(name)):
            return None
        with self.system.open_input_stream(self.hidden(name)) as stream:
            return bytes(stream.read()).decode()

    def write_text(self, name: str, text: str) -> None:
        """Write atomically: readers see the old text or the new one."""
        new = self.hidden(f"{name}.new")
        with self.system.open_output_stream(new) as stream:
            stream.write(text.encode())
        self.system.move(new, self.hidden(name))

    def move(self, source: str, target: str) -> None:
        self.system.move(source, target)

    def remove(self, path: str) -> None:
        from pyarrow import fs

        kind = self.system.get_file_info(path).type
        if kind == fs.FileType.Directory:
            self.system.delete_dir(path)
        elif kind != fs.FileType.NotFound:
            self.system.delete_file(path)

    def compact(self, spark: SparkSession, partition_by: tuple[str, ...] = ()) -> int:
        """Compact all batches but the last, which Spark may repeat; return their number."""
        from pyarrow import fs

        joined = sorted(self.batches())[:-1]
        if len(joined) < 2:
            return 0
        paths = [self.batch(number) for number in joined]
        infos = [
            info
            for path in paths
            for info in self.system.get_file_info(fs.FileSelector(path, recursive=True))
        ]
        size = sum(info.size or 0 for info in infos if info.type == fs.FileType.File)
        if any(info.base_name.endswith(".parquet") for info in infos):
            staged = self.hidden("compacted")
            self.remove(staged)
            reader = spark.read.option("basePath", self.address(self.root)).option("mergeSchema", "true")
            frame = reader.parquet(*(self.address(path) for path in paths)).drop(_COLUMN)
            writer = frame.coalesce(max(1, size // _FILE_BYTES)).write
            (writer.partitionBy(*partition_by) if partition_by else writer).parquet(self.address(staged))
            self.write_text("compaction.json", json.dumps({"joined": joined}))
        self.finish_compaction()
        return len(joined)

    def finish_compaction(self) -> None:
        """Replace the compacted batches with their result. Safe to interrupt anywhere and to repeat."""
        text = self.read_text("compaction.json")
        if text is None:
            return
        joined = [int(number) for number in json.loads(text)["joined"]]
        staged = self.hidden("compacted")
        if self.exists(staged):  # otherwise it is renamed already and must stay
            for number in joined:
                self.remove(self.batch(number))
            self.move(staged, self.batch(joined[-1]))
        self.remove(self.hidden("compaction.json"))
