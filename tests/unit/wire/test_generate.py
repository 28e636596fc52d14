"""The generated classes match the schemas, and have the form that the rest of the code relies on."""

from __future__ import annotations

import pytest
from tests.unit.wire.instances import CLASSES

from ottla.wire import generate
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse


def test_the_generated_files_are_up_to_date() -> None:
    assert generate.differences() == []
    assert generate.main(["--check"]) == 0


def test_a_stale_file_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = generate.sources()
    wanted["produce.py"] += "\n"
    monkeypatch.setattr(generate, "sources", lambda: wanted)
    assert generate.main(["--check"]) == 1
    assert "produce.py" in capsys.readouterr().err


def test_a_generated_file_says_so_in_its_first_line() -> None:
    for text in generate.sources().values():
        assert text.startswith("# Generated from schemas/*.txt by `python -m ottla.wire.generate`.")


def test_every_message_of_kafka_4_3_1_exists() -> None:
    assert len(CLASSES) == 272


def test_fields_start_at_their_defaults() -> None:
    request = ProduceRequest()
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, 0, 0)
    partition = ProduceResponse.PartitionProduceResponse()
    assert (partition.log_append_time_ms, partition.error_message) == (-1, None)
    assert partition.current_leader == ProduceResponse.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    assert request.unknown_tagged_fields is None


def test_every_message_has_new_lists_and_structs() -> None:
    first, second = ProduceRequest(), ProduceRequest()
    first.topic_data.append(ProduceRequest.TopicProduceData())
    assert second.topic_data == []
    one, other = ProduceResponse.PartitionProduceResponse(), ProduceResponse.PartitionProduceResponse()
    assert one.current_leader is not other.current_leader


def test_null_is_kept_if_the_default_is_a_list() -> None:
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_a_field_that_does_not_exist_cannot_be_set() -> None:
    with pytest.raises(AttributeError):
        ProduceRequest().ack = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        ProduceRequest(ack=1)  # type: ignore[call-arg]


def test_messages_are_equal_when_all_their_fields_are() -> None:
    assert ProduceRequest(acks=1) == ProduceRequest(acks=1)
    assert ProduceRequest(acks=1) != ProduceRequest(acks=2)
    assert ProduceRequest() != ProduceResponse()
    assert ProduceRequest(unknown_tagged_fields={}) == ProduceRequest()
    assert ProduceRequest(unknown_tagged_fields={1: b""}) != ProduceRequest()


def test_a_message_shows_its_fields() -> None:
    partition = ProduceRequest.PartitionProduceData(index=2, records=memoryview(b"12345"))
    assert repr(partition) == "ProduceRequest.PartitionProduceData(index=2, records=<5 bytes>)"
    partition.unknown_tagged_fields = {7: b"x"}
    assert repr(partition).endswith("unknown_tagged_fields={7: b'x'})")


def test_class_attributes_describe_the_message() -> None:
    assert (ProduceRequest.NAME, ProduceRequest.KIND, ProduceRequest.API_KEY) == (
        "ProduceRequest",
        "request",
        0,
    )
    assert (range(3, 14), 9) == (ProduceRequest.VERSIONS, ProduceRequest.FLEXIBLE_FROM)
