"""Values that a version cannot represent are refused, or dropped if the schema allows; as in Kafka's
classes."""

from __future__ import annotations

import pytest

from ottla.wire import codec
from ottla.wire.errors import UnencodableMessage, UnsupportedVersion
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.group_records import ConsumerGroupMemberMetadataValue
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.metadata_records import PartitionChangeRecord
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.messages.protocol_data import RequestHeader
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.messages.transaction_records import TransactionLogValue


def test_a_value_that_the_version_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="HeartbeatRequest version 2 has no field group_instance_id"):
        codec.encode(HeartbeatRequest(group_instance_id="static"), 2)


def test_an_ignorable_value_that_the_version_lacks_is_dropped() -> None:
    assert codec.encode(FetchRequest(rack_id="r1"), 10) == codec.encode(FetchRequest(), 10)


def test_a_list_that_the_version_lacks_is_refused_unless_it_is_empty() -> None:
    assert codec.encode(OffsetFetchRequest(groups=[]), 7)
    with pytest.raises(UnsupportedVersion, match="groups"):
        codec.encode(OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup()]), 7)


def test_null_is_not_the_default_of_a_nullable_list() -> None:
    with pytest.raises(UnsupportedVersion, match="topics"):
        codec.encode(OffsetFetchRequest(topics=None), 8)


def test_a_struct_that_the_version_lacks_is_refused_unless_it_is_the_default() -> None:
    partition = ProduceResponse.PartitionProduceResponse()
    topic = ProduceResponse.TopicProduceResponse(partition_responses=[partition])
    response = ProduceResponse(responses=[topic])
    assert codec.encode(response, 9)
    partition.current_leader.leader_epoch = 5
    with pytest.raises(UnsupportedVersion, match="current_leader"):
        codec.encode(response, 9)
    decoded = codec.decode(ProduceResponse, codec.encode(response, 10), 10)
    assert decoded.responses[0].partition_responses[0].current_leader.leader_epoch == 5


def test_unknown_tags_are_refused_in_versions_without_tags() -> None:
    with pytest.raises(UnsupportedVersion, match="does not support tagged fields"):
        codec.encode(HeartbeatRequest(unknown_tagged_fields={5: b""}), 3)
    assert codec.encode(HeartbeatRequest(unknown_tagged_fields={}), 3)


def test_a_known_tag_cannot_also_be_unknown() -> None:
    with pytest.raises(UnencodableMessage, match="Tag 0"):
        codec.encode(FetchRequest(cluster_id="c", unknown_tagged_fields={0: b"c"}), 12)


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    assert codec.decode(MetadataRequest, codec.encode(MetadataRequest(topics=None), 1), 1).topics is None
    with pytest.raises(UnencodableMessage, match="MetadataRequest version 0"):
        codec.encode(MetadataRequest(topics=None), 0)


@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest(generation_id=1 << 31),
        HeartbeatRequest(group_id="x" * 32_768),
        HeartbeatRequest(group_id="\ud800"),
        HeartbeatRequest(group_id=None),  # type: ignore[arg-type]
        HeartbeatRequest(group_id=b"bytes"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("version", [0, 4])
def test_a_value_outside_its_type_is_refused(request_: HeartbeatRequest, version: int) -> None:
    with pytest.raises(UnencodableMessage):
        codec.encode(request_, version)


@pytest.mark.parametrize("topic_id", [b"", b"fifteen bytes..", b"seventeen bytes.."])
def test_an_id_of_another_length_is_refused(topic_id: bytes) -> None:
    with pytest.raises(UnencodableMessage, match="16 bytes"):
        codec.encode(FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=topic_id)]), 13)
    with pytest.raises(UnencodableMessage, match="16 bytes"):
        codec.encode(PartitionChangeRecord(directories=[topic_id]), 1)


def test_tagged_fields_at_their_default_are_not_sent() -> None:
    assert codec.encode(FetchRequest(), 17).endswith(b"\x00")
    sent = codec.encode(FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=7)), 17)
    # One tagged field: tag 1, 13 bytes: replica id, replica epoch, no tagged fields inside.
    assert sent.endswith(b"\x01\x01\x0d" + b"\0\0\0\x07" + b"\xff" * 8 + b"\0")


def test_a_tagged_field_that_starts_null_sends_an_empty_list() -> None:
    record = PartitionChangeRecord(isr=[])
    assert codec.encode(record, 0).endswith(b"\x01\x00\x01\x01")
    assert codec.decode(PartitionChangeRecord, codec.encode(record, 0), 0).isr == []


def test_a_nullable_tagged_struct_marks_null_and_presence() -> None:
    absent = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert codec.encode(absent, 0).endswith(b"\x01\x00\x01\x00")
    assert codec.decode(ConsumerGroupMemberMetadataValue, codec.encode(absent, 0), 0) == absent
    present = ConsumerGroupMemberMetadataValue(
        classic_member_metadata=ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(session_timeout_ms=1)
    )
    assert codec.decode(ConsumerGroupMemberMetadataValue, codec.encode(present, 0), 0) == present


def test_a_nullable_struct_marks_null_and_presence() -> None:
    for topology in (None, StreamsGroupHeartbeatRequest.Topology(epoch=3)):
        request = StreamsGroupHeartbeatRequest(topology=topology)
        assert codec.decode(StreamsGroupHeartbeatRequest, codec.encode(request, 0), 0) == request


def test_the_client_id_is_never_compact() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=7, client_id="me")
    assert codec.encode(header, 2) == b"\0\x03\0\x0c\0\0\0\x07\0\x02me\0"


def test_tagged_only_fields_are_refused_in_older_versions() -> None:
    with pytest.raises(UnsupportedVersion, match="previous_producer_id"):
        codec.encode(TransactionLogValue(previous_producer_id=5), 0)
    assert (
        codec.decode(TransactionLogValue, codec.encode(TransactionLogValue(), 0), 0).next_producer_epoch == -1
    )


def test_absent_fields_have_their_defaults_after_decoding() -> None:
    response = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData()])]
    )
    decoded = codec.decode(FetchResponse, codec.encode(response, 4), 4)
    partition = decoded.responses[0].partitions[0]
    assert partition.preferred_read_replica == -1
    assert partition.current_leader == FetchResponse.LeaderIdAndEpoch()
    assert decoded.node_endpoints == []
