"""A flame graph as a small SVG: each call is a bar as wide as its time, below the calls that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from bench.stacks import Frame, Layer, Stack

_WIDTH = 1000
_ROW = 16
_MARGIN = 10
_HEAD = 44
_CHARACTER = 5.6
_SHOWN_MIN = 0.003
_COLORS = {
    Layer.KERNEL: "#f6ad55",
    Layer.LOOP: "#e2e8f0",
    Layer.COMPILED: "#68d391",
    Layer.PYTHON: "#63b3ed",
    Layer.OTHER: "#faf089",
}


@dataclass(slots=True)
class _Call:
    """A call with the time of it and of all that it makes."""

    frame: Frame
    time: float = 0.0
    calls: dict[Frame, _Call] = field(default_factory=dict)


def flame_svg(stacks: Mapping[Stack, float], title: str, unit: str) -> str:
    """The picture; widths are relative to the whole, whose time is in the title."""
    root = _tree(stacks)
    bars: list[str] = []
    depth = _draw(root, _MARGIN, 0, (_WIDTH - 2 * _MARGIN) / root.time, root.time, unit, bars)
    height = _HEAD + _ROW * depth + _MARGIN
    legend = []
    for number, (layer, color) in enumerate(_COLORS.items()):
        x = _MARGIN + number * 170
        legend.append(f'<rect x="{x}" y="24" width="10" height="10" fill="{color}"/>')
        legend.append(f'<text x="{x + 14}" y="33">{layer}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="10">',
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
            f'<text x="{_MARGIN}" y="16" font-size="13">{escape(title)}: {root.time:.1f} {unit}</text>',
            *legend,
            f'<g transform="translate(0 {_HEAD})">',
            *bars,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _tree(stacks: Mapping[Stack, float]) -> _Call:
    root = _Call(Frame("all", ""))
    for stack, time in stacks.items():
        call = root
        call.time += time
        for frame in stack:
            call = call.calls.setdefault(frame, _Call(frame))
            call.time += time
    return root


def _draw(call: _Call, x: float, row: int, scale: float, total: float, unit: str, bars: list[str]) -> int:
    """Draw what a call makes, from the top down; the number of rows."""
    deepest = row
    for inner in sorted(call.calls.values(), key=lambda one: one.frame.name):
        width = inner.time * scale
        if inner.time >= _SHOWN_MIN * total:
            label = inner.frame.name
            room = int((width - 4) / _CHARACTER)
            shown = label if len(label) <= room else label[: room - 1] + "…" if room > 3 else ""
            where = f" ({inner.frame.file})" if inner.frame.file else ""
            bars.append(
                f"<g><title>{escape(label + where)}: {inner.time:.2f} {unit}</title>"
                f'<rect x="{x:.1f}" y="{row * _ROW}" width="{width:.1f}" height="{_ROW - 1}" '
                f'fill="{_COLORS[inner.frame.layer]}"/>'
                + (f'<text x="{x + 2:.1f}" y="{row * _ROW + 11}">{escape(shown)}</text>' if shown else "")
                + "</g>"
            )
            deepest = max(deepest, _draw(inner, x, row + 1, scale, total, unit, bars))
        x += width
    return deepest
