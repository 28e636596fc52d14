"""Topics in Spark, without a jar: `spark.read.format("ottla")`, `spark.readStream`, and the way back.

`import ottla.spark` registers the format with the session that is active; `enable(spark)` with any other.
Where neither is called Spark finds it by the name of the module `pyspark_ottla`. Rule: this package imports
pyspark only when something is asked of it, and everything below it only what that needs, since each of
Spark's Python workers imports it anew.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["SparkMissing", "enable", "find_java", "register", "session", "write", "write_stream"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class SparkMissing(ImportError):
    """pyspark or Java is not there; the message says what to install."""


def register(spark: SparkSession) -> SparkSession:
    """Make the format "ottla" known to this session; the session."""
    source = _imported("ottla.spark.source").OttlaSource
    _workers_are_as_we_are(spark)
    spark.dataSource.register(source)
    return spark


def enable(spark: SparkSession) -> SparkSession:
    """Register, and let filters on partition, offset and timestamp reach the source; the session."""
    register(spark)
    spark.conf.set(PUSHDOWN, "true")
    return spark


def _workers_are_as_we_are(spark: SparkSession) -> None:
    """Where nobody has said which Python workers run, local ones run this one, with what it has installed."""
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none: its server decides
    if context is not None and "PYSPARK_PYTHON" not in os.environ and context.master.startswith("local"):
        context.pythonExec = sys.executable


def find_java() -> str:
    """The path of a Java that Spark can use (17 or newer); SparkMissing says in one line what to install."""
    java: str = _imported("ottla.spark.java").find_java()
    return java


def session(name: str = "ottla", master: str | None = None, **settings: Any) -> SparkSession:
    """A session with the format enabled, local unless `master` or Spark's own settings say otherwise.

    Settings are Spark's, with `__` for each dot: `session(spark__sql__shuffle__partitions=4)`.
    """
    made: SparkSession = _imported("ottla.spark.java").session(
        name, master, {key.replace("__", "."): str(value) for key, value in settings.items()}
    )
    return enable(made)


def write_stream(frame: DataFrame, topic: str | None = None, **options: Any) -> DataStreamWriter:
    """A streaming frame into a topic, exactly once: `write_stream(df, "out", ...).start()`.

    `bootstrap_servers`, `transactional_id` (a name of this query alone, the same each time) and `checkpoint`
    are needed; `value_format="json"` makes the value of all columns, `client` has properties of the producer.
    It gives Spark's DataStreamWriter, for triggers and names.
    """
    made: DataStreamWriter = _imported("ottla.spark.sink").write_stream(frame, topic, **options)
    return made


def write(frame: DataFrame, topic: str | None = None, **options: Any) -> int:
    """A frame into a topic, in one transaction that all its tasks write in; how many rows there were."""
    written: int = _imported("ottla.spark.sink").write(frame, topic, **options)
    return written


def _imported(module: str) -> Any:
    from importlib import import_module

    try:
        import_module("pyspark")
    except ImportError:
        raise SparkMissing(
            "Spark support needs pyspark. Install it with `pip install 'ottla[spark]'`."
        ) from None
    return import_module(module)


def _register_active() -> None:
    """Who imports this beside a running session wants the format there. Workers have no session."""
    if "pyspark.sql.session" in sys.modules and "pyspark.worker" not in sys.modules:
        active = sys.modules["pyspark.sql.session"].SparkSession.getActiveSession()
        if active is not None:
            enable(active)


_register_active()
