"""When a contender with a run-time compiler is warm: unmeasured rounds of the same load come first.

They end when no figure of two rounds in a row is over 5 % better than the best one before them, or after
`ROUNDS_MAX`. A contender that still improves then is named in the report.
"""

from __future__ import annotations

from collections.abc import Sequence

IMPROVEMENT_MAX = 0.05
ROUNDS_WITHOUT_IMPROVEMENT = 2
ROUNDS_MAX = 8


def is_settled(figures: Sequence[float], *, is_less_better: bool = False) -> bool:
    """Whether the last rounds brought no improvement; `figures` are in the order of the rounds."""
    before, last = figures[:-ROUNDS_WITHOUT_IMPROVEMENT], figures[-ROUNDS_WITHOUT_IMPROVEMENT:]
    if not before:
        return False
    if is_less_better:
        return min(last) * (1 + IMPROVEMENT_MAX) >= min(before)
    return max(last) <= max(before) * (1 + IMPROVEMENT_MAX)
