"""Fetch (1) on controller listeners, versions 4 to 18: brokers and controllers read the metadata log.

It serves only partition 0 of `__cluster_metadata`, by name or, from version 13, by id. The leader returns
records, including uncommitted ones, and its high watermark; or the epoch at which the logs diverge, or the
snapshot to load first. Without news it waits for `max_wait_ms`. Any other node, or a wrong epoch, gets an
error with the leader that this node knows; v17 adds its endpoints; v18 also wakes for a new high watermark.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from ottla.raft.fetch_validation import Position, judge_fetch
from ottla.raft.metadata_log import TOPIC, EpochEnd
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import ReplicaKey
from ottla.server.handlers.quorum_requests import is_of_this_cluster, leader_endpoints, replica_of
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasClusterId, HasQuorum
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

KEY = 1

_PartitionData = FetchResponse.PartitionData


class Parts(HasClusterId, HasQuorum, Protocol):
    """The parts of a node that a fetch of the metadata log needs."""


def handle(parts: Parts, request: FetchRequest, context: RequestContext) -> FetchResponse | PendingResponse:
    if not is_of_this_cluster(parts, request.cluster_id):
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    wanted = _wanted(request, context.version)
    if wanted is None:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    fetch = _Fetch(parts, request, wanted, context)
    if (
        request.max_wait_ms < 0
        or wanted.fetch_offset < 0
        or wanted.last_fetched_epoch < 0
        or wanted.last_fetched_epoch > wanted.current_leader_epoch
    ):
        return fetch.respond(_PartitionData(error_code=ErrorCode.INVALID_REQUEST))
    found = fetch.collect()
    if request.max_wait_ms == 0 or fetch.is_worth_telling(found):
        return fetch.respond(found)
    return fetch.wait()


def _wanted(request: FetchRequest, version: int) -> FetchRequest.FetchPartition | None:
    """The only partition that can be fetched here."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    is_known = topic.topic_id == uuid.METADATA_TOPIC_ID if version >= 13 else topic.topic == TOPIC
    wanted = topic.partitions[0]
    return wanted if is_known and wanted.partition == 0 else None


class _Fetch:
    """One fetch: collected once, or again when the log has grown."""

    __slots__ = ("_context", "_parts", "_pending", "_request", "_wanted")

    def __init__(
        self,
        parts: HasQuorum,
        request: FetchRequest,
        wanted: FetchRequest.FetchPartition,
        context: RequestContext,
    ) -> None:
        self._parts = parts
        self._request = request
        self._wanted = wanted
        self._context = context
        self._pending = PendingResponse()

    def collect(self) -> _PartitionData:
        """The response at this moment."""
        quorum, wanted = self._parts.quorum, self._wanted
        driver, replica = quorum.driver, quorum.driver.replica
        if not driver.journal.is_open:
            return _PartitionData(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
        position = Position(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.current_leader_epoch)
        verdict = judge_fetch(replica, driver.journal, position)
        data = _PartitionData(
            high_watermark=replica.high_watermark, log_start_offset=driver.journal.start_offset
        )
        if isinstance(verdict, ErrorCode):
            data.error_code, data.high_watermark = verdict, -1
        elif isinstance(verdict, EpochEnd):
            data.diverging_epoch = FetchResponse.EpochEndOffset(
                epoch=verdict.epoch, end_offset=verdict.end_offset
            )
        elif isinstance(verdict, SnapshotId):
            data.snapshot_id = FetchResponse.SnapshotId(end_offset=verdict.offset, epoch=verdict.epoch)
        else:
            try:
                read = driver.log.read(
                    wanted.fetch_offset, self._request.max_bytes, limit_offset=replica.end_offset
                )
            except OSError as error:
                driver.cannot_read(error)
                return _PartitionData(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
            data.records = memoryview(read.records)
            driver.fetched_by(self._replica_key(), wanted.fetch_offset)
            data.high_watermark = replica.high_watermark
        return data

    def _replica_key(self) -> ReplicaKey:
        request = self._request
        replica_id = request.replica_state.replica_id if self._context.version >= 15 else request.replica_id
        return ReplicaKey(replica_id, self._wanted.replica_directory_id)

    def is_worth_telling(self, data: _PartitionData) -> bool:
        return bool(
            data.error_code
            or data.records
            or data.diverging_epoch.epoch >= 0
            or data.snapshot_id.epoch >= 0
            or data.high_watermark > self._wanted.high_watermark
        )

    def wait(self) -> PendingResponse:
        """Answer when there is news, or at the deadline."""
        loop = asyncio.get_running_loop()
        self._pending.watch(self._parts.quorum.progress, self._try_again)
        self._pending.timer = loop.call_later(self._request.max_wait_ms / 1000, self._at_deadline)
        self._try_again()  # the fetch itself may have committed something, such as the end of this leader
        return self._pending

    def _try_again(self) -> bool:
        if self._pending.is_completed:
            return True
        found = self.collect()
        if not self.is_worth_telling(found):
            return False
        self._pending.complete(self.respond(found))
        return True

    def _at_deadline(self) -> None:
        self._pending.complete(self.respond(self.collect()))

    def respond(self, data: _PartitionData) -> FetchResponse:
        version, replica = self._context.version, replica_of(self._parts.quorum)
        if data.records is None:
            data.records = b""
        topic = FetchResponse.FetchableTopicResponse(partitions=[data])
        response = FetchResponse(responses=[topic])
        if version >= 12:
            data.current_leader = FetchResponse.LeaderIdAndEpoch(
                leader_id=replica.leader_id, leader_epoch=replica.epoch
            )
        if version >= 13:
            topic.topic_id = uuid.METADATA_TOPIC_ID
        else:
            topic.topic = TOPIC
        if version >= 17:
            response.node_endpoints = leader_endpoints(
                self._parts.quorum, self._context, FetchResponse.NodeEndpoint
            )
        return response


API = Api(KEY, handle)
