"""Brokers register, are unfenced, shut down and vanish; their partitions follow as Kafka makes them."""

from __future__ import annotations

import pytest

from ottla.controller.brokers import (
    broker_heartbeat,
    fence_stale_broker,
    register_broker,
    register_controller,
    unregister_broker,
)
from ottla.controller.directory_assignments import assign_replicas_to_dirs
from ottla.controller.feature_levels import SUPPORTED_FEATURES
from ottla.controller.registrations import RECOVERED, RECOVERING
from ottla.wire.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    ErrorCode,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest as Assigning
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

from .cluster import CLUSTER_ID, Cluster, identifier


def registration(**fields: object) -> BrokerRegistrationRequest:
    given: dict[str, object] = {
        "broker_id": 1,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": identifier("new"),
        "features": [
            BrokerRegistrationRequest.Feature(
                name=name, min_supported_version=low, max_supported_version=high
            )
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        "listeners": [BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="localhost", port=9092)],
        "log_dirs": [identifier("directory", 1, 0)],
        **fields,
    }
    return BrokerRegistrationRequest(**given)  # type: ignore[arg-type]


def test_a_registered_broker_is_fenced_and_its_epoch_is_the_offset_of_its_record() -> None:
    cluster = Cluster()
    offset = cluster.state.next_offset
    assert cluster.register(1) == offset
    broker = cluster.image.brokers[1]
    assert broker.fenced
    assert broker.epoch == offset == cluster.image.registration_offsets[1]


def test_a_heartbeat_unfences_once_the_broker_has_read_its_own_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(1)
    early = cluster.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    late = cluster.heartbeat(1, current_metadata_offset=epoch)
    assert (late.is_caught_up, late.is_fenced) == (True, False)
    assert not cluster.image.brokers[1].fenced
    before = len(cluster.log)
    cluster.heartbeat(1)
    assert len(cluster.log) == before


def test_a_broker_that_wants_to_stay_fenced_stays_fenced() -> None:
    cluster = Cluster()
    cluster.register(1)
    assert cluster.heartbeat(1, want_fence=True).is_fenced


def test_the_same_run_may_register_again_and_keeps_its_epoch_and_state() -> None:
    cluster = Cluster().start(1)
    epoch = cluster.epochs[1]
    assert cluster.register(1) == epoch
    assert not cluster.image.brokers[1].fenced
    assert cluster.image.registration_offsets[1] > epoch


def test_another_broker_with_the_same_id_is_refused_while_the_first_is_alive() -> None:
    cluster = Cluster().start(1)
    with pytest.raises(DuplicateBrokerRegistration):
        cluster.register(1, run=2)
    assert cluster.state.image.brokers[1].incarnation_id == identifier("run", 1, 1)
    cluster.state.now_ms += cluster.state.settings.session_timeout_ms + 1
    cluster.register(1, run=2)
    assert cluster.image.brokers[1].fenced


def test_a_fenced_broker_that_is_alive_keeps_its_id_too() -> None:
    cluster = Cluster()
    cluster.register(1)
    cluster.heartbeat(1, want_fence=True)
    with pytest.raises(DuplicateBrokerRegistration):
        cluster.register(1, run=2)


def test_a_broker_that_was_let_go_may_come_back_at_once() -> None:
    cluster = Cluster().start(1)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.register(1, run=2)


def test_heartbeats_of_nobody_leave_no_trace() -> None:
    cluster = Cluster()
    for epoch in range(3):
        with pytest.raises(StaleBrokerEpoch):
            cluster.do(broker_heartbeat, BrokerHeartbeatRequest(broker_id=9, broker_epoch=epoch))
    assert not cluster.state.heartbeats.contacts


def test_a_broker_in_the_controllers_own_process_need_not_wait_for_its_last_run() -> None:
    cluster = Cluster().start(1)
    response = cluster.do(register_broker, registration(), 4, is_local=True)
    assert response.broker_epoch > cluster.epochs[1]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, InconsistentClusterId),
        ({"is_migrating_zk_broker": True}, BrokerIdNotRegistered),
        ({"broker_id": -7}, InvalidRegistration),
        ({"listeners": []}, InvalidRegistration),
        (
            {"listeners": [BrokerRegistrationRequest.Listener(name="", host="localhost", port=9092)]},
            InvalidRegistration,
        ),
        (
            {"listeners": [BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="", port=9092)]},
            InvalidRegistration,
        ),
        (
            {"listeners": [BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="localhost", port=0)]},
            InvalidRegistration,
        ),
        ({"log_dirs": []}, InvalidRegistration),
        ({"log_dirs": [bytes(16)]}, InvalidRegistration),
        ({"log_dirs": [b"a" * 16, b"a" * 16]}, InvalidRegistration),
        ({"log_dirs": [identifier("directory", 2, 0)]}, InvalidRegistration),
        ({"features": []}, InvalidRegistration),
        (
            {"listeners": [BrokerRegistrationRequest.Listener(name="X", security_protocol=9)]},
            InvalidRegistration,
        ),
        (
            {
                "features": [
                    BrokerRegistrationRequest.Feature(name="metadata.version", max_supported_version=29)
                ]
            },
            UnsupportedVersion,
        ),
    ],
)
def test_a_registration_that_cannot_be_is_refused(fields: dict[str, object], error: type[Exception]) -> None:
    cluster = Cluster().start(2)
    with pytest.raises(error):
        cluster.do(register_broker, registration(**fields), 4)


