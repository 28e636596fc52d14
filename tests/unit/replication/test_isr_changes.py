"""Proposals to the controller: batched, and retried until they are answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from ottla.replication.isr_changes import IsrChanges
from ottla.replication.leader import AcceptedChange, Proposal
from ottla.wire.errors import ErrorCode, RequestTimedOut
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

TOPIC = b"t" * 16


class Proposer:
    def __init__(self, *, tries: int = 1) -> None:
        self.pending: Proposal | None = None
        self.heard: list[AcceptedChange | ErrorCode] = []
        self._tries = tries

    def is_proposing(self, proposal: Proposal) -> bool:
        return self.pending is proposal

    def isr_change_accepted(self, proposal: Proposal, answer: AcceptedChange) -> None:
        self.heard.append(answer)
        self.pending = None

    def isr_change_rejected(self, proposal: Proposal, code: ErrorCode) -> bool:
        self.heard.append(code)
        return len(self.heard) < self._tries


def answer_all(request: AlterPartitionRequest, code: int = 0) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponse.TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    AlterPartitionResponse.PartitionData(
                        partition_index=one.partition_index,
                        error_code=code,
                        leader_epoch=one.leader_epoch,
                        partition_epoch=one.partition_epoch + 1,
                        isr=[state.broker_id for state in one.new_isr_with_epochs],
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def run(
    answer: Callable[[AlterPartitionRequest], Any], proposers: list[Proposer], until: Callable[[], bool]
) -> list[AlterPartitionRequest]:
    """Submit a proposal of each, and run until a condition holds."""
    requests: list[AlterPartitionRequest] = []

    async def ask(request: AlterPartitionRequest) -> AlterPartitionResponse:
        requests.append(request)
        found: AlterPartitionResponse = answer(request)
        return found

    async def main() -> None:
        changes = IsrChanges(1, lambda: 10, ask)
        for index, proposer in enumerate(proposers):
            proposer.pending = Proposal(((1, 10), (2, -1)), leader_epoch=4, partition_epoch=7)
            changes.submit((TOPIC, index), proposer, proposer.pending)
        task = asyncio.ensure_future(changes.run())
        async with asyncio.timeout(10):
            while not until():
                await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    return requests


def test_concurrent_proposals_share_a_request() -> None:
    proposers = [Proposer(), Proposer()]
    requests = run(answer_all, proposers, lambda: all(one.heard for one in proposers))
    assert [one.heard for one in proposers] == [[AcceptedChange(4, 8, (1, 2))]] * 2
    (request,) = requests
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    assert [one.partition_index for one in request.topics[0].partitions] == [0, 1]


def test_a_failed_request_to_the_controller_is_retried() -> None:
    answers: list[Any] = [RequestTimedOut("away"), ErrorCode.STALE_BROKER_EPOCH, None]

    def answer(request: AlterPartitionRequest) -> AlterPartitionResponse:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return AlterPartitionResponse(error_code=found) if found else answer_all(request)

    proposer = Proposer()
    requests = run(answer, [proposer], lambda: bool(proposer.heard))
    assert len(requests) == 3
    assert proposer.heard == [AcceptedChange(4, 8, (1, 2))]


def test_a_rejected_proposal_is_retried_if_its_partition_requests_it() -> None:
    proposer = Proposer(tries=3)
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    requests = run(lambda request: answer_all(request, code), [proposer], lambda: len(proposer.heard) == 3)
    assert len(requests) == 3
    assert proposer.heard == [code] * 3


def test_an_outdated_proposal_is_not_retried() -> None:
    overtaken, other = Proposer(), Proposer()

    def answer(request: AlterPartitionRequest) -> AlterPartitionResponse:
        if overtaken.pending is not None:
            overtaken.pending = None
            raise RequestTimedOut("away")
        return answer_all(request)

    requests = run(answer, [overtaken, other], lambda: bool(other.heard))
    assert [one.partition_index for one in requests[-1].topics[0].partitions] == [1]
    assert overtaken.heard == []
