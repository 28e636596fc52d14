"""Questions about topics: creating, growing, deleting and describing them."""

from __future__ import annotations

from typing import Any

from tests.interop.clients.same.registry import asks
from tests.interop.clients.same.session import Session


def new_topic(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}


@asks("Metadata")
def known_and_unknown_topics(session: Session, version: int) -> None:
    name = session.create("known", partitions=3)
    session.ask("Metadata", version, topics=[{"name": name}, {"name": session.name("unknown")}])


@asks("Metadata")
def all_topics(session: Session, version: int) -> None:
    session.create("one")
    session.create("two", partitions=2)
    session.ask("Metadata", version, topics=None if version >= 1 else [])


@asks("Metadata", first=1)
def no_topics(session: Session, version: int) -> None:
    session.ask("Metadata", version, topics=[], allow_auto_topic_creation=True)


@asks("Metadata")
def topic_names_that_are_wrong(session: Session, version: int) -> None:
    for wrong in ("", ".", "..", "a b", "ü", "x" * 250, "x" * 249):
        session.ask("Metadata", version, topics=[{"name": wrong}], allow_auto_topic_creation=False)


@asks("Metadata")
def a_topic_asked_twice(session: Session, version: int) -> None:
    name = session.create("twice")
    session.ask("Metadata", version, topics=[{"name": name}, {"name": name}])


