"""The parts of the console producer and consumer: lines to records, records to text, invalid command
lines."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ottla.coordinator import records as coordinator_records
from ottla.coordinator.result import Record
from ottla.operations.failure import Failure
from ottla.records.consumer_record import ConsumerRecord, Headers
from ottla.tools import (
    console_consumer,
    console_producer,
    consumer_perf_test,
    producer_perf_test,
    transactions,
)
from ottla.tools.consumer_perf_test import _date
from ottla.tools.line_reader import Line, LineReader
from ottla.tools.message_formatters import CannotShow, formatter_of
from ottla.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

Main = Callable[[Sequence[str]], int]
NOW = "org.apache.kafka.tools.consumer"
SERIALIZATION = "org.apache.kafka.common.serialization"


def consumed(
    value: bytes | None, key: bytes | None = None, headers: Headers = (), offset: int = 7
) -> ConsumerRecord[bytes | None, bytes | None]:
    return ConsumerRecord("topic", 2, offset, 1234, "CreateTime", key, value, headers, 5)


def shown(
    record: ConsumerRecord[bytes | None, bytes | None],
    name: str = "DefaultMessageFormatter",
    **properties: str,
) -> bytes:
    formatter = formatter_of(
        name if "." in name else f"{NOW}.{name}",
        {key.replace("_", "."): value for key, value in properties.items()},
    )
    assert formatter is not None
    return formatter(record)


def test_a_line_is_a_value() -> None:
    assert LineReader({}).read("a\tb") == Line(None, b"a\tb", [])


def test_headers_key_and_value_come_in_this_order() -> None:
    reader = LineReader({"parse.key": " True", "parse.headers": "true"})
    assert reader.read("a:1,b:2\tk\tv\tw") == Line(b"k", b"v\tw", [("a", b"1"), ("b", b"2")])


def test_separators_may_be_patterns_and_trailing_ones_do_not_count() -> None:
    reader = LineReader({"parse.headers": "true", "headers.separator": "(;|!)", "headers.delimiter": "|"})
    assert reader.read("a:1;b:2!!|v").headers == [("a", b"1"), ("b", b"2")]


def test_a_marker_means_null() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "-"})
    assert reader.read("-\t-\t-") == Line(None, None, [])
    assert reader.read("a:-\tk\t--") == Line(b"k", b"--", [("a", None)])
    with pytest.raises(Failure, match="Header keys should not be equal to the null marker '-'"):
        reader.read("-:1\tk\tv")


def test_a_line_without_its_separator_is_named() -> None:
    reader = LineReader({"parse.key": "true"})
    reader.read("k\tv")
    with pytest.raises(Failure, match="No key separator found on line number 2: 'nothing'"):
        reader.read("nothing")
    assert LineReader({"parse.key": "true", "ignore.error": "true"}).read("nothing").value == b"nothing"


@pytest.mark.parametrize(
    "properties",
    [
        {"headers.delimiter": ","},
        {"headers.separator": ":"},
        {"null.marker": "\t"},
        {"key.separator": "x", "null.marker": "x"},
        {"headers.separator": "("},
    ],
)
def test_equal_separators_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(Failure):
        LineReader(properties)


def test_a_record_is_formatted_as_requested() -> None:
    record = consumed(None, b"k", (("a", b"1"), ("b", None)))
    everything = dict.fromkeys(
        ("print_timestamp", "print_partition", "print_offset", "print_epoch", "print_headers", "print_key"),
        "true",
    )
    assert shown(record) == b"null\n"
    assert (
        shown(record, **everything)
        == b"CreateTime:1234\tPartition:2\tOffset:7\tEpoch:NOT_PRESENT\ta:1,b:null\tk\tnull\n"
    )
    assert shown(record, print_value="false") == b""
    assert shown(consumed(b"v"), print_headers="true", key_separator="|") == b"NO_HEADERS|v\n"
    assert shown(record, "NoOpMessageFormatter") == b""


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("Long", bytes(7) + b"*", "42"),
        ("Integer", b"\xff\xff\xff\xff", "-1"),
        ("Short", b"\0\1", "1"),
        ("Double", b"\x3f\xf8" + bytes(6), "1.5"),
        ("Float", b"\x3d\xcc\xcc\xcd", "0.1"),
        ("Boolean", b"\1", "true"),
        ("String", b"a\xff", "a\N{REPLACEMENT CHARACTER}"),
        ("Bytes", b"a\0", "a\\x00"),
        ("UUID", b"00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_values_are_decoded_by_class_name(kind: str, content: bytes, text: str) -> None:
    found = shown(consumed(content), value_deserializer=f"{SERIALIZATION}.{kind}Deserializer")
    assert found.decode() == f"{text}\n"


def test_a_value_of_another_type_cannot_be_shown() -> None:
    with pytest.raises(CannotShow, match="Size of data received by LongDeserializer is not 8"):
        shown(consumed(b"v"), value_deserializer=f"{SERIALIZATION}.LongDeserializer")


def stored(record: Record) -> ConsumerRecord[bytes | None, bytes | None]:
    key, value = coordinator_records.encode(record)
    return consumed(value, key)


def test_offsets_are_shown_as_each_version_does() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=5)
    record = stored(Record(key, value, 3))

    told = json.loads(shown(record, "OffsetsMessageFormatter"))
    assert told["key"] == {"type": 1, "data": {"group": "g", "topic": "t", "partition": 3}}
    assert told["value"]["data"]["offset"] == 9
    old = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
    assert shown(record, old) == (
        b"[g,t,3]::OffsetAndMetadata(offset=9, leaderEpoch=Optional[2], metadata=m, commitTimestamp=5, "
        b"expireTimestamp=None)\n"
    )
    assert shown(consumed(None, record.key), old) == b"[g,t,3]::NULL\n"
    assert json.loads(shown(consumed(None, record.key), "OffsetsMessageFormatter"))["value"] is None
    assert shown(record, "GroupMetadataMessageFormatter") == b""


def test_groups_and_transactions_are_shown_in_the_old_text() -> None:
    group = stored(Record(GroupMetadataKey(group="g"), GroupMetadataValue(protocol_type="consumer"), 3))
    assert shown(group, "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter") == (
        b"g::GroupMetadata(groupId=g, generation=0, protocolType=Some(consumer), currentState=Empty, "
        b"members=HashMap())\n"
    )
    value = TransactionLogValue(
        producer_id=4,
        transaction_status=1,
        transaction_timeout_ms=60,
        transaction_partitions=[TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 1])],
    )
    transaction = stored(Record(TransactionLogKey(transactional_id="x"), value, 0))
    text = shown(transaction, "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter")
    assert text.startswith(b"x::TransactionMetadata(transactionalId=x, producerId=4, producerEpoch=0, ")
    assert b"state=Ongoing, pendingState=None, topicPartitions=HashSet(t-0, t-1), " in text


def test_an_undecodable_record_is_named() -> None:
    with pytest.raises(CannotShow, match="Could not read record at offset 7"):
        shown(consumed(b"\0", b"\0\1"), "OffsetsMessageFormatter")
    assert shown(consumed(b"\0", None), "OffsetsMessageFormatter") == b""


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (console_producer.main, "--topic t --bootstrap-server localhost"),
        (console_producer.main, "--topic t --bootstrap-server h:1 --line-reader mine"),
        (console_producer.main, "--topic t --bootstrap-server h:1 --command-property acks=9"),
        (console_producer.main, "--topic t --bootstrap-server h:1 --command-config /nowhere"),
        (console_consumer.main, "--topic t --bootstrap-server h:1 --offset 3"),
        (console_consumer.main, "--topic t --bootstrap-server h:1 --formatter mine"),
        (console_consumer.main, "--topic t --bootstrap-server h:1 --partition 0 --offset -1"),
        (console_consumer.main, "--topic t --bootstrap-server h:1 --include ["),
        (transactions.main, "--bootstrap-server h:1"),
        (transactions.main, "--bootstrap-server h:1 find-hanging"),
        (producer_perf_test.main, "--topic t --num-records 0 --record-size 1 --throughput -1"),
        (producer_perf_test.main, "--topic t --num-records 1 --throughput -1"),
        (consumer_perf_test.main, "--topic t --bootstrap-server h:1"),
        (consumer_perf_test.main, "--topic t --bootstrap-server h:1 --num-records 1 --reporting-interval 0"),
    ],
)
def test_an_invalid_command_line_exits_with_1(
    main: Main, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 1
    told = capsys.readouterr()
    assert told.err
    assert "Traceback" not in told.err


def test_unsent_records_are_reported_and_the_others_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\nthree\n")))
    arguments = ["--topic", "t", "--broker-list", "127.0.0.1:1", "--max-block-ms", "50"]
    assert console_producer.main(arguments) == 0
    told = capsys.readouterr().err.splitlines()
    start = "Error when sending message to topic t with key: null, value: "
    assert [line.startswith(start) for line in told] == [True, True]
    assert "3 bytes" in told[0]
    assert "5 bytes" in told[1]


def test_times_are_formatted_by_java_patterns() -> None:
    assert _date(1_700_000_000_042, "SSS 'at' ss") == "042 at 20"
    assert len(_date(1_700_000_000_042, "yyyy-MM-dd HH:mm:ss:SSS")) == 23
