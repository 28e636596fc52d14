"""Listeners: `NAME://host:port` texts, the security protocol of each name, and advertised addresses.

Names are stored in upper case. An empty host means every interface for listening, and this machine's name for
advertising. Conflict names the settings involved, so that the caller can add their places.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ENTRY = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})", re.DOTALL)
_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII)


class Endpoint(NamedTuple):
    """One address. An empty `host` means every interface."""

    name: str
    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Conflict(ValueError):
    """Settings that are valid one by one but not together. `names`: the settings, the one to blame first."""

    def __init__(self, message: str, *names: str) -> None:
        super().__init__(message)
        self.names = names


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener with this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_map(name: str, text: str) -> dict[str, str]:
    """Parse `key:value,key:value`; the value follows the last colon."""
    entries: dict[str, str] = {}
    for entry in text.split(","):
        if not entry.strip():
            continue
        key, colon, value = entry.strip().rpartition(":")
        if not colon:
            raise Conflict(f"{name} has the entry {entry.strip()}, which is not in the form key:value.", name)
        entries[key.strip()] = value.strip()
    return entries


def protocol_map(
    text: str, *, explicit: bool, listeners: Iterable[str], controller_names: Sequence[str]
) -> dict[str, str]:
    """The security protocol of each listener name.

    Without a given map (`explicit` False), controller listeners are PLAINTEXT, unless any listener uses TLS
    or SASL: then each of them must be mapped explicitly.
    """
    name = "listener.security.protocol.map"
    protocols = {}
    for listener, protocol in parse_map(name, text).items():
        if protocol.upper() not in PROTOCOLS:
            raise Conflict(f"Invalid security protocol `{protocol}` defined in {name}", name)
        protocols[listener.upper()] = protocol.upper()
    if explicit:
        return protocols
    used = [*controller_names, *(entry.partition(":")[0].upper() for entry in listeners)]
    if not any(listener in PROTOCOLS[1:] for listener in used):
        protocols.update({listener: "PLAINTEXT" for listener in controller_names if listener != "PLAINTEXT"})
    return protocols


def parse_listeners(
    name: str, entries: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool
) -> tuple[Endpoint, ...]:
    """The endpoints of a list such as `listeners`; `name` is the setting, for error messages."""
    endpoints = tuple(_endpoint(name, entry, protocols) for entry in entries)
    if len({endpoint.name for endpoint in endpoints}) != len(endpoints):
        raise Conflict(f"Each listener must have a different name, listeners: {','.join(entries)}", name)
    if distinct_ports:
        _check_ports(name, endpoints)
    return endpoints


def _endpoint(name: str, entry: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENTRY.fullmatch(entry)
    if match is None or int(match[3]) > 65535:
        raise Conflict(f"Unable to parse {entry} to a broker endpoint: it should be NAME://host:port.", name)
    listener = match[1].upper()
    if listener not in protocols:
        message = (
            f"No security protocol defined for listener {listener}: add it to listener.security.protocol.map"
        )
        raise Conflict(message, name, "listener.security.protocol.map")
    return Endpoint(listener, protocols[listener], match[2], int(match[3]))


def _check_ports(name: str, endpoints: Sequence[Endpoint]) -> None:
    """Two listeners may share a port only if one has an IPv4 address and the other an IPv6 address."""
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, group in by_port.items():
        kinds = sorted(_address_kind(endpoint.host) for endpoint in group)
        if len(group) > 1 and kinds != [4, 6]:
            shown = ",".join(map(str, endpoints))
            message = (
                "Each listener must have a different port, unless one has an IPv4 and the other an IPv6 "
                f"address, listeners: {shown}, port: {port}"
            )
            raise Conflict(message, name)


def _address_kind(host: str) -> int:
    if _IPV4.fullmatch(host):
        return 4
    return 6 if ":" in host else 0
