"""What a controller answers to other replicas of the metadata log, and to requests in envelopes."""

from __future__ import annotations

import asyncio
import errno
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import CONTROLLER_LISTENER, RunningNode, as_sent, context_of, newest

from ottla.log.segment import LogDamaged
from ottla.raft.metadata_log import TOPIC
from ottla.records.record import read_records
from ottla.server.handlers import (
    begin_quorum_epoch,
    end_quorum_epoch,
    envelope,
    fetch_metadata_log,
    fetch_snapshot,
    vote,
)
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import codec, uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import read_response, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.protocol_data import DefaultPrincipalData
from ottla.wire.messages.vote import VoteRequest

_MODULES = (begin_quorum_epoch, end_quorum_epoch, envelope, fetch_metadata_log, fetch_snapshot, vote)
_HANDLES: dict[int, Callable[..., Any]] = {module.API.key: module.API.handle for module in _MODULES}
_Partition = FetchResponse.PartitionData


async def ask_later(node: RunningNode, request: Message, version: int | None = None) -> Any:
    """The answer on the controller's listener, as the asker reads it; one that waits is waited for."""
    version = newest(request) if version is None else version
    assert request.API_KEY is not None
    context = context_of(version, CONTROLLER_LISTENER)
    outcome = _HANDLES[request.API_KEY](node.broker, as_sent(request, version), context)
    if isinstance(outcome, PendingResponse):
        settled = asyncio.Event()
        outcome.on_completed = settled.set
        if not outcome.is_completed:
            await settled.wait()
        outcome = outcome.response
    return as_sent(await outcome if inspect.isawaitable(outcome) else outcome, version)


def ask(node: RunningNode, request: Message, version: int | None = None) -> Any:
    return node.run(ask_later(node, request, version))


# Fetch


def fetch_request(node: RunningNode, version: int = 18, **fields: Any) -> FetchRequest:
    """A fetch from the beginning in the leader's epoch, or as `fields` say."""
    wanted = FetchRequest.FetchPartition(
        partition=fields.get("partition", 0),
        fetch_offset=fields.get("offset", 0),
        last_fetched_epoch=fields.get("last_epoch", 0) if version >= 12 else -1,
        current_leader_epoch=fields.get("epoch", node.broker.quorum.epoch),
    )
    topic = FetchRequest.FetchTopic(partitions=[wanted])
    if version >= 13:
        topic.topic_id = fields.get("topic_id", uuid.METADATA_TOPIC_ID)
    else:
        topic.topic = TOPIC
    request = FetchRequest(
        max_wait_ms=fields.get("max_wait_ms", 0), max_bytes=fields.get("max_bytes", 1 << 20), topics=[topic]
    )
    if version >= 12:
        request.cluster_id = fields.get("cluster_id", node.broker.cluster_id)
    if version >= 15:
        request.replica_state.replica_id = 7
    else:
        request.replica_id = 7
    return request


def fetch(node: RunningNode, version: int = 18, **fields: Any) -> _Partition:
    response = ask(node, fetch_request(node, version, **fields), version)
    assert response.error_code == 0
    partition: _Partition = response.responses[0].partitions[0]
    return partition


@pytest.mark.parametrize("version", [12, 13, 14, 15, 16, 17, 18])
def test_the_whole_log_can_be_fetched_in_every_version(node: RunningNode, version: int) -> None:
    node.create("shown")
    quorum = node.broker.quorum
    response = ask(node, fetch_request(node, version), version)
    (topic,) = response.responses
    assert (topic.topic, topic.topic_id) == (
        (TOPIC, uuid.ZERO) if version < 13 else ("", uuid.METADATA_TOPIC_ID)
    )
    (found,) = topic.partitions
    assert found.error_code == 0
    assert found.high_watermark == quorum.image.offset + 1
    assert found.current_leader.leader_id == 1
    assert found.current_leader.leader_epoch == quorum.epoch
    assert [record.offset for record in read_records(found.records)] == list(range(found.high_watermark))
    assert len(response.node_endpoints) == (1 if version >= 17 else 0)


def test_versions_without_a_last_epoch_cannot_follow_the_log(node: RunningNode) -> None:
    assert fetch(node, 11).error_code == ErrorCode.INVALID_REQUEST


def test_a_fetch_says_why_it_cannot_be_served(node: RunningNode) -> None:
    epoch = node.broker.quorum.epoch
    assert fetch(node, epoch=epoch - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetch(node, epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(node, offset=-1).error_code == ErrorCode.INVALID_REQUEST
    assert fetch(node, last_epoch=epoch + 1).error_code == ErrorCode.INVALID_REQUEST
    refused = fetch(node, epoch=epoch - 1)
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, epoch)
    for fields, error in (
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"partition": 1}, ErrorCode.INVALID_REQUEST),
        ({"topic_id": b"t" * 16}, ErrorCode.INVALID_REQUEST),
    ):
        assert ask(node, fetch_request(node, **fields)).error_code == error
    assert ask(node, fetch_request(node, cluster_id=None)).error_code == 0


