"""Runs a request that takes more than one slice of the event loop, from its frame to its response.

Rules: later requests on its connection wait until it is handled, as in Kafka, and responses keep their order.
A view on a shared buffer is copied before the first pause. If the connection is lost, the request stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable, Sequence, Sized
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from ottla.server.net.step_runner import UNFINISHED, CollectionPause, freed, long_lists
from ottla.waiting.pending_response import PendingResponse
from ottla.waiting.tasks import response_of_task
from ottla.wire.errors import MalformedMessage, UnencodableMessage, UnsupportedVersion

if TYPE_CHECKING:
    from ottla.log.file_slice import FileSlice
    from ottla.ports import Buffer
    from ottla.server.broker import Broker
    from ottla.server.net.connection import Connection
    from ottla.server.net.dispatch import RequestContext

REPEATS_MAX = 8
_COMPARED_IN_STEP = 4096

Item = TypeVar("Item")
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
Steps = Generator[None, None, T]
Parts = list["Buffer | FileSlice"]

logger = logging.getLogger("ottla.server.net.dispatch")


class Route(Protocol):
    """The part of a route that a request in slices needs."""

    request: Any

    @property
    def handle(self) -> Any: ...

    def decode_in_steps(self, frame: memoryview, position: int) -> Steps[tuple[Any, int]]: ...

    def frame_in_steps(self, response: Any, correlation_id: int) -> Steps[Parts]: ...


class _Hold:
    """Holds back later requests on a connection, from `begin` to the first `end`."""

    __slots__ = ("_connection", "_is_held")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_held = False

    def begin(self, kept_bytes: int) -> None:
        self._is_held = True
        self._connection.hold(kept_bytes)

    def end(self) -> None:
        if self._is_held:
            self._is_held = False
            self._connection.release()


class _LongResponse(PendingResponse):
    """The response to a long request. The collector is paused until it is completed, or waits for others."""

    __slots__ = ("_pause",)

    def __init__(self, pause: CollectionPause) -> None:
        super().__init__()
        self._pause: CollectionPause | None = pause
        pause.begin()

    def end_pause(self) -> None:
        if self._pause is not None:
            self._pause.end()
            self._pause = None

    def _finish(self) -> bool:
        is_first = super()._finish()
        if is_first:
            self.end_pause()
        return is_first


class _Working(NamedTuple):
    """A coroutine that returns the response, and the request's long lists, which it frees at its end."""

    coroutine: Coroutine[Any, Any, Any]
    lists: list[list[Any]]


