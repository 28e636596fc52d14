"""The rule that ends the rounds before a contender is warm."""

from __future__ import annotations

import pytest
from bench.settling import is_settled


@pytest.mark.parametrize(
    ("figures", "settled"),
    [
        ([], False),
        ([100], False),
        ([100, 100], False),  # one round without improvement could be noise
        ([100, 100, 100], True),
        ([100, 105, 105], True),
        ([100, 106, 106], False),
        ([100, 90, 106], False),
        ([100, 200, 90, 205], True),
        ([100, 200, 90, 300], False),
        ([100, 200, 300, 310, 250], True),
        ([100, 104, 109], False),  # slow growth is growth: the best round before counts
    ],
)
def test_two_rounds_in_a_row_must_not_improve(figures: list[float], settled: bool) -> None:
    assert is_settled(figures) is settled


@pytest.mark.parametrize(
    ("figures", "settled"), [([10, 9.6, 9.6], True), ([10, 9.5, 9.5], False), ([10, 5, 8, 5], True)]
)
def test_smaller_figures_can_be_the_better_ones(figures: list[float], settled: bool) -> None:
    assert is_settled(figures, is_less_better=True) is settled
