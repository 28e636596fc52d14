"""Checks that the brokers are reachable at their bootstrap and advertised addresses.

Clients connect first to a bootstrap server and then to the addresses that it advertises
(advertised.listeners). A wrong advertised address is the usual cause of a client that connects and then
hangs, so both are tested: name lookup, connection, first request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.cli.checks.finding import Finding, State, listed, ok, problem, warning
from ottla.client.config import AdminSettings
from ottla.client.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionRefused,
    ConnectTimedOut,
    NameNotResolved,
    ProtocolMismatch,
    TlsFailed,
)
from ottla.client.net.connection import Link
from ottla.client.security import connection_options_for
from ottla.host import HostClock, HostNetwork, HostRandom
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import KafkaError
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

CONNECTION = "connection"
LISTENERS = "listeners"
VERSIONS = "versions"
_NEEDED = ("Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator", "OffsetCommit", "JoinGroup")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer on one connection: the brokers it knows and the API versions it supports."""

    cluster_id: str
    brokers: Mapping[int, Address]
    versions: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Reached:
    """A tested address: its IP addresses, and the answer or the error."""

    address: Address
    numbers: tuple[str, ...] = ()
    answer: Answer | None = None
    error: Exception | None = None

    @property
    def name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def is_local(self) -> bool:
        """Whether the name resolves to a loopback address."""
        return bool(self.numbers) and all(ipaddress.ip_address(one).is_loopback for one in self.numbers)


@dataclass(slots=True)
class Connections:
    """The results for all tested addresses."""

    bootstrap: list[Reached] = field(default_factory=list)
    brokers: dict[int, Reached] = field(default_factory=dict)

    @property
    def first_answer(self) -> Answer | None:
        return next((one.answer for one in self.bootstrap if one.answer is not None), None)

    @property
    def can_go_on(self) -> bool:
        """Whether the other checks can run."""
        return any(one.answer is not None for one in self.brokers.values())


def look(config: Mapping[str, object], timeout_ms: int) -> Connections:
    """Test the bootstrap servers, then the addresses that they advertise."""
    return asyncio.run(_look(AdminSettings.parse(config), timeout_ms))


async def _look(settings: AdminSettings, timeout_ms: int) -> Connections:
    found = Connections()
    tries = [_try(settings, address, timeout_ms) for address in settings.bootstrap_servers]
    found.bootstrap = list(await asyncio.gather(*tries))
    if found.first_answer is not None:
        brokers = found.first_answer.brokers
        reached = await asyncio.gather(*(_try(settings, one, timeout_ms) for one in brokers.values()))
        found.brokers = dict(zip(brokers, reached, strict=True))
    return found


async def _try(settings: AdminSettings, address: Address, timeout_ms: int) -> Reached:
    host, port = address
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        return Reached(address, error=NameNotResolved(f"{host}: {error}"))
    numbers = tuple(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in infos))
    clock, network, random = HostClock(), HostNetwork(), HostRandom()
    try:
        options = connection_options_for(settings, clock=clock, network=network, random=random)
        link = await Link.open(network, clock, options, host, port, timeout_ms=timeout_ms)
    except (ClientError, KafkaError, OSError) as error:
        return Reached(address, numbers, error=error)
    try:
        answer: MetadataResponse = await link.send(MetadataRequest(topics=[]), timeout_ms=timeout_ms)
        return Reached(address, numbers, _answer(answer, link))
    except (ClientError, KafkaError) as error:
        return Reached(address, numbers, error=error)
    finally:
        link.close()


def _answer(response: MetadataResponse, link: Link) -> Answer:
    versions = {
        api.name: (common[0], common[-1])
        for key, api in API_BY_KEY.items()
        if (common := link.versions(key)) is not None
    }
    brokers = {one.node_id: (one.host, one.port) for one in response.brokers}
    return Answer(response.cluster_id or "", dict(sorted(brokers.items())), versions)


# Interpretation


def findings(connections: Connections) -> list[Finding]:
    """Turn the results into findings. Pure."""
    found = [_bootstrap(one) for one in connections.bootstrap]
    clusters = {one.answer.cluster_id for one in connections.bootstrap if one.answer is not None}
    if len(clusters) > 1:
        found.append(
            problem(
                CONNECTION,
                f"The bootstrap servers belong to {len(clusters)} clusters: {listed(sorted(clusters))}.",
                "Pass servers of one cluster with -b, or fix the profile: ottla profile show",
            )
        )
    listeners = [_advertised(connections, node, one) for node, one in connections.brokers.items()]
    found += [one for one in listeners if one.state is not State.OK]
    if connections.brokers and all(one.state is State.OK for one in listeners):
        names = listed(one.name for one in connections.brokers.values())
        found.append(ok(LISTENERS, f"All advertised listeners are reachable: {names}."))
    found += _versions(connections)
    return found


