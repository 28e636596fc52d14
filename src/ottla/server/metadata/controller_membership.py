"""This controller's registration with the active one, and its membership in the voters if
`controller.quorum.auto.join.enable` is set.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from ottla.config import BrokerConfig, Endpoint
from ottla.controller.brokers import register_controller
from ottla.controller.feature_levels import CONTROLLER_REGISTRATION_LEVEL, SUPPORTED_FEATURES
from ottla.controller.image import ClusterImage
from ottla.controller.result import Result
from ottla.controller.state import ControllerState
from ottla.raft.driver import Driver
from ottla.raft.election_state import NOBODY
from ottla.server.metadata.other_controllers import OtherControllers
from ottla.server.peers.controller_channel import ControllerIsHere
from ottla.wire.errors import KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

logger = logging.getLogger("ottla.server.metadata.controller_membership")

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
REGISTRATION_TIMEOUT_MS = 2_000


class AskController(Protocol):
    """Sends a request to the active controller, on this node or another."""

    async def __call__(self, request: Message, *, timeout_ms: int) -> Any: ...


class ControllerMembership:
    """See the module."""

    def __init__(
        self,
        driver: Driver[Message],
        config: BrokerConfig,
        *,
        cluster_id: str,
        incarnation_id: bytes,
        endpoints: Sequence[Endpoint],
    ) -> None:
        self._driver = driver
        self._config = config
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._endpoints = tuple(endpoints)

    def register_here(self, state: ControllerState) -> Result[ControllerRegistrationResponse | None]:
        """The decision that registers the active controller itself."""
        if self._is_registered(state.image):
            return Result(None)
        return register_controller(state, self._registration())

    async def register_with_leader(self, image: ClusterImage, ask: AskController) -> None:
        """Register with the active controller. `ask` sends it a request."""
        if self._is_registered(image):
            return
        try:
            await ask(self._registration(), timeout_ms=REGISTRATION_TIMEOUT_MS)
        except KafkaError as error:
            logger.info("Controller registration failed, will retry: %s", error)

    def _is_registered(self, image: ClusterImage) -> bool:
        """Whether the image contains the registration of this run, or cannot contain any."""
        if image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return True
        known = image.controllers.get(self._config.node_id)
        return known is not None and known.incarnation_id == self._incarnation_id

    def _registration(self) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=self._config.node_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                ControllerRegistrationRequest.Listener(
                    name=e.name, host=e.host, port=e.port, security_protocol=SECURITY_PROTOCOLS[e.protocol]
                )
                for e in self._endpoints
            ],
            features=[
                ControllerRegistrationRequest.Feature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
        )

    async def join_voters(self, others: OtherControllers) -> None:
        """Become a voter; a voter with our id and another disk must be removed first."""
        replica, kraft_version = self._driver.replica, self._driver.replica.kraft_version.last
        if replica.is_voter or not kraft_version:
            return
        if others.leader_id == NOBODY or not others.follower.caught_up.done():
            return
        timeout_ms = self._config.int_of("controller.quorum.request.timeout.ms")
        try:
            await others.ask(self._voter_change(timeout_ms), timeout_ms=timeout_ms)
        except KafkaError as error:
            logger.info("Joining the quorum as a voter failed, will retry: %s", error)
        except ControllerIsHere:
            pass

    def _voter_change(self, timeout_ms: int) -> Message:
        """The next request to become a voter."""
        from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
        from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

        replica = self._driver.replica
        old, own = replica.voters.last.get(self._config.node_id), replica.local
        if old is not None:
            return RemoveRaftVoterRequest(
                cluster_id=self._cluster_id, voter_id=old.key.id, voter_directory_id=old.key.directory_id
            )
        return AddRaftVoterRequest(
            cluster_id=self._cluster_id,
            timeout_ms=timeout_ms,
            voter_id=own.key.id,
            voter_directory_id=own.key.directory_id,
            listeners=[
                AddRaftVoterRequest.Listener(name=e.name, host=e.host, port=e.port) for e in own.endpoints
            ],
            ack_when_committed=False,
        )
