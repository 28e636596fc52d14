"""Large and repetitive requests of a few APIs against a node process; `python -m tests.load.sweep` has all.

No turn of the loop takes much of the processor time that a request needs: before requests were worked on in
slices, each of these had most of its seconds in one turn, or took gigabytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.load.sweep.node import LONG_TURN_MS
from tests.load.sweep.run import Other, SweptNode, measure, swept_node
from tests.load.sweep.shapes import Shape

IS_LONG = bool(os.environ.get("OTTLA_TEST_LONG"))
COUNT = 100_000 if IS_LONG else 20_000
SHARE = 1.0 if IS_LONG else 0.1
TURN_SHARE_MAX = 0.25
"""Of the processor time of a request that needs more than a turn should. A slow machine makes both larger."""
GROWN_BYTES_MAX = 128 << 20

SHAPES = [
    Shape(0, 13, ("topic_data",), False, COUNT),
    Shape(0, 13, ("topic_data",), True, COUNT),
    Shape(1, 18, ("topics",), True, COUNT),
    Shape(1, 18, ("forgotten_topics_data",), True, COUNT),
    Shape(2, 11, ("topics",), True, COUNT),
    Shape(9, 9, ("groups", "topics", "partition_indexes"), False, COUNT),
    Shape(9, 9, ("groups",), False, COUNT),
    Shape(9, 10, ("groups",), True, COUNT),
    Shape(10, 4, ("coordinator_keys",), True, COUNT),
    Shape(15, 5, ("groups",), False, COUNT),
    Shape(15, 5, ("groups",), True, COUNT),
    Shape(19, 7, ("topics",), True, COUNT),
    Shape(20, 6, ("topics",), True, COUNT),
    Shape(28, 5, ("topics",), False, COUNT),
    Shape(32, 4, ("resources",), False, COUNT),
    Shape(33, 2, ("resources",), True, COUNT),
    Shape(37, 3, ("topics",), True, COUNT),
    Shape(42, 2, ("groups_names",), True, COUNT),
    Shape(44, 1, ("resources",), True, COUNT),
    Shape(45, 1, ("topics",), True, COUNT),
    Shape(49, 1, ("entries",), True, COUNT),
    Shape(61, 0, ("topics", "partition_indexes"), False, COUNT),
    Shape(65, 0, ("transactional_ids",), True, COUNT),
    Shape(66, 2, ("state_filters",), True, COUNT),
    Shape(69, 1, ("group_ids",), True, COUNT),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SweptNode]:
    directory: Path = tmp_path_factory.mktemp("sweep")
    with swept_node(directory, share=SHARE) as running:
        yield running


@pytest.fixture(scope="module")
def other(node: SweptNode) -> Iterator[Other]:
    one = Other(node.port)
    yield one
    one.close()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.key} {shape.name}")
def test_a_large_request_holds_the_loop_and_takes_memory_within_bounds(
    node: SweptNode, other: Other, shape: Shape
) -> None:
    measured = measure(node, other, shape)
    assert measured is not None
    print(f"{measured.turn_ms:.0f} of {measured.total_ms:.0f} ms, {measured.grown_bytes >> 20} MB")
    assert measured.answer_bytes > 0
    turn_ms_max = max(LONG_TURN_MS, TURN_SHARE_MAX * measured.total_ms)
    assert measured.turn_ms < turn_ms_max, Path(node.output.name).read_text()[-2000:]
    assert measured.grown_bytes < GROWN_BYTES_MAX
    assert node.is_alive
