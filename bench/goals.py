"""The goal of a row: what Ottla's figures must reach, beside Kafka's or alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a goal is compared with. `ratio` is Ottla's median relative to Kafka's; `ratios` are by round."""

    value: float
    ratio: float | None = None
    ratios: Sequence[float] = ()
    cpu_ratio: float | None = None
    cpu_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Bounds, each for one figure; all of them must hold. In `every_round` the ratio of each must."""

    ratio_min: float | None = None
    ratio_max: float | None = None
    every_round: bool = False
    cpu_ratio_max: float | None = None
    cpu_us_max: float | None = None
    value_min: float | None = None
    value_max: float | None = None
    value_below: float | None = None

    def text(self, unit: str) -> str:
        """The bounds for a reader."""
        rounds = " in every round" if self.every_round else ""
        unit = f" {unit}" if unit else ""
        bounds = (
            (self.ratio_min, "≥ {:g}x" + rounds),
            (self.ratio_max, "≤ {:g}x" + rounds),
            (self.cpu_ratio_max, "CPU ≤ {:g}x"),
            (self.cpu_us_max, "CPU ≤ {:g} µs each"),
            (self.value_min, "≥ {:g}" + unit),
            (self.value_max, "≤ {:g}" + unit),
            (self.value_below, "< {:g}" + unit),
        )
        return ", ".join(said.format(bound) for bound, said in bounds if bound is not None)

    def is_cpu_met(self, figures: Figures) -> bool:
        return _is_at_most(figures.cpu_ratio, self.cpu_ratio_max) and _is_at_most(
            figures.cpu_us, self.cpu_us_max
        )

    def is_met(self, figures: Figures) -> bool:
        ratios = figures.ratios if self.every_round else [figures.ratio or 0.0]
        return (
            self.is_cpu_met(figures)
            and (self.ratio_min is None or min(ratios, default=0.0) >= self.ratio_min)
            and (self.ratio_max is None or max(ratios, default=0.0) <= self.ratio_max)
            and (self.value_min is None or figures.value >= self.value_min)
            and (self.value_max is None or figures.value <= self.value_max)
            and (self.value_below is None or figures.value < self.value_below)
        )


def _is_at_most(figure: float | None, bound: float | None) -> bool:
    """A figure that was not measured breaks no bound."""
    return figure is None or bound is None or figure <= bound
