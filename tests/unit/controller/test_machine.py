"""Random lives of a cluster of five brokers, decided by the controller: what must hold at every record.

Beside the controller's state the machine keeps what it cannot see: which processes run, and for every
partition which replicas hold all that may have been committed. As an adversary it supposes that something is
committed as soon as enough replicas are in sync, that a killed broker loses its tail, and that a lost
directory is empty when it comes back. No replica may lead then that lacks something, unless the election
was unclean where that was allowed and says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.controller.alter_partition import alter_partition
from ottla.controller.brokers import fence_stale_broker, unregister_broker
from ottla.controller.configs import incremental_alter_configs
from ottla.controller.create_partitions import create_partitions
from ottla.controller.directory_assignments import assign_replicas_to_dirs
from ottla.controller.elections import balance_leaders, elect_leaders, elect_unclean_leaders
from ottla.controller.image import ClusterImage
from ottla.controller.producer_ids import allocate_producer_ids
from ottla.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from ottla.controller.registrations import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    PartitionRegistration,
    Topic,
)
from ottla.controller.result import finished
from ottla.controller.state import ControllerState
from ottla.controller.topics import create_topics, delete_topics
from ottla.wire.errors import DuplicateBrokerRegistration, ErrorCode
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

from .cluster import identifier
from .watched import Process, Watched

BROKERS = (1, 2, 3, 4, 5)
TOPICS_MAX = 4
SHUTDOWN_ROUNDS_MAX = 10
Altering = AlterPartitionRequest
Assigning = AssignReplicasToDirsRequest
Config = CreateTopicsRequest.CreatableTopicConfig
Configuring = IncrementalAlterConfigsRequest
Moving = AlterPartitionReassignmentsRequest

brokers = st.sampled_from(BROKERS)
choices = st.integers(0, 1 << 30)


class ControllerMachine(RuleBasedStateMachine):
    @initialize(is_elr_enabled=st.booleans(), racks=st.sampled_from(["", "ab", "abc", "a-b"]))
    def begin(self, is_elr_enabled: bool, racks: str) -> None:
        self.cluster = Watched(is_elr_enabled=is_elr_enabled)
        self.processes = {broker_id: Process(broker_id) for broker_id in BROKERS}
        self.racks: list[str | None] = [None if rack == "-" else rack for rack in racks] or [None]
        self.names = 0
        self.producer_ids = 0
        for broker_id in BROKERS[:3]:
            self.start(broker_id)

    # What is there

    def pick(self, choice: int) -> tuple[Topic, int, PartitionRegistration] | None:
        located = [
            (topic, index, partition)
            for topic in self.cluster.image.topics.values()
            for index, partition in topic.partitions.items()
        ]
        return located[choice % len(located)] if located else None

    def running(self) -> list[int]:
        return [process.id for process in self.processes.values() if process.is_running]

    def everyone_reads(self, *, but: int = 0) -> None:
        for broker_id in self.running():
            if broker_id != but:
                self.cluster.heartbeat(broker_id)

    # Brokers come and go

    @rule(broker_id=brokers)
    def start(self, broker_id: int) -> None:
        process, cluster = self.processes[broker_id], self.cluster
        if process.is_running:
            return
        old = cluster.image.brokers.get(broker_id)
        is_clean = old is not None and process.clean_epoch == old.epoch
        if old is not None and cluster.state.heartbeats.has_session(old.id, old.epoch, cluster.state.now_ms):
            assert not is_clean
            with pytest.raises(DuplicateBrokerRegistration):
                self.register(process)
            self.time_passes()
        if not is_clean:
            cluster.loses(broker_id)
        self.register(process)
        process.is_running = True
        process.runs += 1
        process.clean_epoch = -1
        response = cluster.heartbeat(broker_id, current_metadata_offset=-1)
        assert response.is_fenced
        assert not cluster.heartbeat(broker_id).is_fenced

    def register(self, process: Process) -> None:
        self.cluster.register(
            process.id,
            rack=self.racks[process.id % len(self.racks)],
            directories=process.directories,
            run=process.runs,
            previous_epoch=process.clean_epoch,
        )

    @rule(broker_id=brokers)
    def kill(self, broker_id: int) -> None:
        self.processes[broker_id].is_running = False

    @rule()
    def time_passes(self) -> None:
        """A session passes, in which those who run are heard of, and those who do not are fenced."""
        state = self.cluster.state
        state.now_ms += state.settings.session_timeout_ms + 1
        self.everyone_reads()
        while self.cluster.do(fence_stale_broker):
            pass
        for broker in self.cluster.image.brokers.values():
            assert broker.fenced != self.processes[broker.id].is_running

    @rule(broker_id=brokers)
    def shut_down(self, broker_id: int) -> None:
        if not self.processes[broker_id].is_running:
            return
        for _ in range(SHUTDOWN_ROUNDS_MAX):
            if self.cluster.heartbeat(broker_id, want_shut_down=True).should_shut_down:
                break
            self.time_passes_for_others(broker_id)
        else:
            raise AssertionError("The controlled shutdown does not end.")
        assert self.cluster.image.brokers[broker_id].fenced
        self.processes[broker_id].is_running = False
        self.processes[broker_id].clean_epoch = self.cluster.epochs[broker_id]

    def time_passes_for_others(self, broker_id: int) -> None:
        """The others read the log; whoever does not run any more is found out."""
        state = self.cluster.state
        self.everyone_reads(but=broker_id)
        state.now_ms += state.settings.session_timeout_ms // 2
        self.everyone_reads(but=broker_id)
        while self.cluster.do(fence_stale_broker):
            pass

    @rule(broker_id=brokers, wants_fence=st.booleans(), lag=st.integers(0, 5))
    def heartbeat(self, broker_id: int, wants_fence: bool, lag: int) -> None:
        if self.processes[broker_id].is_running:
            offset = self.cluster.state.next_offset - 1 - lag
            self.cluster.heartbeat(broker_id, want_fence=wants_fence, current_metadata_offset=offset)

    @rule(broker_id=brokers)
    def unregister(self, broker_id: int) -> None:
        if broker_id in self.cluster.image.brokers:
            self.processes[broker_id].is_running = False
            self.cluster.do(unregister_broker, UnregisterBrokerRequest(broker_id=broker_id))

    @rule()
    def another_controller_takes_over(self) -> None:
        old = self.cluster.state
        image = ClusterImage()
        for offset, record in enumerate(self.cluster.log, 1):
            image.offset = offset
            image.replay(record)
        self.cluster.state = ControllerState(
            image,
            old.settings,
            old.rules,
            next_offset=old.next_offset,
            now_ms=old.now_ms,
            kraft_version=0,
            random_bytes=old.random_bytes,
            random_below=old.random_below,
        )

    # Directories

    @rule(broker_id=brokers, also_beats=st.booleans())
    def lose_directory(self, broker_id: int, also_beats: bool) -> None:
        process = self.processes[broker_id]
        if len(process.directories) < 2:
            return
        lost = process.directories.pop(0)
        self.cluster.loses(broker_id, lost)
        if process.is_running:
            self.cluster.heartbeat(broker_id, offline_log_dirs=[lost])

    @rule(broker_id=brokers)
    def new_disk(self, broker_id: int) -> None:
        process = self.processes[broker_id]
        if not process.is_running and len(process.directories) < 2:
            process.directories.append(identifier("directory", broker_id, process.disks))
            process.disks += 1

    @rule(broker_id=brokers, choice=choices)
    def assign_directories(self, broker_id: int, choice: int) -> None:
        """A broker tells where its replicas are, all that the controller does not know to be in place."""
        process = self.processes[broker_id]
        if not process.is_running:
            return
        directory = process.directories[choice % len(process.directories)]
        topics = []
        for topic in self.cluster.image.topics.values():
            indexes = [
                index
                for index, partition in topic.partitions.items()
                if broker_id in partition.replicas
                and partition.directory_of(broker_id) not in process.directories
            ]
            partitions = [Assigning.PartitionData(partition_index=index) for index in indexes]
            topics.append(Assigning.TopicData(topic_id=topic.id, partitions=partitions))
        request = Assigning(
            broker_id=broker_id,
            broker_epoch=self.cluster.epochs[broker_id],
            directories=[Assigning.DirectoryData(id=directory, topics=topics)],
        )
        for answer in self.cluster.do(assign_replicas_to_dirs, request).directories[0].topics:
            assert {partition.error_code for partition in answer.partitions} <= {0}
            for asked in answer.partitions:
                partition = self.cluster.image.topics[answer.topic_id].partitions[asked.partition_index]
                can_lead = broker_id in partition.isr and self.may_lead(partition, broker_id)
                assert partition.leader != NO_LEADER or not can_lead

    # Topics

    @rule(
        partitions=st.integers(1, 4),
        replicas=st.integers(1, 4),
        minimum=st.integers(1, 3),
        is_unclean=st.sampled_from([False, False, False, True]),
    )
    def create(self, partitions: int, replicas: int, minimum: int, is_unclean: bool) -> None:
        if len(self.cluster.image.topics) == TOPICS_MAX:
            return
        self.names += 1
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"topic-{self.names}",
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[
                Config(name="min.insync.replicas", value=str(minimum)),
                Config(name="unclean.leader.election.enable", value=str(is_unclean).lower()),
            ],
        )
        response = self.cluster.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]
        assert response.error_code in (0, ErrorCode.INVALID_REPLICATION_FACTOR)
        active = [b.id for b in self.cluster.image.brokers.values() if b.is_active]
        if response.error_code == 0:
            made = self.cluster.image.topics_by_name[topic.name].partitions.values()
            assert all(len(set(partition.replicas)) == replicas for partition in made)
        else:
            assert len(self.cluster.image.brokers) < replicas or len(active) < len(self.cluster.image.brokers)

    @rule(choice=choices)
    def delete(self, choice: int) -> None:
        found = self.pick(choice)
        if found is not None and len(self.cluster.image.topics) == TOPICS_MAX:
            state = DeleteTopicsRequest.DeleteTopicState(name=found[0].name)
            self.cluster.do(delete_topics, DeleteTopicsRequest(topics=[state]), 6)
            assert found[0].name not in self.cluster.image.topics_by_name

    @rule(choice=choices)
    def add_partition(self, choice: int) -> None:
        found = self.pick(choice)
        if found is not None and len(found[0].partitions) < 5:
            count = len(found[0].partitions) + 1
            topic = CreatePartitionsRequest.CreatePartitionsTopic(
                name=found[0].name, count=count, assignments=None
            )
            self.cluster.do(create_partitions, CreatePartitionsRequest(topics=[topic]))

    @rule(
        choice=choices,
        setting=st.sampled_from(
            [("min.insync.replicas", "1"), ("min.insync.replicas", "2"), ("min.insync.replicas", "3")]
            + [("unclean.leader.election.enable", "true"), ("unclean.leader.election.enable", "false")]
        ),
    )
    def configure(self, choice: int, setting: tuple[str, str]) -> None:
        found = self.pick(choice)
        if found is None:
            return
        config = Configuring.AlterableConfig(name=setting[0], config_operation=0, value=setting[1])
        resource = Configuring.AlterConfigsResource(
            resource_type=2, resource_name=found[0].name, configs=[config]
        )
        response = self.cluster.do(incremental_alter_configs, Configuring(resources=[resource]))
        assert response.responses[0].error_code == 0

    # In sync or not

    @rule(choice=choices, members=st.sets(brokers))
    def alter_isr(self, choice: int, members: set[int]) -> None:
        found = self.pick(choice)
        if found is not None:
            self.propose(*found, [r for r in found[2].replicas if r in members or r == found[2].leader])

    def propose(
        self, topic: Topic, index: int, partition: PartitionRegistration, isr: Sequence[int]
    ) -> ErrorCode | None:
        """What a leader asks for, if there is one that runs; replicas that it adds have caught up."""
        leader = partition.leader
        if leader == NO_LEADER or not self.processes[leader].is_running:
            return None
        data = Altering.PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                Altering.BrokerState(broker_id=member, broker_epoch=self.cluster.epochs.get(member, -1))
                for member in isr
            ],
        )
        request = Altering(
            broker_id=leader,
            broker_epoch=self.cluster.epochs[leader],
            topics=[Altering.TopicData(topic_id=topic.id, partitions=[data])],
        )
        result = finished(alter_partition(self.cluster.state, request, 3))
        answer = result.response.topics[0].partitions[0]
        code = ErrorCode(answer.error_code)
        assert code in (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NEW_LEADER_ELECTED)
        assert (code is ErrorCode.INELIGIBLE_REPLICA) == (
            not all(self.cluster.state.is_active(member) for member in isr)
        )
        if code is not ErrorCode.INELIGIBLE_REPLICA:
            self.cluster.complete[topic.id, index] |= set(isr)
        self.cluster.apply(list(result.records))
        after = self.cluster.image.topics[topic.id].partitions[index]
        if code is ErrorCode.NONE:
            assert (answer.leader_id, answer.leader_epoch, answer.partition_epoch, answer.isr) == (
                after.leader,
                after.leader_epoch,
                after.partition_epoch,
                list(after.isr),
            )
            assert after.leader_recovery_state == answer.leader_recovery_state == 0
        return code

    @rule(choice=choices, leader_lag=st.integers(-1, 1), lag=st.integers(-1, 1))
    def alter_isr_of_another_time(self, choice: int, leader_lag: int, lag: int) -> None:
        found = self.pick(choice)
        if found is None or (leader_lag, lag) == (0, 0) or found[2].leader == NO_LEADER:
            return
        topic, index, partition = found
        data = Altering.PartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch - leader_lag,
            partition_epoch=partition.partition_epoch - lag,
            new_isr_with_epochs=[Altering.BrokerState(broker_id=partition.leader)],
        )
        topic_data = Altering.TopicData(topic_id=topic.id, partitions=[data])
        epoch = self.cluster.epochs[partition.leader]
        request = Altering(broker_id=partition.leader, broker_epoch=epoch, topics=[topic_data])
        before = len(self.cluster.log)
        code = self.cluster.do(alter_partition, request, 3).topics[0].partitions[0].error_code
        if -1 in (leader_lag, lag):
            assert code == ErrorCode.NOT_CONTROLLER
        else:
            assert code == (ErrorCode.FENCED_LEADER_EPOCH if leader_lag else ErrorCode.INVALID_UPDATE_VERSION)
        assert len(self.cluster.log) == before

    # Elections

    @rule(kind=st.sampled_from([0, 0, 1]))
    def elect(self, kind: int) -> None:
        self.cluster.may_be_unclean = kind == 1
        self.cluster.do(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=None))
        self.cluster.may_be_unclean = False

    @rule()
    def balance(self) -> None:
        while self.cluster.do(balance_leaders, 3):
            pass
        for topic in self.cluster.image.topics.values():
            for partition in topic.partitions.values():
                preferred = partition.preferred_leader
                is_possible = preferred in partition.isr and self.may_lead(partition, preferred)
                assert partition.leader == preferred or not is_possible

    @rule()
    def elect_unclean(self) -> None:
        while self.cluster.do(elect_unclean_leaders, 3):
            pass

    def may_lead(self, partition: PartitionRegistration, broker_id: int) -> bool:
        state = self.cluster.state
        return state.is_active(broker_id) and state.has_online_directory(
            broker_id, partition.directory_of(broker_id)
        )

    # Reassignments

    def move(self, topic: Topic, index: int, replicas: list[int] | None) -> int:
        wanted = Moving.ReassignablePartition(partition_index=index, replicas=replicas)
        request = Moving(topics=[Moving.ReassignableTopic(name=topic.name, partitions=[wanted])])
        return self.cluster.do(alter_partition_reassignments, request).responses[0].partitions[0].error_code

    @rule(choice=choices, wanted=st.lists(brokers, unique=True, min_size=1, max_size=4))
    def reassign(self, choice: int, wanted: list[int]) -> None:
        found = self.pick(choice)
        if found is None:
            return
        code = self.move(found[0], found[1], wanted)
        if not set(wanted) <= set(self.cluster.image.brokers):
            assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            return
        assert code == 0
        after = found[0].partitions[found[1]]
        assert [r for r in after.replicas if r not in after.removing] == wanted

    @rule(choice=choices)
    def cancel(self, choice: int) -> None:
        found = self.pick(choice)
        if found is None:
            return
        topic, index, before = found
        self.cluster.may_be_unclean = self.cluster.state.is_unclean_election_enabled(topic)
        code = self.move(topic, index, None)
        self.cluster.may_be_unclean = False
        after = topic.partitions[index]
        if not before.is_reassigning:
            assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        elif code == 0:
            assert not after.is_reassigning
            assert after.replicas == tuple(r for r in before.replicas if r not in before.adding)
            if not set(before.isr) - set(before.adding):  # the first replica is in sync by decree
                self.cluster.complete[topic.id, index] = set(after.isr)
        else:
            assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert not set(before.isr) - set(before.adding)

    @rule()
    def reassignments_end(self) -> None:
        """Where the leader and all of the new replicas are there, one proposal ends it."""
        for topic in list(self.cluster.image.topics.values()):
            for index, partition in list(topic.partitions.items()):
                target = [r for r in partition.replicas if r not in partition.removing]
                wanted = list(dict.fromkeys([*partition.isr, *target]))
                if not partition.is_reassigning or not all(map(self.cluster.state.is_active, wanted)):
                    continue
                if self.propose(topic, index, partition, wanted) is None:
                    continue
                after = topic.partitions[index]
                assert not after.is_reassigning
                assert list(after.replicas) == target

    # Other matters

    @precondition(lambda self: self.running())
    @rule(choice=choices)
    def allocate(self, choice: int) -> None:
        running = self.running()
        broker_id = running[choice % len(running)]
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=self.cluster.epochs[broker_id])
        response = self.cluster.do(allocate_producer_ids, request)
        assert response.producer_id_start >= self.producer_ids
        self.producer_ids = response.producer_id_start + response.producer_id_len

    # What always holds

    @invariant()
    def every_partition_is_sound(self) -> None:
        for topic in self.cluster.image.topics.values():
            for partition in topic.partitions.values():
                self.check(partition)
        self.cluster.commit()

    def check(self, partition: PartitionRegistration) -> None:
        replicas, isr, elr = partition.replicas, partition.isr, partition.elr
        assert len(set(replicas)) == len(replicas) == len(partition.directories) > 0
        assert len({*isr, *elr}) == len(isr) + len(elr)
        assert {*isr, *elr} <= set(replicas)
        assert set(partition.adding) <= set(replicas)
        assert set(partition.removing) <= set(replicas)
        assert not set(partition.adding) & set(partition.removing)
        assert partition.leader != NO_LEADER_CHANGE
        assert partition.leader_epoch <= partition.partition_epoch
        if partition.leader != NO_LEADER:
            assert partition.leader in isr
            assert self.may_lead(partition, partition.leader)
            assert not partition.last_known_elr
        if not all(map(self.cluster.state.is_active, isr)):
            assert partition.leader == NO_LEADER
            assert len(isr) == 1
        if not self.cluster.is_elr_enabled:
            assert not elr
            assert not partition.last_known_elr

    @invariant()
    def what_is_reassigned_is_listed(self) -> None:
        request = ListPartitionReassignmentsRequest(topics=None)
        listed = {
            (topic.name, partition.partition_index)
            for topic in list_partition_reassignments(self.cluster.image, request).topics
            for partition in topic.partitions
        }
        assert listed == {
            (topic.name, index)
            for topic in self.cluster.image.topics.values()
            for index, partition in topic.partitions.items()
            if partition.is_reassigning
        }

    def teardown(self) -> None:
        """The log alone gives the same state, and so does its snapshot."""
        if not hasattr(self, "cluster"):
            return
        for records in (self.cluster.log, list(self.cluster.image.to_records())):
            image = ClusterImage()
            for record in records:
                image.replay(record)
            assert image == self.cluster.image


TestControllerMachine = ControllerMachine.TestCase
TestControllerMachine.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
