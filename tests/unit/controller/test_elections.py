"""Leaders are elected from replicas that hold everything, and from others only where that is allowed."""

from __future__ import annotations

import pytest

from ottla.controller.alter_partition import alter_partition
from ottla.controller.elections import balance_leaders, elect_leaders, elect_unclean_leaders
from ottla.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from ottla.controller.registrations import RECOVERING
from ottla.wire.errors import ErrorCode, InvalidRequest, StaleBrokerEpoch
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

from .cluster import Cluster

Moves = AlterPartitionReassignmentsRequest


def stop(cluster: Cluster, broker_id: int) -> None:
    """A controlled shutdown, to its end."""
    for other in cluster.epochs:
        if not cluster.image.brokers[other].fenced and other != broker_id:
            cluster.heartbeat(other)
    while not cluster.heartbeat(broker_id, want_shut_down=True).should_shut_down:
        for other in cluster.epochs:
            if not cluster.image.brokers[other].fenced and other != broker_id:
                cluster.heartbeat(other)


def restart(cluster: Cluster, broker_id: int, run: int = 2) -> None:
    cluster.register(broker_id, run=run, previous_epoch=cluster.epochs[broker_id])
    cluster.heartbeat(broker_id)


def elect(cluster: Cluster, kind: int, *partitions: int) -> list[tuple[int, str, str | None]]:
    wanted = None
    if partitions:
        wanted = [ElectLeadersRequest.TopicPartitions(topic="t", partitions=list(partitions))]
    response = cluster.do(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=wanted))
    return [
        (result.partition_id, ErrorCode(result.error_code).name, result.error_message)
        for topic in response.replica_election_results
        for result in topic.partition_result
    ]


def in_sync(cluster: Cluster, *brokers: int, **fields: int) -> AlterPartitionResponse.PartitionData:
    partition = cluster.partition("t")
    data = AlterPartitionRequest.PartitionData(
        partition_index=0,
        leader_epoch=fields.get("leader_epoch", partition.leader_epoch),
        new_isr_with_epochs=[
            AlterPartitionRequest.BrokerState(broker_id=b, broker_epoch=cluster.epochs.get(b, -1))
            for b in brokers
        ],
        leader_recovery_state=fields.get("recovery", 0),
        partition_epoch=fields.get("partition_epoch", partition.partition_epoch),
    )
    topic = AlterPartitionRequest.TopicData(topic_id=cluster.image.topics_by_name["t"].id, partitions=[data])
    sender = fields.get("sender", partition.leader)
    request = AlterPartitionRequest(broker_id=sender, broker_epoch=cluster.epochs[sender], topics=[topic])
    return cluster.do(alter_partition, request, 3).topics[0].partitions[0]


class TestIsr:
    def test_the_leader_shrinks_and_grows_it(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2, 3])
        answer = in_sync(cluster, 1, 2)
        assert (answer.error_code, answer.isr, answer.leader_epoch, answer.partition_epoch) == (
            0,
            [1, 2],
            0,
            1,
        )
        assert cluster.partition("t").isr == (1, 2)
        assert in_sync(cluster, 1, 2, 3).isr == [1, 2, 3]

    @pytest.mark.parametrize(
        ("brokers", "fields", "code"),
        [
            ((1, 2), {"leader_epoch": 5}, "NOT_CONTROLLER"),
            ((1, 2), {"partition_epoch": 5}, "NOT_CONTROLLER"),
            ((1, 2), {"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
            ((1, 2), {"sender": 2}, "INVALID_REQUEST"),
            ((1, 2), {"partition_epoch": -1}, "INVALID_UPDATE_VERSION"),
            ((1, 9), {}, "INVALID_REQUEST"),
            ((1, 1), {}, "INVALID_REQUEST"),
            ((2,), {}, "INVALID_REQUEST"),
            ((1, 2), {"recovery": 1}, "INVALID_REQUEST"),
            ((1, 3), {}, "INELIGIBLE_REPLICA"),
        ],
    )
    def test_a_wrong_proposal_is_refused(
        self, brokers: tuple[int, ...], fields: dict[str, int], code: str
    ) -> None:
        cluster = Cluster().start(1, 2)
        cluster.register(3)
        cluster.create("t", [1, 2, 3])
        assert ErrorCode(in_sync(cluster, *brokers, **fields).error_code).name == code

    def test_an_older_run_of_the_leader_is_stale(self) -> None:
        cluster = Cluster().start(1)
        with pytest.raises(StaleBrokerEpoch):
            cluster.do(alter_partition, AlterPartitionRequest(broker_id=1, broker_epoch=0), 3)


class TestEligibleLeaderReplicas:
    """min.insync.replicas=2 of three: who drops out below that stays eligible."""

    def cluster(self) -> Cluster:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2, 3], configs={"min.insync.replicas": "2"})
        return cluster

    def test_a_replica_that_leaves_below_the_minimum_becomes_eligible(self) -> None:
        cluster = self.cluster()
        stop(cluster, 3)
        assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1, 2), ())
        stop(cluster, 2)
        assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1,), (2,))

    def test_all_stop_and_the_first_eligible_one_leads_cleanly(self) -> None:
        cluster = self.cluster()
        for broker_id in (3, 2, 1):
            stop(cluster, broker_id)
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1, 2))
        restart(cluster, 3)
        assert cluster.partition("t").leader == -1
        restart(cluster, 2)
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.elr) == (2, (2,), (1,))
        assert partition.leader_recovery_state == 0

    def test_an_eligible_replica_that_was_killed_is_no_longer_eligible(self) -> None:
        cluster = self.cluster()
        for broker_id in (3, 2, 1):
            stop(cluster, broker_id)
        cluster.register(2, run=2)
        assert cluster.partition("t").elr == (1,)

    def test_back_above_the_minimum_nobody_is_remembered(self) -> None:
        cluster = self.cluster()
        stop(cluster, 3)
        stop(cluster, 2)
        restart(cluster, 2)
        assert in_sync(cluster, 1, 2).isr == [1, 2]
        assert cluster.partition("t").elr == ()


