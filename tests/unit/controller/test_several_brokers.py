"""What the controller does with several brokers that it need not think of with one."""

from __future__ import annotations

import pytest

from ottla.controller.brokers import unregister_broker
from ottla.controller.configs import incremental_alter_configs
from ottla.controller.elections import elect_unclean_leaders
from ottla.controller.features import update_features
from ottla.controller.image import METADATA_VERSION
from ottla.controller.state import ControllerState
from ottla.controller.topics import create_topics, delete_topics
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.metadata_records import RemoveTopicRecord
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest

from .cluster import Cluster

CLUSTER_WIDE = (4, "")


def configure(cluster: Cluster, resource: tuple[int, str], name: str, value: str | None) -> int:
    config = IncrementalAlterConfigsRequest.AlterableConfig(
        name=name, config_operation=1 if value is None else 0, value=value
    )
    changed = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=resource[0], resource_name=resource[1], configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[changed])
    return cluster.do(incremental_alter_configs, request).responses[0].error_code


def create(cluster: Cluster, partitions: int, replicas: int) -> tuple[str, str | None]:
    topic = CreateTopicsRequest.CreatableTopic(
        name="t", num_partitions=partitions, replication_factor=replicas
    )
    answer = cluster.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]
    return ErrorCode(answer.error_code).name, answer.error_message


class TestPlacement:
    def test_more_replicas_than_brokers_are_refused(self) -> None:
        assert create(Cluster().start(1, 2, 3), 1, 4) == (
            "INVALID_REPLICATION_FACTOR",
            "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be "
            "reached because only 3 broker(s) are registered or some brokers have all their log directories "
            "cordoned.",
        )

    def test_replicas_go_to_different_racks(self) -> None:
        cluster = Cluster()
        for broker_id in range(1, 7):
            cluster.register(broker_id, rack="abc"[broker_id % 3])
            cluster.heartbeat(broker_id)
        assert create(cluster, 12, 3) == ("NONE", None)
        for partition in cluster.image.topics_by_name["t"].partitions.values():
            assert {broker_id % 3 for broker_id in partition.replicas} == {0, 1, 2}

    def test_a_broker_that_leaves_gets_nothing_new(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("old", [3, 1])
        assert not cluster.heartbeat(3, want_shut_down=True).should_shut_down
        assert create(cluster, 10, 2) == ("NONE", None)
        for partition in cluster.image.topics_by_name["t"].partitions.values():
            assert 3 not in partition.replicas

    def test_a_fenced_broker_may_follow_and_is_not_in_sync(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.register(3)
        assert create(cluster, 3, 3) == ("NONE", None)
        for partition in cluster.image.topics_by_name["t"].partitions.values():
            assert set(partition.replicas) == {1, 2, 3}
            assert set(partition.isr) == {1, 2}
            assert partition.leader in partition.isr


class TestUncleanElections:
    """Two replicas without eligible leaders: 2 falls out of sync, then 1 is gone."""

    def cluster(self) -> Cluster:
        cluster = Cluster(features={"eligible.leader.replicas.version": 0}).start(1, 2)
        cluster.create("t", [1, 2])
        for broker_id in (2, 1):
            cluster.heartbeat(broker_id, want_fence=True)
        cluster.heartbeat(2)
        assert cluster.partition("t").leader == -1
        return cluster

    @pytest.mark.parametrize("resource", [(2, "t"), CLUSTER_WIDE])
    def test_a_topic_or_the_cluster_may_allow_them(self, resource: tuple[int, str]) -> None:
        cluster = self.cluster()
        assert not cluster.do(elect_unclean_leaders)
        assert cluster.partition("t").leader == -1
        assert configure(cluster, resource, "unclean.leader.election.enable", "true") == 0
        cluster.do(elect_unclean_leaders)
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)

    def test_a_topic_may_forbid_what_the_cluster_allows(self) -> None:
        cluster = self.cluster()
        configure(cluster, CLUSTER_WIDE, "unclean.leader.election.enable", "true")
        configure(cluster, (2, "t"), "unclean.leader.election.enable", "false")
        cluster.do(elect_unclean_leaders)
        assert cluster.partition("t").leader == -1


class TestEligibleLeaders:
    def test_how_many_count_depends_on_the_settings_of_the_moment(self) -> None:
        cluster = Cluster().start(1, 2, 3)
        cluster.create("t", [1, 2, 3])
        cluster.heartbeat(3, want_fence=True)
        assert cluster.partition("t").elr == ()
        assert configure(cluster, CLUSTER_WIDE, "min.insync.replicas", "3") == 0
        cluster.heartbeat(2, want_fence=True)
        assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1,), (2,))
        assert configure(cluster, (2, "t"), "min.insync.replicas", "1") == 0
        assert cluster.partition("t").elr == ()

    def test_a_minimum_above_the_number_of_replicas_is_that_number(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1, 2], configs={"min.insync.replicas": "3"})
        cluster.heartbeat(2, want_fence=True)
        assert cluster.partition("t").elr == (2,)

    def test_the_last_known_leader_is_elected_when_nobody_else_is_known_to_have_everything(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1, 2], configs={"min.insync.replicas": "2"})
        cluster.state.now_ms += 60_000
        cluster.register(2, run=2)  # killed: it is no longer eligible
        assert (cluster.partition("t").leader, cluster.partition("t").elr) == (1, ())
        cluster.register(1, run=2)
        lost = cluster.partition("t")
        assert (lost.leader, lost.isr, lost.elr, lost.last_known_elr) == (-1, (), (), (1,))
        cluster.heartbeat(2)
        assert cluster.partition("t").leader == -1
        cluster.heartbeat(1)
        partition = cluster.partition("t")
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def test_a_level_that_one_broker_does_not_know_is_refused() -> None:
    cluster = Cluster(release="4.2").start(1, 2)
    old = cluster.image.brokers[2]
    old.features[METADATA_VERSION] = (7, cluster.image.metadata_version)
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=METADATA_VERSION, max_version_level=30, upgrade_type=1
    )
    response = cluster.do(update_features, UpdateFeaturesRequest(feature_updates=[update]), 2)
    assert ErrorCode(response.error_code).name == "INVALID_UPDATE_VERSION"
    assert "Broker 2 only supports versions" in (response.error_message or "")


