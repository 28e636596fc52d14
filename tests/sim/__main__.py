"""`python -m tests.sim SEED [RUNS]`: simulated clusters, one for each seed, from SEED on.

Each runs the workload of `ottla.testing.workload` under faults, and is judged by `ottla.testing.checker`;
with --smoke it is the small story of `smoke.py`. A run that fails prints its timeline, what was broken, its
seed, the commit and the command that replays it. One run in twenty is repeated by another process of Python,
with other hashes of texts, and must leave the same trace.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

from ottla.testing.workload import tell
from ottla.testing.world import World
from tests.sim import smoke

REPEAT_EVERY = 20
TIMELINE_LINES = 200


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("runs", type=int, nargs="?", default=1)
    parser.add_argument("--seconds", type=float, default=300.0, help="virtual seconds of faults (300)")
    parser.add_argument("--faults", help="the faults, with commas between them; else the seed's")
    parser.add_argument("--smoke", action="store_true", help="the small story, several times as fast")
    parser.add_argument("--timeline", action="store_true", help="print the timeline of runs that pass too")
    parser.add_argument("--picture", metavar="FILE", help="draw the timeline (SVG) of the last seed")
    parser.add_argument("--hash", action="store_true", help="print the trace hash of one seed, and no more")
    options = parser.parse_args()
    if options.hash:
        print(_trace(options.seed, options))
        return 0
    failed = []
    for seed in range(options.seed, options.seed + options.runs):
        if not _run(seed, options):
            failed.append(seed)
    if failed:
        print(f"{len(failed)} of {options.runs} seeds failed: {', '.join(map(str, failed))}")
    return 1 if failed else 0


def _faults(options: argparse.Namespace) -> list[str] | None:
    if options.faults is None:
        return None
    return [name.strip() for name in options.faults.split(",") if name.strip()]


def _tell(world: World, options: argparse.Namespace) -> None:
    if options.smoke:
        smoke.run(world, seconds=options.seconds, faults=_faults(options))
        return
    outcome = tell(world, seconds=options.seconds, faults=_faults(options))
    if not outcome.is_right:
        raise smoke.Broken(outcome.report(timeline_lines=0))


def _run(seed: int, options: argparse.Namespace) -> bool:
    began = time.monotonic()
    with World(seed) as world:
        try:
            _tell(world, options)
        except Exception:  # noqa: BLE001 - shown, and counted
            print(world.history(TIMELINE_LINES))
            traceback.print_exc(file=sys.stdout)
            _say_failed(seed, options)
            return False
        finally:
            if options.picture is not None:
                Path(options.picture).write_text(world.picture())
        if options.timeline:
            print(world.history())
        spent, trace, now = time.monotonic() - began, world.trace_hash, world.now
    print(f"seed {seed}: right, {now:.0f} virtual s in {spent:.1f} s, trace {trace}", flush=True)
    if seed % REPEAT_EVERY == 0:
        return _repeats(seed, trace, options)
    return True


def _trace(seed: int, options: argparse.Namespace) -> str:
    with World(seed) as world:
        _tell(world, options)
        return world.trace_hash


def _repeats(seed: int, trace: str, options: argparse.Namespace) -> bool:
    command = [sys.executable, "-m", "tests.sim", str(seed), "--hash", "--seconds", str(options.seconds)]
    if options.smoke:
        command.append("--smoke")
    if options.faults is not None:
        command += ["--faults", options.faults]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed % 1000 + 1)}
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if again.stdout.strip() == trace:
        return True
    print(f"seed {seed}: another process has the trace {again.stdout.strip()}, not {trace}\n{again.stderr}")
    _say_failed(seed, options)
    return False


def _say_failed(seed: int, options: argparse.Namespace) -> None:
    given = f" --faults '{options.faults}'" if options.faults is not None else ""
    given += " --smoke" if options.smoke else ""
    print(f"FAILED: seed {seed}, commit {_commit()}")
    print(
        f"replay: python -m tests.sim {seed} --seconds {options.seconds:g}{given} --picture {seed}.svg",
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
