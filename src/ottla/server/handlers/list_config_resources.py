"""ListConfigResources (74), versions 0 to 1.

Returns the resources that can have settings: all topics, brokers and their loggers, and groups and client
metrics subscriptions with settings. v0 lists only client metrics subscriptions; v1 takes resource types, none
meaning all; a type that the version does not have is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config import ResourceType
from ottla.server.net.dispatch import Api, RequestContext
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.server.parts import HasImage

KEY = 74

_ALL = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def handle(
    parts: HasImage, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    supported = (ResourceType.CLIENT_METRICS,) if context.version == 0 else _ALL
    asked = set(request.resource_types) or set(supported)
    if not asked.issubset(supported):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in supported
            if resource_type in asked
            for name in _names(parts.image, resource_type, context.listener)
        ]
    )


def _names(image: ClusterImage, resource_type: ResourceType, listener: str) -> list[str]:
    if resource_type == ResourceType.TOPIC:
        return list(image.topics_by_name)
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(one.id) for one in image.brokers.values() if one.endpoint(listener) is not None]
    return [name for kind, name in image.configs if kind == resource_type]


API = Api(KEY, handle)
