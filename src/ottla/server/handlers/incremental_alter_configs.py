"""IncrementalAlterConfigs (44), versions 0 to 1.

Sets, deletes, appends to and subtracts from single settings. The broker checks what it can: that a resource
and a key occur once, that a value is present, that a broker setting can change at run time. It changes
loggers itself; the controller decides everything else, which takes effect through its records. A rejected
resource does not affect the others. `validate_only` checks and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla import config as configs
from ottla.config import Change, Operation, ResourceType
from ottla.controller.configs import incremental_alter_configs
from ottla.server.handlers import log_levels
from ottla.server.handlers.common import RESOURCES_PER_DECISION, decide_or_forward, is_controller_listener
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps, made_of
from ottla.server.net.step_runner import freed
from ottla.server.parts import HasConfig, HasNodeId, HasQuorum, HasStepRunner
from ottla.wire.errors import ErrorCode, KafkaError, NotController
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.server.metadata.metadata_quorum import MetadataQuorum

KEY = 44

_Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
_Response = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


class Parts(HasNodeId, HasConfig, HasQuorum, HasStepRunner, Protocol):
    """The parts of a node that IncrementalAlterConfigs needs."""


async def handle(
    parts: Parts, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    is_at_controller = is_controller_listener(parts, context)
    settled = await parts.step_runner.run(_settled(parts, request, is_at_controller=is_at_controller))
    rest = [resource for index, resource in enumerate(request.resources) if index not in settled]
    decided = await _decided(parts.quorum, context, rest, request.validate_only)
    by_key = {(one.resource_type, one.resource_name): one for one in decided}

    def answer(index: int) -> _Response:
        resource = request.resources[index]
        if index in settled:
            return _answer(resource, settled[index])
        return by_key[resource.resource_type, resource.resource_name]

    if is_at_controller:  # where the same resource may come twice, and is answered once
        answers = await parts.step_runner.run(made_of(settled, answer))
        return IncrementalAlterConfigsResponse(responses=decided + answers)
    return IncrementalAlterConfigsResponse(
        responses=await parts.step_runner.run(made_of(range(len(request.resources)), answer))
    )


def _settled(
    parts: Parts, request: IncrementalAlterConfigsRequest, *, is_at_controller: bool
) -> Steps[dict[int, KafkaError | None]]:
    """The resources that the controller need not process, by their position: failed, or done."""
    settled: dict[int, KafkaError | None] = {}
    if not is_at_controller:
        facts = yield from made_of(request.resources, _facts)
        settled.update((yield from configs.check_request(facts, incremental=True)))
        yield from freed([facts])
    for index, resource in enumerate(request.resources):
        yield
        if index in settled:
            continue
        try:
            if _settle(parts, resource, request.validate_only, is_at_controller=is_at_controller):
                settled[index] = None
        except KafkaError as error:
            settled[index] = error.with_traceback(None)  # which would make it garbage in a cycle
    return settled


def _settle(parts: Parts, resource: _Resource, validate_only: bool, *, is_at_controller: bool) -> bool:
    """Check what this broker can check. True: the controller need not process this resource."""
    changes = [(one.name, one.config_operation, one.value) for one in resource.configs]
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        log_levels.alter(parts.node_id, resource.resource_name, changes, validate_only=validate_only)
        return True
    if resource.resource_type == ResourceType.BROKER and not is_at_controller:
        configs.check_broker_change(
            parts.config,
            resource.resource_name,
            [Change(name, Operation(operation), value) for name, operation, value in changes],
        )
    return False


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
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    try:
        response = await decide_or_forward(
            quorum, request, context, lambda state: incremental_alter_configs(state, request)
        )
    except NotController:
        raise
    except KafkaError as error:
        return [_answer(resource, error) for resource in resources]
    return response.responses


def _facts(resource: _Resource) -> tuple[int, str, list[tuple[str, int, str | None]]]:
    return (
        resource.resource_type,
        resource.resource_name,
        [(one.name, one.config_operation, one.value) for one in resource.configs],
    )


def _answer(resource: _Resource, error: KafkaError | None) -> _Response:
    return _Response(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(
    request: IncrementalAlterConfigsRequest, error: KafkaError, version: int
) -> Steps[IncrementalAlterConfigsResponse]:
    return IncrementalAlterConfigsResponse(
        responses=(yield from made_of(request.resources, lambda resource: _answer(resource, error)))
    )


API = Api(KEY, handle, refuse=refuse)
