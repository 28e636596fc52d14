"""Draws the graph of a pipeline as SVG: columns from left to right, edges to the readers.

An edge that crosses a column gets a lane of its own there, between the boxes. Rule: pure and deterministic,
so that a committed picture changes only with its pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from ottla.spark.pipeline.graph import Node, nodes
from ottla.spark.pipeline.model import Pipeline

_WIDTH, _GAP_X, _GAP_Y, _LINE, _PAD, _LANE = 270, 70, 22, 17, 12, 6
_CHARACTERS = 44
_TITLE_CHARACTERS = 28
_COLOURS = {"source": "#2f6f9f", "step": "#5b5f97", "sink": "#2e7d5b", "letters": "#a4462e"}


@dataclass(slots=True)
class _Cell:
    """A box at its place in a column, or a lane if `node` is None."""

    node: Node | None
    column: int
    reads: list[_Cell]
    x: int = 0
    y: int = 0

    @property
    def height(self) -> int:
        return _LANE if self.node is None else _PAD * 2 + _LINE * (1 + len(self.node.lines))

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


def svg(pipeline: Pipeline) -> str:
    """Draw the pipeline."""
    cells, lines = _cells(nodes(pipeline))
    height = _place(cells)
    width = _PAD * 4 + (1 + max(cell.column for cell in cells)) * (_WIDTH + _GAP_X) - _GAP_X
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_PAD * 2}" y="{_PAD + _LINE // 2 + 4}" font-weight="bold">{escape(pipeline.name)}</text>',
    ]
    drawn += [_edge(line) for line in lines]
    drawn += [text for cell in cells if cell.node is not None for text in _box(cell.node, cell)]
    return "\n".join([*drawn, "</svg>", ""])


def _cells(parts: list[Node]) -> tuple[list[_Cell], list[list[_Cell]]]:
    """All cells, and for each edge the cells that it passes."""
    column: dict[str, int] = {}
    for node in parts:
        column[node.name] = max((column[name] + 1 for name in node.inputs), default=0)
    last = max(column.values())
    column |= {node.name: last for node in parts if node.kind in ("sink", "letters")}
    boxes = {node.name: _Cell(node, column[node.name], []) for node in parts}
    cells, lines = list(boxes.values()), []
    for node in parts:
        for name in node.inputs:
            line = [boxes[name]]
            for passed in range(column[name] + 1, column[node.name]):
                line.append(_Cell(None, passed, [line[-1]]))
                cells.append(line[-1])
            boxes[node.name].reads.append(line[-1])
            lines.append([*line, boxes[node.name]])
    return cells, lines


def _place(cells: list[_Cell]) -> int:
    """Place each cell near its inputs; return the height of the picture."""
    bottom = 0
    for at in range(1 + max(cell.column for cell in cells)):
        here = [cell for cell in cells if cell.column == at]
        if at:
            here.sort(key=_order)
        y = _PAD * 2 + _LINE
        for cell in here:
            cell.x, cell.y = _PAD * 2 + at * (_WIDTH + _GAP_X), y
            y += cell.height + _GAP_Y
        bottom = max(bottom, y)
    return bottom


def _order(cell: _Cell) -> tuple[bool, float]:
    """The sort key: the mean position of the inputs, dead letters last."""
    is_letters = cell.node is not None and cell.node.kind == "letters"
    return is_letters, sum(one.middle for one in cell.reads) / max(1, len(cell.reads))


def _edge(line: list[_Cell]) -> str:
    """An edge from the right side of the first box, along the lanes, to the left side of the last."""
    bend = _GAP_X // 2
    x, y = line[0].x + _WIDTH, line[0].middle
    path = f"M{x},{y}"
    for cell in line[1:]:
        end = cell.x - (6 if cell is line[-1] else 0)
        path += f" C{x + bend},{y} {end - bend},{cell.middle} {end},{cell.middle}"
        x, y = cell.x + _WIDTH, cell.middle
        if cell is not line[-1]:
            path += f" L{x},{y}"
    tip, y = line[-1].x, line[-1].middle
    return (
        f'<path d="{path}" fill="none" stroke="#777777"/>'
        f'<path d="M{tip - 7},{y - 4} L{tip},{y} L{tip - 7},{y + 4} z" fill="#777777"/>'
    )


def _box(node: Node, cell: _Cell) -> list[str]:
    colour = _COLOURS[node.kind]
    title = node.title if node.kind == "letters" else f"{node.kind} {node.title}"
    lines = [
        f'<rect x="{cell.x}" y="{cell.y}" width="{_WIDTH}" height="{cell.height}" rx="6" fill="#ffffff" '
        f'stroke="{colour}" stroke-width="1.5"/>',
        f'<text x="{cell.x + _PAD}" y="{cell.y + _PAD + _LINE - 5}" fill="{colour}" font-weight="bold">'
        f"{escape(_cut(title, _TITLE_CHARACTERS))}</text>",
    ]
    for row, text in enumerate(node.lines, 2):
        place = f'x="{cell.x + _PAD}" y="{cell.y + _PAD + _LINE * row - 5}"'
        lines.append(f'<text {place} font-size="11">{escape(_cut(text))}</text>')
    return lines


def _cut(text: str, characters: int = _CHARACTERS) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
