"""`python -m tests.sim SEED [RUNS]`: simulates a cluster for each seed, from SEED on.

Each run executes the workload of `tests.sim.workload` under faults, and `tests.sim.checker` checks its
history; with --smoke it is the small story of `smoke.py`. A run that fails prints its timeline, the faults,
its seed, the commit and the command that replays it, and draws the timeline. One run in twenty is repeated in
another Python process with another hash seed, and must leave the same trace. Many runs must not need more
memory than a few, which reveals leaks in nodes and clients.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path

from ottla.testing.world import World
from tests.sim import smoke
from tests.sim.scenarios import SCENARIOS, Scenario, of_seed
from tests.sim.workload import run_in
from tests.sim.workload.story import CALM_S

REPEAT_EVERY = 20
TIMELINE_LINES = 200
MEMORY_RUNS = 10
OBJECTS_GROWTH_MAX = 30_000
"""After a run its objects are freed: this many more Python objects than after the first runs are a leak. One
cluster has several times as many."""
MEMORY_BYTES_MAX = 2 << 30
"""Worlds do not collect garbage while they run, so one needs some hundred MiB, which the process keeps."""


class _List(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        for scenario in SCENARIOS.values():
            print(f"{scenario.number:3}  {scenario.name:<32} {scenario.text}")
        parser.exit()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("runs", type=int, nargs="?", default=1)
    parser.add_argument("--seconds", type=float, default=300.0, help="virtual seconds of faults (300)")
    parser.add_argument("--calm", type=float, default=CALM_S, help=f"seconds after the healing ({CALM_S:g})")
    parser.add_argument("--faults", help="the faults, with commas between them; else the seed's")
    parser.add_argument(
        "--scenario", help="one of --list, by name or number; 'seed': each seed has the one that is its turn"
    )
    parser.add_argument("--list", action=_List, help="print the scenarios, and no more")
    parser.add_argument("--smoke", action="store_true", help="the small story, several times as fast")
    parser.add_argument("--timeline", action="store_true", help="print the timeline of runs that pass too")
    parser.add_argument(
        "--picture", metavar="FILE", help="draw the timeline (SVG) here, also of a run that passes"
    )
    parser.add_argument("--hash", action="store_true", help="print the trace hash of one seed, and no more")
    options = parser.parse_args()
    if options.scenario not in (None, "seed", *SCENARIOS):
        named = [one.name for one in SCENARIOS.values() if str(one.number) == options.scenario]
        if not named:
            parser.error(f"There is no scenario {options.scenario!r}: see --list.")
        options.scenario = named[0]
    if options.hash:
        print(_trace(options.seed, options))
        return 0
    failed = []
    memory = Memory()
    for seed in range(options.seed, options.seed + options.runs):
        if not _run(seed, options):
            failed.append(seed)
        if not memory.is_bounded():
            print(f"FAILED: after seed {seed} the process has {memory}")
            failed.append(seed)
            break
    if failed:
        print(f"{len(failed)} of {options.runs} seeds failed: {', '.join(map(str, failed))}")
    elif options.runs > 1:
        print(f"{options.runs} seeds of {options.seconds:g} virtual seconds: all right, {memory}")
    return 1 if failed else 0


class Memory:
    """The memory of this process after each run, and its maximum."""

    def __init__(self) -> None:
        self._runs = 0
        self._first_objects = 0
        self._objects = 0
        self._bytes = 0

    def is_bounded(self) -> bool:
        gc.collect()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._bytes = most if sys.platform == "darwin" else most * 1024
        self._objects = len(gc.get_objects())
        self._runs += 1
        if self._runs <= MEMORY_RUNS:
            self._first_objects = max(self._first_objects, self._objects)
        has_grown = self._objects > self._first_objects + OBJECTS_GROWTH_MAX
        return not has_grown and self._bytes <= MEMORY_BYTES_MAX

    def __str__(self) -> str:
        first = f"{self._first_objects} at most after the first {min(self._runs, MEMORY_RUNS)} runs"
        return f"{self._bytes >> 20} MiB at most and {self._objects} objects, {first}"


def _faults(options: argparse.Namespace) -> list[str] | None:
    if options.faults is None:
        return None
    return [name.strip() for name in options.faults.split(",") if name.strip()]


def _scenario(seed: int, options: argparse.Namespace) -> Scenario | None:
    if options.scenario == "seed":
        return of_seed(seed)
    return None if options.scenario is None else SCENARIOS[options.scenario]


def _run_story(world: World, options: argparse.Namespace) -> None:
    if options.smoke:
        smoke.run(world, seconds=options.seconds, faults=_faults(options))
        return
    outcome = run_in(
        world,
        seconds=options.seconds,
        faults=_faults(options),
        scenario=_scenario(world.seed, options),
        calm_s=options.calm,
    )
    if not outcome.is_right:
        raise smoke.Broken(outcome.report(timeline_lines=0))


def _run(seed: int, options: argparse.Namespace) -> bool:
    began = time.process_time()
    with World(seed) as world:
        try:
            _run_story(world, options)
        except Exception:  # noqa: BLE001 - printed, and counted
            print(world.history(TIMELINE_LINES))
            traceback.print_exc(file=sys.stdout)
            drawn = Path(options.picture or f"sim-{seed}.svg")
            drawn.write_text(world.picture())
            _print_failure(seed, options)
            print(f"picture: {drawn}", flush=True)
            return False
        if options.picture is not None:
            Path(options.picture).write_text(world.picture())
        if options.timeline:
            print(world.history())
        spent, trace, now = time.process_time() - began, world.trace_hash, world.now
    print(f"seed {seed}: right, {now:.0f} virtual s in {spent:.1f} s of CPU, trace {trace}", flush=True)
    if seed % REPEAT_EVERY == 0:
        return _repeats(seed, trace, options)
    return True


def _trace(seed: int, options: argparse.Namespace) -> str:
    with World(seed) as world:
        _run_story(world, options)
        return world.trace_hash


def _repeats(seed: int, trace: str, options: argparse.Namespace) -> bool:
    command = [sys.executable, "-m", "tests.sim", str(seed), "--hash", "--seconds", str(options.seconds)]
    if options.smoke:
        command.append("--smoke")
    if options.faults is not None:
        command += ["--faults", options.faults]
    if options.scenario is not None:
        command += ["--scenario", options.scenario]
    command += ["--calm", str(options.calm)]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed % 1000 + 1)}
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if again.stdout.strip() == trace:
        return True
    print(f"seed {seed}: another process has the trace {again.stdout.strip()}, not {trace}\n{again.stderr}")
    _print_failure(seed, options)
    return False


def _print_failure(seed: int, options: argparse.Namespace) -> None:
    given = f" --faults '{options.faults}'" if options.faults is not None else ""
    given += f" --scenario '{options.scenario}'" if options.scenario is not None else ""
    given += f" --calm {options.calm:g}" if options.calm != CALM_S else ""
    given += " --smoke" if options.smoke else ""
    print(f"FAILED: seed {seed}, commit {_commit()}")
    print(
        f"replay: python -m tests.sim {seed} --seconds {options.seconds:g}{given}",
        flush=True,
    )


def _commit() -> str:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
