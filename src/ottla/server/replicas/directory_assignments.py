"""Reports to the controller the log directory of each replica that it does not know yet.

The controller needs it to elect another leader when a directory fails. Rule: an assignment is reported until
the controller has accepted or permanently rejected it; a newer one for a partition replaces it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ottla.server.parts import HasNodeId, HasQuorum
from ottla.wire.errors import KafkaError, for_code
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

ASSIGNMENTS_MAX = 2000
RETRY_SECONDS = 0.5
ASK_TIMEOUT_MS = 30_000

logger = logging.getLogger("ottla.server.replicas.directory_assignments")

Replica = tuple[bytes, int]  # topic id, partition


class Parts(HasNodeId, HasQuorum, Protocol):
    """The parts of a node that `DirectoryAssignments` uses."""


class DirectoryAssignments:
    """The pending assignments, and the loop that reports them."""

    def __init__(self, parts: Parts, broker_epoch: Callable[[], int]) -> None:
        self._parts = parts
        self._broker_epoch = broker_epoch
        self._untold: dict[Replica, bytes] = {}
        self._news = asyncio.Event()

    def submit(self, topic_id: bytes, index: int, directory_id: bytes) -> None:
        """Report that the replica is now in this directory."""
        self._untold[topic_id, index] = directory_id
        self._news.set()

    async def run(self) -> None:
        """Send pending assignments until cancelled."""
        while True:
            await self._news.wait()
            if self._broker_epoch() < 0:
                await asyncio.sleep(RETRY_SECONDS)  # not registered yet: the controller would reject it
                continue
            batch = dict(list(self._untold.items())[:ASSIGNMENTS_MAX])
            try:
                response = await self._parts.quorum.ask(self._request(batch), timeout_ms=ASK_TIMEOUT_MS)
                if response.error_code:
                    raise for_code(response.error_code)("it was rejected")
            except KafkaError as error:
                logger.warning("Failed to assign %d replicas to their log directories: %s", len(batch), error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._take(batch, response)

    def _request(self, batch: dict[Replica, bytes]) -> AssignReplicasToDirsRequest:
        by_directory: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory_id in batch.items():
            by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        of = AssignReplicasToDirsRequest
        return of(
            broker_id=self._parts.node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                of.DirectoryData(
                    id=directory_id,
                    topics=[
                        of.TopicData(
                            topic_id=topic_id,
                            partitions=[of.PartitionData(partition_index=index) for index in indexes],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in by_directory.items()
            ],
        )

    def _take(self, batch: dict[Replica, bytes], response: AssignReplicasToDirsResponse) -> None:
        for directory in response.directories:
            for topic in directory.topics:
                for one in topic.partitions:
                    if one.error_code and for_code(one.error_code).retriable:
                        batch.pop((topic.topic_id, one.partition_index), None)
        for replica, directory_id in batch.items():
            if self._untold.get(replica) == directory_id:
                del self._untold[replica]
        if not self._untold:
            self._news.clear()
