"""The configuration of a node that starts without any: broker and controller in one, for this machine
only."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config import environment as environment_rules
from ottla.config.broker import BrokerConfig

_REPLICAS_OF_ONE = (
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
)
"""Internal topics require three brokers by default, and there is only one."""


def development_config(
    *,
    data_directory: str = "data",
    host: str = "localhost",
    port: int = 9092,
    controller_port: int = 0,
    overrides: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    base_directory: str = "",
) -> BrokerConfig:
    """Node 1 on loopback, with its data in `data_directory`, formatted automatically; port 0 picks a free
    port.

    Variables and overrides take precedence. If they give other listeners, the controller's listener is added
    to them. If variables include process.roles, they are a complete configuration, and nothing is added.
    """
    variables = environment or {}
    if "process.roles" in environment_rules.settings(variables):
        return BrokerConfig.load(
            environment=variables, overrides=overrides, file="environment", base_directory=base_directory
        )
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{host}:{controller_port}",
        "listeners": f"PLAINTEXT://{host}:{port}",
        "log.dirs": data_directory,
        "ottla.auto.format": "true",
        "group.initial.rebalance.delay.ms": "0",  # a developer waits for the first join
        **dict.fromkeys(_REPLICAS_OF_ONE, "1"),
    }
    given = dict(overrides or {})
    for name, (text, _) in environment_rules.settings(variables).items():
        given.setdefault(name, text)
    if "listeners" not in given and "advertised.listeners" in given:
        given["listeners"] = environment_rules.listeners_from_advertised(given["advertised.listeners"])
    listeners = given.pop("listeners", settings["listeners"])
    if "CONTROLLER://" not in listeners and "controller.listener.names" not in given:
        listeners += f",CONTROLLER://{host}:{controller_port}"
    settings["listeners"] = listeners
    text = "".join(f"{name}={value}\n" for name, value in settings.items() if name not in given)
    rest = {name: value for name, value in variables.items() if name == "CLUSTER_ID"}
    return BrokerConfig.load(
        text, file="built-in settings", overrides=given, environment=rest, base_directory=base_directory
    )
