"""FetchSnapshot (59), versions 0 to 1, on controller listeners.

A replica that is too far behind loads a snapshot of the leader in chunks: `position` is the start of the
chunk, `size` the length of the snapshot. SNAPSHOT_NOT_FOUND if it has been deleted, POSITION_OUT_OF_RANGE
beyond its end. v1 contains the leader's endpoints and directory ids.
"""

from __future__ import annotations

from typing import Protocol

from ottla.raft.fetch_validation import refusal
from ottla.raft.metadata_log import TOPIC
from ottla.raft.snapshots import BOOTSTRAP_ID, SnapshotId
from ottla.raft.voters import ReplicaKey
from ottla.server.handlers.quorum_requests import is_of_this_cluster, leader_endpoints, replica_of
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasClusterId, HasDisk, HasQuorum
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

KEY = 59
PIECE_BYTES_MAX = 16 * 1024 * 1024

_Piece = FetchSnapshotResponse.PartitionSnapshot


class Parts(HasClusterId, HasQuorum, HasDisk, Protocol):
    """The parts of a node that FetchSnapshot needs."""


async def handle(
    parts: Parts, request: FetchSnapshotRequest, context: RequestContext
) -> FetchSnapshotResponse:
    if not is_of_this_cluster(parts, request.cluster_id):
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    topic = request.topics[0]
    wanted = topic.partitions[0]
    if topic.name != TOPIC or wanted.partition != 0:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        piece = _Piece(index=wanted.partition, error_code=error, unaligned_records=b"")
    else:
        asking = ReplicaKey(request.replica_id, wanted.replica_directory_id)
        piece = await _piece(parts, wanted, request.max_bytes, asking)
        replica = replica_of(parts.quorum)
        piece.current_leader = FetchSnapshotResponse.LeaderIdAndEpoch(
            leader_id=replica.leader_id, leader_epoch=replica.epoch
        )
    response = FetchSnapshotResponse(
        topics=[FetchSnapshotResponse.TopicSnapshot(name=topic.name, partitions=[piece])]
    )
    if context.version >= 1:
        response.node_endpoints = leader_endpoints(parts.quorum, context, FetchSnapshotResponse.NodeEndpoint)
    return response


async def _piece(
    parts: Parts, wanted: FetchSnapshotRequest.PartitionSnapshot, max_bytes: int, replica: ReplicaKey
) -> _Piece:
    driver = parts.quorum.driver
    snapshot_id = SnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch)
    piece = _Piece(
        snapshot_id=FetchSnapshotResponse.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        unaligned_records=b"",
    )
    refused = refusal(driver.replica, wanted.current_leader_epoch)
    if refused is not None:
        piece.error_code = refused
        return piece
    driver.contacted_by(replica)
    store = driver.journal.store
    kept = next((one for one in store.kept if one.id == snapshot_id), None)
    if kept is None or snapshot_id == BOOTSTRAP_ID:
        piece.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return piece
    if not 0 <= wanted.position < kept.size_bytes:
        piece.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        return piece
    count = max(min(max_bytes, PIECE_BYTES_MAX, kept.size_bytes - wanted.position), 1)
    try:
        data = await parts.disk.offload(store.read_piece, snapshot_id, wanted.position, count)
    except FileNotFoundError:
        piece.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return piece
    except OSError as error:
        driver.cannot_read(error)
        piece.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return piece
    piece.size, piece.position, piece.unaligned_records = kept.size_bytes, wanted.position, data
    return piece


API = Api(KEY, handle)
