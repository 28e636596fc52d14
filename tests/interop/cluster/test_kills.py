"""Nodes are killed, one after the other and all at once, under a load that checks its own results.

OTTLA_TEST_ROUNDS says how often (default: once); every other time nodes are stopped, not killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.interop.cluster.load import TOPICS, Load, create_topics
from tests.interop.cluster.nodes import Five
from tests.interop.cluster.watching import Watch, wait_until_equal

ROUNDS = int(os.environ.get("OTTLA_TEST_ROUNDS", "1"))


def under_load(directory: Path, fault: Callable[[Five, Load], None]) -> None:
    with Five(directory) as five:
        create_topics(five.bootstrap)
        five.wait_until_in_sync(TOPICS)
        load, watch = Load(five.bootstrap), Watch(five, TOPICS)
        with load, watch:
            load.wait_for_progress()
            fault(five, load)
            load.wait_for_progress()
            load.finish()
        print(load.check())
        wait_until_equal(five, TOPICS)
        print(f"{watch.check()} leader epochs seen")


def test_each_node_is_killed_in_turn_and_nothing_acknowledged_is_lost_doubled_or_reordered(
    tmp_path: Path,
) -> None:
    def in_turn(five: Five, load: Load) -> None:
        for number in range(ROUNDS):
            for node in five.nodes.values():
                if number % 2:
                    assert node.stop() == 0
                else:
                    node.kill()
                load.wait_for_progress()
                load.check_committed()
                five.start(node.node_id)
                five.wait_until_in_sync(TOPICS)
                load.wait_for_progress()

    under_load(tmp_path, in_turn)


def test_all_nodes_are_killed_at_once_and_nothing_acknowledged_is_lost_doubled_or_reordered(
    tmp_path: Path,
) -> None:
    def at_once(five: Five, load: Load) -> None:
        for _ in range(ROUNDS):
            for node in five.nodes.values():
                node.kill()
            five.start()
            five.wait_until_in_sync(TOPICS)
            load.wait_for_progress()
            load.check_committed()

    under_load(tmp_path, at_once)
