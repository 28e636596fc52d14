"""Looks up offsets at the leaders of partitions: by timestamp, and the end of a leader epoch.

Rule: one try asks every leader once and sorts partitions into those with an answer and those to retry; an
error that a retry does not fix is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from ottla.client.core.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, PartitionState
from ottla.client.errors import Disconnected, TimedOut
from ottla.client.net.cluster import Cluster
from ottla.client.values import OffsetAndTimestamp, TopicPartition
from ottla.wire.errors import ErrorCode, for_code
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

_FINAL = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
    }
)
_CONSUMER = -1


class OffsetLookup:
    """Offsets of partitions, as their leaders know them."""

    def __init__(self, cluster: Cluster, *, read_committed: bool, request_timeout_ms: int) -> None:
        self._cluster = cluster
        self._isolation_level = int(read_committed)
        self._timeout_ms = request_timeout_ms

    async def lookup(
        self, wanted: Mapping[TopicPartition, int], seconds: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The offset for each timestamp; None if no record is at or after it. TimedOut names the missing
        ones.
        """
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        left = dict(wanted)
        attempt = 0
        try:
            async with asyncio.timeout(seconds):
                while left:
                    if attempt:
                        await asyncio.sleep(self._cluster.backoff.delay_ms(attempt - 1) / 1000)
                    if attempt or any(self._leader(partition) < 0 for partition in left):
                        await self._cluster.refresh(topics={partition.topic for partition in left})
                    found.update(await self.once(left))
                    left = {p: timestamp for p, timestamp in left.items() if p not in found}
                    attempt += 1
        except TimeoutError as error:
            names = ", ".join(map(str, sorted(left)))
            raise TimedOut(f"No offsets of {names} were received within {seconds:g} s.") from error
        return {partition: found[partition] for partition in wanted}

    async def once(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The results of one try; partitions that are not in it must be retried."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, timestamp in wanted.items():
            leader = self._leader(partition)
            if leader >= 0:
                by_leader.setdefault(leader, {})[partition] = timestamp
        answers = await asyncio.gather(*(self._list(node, part) for node, part in by_leader.items()))
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for answer in answers:
            found.update(answer)
        return found

    def _leader(self, partition: TopicPartition) -> int:
        return self._cluster.view.leader(partition.topic, partition.partition)

    async def _list(
        self, node: int, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
        for partition, timestamp in wanted.items():
            view = self._cluster.view.partition(partition.topic, partition.partition)
            topic = topics.setdefault(
                partition.topic, ListOffsetsRequest.ListOffsetsTopic(name=partition.topic)
            )
            topic.partitions.append(
                ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=-1 if view is None else view.leader_epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._isolation_level,
            topics=list(topics.values()),
            timeout_ms=self._timeout_ms,
        )
        try:
            answer = await self._cluster.ask(node, request)
        except Disconnected:
            self._cluster.request_refresh()
            return {}
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for result in answer.topics:
            for one in result.partitions:
                partition = TopicPartition(result.name, one.partition_index)
                if one.error_code in _FINAL:
                    raise for_code(one.error_code)(f"Cannot look up offsets of {partition}.")
                if one.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT or (
                    not one.error_code and one.offset < 0
                ):
                    found[partition] = None
                elif one.error_code:
                    self._cluster.request_refresh()
                else:
                    epoch = one.leader_epoch if one.leader_epoch >= 0 else None
                    found[partition] = OffsetAndTimestamp(one.offset, one.timestamp, epoch)
        return found

    async def edges(
        self, partitions: Iterable[TopicPartition], *, earliest: bool, seconds: float
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition, or the one after its last."""
        timestamp = EARLIEST_TIMESTAMP if earliest else LATEST_TIMESTAMP
        found = await self.lookup(dict.fromkeys(partitions, timestamp), seconds)
        return {partition: one.offset if one is not None else 0 for partition, one in found.items()}

    async def epoch_ends(
        self, states: Iterable[PartitionState]
    ) -> list[tuple[TopicPartition, int, int, int, int]]:
        """(partition, its stamp, epoch of the leader, end offset, end epoch) for each partition with an
        answer.
        """
        by_leader: dict[int, list[PartitionState]] = {}
        for state in states:
            by_leader.setdefault(state.leader, []).append(state)
        answers = await asyncio.gather(*(self._ends(node, asked) for node, asked in by_leader.items()))
        return [one for answer in answers for one in answer]

    async def _ends(
        self, node: int, states: list[PartitionState]
    ) -> list[tuple[TopicPartition, int, int, int, int]]:
        asked = {state.partition: (state.stamp, state.leader_epoch) for state in states}
        topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
        for state in states:
            topic = topics.setdefault(
                state.topic, OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=state.topic)
            )
            topic.partitions.append(
                OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                    partition=state.partition.partition,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=-1 if state.fetch_epoch is None else state.fetch_epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        try:
            answer = await self._cluster.ask(node, request)
        except Disconnected:
            self._cluster.request_refresh()
            return []
        found = []
        for result in answer.topics:
            for one in result.partitions:
                partition = TopicPartition(result.topic, one.partition)
                if one.error_code in _FINAL:
                    raise for_code(one.error_code)(f"Cannot validate the position in {partition}.")
                if one.error_code:
                    self._cluster.request_refresh()
                elif partition in asked:
                    stamp, epoch = asked[partition]
                    found.append((partition, stamp, epoch, one.end_offset, one.leader_epoch))
        return found
