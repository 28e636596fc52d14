"""Each of five nodes is killed in turn, under a load that knows what must come of it.

OTTLA_TEST_ROUNDS says how often the turn goes round (once unless told).
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.interop.cluster.load import TOPICS, Load, create_topics
from tests.interop.cluster.nodes import Five
from tests.interop.cluster.watching import Watch, wait_until_equal

ROUNDS = int(os.environ.get("OTTLA_TEST_ROUNDS", "1"))


def test_each_node_is_killed_in_turn_and_nothing_acknowledged_is_lost_doubled_or_reordered(
    tmp_path: Path,
) -> None:
    with Five(tmp_path) as five:
        create_topics(five.bootstrap)
        five.wait_until_whole(TOPICS)
        load, watch = Load(five.bootstrap), Watch(five, TOPICS)
        with load, watch:
            for victim in [*five.nodes] * ROUNDS:
                load.wait_for_progress()
                five.nodes[victim].kill()
                load.wait_for_progress()
                load.check_committed()
                five.start(victim)
                five.wait_until_whole(TOPICS)
            load.wait_for_progress()
            load.finish()
        print(load.check())
        wait_until_equal(five, TOPICS)
        print(f"{watch.check()} leader epochs seen")
