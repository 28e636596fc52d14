"""Kafka and the broker that is compared with it, for all scripts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from tests.interop import peers
from tests.interop.groups_raw import ask_settings
from tests.interop.groups_raw.brokers import PROPERTIES, wait_for_coordinator

Pair = tuple[peers.BrokerProcess, peers.BrokerProcess]


@pytest.fixture(scope="package")
def pair() -> Iterator[Pair]:
    with started(PROPERTIES) as both:
        yield both


@pytest.fixture(scope="module")
def other_pair() -> Iterator[Pair]:
    with started({**PROPERTIES, **ask_settings.PROPERTIES}) as both:
        yield both


@contextlib.contextmanager
def started(properties: dict[str, str]) -> Iterator[Pair]:
    """Both brokers. With OTTLA_TEST_BROKERS=kafka it is one Kafka for both sides."""
    with peers.running("kafka", properties=properties) as kafka:
        wait_for_coordinator(kafka)
        if os.environ.get("OTTLA_TEST_BROKERS") == "kafka":
            yield kafka, kafka
            return
        with peers.running("ottla", properties=properties) as ottla:
            wait_for_coordinator(ottla)
            yield kafka, ottla
