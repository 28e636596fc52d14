"""What distinguishes the nodes that one machine runs from one configuration. Pure.

The first node is the configuration's own. Node k after it is a broker with

- the id `node.id` + 1000 k, so that machines whose own ids are 1, 2 and 3 never collide,
- its data in `nodes/<id>` within each directory of the configuration,
- for each of its ports the next one that no listener, controller or earlier node has.

Rule: none of this depends on the number of nodes. A restart with more nodes adds some, and one with fewer
finds the same ids, directories and ports for those that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.config import BrokerConfig, Endpoint

ID_STEP = 1000
DIRECTORY = "nodes"
"""Within a log directory. Kafka's and our own names of partition directories contain a dash."""
NODES_MAX = 256
_ID_MAX = 2**31 - 1
_PORT_MAX = 65535


class CannotDerive(ValueError):
    """The configuration does not allow this number of nodes. The message says why and what to do."""


def node_ids(config: BrokerConfig, count: int) -> list[int]:
    """The ids of the nodes; raises CannotDerive."""
    if not 1 <= count <= NODES_MAX:
        raise CannotDerive(f"A machine cannot run {count} nodes. Choose 1 to {NODES_MAX}.")
    if count > 1 and not config.is_broker:
        raise CannotDerive(
            "A node with process.roles=controller cannot be multiplied, only brokers can. Start it without "
            "--nodes, and the brokers of this machine from a file of their own."
        )
    found = [config.node_id + ID_STEP * number for number in range(count)]
    voters = sorted(set(found[1:]) & set(config.quorum_voters))
    if voters:
        raise CannotDerive(
            f"Node {voters[0]} is a controller in controller.quorum.voters, and would also be a broker "
            f"beside node.id={config.node_id}, since the ids of a machine's nodes are {ID_STEP} apart. "
            f"Choose ids that do not differ by a multiple of {ID_STEP}."
        )
    if found[-1] > _ID_MAX:
        raise CannotDerive(f"node.id={config.node_id} leaves no ids for {count} nodes. Choose a smaller one.")
    return found


def node_overrides(
    config: BrokerConfig, count: int, *, machine: str, free_ports: Callable[[int], Sequence[int]]
) -> dict[int, dict[str, str]]:
    """The settings of each node, by id, that differ from the configuration; raises CannotDerive.

    `machine` becomes `broker.rack` if there is none, and `free_ports` replaces listeners' ports 0.
    """
    ids = node_ids(config, count)
    ports = _Ports(config, free_ports)
    own = ports.next_node(config.listeners)
    common = {"broker.rack": machine} if config.is_broker and config.rack is None else {}
    common |= _own_controller(config, own)
    has_free_ports = any(endpoint.port == 0 for endpoint in config.listeners)
    found = {config.node_id: common | ({"listeners": _joined(own.values())} if has_free_ports else {})}
    for node_id in ids[1:]:
        found[node_id] = common | _further(config, node_id, ports.next_node(config.data_listeners))
    return found


def node_directory(directory: str, node_id: int) -> str:
    """Where a further node keeps what the first one keeps in `directory`."""
    return f"{directory.rstrip('/')}/{DIRECTORY}/{node_id}"


def _own_controller(config: BrokerConfig, listeners: Mapping[str, Endpoint]) -> dict[str, str]:
    """The setting that has the port 0 of this machine's own controller, if one has."""
    if not config.is_controller:
        return {}
    own = listeners[config.controller_listeners[0].name].port
    servers = config.quorum_bootstrap_servers
    if not all(port for _, port in servers):
        entries = (_address(host, port or own) for host, port in servers)
        return {"controller.quorum.bootstrap.servers": ",".join(entries)}
    voters = config.quorum_voters
    if voters.get(config.node_id, ("", own))[1] == 0:
        voters = {**voters, config.node_id: (voters[config.node_id][0], own)}
        entries = (f"{node_id}@{_address(*address)}" for node_id, address in voters.items())
        return {"controller.quorum.voters": ",".join(entries)}
    return {}


