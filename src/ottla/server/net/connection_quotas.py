"""Limits of connections: how many at a time, and how many per second.

As in Kafka there are limits for the node, for each listener and for each address. Rules:
- A connection counts from `add` to `drop`, however it ends.
- The inter-broker listener is exempt from the node's limit if clients have their own listeners: the client
  that has been idle longest is closed.
- Controller listeners have their own quotas, which no dynamic setting changes: nodes can always reach each
  other, and an operator can undo a limit that is too low there.
- Connections over the rate of the node or listener wait, one behind the other. As in Kafka no rate, not even
  0, delays a connection by more than one window (`quota.window.size.seconds`). A connection that would have
  to wait for more than `WAIT_S_MAX` is closed, and uses none of the rate: however many were opened, the wait
  is short.
- Connections over the rate of their address are closed. Connections rejected by a rate are closed after a
  window at the latest, which slows down clients that reconnect at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage
from ottla.ports import Clock

UNLIMITED = 2**31 - 1
ADDRESSES_MAX = 10_000
"""The number of addresses whose rates are remembered before idle ones are dropped."""
WAIT_S_MAX = 10.0
"""Below the time for which clients wait for a response."""

_IP = "ip"
_IP_RATE = "connection_creation_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The settings. Rates are connections per second, averaged over `burst_s`."""

    total_max: int = UNLIMITED
    address_max: int = UNLIMITED
    address_max_overrides: Mapping[str, int] = field(default_factory=dict)
    listener_max: Mapping[str, int] = field(default_factory=dict)
    rate: float = UNLIMITED
    listener_rates: Mapping[str, float] = field(default_factory=dict)
    address_rate: float = UNLIMITED
    address_rates: Mapping[str, float] = field(default_factory=dict)
    burst_s: float = 11.0
    window_s: float = 1.0

    @classmethod
    def of(
        cls, config: BrokerConfig, listeners: list[str], image: ClusterImage | None = None
    ) -> ConnectionLimits:
        """The limits of some listeners; `image` contains the rates of addresses."""
        maxima: dict[str, int] = {}
        rates: dict[str, float] = {}
        for name in listeners:
            most = config.listener_value(name, "max.connections")
            rate = config.listener_value(name, "max.connection.creation.rate")
            assert isinstance(most, int)
            assert isinstance(rate, int)
            maxima[name], rates[name] = most, rate
        address_rate, address_rates = _address_rates(image) if image is not None else (UNLIMITED, {})
        return cls(
            total_max=config.int_of("max.connections"),
            address_max=config.int_of("max.connections.per.ip"),
            address_max_overrides={
                plain_address(host): most for host, most in config.connections_per_ip.items()
            },
            listener_max=maxima,
            rate=config.int_of("max.connection.creation.rate"),
            listener_rates=rates,
            address_rate=address_rate,
            address_rates=address_rates,
            burst_s=config.int_of("quota.window.num") * config.int_of("quota.window.size.seconds"),
            window_s=config.int_of("quota.window.size.seconds"),
        )


def _address_rates(image: ClusterImage) -> tuple[float, dict[str, float]]:
    """The default rate of addresses, and the addresses with their own rate."""
    default: float = UNLIMITED
    rates: dict[str, float] = {}
    for entity, quotas in image.client_quotas.items():
        if _IP_RATE in quotas and len(entity) == 1:
            ((kind, address),) = entity
            if kind == _IP and address is None:
                default = quotas[_IP_RATE]
            elif kind == _IP and address is not None:
                rates[plain_address(address)] = quotas[_IP_RATE]
    return default, rates


def plain_address(text: str) -> str:
    """An IP address in the notation of sockets; other text unchanged."""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


class _Rate:
    """A rate that allows bursts: the connections of `burst_s` may arrive at once."""

    __slots__ = ("taken_until",)

    def __init__(self) -> None:
        self.taken_until = float("-inf")  # when everything taken so far has been allowed

    def delay_s(self, rate: float, burst_s: float, now: float) -> float:
        """How long one more connection must wait. Does not count it."""
        if rate >= UNLIMITED:
            return 0.0
        return max(0.0, max(self.taken_until, now - burst_s) + 1.0 / max(rate, 1e-9) - now)

    def take(self, rate: float, burst_s: float, now: float) -> None:
        if rate < UNLIMITED:
            self.taken_until = max(self.taken_until, now - burst_s) + 1.0 / max(rate, 1e-9)


