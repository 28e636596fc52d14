"""Applies the cluster's metadata to this node's partitions.

It is called with each committed change, in order. Rule: the image decides. A partition is hosted if and only
if it lists this node as a replica; leadership, epochs and settings come from the image.

A change of many partitions is applied in slices, so that heartbeats and requests continue meanwhile: the
remaining partitions wait in a backlog, and each is applied with the image of its turn. `applied_offset` shows
the progress. Partitions of coordinators never wait, and neither does the end of a partition: hosting ends at
once, and only its files are removed later, or when a partition with the same name is created.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from ottla.config import ResourceType, topic_value
from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.controller.registrations import PartitionRegistration, Topic
from ottla.failures import Failures
from ottla.log.log import Log
from ottla.server.broker import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.server.parts import HasConfig, HasDirectories, HasImage, HasNodeId, HasPartitions, HasSlices
from ottla.server.replicas.directory_assignments import DirectoryAssignments
from ottla.server.replicas.partition import Partition
from ottla.server.replicas.replication import Replication
from ottla.wire import uuid
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.slices import Job

AT_ONCE_MAX = 100
"""How many partitions are applied at once, so that clients can use them right after the request."""

_COORDINATED = (GROUPS_TOPIC, TRANSACTIONS_TOPIC)
_Key = tuple[bytes, int]

logger = logging.getLogger("ottla.server.replicas.reconciler")


class Parts(HasNodeId, HasConfig, HasImage, HasPartitions, HasDirectories, HasSlices, Protocol):
    """The parts of a node that `Replicas` uses."""


class Replicas:
    """Applies metadata to the partitions and logs of one node."""

    def __init__(
        self,
        parts: Parts,
        assignments: DirectoryAssignments,
        replication: Replication,
        *,
        failures: Failures,
    ) -> None:
        self._parts = parts
        self._assignments = assignments
        self._replication = replication
        self._failures = failures
        self._failed: dict[_Key, bool] = {}  # like the backlog: failed, and will be retried
        self._deletions: dict[asyncio.Task[None], None] = {}
        self._backlog: dict[
            tuple[bytes, int], bool
        ] = {}  # (topic id, partition): whether its log must be new
        self._applied_offset = -1
        self._job: Job[None] | None = None
        self._removals: dict[
            tuple[str, int], None
        ] = {}  # no longer hosted, but the files are not renamed yet
        self._removal_job: Job[set[str]] | None = None
        self._when_drained: list[asyncio.Future[None]] = []

    @property
    def applied_offset(self) -> int:
        """The metadata offset up to which this node's partitions are up to date."""
        return self._applied_offset if self._backlog else self._parts.image.offset

    def apply_all(self, image: ClusterImage) -> None:
        """Host everything that the image assigns to this node, at startup."""
        self._apply_partitions(
            image, {(topic.id, index): False for topic in image.topics.values() for index in topic.partitions}
        )

    async def drained(self) -> None:
        """Return when the backlog is empty."""
        if self._backlog:
            waiting = asyncio.get_running_loop().create_future()
            self._when_drained.append(waiting)
            await waiting

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Take over what a run of committed records changed."""
        if delta.topics_deleted:
            deleted = map(self._partitions_of, delta.topics_deleted.values())
            self._stop_hosting(list(chain.from_iterable(deleted)))
        node_id = self._parts.node_id
        self._apply_partitions(
            image,
            {
                (topic_id, index): previous is None or node_id not in previous.replicas
                for topic_id, before in delta.partitions_changed.items()
                for index, previous in before.items()
            },
        )
        for resource, name in sorted(delta.configs_changed):
            if resource == ResourceType.TOPIC:
                self._apply_topic_config_contained(name)
        self._replication.end_idle_fetchers()
        if not self._backlog:
            self._applied_offset = image.offset

    def _apply_partitions(self, image: ClusterImage, changed: dict[_Key, bool]) -> None:
        """Apply changed partitions now, or add them to the backlog if they are many."""
        later = self._backlog
        is_large = len(changed) > AT_ONCE_MAX
        followed: dict[_Key, bool] = {}
        for key, is_new in changed.items():
            topic = image.topics.get(key[0])
            registration = None if topic is None else topic.partitions.get(key[1])
            if topic is None or registration is None:
                continue
            if topic.name in _COORDINATED or not (is_large or key in later):
                self._apply_contained(topic, key[1], registration, is_new=is_new)
            elif key in later or registration.leader == self._parts.node_id:
                later[key] = is_new or later.get(key, False)
            else:
                followed[key] = is_new
        later.update(followed)  # leaders first: they would reject early followers
        if later and self._job is None:
            self._job = self._parts.slices.start(self._drain(), self._on_drained, self._on_drain_failed)

    def _drain(self) -> Generator[None, None, None]:
        backlog, image = self._backlog, self._parts.image
        while backlog:
            key = next(iter(backlog))
            is_new = backlog.pop(key)
            topic = image.topics.get(key[0])
            registration = None if topic is None else topic.partitions.get(key[1])
            if topic is not None and registration is not None:
                self._apply_contained(topic, key[1], registration, is_new=is_new)
            yield

    def _apply_contained(
        self, topic: Topic, index: int, registration: PartitionRegistration, *, is_new: bool
    ) -> None:
        """Apply one partition; a failure is retried later and does not delay the others."""
        key = (topic.id, index)
        is_retried = key in self._failed
        is_new = is_new or self._failed.get(key, False)
        try:
            self._apply_partition(topic, index, registration, is_new=is_new, is_retried=is_retried)
        except Exception as error:  # noqa: BLE001 - see `ottla.failures`
            self._failures.note("metadata", f"{topic.name}-{index}", error)
            self._failed[key] = is_new
        else:
            self._failed.pop(key, None)

    def apply_failed(self) -> None:
        """Retry the partitions that failed."""
        if self._failed:
            topics = self._parts.image.topics
            self._failed = {key: is_new for key, is_new in self._failed.items() if key[0] in topics}
            self._apply_partitions(self._parts.image, dict(self._failed))

    def _on_drained(self, _outcome: None) -> None:
        self._job = None
        self._replication.end_idle_fetchers()
        self._applied_offset = self._parts.image.offset
        for waiting in self._when_drained:
            if not waiting.done():
                waiting.set_result(None)
        self._when_drained.clear()

    def _on_drain_failed(self, error: Exception) -> None:
        """The job itself failed: the rest of the backlog is retried later."""
        self._failures.note("metadata", "", error)
        self._job = None
        self._failed.update(self._backlog)
        self._backlog.clear()
        self._on_drained(None)

    def _on_removal_failed(self, error: Exception) -> None:
        """One log could not be removed; continue with the others."""
        self._failures.note("removal of logs", "", error)
        self._removal_job = None
        if self._removals:
            self._start_removal()

    def close(self) -> None:
        """Stop applying metadata; remove the remaining logs now."""
        for job in (self._job, self._removal_job):
            if job is not None:
                job.cancel()
        self._remove_logs(list(self._removals))
        self._removals.clear()

    def apply_broker_config(self) -> None:
        """Apply changed settings of the node, which are the defaults of every topic."""
        self._replication.apply_config()
        for name in list(self._parts.partitions.by_name):
            self._apply_topic_config_contained(name)
        for partition in self._parts.partitions:
            if partition.log is not None:
                self.apply_verification(partition.log)

    def apply_verification(self, log: Log) -> None:
        """Set whether the first write of a transaction needs a verification by its coordinator."""
        verify = self._parts.config.bool_of("transaction.partition.verification.enable")
        log.producers.verify = verify

    def stray_reason(self, log: Log) -> str | None:
        """The reason why a log on disk is stray; None if it belongs here."""
        image = self._parts.image
        if log.topic_id is None or log.topic_id == uuid.ZERO:
            topic = image.topics_by_name.get(log.topic)
        else:
            topic = image.topics.get(log.topic_id)
        if topic is None:
            return "the cluster has no such topic"
        registration = topic.partitions.get(log.partition)
        if registration is None or self._parts.node_id not in registration.replicas:
            return "this node is not among its replicas"
        return None

    async def wait_for_deletions(self) -> None:
        """Wait for deletions in progress."""
        if self._deletions:
            await asyncio.gather(*self._deletions)

    def _partitions_of(self, topic: Topic) -> list[Partition]:
        return list(self._parts.partitions.by_id.get(topic.id, {}).values())

    def _apply_partition(
        self,
        topic: Topic,
        index: int,
        registration: PartitionRegistration,
        *,
        is_new: bool,
        is_retried: bool = False,
    ) -> None:
        node_id = self._parts.node_id
        hosted = self._parts.partitions.by_id.get(topic.id, {}).get(index)
        if node_id not in registration.replicas:
            if hosted is not None:
                self._stop_hosting([hosted])
            return
        if hosted is None:
            hosted = self._host(topic, index, registration, is_new=is_new)
        if registration.partition_epoch < hosted.partition_epoch:
            return  # an AlterPartition response was faster
        hosted.replicas = list(registration.replicas)
        hosted.isr = list(registration.isr)
        hosted.partition_epoch = registration.partition_epoch
        hosted.leader_id = registration.leader
        hosted.min_insync_replicas = self._min_insync_replicas(topic.name, len(hosted.replicas))
        # A failed attempt may have stored the epoch without following its leader.
        is_new_epoch = is_retried or registration.leader_epoch > hosted.leader_epoch
        hosted.leader_epoch = registration.leader_epoch
        hosted.is_leader = registration.leader == node_id
        if hosted.is_leader:
            if is_new_epoch:
                self._begin_epoch(hosted)
            self._replication.lead(hosted, registration)
        elif is_new_epoch:
            self._replication.follow(hosted)
        if is_new_epoch:
            hosted.notify_all()
        self._report_directory(hosted, registration)

    def _begin_epoch(self, partition: Partition) -> None:
        """Store the start offset of the epoch before anything is appended in it."""
        log = partition.log
        if log is None or log.truncations_pending:  # `log_truncated` comes back to it
            return
        try:
            log.assign_epoch_start_offset(partition.leader_epoch, log.log_end_offset)
        except OSError as error:  # the next append retries, and fails the produce
            logger.error("%s", self._parts.directories.storage_error(log, error))

    def log_truncated(self, partition: Partition) -> None:
        """Store the current epoch, if it began while the log was being truncated."""
        if partition.is_leader:
            self._begin_epoch(partition)

    def _report_directory(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Report the log's directory, if the controller has another one."""
        if partition.log is None or not registration.directories:
            return
        actual = self._parts.directories.directory_id_of(partition.log)
        if registration.directory_of(self._parts.node_id) != actual:
            self._assignments.submit(partition.topic_id, partition.index, actual)

    def _host(
        self, topic: Topic, index: int, registration: PartitionRegistration, *, is_new: bool
    ) -> Partition:
        parts = self._parts
        if (topic.name, index) in self._removals:  # files of a deleted topic with the same name
            del self._removals[topic.name, index]
            self._remove_logs([(topic.name, index)])
        wanted = registration.directory_of(parts.node_id) if registration.directories else None
        log: Log | None
        try:
            log = parts.directories.create(topic.name, index, topic.id, directory_id=wanted, is_new=is_new)
        except KafkaError as error:
            logger.error("Failed to open the replica of %s-%d: %s", topic.name, index, error)
            log = None
        if log is not None:
            self.apply_verification(log)
        partition = Partition(topic.name, topic.id, index, log)
        parts.partitions.add(partition)
        self._replication.apply_topic_config(topic.name)
        return partition

    def _min_insync_replicas(self, topic: str, replicas: int) -> int:
        """The effective min.insync.replicas: never above the number of replicas."""
        parts = self._parts
        value = topic_value(parts.config, parts.image.topic_config(topic), "min.insync.replicas")
        assert isinstance(value, int)
        return min(value, replicas)

    def _apply_topic_config_contained(self, name: str) -> None:
        try:
            self._apply_topic_config(name)
        except Exception as error:  # noqa: BLE001 - see `ottla.failures`
            self._failures.note("settings", name, error)

    def _apply_topic_config(self, name: str) -> None:
        hosted = self._parts.partitions.by_name.get(name)
        if not hosted:
            return
        self._parts.directories.reconfigure(name)
        self._replication.apply_topic_config(name)
        for partition in hosted.values():
            needed = self._min_insync_replicas(name, len(partition.replicas))
            partition.min_insync_replicas = needed
            if partition.leadership is not None:
                partition.leadership.min_insync_replicas = needed
                partition.update_high_watermark()

    def _stop_hosting(self, partitions: Iterable[Partition]) -> None:
        removed: list[tuple[str, int]] = []
        for partition in partitions:
            self._parts.partitions.remove(partition)
            removed.append((partition.topic, partition.index))
            partition.is_leader = False
            partition.leader_id = -1
            try:
                self._replication.leave(partition)
                partition.notify_all()  # waiting requests get their error now
            except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                self._failures.note("end of hosting", f"{partition.topic}-{partition.index}", error)
        if len(removed) <= AT_ONCE_MAX:
            try:
                self._remove_logs(removed)
            except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                self._failures.note("removal of logs", "", error)
            return
        self._removals.update(dict.fromkeys(removed))
        if self._removal_job is None:
            self._start_removal()

    def _start_removal(self) -> None:
        self._removal_job = self._parts.slices.start(
            self._remove_logs_in_slices(), self._on_removed, self._on_removal_failed
        )

    def _remove_logs(self, removed: list[tuple[str, int]]) -> None:
        """Rename the files of partitions; they are deleted later."""
        if removed:
            self._finish_removal_soon(self._parts.directories.detach(removed))

    def _remove_logs_in_slices(self) -> Generator[None, None, set[str]]:
        touched: set[str] = set()
        while self._removals:
            key = next(iter(self._removals))
            del self._removals[key]
            touched |= self._parts.directories.detach([key])
            yield
        return touched

    def _on_removed(self, touched: set[str]) -> None:
        self._removal_job = None
        self._finish_removal_soon(touched)

    async def _finish_removal(self, touched: set[str]) -> None:
        try:
            await self._parts.directories.forget_removed(touched)
        except Exception as error:  # noqa: BLE001 - see `ottla.failures`
            self._failures.note("removal of logs", "", error)

    def _finish_removal_soon(self, touched: set[str]) -> None:
        task = asyncio.ensure_future(self._finish_removal(touched))
        self._deletions[task] = None
        task.add_done_callback(self._deletions.pop)