def test_a_log_that_goes_another_way_is_told_where(node: RunningNode) -> None:
    end = node.broker.quorum.image.offset + 1
    epoch = node.broker.quorum.epoch
    found = fetch(node, offset=end + 5, last_epoch=epoch)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (epoch, end)
    assert not found.records


def test_a_fetch_at_the_end_waits_for_the_next_record(node: RunningNode) -> None:
    quorum = node.broker.quorum

    async def work() -> tuple[Any, bool]:
        request = fetch_request(
            node, offset=quorum.image.offset + 1, last_epoch=quorum.epoch, max_wait_ms=20_000
        )
        waiting = asyncio.ensure_future(ask_later(node, request))
        await asyncio.sleep(0)
        was_done = waiting.done()
        topic = CreateTopicsRequest.CreatableTopic(name="news", num_partitions=1, replication_factor=1)
        await quorum.ask(CreateTopicsRequest(topics=[topic]))
        return await waiting, was_done

    response, was_done = node.run(work())
    assert not was_done
    assert list(read_records(response.responses[0].partitions[0].records))


def test_a_fetch_that_waits_in_vain_is_answered_without_records(node: RunningNode) -> None:
    quorum = node.broker.quorum
    found = fetch(node, offset=quorum.image.offset + 1, last_epoch=quorum.epoch, max_wait_ms=5)
    assert (found.error_code, bytes(found.records or b"")) == (0, b"")
    assert not quorum.progress.watchers


def test_a_new_high_watermark_is_told_at_once_to_those_who_ask(node: RunningNode) -> None:
    quorum = node.broker.quorum
    request = fetch_request(node, offset=quorum.image.offset + 1, last_epoch=quorum.epoch, max_wait_ms=20_000)
    request.topics[0].partitions[0].high_watermark = quorum.image.offset
    found = ask(node, request).responses[0].partitions[0]
    assert found.high_watermark == quorum.image.offset + 1


