"""`python -m tests`: all tests, several parts of the tree at a time.

A part is a directory of tests or one module, and runs in a pytest process of its own, with ports, temporary
directories and peers of its own. `durations.tsv` says how long each module took on two cores: the parts that
take longest start first, and a directory that takes long is divided into its modules. A test that fails is
run once more at the end, with nothing beside it; one that fails twice fails the run.

    python -m tests                         everything
    python -m tests tests/unit              what is below these directories
    python -m tests tests/unit --quick      of that, the modules that take a few seconds at most
    python -m tests --workers 2 --record    two parts at a time; write durations.tsv anew
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.cluster.ports import FIRST, LAST

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
RESULTS = ROOT / "build" / "tests"
DURATIONS = TESTS / "durations.tsv"
WORKERS_PER_CORE = 2
"""Tests with real peers mostly wait."""
QUICK_SECONDS_MAX = 8.0
"""`--quick` leaves out the modules that take longer: most of them start several nodes."""
PART_SECONDS_MAX = 60.0
"""A directory that takes longer is divided into its modules."""
RETRIES_MAX = 5
"""If more tests fail than this, the change is at fault, not the machine."""
_NO_TESTS = 5  # pytest's exit code
_LOOK_INTERVAL_S = 0.1
_INTERRUPT_S = 120.0


@dataclass
class Part:
    """Modules that one pytest process runs, and what came of it."""

    name: str
    modules: list[Path]
    seconds_expected: float
    process: subprocess.Popen[bytes] | None = None
    worker: int = 0
    started_at: float = 0.0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    @property
    def results(self) -> Path:
        return RESULTS / self.name.replace("/", "-")

    @property
    def output(self) -> Path:
        return self.results / "output"

    def start(self, worker: int, workers: int) -> None:
        self.worker = worker
        self.results.mkdir(parents=True)
        command = [sys.executable, "-m", "pytest", "-q", "--durations=10"]
        command += ["-o", f"cache_dir={self.results / 'cache'}", f"--junitxml={self.results / 'junit.xml'}"]
        command += [str(module.relative_to(ROOT)) for module in self.modules]
        environment = os.environ | {"OTTLA_TEST_PORTS": ports_of(worker, workers)}
        self.started_at = time.monotonic()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=ROOT,
            )

    def interrupt(self) -> None:
        """End the process as Ctrl-C does, so that it ends the peers that it started."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(_INTERRUPT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def is_done(self) -> bool:
        """Whether the process has ended; its results are then read."""
        assert self.process is not None
        if self.process.poll() is None:
            return False
        self.seconds = time.monotonic() - self.started_at
        self._read_results(self.process.returncode)
        return True

    def _read_results(self, exit_code: int) -> None:
        last_failed = self.results / "cache" / "v" / "cache" / "lastfailed"
        if last_failed.exists():
            self.failed = list(json.loads(last_failed.read_text()))
        if exit_code not in (0, _NO_TESTS) and not self.failed:
            self.failed = [str(module.relative_to(ROOT)) for module in self.modules]  # the process crashed
        junit = self.results / "junit.xml"
        if junit.exists():
            for case in ElementTree.parse(junit).iter("testcase"):
                kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
                self.outcomes[kinds.pop() if kinds else "passed"] += 1

    def module_seconds(self) -> dict[str, float]:
        """How long the tests of each module took."""
        junit = self.results / "junit.xml"
        if not junit.exists():
            return {}
        by_module: dict[str, float] = {}
        names = {
            str(module.relative_to(ROOT)).removesuffix(".py").replace("/", "."): module
            for module in self.modules
        }
        for case in ElementTree.parse(junit).iter("testcase"):
            where = case.get("classname", "")
            found = next((name for name in names if where == name or where.startswith(f"{name}.")), None)
            if found is not None:
                module = str(names[found].relative_to(ROOT))
                by_module[module] = by_module.get(module, 0.0) + float(case.get("time", 0))
        return by_module


def ports_of(worker: int, workers: int) -> str:
    """A range of ports for each worker: a port that one has closed for a moment is not taken by another."""
    count = (LAST - FIRST) // workers
    return f"{FIRST + worker * count}-{FIRST + (worker + 1) * count - 1}"


