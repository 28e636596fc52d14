"""Every dynamic setting with extreme values: none locks clients out or stops the node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.asking import Asking

from ottla.cluster.ports import free_ports
from ottla.config import Operation, ResourceType
from ottla.config.schema import Definition, Scope, definitions
from ottla.config.values import ConfigType, InvalidValue
from ottla.testing import Broker
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest as Request

NODE_ID = "1"
ALL = ""
TOPIC = "extremes"
TRIES_MAX = 1000

VALUES = {
    ConfigType.INT: ("0", "-1", "1", "2147483647", "-2147483648", ""),
    ConfigType.LONG: ("0", "-1", "1", "9223372036854775807", "-9223372036854775808", ""),
    ConfigType.SHORT: ("0", "-1", "32767", "-32768", ""),
    ConfigType.DOUBLE: ("0", "-1", "1.7976931348623157E308", "4.9E-324", "NaN", "Infinity", ""),
    ConfigType.STRING: ("", "x", "," * 100, "\u0000"),
    ConfigType.LIST: ("", "x", ",", "*"),
    ConfigType.BOOLEAN: ("true", "false", ""),
    ConfigType.PASSWORD: ("", "x"),
    ConfigType.CLASS: ("", "x"),
}
REFUSED = {
    ("max.connections", "0"),
    ("max.connection.creation.rate", "0"),
    ("listener.name.plaintext.max.connections", "0"),
    ("listener.name.plaintext.max.connection.creation.rate", "0"),
    ("max.connections.per.ip", "0"),
    ("log.cleaner.threads", "0"),
    ("log.cleaner.dedupe.buffer.size", "0"),
    ("log.retention.ms", "0"),
    ("log.roll.ms", "0"),
    ("log.local.retention.ms", "-1"),
    ("log.local.retention.ms", "9223372036854775807"),
    ("num.network.threads", "2147483647"),
    ("num.io.threads", "2147483647"),
    ("num.recovery.threads.per.data.dir", "2147483647"),
    ("background.threads", "1"),
    ("listeners", ""),
}
"""Values that Kafka refuses although they are within the setting's range."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"log.cleaner.backoff.ms": "5", "log.cleaner.io.buffer.size": "65536", "num.partitions": "1"}
    with Broker(settings, in_process=False) as running:
        with Asking(running.port) as asking:
            asking.create_topic(TOPIC)
            asking.create_topic("compacted", cleanup_policy="compact")
        yield running


def _dynamic() -> list[Definition]:
    scopes = (Scope.CLUSTER_WIDE, Scope.PER_BROKER)
    return [found for found in definitions(ResourceType.BROKER).values() if found.scope in scopes]


def _alter(broker: Broker, resource: str, name: str, operation: Operation, value: str | None) -> int:
    """Uses its own connection, since a limit of one may allow no other."""
    for _ in range(TRIES_MAX):
        try:
            with Asking(broker.port) as asking:
                return _change(asking, resource, name, operation, value)
        except (OSError, EOFError):
            continue
    pytest.fail(f"{name} cannot be changed any more:\n{broker.log_text[-3000:]}")


def _change(asking: Asking, resource: str, name: str, operation: Operation, value: str | None) -> int:
    config = Request.AlterableConfig(name=name, config_operation=operation, value=value)
    changed = Request.AlterConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=resource, configs=[config]
    )
    (answer,) = asking.ask(Request(resources=[changed]), 1).responses
    return int(answer.error_code)


def _assert_serves(broker: Broker, what: str) -> None:
    for _ in range(TRIES_MAX):
        try:
            with Asking(broker.port) as asking:
                for topic in (TOPIC, "compacted"):
                    asking.produce(topic, [b"value"])  # which the setting may forbid
                    asking.fetch(topic, 0)
            break
        except (OSError, EOFError):  # the last connection may still be open
            continue
    else:
        pytest.fail(f"nobody is served with {what}:\n{broker.log_text[-3000:]}")
    assert "Traceback" not in broker.log_text, f"with {what}:\n{broker.log_text[-3000:]}"


def test_no_extreme_value_of_a_dynamic_setting_locks_out_or_stops_a_node(broker: Broker) -> None:
    taken = []
    for found in _dynamic():
        for value in VALUES[found.type]:
            scopes = [NODE_ID] if found.scope is Scope.PER_BROKER else [ALL, NODE_ID]
            for scope in scopes:
                what = f"{found.name}={value!r} for {scope or 'all'}"
                if _alter(broker, scope, found.name, Operation.SET, value) != 0:
                    continue
                taken.append(what)
                assert (found.name, value) not in REFUSED, what
                assert _is_value(found, value), what
                _assert_serves(broker, what)
                _undo(broker, scope, found)
    assert len(taken) > 150
    with Asking(broker.port) as asking:
        assert asking.produce(TOPIC, [b"last"]).error_code == 0


def _undo(broker: Broker, scope: str, found: Definition) -> None:
    if found.name == "min.insync.replicas":  # once set for all, it is never removed: ELR needs it
        assert _alter(broker, scope, found.name, Operation.SET, found.default) == 0
    elif found.name.startswith("num."):  # threads at most double at a time
        while _alter(broker, scope, found.name, Operation.DELETE, None) != 0:
            assert _alter(broker, scope, found.name, Operation.SET, "2") == 0
    else:
        assert _alter(broker, scope, found.name, Operation.DELETE, None) == 0


def _is_value(found: Definition, value: str) -> bool:
    try:
        found.parse(value)
    except InvalidValue:
        return False
    return True


@pytest.mark.parametrize(("name", "value"), sorted(REFUSED))
def test_changes_that_kafka_refuses_are_refused(broker: Broker, name: str, value: str) -> None:
    with Asking(broker.port) as asking:
        for scope in (ALL, NODE_ID):
            assert _change(asking, scope, name, Operation.SET, value) != 0


def test_a_stored_connection_limit_of_zero_is_ignored(tmp_path: Path) -> None:
    """A controller accepts changes that its broker would refuse, as in Kafka, which must not lock any
    node."""
    ports = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[1]}",
    }
    with Broker(settings, in_process=False, data_directory=tmp_path, port=ports[0]) as running:
        with Asking(ports[1]) as controller:
            for name in ("max.connections", "max.connection.creation.rate"):
                assert _change(controller, NODE_ID, name, Operation.SET, "0") == 0
        for _ in range(2):
            with Asking(ports[0]) as asking:
                while (
                    "Ignoring an invalid dynamic setting: Invalid max.connections 0" not in running.log_text
                ):
                    asking.ask(Request(resources=[]), 1)
            with Asking(ports[0]) as asking:
                asking.ask(Request(resources=[]), 1)
            running.restart()


def test_address_limits_apply_at_once_and_can_be_undone_at_the_controller(tmp_path: Path) -> None:
    ports = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[1]}",
    }
    name = "max.connections.per.ip.overrides"
    with Broker(settings, in_process=False, data_directory=tmp_path, port=ports[0]) as running:
        with Asking(ports[0]) as asking:
            assert _change(asking, NODE_ID, name, Operation.SET, "127.0.0.1:0") == 0
        while _is_served(ports[0]):
            pass
        assert "127.0.0.1 has reached its limit of 0 connections" in running.log_text
        with Asking(ports[1]) as controller:
            assert _change(controller, NODE_ID, name, Operation.DELETE, None) == 0
        while not _is_served(ports[0]):
            pass


def _is_served(port: int) -> bool:
    try:
        with Asking(port) as asking:
            asking.ask(Request(resources=[]), 1)
    except (OSError, EOFError):
        return False
    return True
