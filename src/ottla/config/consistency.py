"""Checks combinations of a node's settings: Kafka's rules and a few of our own, in Kafka's order.

`check_whole` stops at the first Conflict, which names the settings involved. It returns warnings for valid
settings that look like a mistake.
"""

from __future__ import annotations

from ipaddress import ip_address

from ottla.config import groups
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Conflict
from ottla.config.resolution import topic_value


def check_whole(config: BrokerConfig) -> list[str]:
    """Return warnings, or raise Conflict for the first combination that is invalid."""
    _check_ids(config)
    _check_log(config)
    warnings = _check_roles(config)
    _check_listeners(config)
    warnings += _check_connections(config)
    fault = groups.broker_fault(config.int_of)
    if fault is not None:
        raise Conflict(*fault)
    _require(
        len(config.list_of("group.share.assignors")) == 1,
        "group.share.assignors must contain exactly one assignor",
        "group.share.assignors",
    )
    _require(
        "classic" in config.list_of("group.coordinator.rebalance.protocols"),
        "Disabling the 'classic' protocol is not supported.",
        "group.coordinator.rebalance.protocols",
    )
    at_least = "group.share.max.share.sessions must be greater than or equal to group.share.max.size"
    fits = config.int_of("group.share.max.share.sessions") >= config.int_of("group.share.max.size")
    _require(fits, at_least, "group.share.max.share.sessions", "group.share.max.size")
    return warnings


def check_supported(config: BrokerConfig) -> None:
    """Raise Conflict for settings that Ottla does not support and must not ignore silently."""
    for endpoint in config.listeners:
        _require(
            endpoint.protocol == "PLAINTEXT",
            f"Listener {endpoint.name} uses {endpoint.protocol}, which Ottla does not support yet. "
            "Serving it in plain text would be insecure, so the node does not start. Use PLAINTEXT, or "
            "remove the listener.",
            "listeners",
            "listener.security.protocol.map",
        )


def _require(holds: bool, message: str, *names: str) -> None:
    if not holds:
        raise Conflict(message, *names)


def _check_ids(config: BrokerConfig) -> None:
    _require(
        config.int_of("broker.id") == config.node_id,
        "You must set `node.id` to the same value as `broker.id`.",
        "broker.id",
        "node.id",
    )


