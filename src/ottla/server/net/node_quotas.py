"""The connection quotas of a whole node: one set for clients and brokers, one for controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage
from ottla.ports import Clock
from ottla.server.net.connection_quotas import ConnectionLimits, ConnectionQuotas
from ottla.server.net.listener import Listener

BROKER = "broker"
CONTROLLER = "controller"


class NodeQuotas:
    """`kinds`: "broker" or "controller" by listener name. `listeners` is filled as they are created."""

    def __init__(
        self, clock: Clock, config: BrokerConfig, kinds: Mapping[str, str], listeners: Sequence[Listener]
    ) -> None:
        self._kinds = kinds
        self._listeners = listeners
        names = self._names(BROKER)
        protected = config.inter_broker_listener_name if len(names) > 1 else None
        self._by_kind = {
            BROKER: ConnectionQuotas(clock, ConnectionLimits.of(config, names), protected_listener=protected),
            CONTROLLER: ConnectionQuotas(clock, ConnectionLimits.of(config, self._names(CONTROLLER))),
        }

    def of(self, listener: str) -> ConnectionQuotas:
        return self._by_kind[self._kinds[listener]]

    def take_limits(self, config: BrokerConfig, image: ClusterImage) -> None:
        """Apply dynamic settings to clients only: controllers stay reachable for every node."""
        self._by_kind[BROKER].limits = ConnectionLimits.of(config, self._names(BROKER), image)

    def make_room(self) -> None:
        """Brokers have exceeded the node's limit: close the client that has been idle longest."""
        quotas = self._by_kind[BROKER]
        connections = (
            connection
            for listener in self._listeners
            if self._kinds[listener.name] == BROKER and not quotas.is_protected(listener.name)
            for connection in listener.connections
            if not connection.is_closed
        )
        idlest = min(connections, key=lambda connection: connection.last_active, default=None)
        if idlest is not None:
            idlest.close("max.connections is reached and another broker needs a connection")

    def _names(self, kind: str) -> list[str]:
        return [name for name, kind_of_name in self._kinds.items() if kind_of_name == kind]
