"""Questions about the node and the cluster: features, log directories, producers, quorum."""

from __future__ import annotations

from typing import Any

from tests.interop.clients.same.ask_records import fill, produce
from tests.interop.clients.same.batches import Entry, batch
from tests.interop.clients.same.registry import asks
from tests.interop.clients.same.session import Session

NOT_SERVED = ("share.version", "streams.version")  # see docs/differences.md


@asks("ApiVersions")
def features_and_errors(session: Session, version: int) -> None:
    for name, release in (
        ("librdkafka", "2.1"),
        ("", ""),
        ("a b", "1"),
        ("-x", "1"),
        ("x", "1_"),
        ("ü", "1"),
    ):
        response = session.quietly(
            "ApiVersions", version, client_software_name=name, client_software_version=release
        )
        response.api_keys = []  # compared on its own
        for features in (response.supported_features, response.finalized_features):
            features[:] = [one for one in features if one.name not in NOT_SERVED]
        session.note(f"software {name!r} {release!r}", session._plain(response, version))


@asks("SaslHandshake")
def a_mechanism_where_no_login_is_needed(session: Session, version: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "unheard of", ""):
        session.ask("SaslHandshake", version, mechanism=mechanism)
    session.ask("DescribeCluster", 0)  # the connection goes on


@asks("SaslAuthenticate")
def a_token_where_no_login_is_needed(session: Session, version: int) -> None:
    for token in (b"", b"\0alice\0secret", b"x" * 1000):
        session.ask("SaslAuthenticate", version, auth_bytes=token)
    session.ask("DescribeCluster", 0)


@asks("DescribeCluster")
def the_cluster(session: Session, version: int) -> None:
    session.ask("DescribeCluster", version)
    session.ask("DescribeCluster", version, include_cluster_authorized_operations=True)
    for endpoint_type in (1, 2, 3, 0):
        session.ask("DescribeCluster", version, endpoint_type=endpoint_type)
    session.ask("DescribeCluster", version, include_fenced_brokers=True)


@asks("DescribeLogDirs")
def log_directories(session: Session, version: int) -> None:
    name = session.create("sized", partitions=2)
    fill(session, name, batch([Entry(value=b"x" * 1000)]))
    for partitions in ([0, 1], [1], [5], []):
        session.ask("DescribeLogDirs", version, topics=[{"topic": name, "partitions": partitions}])
    session.ask("DescribeLogDirs", version, topics=[{"topic": session.name("unknown"), "partitions": [0]}])
    session.ask("DescribeLogDirs", version, topics=[])


@asks("AlterReplicaLogDirs")
def replicas_to_other_directories(session: Session, version: int) -> None:
    name = session.create("moved")
    for path in ("/no/such/directory", "relative", "", str(session.broker.data)):
        for topic, partition in ((name, 0), (name, 4), (session.name("unknown"), 0)):
            row = {"path": path, "topics": [{"name": topic, "partitions": [partition]}]}
            session.ask("AlterReplicaLogDirs", version, dirs=[row])
    session.ask("AlterReplicaLogDirs", version, dirs=[])


@asks("DescribeProducers")
def producers_of_a_partition(session: Session, version: int) -> None:
    name = session.create("producers")
    session.ask("DescribeProducers", version, topics=[{"name": name, "partition_indexes": [0]}])
    producer_id = session.quietly("InitProducerId", 4, transactional_id=None).producer_id
    content = batch([Entry()] * 3, producer_id=producer_id, producer_epoch=0, sequence=0)
    produce(session, 9, name, content)
    session.ask("DescribeProducers", version, topics=[{"name": name, "partition_indexes": [0, 1, -1]}])
    unknown = session.name("unknown")
    session.ask("DescribeProducers", version, topics=[{"name": unknown, "partition_indexes": [0]}])
    session.ask("DescribeProducers", version, topics=[{"name": "a b", "partition_indexes": [0]}])
    session.ask("DescribeProducers", version, topics=[])


@asks("InitProducerId")
def ids_for_idempotent_producers(session: Session, version: int) -> None:
    session.ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=2**31 - 1)
    session.ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=0)
    session.ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=-1)
    if version >= 3:
        for producer_id, epoch in ((4, 3), (-1, 3), (4, -1)):
            session.ask(
                "InitProducerId",
                version,
                transactional_id=None,
                transaction_timeout_ms=1000,
                producer_id=producer_id,
                producer_epoch=epoch,
            )


@asks("InitProducerId")
def a_transactional_id_that_is_empty(session: Session, version: int) -> None:
    session.ask("InitProducerId", version, transactional_id="", transaction_timeout_ms=1000)


@asks("UpdateFeatures")
def features_that_cannot_change(session: Session, version: int) -> None:
    def ask(*updates: dict[str, Any], validate_only: bool = True) -> None:
        session.ask(
            "UpdateFeatures",
            version,
            timeout_ms=20_000,
            feature_updates=list(updates),
            validate_only=validate_only,
        )

    def update(feature: str, level: int, upgrade_type: int = 1, allow_downgrade: bool = False) -> Any:
        return {
            "feature": feature,
            "max_version_level": level,
            "upgrade_type": upgrade_type,
            "allow_downgrade": allow_downgrade,
        }

    ask()
    ask(update("no.such.feature", 1))
    ask(update("", 1))
    ask(update("metadata.version", 9999))
    ask(update("metadata.version", 0))
    ask(update("metadata.version", -1))
    ask(update("metadata.version", 7, 1, allow_downgrade=False))
    ask(update("kraft.version", 99))
    ask(update("group.version", 99))
    ask(update("group.version", 1), update("no.such.feature", 1))
    if version >= 1:
        ask(update("metadata.version", 7, 2))
        ask(update("metadata.version", 7, 0))
        ask(update("metadata.version", 7, 9))


@asks("DescribeUserScramCredentials")
def users_without_credentials(session: Session, version: int) -> None:
    session.ask("DescribeUserScramCredentials", version, users=None)
    session.ask("DescribeUserScramCredentials", version, users=[])
    session.ask("DescribeUserScramCredentials", version, users=[{"name": "alice"}])
    session.ask("DescribeUserScramCredentials", version, users=[{"name": "alice"}, {"name": "alice"}])


@asks("DescribeQuorum")
def the_quorum(session: Session, version: int) -> None:
    def ask(topic: str, *partitions: int) -> None:
        rows = [{"partition_index": partition} for partition in partitions]
        response = session.quietly(
            "DescribeQuorum", version, topics=[{"topic_name": topic, "partitions": rows}]
        )
        for described in response.topics:
            for row in described.partitions:  # how long the metadata log is depends on what went before
                row.high_watermark = min(row.high_watermark, 0)
                row.leader_epoch = min(row.leader_epoch, 0)
                for replica in [*row.current_voters, *row.observers]:
                    replica.log_end_offset = min(replica.log_end_offset, 0)
        session.note(f"quorum of {topic} {partitions}", session._plain(response, version))

    ask("__cluster_metadata", 0)
    ask("__cluster_metadata", 1)
    ask("other", 0)
    ask("__cluster_metadata")


@asks("UnregisterBroker")
def a_broker_that_is_not_there(session: Session, version: int) -> None:
    session.ask("UnregisterBroker", version, broker_id=99)
    session.ask("UnregisterBroker", version, broker_id=-1)
