"""ListConfigResources: what can have settings."""

from __future__ import annotations

from types import SimpleNamespace

from tests.unit.server.handlers.support import ask, image_of

from ottla.config import ResourceType
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.metadata_records import ConfigRecord


def parts() -> SimpleNamespace:
    image = image_of(1, 2, orders=1, clicks=1)
    for kind, name in ((ResourceType.CLIENT_METRICS, "metrics"), (ResourceType.GROUP, "group")):
        image.replay(ConfigRecord(resource_type=kind, resource_name=name, name="x", value="1"))
    return SimpleNamespace(image=image)


def listed(request: ListConfigResourcesRequest, version: int = 1) -> set[tuple[int, str]]:
    response = ask(parts(), request, version)
    assert response.error_code == 0
    return {(one.resource_type, one.resource_name) for one in response.config_resources}


def test_no_types_stand_for_all() -> None:
    assert listed(ListConfigResourcesRequest()) == {
        (ResourceType.TOPIC, "orders"),
        (ResourceType.TOPIC, "clicks"),
        (ResourceType.BROKER, "1"),
        (ResourceType.BROKER, "2"),
        (ResourceType.BROKER_LOGGER, "1"),
        (ResourceType.BROKER_LOGGER, "2"),
        (ResourceType.CLIENT_METRICS, "metrics"),
        (ResourceType.GROUP, "group"),
    }


def test_only_the_types_that_are_asked_for_come() -> None:
    assert listed(ListConfigResourcesRequest(resource_types=[ResourceType.GROUP])) == {
        (ResourceType.GROUP, "group")
    }


def test_version_0_knows_client_metrics_only() -> None:
    assert listed(ListConfigResourcesRequest(), 0) == {(ResourceType.CLIENT_METRICS, "metrics")}


def test_a_type_that_does_not_exist_is_refused() -> None:
    response = ask(parts(), ListConfigResourcesRequest(resource_types=[ResourceType.TOPIC, 3]))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.config_resources == []
