"""Proposes ISR changes to the controller for all partitions that this node leads.

One request is in flight at a time, with everything proposed since the last one. Rule: a proposal is sent
until the controller has answered it, or its partition no longer needs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ottla.replication.leader import AcceptedChange, Proposal
from ottla.wire.errors import ErrorCode, KafkaError, for_code
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

RETRY_SECONDS = 0.05
PARTITIONS_MAX = 2000

logger = logging.getLogger("ottla.replication.isr")

Key = tuple[bytes, int]
Ask = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]

_RECOVERED = 0


class Proposer(Protocol):
    """A partition that receives the result of its proposal."""

    def is_proposing(self, proposal: Proposal) -> bool:
        """Whether a response to this proposal is still needed."""

    def isr_change_accepted(self, proposal: Proposal, answer: AcceptedChange) -> None: ...

    def isr_change_rejected(self, proposal: Proposal, code: ErrorCode) -> bool:
        """Return whether to send it again."""


class IsrChanges:
    """The pending proposals, and the loop that sends them."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], ask: Ask) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._proposals: dict[Key, tuple[Proposer, Proposal]] = {}
        self._news = asyncio.Event()

    def submit(self, key: Key, proposer: Proposer, proposal: Proposal) -> None:
        """Propose a change; it replaces an older proposal of the same partition."""
        self._proposals[key] = (proposer, proposal)
        self._news.set()

    async def run(self) -> None:
        """Send proposals until cancelled."""
        while True:
            await self._news.wait()
            batch = self._batch()
            if not batch:
                self._news.clear()
                continue
            if self._broker_epoch() < 0 or not await self._exchange(batch):
                await asyncio.sleep(RETRY_SECONDS)

    def _batch(self) -> dict[Key, tuple[Proposer, Proposal]]:
        """The proposals to send now, without the outdated ones."""
        for key, (proposer, proposal) in list(self._proposals.items()):
            if not proposer.is_proposing(proposal):
                del self._proposals[key]
        return dict(list(self._proposals.items())[:PARTITIONS_MAX])

    async def _exchange(self, batch: dict[Key, tuple[Proposer, Proposal]]) -> bool:
        """Send the batch and pass on the results; return False if some proposals must be sent again."""
        try:
            response = await self._ask(self._request(batch))
        except KafkaError as error:
            logger.warning("The controller did not answer ISR changes, will retry: %s", error)
            return False
        if response.error_code:
            code = for_code(response.error_code).code
            logger.warning("The controller rejected ISR changes, will retry: %s", code.name)
            return False
        all_done = True
        for topic in response.topics:
            for one in topic.partitions:
                key = (topic.topic_id, one.partition_index)
                sent = batch.pop(key, None)
                if sent is not None:
                    all_done &= self._hand_out(key, *sent, one)
        return all_done and not batch

    def _hand_out(
        self,
        key: Key,
        proposer: Proposer,
        proposal: Proposal,
        answer: AlterPartitionResponse.PartitionData,
    ) -> bool:
        if not answer.error_code:
            self._forget(key, proposal)
            proposer.isr_change_accepted(
                proposal, AcceptedChange(answer.leader_epoch, answer.partition_epoch, tuple(answer.isr))
            )
            return True
        code = for_code(answer.error_code).code
        if proposer.isr_change_rejected(proposal, code):
            logger.warning("An ISR change failed with %s, will retry", code.name)
            return False
        self._forget(key, proposal)
        return True

    def _forget(self, key: Key, proposal: Proposal) -> None:
        known = self._proposals.get(key)
        if known is not None and known[1] is proposal:
            del self._proposals[key]

    def _request(self, batch: dict[Key, tuple[Proposer, Proposal]]) -> AlterPartitionRequest:
        topics: dict[bytes, list[AlterPartitionRequest.PartitionData]] = {}
        for (topic_id, index), (_, proposal) in batch.items():
            topics.setdefault(topic_id, []).append(
                AlterPartitionRequest.PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        AlterPartitionRequest.BrokerState(broker_id=broker_id, broker_epoch=epoch)
                        for broker_id, epoch in proposal.isr
                    ],
                    leader_recovery_state=_RECOVERED,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=[
                AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
