"""A node under many connections: all are served, in bounded memory. Times are for `python -m tests.load`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from tests.load.crowd import fill, hold_open, raise_file_limit, stall, storm

CONNECTIONS = 4000
CONSUMERS = 500
STALLED_BYTES_MAX = 64 * 1024 * 1024
CONNECTION_BYTES_MAX = 32 * 1024
STORM_SECONDS = 30.0 if os.environ.get("OTTLA_TEST_LONG") else 4.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    raise_file_limit(CONNECTIONS)
    with Broker(in_process=False) as running:
        fill(running, 10)
        yield running


def test_thousands_of_open_connections_cost_little_and_are_all_served(broker: Broker) -> None:
    count = min(raise_file_limit(CONNECTIONS), CONNECTIONS)
    assert count >= 500, f"this system allows {count} connections: raise its limit of open files (ulimit -n)"
    held = hold_open(broker, count)
    print(f"{held.count} connections, {held.bytes_each} bytes each")
    assert held.bytes_each < CONNECTION_BYTES_MAX


@pytest.mark.parametrize(
    ("fetches", "answer_bytes"),
    [(10, 1 << 20), (100, 50_000), (400, 2_000)],
    ids=["from files", "from memory", "many small ones"],
)
def test_consumers_that_do_not_read_cost_a_bounded_amount(
    broker: Broker, fetches: int, answer_bytes: int
) -> None:
    stalled = stall(broker, CONSUMERS, fetches=fetches, answer_bytes=answer_bytes)
    print(f"{stalled.count} stalled consumers: {stalled.grown_bytes / 2**20:.1f} MB more")
    assert stalled.grown_bytes < STALLED_BYTES_MAX


def test_a_storm_of_new_connections_is_served_and_so_are_others(broker: Broker) -> None:
    blown = storm(broker, per_second=1000, seconds=STORM_SECONDS)
    print(
        f"{blown.connections} connections in {blown.seconds:.1f} s; another client's p99: "
        f"{blown.p99_before_ms:.1f} ms before, {blown.p99_ms:.1f} ms meanwhile"
    )
    assert blown.refused == 0
    assert blown.connections == 1000 * STORM_SECONDS
    assert blown.requests > 0
    assert blown.grown_bytes < STALLED_BYTES_MAX