def test_a_broker_that_was_unregistered_comes_back_as_a_new_one() -> None:
    cluster = Cluster().start(1, 2)
    cluster.create("t", [1, 2], configs={"min.insync.replicas": "2"})
    epoch = cluster.epochs[1]
    cluster.do(unregister_broker, UnregisterBrokerRequest(broker_id=1))
    assert (cluster.partition("t").leader, cluster.partition("t").elr) == (2, (1,))
    cluster.register(1, run=2, previous_epoch=epoch)
    assert cluster.partition("t").elr == ()  # nobody knows any more whether that was its last run


def test_a_deleted_topic_is_one_record_whatever_its_replicas_do() -> None:
    cluster = Cluster().start(1, 2, 3)
    cluster.create("t", [1, 2], [2, 3])
    cluster.heartbeat(2, want_fence=True)
    before = len(cluster.log)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")])
    assert cluster.do(delete_topics, request, 6).responses[0].error_code == 0
    assert [type(record) for record in cluster.log[before:]] == [RemoveTopicRecord]
    cluster.heartbeat(2)
    cluster.do(unregister_broker, UnregisterBrokerRequest(broker_id=3))


def test_the_next_controller_gives_everyone_who_lived_a_full_session() -> None:
    cluster = Cluster().start(1, 2)
    cluster.register(3)
    old = cluster.state
    new = ControllerState(
        old.image.copy(),
        old.settings,
        old.rules,
        next_offset=old.next_offset,
        now_ms=old.now_ms + 1_000_000,
        kraft_version=0,
        random_bytes=old.random_bytes,
        random_below=old.random_below,
    )
    assert {broker_id for broker_id, _ in new.heartbeats.contacts} == {1, 2}
    assert new.heartbeats.find_expired(new.now_ms + old.settings.session_timeout_ms) is None
    assert new.heartbeats.find_expired(new.now_ms + old.settings.session_timeout_ms + 1) is not None
