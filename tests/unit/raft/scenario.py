"""Scenarios of one replica: the test plays the other replicas, the disk and the clock."""

from __future__ import annotations

from ottla.raft.effects import Effect, SendRequest, SendResponse, StartEpoch
from ottla.raft.election_state import ElectionState
from ottla.raft.events import (
    Event,
    KraftVersionAppended,
    LogAppended,
    LogFlushed,
    ReplicaFetched,
    RequestReceived,
    ResponseReceived,
    TimePassed,
    VotersAppended,
)
from ottla.raft.messages import Request, Response, Vote
from ottla.raft.replica import Replica, Timeouts
from ottla.raft.roles import Leader, Role
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire.errors import ErrorCode

VOTER_IDS = (1, 2, 3)
KEYS = {node_id: ReplicaKey(node_id, bytes([node_id]) * 16) for node_id in range(1, 10)}
VOTERS = {key.id: Voter(key, (VoterEndpoint("C", f"host-{key.id}", 1),)) for key in KEYS.values()}


class Scenario:
    """Replica 1 of a quorum, with an election timeout of 1,000 ms and a fetch timeout of 2,000 ms.

    `now_ms` is the time of every event, and `effects` are those of the last one.
    """

    def __init__(
        self,
        *voter_ids: int,
        election: ElectionState | None = None,
        end: tuple[int, int] = (0, 0),
        log_voters: tuple[int, VoterSet] | None = None,
    ) -> None:
        """`end`: offset and epoch; `log_voters`: an offset of the log, and the voters that it names there."""
        static = VoterSet.static({voter_id: ("localhost", voter_id) for voter_id in voter_ids}, "C")
        self.replica = Replica(VOTERS[1], static, timeouts=Timeouts(1000, 2000), draw=lambda bound: 0)
        self.now_ms = 0
        self._requests: dict[int, Request] = {}
        if log_voters is not None:
            self.step(KraftVersionAppended(log_voters[0], 1))
            self.step(VotersAppended(*log_voters))
        self.effects = self._record(self.replica.start(election or ElectionState(), *end, self.now_ms))

    # Events

    def step(self, event: Event) -> list[Effect]:
        self.effects = self._record(self.replica.step(event))
        return self.effects

    def wait_until(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.step(TimePassed(now_ms))

    def receive(self, request: Request) -> Response:
        """Another replica sends a request. `effects` are those before the response."""
        *self.effects, sent = self.step(RequestReceived(request, self.now_ms))
        assert isinstance(sent, SendResponse)
        return sent.response

    def respond(self, replica_id: int, response: Response) -> None:
        """Another replica responds to the request that it was sent last."""
        self.step(ResponseReceived(replica_id, self._requests[replica_id], response, self.now_ms))

    def grant(self, voter_id: int) -> None:
        request = self._requests[voter_id]
        self.respond(voter_id, Response(ErrorCode.NONE, -1, request.epoch, is_granted=True))

    def reject(self, voter_id: int) -> None:
        request = self._requests[voter_id]
        self.respond(voter_id, Response(ErrorCode.NONE, -1, request.epoch, is_granted=False))

    def fetch(self, key: ReplicaKey | int, offset: int) -> None:
        """Another replica fetches from `offset`."""
        self.step(ReplicaFetched(KEYS[key] if isinstance(key, int) else key, offset, self.now_ms))

    def append(self, end_offset: int) -> None:
        self.step(LogAppended(end_offset, self.replica.epoch))

    def flush(self, end_offset: int) -> None:
        self.step(LogFlushed(end_offset, self.replica.epoch, self.now_ms))

    # State

    def role(self) -> type[Role]:
        """A method, so that type checkers expect another role after each step."""
        return type(self.replica.role)

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def leader(self) -> Leader:
        role = self.replica.role
        assert isinstance(role, Leader)
        return role

    @property
    def sent(self) -> list[tuple[int, Request]]:
        """The requests among the effects, by receiver."""
        return [(one.replica_id, one.request) for one in self.effects if isinstance(one, SendRequest)]

    @property
    def epoch_start(self) -> StartEpoch:
        (start,) = [effect for effect in self.effects if isinstance(effect, StartEpoch)]
        return start

    def _record(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, SendRequest):
                self._requests[effect.replica_id] = effect.request
        return effects


def voter(election: ElectionState | None = None, *, is_dynamic: bool = False) -> Scenario:
    """One of three voters, by default in epoch 4 with a log of 10 records that ends in epoch 4."""
    election = election or ElectionState(4)
    if is_dynamic:
        voters = VoterSet(VOTERS[voter_id] for voter_id in VOTER_IDS)
        return Scenario(election=election, end=(10, 4), log_voters=(0, voters))
    return Scenario(*VOTER_IDS, election=election, end=(10, 4))


def elected_leader() -> Scenario:
    """Voter 1 has been elected in epoch 5 at 1,000 ms, with the vote of voter 2."""
    scenario = voter()
    scenario.wait_until(1000)
    scenario.grant(2)
    scenario.grant(2)
    return scenario


def leader(*, is_dynamic: bool = False) -> Scenario:
    """Voter 1 leads epoch 5 since 1,000 ms, and the first record of its epoch, at offset 10, is committed."""
    scenario = voter(is_dynamic=is_dynamic)
    scenario.wait_until(1000)
    scenario.grant(2)
    scenario.grant(2)
    scenario.append(11)
    scenario.flush(11)
    scenario.fetch(2, 11)
    assert scenario.role() is Leader
    assert scenario.replica.high_watermark == 11
    return scenario


def vote(
    candidate: int = 2, epoch: int = 5, *, last: tuple[int, int] = (4, 10), is_pre_vote: bool = False
) -> Vote:
    """A request for a vote, by default from voter 2 for epoch 5; `last`: epoch and offset of its log."""
    return Vote(epoch, KEYS[candidate], *last, is_pre_vote)