class LongRequests:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._runner = broker.step_runner

    def read(self, route: Route, context: RequestContext, frame: memoryview, position: int) -> None:
        """Decode a frame in more than one slice, and handle its request."""
        is_owned = len(frame) == len(cast(Sized, frame.obj))  # else it is a view on a shared buffer
        whole = frame if is_owned else memoryview(bytearray(frame))
        hold = _Hold(context.connection)
        steps = self._read_and_handle(route, context, hold, whole, position)
        self._go_on(route, context, hold, steps, 0 if is_owned else len(whole))

    def finish(
        self, route: Route, context: RequestContext, request: Any, outcome: Any, position: int
    ) -> None:
        """Answer a request whose handler is a generator, or which is large itself.

        `position`: its start in its frame, if its connection keeps that. Then, if others must be waited for,
        the work of an insufficient first slice is dropped, since it may have built much of the response.
        """
        hold = _Hold(context.connection)
        steps = self._handled(route, context, hold, request, outcome)
        del request, outcome
        try:
            done = self._runner.first_slice(steps)
        except Exception as error:  # noqa: BLE001  the last line of defence
            self.close_failed(route, context, error)
            return
        if done is UNFINISHED:
            frame = context.connection.lone_frame
            if frame is not None and self._runner.is_busy:
                steps.close()
                hold = _Hold(context.connection)
                steps = self._read_and_handle(route, context, hold, frame, position)
            self._go_on(route, context, hold, steps, 0)
        elif type(done) is list and context.connection.owes_nothing:
            context.connection.answer_now(done)
        elif done is not None:
            # A `PendingResponse` may wait for others for as long as they please; a coroutine works.
            answer = PendingResponse() if type(done) is PendingResponse else _LongResponse(self._runner.pause)
            context.connection.answer_later(answer, _as_it_is)
            self._complete(answer, route, context, done)

    def close_failed(self, route: Route, context: RequestContext, error: Exception) -> None:
        """Close the connection after an unexpected error: the client reconnects and retries."""
        connection = context.connection
        if isinstance(error, MalformedMessage):
            connection.close(f"its request is malformed: {error}")
        elif isinstance(error, UnencodableMessage | UnsupportedVersion):
            connection.close_unwritable(error)
        else:
            logger.error(
                "Unexpected error in a %s v%d request from %s:%d",
                route.request.NAME.removesuffix("Request"),
                context.version,
                connection.peer_host,
                connection.peer_port,
                exc_info=error,
            )
            connection.close()

    def _read_and_handle(
        self, route: Route, context: RequestContext, hold: _Hold, frame: memoryview, position: int
    ) -> Steps[Any]:
        try:
            request, _ = yield from route.decode_in_steps(frame, position)
        except MalformedMessage as error:
            lists = long_lists(error.unfinished)
            self.close_failed(route, context, MalformedMessage(str(error)))
            hold.end()
            error.__traceback__ = error.__cause__ = error.__context__ = error.unfinished = None
            yield from freed(lists)
            return None
        steps = self._handled(route, context, hold, request, route.handle(self._broker, request, context))
        del request
        return (yield from steps)

    def _handled(
        self, route: Route, context: RequestContext, hold: _Hold, request: Any, outcome: Any
    ) -> Steps[Any]:
        """The parts of the response; a `PendingResponse` or `_Working` for it; None: there is none."""
        if type(outcome) is GeneratorType:
            outcome = yield from outcome
        hold.end()
        lists = long_lists(request)
        del request
        if type(outcome) is CoroutineType:
            return _Working(outcome, lists)
        if outcome is None or type(outcome) is PendingResponse:
            self._runner.free(lists)
            return outcome
        yield from freed(lists)
        return (yield from self._written(route, context, outcome))

    def _written(self, route: Route, context: RequestContext, response: Any) -> Steps[Parts]:
        """The parts of a response, which may come from a generator."""
        if type(response) is GeneratorType:
            response = yield from response
        parts = yield from route.frame_in_steps(response, context.correlation_id)
        lists = long_lists(response)
        del response
        yield from freed(lists)
        return parts

    def _go_on(
        self, route: Route, context: RequestContext, hold: _Hold, steps: Steps[Any], kept_bytes: int
    ) -> None:
        """Continue after the first slice."""
        hold.begin(kept_bytes)
        answer = _LongResponse(self._runner.pause)

        def fail(error: Exception) -> None:
            hold.end()
            self.close_failed(route, context, error)

        def give_up() -> None:
            run.cancel()
            hold.end()

        run = self._runner.start(steps, lambda outcome: self._complete(answer, route, context, outcome), fail)
        answer.when_released(give_up)
        context.connection.answer_later(answer, _as_it_is)

    def _complete(self, answer: PendingResponse, route: Route, context: RequestContext, outcome: Any) -> None:
        """Complete a response with a request's result: parts, nothing, or a response that comes later."""
        if outcome is None:
            answer.complete([])  # it is in the queue already, and takes nobody's turn
            return
        if type(outcome) is list:
            answer.complete(outcome)
            return
        if type(outcome) is _Working:
            task = asyncio.ensure_future(outcome.coroutine)
            lists = outcome.lists
            task.add_done_callback(lambda _: self._runner.free(lists))
            later = response_of_task(task)
        else:
            later = outcome
        answer.when_released(later.abandon)
        if later.is_completed:
            self._write(answer, route, context, later)
        else:
            if type(answer) is _LongResponse and type(outcome) is PendingResponse:
                answer.end_pause()  # it may wait for others for as long as they please
            later.on_completed = lambda: self._write(answer, route, context, later)

    def _write(
        self, answer: PendingResponse, route: Route, context: RequestContext, later: PendingResponse
    ) -> None:
        """Encode a response that is complete now."""
        if answer.is_completed:
            return
        response, later.response = later.response, None
        if response is None:
            answer.complete(None)
            return
        steps = self._written(route, context, response)
        del response
        try:
            parts = self._runner.first_slice(steps)
        except Exception as error:  # noqa: BLE001  the last line of defence
            self.close_failed(route, context, error)
            return
        if parts is not UNFINISHED:
            answer.complete(parts)
            return
        run = self._runner.start(
            steps, answer.complete, lambda error: self.close_failed(route, context, error)
        )
        answer.when_released(run.cancel)


def made_of(items: Iterable[Item], make: Callable[[Item], T]) -> Steps[list[T]]:
    """Map each item, in steps."""
    made = []
    for item in items:
        made.append(make(item))
        yield
    return made


def distinct(items: Sequence[H]) -> Steps[dict[H, None]]:
    """Each item once, in the order of the first occurrence."""
    found: dict[H, None] = {}
    for start in range(0, len(items), _COMPARED_IN_STEP):
        found.update(dict.fromkeys(items[start : start + _COMPARED_IN_STEP]))
        yield
    return found


def few_repeats(items: list[H]) -> Steps[list[H]]:
    """The items unchanged if few of them are repeated, otherwise each once.

    Kafka returns an item as often as it is named. If a row of the response can be much larger than its item,
    a small request would get a response of any size.
    """
    once = yield from distinct(items)
    return items if len(items) - len(once) <= REPEATS_MAX else list(once)


def _as_it_is(response: Any) -> Any:
    return response
