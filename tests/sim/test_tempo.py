"""Clients of long stories work in bursts."""

from __future__ import annotations

import random

from tests.sim.workload.tempo import ALWAYS_BUSY_S, Tempo


def test_a_short_story_is_busy_all_the_time() -> None:
    tempo = Tempo(random.Random(1), ALWAYS_BUSY_S, 15.0)
    assert all(tempo.quiet_s(at) == 0.0 for at in range(200))


def test_a_long_story_is_busy_in_bursts() -> None:
    for seed in range(20):
        tempo = Tempo(random.Random(seed), 300.0, 15.0)
        waits = [tempo.quiet_s(at / 10) for at in range(3000)]
        busy = sum(wait == 0.0 for wait in waits) / len(waits)
        assert 0.03 < busy < 0.5
        assert waits[0] == 0.0
        assert max(waits) < 60.0
        assert all(tempo.quiet_s(at / 10 + wait + 1e-6) == 0.0 for at, wait in enumerate(waits))


def test_a_burst_follows_the_faults() -> None:
    tempo = Tempo(random.Random(7), 300.0, 15.0)
    assert tempo.quiet_s(300.0) == 0.0
    assert tempo.quiet_s(310.0) == 5.0
    assert all(tempo.quiet_s(315.0 + more) == 0.0 for more in range(100))
