"""A workload like Jepsen's Kafka workload, in a simulated world, checked by the checker.

    outcome = run_story(7)
    assert outcome.is_right, outcome.report()

Production clients write (idempotently and in transactions), read (freely, and in groups of both protocols)
and process records exactly once, while a nemesis injects faults into nodes, disks, clocks and networks. Then
everything is repaired, all clients must finish and all replicas agree within a minute, and everything is read
from the beginning. The seed decides everything.
"""

from tests.sim.workload.recording import ReadLog, Recorder
from tests.sim.workload.story import HEALED_S_MAX, Outcome, Story, run_in, run_story

__all__ = ["HEALED_S_MAX", "Outcome", "ReadLog", "Recorder", "Story", "run_in", "run_story"]