def _address(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _further(config: BrokerConfig, node_id: int, listeners: Mapping[str, Endpoint]) -> dict[str, str]:
    settings = {
        "process.roles": "broker",
        "node.id": str(node_id),
        "broker.id": str(node_id),
        "listeners": _joined(listeners.values()),
        "log.dirs": ",".join(node_directory(path, node_id) for path in config.log_directories),
        "controller.listener.names": ",".join(config.controller_listener_names),
    }
    if config.explicit("advertised.listeners"):
        settings["advertised.listeners"] = _advertised(config, listeners)
    if config.explicit("metadata.log.dir"):
        settings["metadata.log.dir"] = node_directory(config.metadata_log_directory, node_id)
    if config.bool_of("controller.quorum.auto.join.enable"):
        settings["controller.quorum.auto.join.enable"] = "false"
    if config.explicit("early.start.listeners"):
        early = (name for name in config.list_of("early.start.listeners") if name in listeners)
        settings["early.start.listeners"] = ",".join(early)
    if config.list_of("cordoned.log.dirs") not in ((), ("*",)):
        paths = sorted(config.cordoned_directories, key=config.log_directories.index)
        settings["cordoned.log.dirs"] = ",".join(node_directory(path, node_id) for path in paths)
    return settings


def _advertised(config: BrokerConfig, listeners: Mapping[str, Endpoint]) -> str:
    """Advertised ports are as far from the first node's as the ports that are listened on."""
    first = {endpoint.name: endpoint.port for endpoint in config.listeners}
    endpoints = []
    for endpoint in config.advertised_listeners:
        port = listeners[endpoint.name].port
        if endpoint.port and first[endpoint.name]:
            port += endpoint.port - first[endpoint.name]
        if port > _PORT_MAX:
            raise CannotDerive(
                f"The nodes after the first would advertise port {port} for {endpoint}, which exceeds the "
                f"maximum, {_PORT_MAX}. Choose a lower port in advertised.listeners."
            )
        endpoints.append(endpoint._replace(port=port))
    return _joined(endpoints)


def _joined(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(map(str, endpoints))


class _Ports:
    """Gives each node its ports, one node after the other."""

    def __init__(self, config: BrokerConfig, free_ports: Callable[[int], Sequence[int]]) -> None:
        self._free_ports = free_ports
        controllers = [port for _, port in (*config.quorum_voters.values(), *config.quorum_bootstrap_servers)]
        own = [endpoint.port for endpoint in config.listeners]
        self._taken = {*own, *controllers} - {0}
        self._last: dict[int, int] = {}
        """The last port that was given for a port of the configuration."""

    def next_node(self, endpoints: Sequence[Endpoint]) -> dict[str, Endpoint]:
        """The listeners of the next node by name. Two that share a port still do."""
        wanted = dict.fromkeys(endpoint.port for endpoint in endpoints if endpoint.port)
        given = {port: self._next(port) for port in wanted}
        free = iter(self._free(sum(not endpoint.port for endpoint in endpoints)))
        return {
            endpoint.name: endpoint._replace(port=given[endpoint.port] if endpoint.port else next(free))
            for endpoint in endpoints
        }

    def _free(self, count: int) -> Sequence[int]:
        while True:
            found = self._free_ports(count)
            if self._taken.isdisjoint(found):
                self._taken.update(found)
                return found

    def _next(self, port: int) -> int:
        if port not in self._last:
            self._last[port] = port
            return port
        number = self._last[port] + 1
        while number in self._taken:
            number += 1
        if number > _PORT_MAX:
            raise CannotDerive(
                f"The nodes after the first need more ports above {port} than there are up to {_PORT_MAX}. "
                "Choose a lower port in listeners."
            )
        self._taken.add(number)
        self._last[port] = number
        return number
