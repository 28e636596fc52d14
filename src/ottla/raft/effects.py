"""The effects that a replica decides on. They are carried out in their order, each before the next begins.

Raft is safe because of that order: an election is on disk before anyone acts on it or hears of it. The one
exception is `LeadershipLost`, which changes memory alone and is carried out before anything else happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.election_state import ElectionState
from ottla.raft.messages import Request, Response
from ottla.raft.voters import VoterSet


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Write the quorum-state file; the next effect waits until it is on stable storage."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class StartEpoch:
    """This replica leads: the leader epoch `epoch` starts at the end of the log, with these control records.

    `voters` and `kraft_version` are set if the log must contain them.
    """

    epoch: int
    leader_id: int
    voter_ids: tuple[int, ...]
    granting_ids: tuple[int, ...]
    kraft_version: int | None = None
    voters: VoterSet | None = None


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader that this replica knows; -1 if it knows none."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Everything below `offset` is committed."""

    offset: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """This replica no longer leads `epoch`: records that are not in its log yet must not enter it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request and return its response (`events.ResponseReceived`). The replica retries lost ones."""

    replica_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class SendResponse:
    """Respond to the request of `events.RequestReceived`. It is the last effect of that event."""

    response: Response


Effect: TypeAlias = (
    PersistElection
    | StartEpoch
    | LeaderChanged
    | HighWatermarkAdvanced
    | LeadershipLost
    | SendRequest
    | SendResponse
)

Ask = SendRequest  # the name that server/metadata uses
