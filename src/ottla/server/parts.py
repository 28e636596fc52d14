"""The parts of a node as interfaces of one member each.

A handler, helper or class declares a protocol of the parts that it uses, and takes an object that has them:

    class Parts(HasImage, HasPartitions, Protocol):
        ...

    def handle(parts: Parts, request: ..., context: RequestContext) -> ...:

- `Broker` (`broker.py`) has all parts. Dispatch calls handlers with it; mypy checks that it has what each of
  them declares. A test makes an object with exactly the declared parts.
- A helper that needs one part takes that part itself: `decide(parts.quorum, ...)`. Exceptions are `config`,
  which is replaced when dynamic settings change, and parts that are made when they are first used.
- A handler takes an object even if it needs one part (`parts: HasQuorum`) or none (`_parts: object`).
- A protocol may inherit from that of a called helper: `class Parts(CreationParts, HasImage, Protocol)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.controller.image import ClusterImage
    from ottla.coordinator.slices import Slices
    from ottla.failures import Failures
    from ottla.log.directories.log_directories import LogDirectories
    from ottla.ports import Clock, Disk, Network, Random
    from ottla.server.coordinators.groups import GroupCoordinator
    from ottla.server.coordinators.producer_ids import ProducerIds
    from ottla.server.coordinators.transactions import TransactionCoordinator
    from ottla.server.metadata.metadata_quorum import MetadataQuorum
    from ottla.server.net.batch_worker import BatchWorker
    from ottla.server.net.dispatch import Dispatcher
    from ottla.server.net.step_runner import StepRunner
    from ottla.server.replicas.fetch_sessions import FetchSessions
    from ottla.server.replicas.partition import Partitions
    from ottla.server.replicas.replication import Replication

_T = TypeVar("_T")


class HasNodeId(Protocol):
    @property
    def node_id(self) -> int: ...


class HasClusterId(Protocol):
    @property
    def cluster_id(self) -> str: ...


class HasConfig(Protocol):
    """The settings of this node; replaced when dynamic settings change."""

    @property
    def config(self) -> BrokerConfig: ...


class HasImage(Protocol):
    """The committed state of the cluster."""

    @property
    def image(self) -> ClusterImage: ...


class HasQuorum(Protocol):
    """The metadata quorum: it takes decisions to the metadata log."""

    @property
    def quorum(self) -> MetadataQuorum: ...


class HasAppliedOffset(Protocol):
    """Up to where in the metadata log this node has done what it says."""

    @property
    def applied_offset(self) -> int: ...


class HasPartitions(Protocol):
    """The partitions that this node hosts."""

    @property
    def partitions(self) -> Partitions: ...


class HasDirectories(Protocol):
    @property
    def directories(self) -> LogDirectories: ...


class HasReplication(Protocol):
    """None on a node that is no broker."""

    @property
    def replication(self) -> Replication | None: ...


class HasFetchSessions(Protocol):
    @property
    def fetch_sessions(self) -> FetchSessions: ...


class HasGroups(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...


class HasTransactions(Protocol):
    @property
    def transactions(self) -> TransactionCoordinator: ...


class HasProducerIds(Protocol):
    @property
    def producer_ids(self) -> ProducerIds: ...


class HasStepRunner(Protocol):
    """Runs requests that take longer than one slice of the event loop."""

    @property
    def step_runner(self) -> StepRunner: ...


class HasSlices(Protocol):
    """Runs long work of the coordinators and of the reconciler in slices of the event loop."""

    @property
    def slices(self) -> Slices: ...


class HasBatchWorker(Protocol):
    """Does the work of single requests on another thread."""

    @property
    def batch_worker(self) -> BatchWorker: ...


class HasBackground(Protocol):
    """Runs work that nobody waits for."""

    def in_background(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]: ...


class HasAppendTasks(Protocol):
    """Runs appends that continue in later turns of the event loop; a stop of the node waits for them."""

    def append_later(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]: ...


class HasTopicsInCreation(Protocol):
    """The names of topics that are being created automatically."""

    @property
    def topics_in_creation(self) -> set[str]: ...


class HasApiKeys(Protocol):
    """The APIs that the listeners for clients and brokers serve."""

    @property
    def api_keys(self) -> list[int]: ...


class HasDispatchers(Protocol):
    """The dispatchers by listener name."""

    @property
    def dispatchers(self) -> dict[str, Dispatcher]: ...


class HasFailures(Protocol):
    @property
    def failures(self) -> Failures: ...


class HasClock(Protocol):
    @property
    def clock(self) -> Clock: ...


class HasRandom(Protocol):
    @property
    def random(self) -> Random: ...


class HasDisk(Protocol):
    @property
    def disk(self) -> Disk: ...


class HasNetwork(Protocol):
    """The way to other nodes; None on a node that has none."""

    @property
    def network(self) -> Network | None: ...