def test_a_broker_must_know_every_finalized_feature() -> None:
    features = [feature for feature in registration().features if feature.name != "transaction.version"]
    with pytest.raises(UnsupportedVersion) as refused:
        Cluster().do(register_broker, registration(features=features), 4)
    assert refused.value.message == (
        "Unable to register because the broker does not support finalized version 2 of transaction.version. "
        "The broker wants a version between 0 and 0, inclusive."
    )


def test_a_heartbeat_of_an_older_run_is_stale() -> None:
    cluster = Cluster().start(1)
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=cluster.epochs[1] - 1)
    with pytest.raises(StaleBrokerEpoch):
        cluster.do(broker_heartbeat, request)
    with pytest.raises(StaleBrokerEpoch):
        cluster.do(broker_heartbeat, BrokerHeartbeatRequest(broker_id=9))


class TestOneNode:
    """What Kafka writes when the only broker stops and starts, record by record."""

    def test_a_controlled_shutdown_leaves_the_replica_eligible(self) -> None:
        cluster = Cluster().start(1)
        cluster.create("t", [1])
        before = len(cluster.log)
        assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
        leaving, change = cluster.log[before:]
        assert leaving == BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=cluster.epochs[1], in_controlled_shutdown=1
        )
        assert change == PartitionChangeRecord(
            partition_id=0,
            topic_id=cluster.image.topics_by_name["t"].id,
            isr=[],
            leader=-1,
            eligible_leader_replicas=[1],
            last_known_elr=[1],
        )
        before = len(cluster.log)
        assert cluster.heartbeat(1, want_shut_down=True).should_shut_down
        assert cluster.log[before:] == [
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=cluster.epochs[1], fenced=1)
        ]

    def test_after_a_clean_stop_it_leads_again_without_recovery(self) -> None:
        cluster = Cluster().start(1)
        cluster.create("t", [1])
        cluster.heartbeat(1, want_shut_down=True)
        cluster.heartbeat(1, want_shut_down=True)
        before = len(cluster.log)
        cluster.register(1, run=2, previous_epoch=cluster.epochs[1])
        cluster.heartbeat(1)
        registered, unfenced, change = cluster.log[before:]
        assert isinstance(registered, RegisterBrokerRecord)
        assert unfenced == BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=cluster.epochs[1], fenced=-1
        )
        assert change == PartitionChangeRecord(
            partition_id=0,
            topic_id=cluster.image.topics_by_name["t"].id,
            isr=[1],
            leader=1,
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
        partition = cluster.partition("t")
        assert (partition.leader, partition.leader_epoch, partition.leader_recovery_state) == (
            1,
            2,
            RECOVERED,
        )

    def test_after_a_kill_it_is_elected_as_the_last_known_leader(self) -> None:
        cluster = Cluster().start(1)
        cluster.create("t", [1])
        cluster.state.now_ms += 60_000
        cluster.register(1, run=2)
        lost = cluster.partition("t")
        assert (lost.leader, lost.isr, lost.elr, lost.last_known_elr) == (-1, (), (), (1,))
        cluster.heartbeat(1)
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), RECOVERING)
        assert partition.last_known_elr == ()

    def test_without_eligible_leader_replicas_the_last_one_stays_in_sync(self) -> None:
        cluster = Cluster(features={"eligible.leader.replicas.version": 0}).start(1)
        cluster.create("t", [1])
        cluster.state.now_ms += 60_000
        cluster.register(1, run=2)
        lost = cluster.partition("t")
        assert (lost.leader, lost.isr) == (-1, (1,))
        cluster.heartbeat(1)
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), RECOVERED)


def test_a_silent_broker_is_fenced_and_loses_its_leaderships() -> None:
    cluster = Cluster().start(1, 2)
    cluster.create("t", [1, 2])
    cluster.state.now_ms += cluster.state.settings.session_timeout_ms
    cluster.heartbeat(2)
    cluster.state.now_ms += 1
    assert cluster.do(fence_stale_broker)
    assert cluster.image.brokers[1].fenced
    assert not cluster.image.brokers[2].fenced
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2,), 1)
    assert not cluster.do(fence_stale_broker)


def test_in_a_controlled_shutdown_the_others_must_have_read_of_it_first() -> None:
    cluster = Cluster().start(1, 2)
    cluster.create("t", [1, 2])
    old = cluster.state.next_offset - 1
    cluster.heartbeat(2, current_metadata_offset=old)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert cluster.partition("t").leader == 2
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(2)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert cluster.image.brokers[1].fenced


def test_a_controlled_shutdown_that_the_log_refused_begins_anew() -> None:
    cluster = Cluster().start(1, 2)
    cluster.create("t", [1, 2])
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=cluster.epochs[1],
        current_metadata_offset=cluster.state.next_offset - 1,
        want_shut_down=True,
    )
    assert cluster.refuse(broker_heartbeat, request)
    cluster.heartbeat(2)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert cluster.partition("t").leader == 2


