"""What the other matters ask and read: the cluster, replicas, transactions, quotas, credentials, rules."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.unit.client.admin.support import engine_of, metadata_of, run

from ottla.client.admin import acls, configs, credentials, nodes, quotas, replicas, share_groups, transactions
from ottla.client.admin.permissions import AclOperation
from ottla.client.values import TopicPartition
from ottla.wire import uuid
from ottla.wire.errors import (
    ClusterAuthorizationFailed,
    ElectionNotNeeded,
    ErrorCode,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    SecurityDisabled,
    UnacceptableCredential,
    UnknownServerError,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
    VoterNotFound,
)
from ottla.wire.messages.add_raft_voter import AddRaftVoterResponse
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasResponse
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from ottla.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsResponse
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsResponse
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.create_acls import CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsResponse
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from ottla.wire.messages.describe_cluster import DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from ottla.wire.messages.describe_producers import DescribeProducersResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumResponse
from ottla.wire.messages.elect_leaders import ElectLeadersResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.list_config_resources import ListConfigResourcesResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from ottla.wire.messages.share_group_describe import ShareGroupDescribeResponse
from ottla.wire.messages.update_features import UpdateFeaturesResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersResponse

KEY = TopicPartition("t", 0)
DIRECTORY_ID = bytes(range(16))


# The cluster


def test_a_cluster_is_read_with_fenced_brokers_and_its_controller() -> None:
    broker = DescribeClusterResponse.DescribeClusterBroker
    answer = DescribeClusterResponse(
        cluster_id="c",
        controller_id=2,
        brokers=[
            broker(broker_id=1, host="a", port=1, is_fenced=True),
            broker(broker_id=2, host="b", port=2),
        ],
        cluster_authorized_operations=1 << 5,
    )

    described = nodes.read_cluster(answer)

    assert described.controller == nodes.ClusterNode(2, "b", 2)
    assert [node.is_fenced for node in described.nodes] == [True, False]
    assert described.authorized_operations == frozenset({AclOperation.CREATE})


def test_a_cluster_of_old_brokers_is_described_by_its_metadata() -> None:
    def answer(node: int, request: Any) -> Any:
        if request.NAME == "DescribeClusterRequest":
            raise UnsupportedVersion("too old")
        return metadata_of(request, {})

    engine, _ = engine_of(answer)

    assert [node.id for node in run(nodes.describe_cluster(engine)).nodes] == [0, 1, 2]
    with pytest.raises(UnsupportedVersion):
        run(nodes.describe_cluster(engine, include_fenced_brokers=True))


def quorum_of(topic: str = "__cluster_metadata", code: int = 0) -> DescribeQuorumResponse:
    replica = DescribeQuorumResponse.ReplicaState
    partition = DescribeQuorumResponse.PartitionData(
        error_code=code,
        leader_id=1,
        leader_epoch=5,
        high_watermark=99,
        current_voters=[replica(replica_id=1, replica_directory_id=DIRECTORY_ID, log_end_offset=100)],
        observers=[replica(replica_id=4, log_end_offset=98, last_fetch_timestamp=7)],
    )
    listener = DescribeQuorumResponse.Listener(name="C", host="h", port=9093)
    return DescribeQuorumResponse(
        topics=[DescribeQuorumResponse.TopicData(topic_name=topic, partitions=[partition])],
        nodes=[DescribeQuorumResponse.Node(node_id=1, listeners=[listener])],
    )


def test_a_quorum_is_read_whole_and_about_the_metadata_log_alone() -> None:
    described = nodes.read_quorum(quorum_of())

    assert described.voters == (nodes.QuorumReplica(1, uuid.to_text(DIRECTORY_ID), 100),)
    assert described.observers[0].last_fetch_timestamp == 7
    assert described.endpoints == {1: (nodes.Endpoint("C", "h", 9093),)}
    with pytest.raises(UnknownServerError):
        nodes.read_quorum(quorum_of("another"))
    with pytest.raises(UnknownServerError):
        nodes.read_quorum(DescribeQuorumResponse())


def test_a_controller_that_does_not_lead_is_left_for_the_one_that_does() -> None:
    elsewhere = quorum_of(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with pytest.raises(NotController):
        nodes.read_quorum(elsewhere, asks_controllers=True)

    answers = [elsewhere, quorum_of()]
    engine, cluster = engine_of(lambda node, request: answers.pop(0), bootstrap_controllers="host0:9093")
    assert run(nodes.describe_metadata_quorum(engine)).leader_id == 1
    assert cluster.refreshed == 1


def test_a_refused_change_of_voters_is_not_tried_again() -> None:
    timed_out = AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="slow")
    engine, cluster = engine_of(lambda node, request: timed_out)
    with pytest.raises(Exception, match="slow"):
        run(nodes.add_raft_voter(engine, 4, uuid.to_text(DIRECTORY_ID), [nodes.Endpoint("C", "h", 1)]))
    assert len(cluster.asked) == 1

    unknown = RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND)
    engine, cluster = engine_of(lambda node, request: unknown)
    with pytest.raises(VoterNotFound):
        run(nodes.remove_raft_voter(engine, 4, uuid.to_text(DIRECTORY_ID)))
    assert cluster.asked[0][1].voter_directory_id == DIRECTORY_ID


def test_features_are_told_and_one_refusal_is_that_of_all() -> None:
    told = ApiVersionsResponse(
        finalized_features_epoch=7,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name="f", min_version_level=1, max_version_level=2)
        ],
        supported_features=[ApiVersionsResponse.SupportedFeatureKey(name="f", min_version=0, max_version=3)],
    )
    described = nodes.read_features(told)
    assert described.finalized == {"f": nodes.FeatureRange(1, 2)}
    assert described.supported == {"f": nodes.FeatureRange(0, 3)}
    assert described.finalized_epoch == 7

    refused = UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="no")
    engine, _ = engine_of(lambda node, request: refused)
    results = run(nodes.update_features(engine, {"f": 9, "g": nodes.FeatureUpdate(1)}))
    assert [type(error) for error in results.failed.values()] == [InvalidUpdateVersion] * 2
    with pytest.raises(ValueError, match="feature"):
        run(nodes.update_features(engine, {}))


def test_versions_of_apis_tell_what_both_sides_know() -> None:
    version = ApiVersionsResponse.ApiVersion
    answer = ApiVersionsResponse(
        api_keys=[
            version(api_key=999, min_version=0, max_version=1),
            version(api_key=3, min_version=0, max_version=99),
            version(api_key=19, min_version=50, max_version=60),
        ]
    )

    metadata, create, unknown = nodes.read_apis(answer)

    assert (metadata.name, metadata.last, metadata.usable) == ("Metadata", 99, 13)
    assert (create.name, create.usable) == ("CreateTopics", None)
    assert (unknown.key, unknown.name, unknown.usable) == (999, None, None)


def test_resources_with_settings_are_listed_also_by_brokers_that_only_know_client_metrics() -> None:
    resource = ListConfigResourcesResponse.ConfigResource

    def answer(node: int, request: Any) -> ListConfigResourcesResponse:
        if request.resource_types:
            raise UnsupportedVersion("too old")
        return ListConfigResourcesResponse(config_resources=[resource(resource_name="m", resource_type=16)])

    engine, _ = engine_of(answer)
    wanted = configs.ResourceType.CLIENT_METRICS

    assert run(configs.list_config_resources(engine, [wanted])) == [configs.ConfigResource(wanted, "m")]
    with pytest.raises(UnsupportedVersion):
        run(configs.list_config_resources(engine, [configs.ResourceType.GROUP]))


def test_a_broker_resource_must_be_a_number() -> None:
    engine, _ = engine_of(lambda node, request: None)

    with pytest.raises(ValueError, match="not a broker id"):
        run(configs.describe_configs(engine, [configs.ConfigResource(configs.ResourceType.BROKER, "x")]))


# Replicas


def test_elections_end_for_each_partition() -> None:
    one = ElectLeadersResponse.PartitionResult
    result = ElectLeadersResponse.ReplicaElectionResult(
        topic="t",
        partition_result=[one(partition_id=0), one(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED)],
    )
    answers = [
        ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER),
        ElectLeadersResponse(replica_election_results=[result]),
    ]
    engine, cluster = engine_of(lambda node, request: answers.pop(0))

    results = run(
        replicas.elect_leaders(engine, replicas.ElectionType.UNCLEAN, [KEY, TopicPartition("t", 1)])
    )

    assert results[KEY] is None
    assert isinstance(results[TopicPartition("t", 1)], ElectionNotNeeded)
    request = cluster.asked[-1][1]
    assert (request.election_type, request.topic_partitions[0].partitions) == (1, [0, 1])


def test_reassignments_are_asked_for_and_cancelled() -> None:
    answer_class = AlterPartitionReassignmentsResponse

    def answer(node: int, request: Any) -> AlterPartitionReassignmentsResponse:
        return answer_class(
            responses=[
                answer_class.ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        answer_class.ReassignablePartitionResponse(partition_index=one.partition_index)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    engine, cluster = engine_of(answer)
    run(replicas.alter_partition_reassignments(engine, {KEY: [1, 2], TopicPartition("t", 1): None})).all()

    partitions = cluster.asked[0][1].topics[0].partitions
    assert [one.replicas for one in partitions] == [[1, 2], None]


def test_log_directories_are_read_with_replicas_that_move() -> None:
    answer_class = DescribeLogDirsResponse
    part = answer_class.DescribeLogDirsPartition

    def directory(path: str, **more: Any) -> Any:
        topic = answer_class.DescribeLogDirsTopic(name="t", partitions=[part(partition_index=0, **more)])
        return answer_class.DescribeLogDirsResult(
            log_dir=path, topics=[topic], total_bytes=10, usable_bytes=5
        )

    offline = answer_class.DescribeLogDirsResult(log_dir="/c", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    answer = answer_class(
        results=[
            directory("/a", partition_size=3),
            directory("/b", is_future_key=True, offset_lag=8),
            offline,
        ]
    )

    described = replicas.read_log_dirs(answer)
    where, nowhere = replicas.Replica("t", 0, 1), replicas.Replica("t", 9, 1)

    assert described["/a"].replicas == {KEY: replicas.ReplicaInfo(3, 0, False)}
    assert (described["/a"].total_bytes, described["/a"].usable_bytes) == (10, 5)
    assert described["/c"].error is not None
    assert described["/c"].total_bytes is None
    assert replicas.read_replica_log_dirs([where, nowhere], answer) == {
        where: replicas.ReplicaLogDirs("/a", 0, "/b", 8),
        nowhere: replicas.ReplicaLogDirs(),
    }


def test_a_broker_that_shows_no_directory_refuses_to() -> None:
    engine, _ = engine_of(lambda node, request: DescribeLogDirsResponse())

    assert isinstance(run(replicas.describe_log_dirs(engine, [1]))[1], ClusterAuthorizationFailed)


def test_replicas_are_moved_at_their_own_brokers() -> None:
    answer_class = AlterReplicaLogDirsResponse
    part = answer_class.AlterReplicaLogDirPartitionResult

    def answer(node: int, request: Any) -> AlterReplicaLogDirsResponse:
        (directory,) = request.dirs
        code = ErrorCode.LOG_DIR_NOT_FOUND if directory.path == "/none" else 0
        partitions = [part(partition_index=0, error_code=code)]
        return answer_class(
            results=[answer_class.AlterReplicaLogDirTopicResult(topic_name="t", partitions=partitions)]
        )

    engine, cluster = engine_of(answer)
    here, there = replicas.Replica("t", 0, 1), replicas.Replica("t", 0, 2)

    results = run(replicas.alter_replica_log_dirs(engine, {here: "/a", there: "/none"}))

    assert list(results.failed) == [there]
    assert sorted(node for node, _ in cluster.asked) == [1, 2]


# Transactions


def coordinator(request: Any) -> FindCoordinatorResponse:
    one = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(coordinators=[one(key=key, node_id=1) for key in request.coordinator_keys])


def test_producers_are_fenced_one_a_request_and_a_transaction_that_ends_is_waited_for() -> None:
    busy = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "FindCoordinatorRequest":
            return coordinator(request)
        if request.transactional_id == "bad":
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
        if request.transactional_id == "busy" and busy:
            return InitProducerIdResponse(error_code=busy.pop())
        return InitProducerIdResponse(producer_id=5, producer_epoch=2)

    engine, _ = engine_of(answer)

    results = run(transactions.fence_producers(engine, ["fine", "busy", "bad"]))

    assert results.succeeded == dict.fromkeys(("fine", "busy"), transactions.FencedProducer(5, 2))
    assert isinstance(results["bad"], InvalidProducerEpoch)


def test_a_hanging_transaction_is_aborted_at_the_leader_wherever_that_is() -> None:
    answer_class = WriteTxnMarkersResponse
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {"t": [len(codes) % 2]})
        part = answer_class.WritableTxnMarkerPartitionResult(partition_index=0, error_code=codes.pop(0))
        topic = answer_class.WritableTxnMarkerTopicResult(name="t", partitions=[part])
        return answer_class(markers=[answer_class.WritableTxnMarkerResult(producer_id=5, topics=[topic])])

    engine, cluster = engine_of(answer)

    run(transactions.abort_transaction(engine, transactions.AbortSpec(KEY, 5, 2, 3)))

    marker = cluster.asked[-1][1].markers[0]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (5, 2, 3)
    assert not marker.transaction_result
    assert [node for node, name in cluster.names() if name == "WriteTxnMarkers"] == [0, 1]


def test_producers_of_a_named_replica_are_not_looked_for_elsewhere() -> None:
    answer_class = DescribeProducersResponse

    def answer(node: int, request: Any) -> DescribeProducersResponse:
        part = answer_class.PartitionResponse(
            partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if node == 2 else 0
        )
        state = answer_class.ProducerState(producer_id=4, producer_epoch=1, coordinator_epoch=-1)
        part.active_producers = [state]
        return answer_class(topics=[answer_class.TopicResponse(name="t", partitions=[part])])

    engine, cluster = engine_of(answer)

    (state,) = run(transactions.describe_producers(engine, [KEY], broker_id=1)).result(KEY)
    assert state == transactions.ProducerState(4, 1, -1, -1, None, None)
    assert KEY in run(transactions.describe_producers(engine, [KEY], broker_id=2)).failed
    assert [node for node, _ in cluster.asked] == [1, 2]


# Quotas, credentials, rules


def test_quotas_are_read_and_changed_by_entity() -> None:
    entity, value = DescribeClientQuotasResponse.EntityData, DescribeClientQuotasResponse.ValueData
    entry = DescribeClientQuotasResponse.EntryData(
        entity=[
            entity(entity_type="user", entity_name=None),
            entity(entity_type="client-id", entity_name="c"),
        ],
        values=[value(key="k", value=1.5)],
    )
    key = quotas.quota_entity(user=None, client_id="c")
    assert quotas.read_quotas(DescribeClientQuotasResponse(entries=[entry])) == {key: {"k": 1.5}}
    assert quotas.read_quotas(DescribeClientQuotasResponse(entries=None)) == {}

    def answer(node: int, request: Any) -> AlterClientQuotasResponse:
        told = AlterClientQuotasResponse.EntityData
        return AlterClientQuotasResponse(
            entries=[
                AlterClientQuotasResponse.EntryData(
                    entity=[
                        told(entity_type=part.entity_type, entity_name=part.entity_name)
                        for part in reversed(one.entity)
                    ],
                    error_code=ErrorCode.INVALID_REQUEST if one.ops[0].key == "bad" else 0,
                )
                for one in request.entries
            ]
        )

    engine, cluster = engine_of(answer)
    other = quotas.quota_entity(ip="127.0.0.1")
    results = run(quotas.alter_client_quotas(engine, {key: {"k": 2.0, "gone": None}, other: {"bad": 1.0}}))
    assert isinstance(results[other], InvalidRequest)
    assert results[key] is None
    operations = cluster.asked[0][1].entries[0].ops
    assert [(one.key, one.value, one.remove) for one in operations] == [
        ("k", 2.0, False),
        ("gone", 0.0, True),
    ]


def test_passwords_are_salted_before_they_are_sent_and_bad_changes_are_not_sent() -> None:
    sent: list[Any] = []

    def answer(node: int, request: Any) -> AlterUserScramCredentialsResponse:
        sent.append(request)
        one = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
        users = dict.fromkeys(part.name for part in (*request.upsertions, *request.deletions))
        return AlterUserScramCredentialsResponse(results=[one(user=user) for user in users])

    engine, _ = engine_of(answer)
    mechanism = credentials.ScramMechanism
    results = run(
        credentials.alter_user_scram_credentials(
            engine,
            [
                credentials.ScramUpsertion("ann", mechanism.SCRAM_SHA_512, "pässword", 5000, b"salt"),
                credentials.ScramDeletion("bob", mechanism.SCRAM_SHA_256),
                credentials.ScramUpsertion("", mechanism.SCRAM_SHA_256, "x"),
                credentials.ScramUpsertion("carl", mechanism.SCRAM_SHA_256, ""),
                credentials.ScramDeletion("dan", mechanism.UNKNOWN),
            ],
        )
    )

    assert list(results.succeeded) == ["ann", "bob"]
    assert {user: type(error) for user, error in results.failed.items()} == {
        "": UnacceptableCredential,
        "carl": UnacceptableCredential,
        "dan": UnsupportedSaslMechanism,
    }
    (upsertion,) = sent[0].upsertions
    assert upsertion.salted_password == hashlib.pbkdf2_hmac("sha512", "pässword".encode(), b"salt", 5000)
    assert (upsertion.mechanism, upsertion.iterations, upsertion.salt) == (2, 5000, b"salt")


def test_rules_are_described_made_and_deleted_each_for_itself() -> None:
    rule = acls.Acl(acls.AclResourceType.TOPIC, "t", "User:ann", AclOperation.READ)
    vague = acls.Acl(acls.AclResourceType.TOPIC, "t", "User:ann", AclOperation.ANY)
    described = DescribeAclsResponse.DescribeAclsResource(
        resource_type=2,
        resource_name="t",
        acls=[
            DescribeAclsResponse.AclDescription(
                principal="User:ann", host="*", operation=3, permission_type=3
            )
        ],
    )
    assert acls.read_acls(DescribeAclsResponse(resources=[described])) == (rule,)
    with pytest.raises(SecurityDisabled):
        acls.read_acls(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED))

    made = CreateAclsResponse(results=[CreateAclsResponse.AclCreationResult()])
    engine, cluster = engine_of(lambda node, request: made)
    results = run(acls.create_acls(engine, [vague, rule]))
    assert results[rule] is None
    assert isinstance(results[vague], InvalidRequest)
    assert len(cluster.asked[0][1].creations) == 1

    match = DeleteAclsResponse.DeleteAclsMatchingAcl(
        resource_type=2, resource_name="t", principal="User:ann", host="*", operation=3, permission_type=3
    )
    filters = [acls.AclFilter(resource_name="t"), acls.AclFilter(resource_name="u"), acls.AclFilter()]
    result = DeleteAclsResponse.DeleteAclsFilterResult
    failed = DeleteAclsResponse.DeleteAclsMatchingAcl(error_code=ErrorCode.SECURITY_DISABLED)
    deleted = acls.read_deleted(
        filters,
        DeleteAclsResponse(
            filter_results=[
                result(matching_acls=[match]),
                result(error_code=ErrorCode.INVALID_REQUEST),
                result(matching_acls=[match, failed]),
            ]
        ),
    )
    assert deleted[filters[0]] == (rule,)
    assert isinstance(deleted[filters[1]], InvalidRequest)
    assert isinstance(deleted[filters[2]], SecurityDisabled)


def test_share_groups_are_read_with_what_their_members_have() -> None:
    answer_class = ShareGroupDescribeResponse
    assigned = answer_class.TopicPartitions(topic_name="t", partitions=[0])
    member = answer_class.Member(
        member_id="m", assignment=answer_class.Assignment(topic_partitions=[assigned]), member_epoch=3
    )
    group = answer_class.DescribedGroup(group_id="g", group_state="Stable", members=[member])
    unknown = answer_class.DescribedGroup(group_id="u", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    moved = answer_class.DescribedGroup(group_id="m", error_code=ErrorCode.NOT_COORDINATOR)

    outcome = share_groups.read_share_groups(1, ["g", "u", "m"], answer_class(groups=[group, unknown, moved]))

    described = outcome.done["g"]
    assert isinstance(described, share_groups.ShareGroupDescription)
    assert described.members[0].assignment == {KEY}
    assert isinstance(outcome.done["u"], Exception)
    assert outcome.moved == {"m"}
