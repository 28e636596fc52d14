"""Environment variables as settings."""

from __future__ import annotations

import pytest

from ottla.config.environment import listeners_from_advertised, setting_name, settings


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_A__B", "a_b"),
        (
            "KAFKA_LISTENER_NAME_X_SCRAM___SHA___256_SASL_JAAS_CONFIG",
            "listener.name.x.scram-sha-256.sasl.jaas.config",
        ),
        ("KAFKA_KAFKA_METRICS_REPORTERS", "kafka.metrics.reporters"),
        ("KAFKA_OPTS", None),
        ("KAFKA_HEAP_OPTS", None),
        ("KAFKA_", None),
        ("PATH", None),
    ],
)
def test_a_variable_maps_to_a_setting(variable: str, name: str | None) -> None:
    assert setting_name(variable) == name


def test_other_variables_are_ignored() -> None:
    found = settings({"HOME": "/root", "KAFKA_NODE_ID": "1", "KAFKA_VERSION": "4"})
    assert found == {"node.id": ("1", "KAFKA_NODE_ID")}


def test_listeners_are_derived_from_advertised_ones() -> None:
    assert listeners_from_advertised("A://h:1,B://[::1]:2") == "A://0.0.0.0:1,B://0.0.0.0:2"
