"""The Spark session of a pipeline: local, on a cluster, or behind Spark Connect.

Rule: Spark's own log goes to a file, so that the screen has only the pipeline's output.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.pipeline.model import FileTarget, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.log.level": "WARN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(max(2, min(8, os.cpu_count() or 2))),
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class SessionFailed(RuntimeError):
    """No Spark session could be started; the message says why."""


def settings_of(pipeline: Pipeline, master: str | None, packed: Path | None) -> dict[str, str]:
    """Spark's settings: our defaults, overridden by what the pipeline needs, overridden by what its file
    sets."""
    chosen = dict(_DEFAULTS)
    if master is None or master.startswith("local"):
        chosen |= _LOCAL
    if any(isinstance(sink.target, FileTarget) and sink.target.kind == "delta" for sink in pipeline.sinks):
        needed = delta_settings()
        if "spark.jars" in pipeline.spark:
            del needed["spark.jars.packages"]
        chosen |= needed
    if packed is not None:
        from ottla.spark.pipeline.executor_archive import settings

        chosen |= settings(packed)
    return chosen | dict(pipeline.spark)


def delta_settings() -> dict[str, str]:
    """The settings for reading and writing Delta tables."""
    from ottla.spark.tables.delta import PACKAGE

    return {**_DELTA, "spark.jars.packages": PACKAGE}


def open_session(
    pipeline: Pipeline, *, master: str | None, remote: str | None, log_file: Path | None
) -> SparkSession:
    """Open the session and register the format "ottla"."""
    import ottla.spark

    _quiet()
    if remote is not None:
        return _remote(remote, pipeline)
    packed = None
    if master is not None and not (master.startswith("local[") or master == "local"):
        from ottla.spark.pipeline.executor_archive import archive

        packed = archive(Path.home() / ".cache" / "ottla")
    chosen = settings_of(pipeline, master, packed)
    if packed is None:
        _workers_find_us()
    named = {name.replace(".", "__"): value for name, value in chosen.items()}
    with _errors_to(log_file):
        try:
            return ottla.spark.session(pipeline.name, master or "local[*]", **named)
        except ImportError:  # its message says what is missing
            raise
        except Exception as error:
            raise SessionFailed(f"Spark failed to start: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """The line of a JVM's output that names the cause."""
    lines = str(error).splitlines()
    found = next(
        (line for line in lines if line.startswith(": ")), lines[0] if lines else type(error).__name__
    )
    return found.removeprefix(": ").partition("Exception: ")[2] or found.removeprefix(": ")


def _remote(address: str, pipeline: Pipeline) -> SparkSession:
    """Connect to a server that has Ottla installed: its executors import it by name."""
    import ottla.spark

    if address.startswith("local"):  # a private server on this machine
        _workers_find_us()
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.remote(address)
        for name, value in pipeline.spark.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    except ImportError as error:
        raise SessionFailed(
            f"--remote needs the Spark Connect client: `pip install 'pyspark[connect]'` ({error})."
        ) from error
    return ottla.spark.enable(session)


def _workers_find_us() -> None:
    """Make Spark's Python processes import this package from the same path as this process."""
    source = str(Path(__file__).parents[3])
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if source not in before:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, *before]))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _quiet() -> None:
    """Keep Spark from logging analysis errors as a page of JSON; we report them ourselves."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")


@contextmanager
def _errors_to(log_file: Path | None) -> Iterator[None]:
    """Redirect the errors of a JVM started in this block to a file."""
    if log_file is None:
        yield
        return
    log_file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    ours = os.dup(2)
    with open(log_file, "ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def client_properties(settings: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Split settings into bootstrap servers and the other client properties."""
    others = {name: value for name, value in settings.items() if name != "bootstrap.servers"}
    return settings["bootstrap.servers"], others
