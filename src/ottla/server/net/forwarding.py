"""Which requests a broker forwards to the controller, and how."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ottla.wire.errors import KafkaError, NotController

if TYPE_CHECKING:
    from ottla.server.broker import Broker
    from ottla.server.net.dispatch import RequestContext
    from ottla.server.net.long_requests import Steps
    from ottla.server.parts import HasStepRunner

CONTROLLER_TRIES = 5
"""How often a request follows a controller that moves."""

Forward = Callable[[bytes, str, str], Awaitable[bytes]]
"""(frame without its size, principal, client's address) -> the frame of the controller's response."""

Handle = Callable[["Broker", Any, "RequestContext"], Any]
"""(parts, request, context) -> see `Api`. A handler declares which parts of a node it needs (`parts.py`)."""
Refuse = Callable[[Any, KafkaError, int], Any]
"""(request, error, version) -> the response that has this error for everything, or steps that make it."""


class Handler(NamedTuple):
    """What handles an API, and how the API says that this failed, if `handle` does not say so itself."""

    handle: Handle
    refuse: Refuse | None = None

    @property
    def direct(self) -> Handle:
        """A handler that answers in the form of its API, whatever happens."""
        return self.handle if self.refuse is None else partial(_answer, self)


class Forwarding(Enum):
    """Whether only the active controller can answer, so that brokers on other nodes forward it."""

    NONE = 0
    WHOLE = 1
    PART = 2  # the handler on the broker answers what it can, and hands on the rest


async def response_of(
    broker: Broker,
    handler: Handler,
    request: Any,
    context: RequestContext,
    *,
    is_forwarded: bool = False,
) -> Any:
    """The response of a handler, or the one in which its API reports the error that the handler raised.

    `is_forwarded`: NotController is raised, because the caller can ask the new controller.
    """
    try:
        return await _finished(broker, handler.handle(broker, request, context))
    except KafkaError as error:
        if handler.refuse is None or (is_forwarded and isinstance(error, NotController)):
            raise
        refusal = error.with_traceback(None)  # whose frames hold the error, which would be a cycle
    return await _finished(broker, handler.refuse(request, refusal, context.version))


async def _answer(handler: Handler, broker: Broker, request: Any, context: RequestContext) -> Any:
    return await response_of(broker, handler, request, context)


async def _finished(parts: HasStepRunner, outcome: Any) -> Any:
    if inspect.isgenerator(outcome):
        outcome = await parts.step_runner.run(cast("Steps[Any]", outcome))
    return await outcome if inspect.iscoroutine(outcome) else outcome
