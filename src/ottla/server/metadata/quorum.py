"""The controller on this node, and its state of the cluster: decisions in, committed changes out.

One of several controllers leads the quorum and is the active one: it has a `ControllerState` from when it has
replayed all that was committed before its epoch until it leads no more. The others follow its log as brokers
do, and hand requests on to it.

`submit` decides on the newest state, appends the records and answers once they are committed. `image` is
the committed state: it changes only by replay of committed records, and whoever subscribed is told what
changed, after it has. The two are apart because a decision must see those before it, while nobody else may
see what could still be lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.config import BrokerConfig, Endpoint
from ottla.controller.alter_partition import alter_partition
from ottla.controller.bootstrap import (
    BOOTSTRAP_FILE,
    activation_records,
    default_bootstrap_records,
    read_bootstrap,
)
from ottla.controller.brokers import (
    broker_heartbeat,
    fence_stale_broker,
    register_broker,
    register_controller,
)
from ottla.controller.config_rules import BrokerConfigRules
from ottla.controller.directory_assignments import assign_replicas_to_dirs
from ottla.controller.elections import balance_leaders, elect_unclean_leaders
from ottla.controller.feature_levels import CONTROLLER_REGISTRATION_LEVEL, SUPPORTED_FEATURES
from ottla.controller.image import METADATA_VERSION, ClusterImage
from ottla.controller.producer_ids import allocate_producer_ids
from ottla.controller.records import encode_record
from ottla.controller.registrations import InvalidMetadata
from ottla.controller.result import Result
from ottla.controller.state import ControllerSettings, ControllerState
from ottla.detached import detach
from ottla.ports import Clock, Disk, Network, Random
from ottla.raft.driver import CommittedBatch
from ottla.raft.effects import Ask
from ottla.raft.election_state import NOBODY
from ottla.raft.replica import NotLeader
from ottla.server.metadata.committed_metadata import CommittedMetadata
from ottla.server.metadata.log_follower import LogFollower
from ottla.server.metadata.voter_changes import VoterChanges
from ottla.server.peers.controller_channel import ControllerIsHere, RemoteController
from ottla.wire import uuid
from ottla.wire.errors import (
    InvalidUpdateVersion,
    KafkaError,
    KafkaStorageError,
    NotController,
    RequestTimedOut,
)
from ottla.wire.message import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.metadata_records import FeatureLevelRecord, NoOpRecord

if TYPE_CHECKING:
    from ottla.server.metadata.quorum_peers import QuorumPeers

logger = logging.getLogger("ottla.server.metadata.quorum")

RECORDS_PER_BATCH_MAX = 10_000
CLEAN_INTERVAL_S = 60.0
UNCLEAN_ELECTION_INTERVAL_S = 300.0
REGISTER_INTERVAL_S = 0.5
HAND_OVER_SECONDS_MAX = 5.0
ASK_TIMEOUT_MS = 60_000
SESSIONS_LATE_MS = 50
"""A look at the brokers' sessions that comes so late extends them."""
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_T = TypeVar("_T")

_DECISIONS: dict[type[Message], Callable[[ControllerState, Any], Result[Any]]] = {
    AllocateProducerIdsRequest: allocate_producer_ids,
    AlterPartitionRequest: lambda state, request: alter_partition(state, request, 3),
    AssignReplicasToDirsRequest: assign_replicas_to_dirs,
    BrokerHeartbeatRequest: broker_heartbeat,
    BrokerRegistrationRequest: lambda state, request: register_broker(state, request, 4, is_local=True),
    ControllerRegistrationRequest: register_controller,
}
"""What the broker of this same node asks of its controller."""


