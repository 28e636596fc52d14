"""Every client reads what any client writes: contents, offsets, timestamps and headers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.interop.clients.admins import ConfluentAdmin
from tests.interop.clients.conftest import CLIENTS
from tests.interop.clients.messages import CASES, CODECS, Client, Message, Stored, plain_messages
from tests.interop.peers import BrokerProcess

NewTopic = Callable[..., str]
FIVE_MEGABYTES = 5 * 1024 * 1024


def sendable(client: Client, messages: Sequence[Message] = CASES) -> list[Message]:
    """The messages that a client can express; without timestamps for kcat, which cannot set them."""
    if client.name == "kcat":
        messages = [replace(message, timestamp_ms=None) for message in messages]
    return [message for message in messages if not client.refuses(message)]


def assert_reads_back(
    reader: Client,
    stored: Sequence[Stored],
    sent: Sequence[Message],
    *,
    first_offset: int = 0,
    window_ms: tuple[int, int],
    append_time: bool = False,
) -> None:
    """Compare record by record; a timestamp from a clock must lie within `window_ms`."""
    assert [record.offset for record in stored] == list(range(first_offset, first_offset + len(sent)))
    for record, message in zip(stored, sent, strict=True):
        assert record.key == message.key, record.offset
        assert record.value == message.value, record.offset
        assert record.headers == message.headers, record.offset
        if reader.name != "kcat":  # which does not say what kind of timestamp it shows
            assert record.timestamp_type == int(append_time), record.offset
        if append_time or message.timestamp_ms is None:
            assert window_ms[0] <= record.timestamp_ms <= window_ms[1], record.offset
        else:
            assert record.timestamp_ms == message.timestamp_ms, record.offset


def read_with_all(
    broker: BrokerProcess, topic: str, sent: Sequence[Message], window_ms: tuple[int, int], **how: bool
) -> None:
    for reader in CLIENTS.values():
        stored = reader.consume(broker.bootstrap, topic, len(sent))
        assert_reads_back(reader, stored, sent, window_ms=window_ms, **how)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_a_client_wrote(
    broker: BrokerProcess, client: Client, codec: str, new_topic: NewTopic
) -> None:
    topic = new_topic(f"codec-{codec}", partitions=2)
    sent = sendable(client)
    assert len(sent) >= 3
    before = now_ms()
    offsets = client.produce(broker.bootstrap, topic, sent, codec=codec)
    assert offsets in (list(range(len(sent))), [-1] * len(sent))
    read_with_all(broker, topic, sent, (before, now_ms()))


@pytest.mark.parametrize(
    ("acks", "idempotent"),
    [("0", False), ("1", False), ("all", False), ("all", True)],
    ids=["acks-0", "acks-1", "acks-all", "idempotent"],
)
def test_records_arrive_in_order_with_any_acks(
    broker: BrokerProcess, client: Client, acks: str, idempotent: bool, new_topic: NewTopic
) -> None:
    topic = new_topic("acks", partitions=3)
    messages = plain_messages(2000)
    before = now_ms()
    offsets = client.produce(
        broker.bootstrap, topic, messages, partition=2, acks=acks, idempotent=idempotent, codec="lz4"
    )
    if acks != "0" and client.name != "kcat":
        assert offsets == list(range(2000))
    stored = client.consume(broker.bootstrap, topic, 2000, partition=2)
    assert_reads_back(client, stored, messages, window_ms=(before, now_ms()))


def test_a_record_of_five_megabytes_passes_where_the_topic_allows_it(
    broker: BrokerProcess, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic("big", max_message_bytes=2 * FIVE_MEGABYTES)
    big = b"0123456789abcde\n" * (FIVE_MEGABYTES // 16)
    sent = [Message(b"small", b"before"), Message(b"big", big), Message(b"small", b"after")]
    before = now_ms()
    client.produce(broker.bootstrap, topic, sent)
    read_with_all(broker, topic, sent, (before, now_ms()))


def test_a_record_above_the_topic_limit_is_refused_and_nothing_is_stored(
    broker: BrokerProcess, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic("small", max_message_bytes=10_000)
    with pytest.raises(Exception, match=r"(?i)larg|size"):
        client.produce(broker.bootstrap, topic, [Message(b"k", b"v" * 20_000)])
    assert ConfluentAdmin(broker.bootstrap).list_offset(topic, 0, "latest").value == 0


def test_the_broker_stamps_records_of_a_log_append_time_topic(
    broker: BrokerProcess, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic("append-time", message_timestamp_type="LogAppendTime")
    sent = sendable(client)
    before = now_ms()
    client.produce(broker.bootstrap, topic, sent, codec="gzip")
    read_with_all(broker, topic, sent, (before, now_ms()), append_time=True)


@pytest.mark.parametrize("topic_codec", [codec for codec in CODECS if codec != "none"] + ["uncompressed"])
def test_the_broker_recompresses_for_a_topic_with_its_own_codec(
    broker: BrokerProcess, topic_codec: str, new_topic: NewTopic
) -> None:
    topic = new_topic("recompress", compression_type=topic_codec)
    sent = list(CASES)
    before = now_ms()
    for index, codec in enumerate(CODECS):
        CLIENTS["java"].produce(broker.bootstrap, topic, sent, codec=codec)
        stored = CLIENTS["confluent"].consume(broker.bootstrap, topic, len(sent), offset=index * len(sent))
        assert_reads_back(
            CLIENTS["confluent"],
            stored,
            sent,
            first_offset=index * len(sent),
            window_ms=(before, now_ms()),
        )


def test_consumption_starts_in_the_middle_of_a_batch(
    broker: BrokerProcess, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic("middle")
    messages = plain_messages(500)
    CLIENTS["java"].produce(broker.bootstrap, topic, messages, codec="zstd")
    for offset in (1, 250, 499):
        stored = client.consume(broker.bootstrap, topic, 500 - offset, offset=offset)
        assert [record.offset for record in stored] == list(range(offset, 500))
        assert [record.value for record in stored] == [message.value for message in messages[offset:]]


def test_a_consumer_at_the_end_hears_of_a_record_that_comes_later(
    broker: BrokerProcess, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic("later")
    heard: list[Stored] = []
    reader = threading.Thread(
        target=lambda: heard.extend(client.consume(broker.bootstrap, topic, 1)), daemon=True
    )
    reader.start()
    reader.join(
        0.3
    )  # the consumer is most likely waiting in a fetch by now; the result does not depend on it
    CLIENTS["confluent"].produce(broker.bootstrap, topic, [Message(b"k", b"late")])
    reader.join(60)
    assert [record.value for record in heard] == [b"late"]
