"""The `quorum-state` file: the epoch of this replica, and whom it follows or voted for.

It guarantees that an epoch has one leader: a vote is on disk before anyone learns of it. The file is one line
of JSON, in version 0 for a static quorum (kraft.version 0) and 1 for a dynamic one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.raft.voters import ReplicaKey
from ottla.wire import uuid

FILE_NAME = "quorum-state"
NOBODY = -1
EPOCH_MAX = 2**31 - 1
"""Epochs are 32-bit numbers on the wire and on disk. After the last one no election is possible."""
EPOCH_JUMP_MAX = 1 << 20
"""A replica rejects requests whose epoch is ahead of its own by more. A voter that was partitioned for a week
is ahead by less. A replica that is further behind takes the epoch from responses to its own requests."""


class ElectionFileDamaged(ValueError):
    """The quorum-state file is damaged. To treat it as missing could grant a second vote in an epoch."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a restart of this replica."""

    epoch: int = 0
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None


def to_json(election: ElectionState, kraft_version: int, voter_ids: Sequence[int]) -> bytes:
    """The content of the file."""
    if not 0 <= election.epoch <= EPOCH_MAX:
        raise ValueError(f"Epoch {election.epoch} is out of range.")
    voted_id = NOBODY if election.voted is None else election.voted.id
    if kraft_version == 0:
        fields: dict[str, object] = {
            "clusterId": "",
            "leaderId": election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
            "data_version": 0,
        }
    else:
        directory_id = uuid.ZERO if election.voted is None else election.voted.directory_id
        fields = {
            "leaderId": election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid.to_text(directory_id),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def _number(fields: dict[str, object], name: str, lowest: int) -> int:
    number = fields.get(name)
    if type(number) is not int or not lowest <= number <= EPOCH_MAX:
        raise ValueError(f"{name} is not a number from {lowest} to {EPOCH_MAX}")
    return number


def from_json(content: bytes, path: str) -> ElectionState:
    """Parse the content of the file."""
    try:
        fields = json.loads(content)
        if not isinstance(fields, dict):
            raise ValueError("it is not a JSON object")
        version = _number(fields, "data_version", 0)
        if version > 1:
            raise ElectionFileDamaged(
                f"{path} has data_version {version}, but only 0 and 1 are supported. Use a newer release."
            )
        epoch = _number(fields, "leaderEpoch", 0)
        leader_id = _number(fields, "leaderId", NOBODY)
        voted_id = _number(fields, "votedId", NOBODY)
        directory_id = uuid.ZERO
        if version == 1:
            directory_id = uuid.from_text(str(fields.get("votedDirectoryId")))
    except ElectionFileDamaged:
        raise
    except (ValueError, RecursionError) as error:
        raise ElectionFileDamaged(
            f"{path} is not a quorum-state file ({error}). Restore it from a backup; if this node has never "
            "voted with another one, you may delete it."
        ) from error
    voted = None if voted_id == NOBODY else ReplicaKey(voted_id, directory_id)
    return ElectionState(epoch, leader_id, voted)
