"""The `quorum-state` file: which epoch this replica is in, whom it follows or voted for.

Raft's promise of one leader an epoch rests on it: it is on disk before anyone hears of a vote. The file is
one line of JSON, in version 0 for a static quorum (kraft.version 0) and 1 for a dynamic one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.raft.voters import ReplicaKey
from ottla.wire import uuid

FILE_NAME = "quorum-state"
NOBODY = -1


class ElectionFileDamaged(ValueError):
    """The quorum-state file cannot be read. It is not taken for missing: a vote could be given twice."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What must survive a restart of this replica."""

    epoch: int = 0
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None


def to_json(election: ElectionState, kraft_version: int, voter_ids: Sequence[int]) -> bytes:
    """The content of the file."""
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


def from_json(content: bytes, path: str) -> ElectionState:
    """The state that a file holds."""
    try:
        fields = json.loads(content)
        version = fields["data_version"]
        if version not in (0, 1):
            raise ElectionFileDamaged(f"{path} has data_version {version}; this version reads 0 and 1.")
        epoch, leader_id, voted_id = (fields[name] for name in ("leaderEpoch", "leaderId", "votedId"))
        if not all(isinstance(number, int) for number in (epoch, leader_id, voted_id)):
            raise TypeError("a number is expected")
        directory_id = uuid.from_text(fields["votedDirectoryId"]) if version == 1 else uuid.ZERO
    except ElectionFileDamaged:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise ElectionFileDamaged(
            f"{path} is not a quorum-state file ({error}). Restore it from a backup; if this node has never "
            "voted with another one, it may be removed."
        ) from error
    voted = None if voted_id == NOBODY else ReplicaKey(voted_id, directory_id)
    return ElectionState(epoch, leader_id, voted)
