"""Draws a world's timeline as SVG: a row for each node, each partition and the network.

Nodes: green while they serve, pale while they start, yellow while they are paused, empty while they are down.
Partitions: the leader's colour and id, by epoch; red while there is no leader. Every other event is a mark
that shows its line on mouse-over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.world.world import Event

_LANE = 22
_LEFT = 170
_WIDTH = 1400
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#72b7b2", "#eeca3b")
_LEADS = re.compile(r"led by (-?\d+) in epoch (\d+)")
_STATES = {
    "starts": "#cfe8cf",
    "serves": "#3d9a50",
    "resumed": "#3d9a50",
    "paused": "#e8c33a",
    "killed": None,
    "loses power": None,
    "stopped": None,
}


def picture(events: Sequence[Event], *, title: str = "") -> str:
    """Draw the SVG document."""
    end = max((event.at for event in events), default=0.0) or 1.0
    lanes = _lanes(events)
    parts = [_axis(end, len(lanes))]
    for row, (name, own) in enumerate(lanes.items()):
        top = 40 + row * _LANE
        parts.append(f'<text x="4" y="{top + 14}">{escape(name)}</text>')
        parts += _bars(own, end, top)
        parts += [_mark(event, end, top) for event in own if _state(event) is _NONE]
    height = 60 + len(lanes) * _LANE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="4" y="16" font-weight="bold">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


_NONE = object()


def _lanes(events: Sequence[Event]) -> dict[str, list[Event]]:
    """The events of each row: nodes first, then partitions, then all others."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.who.partition("#")[0], []).append(event)

    def rank(name: str) -> tuple[int, str]:
        own = found[name]
        if any(event.what in _STATES for event in own):
            return 0, name
        return (1 if any(_LEADS.match(event.what) for event in own) else 2), name

    return {name: found[name] for name in sorted(found, key=rank)}


def _state(event: Event) -> object:
    """The colour that starts at an event; None: the bar ends here; _NONE: a mark."""
    if event.what in _STATES:
        return _STATES[event.what]
    if event.what.startswith(("ends:", "fails: ")):
        return None
    leads = _LEADS.match(event.what)
    if leads is not None:
        leader = int(leads.group(1))
        return "#d62728" if leader < 0 else _COLOURS[leader % len(_COLOURS)]
    return _NONE


def _bars(own: Sequence[Event], end: float, top: int) -> list[str]:
    changes = [(event, state) for event in own if (state := _state(event)) is not _NONE]
    bars = []
    for place, (event, colour) in enumerate(changes):
        until = changes[place + 1][0].at if place + 1 < len(changes) else end
        if colour is not None:
            start, width = _x(event.at, end), max(_x(until, end) - _x(event.at, end), 1.0)
            bars.append(
                f'<rect x="{start:.1f}" y="{top}" width="{width:.1f}" height="{_LANE - 6}" fill="{colour}">'
                f"<title>{escape(str(event))}</title></rect>"
            )
            leads = _LEADS.match(event.what)
            if leads is not None and width > 14:
                bars.append(f'<text x="{start + 2:.1f}" y="{top + 12}" fill="white">{leads.group(1)}</text>')
    return bars


def _mark(event: Event, end: float, top: int) -> str:
    colour = "#d62728" if "ERROR" in event.what or "CRITICAL" in event.what else "#555"
    return (
        f'<circle cx="{_x(event.at, end):.1f}" cy="{top + 8}" r="3" fill="{colour}" fill-opacity="0.6">'
        f"<title>{escape(str(event))}</title></circle>"
    )


def _axis(end: float, lanes: int) -> str:
    bottom = 40 + lanes * _LANE
    lines = []
    for tenth in range(11):
        x = _LEFT + _WIDTH * tenth / 10
        lines.append(
            f'<line x1="{x:.1f}" y1="34" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="30" fill="#777">{end * tenth / 10:.0f} s</text>'
        )
    return "".join(lines)


def _x(at: float, end: float) -> float:
    return _LEFT + _WIDTH * at / end
