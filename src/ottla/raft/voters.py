"""The voters: the controllers that elect a leader, and whose majority commits.

Static voters come from the configuration, without directory ids. Dynamic voters come from the log
(VotersRecord), and are identified by node id and directory id: with another disk, a node is another voter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla.wire import uuid
from ottla.wire.messages.protocol_data import VotersRecord

KRAFT_VERSIONS = (0, 1)
"""The first and last level of kraft.version that this version supports."""


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """A replica of the metadata log; `directory_id` is uuid.ZERO if it is not known."""

    id: int
    directory_id: bytes = uuid.ZERO

    def __str__(self) -> str:
        """As in Kafka's messages."""
        directory = "<undefined>" if self.directory_id == uuid.ZERO else uuid.to_text(self.directory_id)
        return f"ReplicaKey(id={self.id}, directoryId={directory})"

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both may be the same replica: an unknown directory matches every other."""
        if self.id != other.id:
            return False
        return uuid.ZERO in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """The address of a voter's controller listener."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS

    def supports(self, kraft_version: int) -> bool:
        return self.kraft_versions[0] <= kraft_version <= self.kraft_versions[1]


class VoterSet:
    """An immutable set of voters, at most one for each id."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters: dict[int, Voter] = {}
        for voter in voters:
            if voter.key.id in self._voters:
                raise ValueError(f"Node id {voter.key.id} was specified more than once.")
            self._voters[voter.key.id] = voter

    @classmethod
    def static(cls, addresses: Mapping[int, tuple[str, int] | None], listener: str) -> VoterSet:
        """The set of `controller.quorum.voters`: id -> (host, port), or None for an unknown address."""
        return cls(
            Voter(
                ReplicaKey(voter_id),
                () if address is None else (VoterEndpoint(listener, *address),),
                (0, 0),  # unknown until the voter reports it
            )
            for voter_id, address in sorted(addresses.items())
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls(
            Voter(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                tuple(VoterEndpoint(e.name, e.host, e.port) for e in voter.endpoints),
                (
                    voter.k_raft_version_feature.min_supported_version,
                    voter.k_raft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        VotersRecord.Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
                    ],
                    k_raft_version_feature=VotersRecord.KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0],
                        max_supported_version=voter.kraft_versions[1],
                    ),
                )
                for voter in self
            ],
        )

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    @property
    def keys_text(self) -> str:
        return ", ".join(str(voter.key) for voter in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(frozenset(self._voters.values()))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(map(str, self.ids))})"

    @property
    def ids(self) -> list[int]:
        return list(self._voters)

    @property
    def majority(self) -> int:
        """The number of voters that must agree."""
        return len(self._voters) // 2 + 1

    def get(self, voter_id: int) -> Voter | None:
        return self._voters.get(voter_id)

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.is_voter(key)

    def updated(self, voter: Voter) -> VoterSet:
        """With another description of a voter, which must be in the set."""
        if voter.key.id not in self._voters:
            raise ValueError(f"Node {voter.key.id} is not one of the voters {self.ids}.")
        return VoterSet({**self._voters, voter.key.id: voter}.values())

    def added(self, voter: Voter) -> VoterSet:
        """With a new voter, whose id must not be in the set."""
        return VoterSet(sorted([*self, voter], key=lambda one: one.key.id))

    def removed(self, key: ReplicaKey) -> VoterSet | None:
        """Without a voter; None if it is not in the set, or the only one."""
        voter = self._voters.get(key.id)
        if voter is None or voter.key != key or len(self._voters) == 1:
            return None
        return VoterSet(one for one in self if one.key != key)


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """Parse `--initial-controllers`: `id@host:port:directory-id`, separated by commas."""
    voters = [_parse_voter(part.strip(), listener) for part in text.strip().split(",") if part]
    if not voters:
        raise ValueError("No voters given.")
    return VoterSet(sorted(voters, key=lambda voter: voter.key.id))


def _parse_voter(text: str, listener: str) -> Voter:
    id_text, at, rest = text.partition("@")
    if not at:
        raise ValueError("No @ found in dynamic voter string.")
    if not id_text:
        raise ValueError("Invalid @ at beginning of dynamic voter string.")
    voter_id = _number(id_text, "Failed to parse node id in dynamic voter string.")
    if voter_id < 0:
        raise ValueError(f"Invalid negative node id {voter_id} in dynamic voter string.")
    if not rest:
        raise ValueError("No hostname found after node id.")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise ValueError("Hostname began with left bracket, but no right bracket was found.")
    else:
        host, colon, after = rest.partition(":")
        if not colon:
            raise ValueError("No colon following hostname could be found.")
        rest = colon + after
    if not rest.startswith(":"):
        raise ValueError("Port section must start with a colon.")
    port_text, colon, directory_text = rest[1:].partition(":")
    if not colon:
        raise ValueError("No colon following port could be found.")
    port = _number(port_text, "Failed to parse port in dynamic voter string.")
    if not 0 <= port <= 65535:
        raise ValueError(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = uuid.from_text(directory_text)
    except ValueError:
        raise ValueError("Failed to parse directory ID in dynamic voter string.") from None
    return Voter(ReplicaKey(voter_id, directory_id), (VoterEndpoint(listener, host, port),))


def _number(text: str, problem: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(problem) from None
