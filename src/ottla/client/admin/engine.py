"""Sends calls of the admin to the right nodes, retries them until their deadline, and spreads them over
nodes.

Rule: as in Kafka's Admin, a call ends by its deadline. Until then it retries, with backoff, what a retry may
fix: a retriable error code, a lost connection, a new controller, leader or coordinator. It reports any other
error at once. In a call for many keys, each key succeeds or fails on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from ottla.client.admin.results import Results, failure
from ottla.client.core.backoff import Backoff
from ottla.client.errors import (
    ClientError,
    Disconnected,
    NodeUnknown,
    RequestTimedOut,
    TimedOut,
)
from ottla.wire.errors import (
    KafkaError,
    NotController,
    UnencodableMessage,
    UnknownServerError,
    UnsupportedEndpointType,
    UnsupportedVersion,
)

if TYPE_CHECKING:
    from ottla.client.config import AdminSettings
    from ottla.client.net.cluster import Cluster
    from ottla.ports import Clock, Random
    from ottla.wire.message import Message

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")


class Role(Enum):
    """A node by its role, for calls that do not name a node."""

    BROKER = "any broker"
    CONTROLLER = "the controller, through a broker"
    BROKER_OR_CONTROLLER = "any broker; the active controller with bootstrap.controllers"
    CONTROLLER_EITHER_WAY = "the controller, also with bootstrap.controllers"


Place: TypeAlias = Role | int

_GRACE_MS = 500
"""How much longer than the connection the call waits for a response, so that the connection reports the
error.
"""

FAILURES = (KafkaError, ClientError, UnencodableMessage)
"""How a call may end: an error code, an error of the client, a value that does not fit into a request."""


@dataclass(slots=True)
class Outcome(Generic[K, V]):
    """What one response says about the keys of its request."""

    done: dict[K, V | Exception] = field(default_factory=dict)
    """Results, and errors that a retry does not fix."""
    again: set[K] = field(default_factory=set)
    """Keys to retry at the same node."""
    moved: set[K] = field(default_factory=set)
    """Keys to retry at another node, after a new lookup."""

    def take(self, key: K, code: int, message: str | None = None, *, moved: Collection[int] = ()) -> None:
        """Record an error by its code: moved, retriable, or final for this key."""
        error = failure(code, message)
        if code in moved:
            self.moved.add(key)
        elif error.retriable:
            self.again.add(key)
        else:
            self.done[key] = error


@dataclass(slots=True)
class Found(Generic[K]):
    """The nodes of keys. A key that has neither a node nor an error is looked up again."""

    at: dict[K, int] = field(default_factory=dict)
    failed: dict[K, Exception] = field(default_factory=dict)


class Lookup(Protocol[K]):
    """Finds the node of each key."""

    async def __call__(self, engine: Engine, keys: Collection[K], timeout_ms: int) -> Found[K]: ...


class Deadline:
    """The time by which a call must end."""

    __slots__ = ("_clock", "_ends", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self.timeout_ms = timeout_ms
        self._ends = clock.monotonic() + timeout_ms / 1000

    @property
    def remaining_ms(self) -> int:
        return max(0, int((self._ends - self._clock.monotonic()) * 1000))


class Engine:
    """Runs the requests of every operation."""

    def __init__(self, settings: AdminSettings, cluster: Cluster, *, clock: Clock, random: Random) -> None:
        self.settings = settings
        self.cluster = cluster
        self._clock = clock
        self.random = random
        self._backoff = Backoff(settings, random)
        self._is_started = False

    @property
    def asks_controllers(self) -> bool:
        """Whether this client connects to controllers (`bootstrap.controllers`) and not to brokers."""
        return bool(self.settings.bootstrap_controllers)

    def deadline(self, timeout_ms: int | None) -> Deadline:
        """The deadline of a call; None: after `default.api.timeout.ms`."""
        return Deadline(
            self._clock, self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        )

    async def close(self) -> None:
        await self.cluster.close()

    # One question

    async def call(
        self,
        name: str,
        place: Place,
        build: Callable[[int], Message],
        read: Callable[[Any], R],
        *,
        deadline: Deadline,
        version_min: int = 0,
    ) -> R:
        """Ask one node. `build` gets the time left; `read` may raise an error code, which is retried if
        retriable.
        """
        attempt = 0
        while True:
            try:
                await self._ready(deadline)
                timeout_ms = self._request_timeout_ms(deadline)
                answer = await self.ask(
                    place, build(timeout_ms), timeout_ms=timeout_ms, version_min=version_min
                )
                return read(answer)
            except FAILURES as error:
                await self._recover(name, error, deadline, attempt)
                attempt += 1

    async def ask(
        self,
        place: Place,
        request: Message,
        *,
        timeout_ms: int,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> Any:
        """Send one request once."""
        try:
            async with asyncio.timeout((timeout_ms + _GRACE_MS) / 1000):
                return await self._ask(place, request, timeout_ms, version_min, version_max)
        except TimeoutError as error:
            if isinstance(error, ClientError):
                raise
            raise RequestTimedOut(f"{_api(request)} was not answered within {timeout_ms} ms.") from error

    async def _ask(
        self, place: Place, request: Message, timeout_ms: int, version_min: int, version_max: int | None
    ) -> Any:
        if isinstance(place, int):
            if place not in self.cluster.view.brokers:
                await self.cluster.refresh()
            if version_min:
                assert request.API_KEY is not None
                link = await self.cluster.connect(place)
                served = link.versions(request.API_KEY)
                if served is None or served[-1] < version_min:
                    raise UnsupportedVersion(
                        f"{link.name} (node {place}) supports {_api(request)} up to version "
                        f"{served[-1] if served else 'none'}, but this call needs version {version_min}."
                    )
            return await self.cluster.ask(place, request, timeout_ms=timeout_ms, version_max=version_max)
        if self.asks_controllers and place in (Role.BROKER, Role.CONTROLLER):
            raise UnsupportedEndpointType(
                f"Controllers do not serve {_api(request)}. Create the admin client with bootstrap.servers."
            )
        if place is Role.BROKER or (place is Role.BROKER_OR_CONTROLLER and not self.asks_controllers):
            return await self.cluster.ask_any(request, timeout_ms=timeout_ms)
        return await self.cluster.ask_controller(request, timeout_ms=timeout_ms)

    # Many items

    async def items(
        self,
        name: str,
        places: Mapping[K, Place],
        build: Callable[[list[K], int], Message],
        read: Callable[[list[K], Any], Mapping[K, V | Exception]],
        *,
        deadline: Deadline,
    ) -> Results[K, V]:
        """Ask each node for its items in one request, all nodes concurrently.

        An item that is missing in the response fails; an error of a whole request fails all its items.
        """

        async def at(place: Place, items: list[K]) -> Mapping[K, V | Exception]:
            try:
                return await self.call(
                    name,
                    place,
                    lambda timeout_ms: build(items, timeout_ms),
                    lambda answer: read(items, answer),
                    deadline=deadline,
                )
            except FAILURES as error:
                return dict.fromkeys(items, error)

        of_place: dict[Place, list[K]] = {}
        for item, place in places.items():
            of_place.setdefault(place, []).append(item)
        outcomes: dict[K, V | Exception] = {}
        for told in await asyncio.gather(*(at(place, items) for place, items in of_place.items())):
            outcomes.update(told)
        silence = f"The response to {name} contains no result for this item."
        return Results({item: outcomes.get(item, UnknownServerError(silence)) for item in places})

    # Many keys, each at the node where it lives

    async def spread(
        self,
        name: str,
        keys: Iterable[K],
        lookup: Lookup[K],
        build: Callable[[int, list[K], int], Message],
        read: Callable[[int, list[K], Any], Outcome[K, V]],
        *,
        deadline: Deadline,
        version_min: Callable[[list[K]], int] | None = None,
        version_max: int | None = None,
        batched: bool = True,
    ) -> Results[K, V]:
        """Ask for each key at its node: one request at a time per node, all nodes concurrently.

        `build` gets node, keys and the time left. A key that is missing in the response fails.
        `batched=False`: one key per request.
        """
        ordered = list(dict.fromkeys(keys))
        outcomes: dict[K, V | Exception] = {}
        if ordered:
            async with asyncio.TaskGroup() as group:
                work = _Spread(
                    self,
                    group,
                    name,
                    lookup,
                    build,
                    read,
                    deadline,
                    version_min,
                    version_max,
                    batched,
                    outcomes,
                )
                work.place(ordered, 0)
        return Results({key: outcomes[key] for key in ordered})

    # Trying again

    async def _ready(self, deadline: Deadline) -> None:
        """Connect, once for all calls; a call that comes after a failure tries again."""
        if not self._is_started:
            await self.cluster.start(timeout_ms=max(1, deadline.remaining_ms))
            self._is_started = True

    def _request_timeout_ms(self, deadline: Deadline) -> int:
        return max(1, min(self.settings.request_timeout_ms, deadline.remaining_ms))

    async def _recover(self, name: str, error: Exception, deadline: Deadline, attempt: int) -> None:
        """Wait before the next retry, or raise if no retry helps or the deadline has passed."""
        if not is_curable(error):
            raise error
        delay_ms = self._backoff.delay_ms(attempt)
        if attempt >= self.settings.retries or deadline.remaining_ms <= delay_ms:
            raise timed_out(name, error, deadline, attempt + 1) from error
        if isinstance(error, Disconnected):
            self.cluster.request_refresh()  # who was there may be gone, and others do its work
        await asyncio.sleep(delay_ms / 1000)
        if isinstance(error, NotController | NodeUnknown):
            await self._look_around(deadline)

    async def _look_around(self, deadline: Deadline) -> None:
        """Refresh the metadata. A failure is ignored: the next retry reports it."""
        try:
            await self.cluster.refresh(timeout_ms=max(1, deadline.remaining_ms))
        except FAILURES:
            return


class _Spread(Generic[K, V]):
    """One call for many keys. Each batch of keys is a task, which ends in results or further batches."""

    def __init__(
        self,
        engine: Engine,
        group: asyncio.TaskGroup,
        name: str,
        lookup: Lookup[K],
        build: Callable[[int, list[K], int], Message],
        read: Callable[[int, list[K], Any], Outcome[K, V]],
        deadline: Deadline,
        version_min: Callable[[list[K]], int] | None,
        version_max: int | None,
        batched: bool,
        outcomes: dict[K, V | Exception],
    ) -> None:
        self._engine = engine
        self._group = group
        self._name = name
        self._lookup = lookup
        self._build = build
        self._read = read
        self._deadline = deadline
        self._version_min = version_min
        self._version_max = version_max
        self._batched = batched
        self._outcomes = outcomes

    def place(self, keys: Collection[K], attempt: int) -> None:
        if keys:
            self._group.create_task(self._place(list(keys), attempt))

    async def _place(self, keys: list[K], attempt: int) -> None:
        engine = self._engine
        try:
            await engine._ready(self._deadline)
            found = await self._lookup(engine, keys, engine._request_timeout_ms(self._deadline))
        except FAILURES as error:
            if await self._may_go_on(keys, error, attempt):
                self.place(keys, attempt + 1)
            return
        self._outcomes.update(found.failed)
        nodes: dict[int, list[K]] = {}
        lost: list[K] = []
        for key in keys:
            if key in found.at:
                nodes.setdefault(found.at[key], []).append(key)
            elif key not in found.failed:
                lost.append(key)
        for node, of_node in nodes.items():
            for batch in [of_node] if self._batched else [[key] for key in of_node]:
                self._group.create_task(self._serve(node, batch, attempt))
        if lost:
            unknown = Disconnected("No leader or coordinator is known.")
            if await self._may_go_on(lost, unknown, attempt):
                self.place(lost, attempt + 1)

    async def _serve(self, node: int, keys: list[K], attempt: int) -> None:
        engine = self._engine
        timeout_ms = engine._request_timeout_ms(self._deadline)
        try:
            version_min = self._version_min(keys) if self._version_min is not None else 0
            answer = await engine.ask(
                node,
                self._build(node, keys, timeout_ms),
                timeout_ms=timeout_ms,
                version_min=version_min,
                version_max=self._version_max,
            )
            outcome = self._read(node, keys, answer)
        except FAILURES as error:
            if await self._may_go_on(keys, error, attempt):
                self.place(keys, attempt + 1)
            return
        for key in keys:
            if key in outcome.done:
                self._outcomes[key] = outcome.done[key]
            elif key not in outcome.again and key not in outcome.moved:
                self._outcomes[key] = UnknownServerError(
                    f"The response of node {node} to {self._name} contains no result for {key}."
                )
        again = [key for key in keys if key in outcome.again]
        moved = [key for key in keys if key in outcome.moved]
        if again or moved:
            unready = Disconnected("The node is no longer the leader or coordinator, or is not ready yet.")
            if await self._may_go_on([*again, *moved], unready, attempt):
                self.place(moved, attempt + 1)
                if again:
                    self._group.create_task(self._serve(node, again, attempt + 1))

    async def _may_go_on(self, keys: Collection[K], error: Exception, attempt: int) -> bool:
        """Wait for the next retry. If there is none, fail the keys and return False."""
        try:
            await self._engine._recover(self._name, error, self._deadline, attempt)
        except FAILURES as final:
            for key in keys:
                self._outcomes[key] = final
            return False
        return True


def is_curable(error: Exception) -> bool:
    """Whether a retry may succeed."""
    return isinstance(error, Disconnected) or (isinstance(error, KafkaError) and error.retriable)


def timed_out(name: str, error: Exception, deadline: Deadline, attempts: int) -> TimedOut:
    """The error of a call whose deadline has passed; its text contains the last error."""
    return TimedOut(
        f"{name} did not succeed within {deadline.timeout_ms} ms after {attempts} attempt(s). Last error: "
        f"{error}"
    )


def _api(request: Message) -> str:
    return request.NAME.removesuffix("Request")
