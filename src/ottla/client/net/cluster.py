"""The cluster as a client sees it: current metadata, and connections to the nodes.

Everything runs on one event loop. `ask` and `send` try once: only the caller knows whether a retry is safe.
Lanes are separate connections to one node, so that a long poll never delays a heartbeat. The bootstrap
servers are nodes with negative ids until metadata names them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.config import CommonSettings
from ottla.client.connection_options import ConnectionOptions
from ottla.client.core.backoff import Backoff
from ottla.client.core.metadata import ClusterView, Node
from ottla.client.errors import (
    AuthenticationFailed,
    ClientError,
    Closed,
    Disconnected,
    NoBrokerAvailable,
    TimedOut,
    TlsFailed,
)
from ottla.client.net.connection import Link
from ottla.client.net.node_connection import Lane, LaneSettings, shared
from ottla.client.security import connection_options_for
from ottla.ports import Clock, Network, Random
from ottla.wire.errors import ErrorCode, KafkaError, UnsupportedVersion, for_code
from ottla.wire.message import Message
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

log = logging.getLogger(__name__)

GROUP = 0
TRANSACTION = 1
MAIN = "main"

_COORDINATOR_RETRY = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
_HOPELESS = (AuthenticationFailed, TlsFailed)


class _MetadataRequest:
    """A metadata request for these topics; None: for the followed ones."""

    __slots__ = ("auto_create", "future", "topics")

    def __init__(
        self, topics: frozenset[str] | None, auto_create: bool, future: asyncio.Future[None]
    ) -> None:
        self.topics = topics
        self.auto_create = auto_create
        self.future = future


class Cluster:
    """Create it, `await start()`, use it, `await close()`."""

    def __init__(
        self,
        settings: CommonSettings,
        *,
        clock: Clock,
        network: Network,
        random: Random,
        connection_options: ConnectionOptions | None = None,
    ) -> None:
        self.settings = settings
        self.view = ClusterView()
        self.features: dict[str, int] = {}
        """The cluster's finalized features, from the newest epoch of any response."""
        self.last_error: Exception | None = None
        """Why the last metadata request failed; None after a success."""
        self.clock = clock
        self.random = random
        self.backoff = Backoff(settings, random)
        self._features_epoch = -2
        self._lane_settings = LaneSettings(
            clock=clock,
            network=network,
            connection_options=connection_options
            or connection_options_for(settings, clock=clock, network=network, random=random),
            reconnect=Backoff.between(
                settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random
            ),
            set_up=Backoff.between(
                settings.socket_connection_setup_timeout_ms,
                settings.socket_connection_setup_timeout_max_ms,
                random,
            ),
            on_open=self._opened,
            # As Java's: a broker closes the connection to refuse a batch with acks=0, which has no answer.
            on_lost=self.request_refresh,
        )
        controllers: tuple[tuple[str, int], ...] = getattr(settings, "bootstrap_controllers", ()) or ()
        self._asks_controllers = bool(controllers)
        self._bootstrap = {
            -1 - index: Node(-1 - index, host, port)
            for index, (host, port) in enumerate(controllers or settings.bootstrap_servers)
        }
        self._endpoints: dict[int, Node] = {}
        self._lanes: dict[tuple[int, str], Lane] = {}
        self._followed: set[str] = set()
        self._follows_all = False
        self._needs: list[_MetadataRequest] = []
        self._wanted = False
        self._wake = asyncio.Event()
        self._listeners: list[Callable[[ClusterView], None]] = []
        self._coordinators: dict[tuple[int, str], int] = {}
        self._finding: dict[tuple[int, str], asyncio.Task[int]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._refreshed_at = clock.monotonic()
        self._attempts = 0
        self._equal_views = 0  # how often in a row a refresh was asked for and nothing had changed
        self._looked_at = -math.inf
        self._is_closed = False

    # Life

    async def start(self, *, timeout_ms: float | None = None) -> None:
        """Connect to a bootstrap server and get metadata, with retries until the timeout.

        Raises AuthenticationFailed and TlsFailed at once; other failures become NoBrokerAvailable, which
        contains the reason for each server.
        """
        self._begin()
        await self.refresh(timeout_ms=timeout_ms)

    def _begin(self) -> None:
        if self._is_closed:
            raise Closed("The client is closed.")
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._keep_fresh()), loop.create_task(self._close_idle())]

    async def close(self) -> None:
        """Close every connection; requests in flight fail with `Closed`."""
        if self._is_closed:
            return
        self._is_closed = True
        closed = Closed("The client is closed.")
        tasks = [*self._tasks, *self._finding.values()]
        for task in tasks:
            task.cancel()
        for lane in self._lanes.values():
            lane.close(closed)
        for need in self._needs:
            if not need.future.done():
                need.future.set_exception(closed)
        self._needs.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the loop's next turn

    # Metadata

    def follow(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics up to date."""
        new = set(topics) - self._followed
        self._followed |= new
        if any(topic not in self.view.topics for topic in new):
            self.request_refresh()

    def unfollow(self, topics: Iterable[str]) -> None:
        self._followed.difference_update(topics)

    def follow_all(self, follows: bool = True) -> None:
        """Keep the metadata of all topics up to date, for subscriptions by pattern."""
        changed, self._follows_all = follows and not self._follows_all, follows
        if changed:
            self.request_refresh()

    async def refresh(
        self,
        *,
        topics: Iterable[str] | None = None,
        allow_auto_topic_creation: bool = False,
        timeout_ms: float | None = None,
    ) -> ClusterView:
        """Request metadata now, or join a request in flight, and wait for it.

        With `topics`, of these; they stay in the view as long as they are followed. Without a timeout it
        retries without end, but raises AuthenticationFailed and TlsFailed at once.
        """
        self._begin()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wanted = None if topics is None else frozenset(topics)
        self._needs.append(_MetadataRequest(wanted, allow_auto_topic_creation, future))
        self._wake.set()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await future
        except TimeoutError as error:
            if self.last_error is not None:
                raise self.last_error from error
            raise TimedOut(f"No metadata was received within {(timeout_ms or 0) / 1000:g} s.") from error
        return self.view

    def request_refresh(self) -> None:
        """Request metadata soon, but not more often than the backoff allows."""
        self._wanted = True
        self._wake.set()

    def on_view(self, listener: Callable[[ClusterView], None]) -> Callable[[], None]:
        """Call `listener` with each new view. Returns a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def update_leader(
        self, topic: str, partition: int, leader_id: int, leader_epoch: int, endpoint: Node | None
    ) -> bool:
        """Apply a broker's hint about a new leader (KIP-951); return whether it was new."""
        view = self.view.with_leader(topic, partition, leader_id, leader_epoch, endpoint)
        if view is self.view:
            return False
        self._show(view)
        return True

    def _show(self, view: ClusterView) -> None:
        self.view = view
        for listener in tuple(self._listeners):
            listener(view)

    async def _keep_fresh(self) -> None:
        age_max = self.settings.metadata_max_age_ms / 1000
        while True:
            looked_for_news = False
            left = self._refreshed_at + age_max - self.clock.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(left, 0.0)):
                    await self._wake.wait()
            if not self._needs and self._wanted:
                # No caller waits: one has only seen that the view is old.
                await asyncio.sleep(self._news_delay_seconds())
                looked_for_news = True
            self._wake.clear()
            self._wanted = False
            needs = [need for need in self._needs if not need.future.done()]
            self._needs = list(needs)  # those who come while it is asked are not among those it is asked for
            before = self.view
            try:
                await self._refresh_once(needs)
                self._equal_views = self._equal_views + 1 if looked_for_news and self.view == before else 0
            except Disconnected as error:
                self.last_error = error
                await self._pause()
            except (ClientError, KafkaError) as error:
                self.last_error = error
                for need in self._needs:
                    if not need.future.done():
                        need.future.set_exception(error)
                self._needs = []
                await self._pause()

    def _news_delay_seconds(self) -> float:
        """How long to wait before the next request for something that the last responses lacked, such as a
        leader.
        """
        now = self.clock.monotonic()
        if now - self._looked_at > 2 * self.settings.retry_backoff_max_ms / 1000:
            self._equal_views = 0
        self._looked_at = now
        return self.backoff.delay_ms(self._attempts + self._equal_views) / 1000

    async def _pause(self) -> None:
        self._attempts += 1
        log.debug("Failed to fetch metadata: %s", self.last_error)
        await asyncio.sleep(self.backoff.delay_ms(self._attempts - 1) / 1000)
        self._wake.set()

    async def _refresh_once(self, needs: list[_MetadataRequest]) -> None:
        is_new = not self.view.brokers
        asked = frozenset().union(*(need.topics for need in needs if need.topics is not None))
        is_whole = is_new or not needs or any(need.topics is None for need in needs)
        auto_create = any(need.auto_create for need in needs)
        names: Iterable[str] | None = (self._followed | asked) if is_whole else asked
        if self._follows_all and is_whole:
            names = None
        if self._asks_controllers:
            view = await self._ask_controllers()
        else:
            answer = await self._ask_metadata(names, auto_create)
            keep = self._followed | asked if is_whole else set(self.view.topics)
            view = self.view.after(answer, keep)
        if is_whole:
            self._refreshed_at = self.clock.monotonic()
        self._attempts = 0
        self.last_error = None
        self._take_over_bootstrap(view)
        self._show(view)
        left = []
        for need in self._needs:
            covered = is_whole if need.topics is None else names is None or need.topics <= set(names)
            if need in needs or (covered and not need.auto_create):
                if not need.future.done():
                    need.future.set_result(None)
            else:
                left.append(need)
        self._needs = left
        if left:
            self._wake.set()

    async def _ask_metadata(self, names: Iterable[str] | None, auto_create: bool) -> MetadataResponse:
        topic = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=None if names is None else [topic(name=name) for name in sorted(names)],
            allow_auto_topic_creation=auto_create,
        )
        answer: MetadataResponse = await self._ask_in_turn(request, self._turn(), None)
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            answer = await self._ask_in_turn(request, list(self._bootstrap), None)
        if not answer.brokers:
            raise Disconnected("The server does not know any broker yet.")
        return answer

    async def _ask_controllers(self) -> ClusterView:
        request = DescribeClusterRequest(endpoint_type=2)
        answer = await self._ask_in_turn(request, self._turn(), None)
        if answer.error_code:
            error = for_code(answer.error_code)(answer.error_message)
            raise Disconnected(str(error)) if error.retriable else error
        return self.view.after_controllers(answer)

    def _take_over_bootstrap(self, view: ClusterView) -> None:
        """Reuse the connection to a bootstrap server for its broker, if the addresses are the same."""
        by_address = {(node.host, node.port): node.id for node in view.brokers.values()}
        for bootstrap_id, first in self._bootstrap.items():
            lane = self._lanes.get((bootstrap_id, MAIN))
            if lane is None or lane.in_flight:
                continue
            node_id = by_address.get((first.host, first.port))
            del self._lanes[bootstrap_id, MAIN]
            if node_id is None or (node_id, MAIN) in self._lanes:
                lane.close()
            else:
                lane.where = self._where(node_id)
                self._lanes[node_id, MAIN] = lane

    # Asking

    def send(
        self,
        node_id: int,
        request: Message,
        *,
        lane: str = MAIN,
        timeout_ms: float | None = None,
        version: int | None = None,
        version_max: int | None = None,
        answered: bool = True,
        then: Callable[[Any], Any] | None = None,
    ) -> asyncio.Future[Any]:
        """Send one request once. Calls of one lane are sent in order. `then`: see `Link.send`."""
        return self._lane(node_id, lane).send(
            request,
            timeout_ms=self.settings.request_timeout_ms if timeout_ms is None else timeout_ms,
            version=version,
            version_max=version_max,
            answered=answered,
            then=then,
        )

    async def ask(
        self,
        node_id: int,
        request: Message,
        *,
        timeout_ms: float | None = None,
        lane: str = MAIN,
        version: int | None = None,
        version_max: int | None = None,
    ) -> Any:
        """`send`, awaited: returns the response, or raises `Disconnected` or another error."""
        return await self.send(
            node_id, request, lane=lane, timeout_ms=timeout_ms, version=version, version_max=version_max
        )

    async def ask_any(self, request: Message, *, timeout_ms: float | None = None, **options: Any) -> Any:
        """Ask the least busy node; if it is unreachable, the next one."""
        return await self._ask_in_turn(request, self._turn(), timeout_ms, **options)

    async def ask_controller(
        self, request: Message, *, timeout_ms: float | None = None, **options: Any
    ) -> Any:
        """Ask the controller, or a broker that forwards requests to it."""
        attempt = 0
        while True:
            if self.view.controller_id in self.view.brokers:
                turn = [self.view.controller_id]
            else:
                turn = self._turn()
            answer = await self._ask_in_turn(request, turn, timeout_ms, **options)
            if getattr(answer, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                return answer
            await asyncio.sleep(self.backoff.delay_ms(attempt) / 1000)
            attempt += 1
            await self.refresh()

    def versions(self, node_id: int, api_key: int, lane: str = MAIN) -> range | None:
        """The versions of an API that a node and this client support; None before it is connected."""
        found = self._lanes.get((node_id, lane))
        if found is None or found.link is None:
            return None
        return found.link.versions(api_key)

    async def connect(self, node_id: int, lane: str = MAIN) -> Link:
        """Connect to a node, for callers that need its versions before they send."""
        return await self._lane(node_id, lane).connected()

    def is_connected(self, node_id: int, lane: str = MAIN) -> bool:
        """Whether a request would be sent at once."""
        found = self._lanes.get((node_id, lane))
        return found is not None and found.is_usable

    async def _ask_in_turn(
        self, request: Message, turn: list[int], timeout_ms: float | None, **options: Any
    ) -> Any:
        failed: list[Disconnected | UnsupportedVersion] = []
        for node_id in turn:
            try:
                return await self.ask(node_id, request, timeout_ms=timeout_ms, **options)
            except _HOPELESS:
                raise
            except (Disconnected, UnsupportedVersion) as error:
                failed.append(error)
        # Asking again helps where a server was not reached, and not where none of them has the API.
        if len(failed) == 1 or (failed and all(isinstance(error, UnsupportedVersion) for error in failed)):
            raise failed[-1]
        reasons = " ".join(str(error) for error in failed)
        raise NoBrokerAvailable(f"No server could answer. {reasons}") from (failed[-1] if failed else None)

    def _turn(self) -> list[int]:
        """The nodes to ask, the least busy first; the bootstrap servers if no other is left."""
        nodes = list(self.view.brokers)
        start = self.random.below(len(nodes)) if nodes else 0
        nodes = nodes[start:] + nodes[:start]

        def burden(node_id: int) -> tuple[bool, bool, int]:
            lane = self._lanes.get((node_id, MAIN))
            if lane is None:
                return False, True, 0
            return lane.is_blocked, not lane.is_open, lane.in_flight

        nodes.sort(key=burden)
        if self.settings.metadata_recovery_strategy == "rebootstrap" or not nodes:
            trigger = self.settings.metadata_recovery_rebootstrap_trigger_ms / 1000
            firsts = list(self._bootstrap)
            start = self.random.below(len(firsts))
            firsts = firsts[start:] + firsts[:start]
            age = self.clock.monotonic() - self._refreshed_at
            is_lost = self._attempts > 0 and age >= trigger + self.settings.metadata_max_age_ms / 1000
            return firsts + nodes if is_lost else nodes + firsts
        return nodes

    # Coordinators

    async def coordinator(self, kind: int, key: str) -> int:
        """The coordinator of a group (0) or a transactional id (1); looked up with retries."""
        found = self._coordinators.get((kind, key))
        if found is not None:
            return found
        finding = self._finding.get((kind, key))
        if finding is None:
            finding = asyncio.get_running_loop().create_task(self._find_coordinator(kind, key))
            self._finding[kind, key] = finding
            finding.add_done_callback(lambda done: self._found(kind, key, done))
        return await shared(finding)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """The node is no longer the coordinator, or is unreachable."""
        self._coordinators.pop((kind, key), None)

    def _found(self, kind: int, key: str, done: asyncio.Task[int]) -> None:
        self._finding.pop((kind, key), None)
        if not done.cancelled():
            done.exception()  # asyncio would report it if no caller waits any more

    async def _find_coordinator(self, kind: int, key: str) -> int:
        attempt = 0
        while True:
            error: Exception
            try:
                node = await self._ask_coordinator(kind, key)
            except (Disconnected, KafkaError) as failure:
                error = failure
                if isinstance(error, KafkaError) and error.code not in _COORDINATOR_RETRY:
                    raise
                self.last_error = error
            else:
                if self.view.brokers.get(node.id) is None:
                    self._endpoints[node.id] = node
                self._coordinators[kind, key] = node.id
                return node.id
            await asyncio.sleep(self.backoff.delay_ms(attempt) / 1000)
            attempt += 1

    async def _ask_coordinator(self, kind: int, key: str) -> Node:
        try:
            answer = await self.ask_any(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
            found = answer.coordinators[0] if answer.coordinators else answer
        except (UnsupportedVersion, ValueError):  # a server that knows one key a request only
            answer = await self.ask_any(FindCoordinatorRequest(key_type=kind, key=key), version_max=3)
            found = answer
        if found.error_code:
            raise for_code(found.error_code)(found.error_message)
        return Node(found.node_id, found.host, found.port)

    # Lanes

    def _where(self, node_id: int) -> Callable[[], Node | None]:
        if node_id < 0:
            return lambda: self._bootstrap.get(node_id)
        return lambda: self.view.brokers.get(node_id) or self._endpoints.get(node_id)

    def _lane(self, node_id: int, name: str) -> Lane:
        lane = self._lanes.get((node_id, name))
        if lane is None:
            lane = self._lanes[node_id, name] = Lane(self._lane_settings, self._where(node_id))
            if self._is_closed:
                lane.close()
        return lane

    def _opened(self, link: Link) -> None:
        if link.features_epoch > self._features_epoch:
            self._features_epoch = link.features_epoch
            self.features = link.features

    async def _close_idle(self) -> None:
        idle_max = self.settings.connections_max_idle_ms / 1000
        if idle_max <= 0:
            return
        while True:
            await asyncio.sleep(max(idle_max / 4, 0.01))
            now = self.clock.monotonic()
            for key, lane in list(self._lanes.items()):
                since = lane.idle_since
                if since is not None and now - since > idle_max:
                    lane.close()
                    self._lanes.pop(key, None)
