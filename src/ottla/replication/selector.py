"""Chooses the replica that a consumer should read from (`replica.selector.class`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.replication.leader import ReadableReplica

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER = "org.apache.kafka.common.replica.LeaderSelector"


def nearest_replica(
    client_rack: str, leader_id: int, readings: Sequence[ReadableReplica], racks: Mapping[int, str | None]
) -> int | None:
    """The follower with the largest offset in the client's rack; None for the leader, if it is in that rack
    or no follower is.

    `racks` has the replicas that the client can reach.
    """
    if not client_rack or racks.get(leader_id) == client_rack:
        return None
    near = [reading for reading in readings if racks.get(reading.broker_id) == client_rack]
    return max(near).broker_id if near else None
