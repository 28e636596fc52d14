"""AlterConfigs (33), versions 0 to 2.

The deprecated way to change settings: the request replaces all settings of a resource. Kept for old clients;
new ones use IncrementalAlterConfigs, whose checks apply here too. Loggers cannot be changed this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla import config as configs
from ottla.config import Operation, ResourceType
from ottla.controller.configs import alter_configs
from ottla.server.handlers.common import RESOURCES_PER_DECISION, decide_or_forward, is_controller_listener
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, made_of
from ottla.server.net.step_runner import freed
from ottla.server.parts import HasConfig, HasQuorum, HasStepRunner
from ottla.wire.errors import KafkaError, NotController
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from ottla.server.metadata.metadata_quorum import MetadataQuorum

KEY = 33

_Resource = AlterConfigsRequest.AlterConfigsResource
_Response = AlterConfigsResponse.AlterConfigsResourceResponse


class Parts(HasConfig, HasQuorum, HasStepRunner, Protocol):
    """The parts of a node that AlterConfigs needs."""


async def handle(parts: Parts, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    if is_controller_listener(parts, context):
        return AlterConfigsResponse(
            responses=await _decided(parts.quorum, context, request.resources, request.validate_only)
        )
    errors = await parts.step_runner.run(_faults(parts, request))
    rest = [resource for index, resource in enumerate(request.resources) if index not in errors]
    decided = await _decided(parts.quorum, context, rest, request.validate_only)
    by_key = {(one.resource_type, one.resource_name): one for one in decided}

    def answer(place: tuple[int, _Resource]) -> _Response:
        index, resource = place
        if index in errors:
            return _refused(resource, errors[index])
        return by_key[resource.resource_type, resource.resource_name]

    return AlterConfigsResponse(
        responses=await parts.step_runner.run(made_of(enumerate(request.resources), answer))
    )


def _faults(parts: HasConfig, request: AlterConfigsRequest) -> Steps[dict[int, KafkaError]]:
    """The errors that this broker finds in resources, by their position."""
    facts = yield from made_of(request.resources, _facts)
    errors = yield from configs.check_request(facts, incremental=False)
    yield from freed([facts])
    for index, resource in enumerate(request.resources):
        try:
            if index not in errors:
                _check(parts, resource)
        except KafkaError as error:
            errors[index] = error.with_traceback(None)  # which would make it garbage in a cycle
        yield
    return errors


def _check(parts: HasConfig, resource: _Resource) -> None:
    if resource.resource_type == ResourceType.BROKER:
        texts = {one.name: one.value for one in resource.configs if one.value is not None}
        configs.check_broker_settings(parts.config, resource.resource_name, texts)


async def _decided(
    quorum: MetadataQuorum, context: RequestContext, resources: list[_Resource], validate_only: bool
) -> list[_Response]:
    """The controller's answers, to some resources at a time."""
    answers = []
    for first in range(0, len(resources), RESOURCES_PER_DECISION):
        answers += await _decided_part(
            quorum, context, resources[first : first + RESOURCES_PER_DECISION], validate_only
        )
    return answers


async def _decided_part(
    quorum: MetadataQuorum, context: RequestContext, resources: list[_Resource], validate_only: bool
) -> list[_Response]:
    request = AlterConfigsRequest(resources=resources, validate_only=validate_only)
    try:
        response = await decide_or_forward(
            quorum, request, context, lambda state: alter_configs(state, request)
        )
    except NotController:
        raise
    except KafkaError as error:
        return [_refused(resource, error) for resource in resources]
    return response.responses


def _facts(resource: _Resource) -> tuple[int, str, list[tuple[str, int, str | None]]]:
    return (
        resource.resource_type,
        resource.resource_name,
        [(one.name, Operation.SET, one.value) for one in resource.configs],
    )


def _refused(resource: _Resource, error: KafkaError) -> _Response:
    return _Response(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(request: AlterConfigsRequest, error: KafkaError, version: int) -> Steps[AlterConfigsResponse]:
    return AlterConfigsResponse(
        responses=(yield from made_of(request.resources, lambda resource: _refused(resource, error)))
    )


API = Api(KEY, handle, refuse=refuse)
