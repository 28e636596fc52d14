"""What the handlers see of a node: its parts, by name. Wiring is in node.py; rules are in the parts."""

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

    `image` is the committed state of the cluster: it only changes by replay of committed records.
    `quorum` takes decisions to the metadata log. `config` is replaced when dynamic settings change.
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
        """Have work done that nobody needs to wait for."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)  # a task that nobody has may be collected before it is done
        task.add_done_callback(self._under_way.discard)
        return task

    def append_later(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Have a request append records in later turns of the loop."""
        task = asyncio.ensure_future(work)
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)
        return task

    async def end_appends(self) -> None:
        """Cancel those, and wait for their threads: the logs are about to be closed."""
        for task in self._appends:
            task.cancel()
        await asyncio.gather(*self._appends, return_exceptions=True)

    @property
    def step_runner(self) -> StepRunner:
        """The requests that take more than a slice of the loop."""
        if self._step_runner is None:
            from ottla.server.net.step_runner import StepRunner

            self._step_runner = StepRunner(self.slices, self.clock)
        return self._step_runner

    @property
    def slices(self) -> Slices:
        """The long work of the coordinators."""
        if self._slices is None:
            from ottla.coordinator.slices import Slices

            self._slices = Slices(self.clock)
        return self._slices

    @property
    def batch_worker(self) -> BatchWorker:
        """The work of single requests that is done on another thread."""
        if self._batch_worker is None:
            from ottla.server.net.batch_worker import BatchWorker

            self._batch_worker = BatchWorker(self.disk)
        return self._batch_worker

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator, made when the first group is asked for: many nodes never need it."""
        if self._groups is None:
            from ottla.server.coordinators.groups import GroupCoordinator

            self._groups = GroupCoordinator(self)
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, made when the first transaction is asked for."""
        if self._transactions is None:
            from ottla.server.coordinators.transactions import TransactionCoordinator

            self._transactions = TransactionCoordinator(self)
        return self._transactions

    @property
    def applied_offset(self) -> int:
        """Up to where in the metadata log this node has done what it says."""
        return self.image.offset if self.replicas is None else self.replicas.applied_offset

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Tell the coordinators what changed, once the partitions are as the image says."""
        if not self._is_coordinating:
            return
        if self._groups is not None or GROUPS_TOPIC in image.topics_by_name:
            self.groups.on_metadata(image, delta)
        if self._transactions is not None or TRANSACTIONS_TOPIC in image.topics_by_name:
            self.transactions.on_metadata(image, delta)

    def hold_coordinators(self) -> None:
        """Let nothing be coordinated before `start_coordinators`: what this node led in its last run it may
        not lead now, and what it wrote then it may have lost."""
        self._is_coordinating = False

    def start_coordinators(self) -> None:
        """Load what this node leads."""
        self._is_coordinating = True
        if GROUPS_TOPIC in self.image.topics_by_name:
            self.groups.start()
        if TRANSACTIONS_TOPIC in self.image.topics_by_name:
            self.transactions.start()

    def stop_coordinators(self) -> None:
        """Answer whoever still waits: another node, or this one after its start, will know."""
        self._is_coordinating = False
        if self._groups is not None:
            self._groups.close()
        if self._transactions is not None:
            self._transactions.close()
