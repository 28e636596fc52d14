"""The configuration of one node: typed, checked, and immutable.

A setting's value comes from the first of four layers that has it: set at run time for this broker, set at run
time for the whole cluster, given at startup (command line over environment over file), and the built-in
default. `load` returns only valid configurations; for any other it raises an error that names the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from ottla import properties
from ottla.config import environment as environment_rules
from ottla.config import synonyms
from ottla.config.listeners import Conflict, Endpoint, parse_listeners, parse_map, protocol_map
from ottla.config.providers import Providers, UnresolvedReference
from ottla.config.schema import LISTENER_PREFIX, ResourceType, base_name, definition, definitions
from ottla.config.values import InvalidValue, Value, split_host_port


class ConfigError(ValueError):
    """The settings are invalid and the node must not start. The message has one line per error."""


class Setting(NamedTuple):
    """A text and the place where it was given."""

    text: str
    origin: str


class BrokerConfig:
    """The settings of one node. Access values by name with [], derived ones as properties."""

    def __init__(
        self,
        static: Mapping[str, Setting],
        *,
        cluster: Mapping[str, str] | None = None,
        broker: Mapping[str, str] | None = None,
        base_directory: str = "",
        cluster_id: str | None = None,
    ) -> None:
        self.static = dict(static)
        """Given at startup, as `Setting`s."""
        self.dynamic_cluster = dict(cluster or {})
        """Set at run time for all brokers."""
        self.dynamic_broker = dict(broker or {})
        """Set at run time for this broker."""
        self.cluster_id = cluster_id
        """The cluster id to format with, if one was given (CLUSTER_ID in the environment)."""
        self.warnings: tuple[str, ...] = ()
        """Warnings for the operator; log them once."""
        self._base_directory = base_directory
        self._texts = {name: setting.text for name, setting in self.static.items()}
        for layer in (self.dynamic_cluster, self.dynamic_broker):
            for name, text in layer.items():
                for other in synonyms.of(name) if name in synonyms.grouped() else ():
                    self._texts.pop(other, None)
                self._texts[name] = text
        self._values: dict[str, Value] = {}

    @classmethod
    def load(
        cls,
        text: str = "",
        *,
        file: str = "server.properties",
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        base_directory: str = "",
        read: Callable[[str], bytes] | None = None,
    ) -> BrokerConfig:
        """Load the configuration from a properties file, KAFKA_* variables and command line options.

        Relative paths in it start from `base_directory`, which is absolute; `read` returns the content of a
        file that a config provider refers to. Raises ConfigError.
        """
        from ottla.config import checks, consistency  # an import cycle: they use BrokerConfig

        given = environment or {}
        static = _gather(text, file, given, overrides or {})
        _resolve(static, given, read)
        warnings = checks.check_settings(static)
        config = cls(static, base_directory=base_directory, cluster_id=given.get("CLUSTER_ID") or None)
        try:
            warnings += consistency.check_whole(config)
            consistency.check_supported(config)
        except Conflict as conflict:
            raise ConfigError(config.located(conflict)) from conflict
        config.warnings = tuple(warnings)
        return config

    def with_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """This configuration with other dynamic settings. Those that cannot apply are skipped, with a
        warning.

        Pass the metadata's settings for all brokers and for this one; it never raises.
        """
        from ottla.config import checks, consistency  # an import cycle: they use BrokerConfig

        warnings: list[str] = []
        kept_cluster = checks.usable_dynamic(cluster, per_broker=False, warnings=warnings)
        kept_broker = checks.usable_dynamic(broker, per_broker=True, warnings=warnings)
        for layers in ((kept_cluster, kept_broker), (kept_cluster, {}), ({}, kept_broker), ({}, {})):
            config = BrokerConfig(
                self.static,
                cluster=layers[0],
                broker=layers[1],
                base_directory=self._base_directory,
                cluster_id=self.cluster_id,
            )
            try:
                consistency.check_whole(config)
            except Conflict as conflict:
                warnings.append(f"Ignoring inconsistent dynamic settings: {conflict}")
            else:
                config.warnings = tuple(warnings)
                return config
        raise AssertionError("A configuration was valid when it was loaded.")

    # Values -----------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Value:
        """The effective value; KeyError for an unknown setting."""
        try:
            return self._values[name]
        except KeyError:
            value = self._values[name] = self._value(name)
            return value

    def _value(self, name: str) -> Value:
        found = definition(ResourceType.BROKER, name)
        if found is None:
            raise KeyError(name)
        text = self._texts.get(name)
        if text is not None:
            return found.parse(text)
        return self[base_name(name)] if name.startswith(LISTENER_PREFIX) else found.default_value

    def explicit(self, name: str) -> bool:
        """Whether the setting was given, at startup or at run time."""
        return name in self._texts

    def int_of(self, name: str) -> int:
        value = self[name]
        assert isinstance(value, int), f"{name} is not an integer: {value!r}"
        return value

    def float_of(self, name: str) -> float:
        value = self[name]
        assert isinstance(value, float), f"{name} is not a floating-point number: {value!r}"
        return value

    def bool_of(self, name: str) -> bool:
        value = self[name]
        assert isinstance(value, bool), f"{name} is not true or false: {value!r}"
        return value

    def str_of(self, name: str) -> str:
        value = self[name]
        assert isinstance(value, str), f"{name} is not a string: {value!r}"
        return value

    def list_of(self, name: str) -> tuple[str, ...]:
        value = self[name]
        assert isinstance(value, tuple), f"{name} is not a list: {value!r}"
        return value

    def listener_value(self, listener: str, name: str) -> Value:
        """A setting of a listener: the listener's own, else the node's."""
        return self[f"{LISTENER_PREFIX}{listener.lower()}.{name}"]

    def texts(self) -> dict[str, str]:
        """Every setting that was given, known or not, as text."""
        return dict(self._texts)

    def located(self, conflict: Conflict) -> str:
        """The message of a conflict, with the place where the first of its settings was given."""
        places = (self.static[name].origin for name in conflict.names if name in self.static)
        place = next(places, None)
        return f"{place}: {conflict}" if place else str(conflict)

    # Derived ----------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.int_of("node.id")

    @cached_property
    def roles(self) -> frozenset[str]:
        return frozenset(self.list_of("process.roles"))

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def rack(self) -> str | None:
        value = self["broker.rack"]
        return value if isinstance(value, str) else None

    @property
    def auto_format(self) -> bool:
        """Whether the node formats an empty data directory at startup."""
        return self.bool_of("ottla.auto.format")

    @cached_property
    def security_protocols(self) -> Mapping[str, str]:
        """Listener name -> PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return protocol_map(
            self.str_of("listener.security.protocol.map"),
            explicit=self.explicit("listener.security.protocol.map"),
            listeners=self.list_of("listeners"),
            controller_names=self.controller_listener_names,
        )

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        return self.list_of("controller.listener.names")

    @cached_property
    def listeners(self) -> tuple[Endpoint, ...]:
        """All endpoints that this node listens on."""
        entries = self.list_of("listeners")
        return parse_listeners("listeners", entries, self.security_protocols, distinct_ports=True)

    @cached_property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(
            endpoint for endpoint in self.listeners if endpoint.name in self.controller_listener_names
        )

    @cached_property
    def data_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners for clients and other brokers."""
        return tuple(e for e in self.listeners if e.name not in self.controller_listener_names)

    @cached_property
    def _advertised(self) -> tuple[Endpoint, ...] | None:
        entries = self["advertised.listeners"]
        if not isinstance(entries, tuple):
            return None
        return parse_listeners("advertised.listeners", entries, self.security_protocols, distinct_ports=False)

    @cached_property
    def advertised_listeners(self) -> tuple[Endpoint, ...]:
        """The endpoints for brokers and clients. Port 0 means the port that was bound."""
        advertised = self.listeners if self._advertised is None else self._advertised
        return tuple(e for e in advertised if e.name not in self.controller_listener_names)

    @cached_property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """The endpoints at which other nodes reach this controller, the default listener first.

        A listener that is not advertised is reached at its own address; if that is every interface, at the
        host that controller.quorum.voters has for this node, else (empty host) at the name of this
        machine.
        """
        advertised = {endpoint.name: endpoint for endpoint in self._advertised or ()}
        listening = {endpoint.name: endpoint for endpoint in self.controller_listeners}
        found = []
        for at, name in enumerate(self.controller_listener_names):
            endpoint = advertised.get(name) or listening.get(name)
            if endpoint is None:
                continue
            if name not in advertised and endpoint.host in ("", "0.0.0.0"):
                voter = self.quorum_voters.get(self.node_id) if at == 0 else None
                host, port = voter or ("", endpoint.port)
                endpoint = endpoint._replace(host=host, port=port)
            found.append(endpoint)
        return tuple(found)

    @cached_property
    def inter_broker_listener_name(self) -> str:
        name = self["inter.broker.listener.name"]
        if not isinstance(name, str):
            return self.str_of("security.inter.broker.protocol")
        setting = "inter.broker.listener.name"
        if self.explicit("security.inter.broker.protocol"):
            other = "security.inter.broker.protocol"
            raise Conflict(f"Only one of {setting} and {other} should be set.", setting, other)
        if name.upper() not in self.security_protocols:
            message = (
                f"Listener with name {name.upper()} defined in {setting} not found in "
                "listener.security.protocol.map."
            )
            raise Conflict(message, setting)
        return name.upper()

    @cached_property
    def early_start_listeners(self) -> frozenset[str]:
        """Listeners that open before the node has caught up with the metadata."""
        names = self["early.start.listeners"]
        if not isinstance(names, tuple):
            return frozenset(endpoint.name for endpoint in self.controller_listeners)
        known = {endpoint.name for endpoint in self.listeners}
        for name in names:
            if name not in known:
                message = (
                    f"early.start.listeners contains listener {name}, but this is not contained in "
                    "listeners or controller.listener.names"
                )
                raise Conflict(message, "early.start.listeners")
        return frozenset(names)

    @cached_property
    def quorum_voters(self) -> Mapping[int, tuple[str, int]]:
        """The fixed voters: id -> (host, port)."""
        voters: dict[int, tuple[str, int]] = {}
        for entry in self.list_of("controller.quorum.voters"):
            number, _, address = entry.partition("@")
            where = split_host_port(address)
            assert where is not None, "the setting was parsed"
            if where[0] == "0.0.0.0":
                name = "controller.quorum.voters"
                raise Conflict(f"Host string (0.0.0.0) is not routeable: {name} needs real addresses.", name)
            voters[int(number)] = where
        return voters

    @cached_property
    def quorum_bootstrap_servers(self) -> tuple[tuple[str, int], ...]:
        servers = (split_host_port(entry) for entry in self.list_of("controller.quorum.bootstrap.servers"))
        return tuple(server for server in servers if server is not None)

    @cached_property
    def log_directories(self) -> tuple[str, ...]:
        """The data directories; absolute if a base directory was given."""
        dirs = self["log.dirs"]
        paths = dirs if isinstance(dirs, tuple) else self.list_of("log.dir")
        return tuple(self._absolute(path) for path in paths)

    @cached_property
    def metadata_log_directory(self) -> str:
        path = self["metadata.log.dir"]
        return self._absolute(path) if isinstance(path, str) else self.log_directories[0]

    @cached_property
    def all_directories(self) -> tuple[str, ...]:
        """The directories of data and metadata, without duplicates."""
        return tuple(dict.fromkeys((*self.log_directories, self.metadata_log_directory)))

    @cached_property
    def cordoned_directories(self) -> frozenset[str]:
        """Those `log_directories` that get no new partitions."""
        entries = self.list_of("cordoned.log.dirs")
        return frozenset(self.log_directories if entries == ("*",) else map(self._absolute, entries))

    @cached_property
    def connections_per_ip(self) -> Mapping[str, int]:
        """Limits for single hosts that replace max.connections.per.ip."""
        name = "max.connections.per.ip.overrides"
        entries = parse_map(name, self.str_of(name))
        for host, count in entries.items():
            if not (count.isascii() and count.isdigit()):
                raise Conflict(f"{name} sets the limit {count} for {host}, which is not a number.", name)
        return {host: int(count) for host, count in entries.items()}

    @property
    def queued_request_bytes(self) -> int | None:
        """The limit on bytes of concurrent requests; None for no limit. A single request always fits."""
        limit = self.int_of("queued.max.request.bytes")
        return max(limit, self.int_of("socket.request.max.bytes")) if limit > 0 else None

    def _absolute(self, path: str) -> str:
        if path.startswith("/") or not self._base_directory:
            return path
        return f"{self._base_directory.rstrip('/')}/{path.removeprefix('./')}"


def _gather(
    text: str, file: str, environment: Mapping[str, str], overrides: Mapping[str, str]
) -> dict[str, Setting]:
    """Merge all sources, later ones over earlier ones: file, environment, command line."""
    try:
        entries = properties.parse(text)
    except properties.PropertiesError as error:
        raise ConfigError(f"{file}, {error}") from error
    static = {entry.key: Setting(entry.value, f"{file}, line {entry.line}") for entry in entries}
    for name, (value, variable) in environment_rules.settings(environment).items():
        static[name] = Setting(value, f"environment variable {variable}")
    for name, value in overrides.items():
        static[name] = Setting(value, f"option {name}={value}")
    _complete(static)
    return static


def _complete(static: dict[str, Setting]) -> None:
    """Derive settings from others: node.id and broker.id, and listeners as in the container image."""
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name not in static and other in static:
            static[name] = static[other]
    advertised = static.get("advertised.listeners")
    only_controller = static.get("process.roles", Setting("", "")).text.strip() == "controller"
    if advertised and advertised.origin.startswith("environment") and not only_controller:
        text = environment_rules.listeners_from_advertised(advertised.text)
        static.setdefault("listeners", Setting(text, advertised.origin))


def _resolve(
    static: dict[str, Setting], environment: Mapping[str, str], read: Callable[[str], bytes] | None
) -> None:
    if "config.providers" not in static:
        return
    texts = {name: setting.text for name, setting in static.items()}
    try:
        providers = Providers(texts, environment, read)
    except UnresolvedReference as error:
        raise ConfigError(f"{static['config.providers'].origin}: {error}") from error
    for name, setting in static.items():
        try:
            static[name] = setting._replace(text=providers.resolve(setting.text))
        except UnresolvedReference as error:
            raise ConfigError(f"{setting.origin}: {name}: {error}") from error


__all__ = ["BrokerConfig", "ConfigError", "InvalidValue", "Setting", "definitions"]
