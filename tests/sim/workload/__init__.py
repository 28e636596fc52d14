"""A workload in the manner of Jepsen's Kafka workload, in a simulated world, judged by the checker.

    outcome = run_story(7)
    assert outcome.is_right, outcome.report()

Production clients write (idempotent and in transactions), read (freely, in groups of both protocols) and turn
records into others exactly once, while a nemesis breaks nodes, disks, clocks and networks. Then everything is
mended, all clients must finish and all replicas agree within a minute, and everything is read from the
beginning. The seed decides all of it.
"""

from tests.sim.workload.recording import ReadLog, Recorder
from tests.sim.workload.story import HEALED_S_MAX, Outcome, Story, run_story, tell

__all__ = ["HEALED_S_MAX", "Outcome", "ReadLog", "Recorder", "Story", "run_story", "tell"]
