"""A run of the fuzzer: rounds of frames, each on a fresh node, and the faults found."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.server.handlers import HANDLERS
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import MalformedMessage, UnsupportedVersion
from ottla.wire.frame import read_request
from tests.fuzz.grammar import Grammar, Lexicon
from tests.fuzz.mutation import Mutation
from tests.fuzz.target import CLIENTS, CLIENTS_APART, CONTROLLERS, Fault, Peer, Target, node, run_inside

CREATE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 19, 37, 33, 44
ALTER_CLIENT_QUOTAS = 49
ROUND_FRAMES = 4000
"""The frames per node; the resources that they create would pile up otherwise."""
TURN_FRAMES = 40
PEER_FRAMES = 12
_GRAMMAR_SHARE = 0.5
_UNKNOWN_SHARE = 0.01
_POOL = 400
_BROKER = 4
_PARTITIONS_MANY = 100
_PARTITIONS_REFUSED = 20_000
_ROUNDS = (CLIENTS, CLIENTS, CLIENTS_APART, CLIENTS, CONTROLLERS)
"""The targets of a round's frames."""


@dataclass(slots=True)
class Tally:
    """The results of a run."""

    frames: int = 0
    answered: int = 0
    closed: int = 0
    by_api: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, Fault]] = field(default_factory=list)  # (round, fault)


def served(listener: str) -> list[tuple[int, int]]:
    """Every API key and version that a listener of this kind serves."""
    return [
        (api.key, version)
        for api in HANDLERS
        if listener in API_BY_KEY[api.key].listeners
        for version in API_BY_KEY[api.key].stable_versions
    ]


def run(
    frames: int,
    seed: int,
    *,
    on_round: Callable[[Tally], None] | None = None,
    only: int | None = None,
) -> Tally:
    """Send this many frames; with `only`, those of one round."""
    tally = Tally()
    lexicon = Lexicon()
    round_number = 0
    if only is not None:
        _round(seed * 1_000_003 + only, only, ROUND_FRAMES, lexicon, tally)
        return tally
    while tally.frames < frames:
        count = min(ROUND_FRAMES, frames - tally.frames)
        _round(seed * 1_000_003 + round_number, round_number, count, lexicon, tally)
        round_number += 1
        if on_round is not None:
            on_round(tally)
    return tally


def _round(seed: int, number: int, count: int, lexicon: Lexicon, tally: Tally) -> None:
    lexicon.forget()
    listener = _ROUNDS[number % len(_ROUNDS)]
    with node(seed, lexicon, listener=listener) as target:
        talk = _Talk(seed, target, listener)
        run_inside(target, talk.run(count))
        tally.frames += count
        tally.answered += target.answered
        tally.closed += target.closed
        tally.by_api += talk.by_api
        tally.faults += [(number, fault) for fault in target.faults]


def is_unfit(frame: bytes) -> bool:
    """Whether to skip a request because it legitimately breaks the node or hides later faults.

    Thousands of partitions take long. A limit of a few bytes for coordinators' records makes them respond
    with UNKNOWN_SERVER_ERROR, as Kafka's do. A connection rate limit closes connections.
    """
    key = int.from_bytes(frame[4:6], "big")
    if key not in (
        CREATE_TOPICS,
        CREATE_PARTITIONS,
        ALTER_CONFIGS,
        INCREMENTAL_ALTER_CONFIGS,
        ALTER_CLIENT_QUOTAS,
    ):
        return False
    try:
        request = read_request(memoryview(frame)[4:])[4]
    except (MalformedMessage, UnsupportedVersion, KeyError):
        return False
    if key in (ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS):
        return any(
            one.resource_name.startswith("__")
            or (one.resource_type == _BROKER and any("message" in config.name for config in one.configs))
            for one in request.resources
        )
    if key == ALTER_CLIENT_QUOTAS:
        return any(part.entity_type == "ip" for entry in request.entries for part in entry.entity)
    if key == CREATE_TOPICS and any(one.name.startswith("__") and one.configs for one in request.topics):
        return True
    counts = [one.num_partitions if key == CREATE_TOPICS else one.count for one in request.topics]
    return any(_PARTITIONS_MANY < count <= _PARTITIONS_REFUSED for count in counts)


class _Talk:
    """One round."""

    def __init__(self, seed: int, target: Target, listener: int) -> None:
        self._draw = random.Random(seed)
        self._target = target
        self._listener = listener
        self._served = served("controller" if listener == CONTROLLERS else "broker")
        self._grammar = Grammar(self._draw, target.lexicon)
        self._mutation = Mutation(self._draw)
        self._pool: list[bytes] = []
        self._peers: list[Peer] = []
        self._peer: Peer | None = None
        self._fed = 0
        self._number = 0
        self.by_api: Counter[str] = Counter()

    async def run(self, count: int) -> None:
        target = self._target
        for number in range(count):
            self._feed(self._next_frame())
            target.look()
            if number % TURN_FRAMES == TURN_FRAMES - 1:
                await asyncio.sleep(0.005)
                target.look()
            if len(self._peers) >= 100:
                await self._settle()
                await target.mend()
        await self._settle()
        await target.check_kept()

    async def _settle(self) -> None:
        await self._target.settle(self._peers)
        self._target.closed += sum(1 for peer in self._peers if peer.sent)
        self._peers.clear()
        self._peer = None

    def _next_frame(self) -> bytes:
        while is_unfit(frame := self._drawn()):
            continue
        return frame

    def _drawn(self) -> bytes:
        draw = self._draw
        self._number += 1
        if self._pool and draw.random() > _GRAMMAR_SHARE:
            return self._mutation.mutated(draw.choice(self._pool), draw.choice(self._pool))
        if draw.random() < _UNKNOWN_SHARE:
            return self._unknown()
        while True:
            # Each API and version in turn, the rest at random.
            key, version = self._served[self._number % len(self._served)]
            frame = self._grammar.frame(key, version, self._number)
            if frame is not None:
                break
            self._number += 1
        self.by_api[API_BY_KEY[key].name] += 1
        if len(self._pool) < _POOL:
            self._pool.append(frame)
        else:
            self._pool[int(draw.random() * _POOL)] = frame
        return frame

    def _unknown(self) -> bytes:
        """An unknown key or version."""
        draw = self._draw
        key = draw.choice((-1, 93, 1000, 32_767, -32_768, 4, 5, 6, 7, 17, 36, 38, 71, 76))
        version = draw.choice((0, 1, -1, 32_767, -32_768))
        if draw.random() < 0.5:
            key, version = draw.choice(self._served)[0], draw.choice((-1, 32_767, 99, -32_768))
        body = draw.randbytes(draw.choice((0, 1, 10, 50)))
        header = b"".join(
            (key.to_bytes(2, "big", signed=True), version.to_bytes(2, "big", signed=True), bytes(4))
        )
        frame = header + b"\xff\xff" + body
        return len(frame).to_bytes(4, "big") + frame

    def _feed(self, frame: bytes) -> None:
        peer = self._peer
        if peer is None or peer.is_closed or self._fed >= PEER_FRAMES:
            peer = self._peer = self._target.connect(self._listener)
            self._peers.append(peer)
            self._fed = 0
        self._fed += 1
        self._target.suspects.append((self._listener, frame))
        peer.feed(frame, 1 if self._draw.random() < 0.9 else 3)
