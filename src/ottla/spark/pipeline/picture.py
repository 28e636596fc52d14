"""The graph of a pipeline as an SVG picture: columns from left to right, lines to who reads.

Rule: pure, and the same for the same pipeline, so that a picture in a repository changes with its pipeline
only.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from ottla.spark.pipeline.graph import Node, nodes
from ottla.spark.pipeline.model import Pipeline

_WIDTH, _GAP_X, _GAP_Y, _LINE, _PAD = 270, 70, 22, 17, 12
_CHARACTERS = 44
_TITLE_CHARACTERS = 28
_COLOURS = {"source": "#2f6f9f", "step": "#5b5f97", "sink": "#2e7d5b", "letters": "#a4462e"}


def svg(pipeline: Pipeline) -> str:
    """The picture."""
    parts = nodes(pipeline)
    columns = _columns(parts)
    places: dict[str, tuple[int, int, int]] = {}  # name -> x, y, height
    height_max = 0
    for at, column in enumerate(columns):
        y = _PAD * 2 + _LINE
        for node in column:
            height = _PAD * 2 + _LINE * (1 + len(node.lines))
            places[node.name] = (_PAD * 2 + at * (_WIDTH + _GAP_X), y, height)
            y += height + _GAP_Y
        height_max = max(height_max, y)
    width = _PAD * 4 + len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height_max}" '
        f'viewBox="0 0 {width} {height_max}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height_max}" fill="#ffffff"/>',
        f'<text x="{_PAD * 2}" y="{_PAD + _LINE // 2 + 4}" font-weight="bold">{escape(pipeline.name)}</text>',
    ]
    for node in parts:
        lines += [_edge(places[name], places[node.name]) for name in node.inputs if name in places]
    lines += [line for node in parts for line in _box(node, *places[node.name])]
    return "\n".join([*lines, "</svg>", ""])


def _columns(parts: list[Node]) -> list[list[Node]]:
    """Each part one column behind the last of what it reads; sinks all in the last one."""
    level: dict[str, int] = {}
    for node in parts:
        level[node.name] = max((level.get(name, 0) + 1 for name in node.inputs), default=0)
    last = max(level.values())
    for node in parts:
        if node.kind in ("sink", "letters"):
            level[node.name] = last
    return [[node for node in parts if level[node.name] == at] for at in range(last + 1)]


def _edge(start: tuple[int, int, int], end: tuple[int, int, int]) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + start[2] // 2
    x2, y2 = end[0], end[1] + end[2] // 2
    bend = _GAP_X // 2
    return (
        f'<path d="M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2 - 6},{y2}" fill="none" '
        'stroke="#777777"/>'
        f'<path d="M{x2 - 7},{y2 - 4} L{x2},{y2} L{x2 - 7},{y2 + 4} z" fill="#777777"/>'
    )


def _box(node: Node, x: int, y: int, height: int) -> list[str]:
    colour = _COLOURS[node.kind]
    title = node.title if node.kind == "letters" else f"{node.kind} {node.title}"
    lines = [
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="6" fill="#ffffff" stroke="{colour}" '
        'stroke-width="1.5"/>',
        f'<text x="{x + _PAD}" y="{y + _PAD + _LINE - 5}" fill="{colour}" font-weight="bold">'
        f"{escape(_cut(title, _TITLE_CHARACTERS))}</text>",
    ]
    for row, text in enumerate(node.lines, 2):
        place = f'x="{x + _PAD}" y="{y + _PAD + _LINE * row - 5}"'
        lines.append(f'<text {place} font-size="11">{escape(_cut(text))}</text>')
    return lines


def _cut(text: str, characters: int = _CHARACTERS) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