def test_a_fenced_broker_may_go_at_once() -> None:
    cluster = Cluster()
    cluster.register(1)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_an_unregistered_broker_is_gone_with_its_place_in_sync() -> None:
    cluster = Cluster().start(1, 2)
    cluster.create("t", [1, 2])
    cluster.do(unregister_broker, UnregisterBrokerRequest(broker_id=1))
    assert 1 not in cluster.image.brokers
    assert cluster.partition("t").isr == (2,)
    with pytest.raises(BrokerIdNotRegistered):
        cluster.do(unregister_broker, UnregisterBrokerRequest(broker_id=1))


def assign(cluster: Cluster, broker_id: int, directory: bytes, topic_name: str = "t") -> int:
    """Tell where a broker has the first partition of a topic; the error code of the answer."""
    topic = Assigning.TopicData(
        topic_id=cluster.image.topics_by_name[topic_name].id,
        partitions=[Assigning.PartitionData(partition_index=0)],
    )
    request = Assigning(
        broker_id=broker_id,
        broker_epoch=cluster.epochs[broker_id],
        directories=[Assigning.DirectoryData(id=directory, topics=[topic])],
    )
    return cluster.do(assign_replicas_to_dirs, request).directories[0].topics[0].partitions[0].error_code


class TestDirectories:
    """Two brokers with two log directories each."""

    def cluster(self) -> Cluster:
        cluster = Cluster()
        for broker_id in (1, 2):
            cluster.register(broker_id, directories=2)
            cluster.heartbeat(broker_id)
        cluster.create("t", [1, 2], configs={"min.insync.replicas": "2"})
        return cluster

    def test_an_offline_directory_takes_its_replicas_out_of_sync(self) -> None:
        cluster = self.cluster()
        lost, kept = (identifier("directory", 1, number) for number in range(2))
        assert assign(cluster, 1, lost) == 0
        assert cluster.partition("t").directory_of(1) == lost
        cluster.heartbeat(1, offline_log_dirs=[lost])
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr) == (2, (2,))
        assert cluster.image.brokers[1].directories == (kept,)
        before = len(cluster.log)
        cluster.heartbeat(1, offline_log_dirs=[lost])
        assert len(cluster.log) == before

    def test_a_cordoned_directory_gets_no_new_replicas(self) -> None:
        cluster = self.cluster()
        cluster.heartbeat(1, cordoned_log_dirs=[identifier("directory", 1, number) for number in range(2)])
        assert not cluster.image.brokers[1].has_uncordoned_directory

    def test_a_replica_in_another_directory_is_unharmed(self) -> None:
        cluster = self.cluster()
        assign(cluster, 1, identifier("directory", 1, 1))
        cluster.heartbeat(1, offline_log_dirs=[identifier("directory", 1, 0)])
        assert cluster.partition("t").isr == (1, 2)

    def test_a_replica_that_is_found_in_an_offline_directory_leaves_too(self) -> None:
        cluster = self.cluster()
        assert assign(cluster, 1, identifier("unknown")) == 0
        assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))

    def test_a_broker_that_loses_a_directory_while_it_is_fenced_is_unfenced_one_heartbeat_later(self) -> None:
        cluster = self.cluster()
        lost = identifier("directory", 1, 0)
        assign(cluster, 1, lost)
        for broker_id in (2, 1):
            cluster.heartbeat(broker_id, want_fence=True)
        assert cluster.partition("t").leader == -1
        assert cluster.heartbeat(1, offline_log_dirs=[lost]).is_fenced
        assert not cluster.heartbeat(1, offline_log_dirs=[lost]).is_fenced
        assert cluster.partition("t").leader == -1  # what it had is lost, and 2 is the next to lead
        cluster.heartbeat(2)
        assert cluster.partition("t").leader == 2

    def test_a_replica_whose_disk_was_replaced_is_no_longer_eligible(self) -> None:
        cluster = self.cluster()
        lost = identifier("directory", 1, 0)
        assign(cluster, 1, lost)
        cluster.heartbeat(1, offline_log_dirs=[lost])
        assert cluster.partition("t").elr == (1,)
        assign(cluster, 1, identifier("directory", 1, 1))
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ())

    def test_what_a_broker_does_not_have_cannot_be_placed(self) -> None:
        cluster = self.cluster()
        cluster.create("other", [2])
        assert assign(cluster, 1, identifier("directory", 1, 1), "other") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_controller_with_a_negative_id_is_refused() -> None:
    with pytest.raises(InvalidRegistration, match="-5"):
        Cluster().do(register_controller, ControllerRegistrationRequest(controller_id=-5))


def test_a_controller_registers_once_for_each_run() -> None:
    cluster = Cluster()
    request = ControllerRegistrationRequest(controller_id=1, incarnation_id=identifier("controller"))
    before = len(cluster.log)
    cluster.do(register_controller, request)
    cluster.do(register_controller, request)
    assert len(cluster.log) == before + 1
    assert cluster.image.controllers[1].incarnation_id == identifier("controller")
