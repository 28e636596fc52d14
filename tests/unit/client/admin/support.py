"""What the tests of the admin share: an engine on a cluster that answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.client.admin.engine import Engine
from ottla.client.config import AdminSettings
from ottla.client.core.metadata import ClusterView, Node
from ottla.host import HostClock, HostRandom
from ottla.wire.apis import API_BY_KEY
from ottla.wire.message import Message
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

R = TypeVar("R")
DEADLINE_SECONDS = 60
ANY = -100
"""The node that a request for any node is noted with."""
CONTROLLER = -200

Answers = Callable[[int, Any], Any]


def run(work: Awaitable[R]) -> R:
    """Run a test's coroutine, with a bound of time."""

    async def bounded() -> R:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await work

    return asyncio.run(bounded())


@dataclass
class FakeLink:
    name: str
    served: dict[int, range]

    def versions(self, key: int) -> range | None:
        return self.served.get(key, API_BY_KEY[key].versions)


class FakeCluster:
    """Stands for `Cluster`: `answers(node, request)` gives the answer, or raises."""

    def __init__(self, answers: Answers, brokers: int = 3) -> None:
        self._answers = answers
        self.nodes = {index: Node(index, f"host{index}", 9092) for index in range(brokers)}
        self.view = ClusterView(brokers=self.nodes, controller_id=0)
        self.asked: list[tuple[int, Any]] = []
        self.refreshed = 0
        self.refreshes_requested = 0
        self.started = 0
        self.served: dict[int, range] = {}

    async def start(self, *, timeout_ms: float | None = None) -> None:
        self.started += 1

    async def refresh(self, *, timeout_ms: float | None = None) -> ClusterView:
        self.refreshed += 1
        return self.view

    def request_refresh(self) -> None:
        self.refreshes_requested += 1

    async def close(self) -> None: ...

    async def connect(self, node_id: int) -> FakeLink:
        return FakeLink(f"host{node_id}:9092", self.served)

    async def ask(self, node_id: int, request: Message, **options: Any) -> Any:
        self.asked.append((node_id, request))
        await asyncio.sleep(0)
        return self._answers(node_id, request)

    async def ask_any(self, request: Message, **options: Any) -> Any:
        return await self.ask(ANY, request)

    async def ask_controller(self, request: Message, **options: Any) -> Any:
        return await self.ask(CONTROLLER, request)

    def names(self) -> list[tuple[int, str]]:
        """Who was asked what."""
        return [(node, request.NAME.removesuffix("Request")) for node, request in self.asked]


def engine_of(answers: Answers, *, brokers: int = 3, **settings: Any) -> tuple[Engine, FakeCluster]:
    cluster = FakeCluster(answers, brokers)
    if "bootstrap_controllers" not in settings:
        settings["bootstrap_servers"] = "host0:9092"
    parsed = AdminSettings.parse(retry_backoff_ms=1, retry_backoff_max_ms=2, **settings)
    engine = Engine(parsed, cluster, clock=HostClock(), random=HostRandom())  # type: ignore[arg-type]
    return engine, cluster


def metadata_of(
    request: MetadataRequest, leaders: dict[str, list[int]], brokers: int = 3
) -> MetadataResponse:
    """Metadata of the topics asked for: topic -> the leader of each partition. One without is unknown."""
    topic_class, partition = (
        MetadataResponse.MetadataResponseTopic,
        MetadataResponse.MetadataResponsePartition,
    )
    topics = []
    for asked in request.topics or []:
        known = leaders.get(asked.name or "")
        if known is None:
            topics.append(topic_class(name=asked.name, error_code=3))
            continue
        partitions = [
            partition(partition_index=index, leader_id=leader, error_code=0 if leader >= 0 else 5)
            for index, leader in enumerate(known)
        ]
        topics.append(topic_class(name=asked.name, partitions=partitions))
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=index, host=f"host{index}", port=9092)
            for index in range(brokers)
        ],
        topics=topics,
    )
