"""Checks of each setting of a node by itself, at startup and at run time.

`check_settings` reports all errors together. A valid setting that looks like a mistake becomes a warning, and
so does an unknown name, with the nearest known one. consistency.py checks combinations of settings.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.broker import ConfigError, Setting
from ottla.config.schema import (
    LISTENER_PREFIX,
    Definition,
    ResourceType,
    Scope,
    base_name,
    definition,
    definitions,
)
from ottla.config.similar_names import nearest
from ottla.config.values import ConfigType, InvalidValue

DYNAMIC_SECURITY = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        "keystore.certificate.chain",
        "keystore.key",
        "keystore.location",
        "keystore.password",
        "keystore.type",
        "truststore.certificates",
        "truststore.location",
        "truststore.password",
        "truststore.type",
    )
)
"""Settings that can change at run time only with the prefix of a listener."""

CLUSTER_LISTENER_SETTINGS = frozenset(
    ("max.connections", "max.connection.creation.rate", "num.network.threads")
)
"""Settings of a listener that can be set for all brokers."""

_POSITIVE_AT_RUN_TIME = frozenset(("max.connections", "max.connection.creation.rate"))

_EXAMPLES = {
    "node.id": "node.id=1",
    "process.roles": "process.roles=broker,controller",
    "controller.listener.names": "controller.listener.names=CONTROLLER",
}

# Java classes that affect access or safety. A node that ignored them would be less safe than its operator
# believes, so it refuses to start.
_REFUSED_PLUGINS = (
    "alter.config.policy.class.name",
    "authorizer.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "principal.builder.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.server.callback.handler.class",
    "security.providers",
    "ssl.engine.factory.class",
)
_IGNORED_PLUGINS = ("kafka.metrics.reporters", "metric.reporters")

_PLUGIN_PREFIXES = ("config.providers.", "rlmm.config.", "rsm.config.")

_GONE = {
    "auto.include.jmx.reporter": "metrics are not reported over JMX",
    "broker.id.generation.enable": "every node has a node.id",
    "control.plane.listener.name": "controllers have listeners of their own, see controller.listener.names",
    "controlled.shutdown.max.retries": "the controller manages controlled shutdowns",
    "controlled.shutdown.retry.backoff.ms": "the controller manages controlled shutdowns",
    "delegation.token.master.key": "renamed to delegation.token.secret.key",
    "group.coordinator.new.enable": "only the new group coordinator exists",
    "inter.broker.protocol.version": "replaced by the metadata.version of the cluster",
    "leader.imbalance.per.broker.percentage": "leaders are balanced regardless of the imbalance",
    "log.message.downconversion.enable": "old message formats are no longer written",
    "log.message.format.version": "the format is always the newest",
    "log.message.timestamp.difference.max.ms": "see log.message.timestamp.before.max.ms and .after.max.ms",
    "offsets.commit.required.acks": "commits always wait for all replicas",
    "reserved.broker.max.id": "every node has a node.id",
}
_GONE_PREFIXES = ("zookeeper.", "password.encoder.")


# One by one ---------------------------------------------------------------------------------------------


def check_settings(static: Mapping[str, Setting]) -> list[str]:
    """Check each setting that was given; return the warnings, or raise ConfigError with all errors."""
    faults: list[str] = []
    warnings: list[str] = []
    unknown: list[str] = []
    for name, setting in static.items():
        found = definition(ResourceType.BROKER, name)
        if found is None or found.scope is Scope.DYNAMIC_ONLY:
            unknown.append(name)
            continue
        try:
            found.parse(setting.text)
        except InvalidValue as error:
            faults.append(_fault(name, setting, found, error))
    for found in definitions(ResourceType.BROKER).values():
        if found.required and found.name not in static:
            example = _EXAMPLES[found.name]
            missing = f'Missing required configuration "{found.name}" which has no default value.'
            faults.append(f"{missing} For example: {example}")
    faults += _plugin_faults(static)
    if faults:
        raise ConfigError("\n".join(faults))
    warnings += (_unknown(name, static[name].origin) for name in unknown if not _belongs_to_plugin(name))
    for name in _IGNORED_PLUGINS:
        if name in static and static[name].text.strip():
            warnings.append(
                f"{static[name].origin}: {name} names a Java class, which Ottla cannot run; ignored."
            )
    return warnings


def _fault(name: str, setting: Setting, found: Definition, error: InvalidValue) -> str:
    value = "[hidden]" if found.type is ConfigType.PASSWORD else setting.text.strip()
    return f"{setting.origin}: {name}={value} is not allowed. {error.reason.rstrip('.')}."


def _belongs_to_plugin(name: str) -> bool:
    return name.startswith(_PLUGIN_PREFIXES)


def _unknown(name: str, origin: str) -> str:
    if name in _GONE:
        return f"{origin}: {name} was removed and is ignored: {_GONE[name]}."
    if name.startswith(_GONE_PREFIXES):
        return f"{origin}: {name} was removed and is ignored: ZooKeeper is no longer used."
    known = (found.name for found in definitions(ResourceType.BROKER).values() if not found.internal)
    near = nearest(name, known)
    hint = f" Did you mean {near}?" if near else ""
    return f"{origin}: {name} is not a known setting and is ignored.{hint}"


def _plugin_faults(static: Mapping[str, Setting]) -> list[str]:
    faults = []
    for name, setting in static.items():
        found = definition(ResourceType.BROKER, name)
        if base_name(name) in _REFUSED_PLUGINS and found is not None:
            text = setting.text.strip()
            if text and text != found.default:
                faults.append(
                    f"{setting.origin}: {name}={text} names a Java class, which Ottla cannot run. "
                    "Ignoring it would leave the node less secure than configured, so the node does not "
                    "start. Remove the line."
                )
    tiered = static.get("remote.log.storage.system.enable")
    if tiered is not None and tiered.text.strip().lower() == "true":
        faults.append(
            f"{tiered.origin}: remote.log.storage.system.enable=true is not allowed. Ottla does not "
            "support remote storage yet. Set it to false."
        )
    return faults


# At run time --------------------------------------------------------------------------------------------


def dynamic_fault(names: Mapping[str, str], *, per_broker: bool) -> str | None:
    """The reason why these settings cannot be set at run time, by name alone; None if they can."""
    fixed = [name for name in names if _is_fixed(name)]
    if fixed:
        return f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]"
    security = sorted(DYNAMIC_SECURITY.intersection(names))
    if security:
        return (
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(security)}]"
        )
    if not per_broker:
        local = sorted(name for name in names if is_per_broker(name))
        if local:
            return (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"[{', '.join(local)}]"
            )
    return None


def dynamic_value_fault(name: str, text: str) -> str | None:
    """The reason why a valid value cannot be set at run time; None if it can.

    Kafka accepts a limit of zero connections in the properties file but refuses it at run time, since nobody
    could connect any more to undo it. Raises InvalidValue for an invalid value.
    """
    found = definition(ResourceType.BROKER, name)
    value = None if found is None else found.parse(text)
    base = base_name(name)
    if base in _POSITIVE_AT_RUN_TIME and isinstance(value, int) and value <= 0:
        return f"Invalid {base} {value}"
    return None


def _is_fixed(name: str) -> bool:
    found = definitions(ResourceType.BROKER).get(name)
    return found is not None and found.scope.read_only


def is_per_broker(name: str) -> bool:
    """Whether a dynamic setting belongs to a single broker."""
    if name.startswith(LISTENER_PREFIX):
        return base_name(name) not in CLUSTER_LISTENER_SETTINGS
    found = definitions(ResourceType.BROKER).get(name)
    return found is not None and found.scope is Scope.PER_BROKER


def usable_dynamic(texts: Mapping[str, str], *, per_broker: bool, warnings: list[str]) -> dict[str, str]:
    """The stored settings that can apply; for each other one a message goes to `warnings`."""
    usable = {}
    for name, text in texts.items():
        found = definition(ResourceType.BROKER, name)
        fault = dynamic_fault({name: text}, per_broker=per_broker)
        if fault is None and found is not None:
            try:
                fault = dynamic_value_fault(name, text)
            except InvalidValue as error:
                fault = str(error)
        if fault is None:
            usable[name] = text
        else:
            warnings.append(f"Ignoring an invalid dynamic setting: {fault}")
    return usable
