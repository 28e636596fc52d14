"""Tables as Kafka's tools print them: left-aligned columns, each as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def lines_of(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Format the header and the rows, with a tab after each cell."""
    table = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in table]
