"""Puts every script to both brokers and compares what they say, field by field.

With OTTLA_TEST_BROKERS=kafka each script runs twice on Kafka: that proves the script itself, because a mask
that is missing shows as a difference between two runs on the same broker.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.interop import peers
from tests.interop.clients.same.plain import differences
from tests.interop.groups_raw import (  # noqa: F401 (importing them registers their scripts)
    ask_classic,
    ask_consumer,
    ask_offsets,
    ask_settings,
    ask_transactions,
)
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.scripts import CASES, OTHER_CASES, Case

# Where Ottla answers differently on purpose: (a pattern for "script-api-vN asked path", why).
# Each also stands in docs/differences.md.
KNOWN_DIFFERENCES: tuple[tuple[str, str], ...] = ()
UNKNOWN_SERVER_ERROR = -1
_numbers = itertools.count(1)

Pair = tuple[peers.BrokerProcess, peers.BrokerProcess]


def transcript(broker: peers.BrokerProcess, case: Case) -> tuple[list[tuple[str, Any]], str]:
    """What was said, and what broke off the script, if anything did."""
    with Talk(broker, next(_numbers), {case.api: case.version}) as talk:
        try:
            case.script(talk)
        except AssertionError as error:
            return talk.transcript, str(error)
        return talk.transcript, ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_both_brokers_say_the_same(pair: Pair, case: Case) -> None:
    assert_same(pair, case)


@pytest.mark.parametrize("case", OTHER_CASES, ids=lambda case: case.label)
def test_both_brokers_say_the_same_with_other_settings(other_pair: Pair, case: Case) -> None:
    assert_same(other_pair, case)


def assert_same(pair: Pair, case: Case) -> None:
    kafka, kafka_end = transcript(pair[0], case)
    assert not kafka_end, f"the script does not fit Kafka: {kafka_end}\n{kafka[-3:]}"
    ottla, ottla_end = transcript(pair[1], case)
    found: list[str] = []
    for step, ((asked, expected), (_, answered)) in enumerate(zip(kafka, ottla, strict=False), 1):
        for path, one, other in differences(expected, answered):
            where = f"{case.label} {asked} {path}"
            if path.endswith(".error_code") and one == UNKNOWN_SERVER_ERROR and other not in (0, one):
                continue  # Kafka stumbles over its own code there; another code will do
            if not any(re.search(pattern, where) for pattern, _ in KNOWN_DIFFERENCES):
                found.append(f"step {step}, {asked} {path}\n    kafka: {one!r}\n    ottla: {other!r}")
    if ottla_end:
        found.append(f"after step {len(ottla)} of {len(kafka)} Ottla broke off: {ottla_end}")
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:30])
    assert len(kafka) == len(ottla)
