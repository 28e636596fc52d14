"""Failing frames in files: saved, minimized and sent again.

A file has lines of two words: the target (`clients`, `controllers` or `clients-apart`) and a frame with its
size, in hex. Lines that begin with # are comments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.grammar import Lexicon
from tests.fuzz.target import Fault, Peer, Target, node, run_inside

_LISTENERS = ("clients", "controllers", "clients-apart")
_TRIES_MAX = 60
_SINGLES_MAX = 1500

Frames = Sequence[tuple[int, bytes]]


def save(path: Path, found: Frames, remarks: Sequence[str]) -> None:
    lines = [f"# {line}" for remark in remarks for line in remark.splitlines()]
    lines += [f"{_LISTENERS[listener]} {frame.hex()}" for listener, frame in found]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def load(path: Path) -> list[tuple[int, bytes]]:
    found = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            listener, _, digits = line.partition(" ")
            found.append((_LISTENERS.index(listener), bytes.fromhex(digits)))
    return found


def replay(found: Frames, *, apart: bool = False) -> list[Fault]:
    """The faults of a fresh node that gets these frames; `apart` gives each its own connection."""
    with node(1, Lexicon(), listener=max(listener for listener, _ in found)) as target:
        run_inside(target, _send(target, found, apart=apart))
        return target.faults


async def _send(target: Target, found: Frames, *, apart: bool) -> None:
    peers: list[Peer] = []
    current: dict[int, Peer] = {}
    for listener, frame in found:
        peer = current.get(listener)
        if peer is None or peer.is_closed or apart:
            peer = current[listener] = target.connect(listener)
            peers.append(peer)
        target.suspects.append((listener, frame))
        peer.feed(frame)
        target.look()
        await asyncio.sleep(0.005)
    await target.settle(peers)
    await target.check_kept()


def smallest(fault: Fault) -> list[tuple[int, bytes]]:
    """The frames of a fault, minimized: a single one if that suffices."""
    frames = list(fault.frames)
    if not frames:
        return []  # found only at the end of the round: the seed replays it
    if len(frames) > 1:
        single = _guilty_of(frames[-_SINGLES_MAX:])
        if single is not None:
            return [single]
    if not replay(frames, apart=True):
        return frames  # these do not suffice: the seed replays it
    tries, step = 0, max(len(frames) // 2, 1)
    while step and tries < _TRIES_MAX:
        start = 0
        while start < len(frames) and len(frames) > 1 and tries < _TRIES_MAX:
            fewer = frames[:start] + frames[start + step :]
            tries += 1
            if fewer and replay(fewer, apart=True):
                frames = fewer
            else:
                start += step
        step //= 2
    return frames


def _guilty_of(frames: Frames) -> tuple[int, bytes] | None:
    """The single frame that causes a fault when sent alone on its own connection."""
    with node(1, Lexicon(), listener=frames[0][0]) as target:
        for one in reversed(frames):
            run_inside(target, _send(target, [one], apart=True))
            if target.faults:
                return one if replay([one]) else None
    return None
