"""Lives of groups by chance, on Kafka and on Ottla: the same answers to the same requests.

OTTLA_TEST_LIVES says how many of each kind (4 unless told), OTTLA_TEST_SEED with which they begin.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any

import pytest

from tests.interop import peers
from tests.interop.clients.same.plain import differences
from tests.interop.groups_raw.brokers import PROPERTIES, wait_for_coordinator
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.random_groups import KINDS, Life, Pace

LIVES = int(os.environ.get("OTTLA_TEST_LIVES", "4"))
FIRST_SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))
STEPS = 60
PACES = (Pace(0.04, 0.01), Pace(0.2, 0.05))
# A killed broker registers again once its old session has run out; Kafka's default is 9 s.
RESTARTING = {**PROPERTIES, "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
UNKNOWN_SERVER_ERROR = -1
_numbers = itertools.count(100_000)

Pair = tuple[peers.BrokerProcess, peers.BrokerProcess]


def lived(broker: peers.BrokerProcess, kind: str, seed: int, pace: Pace) -> Life:
    with Talk(broker, next(_numbers), {}) as talk:
        life = KINDS[kind](talk, seed, pace)
        life.live(STEPS)
        life.end()
        return life


def unequal(kafka: Life, ottla: Life) -> list[str]:
    """Where two lives differ. What follows the first difference is not told: it may come of it."""
    for number in sorted({*kafka.answers, *ottla.answers}):
        one: tuple[str, Any] = kafka.answers.get(number, ("nothing", None))
        other: tuple[str, Any] = ottla.answers.get(number, ("nothing", None))
        found = [
            f"request {number}, {one[0]} {path}\n    kafka: {expected!r}\n    ottla: {answered!r}"
            for path, expected, answered in differences(list(one), list(other))
            if not (path.endswith(".error_code") and expected == UNKNOWN_SERVER_ERROR and answered != 0)
        ]
        if found:
            before = [
                f"{asked}: {answer}" for _, (asked, answer) in sorted(kafka.answers.items())[:number][-6:]
            ]
            return [*found, "before that:", *before, f"steps: {kafka.steps}"]
    return []


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + LIVES))
@pytest.mark.parametrize("kind", KINDS)
def test_a_life_by_chance_goes_the_same_way(pair: Pair, kind: str, seed: int) -> None:
    found: list[str] = []
    for pace in PACES:
        kafka, ottla = (lived(broker, kind, seed, pace) for broker in pair)
        found = unequal(kafka, ottla)
        if not found:
            return
    raise AssertionError("\n".join(found))


def test_lives_by_chance_go_on_after_a_restart() -> None:
    """Both brokers are killed in the middle of many lives: what they know then comes from their logs."""
    other = "kafka" if os.environ.get("OTTLA_TEST_BROKERS") == "kafka" else "ottla"
    found: list[str] = []
    for pace in (PACES[1], Pace(1.0, 0.2)):
        both = zip(lived_with_a_restart("kafka", pace), lived_with_a_restart(other, pace), strict=True)
        found = [difference for kafka, ottla in both for difference in unequal(kafka, ottla)]
        if not found:
            return
    raise AssertionError("\n".join(found))


def lived_with_a_restart(broker_kind: str, pace: Pace) -> list[Life]:
    lives = []
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(peers.running(broker_kind, properties=RESTARTING))
        wait_for_coordinator(broker)
        for kind, seed in itertools.product(KINDS, range(FIRST_SEED, FIRST_SEED + (LIVES + 1) // 2)):
            talk = stack.enter_context(Talk(broker, next(_numbers), {}))
            lives.append(KINDS[kind](talk, seed, pace))
            lives[-1].live(STEPS // 2)
        broker.kill()
        broker.start()
        wait_for_coordinator(broker)
        for life in lives:
            life.restarted()
            life.live(STEPS // 2)
            life.end()
    return lives
