"""Functions that the pipelines beside this file call."""

from __future__ import annotations


def segment(amount: float | None) -> str:
    """A name for how large an order is."""
    if amount is None:
        return "unknown"
    return "large" if amount >= 80 else "medium" if amount >= 30 else "small"
