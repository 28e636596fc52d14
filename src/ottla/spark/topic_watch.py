"""The driver's requests to the cluster: topics, offsets, sizes, and commits of progress.

It runs an event loop in a thread, with a connection per node for the lifetime of the query. Rule: a missing
topic is reported at once, by name; retriable errors are retried until `default.api.timeout.ms` has passed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla import host
from ottla.client.config import ConsumerSettings
from ottla.client.consumer.group_member import GroupMember
from ottla.client.consumer.offset_lookup import OffsetLookup
from ottla.client.core.metadata import ClusterView, TopicView
from ottla.client.core.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.errors import ClientError
from ottla.client.net.background import Background
from ottla.client.net.cluster import Cluster
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.spark.settings import ReadSettings, Selection
from ottla.wire.errors import ErrorCode, KafkaError, UnknownTopicOrPartition, for_code
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

T = TypeVar("T")
log = logging.getLogger(__name__)

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_RETRIABLE = (ErrorCode.LEADER_NOT_AVAILABLE,)
_COMMIT_SECONDS = 30.0
_FLUSH_SECONDS = 15.0
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Topics:
    """The selected partitions, and the ids of their topics."""

    partitions: frozenset[TopicPartition]
    ids: Mapping[str, bytes]
    missing: tuple[str, ...] = ()


class Watch:
    """Create it in Spark's driver process, and `close` it at the end."""

    def __init__(self, settings: ReadSettings) -> None:
        self._selection = settings.selection
        self._client = ConsumerSettings.parse(settings.client)
        self._seconds = self._client.default_api_timeout_ms / 1000
        self._group_id = settings.group_id
        self._background = Background("spark source")
        self._cluster: Cluster | None = None
        self._lookup: OffsetLookup | None = None
        self._member: GroupMember | None = None
        self._committing: asyncio.Task[None] | None = None  # the last commit; commits run in order

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._background.run(work)

    async def _connected(self) -> tuple[Cluster, OffsetLookup]:
        if self._cluster is None or self._lookup is None:
            cluster = Cluster(
                self._client, clock=host.HostClock(), network=host.HostNetwork(), random=host.HostRandom()
            )
            await cluster.start(timeout_ms=self._client.default_api_timeout_ms)
            self._cluster = cluster
            self._lookup = OffsetLookup(
                cluster,
                read_committed=self._client.isolation_level == "read_committed",
                request_timeout_ms=self._client.request_timeout_ms,
            )
        return self._cluster, self._lookup

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None and not self._background.is_forked:
            self.flush_commits()
            self._run(self._cluster.close())
            self._cluster = None
        self._background.stop()

    # Topics.

    def topics(self) -> Topics:
        """The current selection. Topics that are named but do not exist are in `missing`."""
        return self._run(self._topics())

    async def _topics(self) -> Topics:
        cluster, _ = await self._connected()
        selection = self._selection
        if selection.pattern is not None:
            cluster.follow_all()
            view = await cluster.refresh(timeout_ms=self._seconds * 1000)
            pattern = re.compile(selection.pattern)
            names = {
                name for name, one in view.topics.items() if not one.internal and pattern.fullmatch(name)
            }
            return _selected(view, {name for name in names if view.topics[name].error is None}, selection)
        names = set(selection.topics) or {topic for topic, _ in selection.partitions}
        cluster.follow(names)
        for attempt in range(_TRIES):
            view = await cluster.refresh(topics=names, timeout_ms=self._seconds * 1000)
            if not any(_is_retriable(view.topics.get(name)) for name in names):
                break
            await asyncio.sleep(cluster.backoff.delay_ms(attempt) / 1000)
        return _selected(view, names, selection)

    # Offsets.

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offsets: the last stable offsets if only committed records are read."""
        return self._run(self._edges(partitions, LATEST_TIMESTAMP))

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._run(self._edges(partitions, EARLIEST_TIMESTAMP))

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a timestamp; None if there is none."""
        return self._run(self._at_times(times))

    async def _at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        _, lookup = await self._connected()
        found = await lookup.lookup(times, self._seconds)
        return {key: None if one is None else one.offset for key, one in found.items()}

    async def _edges(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        _, lookup = await self._connected()
        found = await lookup.lookup(dict.fromkeys(partitions, timestamp), self._seconds)
        return {key: 0 if one is None else one.offset for key, one in found.items()}

    def refresh(self, known: Iterable[TopicPartition]) -> tuple[Topics, dict[TopicPartition, int]]:
        """Topics and end offsets for a trigger, with the offsets of known partitions requested
        concurrently."""
        return self._run(self._refresh(frozenset(known)))

    async def _refresh(self, known: frozenset[TopicPartition]) -> tuple[Topics, dict[TopicPartition, int]]:
        cluster, lookup = await self._connected()
        asked = {key for key in known if cluster.view.leader(*key) >= 0}
        topics, found = await asyncio.gather(
            self._topics(), lookup.once(dict.fromkeys(asked, LATEST_TIMESTAMP))
        )
        ends = {key: one.offset for key, one in found.items() if one is not None}
        left = topics.partitions - ends.keys()
        if left:
            ends.update(await self._edges(left, LATEST_TIMESTAMP))
        return topics, {key: ends[key] for key in topics.partitions}

    # Sizes.

    def sizes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """The average bytes per offset on the leader's disk."""
        return self._run(self._sizes(list(partitions)))

    async def _sizes(self, partitions: list[TopicPartition]) -> dict[TopicPartition, float]:
        cluster, _ = await self._connected()
        by_leader: dict[int, dict[str, list[int]]] = {}
        for key in partitions:
            leader = cluster.view.leader(*key)
            if leader >= 0:
                by_leader.setdefault(leader, {}).setdefault(key.topic, []).append(key.partition)
        first, last, *answers = await asyncio.gather(
            self._edges(partitions, EARLIEST_TIMESTAMP),
            self._edges(partitions, LATEST_TIMESTAMP),
            *(self._ask_sizes(cluster, node, topics) for node, topics in by_leader.items()),
        )
        bytes_of = {key: size for answer in answers for key, size in answer.items()}
        return {
            key: bytes_of.get(key, 0) / (last[key] - first[key]) if last[key] > first[key] else 0.0
            for key in partitions
        }

    async def _ask_sizes(
        self, cluster: Cluster, node: int, topics: Mapping[str, list[int]]
    ) -> dict[TopicPartition, int]:
        request = DescribeLogDirsRequest(
            topics=[
                DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=indices)
                for topic, indices in topics.items()
            ]
        )
        answer = await cluster.ask(node, request)
        if answer.error_code:
            raise for_code(answer.error_code)(
                "Cannot get log sizes (byte limits need the DESCRIBE permission on the cluster): "
                f"{ErrorCode(answer.error_code).name}."
            )
        found: dict[TopicPartition, int] = {}
        for directory in answer.results:
            for topic in directory.topics:
                for one in topic.partitions:
                    if not one.is_future_key:
                        found[TopicPartition(topic.name, one.partition_index)] = one.partition_size
        return found

    # Progress.

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit to the group in the background. It only shows progress, so a failure is only logged."""
        if self._group_id is not None:
            self._background.soon(self._commit_soon, dict(offsets))

    def flush_commits(self) -> None:
        """Wait briefly for the last commit to complete."""
        if self._group_id is not None:
            self._run(self._flushed())

    async def _flushed(self) -> None:
        if self._committing is not None:
            await asyncio.wait({self._committing}, timeout=_FLUSH_SECONDS)

    def _commit_soon(self, offsets: dict[TopicPartition, int]) -> None:
        self._committing = asyncio.get_running_loop().create_task(self._commit(offsets))

    async def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        assert self._group_id is not None
        cluster, _ = await self._connected()
        if self._member is None:
            self._member = GroupMember(
                cluster,
                self._group_id,
                None,
                is_stable_required=False,
                alert=lambda: None,
                counters=Counter(),
            )
        stored = {key: OffsetAndMetadata(offset) for key, offset in offsets.items()}
        try:
            await self._member.commit(stored, seconds=_COMMIT_SECONDS)
        except (ClientError, KafkaError) as error:
            log.warning("Failed to commit progress to group %s: %s", self._group_id, error)


def _is_retriable(topic: TopicView | None) -> bool:
    """Whether the topic was just created, so that its metadata is still incomplete."""
    return topic is None or topic.error in _RETRIABLE


def _selected(view: ClusterView, names: Iterable[str], selection: Selection) -> Topics:
    partitions: set[TopicPartition] = set()
    ids: dict[str, bytes] = {}
    missing: list[str] = []
    for name in sorted(names):
        topic = view.topics.get(name)
        if topic is None or topic.error in _UNKNOWN:
            missing.append(name)
            continue
        if topic.error is not None and topic.error not in _RETRIABLE:
            raise for_code(topic.error)(f"Cannot read topic {name}: {topic.error.name}.")
        ids[name] = topic.topic_id
        partitions.update(TopicPartition(name, one.index) for one in topic.partitions)
    if selection.partitions:
        chosen = {TopicPartition(*one) for one in selection.partitions}
        absent = sorted(key for key in chosen - partitions if key.topic not in missing)
        if absent:
            raise UnknownTopicOrPartition(
                f"{absent[0]} does not exist: the topic has "
                f"{sum(key.topic == absent[0].topic for key in partitions)} partitions."
            )
        partitions &= chosen
    return Topics(frozenset(partitions), ids, tuple(missing))
