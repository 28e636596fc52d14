"""Asks both brokers the same and compares what they say, field by field.

With OTTLA_TEST_BROKERS=kafka the question is asked twice of Kafka: that proves the question itself, because a
mask that is missing shows as a difference between two runs on the same broker.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.wire import apis
from tests.interop import peers
from tests.interop.clients.conftest import BROKER_PROPERTIES
from tests.interop.clients.same import (  # noqa: F401 (importing them registers their questions)
    ask_cluster,
    ask_configs,
    ask_frames,
    ask_records,
    ask_topics,
)
from tests.interop.clients.same.plain import differences
from tests.interop.clients.same.registry import CASES, Case
from tests.interop.clients.same.session import Session

# Where Ottla answers differently on purpose: (a pattern for "api-question-vN path", why).
# Each also stands in docs/differences.md.
KNOWN_DIFFERENCES: tuple[tuple[str, str], ...] = (
    (r"^Produce-.*error_message$", "what is wrong with a batch is said in our own words"),
    (r"^Produce-producer_fields_that_are_wrong", "a producer id without an epoch is refused"),
    (r"^DescribeProducers-.*error_message$", "the message names what is missing"),
    (r"^SaslAuthenticate-.*error_message$", "the message says that no login is needed"),
    (
        r"^DescribeConfigs-everything_about_the_broker-v\d+ DescribeConfigs v\d+ .*"
        r"\[(max\.connections|max\.connections\.per\.ip|queued\.max\.request\.bytes)\]",
        "limits that are unbounded in Kafka are finite",
    ),
)
# What Kafka says when it has nothing particular to say; a cause in its place is welcome.
GENERIC_MESSAGES = (
    None,
    "",
    "This server does not host this topic-partition.",
    "This most likely occurs because of a request being malformed by the client library or the message was"
    " sent to an incompatible broker. See the broker logs for more details.",
)
UNKNOWN_SERVER_ERROR = -1
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[peers.BrokerProcess, peers.BrokerProcess]]:
    """Kafka and the broker to compare with it."""
    with peers.running("kafka", properties=BROKER_PROPERTIES) as kafka:
        wait_for_producer_ids(kafka)
        if os.environ.get("OTTLA_TEST_BROKERS") == "kafka":
            yield kafka, kafka
            return
        with peers.running("ottla", properties=BROKER_PROPERTIES) as ottla:
            wait_for_producer_ids(ottla)
            yield kafka, ottla


def wait_for_producer_ids(broker: peers.BrokerProcess) -> None:
    """The first request may fail while the broker still requests a block of producer ids."""
    with Session(broker, 0) as session:
        peers.wait_until(
            lambda: session.quietly("InitProducerId", 4, transactional_id=None).error_code == 0,
            20,
            "a producer id",
        )


def transcript(broker: peers.BrokerProcess, case: Case) -> list[tuple[str, Any]]:
    with Session(broker, next(_numbers)) as session:
        case.question(session, case.version)
        return session.transcript


def better_codes(unequal: list[tuple[str, Any, Any]]) -> set[str]:
    """Where Kafka stumbles over its own code and says UNKNOWN_SERVER_ERROR, another code will do.

    Returns the paths of the structs, so that the message beside the code may differ as well.
    """
    return {
        path.removesuffix(".error_code")
        for path, kafka, ottla in unequal
        if path.endswith(".error_code") and kafka == UNKNOWN_SERVER_ERROR and ottla not in (0, -1)
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_both_brokers_say_the_same(pair: tuple[peers.BrokerProcess, peers.BrokerProcess], case: Case) -> None:
    kafka, ottla = (transcript(broker, case) for broker in pair)
    found: list[str] = []
    for step, ((asked, expected), (_, answered)) in enumerate(zip(kafka, ottla, strict=True), 1):
        unequal = differences(expected, answered)
        better = better_codes(unequal)
        for path, one, other in unequal:
            where = f"{case.label} {asked} {path}"
            known = any(re.search(pattern, where) for pattern, _ in KNOWN_DIFFERENCES)
            known |= path.endswith("error_message") and one in GENERIC_MESSAGES and bool(other)
            if not known and path.rpartition(".")[0] not in better:
                found.append(f"step {step}, {asked} {path}\n    kafka: {one!r}\n    ottla: {other!r}")
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:40])


def test_every_version_range_on_offer_is_kafkas(
    pair: tuple[peers.BrokerProcess, peers.BrokerProcess],
) -> None:
    offers = []
    for broker in pair:
        with Session(broker, next(_numbers)) as session:
            rows = session.quietly("ApiVersions", 2).api_keys
            offers.append({row.api_key: (row.min_version, row.max_version) for row in rows})
    kafka, ottla = offers
    assert ottla == {key: kafka.get(key) for key in ottla}
    served = {apis.API_BY_NAME[name].key for name in ask_frames.SERVED}
    assert served <= set(ottla)