class Admission(NamedTuple):
    """The decision about a new connection: serve it after `delay_s`, or close it then for `refusal`."""

    refusal: str | None = None
    delay_s: float = 0.0


_ADMITTED = Admission()


class ConnectionQuotas:
    """The connections of listeners that share their limits. `limits` can be replaced at any time.

    `protected_listener`: the inter-broker listener, if clients have others.
    """

    def __init__(
        self, clock: Clock, limits: ConnectionLimits, *, protected_listener: str | None = None
    ) -> None:
        self.limits = limits
        self.total = 0
        self.by_listener: dict[str, int] = {}
        self.by_address: dict[str, int] = {}
        self._clock = clock
        self._protected = protected_listener
        self._rate = _Rate()
        self._listener_rates: dict[str, _Rate] = {}
        self._address_rates: dict[str, _Rate] = {}

    @property
    def is_exceeded(self) -> bool:
        """Whether the protected listener has exceeded the node's limit: another connection must be closed."""
        return self.total > self.limits.total_max

    def is_protected(self, listener: str) -> bool:
        return listener == self._protected

    def add(self, listener: str, address: str) -> Admission:
        """Count one more connection, and decide about it."""
        limits = self.limits
        self.total += 1
        in_listener = self.by_listener[listener] = self.by_listener.get(listener, 0) + 1
        of_address = self.by_address[address] = self.by_address.get(address, 0) + 1
        if self.total > limits.total_max and listener != self._protected:
            return Admission(
                f"this node has reached its limit of {limits.total_max} connections (max.connections)"
            )
        listener_max = limits.listener_max.get(listener, UNLIMITED)
        if in_listener > listener_max:
            return Admission(
                f"listener {listener} has reached its limit of {listener_max} connections (its "
                "max.connections)"
            )
        address_max = limits.address_max_overrides.get(address, limits.address_max)
        if of_address > address_max:
            return Admission(
                f"{address} has reached its limit of {address_max} connections (max.connections.per.ip)"
            )
        return self._paced(listener, address)

    def drop(self, listener: str, address: str) -> None:
        self.total -= 1
        self.by_listener[listener] -= 1
        count = self.by_address[address] - 1
        if count:
            self.by_address[address] = count
        else:
            del self.by_address[address]

    def _paced(self, listener: str, address: str) -> Admission:
        limits = self.limits
        burst_s = limits.burst_s
        now = self._clock.monotonic()
        address_rate = limits.address_rates.get(address, limits.address_rate)
        if address_rate < UNLIMITED:
            of_address = self._rate_of(address, now)
            delay_s = of_address.delay_s(address_rate, burst_s, now)
            if delay_s:
                return Admission(
                    f"{address} exceeds its quota of {address_rate:g} new connections per second",
                    min(delay_s, limits.window_s),
                )
            of_address.take(address_rate, burst_s, now)
        of_listener = self._listener_rates.setdefault(listener, _Rate())
        listener_rate = max(limits.listener_rates.get(listener, UNLIMITED), 1.0 / limits.window_s)
        rate = UNLIMITED if listener == self._protected else max(limits.rate, 1.0 / limits.window_s)
        delay_s = max(
            of_listener.delay_s(listener_rate, burst_s, now), self._rate.delay_s(rate, burst_s, now)
        )
        if delay_s > WAIT_S_MAX:
            return Admission("new connections exceed max.connection.creation.rate", limits.window_s)
        of_listener.take(listener_rate, burst_s, now)
        self._rate.take(rate, burst_s, now)
        return Admission(None, delay_s) if delay_s else _ADMITTED

    def _rate_of(self, address: str, now: float) -> _Rate:
        rates = self._address_rates
        found = rates.get(address)
        if found is None:
            if len(rates) >= ADDRESSES_MAX:
                oldest = now - self.limits.burst_s
                self._address_rates = rates = {
                    one: rate for one, rate in rates.items() if rate.taken_until > oldest
                }
            found = rates[address] = _Rate()
        return found
