"""The clock, network and randomness of a client."""

from __future__ import annotations

from ottla import host
from ottla.ports import Clock, Network, Random


class Ports:
    """The ports of this machine, unless others are given, as in a simulation."""

    __slots__ = ("clock", "network", "random")

    def __init__(
        self, clock: Clock | None = None, network: Network | None = None, random: Random | None = None
    ) -> None:
        self.clock = clock or host.HostClock()
        self.network = network or host.HostNetwork()
        self.random = random or host.HostRandom()
