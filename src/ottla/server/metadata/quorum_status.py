"""DescribeQuorum: the state of the quorum as its leader sees it, in wall-clock time."""

from __future__ import annotations

from collections.abc import Generator

from ottla.ports import Clock
from ottla.raft.metadata_log import TOPIC
from ottla.raft.replica import Replica
from ottla.raft.roles import Leader, Progress
from ottla.raft.voters import ReplicaKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def describe(
    request: DescribeQuorumRequest, replica: Replica, *, is_active: bool, clock: Clock
) -> DescribeQuorumResponse:
    """The state of the quorum as its leader sees it."""
    if not is_about_quorum(request):
        return DescribeQuorumResponse()
    role = replica.role
    partition = DescribeQuorumResponse.PartitionData(partition_index=0)
    response = DescribeQuorumResponse()
    response.topics.append(DescribeQuorumResponse.TopicData(topic_name=TOPIC, partitions=[partition]))
    if not isinstance(role, Leader) or not is_active:
        partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.error_message = "This node is not the leader of the metadata log."
        return response
    voters = replica.voters.last
    partition.leader_id, partition.leader_epoch = role.leader_id, role.epoch
    partition.high_watermark = role.high_watermark
    now_ms = clock.now_ms()
    ahead_ms = now_ms - int(clock.monotonic() * 1000)  # of the clock that progress is kept by
    partition.observers = [
        _replica_state(key, progress, ahead_ms) for key, progress in role.observers.items()
    ]
    for voter in voters:
        state = _replica_state(voter.key, role.progress[voter.key.id], ahead_ms)
        if voter.key.id == replica.local.key.id:
            state.last_fetch_timestamp = state.last_caught_up_timestamp = now_ms
        partition.current_voters.append(state)
        endpoints = [
            DescribeQuorumResponse.Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
        ]
        response.nodes.append(DescribeQuorumResponse.Node(node_id=voter.key.id, listeners=endpoints))
    return response


def _replica_state(key: ReplicaKey, progress: Progress, ahead_ms: int) -> DescribeQuorumResponse.ReplicaState:
    return DescribeQuorumResponse.ReplicaState(
        replica_id=key.id,
        replica_directory_id=key.directory_id,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=progress.last_fetch_ms + ahead_ms if progress.last_fetch_ms >= 0 else -1,
        last_caught_up_timestamp=(
            progress.last_caught_up_ms + ahead_ms if progress.last_caught_up_ms >= 0 else -1
        ),
    )


def is_about_quorum(request: DescribeQuorumRequest) -> bool:
    """Whether a request names only the metadata log: nothing else has a quorum."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    topic = request.topics[0]
    return topic.topic_name == TOPIC and topic.partitions[0].partition_index == 0


def unknown_partitions(request: DescribeQuorumRequest) -> Generator[None, None, DescribeQuorumResponse]:
    """The response to a request that names something else."""
    response = DescribeQuorumResponse()
    for topic in request.topics:
        found = DescribeQuorumResponse.TopicData(topic_name=topic.topic_name)
        response.topics.append(found)
        for partition in topic.partitions:
            found.partitions.append(
                DescribeQuorumResponse.PartitionData(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=f"Only {TOPIC}-0 has a quorum.",
                )
            )
            yield
        yield
    return response
