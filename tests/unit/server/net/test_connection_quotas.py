"""How many connections a node takes, at a time and a second."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.server.handlers.support import config_of, image_of

from ottla.controller.image import ClusterImage
from ottla.host import HostClock
from ottla.server.net.connection_quotas import WAIT_S_MAX, ConnectionLimits, ConnectionQuotas
from ottla.testing.broker import make_node
from ottla.wire.messages.metadata_records import ClientQuotaRecord

HOST = "10.0.0.7"


class _Clock(HostClock):
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_a_node_a_listener_and_an_address_have_limits_of_their_own() -> None:
    limits = ConnectionLimits(
        total_max=5, listener_max={"A": 2}, address_max=3, address_max_overrides={"10.0.0.9": 0}
    )
    quotas = ConnectionQuotas(HostClock(), limits)
    assert [quotas.add("A", HOST).refusal for _ in range(2)] == [None, None]
    assert "listener A has reached its limit of 2" in str(quotas.add("A", "10.0.0.8").refusal)
    quotas.drop("A", "10.0.0.8")
    assert quotas.add("B", HOST).refusal is None
    assert "10.0.0.7 has reached its limit of 3" in str(quotas.add("B", HOST).refusal)
    quotas.drop("B", HOST)
    assert "10.0.0.9 has reached its limit of 0" in str(quotas.add("B", "10.0.0.9").refusal)
    quotas.drop("B", "10.0.0.9")
    assert [quotas.add("B", f"10.0.1.{n}").refusal for n in range(2)] == [None, None]
    assert "this node has reached its limit of 5" in str(quotas.add("B", "10.0.2.1").refusal)
    quotas.drop("B", "10.0.2.1")
    assert (quotas.total, quotas.by_listener) == (5, {"A": 2, "B": 3})


def test_the_listener_between_brokers_is_exempt_from_the_limit_of_the_node() -> None:
    quotas = ConnectionQuotas(HostClock(), ConnectionLimits(total_max=1), protected_listener="INTERNAL")
    assert quotas.add("CLIENTS", HOST).refusal is None
    assert quotas.add("CLIENTS", HOST).refusal is not None
    quotas.drop("CLIENTS", HOST)
    assert quotas.add("INTERNAL", HOST).refusal is None
    assert quotas.is_exceeded


def test_connections_over_the_rate_wait_until_it_allows_for_them() -> None:
    clock = _Clock()
    quotas = ConnectionQuotas(clock, ConnectionLimits(rate=2, burst_s=3))
    delays = [quotas.add("A", HOST).delay_s for _ in range(8)]
    assert delays == pytest.approx([0, 0, 0, 0, 0, 0, 0.5, 1.0])  # what six of three seconds may be at once
    clock.now += 60
    assert quotas.add("A", HOST).delay_s == 0


def test_however_many_connections_were_opened_over_the_rate_the_next_one_waits_a_short_time() -> None:
    clock = _Clock()
    quotas = ConnectionQuotas(clock, ConnectionLimits(rate=10, listener_rates={"A": 20}, burst_s=1))
    for _ in range(20_000):
        clock.now += 0.0005
        refusal, delay_s = quotas.add("A", HOST)
        quotas.drop("A", HOST)
        assert delay_s <= (WAIT_S_MAX if refusal is None else 1.0)
    assert refusal is not None
    clock.now += 1
    refusal, wait_s = quotas.add("A", "10.0.0.8")
    assert refusal is None
    assert wait_s == pytest.approx(WAIT_S_MAX - 1, abs=0.2)
    clock.now += WAIT_S_MAX + 1
    assert quotas.add("A", "10.0.0.8") == (None, 0)


def test_a_rate_of_zero_lets_one_connection_pass_in_each_window() -> None:
    clock = _Clock()
    limits = ConnectionLimits(listener_rates={"A": 0}, address_rates={"10.0.0.9": 0.001}, burst_s=3)
    quotas = ConnectionQuotas(clock, limits)
    assert [quotas.add("A", HOST).delay_s for _ in range(5)] == pytest.approx([0, 0, 0, 1, 2])
    assert quotas.add("B", "10.0.0.9").delay_s == pytest.approx(1)


def test_a_listener_has_a_rate_of_its_own() -> None:
    clock = _Clock()
    quotas = ConnectionQuotas(clock, ConnectionLimits(listener_rates={"A": 1}, burst_s=1))
    assert [quotas.add("A", HOST).delay_s for _ in range(2)] == [0, 1.0]
    assert quotas.add("B", HOST).delay_s == 0


def test_an_address_over_its_quota_is_refused_and_costs_the_others_nothing() -> None:
    clock = _Clock()
    limits = ConnectionLimits(rate=100, address_rate=1, address_rates={"10.0.0.9": 50}, burst_s=1)
    quotas = ConnectionQuotas(clock, limits)
    assert quotas.add("A", HOST).refusal is None
    for _ in range(3):
        refusal, delay_s = quotas.add("A", HOST)
        assert "quota of 1 new connections per second" in str(refusal)
        assert delay_s == pytest.approx(1.0)
    assert [quotas.add("A", "10.0.0.9").refusal for _ in range(50)] == [None] * 50
    assert quotas.add("A", "10.0.0.9").refusal is not None
    clock.now += 1
    assert quotas.add("A", HOST).refusal is None


def _quota(image: ClusterImage, address: str | None, rate: float) -> None:
    entity = ClientQuotaRecord.EntityData(entity_type="ip", entity_name=address)
    image.replay(ClientQuotaRecord(entity=[entity], key="connection_creation_rate", value=rate))


def test_limits_come_from_the_settings_and_from_the_quotas_of_the_cluster() -> None:
    image = image_of()
    _quota(image, None, 7)
    _quota(image, "0:0:0:0:0:0:0:1", 9)
    settings = {
        "max.connections": "50",
        "listener.name.plaintext.max.connections": "40",
        "max.connection.creation.rate": "30",
        "max.connections.per.ip.overrides": "127.0.0.1:3",
    }
    limits = ConnectionLimits.of(config_of(settings), ["PLAINTEXT", "OTHER"], image)
    assert (limits.total_max, limits.listener_max) == (50, {"PLAINTEXT": 40, "OTHER": 50})
    assert (limits.rate, limits.listener_rates) == (30, {"PLAINTEXT": 30, "OTHER": 30})
    assert limits.address_max_overrides == {"127.0.0.1": 3}
    assert (limits.address_rate, limits.address_rates) == (7, {"::1": 9})


def test_a_connection_over_the_rate_is_served_later_and_brokers_make_room_for_themselves(
    tmp_path: object,
) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0,CONTROLLER://127.0.0.1:0"

    async def main() -> None:
        settings = {
            "listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "max.connections": "2",
            "listener.name.internal.max.connections": "10",
            "max.connection.creation.rate": "20",
            "quota.window.num": "1",
        }
        node = make_node(str(tmp_path), 0, settings)
        await node.start()
        try:
            ports = {listener.name: listener.port for listener in node.listeners}
            first = await _open(ports["PLAINTEXT"])
            second = await _open(ports["PLAINTEXT"])
            await _ask(*second)
            await _open(ports["INTERNAL"])
            assert await first[0].read() == b""  # it was idle longest
            second[1].close()
            for _ in range(40):
                pair = await _open(ports["PLAINTEXT"])
                await _ask(*pair)
                pair[1].close()
                await pair[0].read()
        finally:
            await node.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


async def _open(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(bytes.fromhex("0000000a00120000000000010000"))
    await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
