"""What the tests of the sink share: drivers as processes, the input, and what is in a topic at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

import ottla
from ottla.client.values import TopicPartition
from tests.interop import peers
from tests.interop.spark.sink_names import DRIVER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_SECONDS = 300.0
DEATHS = ("Died", "crashed", "EOF", "exited")
"""What Spark tells of a query whose driver plays dead, or whose worker died."""


def end_offsets(bootstrap: str, topic: str) -> dict[TopicPartition, int]:
    """Where the partitions of a topic end, with all that is open or aborted."""
    with ottla.Consumer(bootstrap) as consumer:
        return dict(consumer.end_offsets(consumer.partitions_for(topic)))


@dataclass
class Found:
    """The values of a topic."""

    committed: Counter[str]
    all_count: int
    """How many there are for those who read uncommitted records."""

    def check(self, rows: int) -> None:
        """Each number below `rows` is there once, and nothing else."""
        twice = sum(count - 1 for count in self.committed.values())
        missing = rows - sum(1 for number in range(rows) if str(number) in self.committed)
        assert (twice, missing, len(self.committed)) == (0, 0, rows), (
            f"duplicates {twice}, missing {missing}, distinct {len(self.committed)} of {rows}"
        )

    @property
    def duplicates(self) -> int:
        return sum(count - 1 for count in self.committed.values())

    @property
    def aborted(self) -> int:
        """Records that only those see who read uncommitted ones."""
        return self.all_count - sum(self.committed.values())


def found_in(bootstrap: str, topic: str) -> Found:
    committed = Counter(_values(bootstrap, topic, "read_committed"))
    return Found(committed, sum(1 for _ in _values(bootstrap, topic, "read_uncommitted")))


def _values(bootstrap: str, topic: str, isolation_level: str) -> Iterator[str]:
    consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
        bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest"
    )
    with consumer:
        places = consumer.partitions_for(topic)
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        deadline = monotonic() + WAIT_SECONDS
        while behind := [place for place in places if consumer.position(place) < ends[place]]:
            assert monotonic() < deadline, f"{behind} of {ends} could not be read ({isolation_level})"
            for record in consumer.poll(1.0):
                yield record.value.decode()


@dataclass
class Job:
    """A query that drivers work on, one after the other."""

    directory: Path
    bootstrap: str
    topic: str
    sink: str
    files: int = 4
    rows_per_file: int = 4000
    plan: Sequence[str] = ()
    settings: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    master: str = "local[2]"
    split: str = "8k"
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.files * self.rows_per_file

    @property
    def state(self) -> Path:
        return self.directory / "state"

    def prepare(self) -> None:
        """The input: files of numbers, each of which is a batch."""
        (self.directory / "input").mkdir(parents=True)
        self.state.mkdir()
        for number in range(self.files):
            first = number * self.rows_per_file
            text = "".join(f"{row}\n" for row in range(first, first + self.rows_per_file))
            path = self.directory / "input" / f"{number:04d}.txt"
            path.write_text(text)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    @property
    def told_driver(self) -> dict[str, Any]:
        """What a driver is told."""
        return {
            "bootstrap": self.bootstrap,
            "topic": self.topic,
            "sink": self.sink,
            "plan": list(self.plan),
            "state": str(self.state),
            "input": str(self.directory / "input"),
            "checkpoint": str(self.directory / "checkpoint"),
            "settings": self.settings,
            "client": self.client,
            "options": self.options,
            "master": self.master,
            "split": self.split,
            "rows_per_file": self.rows_per_file,
        }

    def start(self) -> subprocess.Popen[bytes]:
        """A driver. Its lines are in `log`."""
        (self.state / DRIVER).unlink(missing_ok=True)
        with self.log.open("ab") as log:
            return peers.start_process(
                [sys.executable, "-m", "tests.interop.spark.sink_driver", json.dumps(self.told_driver)],
                cwd=peers.ROOT,
                env={**os.environ, **self.environment, "PYTHONPATH": f"{peers.ROOT}/src:{peers.ROOT}"},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> Path:
        return self.directory / "driver.log"

    def run(self) -> int:
        """One driver to its end; how it ended."""
        process = self.start()
        try:
            return process.wait(WAIT_SECONDS)
        finally:
            self.kill(process)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End a driver and its JVM, at once."""
        with contextlib.suppress(FileNotFoundError):
            for pid in map(int, (self.state / DRIVER).read_text().split()):
                if pid != process.pid:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        peers.end_process(process)

    def finish(self, deaths: int) -> None:
        """Drivers until one comes to the end; each of `deaths` before it was killed on its way."""
        for _ in range(deaths):
            code = self.run()
            assert code == -signal.SIGKILL, self.told(f"the driver ended with {code} and was to be killed")
        code = self.run()
        assert code == 0, self.told(f"the driver ended with {code}")

    def run_here(self, spark: SparkSession) -> str | None:
        """The query with this process as its driver; what it died of, or None where it came to its end."""
        from tests.interop.spark.sink_driver import SPLIT_SETTINGS, started

        query = started(spark, self.told_driver)
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return str(error)
        finally:
            query.stop()
            for name in SPLIT_SETTINGS:
                spark.conf.unset(name)
        return None

    def finish_here(self, spark: SparkSession) -> int:
        """The query, begun again until it comes to its end; how often it died."""
        for deaths in range(len(self.plan) + 1):
            died_of = self.run_here(spark)
            if died_of is None:
                return deaths
            assert any(sign in died_of for sign in DEATHS), died_of
        raise AssertionError("the query died more often than it was to")

    def told(self, what: str) -> str:
        return f"{what}:\n" + self.log.read_text()[-6000:]

    def was_skipped(self, batch_id: int) -> bool:
        """Whether a batch was found to be done by a driver that was to write it."""
        return (self.state / f"{batch_id}-skipped").exists()

    def times_begun(self, batch_id: int) -> int:
        return len((self.state / f"{batch_id}-written").read_text())
