"""A run of `make chaos`: rounds of random faults under load, each repaired and checked, on one cluster.

The seed determines the faults, their order and duration, and the clients' records. Time is real here, so the
same seed gives the same plan but not the same run: the timeline has what happened.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from tests.chaos.chaos_cluster import ChaosCluster, FourNodes
from tests.chaos.cpu_waits import STARVED, CpuWaits
from tests.chaos.disks import SmallDisk, small_disk, strace, why_no_small_disk
from tests.chaos.faults import Faults
from tests.chaos.load import Load
from tests.chaos.timeline import Timeline
from tests.interop import peers
from tests.sim.checker import Anomaly

ROUND_S = 150.0
SMALL_DISK_BYTES = 256 << 20
SMALL_DISK_NODE = 3
RESIDENT_MB_MAX = 600
PROGRESS_S = 10.0
FEW = 5
_TRACEBACK = re.compile(r"^.*Traceback \(most recent call last\)", re.MULTILINE)
_FIGURES = {
    "records": "records acknowledged",
    "unknown": "records of unknown outcome",
    "records read": "records read",
    "transactions": "transactions committed",
    "aborted": "transactions aborted",
    "client kills": "clients killed",
    "zombies": "clients that stood still",
}


@dataclass
class Report:
    """The results of a run."""

    seed: int
    minutes: float = 0.0
    rounds: int = 0
    figures: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    skipped: dict[str, str] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)
    resident_mb: int = 0
    healed_s: float = 0.0  # the longest time from a repair until all clients finished
    machine: CpuWaits = field(default_factory=CpuWaits)
    is_interrupted: bool = False  # interrupted: the last round was not checked

    def table(self) -> str:
        rows = [("seed", self.seed), ("minutes", f"{self.minutes:.1f}"), ("rounds", self.rounds)]
        rows += [(text, self.figures[name]) for name, text in _FIGURES.items()]
        rows += [(f"fault: {name}", count) for name, count in sorted(self.faults.items())]
        rows += [(f"fault: {name}", f"left out: {why}") for name, why in self.skipped.items()]
        rows += [("faults", self.faults.total()), ("largest node, MB", self.resident_mb)]
        rows += [("slowest healing, s", f"{self.healed_s:.0f}")]
        rows += self.machine.rows()
        rows += [("ended early", "the last round was not judged")] if self.is_interrupted else []
        rows += [("anomalies", len(self.anomalies))]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


class Run:
    """The run. After an interruption (KeyboardInterrupt) it returns the report so far."""

    def __init__(self, directory: Path, seed: int, *, share: float, only: list[str] | None = None) -> None:
        self.directory, self.seed, self._share = directory, seed, share
        self._only = only
        self.timeline = Timeline()
        self.report = Report(seed)
        self._state = "starting"
        self._ground: ChaosCluster | None = None
        self._load: Load | None = None
        self._faults: Faults | None = None

    def run(self, seconds: float, round_s: float = ROUND_S, plan: list[str] | None = None) -> Report:
        """Run for so long, in rounds. With a `plan` there is one round, of these faults."""
        began = time.monotonic()
        telling = threading.Event()
        length = f" of {seconds:.0f}" if plan is None else ""
        teller = threading.Thread(target=self._report_progress, args=(telling, length), daemon=True)
        teller.start()
        try:
            with contextlib.ExitStack() as stack:
                cluster = FourNodes(self.directory, timeline=self.timeline)
                stack.enter_context(contextlib.closing(cluster))
                disks = self._mount(cluster, stack)
                stack.enter_context(cluster)
                self._ground = cluster
                stack.callback(self._keep, disks)
                if plan is not None:
                    self._round(cluster, disks, inf, plan)
                while not self.report.anomalies and (left := seconds - (time.monotonic() - began)) > 0:
                    self._round(cluster, disks, min(round_s, max(left, 20.0)))
                    self.report.minutes = (time.monotonic() - began) / 60
        except Exception as error:  # noqa: BLE001 - an error that ends the run is an anomaly
            self.report.anomalies.append(Anomaly("not alive", f"{self._state}: {error!r}"))
        except KeyboardInterrupt:
            self._interrupt()
        finally:
            telling.set()
            teller.join()
        self.report.minutes = (time.monotonic() - began) / 60
        return self.report

    def _interrupt(self) -> None:
        self.report.is_interrupted = True
        if self._load is not None and self._faults is not None:
            self.report.figures += self._load.figures()
            self.report.faults += self._faults.counts
            self._load = self._faults = None

    def _mount(self, cluster: ChaosCluster, stack: contextlib.ExitStack) -> dict[int, SmallDisk]:
        reason = why_no_small_disk()
        if reason is None:
            try:
                path = cluster.nodes[SMALL_DISK_NODE].data
                return {SMALL_DISK_NODE: stack.enter_context(small_disk(path, SMALL_DISK_BYTES))}
            except peers.PeerMissing as error:
                reason = str(error)
        self.report.skipped["full disk"] = reason
        return {}

    def _keep(self, disks: dict[int, SmallDisk]) -> None:
        """Copy the files of a temporary file system if they are needed for a diagnosis."""
        if self.report.anomalies:
            for disk in disks.values():
                disk.make_room()
                shutil.copytree(disk.path, disk.path.with_name("data-kept"), dirs_exist_ok=True)

    def _may_trace(self) -> bool:
        try:
            strace()
        except peers.PeerMissing as error:
            self.report.skipped |= dict.fromkeys(("failing fsync", "slow disk"), str(error))
            return False
        return True

    def _round(
        self,
        cluster: ChaosCluster,
        disks: dict[int, SmallDisk],
        seconds: float,
        given: list[str] | None = None,
    ) -> None:
        number = self.report.rounds
        self.report.rounds += 1
        self.timeline.note("faults", f"round {number}")
        rng = random.Random(f"{self.seed}/{number}")
        load = self._load = Load(cluster, f"{self.seed}/{number}", name=str(number), share=self._share)
        coordinated = [(0, group) for group in load.groups] + [(1, name) for name in load.transactional_ids]
        faults = Faults(cluster, rng, load.topics, disks, self._may_trace(), coordinated)
        self._faults = faults
        self._state = "beginning a round"
        load.begin()
        load.wait_for_progress(records=20, transactions=1)
        end = time.monotonic() + seconds
        plan = list(reversed(given or []))
        try:
            while time.monotonic() < end and (plan or given is None):
                if not plan:  # each kind once in random order, then again
                    plan = [name for name in faults.names() if self._only is None or name in self._only]
                    rng.shuffle(plan)
                self._state = plan.pop()
                faults.one(self._state)
                time.sleep(rng.uniform(0.0, 3.0))  # the load continues meanwhile
            self._state = "healing"
            faults.repair()
        except Exception as error:  # noqa: BLE001 - the clients are checked all the same
            self.report.anomalies.append(Anomaly("not alive", f"{self._state}: {error}"))
            with contextlib.suppress(Exception):
                faults.repair()
        self._state = "judging"
        with cluster.kept_running():
            self._judge(cluster, load, faults)

    def _judge(self, cluster: ChaosCluster, load: Load, faults: Faults) -> None:
        found = load.finish()
        self.report.figures += load.figures()
        self.report.faults += faults.counts
        self.report.anomalies += found
        self.report.healed_s = max(self.report.healed_s, load.healed_s)
        self.report.anomalies += self._unhandled(cluster)
        self.report.resident_mb = max(self.report.resident_mb, *_resident_mb(cluster))
        if self.report.resident_mb > RESIDENT_MB_MAX:
            self.report.anomalies.append(Anomaly("memory", f"a node has {self.report.resident_mb} MB"))
        for anomaly in first_of_each_kind(found):
            self.timeline.note("judge", f"ERROR {anomaly}"[:300])
        self._load = self._faults = None
        if not self.report.anomalies:
            load.forget()

    def _unhandled(self, cluster: ChaosCluster) -> list[Anomaly]:
        """Unexpected exceptions in nodes."""
        found = []
        for node_id, node in cluster.nodes.items():
            text = node.log_file.read_text(errors="replace") if node.log_file.exists() else ""
            for match in _TRACEBACK.finditer(text):
                found.append(Anomaly("unhandled", f"node {node_id}: {text[match.start() :][:2000]}"))
        return found

    def _report_progress(self, is_over: threading.Event, length: str) -> None:
        began = time.monotonic()
        while not is_over.wait(PROGRESS_S):
            self._sample_cpu_waits()
            now = self.report.figures + (self._load.figures() if self._load is not None else Counter())
            broken = self.report.faults + (self._faults.counts if self._faults is not None else Counter())
            print(
                f"{time.monotonic() - began:5.0f}{length} s  round {self.report.rounds}  "
                f"{now['records']} records  "
                f"{now['transactions']} transactions  {now['records read']} read  {broken.total()} faults  "
                f"{len(self.report.anomalies)} anomalies  now: {self._state}",
                flush=True,
            )

    def _sample_cpu_waits(self) -> None:
        if self._ground is None:
            return
        for name, share in self.report.machine.sample(self._ground.process_ids()).items():
            if share > STARVED:
                self.timeline.note("machine", f"{name} waited for a CPU, {share:.0%} of {PROGRESS_S:.0f} s")


def first_of_each_kind(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """The first few of each kind: one fault may affect hundreds of records."""
    seen: Counter[str] = Counter()
    found = []
    for one in anomalies:
        seen[one.kind] += 1
        if seen[one.kind] <= FEW:
            found.append(one)
    return found


def _resident_mb(cluster: ChaosCluster) -> list[int]:
    found = [0]
    for node in cluster.nodes.values():
        with contextlib.suppress(OSError, AssertionError):
            pages = int(Path(f"/proc/{node.pid}/statm").read_text().split()[1])
            found.append(pages * 4096 >> 20)
    return found
