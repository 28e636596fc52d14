"""Requests of this replica to the other voters: Vote, BeginQuorumEpoch, EndQuorumEpoch, UpdateRaftVoter.

A request without a response is dropped: the replica sends another if it still matters. Rule: each voter has
at most one request of a kind in flight, and a newer one replaces it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ottla.config import BrokerConfig
from ottla.ports import Network
from ottla.raft.driver import Driver
from ottla.raft.effects import Ask
from ottla.raft.messages import Answer, BeginEpoch, EndEpoch, Request, UpdateVoter, Vote
from ottla.raft.metadata_log import TOPIC
from ottla.raft.voters import Voter
from ottla.server.peers.channel import Channel
from ottla.server.peers.controller_channel import Address
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode, KafkaError, MalformedMessage, UnsupportedVersion
from ottla.wire.message import Message
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ottla.wire.messages.vote import VoteRequest

logger = logging.getLogger("ottla.server.metadata.quorum_peers")

PRE_VOTE_VERSION = 2


class QuorumPeers:
    """The connections to other voters, opened on demand."""

    def __init__(
        self,
        network: Network,
        config: BrokerConfig,
        driver: Driver[Message],
        cluster_id: str,
        find: Callable[[int], Address | None],
        learn: Callable[[int, Address], None],
    ) -> None:
        """`find` returns the address of a node, `learn` gets the leader's address from responses."""
        self._network = network
        self._config = config
        self._driver = driver
        self._cluster_id = cluster_id
        self._find = find
        self._learn = learn
        self._channels: dict[int, tuple[Address, Channel]] = {}
        self._tasks: dict[tuple[int, type[Request]], tuple[Request, asyncio.Task[None]]] = {}
        self.unreachable: set[int] = set()  # voters to whom the last connection could not be made

    def ask(self, ask: Ask) -> None:
        """Send a request; its response goes to the driver."""
        key = (ask.replica_id, type(ask.request))
        under_way = self._tasks.get(key)
        if under_way is not None and not under_way[1].done():
            if under_way[0] == ask.request:
                return
            under_way[1].cancel()
        self._tasks[key] = ask.request, asyncio.ensure_future(self._exchange(ask.replica_id, ask.request))

    async def close(self) -> None:
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for replica_id in list(self._channels):
            self._drop(replica_id)

    async def _exchange(self, replica_id: int, request: Request) -> None:
        address = self._find(replica_id)
        if address is None:
            return
        timeout_s = max(self._config.int_of("controller.quorum.request.timeout.ms"), 1) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                channel = await self._open(replica_id, address)
                answer = await self._ask(channel, request)
        except (OSError, TimeoutError, KafkaError, MalformedMessage) as error:
            logger.debug("%s request to controller %d failed: %s", type(request).__name__, replica_id, error)
            self._drop(replica_id)
            return
        if answer is not None:
            self._driver.take_answer(replica_id, request, answer)

    async def _open(self, replica_id: int, address: Address) -> Channel:
        known = self._channels.get(replica_id)
        if known is not None and known[0] == address and not known[1].is_closed:
            return known[1]
        self._drop(replica_id)
        client_id = f"raft-client-{self._config.node_id}"
        try:
            channel = await Channel.open(self._network, *address, client_id=client_id)
        except OSError:
            self.unreachable.add(replica_id)
            raise
        self.unreachable.discard(replica_id)
        self._channels[replica_id] = address, channel
        return channel

    def _drop(self, replica_id: int) -> None:
        known = self._channels.pop(replica_id, None)
        if known is not None:
            known[1].close()

    async def _ask(self, channel: Channel, request: Request) -> Answer | None:
        message = self._message(request)
        assert message.API_KEY is not None
        try:
            version = channel.version_for(message.API_KEY)
        except UnsupportedVersion:
            version = -1
        if version < (PRE_VOTE_VERSION if isinstance(request, Vote) and request.is_pre_vote else 0):
            return Answer(ErrorCode.UNSUPPORTED_VERSION, -1, -1)
        response = await channel.ask(message, version=version)
        return self._answer(response)

    # Messages

    def _message(self, request: Request) -> Message:
        if isinstance(request, Vote):
            receiver = request.receiver
            vote = VoteRequest.PartitionData(
                partition_index=0,
                replica_epoch=request.epoch,
                replica_id=request.candidate.id,
                replica_directory_id=request.candidate.directory_id,
                voter_directory_id=uuid.ZERO if receiver is None else receiver.directory_id,
                last_offset_epoch=request.last_epoch,
                last_offset=request.last_offset,
                pre_vote=request.is_pre_vote,
            )
            return VoteRequest(
                cluster_id=self._cluster_id,
                voter_id=-1 if receiver is None else receiver.id,
                topics=[VoteRequest.TopicData(topic_name=TOPIC, partitions=[vote])],
            )
        if isinstance(request, BeginEpoch):
            return self._begin_epoch(request)
        if isinstance(request, EndEpoch):
            return self._end_epoch(request)
        return self._update_voter(request)

    @property
    def _local(self) -> Voter:
        return self._driver.replica.local

    def _begin_epoch(self, request: BeginEpoch) -> Message:
        receiver = request.receiver
        begin = BeginQuorumEpochRequest.PartitionData(
            partition_index=0,
            voter_directory_id=uuid.ZERO if receiver is None else receiver.directory_id,
            leader_id=request.leader_id,
            leader_epoch=request.epoch,
        )
        return BeginQuorumEpochRequest(
            cluster_id=self._cluster_id,
            voter_id=-1 if receiver is None else receiver.id,
            topics=[BeginQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[begin])],
            leader_endpoints=[
                BeginQuorumEpochRequest.LeaderEndpoint(name=e.name, host=e.host, port=e.port)
                for e in self._local.endpoints
            ],
        )

    def _end_epoch(self, request: EndEpoch) -> Message:
        end = EndQuorumEpochRequest.PartitionData(
            partition_index=0,
            leader_id=request.leader_id,
            leader_epoch=request.epoch,
            preferred_successors=[key.id for key in request.successors],
            preferred_candidates=[
                EndQuorumEpochRequest.ReplicaInfo(
                    candidate_id=key.id, candidate_directory_id=key.directory_id
                )
                for key in request.successors
            ],
        )
        return EndQuorumEpochRequest(
            cluster_id=self._cluster_id,
            topics=[EndQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[end])],
            leader_endpoints=[
                EndQuorumEpochRequest.LeaderEndpoint(name=e.name, host=e.host, port=e.port)
                for e in self._local.endpoints
            ],
        )

    def _update_voter(self, request: UpdateVoter) -> Message:
        voter = request.voter
        return UpdateRaftVoterRequest(
            cluster_id=self._cluster_id,
            current_leader_epoch=request.epoch,
            voter_id=voter.key.id,
            voter_directory_id=voter.key.directory_id,
            listeners=[
                UpdateRaftVoterRequest.Listener(name=e.name, host=e.host, port=e.port)
                for e in voter.endpoints
            ],
            k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(
                min_supported_version=voter.kraft_versions[0], max_supported_version=voter.kraft_versions[1]
            ),
        )

    def _answer(self, response: Any) -> Answer | None:
        if isinstance(response, UpdateRaftVoterResponse):
            leader = response.current_leader
            if leader.leader_id >= 0 and leader.host:
                self._learn(leader.leader_id, (leader.host, leader.port))
            return Answer(_code(response.error_code), leader.leader_id, leader.leader_epoch)
        for node in response.node_endpoints:
            self._learn(node.node_id, (node.host, node.port))
        if response.error_code:
            logger.warning("A controller answered %s to %s", _code(response.error_code).name, response.NAME)
            return None
        if not response.topics or not response.topics[0].partitions:
            return None
        part = response.topics[0].partitions[0]
        is_granted = bool(getattr(part, "vote_granted", False))
        return Answer(_code(part.error_code), part.leader_id, part.leader_epoch, is_granted)


def _code(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
