"""What a test of the controller knows and the controller does not: processes, and who holds which records."""

from __future__ import annotations

from ottla.controller.registrations import NO_LEADER, RECOVERING, PartitionRegistration
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import ClearElrRecord, PartitionChangeRecord, PartitionRecord

from .cluster import Cluster, identifier

Key = tuple[bytes, int]
"""The id of a topic and the number of a partition."""


class Process:
    """One broker as it really is."""

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.is_running = False
        self.runs = 0
        self.clean_epoch = -1
        self.disks = 2
        self.directories = [identifier("directory", broker_id, disk) for disk in range(2)]


class Watched(Cluster):
    """A cluster in which every record is looked at before and after it is replayed."""

    def __init__(self, *, is_elr_enabled: bool) -> None:
        self.is_elr_enabled = is_elr_enabled
        self.complete: dict[Key, set[int]] = {}
        self.may_be_unclean = False  # what is asked for now may choose an unclean leader
        super().__init__(features={"eligible.leader.replicas.version": int(is_elr_enabled)})

    def apply(self, records: list[Message]) -> None:
        for record in records:
            before = self._partitions_of(record)
            super().apply([record])
            for key, old in before.items():
                new = self.image.topics[key[0]].partitions[key[1]]
                if old is None:
                    self.complete[key] = set(new.isr)
                else:
                    self._check_change(key, old, new)
        for key in [key for key in self.complete if key[0] not in self.image.topics]:
            del self.complete[key]

    def _partitions_of(self, record: Message) -> dict[Key, PartitionRegistration | None]:
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            key = (record.topic_id, record.partition_id)
            return {key: self.image.topics[key[0]].partitions.get(key[1])}
        if isinstance(record, ClearElrRecord):
            return {
                (topic.id, index): partition
                for topic in self.image.topics.values()
                for index, partition in topic.partitions.items()
            }
        return {}

    def _check_change(self, key: Key, old: PartitionRegistration, new: PartitionRegistration) -> None:
        if new == old:
            return
        assert new.partition_epoch == old.partition_epoch + 1
        assert new.leader_epoch in (old.leader_epoch, old.leader_epoch + 1)
        if new.leader != old.leader or not set(old.replicas) <= set(new.replicas):
            assert new.leader_epoch == old.leader_epoch + 1
        complete = self.complete[key]
        complete &= set(new.replicas)
        if new.leader in (old.leader, NO_LEADER):
            return
        if new.leader not in complete:
            topic = self.image.topics[key[0]]
            is_allowed = self.may_be_unclean or self.state.is_unclean_election_enabled(topic)
            assert is_allowed or old.last_known_elr == (new.leader,), (old, new, complete)
            if not (self.may_be_unclean and old.is_reassigning):  # a cancelled reassignment does not say it
                assert new.leader_recovery_state == RECOVERING, (old, new, complete)
            assert new.isr == (new.leader,)
            self.complete[key] = {new.leader}
        else:
            assert set(new.isr) <= complete, (old, new, complete)

    def commit(self) -> None:
        """Something is committed wherever that is possible."""
        for topic in self.image.topics.values():
            text = self.image.topic_config(topic.name).get("min.insync.replicas", "1")
            for index, partition in topic.partitions.items():
                minimum = min(int(text), len(partition.replicas))
                if partition.leader != NO_LEADER and len(partition.isr) >= minimum:
                    self.complete[topic.id, index] = set(partition.isr)

    def loses(self, broker_id: int, directory: bytes | None = None) -> None:
        """A broker has lost what it had, or what it had in one directory."""
        if not self.is_elr_enabled:
            return  # without eligible leader replicas Kafka takes the last one in sync for complete
        for topic in self.image.topics.values():
            for index, partition in topic.partitions.items():
                if broker_id not in partition.replicas:
                    continue
                if directory in (None, partition.directory_of(broker_id)):
                    self.complete[topic.id, index].discard(broker_id)
