"""The long forms: kills at random times, executors with a JVM of their own, speculation.

`OTTLA_TEST_KILLS=12` kills so many drivers on their way through a million rows; `OTTLA_TEST_LONG=1` starts
Spark with two executors, kills one, and would let Spark copy slow tasks. CI runs neither, but what is in
test_exactly_once.py.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from ottla.testing import Cluster
from tests.interop import peers
from tests.interop.spark.sinks import Job, found_in
from tests.interop.spark.test_exactly_once import make_topic

KILLS = int(os.environ.get("OTTLA_TEST_KILLS", "0"))
ROWS = int(os.environ.get("OTTLA_TEST_ROWS", "1000000"))
is_long = pytest.mark.skipif(not os.environ.get("OTTLA_TEST_LONG"), reason="OTTLA_TEST_LONG=1 runs it")
kills = pytest.mark.skipif(not KILLS, reason="OTTLA_TEST_KILLS=12 runs it, with so many kills")


@contextmanager
def brokers(kind: str) -> Iterator[tuple[str, Cluster | None]]:
    if kind == "three":
        with Cluster(3) as cluster:
            yield cluster.bootstrap_servers, cluster
    else:
        with peers.running(kind) as node:
            yield node.bootstrap, None


@kills
@pytest.mark.parametrize("kind", ["ottla", "three", "kafka"])
@pytest.mark.parametrize("sink", ["tasks", "shuffle"])
def test_drivers_killed_at_random_leave_each_row_once(sink: str, kind: str, tmp_path: Path) -> None:
    chance = random.Random()
    files = 50
    with brokers(kind) as (bootstrap, cluster):
        job = Job(tmp_path, bootstrap, "random", sink, files=files, rows_per_file=ROWS // files)
        job.split = "64k"
        job.prepare()
        make_topic(bootstrap, job.topic, replicas=3 if cluster else 1)
        killed = 0
        down: int | None = None
        while True:
            process = job.start()
            try:
                begun = (job.state / "driver.pids").exists
                peers.wait_until(lambda: begun() or process.poll() is not None, 240.0, "a driver")  # noqa: B023
                if killed < KILLS:
                    wait_into_a_batch(job, process, chance)
                else:
                    peers.wait_until(lambda: process.poll() is not None, 600.0, "the driver to end")  # noqa: B023
                if process.poll() is not None:
                    assert process.returncode == 0, job.told(f"the driver ended with {process.returncode}")
                    break
            finally:
                job.kill(process)
            killed += 1
            if cluster is not None:
                if down is not None:
                    cluster.start(down)
                down = chance.choice(cluster.running)
                cluster.kill(down)
        found = found_in(bootstrap, job.topic)
        print(
            f"{kind}, {sink}: kills {killed}, rows {job.rows}, duplicates {found.duplicates}, "
            f"aborted {found.aborted}"
        )
        found.check(job.rows)
        assert killed
        assert found.aborted > 0, "no kill met an open transaction"


def wait_into_a_batch(job: Job, process: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Until the driver has begun one to three batches more, and a moment longer; or has ended."""

    def begun() -> int:
        return sum(path.stat().st_size for path in job.state.glob("*-written"))

    wanted = begun() + chance.randint(1, 3)
    peers.wait_until(lambda: process.poll() is not None or begun() >= wanted, 300.0, "batches to be begun")
    until = monotonic() + chance.uniform(0.0, 1.5)
    peers.wait_until(lambda: process.poll() is not None or monotonic() > until, 60.0, "time to pass")


def clustered(job: Job, **settings: str) -> None:
    job.master = "local-cluster[2,1,800]"
    job.settings = {
        "spark.executor.memory": "800m",
        "spark.executorEnv.PYTHONPATH": f"{peers.ROOT}/src:{peers.ROOT}",
        **{name.replace("_", "."): text for name, text in settings.items()},
    }


@is_long
def test_a_killed_executor_costs_one_attempt_of_the_batch(
    tmp_path: Path, broker: peers.BrokerProcess
) -> None:
    job = Job(tmp_path, broker.bootstrap, "executor", "tasks", plan=["1:in-executor"], files=3)
    clustered(job)
    job.prepare()
    make_topic(job.bootstrap, job.topic)
    job.finish(deaths=0)
    found = found_in(job.bootstrap, job.topic)
    found.check(job.rows)
    assert found.aborted > 0, "the executor had written nothing"
    assert job.times_begun(1) == 2


@is_long
def test_a_slow_task_has_no_copies_though_speculation_is_on(
    tmp_path: Path, broker: peers.BrokerProcess
) -> None:
    job = Job(tmp_path, broker.bootstrap, "copies", "tasks", plan=["1:linger"], files=3)
    clustered(
        job, spark_speculation="true", spark_speculation_multiplier="1.1", spark_speculation_quantile="0.3"
    )
    job.prepare()
    make_topic(job.bootstrap, job.topic)
    job.finish(deaths=0)
    found_in(job.bootstrap, job.topic).check(job.rows)
    assert not (job.state / "refused").exists()
    assert job.times_begun(1) == 1
