"""What a node has when it is swept: partitions, groups with members and offsets, transactions, producers."""

from __future__ import annotations

from ottla.records.record import Record, build_batch
from ottla.wire import codec
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.protocol_data import ConsumerProtocolSubscription
from tests.interop.peers import wait_until
from tests.load.sweep.shapes import (
    DOOMED_TOPIC,
    FULL_GROUP,
    GROUP_COUNT,
    OFFSETS_GROUP,
    PARTITIONS,
    TOPIC_COUNT,
    WIDE_TOPIC,
)
from tests.unit.server.asking import Asking

MEMBERS = 2_000
PRODUCERS = 5_000
TRANSACTIONS = 500
METADATA_LETTERS = 200
JOINS_PER_CONNECTION = 50


def fill(port: int, share: float = 1.0) -> tuple[bytes, list[Asking]]:
    """Fill a new node, with a share of everything: the id of its widest topic, and connections to keep."""
    with Asking(port) as asking:
        asking.create_topic(WIDE_TOPIC, int(PARTITIONS * share))
        asking.create_topic(DOOMED_TOPIC, 1)
        names = [
            CreateTopicsRequest.CreatableTopic(name=f"topic-{index}", num_partitions=1, replication_factor=1)
            for index in range(1, int(TOPIC_COUNT * share))
        ]
        asking.ask(CreateTopicsRequest(topics=names, timeout_ms=60_000), 7)
        for key_type in (0, 1):
            _find(asking, key_type)
        _commit(asking, OFFSETS_GROUP, int(PARTITIONS * share))
        for index in range(int(GROUP_COUNT * share)):
            _commit(asking, f"group-{index}", 1)
        for index in range(int(TRANSACTIONS * share)):
            asking.ask(
                InitProducerIdRequest(transactional_id=f"txn-{index}", transaction_timeout_ms=60_000), 4
            )
        _produce(asking, int(PRODUCERS * share))
        topics = [MetadataRequest.MetadataRequestTopic(name=WIDE_TOPIC)]
        topic_id: bytes = asking.ask(MetadataRequest(topics=topics), 12).topics[0].topic_id
        return topic_id, _join(port, int(MEMBERS * share))


def _find(asking: Asking, key_type: int) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
    wait_until(
        lambda: asking.ask(request, 4).coordinators[0].error_code == 0,
        60,
        lambda: "a coordinator to be found",
    )


def _commit(asking: Asking, group_id: str, count: int) -> None:
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata="m" * METADATA_LETTERS
        )
        for index in range(count)
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=WIDE_TOPIC, partitions=partitions)
    wait_until(
        lambda: (
            asking.ask(OffsetCommitRequest(group_id=group_id, topics=[topic]), 8)
            .topics[0]
            .partitions[0]
            .error_code
            == 0
        ),
        60,
        lambda: f"{group_id} to commit",
    )


def _join(port: int, count: int) -> list[Asking]:
    """Members of one group that wait for its next rebalance, and the connections that they wait on."""
    subscription = (0).to_bytes(2, "big") + codec.encode(ConsumerProtocolSubscription(topics=[WIDE_TOPIC]), 0)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)]
    request = JoinGroupRequest(
        group_id=FULL_GROUP,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=1_800_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    waiting = [Asking(port)]
    assert waiting[0].ask(request, 3).error_code == 0  # who leads the group, and never comes back
    for index in range(count - 1):
        if index % JOINS_PER_CONNECTION == 0:
            waiting.append(Asking(port))
        waiting[-1].send(request, 3)
    return waiting


def _produce(asking: Asking, count: int) -> None:
    for producer_id in range(count):
        batch = build_batch(
            [Record(0, 1, None, b"value")],
            producer_id=10_000 + producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch))
        topic = ProduceRequest.TopicProduceData(name=WIDE_TOPIC, partition_data=[data])
        answer = asking.ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
