"""The checker is tested, too: it finds each bug that is planted into production code within a few seeds.

`pytest -s` prints the table of docs/reliability.md.
"""

from __future__ import annotations

import pytest

from tests.sim.planted import PLANTS, Plant, find, kinds_of
from tests.sim.targeted_stories import TargetedStory


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name.replace(" ", "-"))
def test_a_planted_bug_is_found(plant: Plant) -> None:
    seeds, outcome = find(plant)
    kinds = sorted(kinds_of(outcome))
    assert plant.kinds & {*kinds}, f"{seeds} seeds did not find that {plant.name}: {kinds}"
    print(f"\n| {plant.name} | {seeds} | {', '.join(kinds)} |")


@pytest.mark.parametrize("story", sorted({plant.story for plant in PLANTS if plant.story}, key=str))
def test_a_targeted_story_passes_without_a_bug(story: TargetedStory) -> None:
    outcome = story(1001)
    assert outcome.is_right, outcome.report()