class TestByRequest:
    def test_the_preferred_replica_leads_again(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1, 2], [2, 1])
        stop(cluster, 1)
        restart(cluster, 1)
        assert cluster.partition("t").leader == 2
        assert elect(cluster, 0, 0) == [
            (0, "PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")
        ]
        assert in_sync(cluster, 2, 1).error_code == 0
        assert elect(cluster, 0, 0, 1, 7) == [
            (0, "NONE", None),
            (1, "ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."),
            (7, "UNKNOWN_TOPIC_OR_PARTITION", "No such partition as t-7"),
        ]
        assert cluster.partition("t").leader == 1

    def test_of_all_partitions_only_those_that_need_it_are_told(self) -> None:
        cluster = Cluster().start(1)
        cluster.create("t", [1])
        assert elect(cluster, 0) == []

    def test_an_unknown_kind_is_refused(self) -> None:
        with pytest.raises(InvalidRequest):
            elect(Cluster(), 2)

    def test_an_unclean_election_takes_who_is_alive_and_says_so(self) -> None:
        cluster = Cluster(features={"eligible.leader.replicas.version": 0}).start(1, 2)
        cluster.create("t", [1, 2])
        stop(cluster, 2)
        stop(cluster, 1)
        restart(cluster, 2)
        assert cluster.partition("t").leader == -1
        assert not cluster.do(elect_unclean_leaders)
        assert cluster.partition("t").leader == -1
        assert elect(cluster, 1, 0) == [(0, "NONE", None)]
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), RECOVERING)

    def test_a_topic_may_allow_unclean_elections_for_good(self) -> None:
        cluster = Cluster(features={"eligible.leader.replicas.version": 0}).start(1, 2)
        cluster.create("t", [1, 2], configs={"unclean.leader.election.enable": "true"})
        stop(cluster, 2)
        stop(cluster, 1)
        restart(cluster, 2)
        assert cluster.partition("t").leader == 2

    def test_the_balance_gives_leaderships_back_in_rounds(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1, 2], [1, 2])
        stop(cluster, 1)
        restart(cluster, 1)
        assert not cluster.do(balance_leaders)
        assert cluster.partition("t").leader == 2
        in_sync(cluster, 2, 1)
        assert cluster.do(balance_leaders, 1)
        assert cluster.partition("t").leader == 1