def _bootstrap(one: Reached) -> Finding:
    if one.answer is not None:
        where = listed(one.numbers)
        shown = one.name if where == one.address[0] else f"{one.name} ({where})"
        return ok(CONNECTION, f"Bootstrap server {shown} belongs to cluster {one.answer.cluster_id}.")
    cause, cure = _why(one)
    return problem(CONNECTION, f"Bootstrap server {one.name}: {cause}", cure)


def _why(one: Reached) -> tuple[str, str]:
    """Why an address does not answer, and the remedy."""
    host, port = one.address
    if isinstance(one.error, NameNotResolved):
        return f"{host} does not resolve to an address.", f"Check the name: getent hosts {host}"
    if isinstance(one.error, ConnectionRefused):
        return (
            f"the connection to port {port} of {listed(one.numbers)} was refused.",
            "Start the broker, or use the port in its listeners setting",
        )
    if isinstance(one.error, ConnectTimedOut):
        return (
            f"{listed(one.numbers)} timed out: the host is down, a firewall drops the packets, or the "
            "listener expects TLS.",
            "Check the host and the firewall, or set -X security.protocol=SSL",
        )
    if isinstance(one.error, AuthenticationFailed):
        return f"authentication failed: {_text(one)}", "Fix the sasl settings: ottla profile show"
    if isinstance(one.error, TlsFailed):
        return f"the TLS handshake failed: {_text(one)}", "Fix the ssl settings: ottla profile show"
    if isinstance(one.error, ProtocolMismatch):
        return (
            f"the server is not a Kafka broker, or uses another security.protocol: {_text(one)}",
            "Connect to a client listener, or set security.protocol with -X",
        )
    return f"the server did not answer like a Kafka broker: {_text(one)}", "Check the broker's log"


def _text(one: Reached) -> str:
    return f"{str(one.error).rstrip('.')}."


def _advertised(connections: Connections, node: int, one: Reached) -> Finding:
    first = next(reached for reached in connections.bootstrap if reached.answer is not None)
    host, port = first.address
    claim = f"Broker {node} advertises {one.name}"
    cure = (
        f"Set advertised.listeners in server.properties of broker {node} to an address that clients can "
        f"reach, such as PLAINTEXT://{host}:{port}, and restart it"
    )
    if one.is_local and not first.is_local:
        return problem(
            LISTENERS,
            f"{claim}, a loopback address, but was reached at {first.name}. Its advertised.listeners is "
            "wrong.",
            cure,
        )
    if one.answer is None:
        cause, other = _why(one)
        is_name = isinstance(one.error, (NameNotResolved, ConnectionRefused, ConnectTimedOut))
        if is_name:
            return problem(
                LISTENERS,
                f"{claim}, but {cause} Either advertised.listeners is wrong or the broker is down.",
                cure,
            )
        return problem(LISTENERS, f"{claim}: {cause}", other)
    if connections.first_answer is not None and one.answer.cluster_id != connections.first_answer.cluster_id:
        return problem(
            LISTENERS,
            f"{claim}, but that address belongs to cluster {one.answer.cluster_id}, not "
            f"{connections.first_answer.cluster_id}. Its advertised.listeners is wrong.",
            cure,
        )
    return ok(LISTENERS, f"{claim}, which is reachable.")


def _versions(connections: Connections) -> list[Finding]:
    answers = {node: one.answer for node, one in connections.brokers.items() if one.answer is not None}
    if not answers:
        return []
    lacking = {
        node: missing
        for node, answer in answers.items()
        if (missing := [name for name in _NEEDED if name not in answer.versions])
    }
    if lacking:
        return [
            problem(
                VERSIONS,
                f"Broker {node} has no version of {listed(missing)} that this client supports.",
                "Upgrade the older side; kafka-broker-api-versions lists all versions",
            )
            for node, missing in lacking.items()
        ]
    if len({_key(answer.versions) for answer in answers.values()}) > 1:
        return [
            warning(
                VERSIONS,
                f"Brokers {listed(answers)} support different API versions: an upgrade is in progress.",
                "Upgrade all brokers to one release; kafka-broker-api-versions shows the differences",
            )
        ]
    return [ok(VERSIONS, f"All brokers support the same {len(next(iter(answers.values())).versions)} APIs.")]


def _key(versions: Mapping[str, tuple[int, int]]) -> Any:
    return tuple(sorted(versions.items()))
