"""What all tables share: the name of the query, where its checkpoint's id comes from, and the seam for tests.

Rule: a table is a value. It holds no connection between batches, so it can be pickled (Spark Connect runs it
in a process of its own) and each batch stands by itself.
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
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink(ABC):
    """A function for foreachBatch that writes each batch once.

    `query` names the writer and must stay the same from run to run. `observe` is told "written" when the rows
    are there but not yet visible, and "committed" when they are.
    """

    query: str
    observe: Callable[[str], None] = _nothing

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.write(frame, Marker(self.query, checkpoint_of(frame), batch_id))

    @abstractmethod
    def write(self, frame: DataFrame, marker: Marker) -> None:
        """Write one batch and its marker in one step, or nothing if the table has it."""

    @abstractmethod
    def forget(self) -> None:
        """Let the table accept a new checkpoint; its rows stay. The query must not run meanwhile."""


def checkpoint_of(frame: DataFrame) -> str:
    """The id that Spark keeps in the checkpoint of the running query. Spark Connect does not tell it."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        return ANY_CHECKPOINT
    return str(frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID) or ANY_CHECKPOINT)
