"""Killed drivers, workers, brokers and zombies: what is in the topic at the end is there once, and all of it.

Each test drives one query through several deaths at chosen steps, since a driver takes seconds to start. It
shows that the step was met: those who read uncommitted records see more, or a driver found the batch done.
The long forms (`OTTLA_TEST_KILLS=12`) kill at random.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client.admin import Admin, NewTopic
from ottla.testing import Cluster
from tests.interop import peers
from tests.interop.spark.sink_names import BUILT_HERE
from tests.interop.spark.sinks import Job, found_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3


def make_topic(bootstrap: str, topic: str, replicas: int = 1) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, replicas)]).all()


STEPS = ["0:in-task", "0:before-prepare", "1:after-prepare", "1:before-marker", "2:before-end", "3:after-end"]


IN_TURN = "2:in-turn"
"""A worker dies while it has the turn at a partition, before the driver dies in the same batch."""


@pytest.mark.parametrize("kind", ["ottla", "kafka"])
@pytest.mark.parametrize("sink", ["tasks", "shuffle", "small", "format"])
def test_each_row_is_written_once_whatever_step_the_driver_dies_at(
    kind: str, sink: str, tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    node: peers.BrokerProcess = request.getfixturevalue("broker" if kind == "ottla" else "kafka")
    is_whole = kind == "ottla" and sink in ("tasks", "shuffle")
    plan = [*(STEPS if is_whole else STEPS[3:]), *([IN_TURN] if sink == "tasks" else [])]
    job = Job(tmp_path, node.bootstrap, f"steps-{kind}-{sink}", sink, plan=plan)
    job.rows_per_file = 2000 if sink == "small" else job.rows_per_file  # few enough for the driver alone
    job.prepare()
    make_topic(job.bootstrap, job.topic)
    deaths = job.finish_here(spark)
    found = found_in(job.bootstrap, job.topic)
    found.check(job.rows)
    driver_deaths = [step for step in plan if step not in (STEPS[0], IN_TURN)]
    assert deaths == len(driver_deaths), "a worker's death alone is the sink's own to mend"
    assert found.aborted >= 2 * job.rows_per_file, "the batches that died before their end were not seen"
    assert job.times_begun(0) == 1 + is_whole, "the batch of the worker that died was not tried again"
    assert job.times_begun(2) == 2 + (sink == "tasks"), "the batch of the broken turn was not tried again"
    assert job.was_skipped(3), "the driver died after the end of batch 3, and its heir did not find it done"
    if sink == "small":
        assert (job.state / BUILT_HERE).exists(), "tasks have built all batches"


def test_a_driver_that_is_killed_with_its_jvm_leaves_each_row_once(
    tmp_path: Path, broker: peers.BrokerProcess
) -> None:
    plan = ["0:in-task", "1:before-end", "2:after-end"]
    job = Job(tmp_path, broker.bootstrap, "killed", "tasks", plan=plan, files=3)
    job.prepare()
    make_topic(job.bootstrap, job.topic)
    job.finish(deaths=2)
    found = found_in(job.bootstrap, job.topic)
    found.check(job.rows)
    assert found.aborted > job.rows_per_file, "what the worker and the first driver wrote was not seen"
    assert job.was_skipped(2)


@pytest.mark.parametrize("sink", ["tasks", "shuffle"])
def test_a_zombie_task_is_fenced_and_a_broker_may_die_too(sink: str, tmp_path: Path) -> None:
    with Cluster(3) as cluster:
        job = Job(tmp_path, cluster.bootstrap_servers, "zombie", sink, plan=["1:zombie"])
        job.prepare()
        make_topic(job.bootstrap, job.topic, replicas=3)
        zombie = job.state / "zombie.pid"
        first = job.start()
        try:
            peers.wait_until(
                lambda: zombie.exists() or first.poll() is not None, 240, "a task that outlives its driver"
            )
            assert zombie.exists(), job.told("the driver ended before its time")
            job.kill(first)
            cluster.kill(2)
            job.finish(deaths=0)
            (job.state / "zombie.go").touch()
            peers.wait_until((job.state / "zombie.told").exists, 240, "the zombie to go on")
        finally:
            job.kill(first)
            if zombie.exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(zombie.read_text()), signal.SIGKILL)
        verdict = (job.state / "zombie.told").read_text()
        assert "owner of the transaction ended it" in verdict or "has fenced this one" in verdict, verdict
        found = found_in(job.bootstrap, job.topic)
        found.check(job.rows)
        assert found.aborted > 0, "the zombie had written nothing"


def test_a_batch_that_outlasts_its_transaction_says_what_to_raise_and_the_next_run_writes_it(
    tmp_path: Path, spark: SparkSession, broker: peers.BrokerProcess
) -> None:
    job = Job(tmp_path, broker.bootstrap, "outlasted", "tasks", plan=["0:outlast"], files=1)
    job.client = {"transaction.timeout.ms": "3000"}
    job.prepare()
    make_topic(job.bootstrap, job.topic)
    died_of = job.run_here(spark)
    assert died_of is not None
    assert "Raise kafka.transaction.timeout.ms" in died_of
    job.client = {}
    assert job.run_here(spark) is None
    found = found_in(job.bootstrap, job.topic)
    found.check(job.rows)
    assert found.aborted > 0, "nothing was written before the transaction was aborted"


def test_the_stock_sink_writes_twice_where_a_task_dies(
    tmp_path: Path, spark: SparkSession, broker: peers.BrokerProcess
) -> None:
    job = Job(tmp_path, broker.bootstrap, "control", "stock", plan=["1:stock-task"], files=2)
    job.prepare()
    make_topic(job.bootstrap, job.topic)
    assert job.finish_here(spark) == 1
    assert found_in(job.bootstrap, job.topic).duplicates > 0
