"""The nodes that one supervisor runs, each with what starts it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ottla.config import BrokerConfig


class ClusterError(RuntimeError):
    """The operation failed; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What the status of a node says about it whether it runs or not. The supervisor writes it as JSON."""

    roles: list[str]
    address: tuple[str, int] | None
    """For clients; None for a controller."""
    local_address: tuple[str, int] | None
    controller_port: int | None
    log: str | None
    """None: the output of the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """What starts a node, and what others need to know about it."""

    config: BrokerConfig
    words: tuple[str, ...]
    """The arguments of `ottla.cluster.child`."""
    log: Path | None
    """None: the output of the supervisor."""
    has_environment: bool = False
    """Whether the environment sets settings, too."""
    settings_place: str
    """Where its settings are, for error messages."""

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def roles(self) -> list[str]:
        return sorted(self.config.roles)

    @property
    def address(self) -> tuple[str, int] | None:
        """The address for clients."""
        if not self.config.is_broker:
            return None
        endpoint = self.config.advertised_listeners[0]
        bound = next(one.port for one in self.config.data_listeners if one.name == endpoint.name)
        return endpoint.host or socket.gethostname(), endpoint.port or bound

    @property
    def local_address(self) -> tuple[str, int] | None:
        """Where this machine reaches the broker. The advertised address may be that of a proxy."""
        if not self.config.is_broker:
            return None
        endpoint = self.config.data_listeners[0]
        return ("localhost" if endpoint.host in ("", "0.0.0.0", "::") else endpoint.host), endpoint.port

    def facts(self) -> NodeFacts:
        controllers = self.config.controller_listeners if self.config.is_controller else ()
        return NodeFacts(
            roles=self.roles,
            address=self.address,
            local_address=self.local_address,
            controller_port=controllers[0].port if controllers else None,
            log=None if self.log is None else str(self.log),
        )

    @property
    def log_place(self) -> str:
        return "the log" if self.log is None else str(self.log)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes by id, and the directory of their supervisor."""

    directory: Path
    """The supervisor keeps its lock and its state there. It exists when the nodes start."""
    nodes: dict[int, NodeStart]
    selector: str
    """What selects this group on the command line of `ottla cluster status` and `down`."""

    @property
    def bootstrap_servers(self) -> str:
        return bootstrap_servers(node.address for node in self.nodes.values())

    def check_ports(self) -> None:
        """Fail unless every port is free."""
        for node in self.nodes.values():
            for listener in node.config.listeners:
                check_port(listener.host, listener.port, f"change the port in {node.settings_place}")


def bootstrap_servers(addresses: Iterable[tuple[str, int] | None]) -> str:
    known = (found for found in addresses if found is not None)
    return ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in known)


def check_port(host: str, port: int, cure: str) -> None:
    """Fail unless a listener can be bound; `cure` says how to choose another port."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:  # the node itself says what is wrong with the name
        return
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                continue  # a family that this machine does not have
            raise ClusterError(
                f"Cannot bind port {port} on {host or 'this machine'} ({error.strerror}). Stop the process "
                f"that uses it, or {cure}."
            ) from error