def _check_log(config: BrokerConfig) -> None:
    roll, jitter = topic_value(config, {}, "segment.ms"), topic_value(config, {}, "segment.jitter.ms")
    retention = topic_value(config, {}, "retention.ms")
    assert isinstance(roll, int)
    assert isinstance(jitter, int)
    assert isinstance(retention, int)
    _require(roll >= 1, "log.roll.ms must be greater than or equal to 1", "log.roll.ms")
    _require(jitter >= 0, "log.roll.jitter.ms must be greater than or equal to 0", "log.roll.jitter.ms")
    message = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    _require(
        retention >= 1 or retention == -1,
        message,
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    threads = config.int_of("log.cleaner.threads")
    _require(threads > 0, "log.cleaner.threads must be at least 1", "log.cleaner.threads")
    _require(
        config.int_of("log.cleaner.dedupe.buffer.size") // threads > 1024 * 1024,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        "log.cleaner.threads",
        "log.cleaner.dedupe.buffer.size",
    )
    wait = config.int_of("replica.fetch.wait.max.ms")
    _require(
        wait <= config.int_of("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms"
        " to prevent unnecessary socket timeouts",
        "replica.socket.timeout.ms",
        "replica.fetch.wait.max.ms",
    )
    _require(
        wait <= config.int_of("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
        " to prevent frequent changes in ISR",
        "replica.lag.time.max.ms",
        "replica.fetch.wait.max.ms",
    )
    if config.is_broker:
        _check_cordoned(config)


def _check_cordoned(config: BrokerConfig) -> None:
    name = "cordoned.log.dirs"
    entries = config.list_of(name)
    if "*" in entries:
        message = f"When {name} is set to *, it must not contain other values"
        _require(len(entries) == 1, message, name)
        return
    missing = sorted(config.cordoned_directories.difference(config.log_directories))
    shown = ", ".join(missing)
    message = f"All entries in {name} must be present in log.dirs or log.dir. Missing entries : {shown}"
    _require(not missing, message, name)


def _check_roles(config: BrokerConfig) -> list[str]:
    warnings = []
    heartbeat = config.int_of("broker.heartbeat.interval.ms")
    session = config.int_of("broker.session.timeout.ms")
    if heartbeat > session // 2:
        warnings.append(
            f"broker.heartbeat.interval.ms ({heartbeat}) should be at most half of "
            f"broker.session.timeout.ms ({session}), or a healthy broker may be fenced."
        )
    _require(
        bool(config.quorum_voters or config.quorum_bootstrap_servers),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap"
        " controllers or controller.quorum.voters must contain a parseable set of controllers.",
        "process.roles",
    )
    if config.is_controller:
        _check_controller(config)
    else:
        warnings += _check_broker_only(config)
    return warnings


def _check_controller(config: BrokerConfig) -> None:
    names = config.controller_listener_names
    listening = {endpoint.name for endpoint in config.listeners}
    if not config.is_broker:
        _require(
            len(config.advertised_controller_listeners) == len(config.listeners),
            "The listeners config must only contain KRaft controller listeners from controller.listener.names"
            " when process.roles=controller",
            "listeners",
            "controller.listener.names",
        )
        if config["inter.broker.listener.name"] is not None:
            _require(
                config.inter_broker_listener_name not in names,
                "controller.listener.names must not contain an explicitly set inter.broker.listener.name"
                " configuration value when process.roles=controller",
                "inter.broker.listener.name",
                "controller.listener.names",
            )
    voters = config.quorum_voters
    _require(
        not voters or config.node_id in voters,
        f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in"
        f" the set of voters controller.quorum.voters={_ids(config)}",
        "controller.quorum.voters",
        "node.id",
    )
    _require(
        bool(config.advertised_controller_listeners),
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration"
        " when running the KRaft controller role",
        "controller.listener.names",
        "listeners",
    )
    _require(
        listening.issuperset(names),
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when"
        " running the KRaft controller role",
        "controller.listener.names",
        "listeners",
    )


def _ids(config: BrokerConfig) -> str:
    return f"[{', '.join(map(str, sorted(config.quorum_voters)))}]"


def _check_broker_only(config: BrokerConfig) -> list[str]:
    names = config.controller_listener_names
    _require(
        config.node_id not in config.quorum_voters,
        f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be included"
        f" in the set of voters controller.quorum.voters={_ids(config)}",
        "controller.quorum.voters",
        "node.id",
    )
    _require(
        not config.controller_listeners,
        "controller.listener.names must not contain a value appearing in the 'listeners' configuration when"
        " running KRaft with just the broker role",
        "controller.listener.names",
        "listeners",
    )
    for name in names:
        _require(
            name.upper() in config.security_protocols,
            f"Controller listener with name {name.upper()} defined in controller.listener.names not found in"
            " listener.security.protocol.map (an explicit security mapping for each controller listener is"
            " required if listener.security.protocol.map is non-empty, or if there are security protocols"
            " other than PLAINTEXT in use)",
            "controller.listener.names",
            "listener.security.protocol.map",
        )
    _require(
        not config.bool_of("controller.quorum.auto.join.enable"),
        "controller.quorum.auto.join.enable is only supported when process.roles contains the"
        " 'controller' role.",
        "controller.quorum.auto.join.enable",
    )
    if len(names) > 1:
        return [
            f"controller.listener.names has several entries; this broker uses only the first: {names[0]}."
        ]
    return []


def _check_listeners(config: BrokerConfig) -> None:
    advertised = {endpoint.name for endpoint in config.advertised_listeners}
    listening = {endpoint.name for endpoint in config.listeners}
    if config.is_broker:
        _require(
            bool(advertised),
            "There must be at least one broker advertised listener. Perhaps all listeners appear in"
            " controller.listener.names?",
            "listeners",
            "controller.listener.names",
        )
        shown = ",".join(sorted(advertised))
        _require(
            config.inter_broker_listener_name in advertised,
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid"
            f" options based on currently configured listeners are {shown}",
            "inter.broker.listener.name",
            "advertised.listeners",
            "listeners",
        )
        _require(
            advertised <= listening,
            "advertised.listeners listener names must be equal to or a subset of the ones defined in"
            f" listeners. Found {shown}. The valid options based on the current configuration are"
            f" {','.join(sorted(listening))}",
            "advertised.listeners",
            "listeners",
        )
    for endpoint in (*config.advertised_listeners, *config.advertised_controller_listeners):
        message = (
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
        )
        _require(endpoint.host != "0.0.0.0", message, "advertised.listeners", "listeners")
    _ = config.early_start_listeners


def _check_connections(config: BrokerConfig) -> list[str]:
    inter_broker = config.inter_broker_listener_name
    protocol = config.security_protocols.get(inter_broker, inter_broker)
    if protocol.startswith("SASL"):
        enabled = config.listener_value(inter_broker, "sasl.enabled.mechanisms")
        _require(
            isinstance(enabled, tuple) and config.str_of("sasl.mechanism.inter.broker.protocol") in enabled,
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is"
            " used for inter-broker communication",
            "sasl.mechanism.inter.broker.protocol",
            "sasl.enabled.mechanisms",
        )
    queued = config.int_of("queued.max.request.bytes")
    _require(
        queued <= 0
        or queued >= config.int_of("socket.request.max.bytes")
        or not config.explicit("queued.max.request.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        "queued.max.request.bytes",
        "socket.request.max.bytes",
    )
    overrides = config.connections_per_ip
    _require(
        config.int_of("max.connections.per.ip") > 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        "max.connections.per.ip",
    )
    bad = sorted(host for host in overrides if not _is_host(host))
    message = f"max.connections.per.ip.overrides contains invalid addresses : {','.join(bad)}"
    _require(not bad, message, "max.connections.per.ip.overrides")
    delay, idle = (
        config.int_of("connection.failed.authentication.delay.ms"),
        config.int_of("connections.max.idle.ms"),
    )
    _require(
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms={delay} should always be less than"
        f" connections.max.idle.ms={idle} to prevent failed authentication responses from timing out",
        "connection.failed.authentication.delay.ms",
        "connections.max.idle.ms",
    )
    return [
        f"max.connections.per.ip.overrides contains {host}, which is not an IP address; the limit has no "
        "effect."
        for host in overrides
        if not _is_address(host)
    ]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_host(text: str) -> bool:
    return bool(text) and all(c.isascii() and (c.isalnum() or c in "-._%:") for c in text)


_THREAD_POOLS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def _check_threads(name: str, before: int, after: int) -> None:
    if after == before:
        return
    start = f"Dynamic thread count update validation failed for {name}={after}, value should"
    _require(after >= before // 2, f"{start} be at least half the current value {before}", name)
    _require(after <= before * 2, f"{start} not be greater than double the current value {before}", name)


def _check_local_retention(config: BrokerConfig) -> None:
    """Local retention must not exceed the total retention; -2 means the same as the total."""
    for unit in ("ms", "bytes"):
        name, whole_name = f"log.local.retention.{unit}", f"log.retention.{unit}"
        kept, local = topic_value(config, {}, f"retention.{unit}"), config.int_of(name)
        assert isinstance(kept, int)
        if kept < 0 or local == -2:
            continue
        start = f"Invalid value {local} for configuration {name}: Value must not be"
        _require(local != -1, f"{start} -1 as {whole_name} value is set as {kept}.", name, whole_name)
        _require(local <= kept, f"{start} more than {whole_name} property value: {kept}", name, whole_name)


def check_transition(old: BrokerConfig, new: BrokerConfig) -> None:
    """Check that a running node can change from one configuration to the other; raises Conflict if not."""
    for name in _THREAD_POOLS:
        _check_threads(name, old.int_of(name), new.int_of(name))
    for endpoint in new.listeners:
        name = "num.network.threads"
        before, after = (config.listener_value(endpoint.name, name) for config in (old, new))
        assert isinstance(before, int)
        assert isinstance(after, int)
        _check_threads(name, before, after)
    _check_local_retention(new)
    same = old.advertised_listeners == new.advertised_listeners
    changed = "Advertised listeners cannot be altered when using a Raft-based metadata quorum."
    _require(same or old.explicit("advertised.listeners"), changed, "listeners")
    for endpoint in new.listeners:
        protocol = old.security_protocols.get(endpoint.name, endpoint.protocol)
        message = f"Security protocol cannot be updated for existing listener {endpoint.name}"
        _require(protocol == endpoint.protocol, message, "listener.security.protocol.map")
