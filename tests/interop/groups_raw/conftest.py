"""Kafka and the broker that is compared with it, for all scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop import peers
from tests.interop.groups_raw.brokers import PROPERTIES, wait_for_coordinator


@pytest.fixture(scope="session")
def pair() -> Iterator[tuple[peers.BrokerProcess, peers.BrokerProcess]]:
    """With OTTLA_TEST_BROKERS=kafka it is Kafka on both sides."""
    with peers.running("kafka", properties=PROPERTIES) as kafka:
        wait_for_coordinator(kafka)
        if os.environ.get("OTTLA_TEST_BROKERS") == "kafka":
            yield kafka, kafka
            return
        with peers.running("ottla", properties=PROPERTIES) as ottla:
            wait_for_coordinator(ottla)
            yield kafka, ottla