class TestReassignment:
    def move(self, cluster: Cluster, replicas: list[int] | None, **fields: bool) -> tuple[str, str | None]:
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=0, replicas=replicas
        )
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="t", partitions=[partition])
        request = AlterPartitionReassignmentsRequest(topics=[topic], **fields)  # type: ignore[arg-type]
        answer = cluster.do(alter_partition_reassignments, request).responses[0].partitions[0]
        return ErrorCode(answer.error_code).name, answer.error_message

    def test_it_ends_when_the_new_replicas_are_in_sync(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2])
        assert self.move(cluster, [3, 2]) == ("NONE", None)
        partition = cluster.partition("t")
        assert (partition.replicas, partition.adding, partition.removing) == ((3, 2, 1), (3,), (1,))
        listed = list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest(topics=None))
        assert listed.topics[0].partitions[0].adding_replicas == [3]
        answer = in_sync(cluster, 1, 2, 3)
        assert ErrorCode(answer.error_code).name == "NEW_LEADER_ELECTED"
        partition = cluster.partition("t")
        assert (partition.replicas, partition.isr, partition.leader) == ((3, 2), (2, 3), 3)
        assert not partition.is_reassigning

    def test_it_can_be_called_off(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1])
        assert self.move(cluster, None) == ("NO_REASSIGNMENT_IN_PROGRESS", None)
        self.move(cluster, [2])
        assert self.move(cluster, None) == ("NONE", None)
        partition = cluster.partition("t")
        assert (partition.replicas, partition.leader, partition.is_reassigning) == ((1,), 1, False)

    def test_the_number_of_replicas_may_be_held(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1])
        assert self.move(cluster, [1, 2], allow_replication_factor_change=False) == (
            "INVALID_REPLICATION_FACTOR",
            "The replication factor is changed from 1 to 2",
        )
        assert self.move(cluster, [1, 2]) == ("NONE", None)

    def test_unknown_brokers_are_refused(self) -> None:
        cluster = Cluster().start(1)
        cluster.create("t", [1])
        assert self.move(cluster, [9])[0] == "INVALID_REPLICA_ASSIGNMENT"

    def test_replicas_can_be_added_and_removed(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2])
        assert self.move(cluster, [1, 2, 3]) == ("NONE", None)
        partition = cluster.partition("t")
        assert (partition.replicas, partition.adding, partition.removing) == ((1, 2, 3), (3,), ())
        assert in_sync(cluster, 1, 2, 3).error_code == 0
        assert not cluster.partition("t").is_reassigning
        assert self.move(cluster, [2, 3]) == ("NONE", None)  # all are in sync: done at once
        partition = cluster.partition("t")
        assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (2, 3), 2)

    def test_a_replica_is_removed_once_those_that_stay_are_in_sync(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2, 3])
        in_sync(cluster, 1, 3)
        self.move(cluster, [1, 2])
        partition = cluster.partition("t")
        assert (partition.replicas, partition.removing) == ((1, 2, 3), (3,))
        in_sync(cluster, 1, 2, 3)
        assert cluster.partition("t").replicas == (1, 2)

    def test_whoever_is_removed_cannot_go_on_in_the_same_epoch(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2, 3])
        self.move(cluster, [1, 2])
        partition = cluster.partition("t")
        assert (partition.leader, partition.leader_epoch) == (1, 1)

    def test_one_that_is_replaced_on_its_way_forgets_what_is_not_wanted_any_more(self) -> None:
        cluster = Cluster().start(1, 2, 3, 4)
        cluster.create("t", [1, 2])
        self.move(cluster, [3, 2])
        self.move(cluster, [1, 2])
        partition = cluster.partition("t")
        assert (partition.replicas, partition.isr, partition.is_reassigning) == ((1, 2), (1, 2), False)
        self.move(cluster, [3, 2])
        self.move(cluster, [3, 2, 1])
        partition = cluster.partition("t")
        assert (partition.replicas, partition.adding, partition.removing) == ((3, 2, 1), (3,), ())
        self.move(cluster, [3, 4])
        partition = cluster.partition("t")
        assert (partition.replicas, partition.adding, partition.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
        assert self.move(cluster, None) == ("NONE", None)
        assert cluster.partition("t").replicas == (1, 2)

    def test_a_replica_that_was_removed_is_not_eligible_to_lead(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2], configs={"min.insync.replicas": "2"})
        stop(cluster, 2)
        assert cluster.partition("t").elr == (2,)
        self.move(cluster, [1, 3])
        in_sync(cluster, 1, 3)
        partition = cluster.partition("t")
        assert (partition.replicas, partition.isr, partition.elr) == ((1, 3), (1, 3), ())

    def test_calling_it_off_may_not_lose_records_unless_the_topic_allows_it(self) -> None:
        for allowed, answer in (("false", "INVALID_REPLICA_ASSIGNMENT"), ("true", "NONE")):
            cluster = Cluster().start(1, 2, 3)
            cluster.create("t", [1], configs={"unclean.leader.election.enable": allowed})
            self.move(cluster, [2, 3])
            in_sync(cluster, 1, 2)
            stop(cluster, 1)
            assert cluster.partition("t").isr == (2,)
            assert self.move(cluster, None)[0] == answer

    def test_a_request_is_bounded(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", *[[1]] * 3)
        partitions = [
            Moves.ReassignablePartition(partition_index=index % 3, replicas=[2]) for index in range(10_001)
        ]
        request = Moves(topics=[Moves.ReassignableTopic(name="t", partitions=partitions)])
        answers = alter_partition_reassignments(cluster.state, request).response.responses[0].partitions
        assert [answer.error_code for answer in answers[-2:]] == [0, ErrorCode.POLICY_VIOLATION]
