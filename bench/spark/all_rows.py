"""All rows of the table, in its order."""

from __future__ import annotations

from bench.spark.rows import ROWS as READING
from bench.spark.rows import Row
from bench.spark.sink_rows import SINK_ROWS

ROWS: list[Row] = [*READING, *SINK_ROWS]
