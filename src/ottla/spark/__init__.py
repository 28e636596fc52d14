"""Kafka topics in Spark, without a jar: `spark.read.format("ottla")`, `spark.readStream`, and writes.

`import ottla.spark` registers the format with the active session; `enable(spark)` registers it with any other
session. Without either, Spark finds the format through the module `pyspark_ottla`. Rule: imports are lazy,
because every Python worker of Spark imports this package again.
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
    """pyspark or Java is missing; the message says what to install."""


def register(spark: SparkSession) -> SparkSession:
    """Register the format "ottla" with the session, and return the session."""
    source = _imported("ottla.spark.source").OttlaSource
    _run_workers_on_this_python(spark)
    spark.dataSource.register(source)
    return spark


def enable(spark: SparkSession) -> SparkSession:
    """Register the format, push filters on partition, offset and timestamp down to it, and return the
    session."""
    register(spark)
    spark.conf.set(PUSHDOWN, "true")
    return spark


def _run_workers_on_this_python(spark: SparkSession) -> None:
    """Run local workers on this interpreter and its packages, unless PYSPARK_PYTHON names another one."""
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none: its server decides
    if context is not None and "PYSPARK_PYTHON" not in os.environ and context.master.startswith("local"):
        context.pythonExec = sys.executable


def find_java() -> str:
    """Return the path of a Java that Spark can use (17 or newer); SparkMissing says what to install."""
    java: str = _imported("ottla.spark.java").find_java()
    return java


def session(name: str = "ottla", master: str | None = None, **settings: Any) -> SparkSession:
    """Start or return a session with the format enabled. It is local unless `master` or Spark's settings say
    otherwise.

    Write Spark's settings with `__` for each dot: `session(spark__sql__shuffle__partitions=4)`.
    """
    made: SparkSession = _imported("ottla.spark.java").session(
        name, master, {key.replace("__", "."): str(value) for key, value in settings.items()}
    )
    return enable(made)


def write_stream(frame: DataFrame, topic: str | None = None, **options: Any) -> DataStreamWriter:
    """Write a streaming frame to a topic, exactly once: `write_stream(df, "out", ...).start()`.

    Required: `bootstrap_servers`, `checkpoint`, and `transactional_id`, which no other query may use and
    which must stay the same when the query restarts. `value_format="json"` encodes all columns as the value;
    `client` has producer properties. Returns Spark's DataStreamWriter, so that callers can set a trigger and
    a name.
    """
    made: DataStreamWriter = _imported("ottla.spark.sink").write_stream(frame, topic, **options)
    return made


def write(frame: DataFrame, topic: str | None = None, **options: Any) -> int:
    """Write a frame to a topic in one transaction that all tasks share; return the number of rows."""
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
    """Enable the format if a session is already active. Spark's Python workers have no session."""
    if "pyspark.sql.session" in sys.modules and "pyspark.worker" not in sys.modules:
        active = sys.modules["pyspark.sql.session"].SparkSession.getActiveSession()
        if active is not None:
            enable(active)


_register_active()
