"""The interface of all tables: the query's name, the checkpoint's id, and an observer for tests.

Rule: a table is a value. It keeps no connection between batches, so it can be pickled (Spark Connect runs it
in another process) and batches are independent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.spark.tables.marker import Marker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"
ANY_CHECKPOINT = "-"


def _nothing(step: str) -> None:
    """The default observer ignores all steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink(ABC):
    """A function for foreachBatch that writes each batch once.

    `query` names the writer and must stay the same across runs. `observe` is called with "written" when the
    rows are stored but not yet visible, and with "committed" when they are visible.
    """

    query: str
    observe: Callable[[str], None] = _nothing

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.write(frame, Marker(self.query, checkpoint_of(frame), batch_id))

    @abstractmethod
    def write(self, frame: DataFrame, marker: Marker) -> None:
        """Write one batch and its marker atomically; do nothing if the table already has the batch."""

    @abstractmethod
    def forget(self) -> None:
        """Make the table accept a new checkpoint; its rows stay. The query must not run meanwhile."""


def checkpoint_of(frame: DataFrame) -> str:
    """The id in the checkpoint of the running query. Spark Connect does not provide it."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        return ANY_CHECKPOINT
    return str(frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID) or ANY_CHECKPOINT)
