"""Network partitions: a leader that is disconnected from its followers, and reconnected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.unit.server.nodes import Nodes, wait_until
from tests.unit.server.proxy import Proxy
from tests.unit.server.replicas.replication_support import SETTINGS, Trio

from ottla.wire.errors import ErrorCode


class CutTrio(Trio):
    """Three brokers that reach each other, and are advertised, through proxies; tests connect directly."""

    def __init__(self, nodes: Nodes, proxies: dict[int, Proxy]) -> None:
        self.brokers = {}
        nodes.controller.start()
        for node_id, proxy in proxies.items():
            advertised = f"PLAINTEXT://127.0.0.1:{proxy.port}"
            broker = nodes.broker(node_id, **SETTINGS, advertised_listeners=advertised)
            proxy.target = broker.port
            self.brokers[node_id] = broker.start()


@pytest.fixture
def proxies() -> Iterator[dict[int, Proxy]]:
    with ExitStack() as stack:
        yield {node_id: stack.enter_context(Proxy()) for node_id in (1, 2, 3)}


def test_an_isolated_leader_acknowledges_nothing_and_recovers(
    proxies: dict[int, Proxy], tmp_path: Path
) -> None:
    with Nodes(tmp_path) as nodes:
        trio = CutTrio(nodes, proxies)
        trio.create("cut", min_insync_replicas="2")
        assert trio.produce("cut", [b"before"], at=1).error_code == 0
        proxies[1].cut()  # the controller still gets its heartbeats, so it stays leader
        assert trio.produce("cut", [b"alone"], at=1, acks=1).error_code == 0
        trio.wait_until_isr("cut", {1}, at=1)
        assert trio.produce("cut", [b"refused"], at=1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert trio.values("cut", at=1) == [b"before"]  # the watermark waits
        assert trio.leader("cut", at=2) == 1  # no election: there is one leader
        proxies[1].heal()
        trio.wait_until_isr("cut", {1, 2, 3}, at=1)
        assert trio.produce("cut", [b"after"], at=1).error_code == 0
        assert trio.values("cut", at=1) == [b"before", b"alone", b"after"]
        assert {trio.segment("cut", at=node) for node in (1, 2, 3)} == {trio.segment("cut", at=1)}


def test_a_cut_between_a_write_and_its_acknowledgement_loses_nothing(
    proxies: dict[int, Proxy], tmp_path: Path
) -> None:
    with Nodes(tmp_path) as nodes:
        trio = CutTrio(nodes, proxies)
        trio.create("again")
        acknowledged = []
        for number in range(6):
            value = b"%d" % number
            if number % 2:
                proxies[1].cut()
            # Waits until unreachable followers have left the ISR.
            assert trio.produce("again", [value], at=1).error_code == 0
            acknowledged.append(value)
            proxies[1].heal()
            trio.wait_until_isr("again", {1, 2, 3}, at=1)
        assert trio.values("again", at=1) == acknowledged
        trio.brokers[1].kill()
        leader = trio.wait_until_led_by("again", {2, 3}, at=2)
        wait_until(lambda: trio.values("again", at=leader) == acknowledged, "the watermark")
