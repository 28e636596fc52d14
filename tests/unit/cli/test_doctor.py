"""The doctor's findings: each case with its cause and remedy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.checks import connections, health
from ottla.cli.checks.connections import Address, Answer, Connections, Reached
from ottla.cli.checks.finding import Finding, State, listed, several
from ottla.client.admin.replicas import LogDirDescription
from ottla.client.errors import (
    AuthenticationFailed,
    ConnectionRefused,
    ConnectTimedOut,
    NameNotResolved,
    ProtocolMismatch,
    TlsFailed,
)
from ottla.wire.errors import KafkaStorageError

VERSIONS = dict.fromkeys(connections._NEEDED, (0, 5))
NEAR, FAR = ("127.0.0.1",), ("10.0.0.7",)


def answer(cluster: str = "c", brokers: dict[int, Address] | None = None, **versions: Any) -> Answer:
    return Answer(cluster, brokers or {1: ("b1", 9092)}, {**VERSIONS, **versions})


def reached(name: str = "boot", numbers: tuple[str, ...] = FAR, **told: Any) -> Reached:
    return Reached((name, 9092), numbers, answer(**told))


def found(bootstrap: Reached, **brokers: Reached) -> list[Finding]:
    seen = Connections([bootstrap], {int(name[1:]): one for name, one in brokers.items()})
    return connections.findings(seen)


def of(findings: list[Finding], check: str) -> list[Finding]:
    return [one for one in findings if one.check == check]


def test_a_reachable_cluster_has_no_problems() -> None:
    findings = found(reached(), b1=reached("b1"))

    assert {one.state for one in findings} == {State.OK}
    assert {one.check for one in findings} == {"connection", "listeners", "versions"}


@pytest.mark.parametrize(
    ("error", "words", "cure"),
    [
        (NameNotResolved("x"), "boot does not resolve", "getent hosts boot"),
        (ConnectionRefused("x"), "port 9092 of 10.0.0.7 was refused", "Start the broker"),
        (ConnectTimedOut("x"), "firewall", "security.protocol=SSL"),
        (AuthenticationFailed("no such user"), "no such user", "sasl"),
        (TlsFailed("bad certificate"), "bad certificate", "ssl"),
        (ProtocolMismatch("HTTP"), "not a Kafka broker", "security.protocol"),
        (RuntimeError("odd"), "odd", "the broker's log"),
    ],
)
def test_a_failing_bootstrap_server_is_reported_with_the_reason(
    error: Exception, words: str, cure: str
) -> None:
    [finding] = found(Reached(("boot", 9092), FAR, error=error))

    assert finding.state is State.PROBLEM
    assert words in finding.cause
    assert cure in finding.cure


@pytest.mark.parametrize("error", [NameNotResolved("x"), ConnectionRefused("x"), ConnectTimedOut("x")])
def test_wrong_advertised_listeners_are_named(error: Exception) -> None:
    findings = found(reached(), b1=Reached(("kafka-1.internal", 9092), FAR, error=error))

    [finding] = of(findings, "listeners")
    assert finding.state is State.PROBLEM
    assert "Broker 1 advertises kafka-1.internal:9092" in finding.cause
    assert "advertised.listeners is wrong" in finding.cause
    assert "Set advertised.listeners in server.properties of broker 1" in finding.cure
    assert "PLAINTEXT://boot:9092" in finding.cure


def test_a_broker_that_advertises_localhost_to_other_machines_is_named() -> None:
    findings = found(reached(), b1=reached("localhost", NEAR))

    [finding] = of(findings, "listeners")
    assert finding.state is State.PROBLEM
    assert "a loopback address" in finding.cause

    assert (
        of(found(reached("localhost", NEAR), b1=reached("localhost", NEAR)), "listeners")[0].state is State.OK
    )


def test_addresses_of_another_cluster_are_named() -> None:
    [finding] = of(found(reached(), b1=reached(cluster="other")), "listeners")
    assert "belongs to cluster other" in finding.cause

    both = Connections([reached(), reached("boot2", cluster="other")])
    assert any("belong to 2 clusters" in one.cause for one in connections.findings(both))


def test_different_or_missing_versions_are_reported() -> None:
    mixed = found(reached(), b1=reached("b1"), b2=reached("b2", Fetch=(0, 4)))
    assert of(mixed, "versions")[0].state is State.WARNING

    old = Reached(("b1", 9092), FAR, Answer("c", {}, {"Metadata": (0, 1)}))
    [finding] = of(found(reached(), b1=old), "versions")
    assert finding.state is State.PROBLEM
    assert "Produce" in finding.cause


@pytest.mark.parametrize(
    ("leader_ms", "words"),
    [
        (None, "did not report its time"),
        (100_500, "agree"),
        (96_000, "agree"),
        (160_000, "59.0 s ahead"),
        (40_000, "60.0 s behind"),
    ],
)
def test_clock_checks_allow_for_the_request_time(leader_ms: int | None, words: str) -> None:
    [finding] = health._clock(3, leader_ms, 100_000, 101_000)
    assert words in finding.cause


@pytest.mark.parametrize(
    ("usable", "state"), [(50, None), (14, State.WARNING), (4, State.PROBLEM), (None, None)]
)
def test_disks_are_checked_by_free_space(usable: int | None, state: State | None) -> None:
    finding = health._disk(1, "/data", LogDirDescription(None, {}, 100, usable))
    assert (None if finding is None else finding.state) is state


def test_an_offline_disk_is_a_problem() -> None:
    finding = health._disk(1, "/data", LogDirDescription(KafkaStorageError(), {}, None, None))
    assert finding is not None
    assert "/data of broker 1 is offline" in finding.cause


def test_a_voter_counts_as_lagging_only_after_a_while() -> None:
    def voter(number: int, end: int, caught_up: int | None) -> Any:
        return SimpleNamespace(
            id=number, log_end_offset=end, last_caught_up_timestamp=caught_up, last_fetch_timestamp=100_000
        )

    leader = voter(1, 50, 100_000)
    assert not health._is_behind(voter(2, 50, None), leader)
    assert not health._is_behind(voter(2, 40, 95_000), leader)
    assert health._is_behind(voter(2, 40, 10_000), leader)
    assert health._is_behind(voter(2, 40, None), leader)


def test_long_lists_are_truncated() -> None:
    assert listed(range(3)) == "0, 1, 2"
    assert listed(range(8)) == "0, 1, 2, 3, 4 and 3 more"
    assert (several(1, "disk"), several(2, "disk")) == ("1 disk", "2 disks")
