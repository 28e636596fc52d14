"""The definition files: complete, well formed, and usable."""

from __future__ import annotations

import pytest

from ottla.config import ConfigType, ResourceType, Scope, definition, definitions

KINDS = [ResourceType.BROKER, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS]
EVERY = [(kind, name) for kind in KINDS for name in definitions(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_sorted_by_name(kind: ResourceType) -> None:
    names = list(definitions(kind))
    assert names == sorted(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_setting_accepts_its_default_and_has_a_description(kind: ResourceType, name: str) -> None:
    found = definitions(kind)[name]
    if found.default is not None:
        assert found.parse(found.default) == found.default_value
    else:
        assert found.default_value is None
    assert found.importance in ("HIGH", "MEDIUM", "LOW")
    assert found.doc.endswith(".")
    assert len(found.doc) < 160
    assert (kind is ResourceType.BROKER) == (found.scope is not Scope.DYNAMIC) or found.internal


def test_there_are_as_many_settings_as_in_kafka() -> None:
    broker = definitions(ResourceType.BROKER).values()
    kafkas = [found for found in broker if not found.name.startswith("ottla.")]
    assert len([found for found in kafkas if found.scope is not Scope.DYNAMIC_ONLY]) == 360
    assert [len(definitions(kind)) for kind in KINDS[1:]] == [34, 17, 3]


def test_synonyms_are_settings_of_the_broker() -> None:
    for kind in KINDS[1:]:
        for found in definitions(kind).values():
            assert set(found.synonyms) <= set(definitions(ResourceType.BROKER))


def test_only_three_defaults_differ_from_kafkas() -> None:
    differing = {
        found.name: (found.kafka_default, found.default)
        for kind in KINDS
        for found in definitions(kind).values()
        if found.kafka_default != found.default
    }
    assert differing == {
        "max.connections": ("2147483647", "10000"),
        "max.connections.per.ip": ("2147483647", "5000"),
        "queued.max.request.bytes": ("-1", "268435456"),
    }


def test_the_prefix_of_a_listener_leads_to_the_setting_behind_it() -> None:
    found = definition(ResourceType.BROKER, "listener.name.internal.ssl.keystore.location")
    assert found is not None
    assert found.name == "ssl.keystore.location"
    mechanism = definition(ResourceType.BROKER, "listener.name.internal.scram-sha-256.sasl.jaas.config")
    assert mechanism is not None
    assert mechanism.type is ConfigType.PASSWORD
    assert definition(ResourceType.BROKER, "listener.name.internal.nothing") is None
    assert definition(ResourceType.TOPIC, "listener.name.internal.retention.ms") is None