def test_a_log_that_cannot_be_read_is_told_and_ends_the_node(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum = node.broker.quorum
    monkeypatch.setattr(type(quorum.driver.log), "read", fail_to_read)
    found = fetch(node, offset=quorum.image.offset + 1, last_epoch=quorum.epoch, max_wait_ms=0)
    assert (found.error_code, bytes(found.records or b"")) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    node.run(asyncio.wait([quorum.failure]))
    assert "the disk is broken" in str(quorum.failure.exception())
    assert not quorum.is_active


def fail_to_read(*_: object, **__: object) -> Any:
    raise OSError(errno.EIO, "the disk is broken")


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EMFILE, "too many open files"), LogDamaged("0.log", 7, 3, "Batch length -1 is invalid.")],
    ids=["too many open files", "damaged"],
)
def test_what_cannot_be_read_for_one_replica_is_told_and_the_node_goes_on(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def fail_for_now(*_: object, **__: object) -> Any:
        raise error

    quorum = node.broker.quorum
    with monkeypatch.context() as patch:
        patch.setattr(type(quorum.driver.log), "read", fail_for_now)
        assert fetch(node).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.create("after")
    assert fetch(node).records


# FetchSnapshot


def snapshot_request(
    node: RunningNode, offset: int, position: int = 0, **fields: Any
) -> FetchSnapshotRequest:
    of = FetchSnapshotRequest
    wanted = of.PartitionSnapshot(
        partition=0,
        current_leader_epoch=fields.get("epoch", node.broker.quorum.epoch),
        snapshot_id=of.SnapshotId(end_offset=offset, epoch=node.broker.quorum.epoch),
        position=position,
    )
    return of(
        cluster_id=fields.get("cluster_id", node.broker.cluster_id),
        replica_id=7,
        max_bytes=fields.get("max_bytes", 1 << 20),
        topics=[of.TopicSnapshot(name=fields.get("topic", TOPIC), partitions=[wanted])],
    )


def test_a_snapshot_comes_in_pieces(node: RunningNode) -> None:
    node.create("held")
    node.run(node.broker.quorum.snapshot_now())
    offset = node.broker.quorum.image.offset + 1
    latest = node.broker.quorum.driver.latest_snapshot
    assert latest is not None
    path = f"{node.broker.config.metadata_log_directory}/{TOPIC}-0/{latest.file_name}"
    content = node.broker.disk.read(path)
    loaded = b""
    while True:
        request = snapshot_request(node, offset, len(loaded), max_bytes=100)
        (piece,) = ask(node, request).topics[0].partitions
        assert (piece.error_code, piece.size, piece.position) == (0, len(content), len(loaded))
        loaded += bytes(piece.unaligned_records)
        if len(loaded) == piece.size:
            break
    assert loaded == content
    assert fetch(node).snapshot_id.end_offset == offset  # and an empty replica is told to load it


def test_a_snapshot_that_cannot_be_sent_is_an_error(node: RunningNode) -> None:
    node.run(node.broker.quorum.snapshot_now())
    offset = node.broker.quorum.image.offset + 1

    def error(*arguments: int, **fields: Any) -> int:
        response = ask(node, snapshot_request(node, *arguments, **fields))
        found: int = response.error_code or response.topics[0].partitions[0].error_code
        return found

    assert error(offset + 1) == ErrorCode.SNAPSHOT_NOT_FOUND
    assert error(offset, 1 << 30) == ErrorCode.POSITION_OUT_OF_RANGE
    assert error(offset, -1) == ErrorCode.POSITION_OUT_OF_RANGE
    assert error(offset, topic="other") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(offset, epoch=node.broker.quorum.epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(offset, cluster_id="another") == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_snapshot_that_cannot_be_read_is_told_and_ends_the_node(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum = node.broker.quorum
    node.run(quorum.snapshot_now())
    monkeypatch.setattr(quorum.driver.journal.store, "read_piece", fail_to_read)
    response = ask(node, snapshot_request(node, quorum.image.offset + 1))
    assert response.topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.run(asyncio.wait([quorum.failure]))
    assert "the disk is broken" in str(quorum.failure.exception())
    assert not quorum.is_active


# Votes and epochs


def test_the_only_voter_gives_no_vote_and_stays_leader(node: RunningNode) -> None:
    epoch = node.broker.quorum.epoch
    asked = VoteRequest.PartitionData(
        partition_index=0, replica_id=2, replica_epoch=epoch + 1, last_offset_epoch=1, last_offset=9
    )
    request = VoteRequest(
        cluster_id=node.broker.cluster_id,
        voter_id=1,
        topics=[VoteRequest.TopicData(topic_name=TOPIC, partitions=[asked])],
    )
    (answer,) = ask(node, request).topics[0].partitions
    assert (answer.error_code, answer.vote_granted) == (0, False)
    assert (answer.leader_id, answer.leader_epoch) == (1, epoch)
    request.voter_id = 3
    assert ask(node, request).topics[0].partitions[0].error_code == ErrorCode.INVALID_VOTER_KEY
    request.cluster_id = "another"
    assert ask(node, request).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert node.broker.quorum.is_active


@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_the_only_voter_knows_no_other_leader(node: RunningNode, kind: Any) -> None:
    epoch = node.broker.quorum.epoch
    asked = kind.PartitionData(partition_index=0, leader_id=2, leader_epoch=epoch + 1)
    request = kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[asked])])
    (answer,) = ask(node, request).topics[0].partitions
    assert answer.error_code == ErrorCode.INCONSISTENT_VOTER_SET
    assert (answer.leader_id, answer.leader_epoch) == (1, epoch)
    asked.leader_epoch = epoch - 1
    assert ask(node, request).topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    request.topics[0].topic_name = "other"
    assert ask(node, request).error_code == ErrorCode.INVALID_REQUEST
    assert node.broker.quorum.is_active


# Envelopes


def principal() -> bytes:
    return bytes(2) + codec.encode(DefaultPrincipalData(type="User", name="ANONYMOUS"), 0)


def enclosed(request: Message, version: int) -> bytes:
    return request_frame(request, version, 77, "client")[4:]


def send(node: RunningNode, data: bytes, **fields: Any) -> EnvelopeResponse:
    request = EnvelopeRequest(
        request_data=data,
        request_principal=fields.get("principal", principal()),
        client_host_address=fields.get("host", bytes((127, 0, 0, 1))),
    )
    response: EnvelopeResponse = ask(node, request)
    return response


def creation(name: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000)


@pytest.mark.parametrize("version", [2, 7])
def test_a_request_in_an_envelope_is_answered_in_its_own_version(node: RunningNode, version: int) -> None:
    response = send(node, enclosed(creation("inside"), version))
    assert response.error_code == 0
    assert response.response_data is not None
    correlation_id, answer = read_response(response.response_data, 19, version)
    assert correlation_id == 77
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("inside", 0)]
    assert "inside" in node.broker.image.topics_by_name


def test_an_envelope_that_cannot_be_opened_is_an_error(node: RunningNode) -> None:
    good = enclosed(creation("refused"), 7)
    for data, fields, error in (
        (b"\x00\x13", {}, ErrorCode.UNSUPPORTED_VERSION),
        (good[:-4], {}, ErrorCode.UNSUPPORTED_VERSION),
        (b"\x00\x13\x00\x63" + good[4:], {}, ErrorCode.UNSUPPORTED_VERSION),
        (enclosed(MetadataRequest(), 12), {}, ErrorCode.INVALID_REQUEST),
        (good, {"host": b"12345"}, ErrorCode.INVALID_REQUEST),
        (good, {"principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (good, {"principal": b"\x00\x09abc"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ):
        assert send(node, data, **fields).error_code == error
    assert "refused" not in node.broker.image.topics_by_name
