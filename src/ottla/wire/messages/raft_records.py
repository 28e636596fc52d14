# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
from __future__ import annotations

from ottla.wire.message import FRESH, Message, Struct
from ottla.wire.uuid import ZERO


class QuorumStateData(Message):
    __slots__ = ("cluster_id", "leader_id", "leader_epoch", "voted_id", "voted_directory_id", "applied_offset", "current_voters")

    NAME = "QuorumStateData"
    KIND = "data"
    API_KEY = None
    VERSIONS = range(0, 2)
    FLEXIBLE_FROM = 0
    SCHEMA = """\
QuorumStateData data versions=0-1 flexible=0+
    cluster_id string 0
    leader_id int32 0+ default=-1
    leader_epoch int32 0+ default=-1
    voted_id int32 0+ default=-1
    voted_directory_id uuid 1+
    applied_offset int64 0
    current_voters []Voter 0 nullable=0
        voter_id int32 0
"""

    class Voter(Struct):
        __slots__ = ("voter_id",)

        def __init__(
            self,
            *,
            voter_id: int = 0,
            unknown_tagged_fields: dict[int, bytes] | None = None,
        ) -> None:
            self.voter_id: int = voter_id
            self.unknown_tagged_fields = unknown_tagged_fields

    def __init__(
        self,
        *,
        cluster_id: str = "",
        leader_id: int = -1,
        leader_epoch: int = -1,
        voted_id: int = -1,
        voted_directory_id: bytes = ZERO,
        applied_offset: int = 0,
        current_voters: list[QuorumStateData.Voter] | None = FRESH,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.cluster_id: str = cluster_id
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.voted_id: int = voted_id
        self.voted_directory_id: bytes = voted_directory_id
        self.applied_offset: int = applied_offset
        self.current_voters: list[QuorumStateData.Voter] | None = [] if current_voters is FRESH else current_voters
        self.unknown_tagged_fields = unknown_tagged_fields
