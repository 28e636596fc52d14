"""Iceberg tables by pyiceberg: the rows, and the marker as a table property, in one commit.

The snapshot of a batch records its query, too (`ottla.query`, `ottla.checkpoint`, `ottla.batch`), but only
the property is read, since snapshots expire. Rows pass through the driver as Arrow. Rule: a commit that loses
to another writer is retried from the start, including the check of the marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.spark.tables.base import TableSink
from ottla.spark.tables.marker import RELEASED, Marker, TableError, is_done

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable(TableSink):
    """Appends batches to `table` (namespace.name) of a catalog with pyiceberg's properties."""

    table: str
    catalog: Mapping[str, str] = field(default_factory=dict)
    catalog_name: str = "default"

    def write(self, frame: DataFrame, marker: Marker) -> None:
        from pyiceberg.exceptions import CommitFailedException

        found = self._load()
        if found is not None and is_done(self._marker(found), marker, self.table):
            return
        rows = _for_iceberg(frame.toArrow())
        for attempt in range(1, _ATTEMPTS + 1):
            table = self._load() or self._create(rows.schema)
            if is_done(self._marker(table), marker, self.table):
                return
            try:
                self._append(table, rows, marker)
                return
            except CommitFailedException:
                if attempt == _ATTEMPTS:
                    raise

    def _append(self, table: Any, rows: Any, marker: Marker) -> None:
        about = {"query": marker.query, "checkpoint": marker.checkpoint, "batch": str(marker.batch)}
        transaction = table.transaction()
        if rows.num_rows:
            known = {name.lower() for name in table.schema().column_names}
            if any(name.lower() not in known for name in rows.schema.names):
                with transaction.update_schema() as change:
                    change.union_by_name(rows.schema)
            transaction.append(
                rows, snapshot_properties={f"ottla.{name}": value for name, value in about.items()}
            )
        transaction.set_properties({self._property: marker.to_text()})
        self.observe("written")
        transaction.commit_transaction()
        self.observe("committed")

    def forget(self) -> None:
        table = self._load()
        if table is not None and self._marker(table) is not None:
            with table.transaction() as transaction:
                transaction.set_properties({self._property: Marker(self.query, RELEASED, -1).to_text()})

    @property
    def _property(self) -> str:
        return f"ottla.query.{self.query}"

    def _marker(self, table: Any) -> Marker | None:
        text = table.properties.get(self._property)
        return None if text is None else Marker.from_text(text)

    def _catalog(self) -> Any:
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError:
            raise TableError("Iceberg needs pyiceberg: `pip install 'ottla[iceberg]'`.") from None

        return load_catalog(self.catalog_name, **self.catalog)

    def _load(self) -> Any:
        catalog = self._catalog()
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return catalog.load_table(self.table)
        except NoSuchTableError:
            return None

    def _create(self, schema: Any) -> Any:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
        return catalog.create_table_if_not_exists(self.table, schema=schema)


def _for_iceberg(rows: Any) -> Any:
    """Convert times to UTC, or to times without a zone, as Iceberg requires."""
    import pyarrow as pa

    fields = [
        one.with_type(pa.timestamp("us", tz="UTC"))
        if pa.types.is_timestamp(one.type) and one.type.tz
        else one
        for one in rows.schema
    ]
    return rows.cast(pa.schema(fields))