class Quorum(CommittedMetadata):
    """One node's part in the quorum of controllers."""

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
    ) -> None:
        """`controller_endpoints`: where this node's controller is really reached, if not as configured.

        Without a `network` it can only be the only voter.
        """
        advertised = config.advertised_controller_listeners
        super().__init__(
            disk=disk,
            clock=clock,
            random=random,
            config=config,
            cluster_id=cluster_id,
            directory_id=directory_id,
            endpoints=advertised if controller_endpoints is None else controller_endpoints,
        )
        self._incarnation_id = uuid.random(random.bytes)
        self._state: ControllerState | None = None
        self._waiting: deque[tuple[int, asyncio.Future[Any], Any]] = deque()
        self._last_append_at = 0.0
        self._fenced_at = 0.0  # when the sessions of brokers were looked at last
        self._tasks: list[asyncio.Task[None]] = []
        self._bootstrap: list[Message] = []
        self._activation: asyncio.Future[Any] | None = None
        self._follower: LogFollower | None = None
        self._controller: RemoteController | None = None
        self._peers: QuorumPeers | None = None
        self._network: Network | None = None
        if network is not None:
            self._connect(network)
        self.failure.add_done_callback(
            lambda _: self._fail_waiting(KafkaStorageError("The metadata log failed."))
        )

    def _connect(self, network: Network) -> None:
        """The ways to the other controllers."""
        config = self._config
        self._follower = follower = LogFollower(
            network=network,
            random=self._random,
            config=config,
            driver=self.driver,
            cluster_id=self.cluster_id,
            image_offset=lambda: self.image.offset,
        )
        self._controller = RemoteController(
            network,
            self._clock,
            follower.leader_address,
            node_id=config.node_id,
            socket_timeout_ms=config.int_of("controller.socket.timeout.ms"),
            is_here=lambda: self.is_active,
        )
        self._network = network
        self.voter_changes = VoterChanges(
            self.driver,
            self._clock,
            network,
            config.controller_listener_names[0],
            request_timeout_ms=config.int_of("controller.quorum.request.timeout.ms"),
            on_append=self._follow_control_records,
        )
        self.driver.on_ask = self._ask_peer
        self.driver.on_leader = self._on_leader

    def _ask_peer(self, ask: Ask) -> None:
        if self._peers is None:
            from ottla.server.metadata.quorum_peers import QuorumPeers  # which a node alone never needs

            follower, network = self._follower, self._network
            assert follower is not None
            assert network is not None
            self._peers = QuorumPeers(
                network, self._config, self.driver, self.cluster_id, follower.address_of, follower.learn
            )
        self._peers.ask(ask)

    def _on_leader(self) -> None:
        if self._follower is not None:
            self._follower.on_leader()
        if self._controller is not None:
            self._controller.on_leader()

    # Facts

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._state is not None and not self.failure.done()

    @property
    def leader_id(self) -> int:
        """The active controller, -1 if none is known."""
        if self.is_active:
            return self._config.node_id
        return NOBODY if self._follower is None else self._follower.leader_id

    @property
    def is_remote(self) -> bool:
        return self._controller is not None and not self.is_active

    def learn_address(self, node_id: int, host: str, port: int) -> None:
        """Another controller says where the leader is."""
        if self._follower is not None:
            self._follower.learn(node_id, (host, port))

    # Life

    async def open(self) -> None:
        """Load the metadata log. The only voter leads when this is back."""
        self._bootstrap = await self._disk.offload(self._read_bootstrap)
        await self.driver.start()

    async def join(self) -> None:
        """Take part in the quorum. A broker of this node waits for all that is committed."""
        config = self._config
        if self._follower is not None:
            self._tasks.append(asyncio.create_task(self._follower.run()))
        if self._activation is not None:
            await self._activation
        elif self._follower is None:
            raise NotController(
                "This node is not a voter and knows no other voter. Check controller.quorum.voters and "
                "controller.quorum.bootstrap.servers."
            )
        elif config.is_broker:
            await asyncio.wait([self._follower.caught_up, self.failure], return_when=asyncio.FIRST_COMPLETED)
            if self.failure.done():
                self.failure.result()
        idle_ms = config.int_of("metadata.max.idle.interval.ms")
        if idle_ms > 0:
            self._every(idle_ms / 1000, self._write_no_op)
        self._fenced_at = self._clock.monotonic()
        self._every(config.int_of("broker.session.timeout.ms") / 8000, self._fence_stale_brokers)
        self._every(CLEAN_INTERVAL_S, self.driver.clean)
        self._every(UNCLEAN_ELECTION_INTERVAL_S, lambda: self._repeat(elect_unclean_leaders))
        if self._follower is not None:
            self._every(REGISTER_INTERVAL_S, self._register_with_leader)
            if config.bool_of("controller.quorum.auto.join.enable"):
                seconds = config.int_of("controller.quorum.fetch.timeout.ms") / 1000
                self._every(seconds, self._join_voters)
        if config.bool_of("auto.leader.rebalance.enable"):
            seconds = config.int_of("leader.imbalance.check.interval.seconds")
            self._every(seconds, lambda: self._repeat(balance_leaders))

    async def leave(self) -> None:
        """Hand leadership over while other voters can still ask us for their votes."""
        replica, follower = self.driver.replica, self._follower
        if follower is None or not self.driver.is_leader or replica.is_only_voter or self.failure.done():
            return
        if self._peers is not None:
            self._peers.unreachable.clear()  # they may have come since
        self.driver.resign()
        deadline = self._clock.monotonic() + HAND_OVER_SECONDS_MAX
        while follower.leader_id == NOBODY and self._clock.monotonic() < deadline:
            if not self._can_be_led():
                logger.info(
                    "Resigning without a handover: too few controllers are running to elect a successor"
                )
                return
            self.driver.resign()  # again, should nobody else want to
            await asyncio.sleep(0.01)

    def _can_be_led(self) -> bool:
        """Whether, with our vote, there could still be a majority for another controller."""
        if self._peers is None:
            return True
        voters, unreachable = self.driver.replica.voters.last, self._peers.unreachable
        return sum(voter.key.id not in unreachable for voter in voters) >= voters.majority

    async def stop(self) -> None:
        """Finish what is under way and close the log."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._settle_snapshot()
        await self.driver.stop()
        if self._peers is not None:
            await self._peers.close()
        if self._controller is not None:
            self._controller.close()
        if self._follower is not None:
            self._follower.close()
        self._state = None
        self._fail_waiting(NotController("This controller is shutting down."))

    def _activate(self) -> asyncio.Future[Any]:
        """Write what a new active controller must before anything else, and register this one."""
        minimum = self._config.int_of("min.insync.replicas")
        registration, bootstrap = self._registration(), self._bootstrap

        def register(state: ControllerState) -> Result[Any]:
            known = state.image.controllers.get(self._config.node_id)
            is_known = known is not None and known.incarnation_id == self._incarnation_id
            if is_known or state.image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
                return Result(None)
            return register_controller(state, registration)

        both = asyncio.gather(  # one flush for both
            self._decide(lambda state: Result(None, activation_records(state.image, bootstrap, minimum))),
            self._decide(register),
        )
        both.add_done_callback(_see)
        return both

    async def _register_with_leader(self) -> None:
        """A controller that does not lead tells the one that does where it is."""
        image = self.image
        if self.is_active or image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return
        known = image.controllers.get(self._config.node_id)
        if known is not None and known.incarnation_id == self._incarnation_id:
            return
        try:
            await self.ask(self._registration(), timeout_ms=2_000)
        except KafkaError as error:
            logger.info("Controller registration failed, will retry: %s", error)

    async def _join_voters(self) -> None:
        """Become a voter; one with our id and another disk has to go first."""
        from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
        from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

        replica, remote = self.driver.replica, self._controller
        if remote is None or replica.is_voter or not self.kraft_version or self._follower is None:
            return
        if self._follower.leader_id == NOBODY or not self._follower.caught_up.done():
            return
        timeout_ms = self._config.int_of("controller.quorum.request.timeout.ms")
        old, own = replica.voters.last.get(self._config.node_id), replica.local
        request: Message
        if old is not None:
            request = RemoveRaftVoterRequest(
                cluster_id=self.cluster_id, voter_id=old.key.id, voter_directory_id=old.key.directory_id
            )
        else:
            request = AddRaftVoterRequest(
                cluster_id=self.cluster_id,
                timeout_ms=timeout_ms,
                voter_id=own.key.id,
                voter_directory_id=own.key.directory_id,
                listeners=[
                    AddRaftVoterRequest.Listener(name=e.name, host=e.host, port=e.port) for e in own.endpoints
                ],
                ack_when_committed=False,
            )
        try:
            await remote.ask(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            logger.info("Joining the quorum as a voter failed, will retry: %s", error)
        except ControllerIsHere:
            pass

    def _read_bootstrap(self) -> list[Message]:
        path = f"{self._config.metadata_log_directory}/{BOOTSTRAP_FILE}"
        try:
            content = self._disk.read(path)
        except FileNotFoundError:
            return default_bootstrap_records()
        return read_bootstrap(content, path)

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

    def _settings(self) -> ControllerSettings:
        config = self._config
        return ControllerSettings(
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            default_partitions=config.int_of("num.partitions"),
            default_replication_factor=config.int_of("default.replication.factor"),
            min_insync_replicas=config.int_of("min.insync.replicas"),
            session_timeout_ms=config.int_of("broker.session.timeout.ms"),
            is_topic_deletion_enabled=config.bool_of("delete.topic.enable"),
            supported_features=SUPPORTED_FEATURES,
            quorum_ids=frozenset(config.quorum_voters),
        )

    # Decisions

    async def submit(
        self, decision: Callable[[ControllerState], Result[_T]], *, timeout_ms: int | None = None
    ) -> _T:
        """Decide, append, and answer once it is committed. A KafkaError of the decision comes out here.

        `timeout_ms` is the request's: as in Kafka it bounds the time until the decision, which here is none.
        """
        if timeout_ms is not None and timeout_ms <= 0:
            raise RequestTimedOut
        return await self._decide(decision)

    def _decide(self, decision: Callable[[ControllerState], Result[_T]]) -> asyncio.Future[_T]:
        """Decide now; the future has the answer once that is committed."""
        state = self._state
        if self.failure.done():
            raise KafkaStorageError("The metadata log of this controller failed.")
        if state is None:
            raise NotController("This node is not the active controller.")
        state.now_ms = int(self._clock.monotonic() * 1000)
        result = decision(state)
        last_offset = self._append(state, result)
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        if last_offset is None:
            answer.set_result(result.response)
        else:
            self._waiting.append((last_offset, answer, result.response))
        return answer

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """The short way of this node's own broker if the active controller is here; else by a socket."""
        decide = _DECISIONS.get(type(request)) or _creation(request)
        remote = self._controller
        deadline = self._clock.monotonic() + (ASK_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
        while True:
            if remote is None or self.is_active:
                try:
                    return await self._ask_here(lambda state: decide(state, request), timeout_ms)
                except NotController:
                    if remote is None:
                        raise
            remaining_ms = max(int((deadline - self._clock.monotonic()) * 1000), 1)
            try:
                return await remote.ask(request, timeout_ms=remaining_ms)
            except ControllerIsHere:
                continue

    async def _ask_here(
        self, decision: Callable[[ControllerState], Result[Any]], timeout_ms: int | None
    ) -> Any:
        work = detach(self.submit(decision))
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await work
        except TimeoutError:
            raise RequestTimedOut(f"The controller did not answer within {timeout_ms} ms.") from None

    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        if self._controller is None:
            raise ControllerIsHere
        return await self._controller.forward(frame, principal, client_host)

    def _append(self, state: ControllerState, result: Result[Any]) -> int | None:
        """Append and apply a decision; the offset to wait for, None if there is none."""
        driver = self.driver
        if result.kraft_version is not None and result.kraft_version > driver.replica.kraft_version.last:
            try:
                driver.upgrade_kraft_version(result.kraft_version)
            except ValueError as error:
                raise InvalidUpdateVersion(str(error)) from error
            state.kraft_version = result.kraft_version
            state.next_offset = driver.next_offset
        if not result.records:
            if result.when_appended is not None:
                result.when_appended()
            return self._waiting[-1][0] if self._waiting else None
        records = result.records
        values = [encode_record(record, level) for record, level in _with_levels(state.image, records)]
        step = len(records) if result.is_atomic else RECORDS_PER_BATCH_MAX
        try:
            for start in range(0, len(records), step):
                last_offset = driver.append(values[start : start + step], records[start : start + step])
        except NotLeader:
            raise NotController("This node is no longer the active controller.") from None
        self._last_append_at = self._clock.monotonic()
        if result.when_appended is not None:
            result.when_appended()
        try:
            applied = state.apply(records)
        except InvalidMetadata as error:
            logger.critical("Generated records that contradict the metadata state: %s", error)
            self._state = None
            self.driver.fail(error)  # what is in the log cannot be applied by anyone
            raise
        if applied != last_offset:
            raise RuntimeError(
                f"Records were appended up to offset {last_offset} but applied only up to {applied}."
            )
        return last_offset

    def _follow_control_records(self) -> None:
        """The quorum wrote of itself: the next decision's records come after that."""
        if self._state is not None:
            self._state.next_offset = self.driver.next_offset

    async def _repeat(self, decision: Callable[[ControllerState], Result[bool]]) -> None:
        """A duty that does a bounded part each time and says whether there is more."""
        while self.is_active and await self.submit(decision):
            pass

    async def _write_no_op(self) -> None:
        """Show that the controller is alive, if nothing else did."""
        idle_s = self._config.int_of("metadata.max.idle.interval.ms") / 1000
        if self.driver.is_disk_full:
            return  # what room is left is for what somebody asked for
        if self.is_active and self._clock.monotonic() - self._last_append_at >= idle_s * 0.9:
            await self.submit(lambda _: Result(None, [NoOpRecord()]))

    async def _fence_stale_brokers(self) -> None:
        """Fence who is silent for too long. After a stall of this process, heartbeats may lie unread."""
        now, interval_s = self._clock.monotonic(), self._config.int_of("broker.session.timeout.ms") / 8000
        late_ms = int((now - self._fenced_at - interval_s) * 1000)
        if late_ms >= SESSIONS_LATE_MS and self._state is not None:
            logger.warning("Broker session check is %d ms late; extending all sessions accordingly", late_ms)
            self._state.heartbeats.excuse(late_ms, int(now * 1000))
        try:
            await self._repeat(fence_stale_broker)
        finally:
            self._fenced_at = self._clock.monotonic()

    def _every(self, seconds: float, duty: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(self._run_every(seconds, duty)))

    async def _run_every(self, seconds: float, duty: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await duty()
            except (KafkaStorageError, NotController) as error:
                logger.debug("Periodic controller task did not run: %s", error)
            except OSError as error:
                logger.error("Periodic controller task failed, will retry: %s", error)
            except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                self.failures.note(f"controller's {getattr(duty, '__name__', 'duty')}", "", error)

    # The listener of the driver

    def commit(self, batches: Sequence[CommittedBatch[Message]]) -> None:
        super().commit(batches)
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.image.offset:
            _, answer, response = waiting.popleft()
            if not answer.done():
                answer.set_result(response)

    def lead(self, epoch: int) -> None:
        logger.info("Became the active controller in epoch %d", epoch)
        self._state = ControllerState(
            self.image.copy(),
            self._settings(),
            BrokerConfigRules(self._config),
            next_offset=self.driver.next_offset,
            now_ms=int(self._clock.monotonic() * 1000),
            kraft_version=self.kraft_version,
            random_bytes=self._random.bytes,
            random_below=self._random.below,
        )
        self._activation = self._activate()
        if self._follower is not None:
            self._follower.note_caught_up()
        if self._controller is not None:
            self._controller.on_leader()

    def resign(self, epoch: int) -> None:
        logger.info("Resigned as the active controller of epoch %d", epoch)
        self._state = None
        if self.failure.done():
            self._fail_waiting(KafkaStorageError("The metadata log failed."))
        else:
            self._fail_waiting(NotController("This node is no longer the active controller."))

    def _fail_waiting(self, error: Exception) -> None:
        while self._waiting:
            _, answer, _ = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(error)

    # DescribeQuorum

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        """The quorum as its leader sees it."""
        from ottla.server.metadata.quorum_status import describe  # rarely needed, so not when a node starts

        return describe(request, self.driver.replica, is_active=self.is_active, clock=self._clock)


def _see(answer: asyncio.Future[Any]) -> None:
    """Take notice of an error: a controller that leads no more when it begins is nothing to worry about."""
    if not answer.cancelled() and (error := answer.exception()) is not None:
        logger.info("Activation of the controller failed: %s", error)


def _with_levels(image: ClusterImage, records: Sequence[Message]) -> list[tuple[Message, int]]:
    """Each record with the metadata.version in which it is written: a record may change it for the next."""
    level = image.metadata_version
    leveled = []
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            level = record.feature_level
        leveled.append((record, level))
    return leveled


def _creation(request: Message) -> Callable[[ControllerState, Any], Result[Any]]:
    from ottla.controller.topics import create_topics  # rarely needed, so not when a node starts
    from ottla.wire.messages.create_topics import CreateTopicsRequest

    assert isinstance(request, CreateTopicsRequest), f"{request.NAME} is not a request that brokers send"
    return create_topics
