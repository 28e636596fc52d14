"""A controller's part in the quorum.

One of the controllers leads the quorum and is active; the others follow its log as brokers do, and forward
requests to it. The active one decides on the newest state, including uncommitted records
(`active_controller.py`), whereas the rest of the node sees only committed state (`committed_metadata.py`):
records that may still be lost must stay invisible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from ottla.config import BrokerConfig, Endpoint
from ottla.controller.bootstrap import (
    BOOTSTRAP_FILE,
    activation_records,
    default_bootstrap_records,
    read_bootstrap,
)
from ottla.controller.decisions import local_decision_for
from ottla.controller.result import Decision, Result
from ottla.detached import detach
from ottla.failures import Failures
from ottla.ports import Clock, Disk, Network, Random
from ottla.raft.election_state import NOBODY
from ottla.server.metadata.active_controller import ActiveController
from ottla.server.metadata.background_tasks import BackgroundTasks
from ottla.server.metadata.committed_metadata import Subscriber
from ottla.server.metadata.controller_membership import ControllerMembership
from ottla.server.metadata.controller_tasks import ControllerTasks
from ottla.server.metadata.metadata_quorum import MetadataQuorum
from ottla.server.metadata.metadata_replica import MetadataReplica
from ottla.server.metadata.other_controllers import OtherControllers
from ottla.server.metadata.voter_changes import VoterChanges
from ottla.server.peers.controller_channel import ControllerIsHere
from ottla.wire import uuid
from ottla.wire.errors import KafkaStorageError, NotController, RequestTimedOut
from ottla.wire.message import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

logger = logging.getLogger("ottla.server.metadata.quorum")

CLEAN_INTERVAL_S = 60.0
UNCLEAN_ELECTION_INTERVAL_S = 300.0
REGISTER_INTERVAL_S = 0.5
ASK_TIMEOUT_MS = 60_000

_T = TypeVar("_T")


class Quorum(MetadataQuorum):
    """See the module. Without a `network` this node must be the only voter."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        config: BrokerConfig,
        cluster_id: str,
        directory_id: bytes,
        controller_endpoints: Sequence[Endpoint] | None = None,
        network: Network | None = None,
        failures: Failures | None = None,
    ) -> None:
        """`controller_endpoints`: the real endpoints of this node's controller, if they differ from the
        configured ones.
        """
        self.cluster_id = cluster_id
        self._disk = disk
        self._clock = clock
        self._config = config
        endpoints = controller_endpoints
        if endpoints is None:
            endpoints = config.advertised_controller_listeners
        self.replica = MetadataReplica(
            self,
            disk=disk,
            clock=clock,
            random=random,
            config=config,
            directory_id=directory_id,
            endpoints=endpoints,
        )
        self.driver = driver = self.replica.driver
        self.image, self.progress = self.replica.metadata.image, self.replica.progress
        self.failure = driver.failure
        self.active = ActiveController(
            driver, clock=clock, random=random, config=config, cluster_id=cluster_id
        )
        self.controller_tasks = ControllerTasks(self.active, driver, clock, config)
        self._membership = ControllerMembership(
            driver,
            config,
            cluster_id=cluster_id,
            incarnation_id=uuid.random(random.bytes),
            endpoints=endpoints,
        )
        self._tasks = BackgroundTasks(failures or Failures())
        self._bootstrap: list[Message] = []
        self._activation: asyncio.Future[Any] | None = None
        self._others: OtherControllers | None = None
        self.voter_changes = None
        if network is not None:
            self._others = OtherControllers(
                self.replica,
                network=network,
                clock=clock,
                random=random,
                config=config,
                cluster_id=cluster_id,
                is_here=lambda: self.is_active,
            )
            self.voter_changes = VoterChanges(
                driver,
                clock,
                network,
                config.controller_listener_names[0],
                request_timeout_ms=config.int_of("controller.quorum.request.timeout.ms"),
                on_append=self.active.follow_control_records,
            )

    # Facts

    @property
    def is_active(self) -> bool:
        return self.active.is_active

    @property
    def leader_id(self) -> int:
        if self.is_active:
            return self._config.node_id
        return NOBODY if self._others is None else self._others.leader_id

    @property
    def is_remote(self) -> bool:
        return self._others is not None and not self.is_active

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def kraft_version(self) -> int:
        return self.replica.kraft_version

    @property
    def finalized_features(self) -> dict[str, int]:
        return self.replica.finalized_features

    def subscribe(self, subscriber: Subscriber) -> None:
        self.replica.metadata.subscribe(subscriber)

    def learn_address(self, node_id: int, host: str, port: int) -> None:
        if self._others is not None:
            self._others.follower.learn(node_id, (host, port))

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        from ottla.server.metadata.quorum_status import describe  # rarely needed, so not when a node starts

        return describe(request, self.driver.replica, is_active=self.is_active, clock=self._clock)

    async def snapshot_now(self) -> None:
        await self.replica.snapshot_now()

    # Life

    async def open(self) -> None:
        """Load the metadata log. When this returns, an only voter is the leader."""
        self._bootstrap = await self._disk.offload(self._read_bootstrap)
        await self.driver.start()

    def _read_bootstrap(self) -> list[Message]:
        path = f"{self._config.metadata_log_directory}/{BOOTSTRAP_FILE}"
        try:
            content = self._disk.read(path)
        except FileNotFoundError:
            return default_bootstrap_records()
        return read_bootstrap(content, path)

    async def join(self) -> None:
        """Take part in the quorum. A broker on this node waits for everything committed."""
        others = self._others
        if others is not None:
            self._tasks.start(others.follower.run())
        if self._activation is not None:
            await self._activation
        elif others is None:
            raise NotController(
                "This node is not a voter and knows no other voter. Check controller.quorum.voters and "
                "controller.quorum.bootstrap.servers."
            )
        elif self._config.is_broker:
            await asyncio.wait([others.follower.caught_up, self.failure], return_when=asyncio.FIRST_COMPLETED)
            if self.failure.done():
                self.failure.result()
        self._start_periodic_tasks()

    def _start_periodic_tasks(self) -> None:
        every, work, config, others = self._tasks.every, self.controller_tasks, self._config, self._others
        if work.idle_s > 0:
            every(work.idle_s, "no-op record", work.write_no_op)
        work.sessions_checked_at = self._clock.monotonic()
        every(work.session_check_s, "session check", work.fence_stale_brokers)
        every(CLEAN_INTERVAL_S, "deletion of old metadata", self.driver.clean)
        every(UNCLEAN_ELECTION_INTERVAL_S, "unclean election", work.elect_unclean_leaders)
        if others is not None:
            every(REGISTER_INTERVAL_S, "registration", self._register_with_leader)
            if config.bool_of("controller.quorum.auto.join.enable"):
                seconds = config.int_of("controller.quorum.fetch.timeout.ms") / 1000
                every(seconds, "joining of the voters", partial(self._membership.join_voters, others))
        if config.bool_of("auto.leader.rebalance.enable"):
            seconds = config.int_of("leader.imbalance.check.interval.seconds")
            every(seconds, "balancing of leaders", work.balance_leaders)

    async def _register_with_leader(self) -> None:
        if self._others is not None and not self.is_active:
            await self._membership.register_with_leader(self.image, self.ask)

    async def leave(self) -> None:
        """Hand over the leadership while other voters can still ask this node for its vote."""
        if self._others is not None:
            await self._others.hand_over()

    async def stop(self) -> None:
        """Finish what is in progress and close the log."""
        await self._tasks.stop()
        await self.replica.stop()
        if self._others is not None:
            await self._others.close()
        self.active.end(NotController("This controller is shutting down."))

    # Requests

    async def submit(self, decision: Decision[_T], *, timeout_ms: int | None = None) -> _T:
        """Decide, append, and respond once it is committed. Raises the KafkaError of the decision."""
        return await self.active.decide(decision, timeout_ms=timeout_ms)

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """A function call if the active controller is here, else a request to where it is."""
        decision = local_decision_for(request)
        others = self._others
        deadline = self._clock.monotonic() + (ASK_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
        while True:
            if others is None or self.is_active:
                try:
                    return await self._ask_here(decision, timeout_ms)
                except NotController:
                    if others is None:
                        raise
            remaining_ms = max(int((deadline - self._clock.monotonic()) * 1000), 1)
            try:
                return await others.ask(request, timeout_ms=remaining_ms)
            except ControllerIsHere:
                continue

    async def _ask_here(self, decision: Decision[Any], timeout_ms: int | None) -> Any:
        work = detach(self.submit(decision, timeout_ms=timeout_ms))
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await work
        except TimeoutError:
            raise RequestTimedOut(f"The controller did not answer within {timeout_ms} ms.") from None

    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        if self._others is None:
            raise ControllerIsHere
        return await self._others.forward(frame, principal, client_host)

    # Leadership of the replica

    def committed(self, offset: int) -> None:
        self.active.committed(offset)

    def lead(self, epoch: int) -> None:
        logger.info("Became the active controller in epoch %d", epoch)
        self.active.begin(self.image.copy(), self.kraft_version)
        self._activation = self._activate()
        if self._others is not None:
            self._others.leads_here()

    def _activate(self) -> asyncio.Future[list[object]]:
        """Append the records that begin a controller's epoch, and register this controller."""
        minimum, bootstrap = self._config.int_of("min.insync.replicas"), self._bootstrap
        activation = self.active.decide_first(
            lambda state: Result(None, activation_records(state.image, bootstrap, minimum)),
            self._membership.register_here,
        )
        activation.add_done_callback(_log_failure)
        return activation

    def resign(self, epoch: int) -> None:
        logger.info("Resigned as the active controller of epoch %d", epoch)
        if self.failure.done():
            self.active.end(KafkaStorageError("The metadata log failed."))
        else:
            self.active.end(NotController("This node is no longer the active controller."))


def _log_failure(activation: asyncio.Future[Any]) -> None:
    """Ignore the error of a controller that loses the leadership while it begins."""
    if not activation.cancelled() and (error := activation.exception()) is not None:
        logger.info("Activation of the controller failed: %s", error)
