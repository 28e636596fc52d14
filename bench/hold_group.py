"""A group of the consumer protocol on a coordinator with a log, in this process: see `hold`.

It includes everything that a new assignment costs the loop: the snapshot, the assignor, the records, their
replay and the write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ottla.config import development_config
from ottla.controller.image import ClusterImage
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.groups.shard import GroupShard
from ottla.coordinator.records import kinds_of
from ottla.coordinator.result import Caller
from ottla.coordinator.runtime import Coordinator
from ottla.coordinator.slices import Slices
from ottla.host import HostClock, HostDisk, HostRandom
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.server.replicas.partition import Partition
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import KafkaError
from ottla.wire.messages import group_records
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.metadata_records import PartitionRecord, TopicRecord

GROUP = "readers"
GROUPS_TOPIC = "__consumer_offsets"
CALLER = Caller(1, "bench", "/127.0.0.1")
_ID = b"g" * 16


def image_of(topics: dict[str, int]) -> ClusterImage:
    """A cluster with these topics: name -> partitions."""
    image = ClusterImage()
    for name, partitions in topics.items():
        topic_id = name.encode().ljust(16, b"_")[:16]
        image.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in range(partitions):
            image.replay(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=[1],
                    isr=[1],
                    leader=1,
                    directories=[bytes(16)],
                )
            )
    return image


class GroupOnALoop:
    """The coordinator and its one group. An assignment is computed as soon as a member needs one."""

    def __init__(self, directory: Path, topics: dict[str, int], assignor: str) -> None:
        self._clock = HostClock()
        self._image = image_of(topics)
        self._names = list(topics)
        self._assignor = assignor
        config = development_config(
            data_directory=str(directory),
            port=19092,
            controller_port=19093,
            overrides={"group.consumer.assignment.interval.ms": "0"},
        )
        self._settings = GroupSettings(config, {})
        self.slices = Slices(self._clock)
        self.rejected: list[KafkaError] = []
        partition = _partition(directory, self._clock)
        self._coordinator = Coordinator(
            topic=GROUPS_TOPIC,
            partition_count=lambda: 1,
            hosted=lambda: [partition],
            new_shard=self._new_shard,
            kinds=kinds_of(group_records),
            clock=self._clock,
            slices=self.slices,
            write_timeout_ms=60_000,
            flush=lambda _partition: None,
            run_effect=lambda _index, _effect: None,
        )
        self._coordinator.update_leadership()

    def _new_shard(self, index: int) -> GroupShard:
        return GroupShard(
            index=index, image=self._image, clock=self._clock, random=HostRandom(), settings=self._settings
        )

    def heartbeat(
        self, member_id: str, epoch: int, answered: Callable[[ConsumerGroupHeartbeatResponse], None]
    ) -> None:
        """A member joins (epoch 0), sends a heartbeat, or leaves (epoch -1)."""
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names = self._names
            request.server_assignor = self._assignor
            request.topic_partitions = []
        pending = PendingResponse(self.rejected.append)
        pending.on_completed = lambda: answered(pending.response) if pending.response is not None else None
        self._coordinator.ask(
            0, lambda shard, pending: shard.consumer.heartbeat(request, CALLER, pending), pending
        )

    async def settle(self, member_id: str, epoch: int) -> int:
        """Send a heartbeat and run the loop until the response; return the member's epoch."""
        answers: list[ConsumerGroupHeartbeatResponse] = []
        self.heartbeat(member_id, epoch, answers.append)
        while not answers and not self.rejected:
            await asyncio.sleep(0)
        if self.rejected:
            raise self.rejected[0]
        return answers[0].member_epoch

    def close(self) -> None:
        self._coordinator.close()


def _partition(directory: Path, clock: HostClock) -> Partition:
    place = str(directory / f"{GROUPS_TOPIC}-0")
    config = LogConfig.from_texts({})
    log = Log.open(HostDisk(), clock, place, config, topic=GROUPS_TOPIC, partition=0, topic_id=_ID)
    partition = Partition(GROUPS_TOPIC, _ID, 0, log)
    partition.is_leader = True
    partition.leader_id = 1
    partition.isr = [1]
    partition.advance(log.log_end_offset)
    return partition
