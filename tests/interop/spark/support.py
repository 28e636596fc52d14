"""A real Spark for tests: the session, Spark's own Kafka connector as jars, and what tests of both share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop import peers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = str(peers.ROOT / "src")

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def workers_find_ottla() -> None:
    """Processes that Spark starts import the package from the source tree."""
    before = os.environ.get("PYTHONPATH", "")
    if SOURCE not in before.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [SOURCE, str(peers.ROOT), before]))


@contextmanager
def spark_session(directory: Path, settings: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """A local Spark of two cores, ended with its JVM whatever happens. A process can have one at a time."""
    from pyspark import SparkContext

    import ottla.spark

    try:
        ottla.spark.find_java()
    except ottla.spark.SparkMissing as missing:
        peers.peer_missing(str(missing))
    workers_find_ottla()
    chosen = {
        **_SETTINGS,
        "spark.jars": ",".join(peers.spark_connector_jars()),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        **(settings or {}),
    }
    spark = ottla.spark.session("tests", "local[2]", **{k.replace(".", "__"): v for k, v in chosen.items()})
    try:
        yield spark
    finally:
        gateway = SparkContext._gateway
        try:
            spark.stop()
        finally:
            if gateway is not None:
                gateway.shutdown()
                process = gateway.proc
                process.stdin.close()
                try:
                    process.wait(60)
                finally:
                    process.kill()
                    process.wait()
                SparkContext._gateway = None
                SparkContext._jvm = None