def parts_below(
    places: Sequence[Path], durations: dict[str, float], module_seconds_max: float = math.inf
) -> list[Part]:
    """All parts below some directories or modules, the longest first."""
    directories: dict[str, list[Path]] = {}
    for module in sorted({module for place in places for module in _modules(place)}):
        if durations.get(str(module.relative_to(ROOT)), 1.0) > module_seconds_max:
            continue
        directories.setdefault(_directory_of(module), []).append(module)
    parts = []
    for directory, modules in directories.items():
        seconds = {module: durations.get(str(module.relative_to(ROOT)), 1.0) for module in modules}
        rest = list(modules)
        if sum(seconds.values()) > PART_SECONDS_MAX:
            for module in sorted(modules, key=lambda one: -seconds[one]):
                if sum(seconds[one] for one in rest) <= PART_SECONDS_MAX or len(rest) == 1:
                    break
                rest.remove(module)
                name = str(module.relative_to(TESTS)).removesuffix(".py")
                parts.append(Part(name, [module], seconds[module]))
        parts.append(Part(directory, rest, sum(seconds[one] for one in rest)))
    return sorted(parts, key=lambda part: (-part.seconds_expected, part.name))


def _modules(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("test_*.py"))


def _directory_of(module: Path) -> str:
    """The first two names below `tests`: unit/log, interop/spark; one for sim, chaos and the like."""
    names = module.relative_to(TESTS).parts[:-1]
    return "/".join(names[:2]) if names[0] in ("unit", "interop") else names[0]


def read_durations() -> dict[str, float]:
    if not DURATIONS.exists():
        return {}
    lines = (line.split("\t") for line in DURATIONS.read_text().splitlines())
    return {module: float(seconds) for module, seconds in lines}


class Run:
    """Parts, a few at a time."""

    def __init__(self, parts: Sequence[Part], workers: int) -> None:
        self._waiting = list(parts)
        self._running: list[Part] = []
        self._workers = workers
        self._count = len(parts)
        self.done: list[Part] = []

    def run(self) -> None:
        try:
            while self._waiting or self._running:
                self._fill()
                time.sleep(_LOOK_INTERVAL_S)
                for part in [one for one in self._running if one.is_done()]:
                    self._running.remove(part)
                    self.done.append(part)
                    self._tell(part)
        finally:
            for part in self._running:
                part.interrupt()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._workers:
            taken = {part.worker for part in self._running}
            worker = next(number for number in range(self._workers) if number not in taken)
            part = self._waiting.pop(0)
            part.start(worker, self._workers)
            self._running.append(part)

    def _tell(self, part: Part) -> None:
        counts = ", ".join(f"{part.outcomes[kind]} {kind}" for kind in sorted(part.outcomes))
        place = f"{len(self.done)}/{self._count}"
        line = f"{time.strftime('%H:%M:%S')} {place:>8}  {part.name:<44} {part.seconds:4.0f} s"
        print(line, counts or "no tests", "FAILED" if part.failed else "", flush=True)
        if part.failed:
            print(part.output.read_text(errors="replace"), flush=True)


def _report(parts: Sequence[Part], seconds: float) -> list[str]:
    """Print the sums; the tests that failed."""
    outcomes: Counter[str] = sum((part.outcomes for part in parts), Counter())
    reasons = Counter(
        reason
        for part in parts
        for reason in re.findall(
            r"^SKIPPED \[\d+\] (.*)$", part.output.read_text(errors="replace"), re.MULTILINE
        )
    )
    for reason in sorted(reasons):
        print(f"skipped: {reason}")
    counts = ", ".join(f"{outcomes[kind]} {kind}" for kind in sorted(outcomes))
    print(f"{len(parts)} parts in {seconds / 60:.1f} min: {counts}", flush=True)
    return [test for part in parts for test in part.failed]


def _write_durations(parts: Sequence[Part]) -> None:
    known = {module: seconds for module, seconds in read_durations().items() if (ROOT / module).exists()}
    for part in parts:
        known.update(part.module_seconds())
    lines = [f"{module}\t{seconds:.1f}\n" for module, seconds in sorted(known.items()) if seconds >= 0.5]
    DURATIONS.write_text("".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="*", type=Path, default=[TESTS], help="directories or modules")
    parser.add_argument("--workers", type=int, default=WORKERS_PER_CORE * (os.cpu_count() or 1))
    parser.add_argument(
        "--record", action="store_true", help="write how long each module took to durations.tsv"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"leave out modules that take longer than {QUICK_SECONDS_MAX:g} s",
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    shutil.rmtree(RESULTS, ignore_errors=True)
    begun = time.monotonic()
    places = [place.resolve() for place in options.places]
    seconds_max = QUICK_SECONDS_MAX if options.quick else math.inf
    run = Run(parts_below(places, read_durations(), seconds_max), options.workers)
    run.run()
    failed = _report(run.done, time.monotonic() - begun)
    if options.record:
        _write_durations(run.done)
    if not failed:
        return 0
    print(f"{len(failed)} tests failed:", *failed, sep="\n  ", flush=True)
    if len(failed) > RETRIES_MAX:
        return 1
    print("They run once more, with nothing beside them.", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", *failed], check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
