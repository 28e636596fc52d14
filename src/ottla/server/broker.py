"""The parts of a node, by name. `node.py` wires them; each part contains its own rules.

Only dispatch takes a `Broker`, and hands it to the handlers. Other code declares what it needs (`parts.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.failures import Failures
from ottla.server.replicas.partition import Partitions

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.coordinator.slices import Slices
    from ottla.log.directories.log_directories import LogDirectories
    from ottla.ports import Clock, Disk, Network, Random
    from ottla.server.coordinators.groups import GroupCoordinator
    from ottla.server.coordinators.producer_ids import ProducerIds
    from ottla.server.coordinators.transactions import TransactionCoordinator
    from ottla.server.metadata.metadata_quorum import MetadataQuorum
    from ottla.server.net.batch_worker import BatchWorker
    from ottla.server.net.dispatch import Dispatcher
    from ottla.server.net.loop_lag import LoopLateness
    from ottla.server.net.step_runner import StepRunner
    from ottla.server.replicas.fetch_sessions import FetchSessions
    from ottla.server.replicas.reconciler import Replicas
    from ottla.server.replicas.replication import Replication

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class Broker:
    """One node's parts.

    `image` is the committed state of the cluster: it changes only by replay of committed records. `quorum`
    submits decisions to the controller. `config` is replaced when dynamic settings change.
    """

    node_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    random: Random
    disk: Disk
    image: ClusterImage
    quorum: MetadataQuorum
    directories: LogDirectories
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    lateness: LoopLateness
    network: Network | None = None  # the way to other brokers
    partitions: Partitions = field(default_factory=Partitions)
    api_keys: list[int] = field(
        default_factory=list
    )  # of the listener kind "broker"; set once the table is made
    dispatchers: dict[str, Dispatcher] = field(default_factory=dict)  # by listener, for embedded requests
    failures: Failures = field(default_factory=Failures)
    replication: Replication | None = None  # made with the replicas, where the node is a broker
    replicas: Replicas | None = None
    topics_in_creation: set[str] = field(default_factory=set)  # by themselves, since somebody asked for them
    _slices: Slices | None = None
    _step_runner: StepRunner | None = None
    _batch_worker: BatchWorker | None = None
    _is_coordinating: bool = True
    _groups: GroupCoordinator | None = None
    _transactions: TransactionCoordinator | None = None
    _under_way: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)
    _appends: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    def in_background(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run work that nobody waits for."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)  # a task that nobody has may be collected before it is done
        task.add_done_callback(self._under_way.discard)
        return task

    def append_later(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run the appends of a request in later turns of the loop."""
        task = asyncio.ensure_future(work)
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)
        return task

    async def end_appends(self) -> None:
        """Cancel these appends, and wait for their threads: the logs are about to be closed."""
        for task in self._appends:
            task.cancel()
        await asyncio.gather(*self._appends, return_exceptions=True)

    @property
    def step_runner(self) -> StepRunner:
        """Runs requests that take more than one slice of the loop."""
        if self._step_runner is None:
            from ottla.server.net.step_runner import StepRunner

            self._step_runner = StepRunner(self.slices, self.clock)
        return self._step_runner

    @property
    def slices(self) -> Slices:
        """Runs the long tasks of the coordinators."""
        if self._slices is None:
            from ottla.coordinator.slices import Slices

            self._slices = Slices(self.clock)
        return self._slices

    @property
    def batch_worker(self) -> BatchWorker:
        """Runs work of single requests on another thread."""
        if self._batch_worker is None:
            from ottla.server.net.batch_worker import BatchWorker

            self._batch_worker = BatchWorker(self.disk)
        return self._batch_worker

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator, created on first use: many nodes never need it."""
        if self._groups is None:
            from ottla.server.coordinators.groups import GroupCoordinator

            self._groups = GroupCoordinator(self)
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, created on first use."""
        if self._transactions is None:
            from ottla.server.coordinators.transactions import TransactionCoordinator

            self._transactions = TransactionCoordinator(self)
        return self._transactions

    @property
    def applied_offset(self) -> int:
        """The offset of the metadata log up to which this node has applied the metadata."""
        return self.image.offset if self.replicas is None else self.replicas.applied_offset

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Notify the coordinators of a change, once the partitions match the image."""
        if not self._is_coordinating:
            return
        if self._groups is not None or GROUPS_TOPIC in image.topics_by_name:
            self.groups.on_metadata(image, delta)
        if self._transactions is not None or TRANSACTIONS_TOPIC in image.topics_by_name:
            self.transactions.on_metadata(image, delta)

    def hold_coordinators(self) -> None:
        """Load no coordinator before `start_coordinators`.

        Another node may lead the partitions of this node's last run by now, and this node may have lost
        records.
        """
        self._is_coordinating = False

    def start_coordinators(self) -> None:
        """Load the coordinators of the partitions that this node leads."""
        self._is_coordinating = True
        if GROUPS_TOPIC in self.image.topics_by_name:
            self.groups.start()
        if TRANSACTIONS_TOPIC in self.image.topics_by_name:
            self.transactions.start()

    def stop_coordinators(self) -> None:
        """Fail the waiting requests: the client retries at the next coordinator."""
        self._is_coordinating = False
        if self._groups is not None:
            self._groups.close()
        if self._transactions is not None:
            self._transactions.close()
