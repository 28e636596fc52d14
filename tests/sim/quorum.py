"""`python -m tests.sim.quorum [SEEDS] [FIRST]`: simulated quorums, half of them dynamic and half static.

The quorums are those of `tests/unit/raft/simulation.py`: replicas of ottla.raft without brokers, with lost,
late and repeated messages, cuts, crashes, slow disks, and changing voters.
"""

from __future__ import annotations

import sys
import time
import traceback

from tests.unit.raft.simulation import World


def run(seed: int) -> None:
    """Run a seed; raises `Broken`, which names the seed, if an invariant fails."""
    if seed % 2 == 0:
        World(seed).run()
    else:
        World(seed, is_static=True, voters=3 if seed % 4 == 1 else 5).run()


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.process_time()
    failed = []
    for seed in range(first, first + count):
        try:
            run(seed)
        except Exception:  # noqa: BLE001 - printed, and counted
            traceback.print_exc(file=sys.stdout)
            print(f"FAILED: quorum {seed}\nreplay: python -m tests.sim.quorum 1 {seed}", flush=True)
            failed.append(seed)
    spent = time.process_time() - began
    how = f"{len(failed)} failed: {', '.join(map(str, failed))}" if failed else "all right"
    print(f"{count} quorums in {spent:.0f} s of CPU: {how}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