@asks("Metadata")
def an_unknown_topic_that_may_not_be_created(session: Session, version: int) -> None:
    name = session.name("never")
    session.ask("Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=True)
    session.ask("Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=False)


@asks("Metadata", first=8)
def authorized_operations(session: Session, version: int) -> None:
    name = session.create("operations")
    session.ask(
        "Metadata",
        version,
        topics=[{"name": name}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )


@asks("Metadata", first=10)
def topics_by_id(session: Session, version: int) -> None:
    name = session.create("by-id")
    identity = session.topic_id(name)
    session.ask("Metadata", version, topics=[{"topic_id": identity, "name": None}])
    session.ask("Metadata", version, topics=[{"topic_id": b"\x01" * 16, "name": None}])
    # Not asked: neither id nor name, which Kafka stumbles over.
    session.ask("Metadata", version, topics=[{"topic_id": identity, "name": name}])
    session.ask(
        "Metadata",
        version,
        topics=[{"topic_id": identity, "name": None}, {"topic_id": bytes(16), "name": name}],
    )


@asks("DescribeTopicPartitions")
def partitions_page_by_page(session: Session, version: int) -> None:
    first = session.create("a-first", partitions=3)
    second = session.create("b-second", partitions=2)
    topics = [{"name": second}, {"name": first}, {"name": session.name("c-unknown")}]
    session.ask("DescribeTopicPartitions", version, topics=topics)
    for limit in (1, 3, 4, 5, 6, 0, -1):
        session.ask("DescribeTopicPartitions", version, topics=topics, response_partition_limit=limit)
    for topic, partition in ((first, 1), (first, 3), (first, 7), (second, 0), (session.name("zzz"), 0)):
        cursor = {"topic_name": topic, "partition_index": partition}
        session.ask("DescribeTopicPartitions", version, topics=topics, cursor=cursor)
    session.ask(
        "DescribeTopicPartitions",
        version,
        topics=topics,
        cursor={"topic_name": first, "partition_index": -1},
    )


@asks("DescribeTopicPartitions")
def partitions_of_wrong_names(session: Session, version: int) -> None:
    for wrong in ("", "a b", "ü"):
        session.ask("DescribeTopicPartitions", version, topics=[{"name": wrong}])


@asks("CreateTopics")
def topics_that_can_be_created(session: Session, version: int) -> None:
    topics = [
        new_topic(session.name("plain")),
        new_topic(session.name("wide"), num_partitions=5),
        new_topic(session.name("configured"), configs=[{"name": "retention.ms", "value": "5000"}]),
        new_topic(
            session.name("assigned"),
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                {"partition_index": 1, "broker_ids": [1]},
                {"partition_index": 0, "broker_ids": [1]},
            ],
        ),
    ]
    session.ask("CreateTopics", version, topics=topics[:1], timeout_ms=20_000, validate_only=True)
    session.ask("CreateTopics", version, topics=topics, timeout_ms=20_000)
    for topic in topics:
        session.learn(topic["name"])
    session.ask("CreateTopics", version, topics=topics[:2], timeout_ms=20_000)
    session.ask("Metadata", 12, topics=[{"name": topic["name"]} for topic in topics])


@asks("CreateTopics", first=4)
def topics_with_default_counts(session: Session, version: int) -> None:
    name = session.name("defaults")
    session.ask(
        "CreateTopics",
        version,
        topics=[{"name": name, "num_partitions": -1, "replication_factor": -1}],
        timeout_ms=20_000,
    )
    session.learn(name)
    session.ask("Metadata", 12, topics=[{"name": name}])


@asks("CreateTopics")
def topics_that_cannot_be_created(session: Session, version: int) -> None:
    def ask(name: str, **fields: Any) -> None:
        session.ask("CreateTopics", version, topics=[new_topic(name, **fields)], timeout_ms=20_000)

    for wrong in ("", ".", "..", "a b", "ü", "x" * 250):
        ask(wrong)
    bad = session.name("bad")
    ask(bad, num_partitions=0)
    ask(bad, num_partitions=-2)
    ask(bad, replication_factor=0)
    ask(bad, replication_factor=-2)
    ask(bad, replication_factor=2)
    ask(bad, num_partitions=100_000_000)
    one = {"partition_index": 0, "broker_ids": [1]}
    ask(bad, assignments=[one])
    ask(bad, num_partitions=-1, assignments=[one])
    for assignments in (
        [{"partition_index": 1, "broker_ids": [1]}],
        [one, one],
        [{"partition_index": 0, "broker_ids": []}],
        [{"partition_index": 0, "broker_ids": [1, 1]}],
        [{"partition_index": 0, "broker_ids": [77]}],
        [{"partition_index": 0, "broker_ids": [-1]}],
        [one, {"partition_index": 1, "broker_ids": [1, 2]}],
    ):
        ask(bad, num_partitions=-1, replication_factor=-1, assignments=assignments)
    for key, value in (
        ("no.such.config", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", None),
        ("retention.ms", ""),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", ""),
        ("min.insync.replicas", "0"),
        ("segment.bytes", "1"),
        ("compression.type", "rar"),
        ("max.message.bytes", "-1"),
        ("message.timestamp.type", "Never"),
        ("preallocate", "maybe"),
        ("retention.bytes", "99999999999999999999"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("", "x"),
    ):
        ask(bad, configs=[{"name": key, "value": value}])


@asks("CreateTopics")
def topics_that_get_in_each_others_way(session: Session, version: int) -> None:
    name = session.create("dotted.name")
    session.ask("CreateTopics", version, topics=[new_topic(name.replace(".", "_"))], timeout_ms=20_000)
    twin = session.name("twin")
    topics = [new_topic(twin), new_topic(twin, num_partitions=2), new_topic(session.name("single"))]
    session.ask("CreateTopics", version, topics=topics, timeout_ms=20_000)
    session.ask("CreateTopics", version, topics=[new_topic("__cluster_metadata")], timeout_ms=20_000)
    session.ask("CreateTopics", version, topics=[], timeout_ms=20_000)


@asks("DeleteTopics")
def topics_by_name(session: Session, version: int) -> None:
    names = [session.create("first"), session.create("second"), session.name("unknown")]
    if version < 6:
        session.ask("DeleteTopics", version, topic_names=[*names, names[2]], timeout_ms=20_000)
        session.ask("DeleteTopics", version, topic_names=[], timeout_ms=20_000)
    else:
        topics = [{"name": name} for name in names]
        session.ask("DeleteTopics", version, topics=topics, timeout_ms=20_000)
        session.ask("DeleteTopics", version, topics=[], timeout_ms=20_000)
    session.wait_gone(names[0])
    session.ask("Metadata", 12, topics=[{"name": name} for name in names])


@asks("DeleteTopics")
def topics_named_twice(session: Session, version: int) -> None:
    name = session.create("doubled")
    if version < 6:
        session.ask("DeleteTopics", version, topic_names=[name, name], timeout_ms=20_000)
    else:
        identity = session.topic_id(name)
        twice = [{"name": name}, {"name": name}]
        session.ask("DeleteTopics", version, topics=twice, timeout_ms=20_000)
        both = [{"name": name}, {"name": None, "topic_id": identity}]
        session.ask("DeleteTopics", version, topics=both, timeout_ms=20_000)
    session.ask("Metadata", 12, topics=[{"name": name}])


@asks("DeleteTopics", first=6)
def topics_deleted_by_id(session: Session, version: int) -> None:
    name = session.create("by-id")
    identity = session.topic_id(name)
    for topic in (
        {"name": None, "topic_id": b"\x02" * 16},
        {"name": None, "topic_id": bytes(16)},
        {"name": name, "topic_id": identity},
        {"name": None, "topic_id": identity},
        {"name": None, "topic_id": identity},
    ):
        session.ask("DeleteTopics", version, topics=[topic], timeout_ms=20_000)
        if topic["name"] is None and topic["topic_id"] == identity:
            session.wait_gone(name)


@asks("CreatePartitions")
def partitions_that_can_be_added(session: Session, version: int) -> None:
    name = session.create("grow", partitions=2)

    def ask(count: int, assignments: list[list[int]] | None, validate_only: bool = False) -> None:
        rows = None if assignments is None else [{"broker_ids": nodes} for nodes in assignments]
        session.ask(
            "CreatePartitions",
            version,
            topics=[{"name": name, "count": count, "assignments": rows}],
            timeout_ms=20_000,
            validate_only=validate_only,
        )

    ask(3, None, validate_only=True)
    ask(3, None)
    session.wait_ready(name, 3)
    ask(5, [[1], [1]])
    session.wait_ready(name, 5)
    session.ask("Metadata", 12, topics=[{"name": name}])


@asks("CreatePartitions")
def partitions_that_cannot_be_added(session: Session, version: int) -> None:
    name = session.create("fixed", partitions=2)

    def ask(topic: str, count: int, assignments: list[list[int]] | None = None, times: int = 1) -> None:
        rows = None if assignments is None else [{"broker_ids": nodes} for nodes in assignments]
        asked = [{"name": topic, "count": count, "assignments": rows}] * times
        session.ask("CreatePartitions", version, topics=asked, timeout_ms=20_000)

    ask(name, 2)
    ask(name, 1)
    ask(name, 0)
    ask(name, -1)
    ask(name, 3, [])
    ask(name, 3, [[1], [1]])
    ask(name, 4, [[1]])
    ask(name, 3, [[77]])
    ask(name, 3, [[]])
    ask(name, 3, [[1, 1]])
    ask(name, 3, [[1, 2]])
    ask(name, 3, times=2)
    ask(session.name("unknown"), 3)
    ask("", 3)
    session.ask("Metadata", 12, topics=[{"name": name}])
