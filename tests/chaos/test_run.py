"""A short `make chaos` in CI: one round with most kinds of faults, in a fixed plan.

OTTLA_TEST_CHAOS_MINUTES=10 runs random faults for so long instead; OTTLA_TEST_SEED sets the seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ottla.testing.world.world import Event
from tests.chaos.cpu_waits import CpuWaits
from tests.chaos.faults import KINDS
from tests.chaos.run import Report, Run, first_of_each_kind
from tests.chaos.timeline import Timeline
from tests.sim.checker import Anomaly

MINUTES = float(os.environ.get("OTTLA_TEST_CHAOS_MINUTES", "0"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "7"))
PLAN = [
    "pause",
    "kill leader repeatedly",
    "move partitions",
    "clients cut off",
    "kill all",
    "resets",
    "rolling restart",
    "kill coordinator",
]


def test_random_faults_break_no_guarantee(tmp_path: Path) -> None:
    run = Run(tmp_path, SEED, share=0.4)
    report = run.run(MINUTES * 60, plan=None if MINUTES else PLAN)
    print(report.table())
    shown = "\n".join([run.timeline.text(150), *map(str, report.anomalies[:20])])
    assert not report.anomalies, f"seed {SEED}:\n{shown}"
    assert report.figures["records"] > 0
    assert report.figures["transactions"] > 0
    assert set(report.faults) <= set(KINDS)


def test_a_timeline_is_drawn_with_a_lane_for_each_node() -> None:
    timeline = Timeline()
    for what in ("starts", "serves", "killed", "starts", "serves"):
        timeline.note("node-1", what)
    timeline.note("faults", "begin: kill")
    drawn = timeline.picture("chaos, seed 1")
    assert "node-1" in drawn
    assert drawn.startswith("<svg")
    assert [event.what for event in timeline.events if isinstance(event, Event)][-1] == "begin: kill"
    assert timeline.text(1).endswith("begin: kill")


def test_cpu_waits_are_measured() -> None:
    machine = CpuWaits()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    processes = {"clients": os.getpid(), "nodes/1": ended.pid}
    assert machine.sample(processes) == {}, "nobody was there before"
    found = machine.sample(processes)
    if not Path("/proc/self/schedstat").exists():
        assert not found, "it is known on Linux alone"
        return
    assert list(found) == ["clients"]
    assert 0.0 <= found["clients"] <= 1.0
    assert [name for name, _ in machine.rows()] == ["clients waited for a CPU"]


def test_the_first_anomalies_of_each_kind_are_shown() -> None:
    found = [Anomaly("skipped", str(number)) for number in range(300)] + [Anomaly("lost write", "one")]
    shown = first_of_each_kind(found)
    assert [one.kind for one in shown] == ["skipped"] * 5 + ["lost write"]


def test_a_report_has_a_row_for_each_kind_of_fault() -> None:
    report = Report(7, minutes=1.5, rounds=1)
    report.faults["kill"] += 2
    report.skipped["full disk"] = "only root may mount a tmpfs"
    lines = report.table().splitlines()
    assert any(line.split() == ["fault:", "kill", "2"] for line in lines)
    assert any("left out: only root may mount" in line for line in lines)
    assert lines[-1].split() == ["anomalies", "0"]
    report.is_interrupted = True
    assert "ended early" in report.table()
