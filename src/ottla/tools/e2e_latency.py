"""`kafka-e2e-latency.sh`: measures the time of a record from a producer to a consumer, one at a time.

Options, output and exit codes are those of Kafka's tool; the positional arguments of versions before 4.2
still work.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.client_options import consumer_settings, producer_settings, read_properties
from ottla.tools.entry_point import finish, run
from ottla.tools.measurements import now_ms

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.producer.producer import Producer

_POLL_SECONDS = 60.0
_NAMED = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
_POSITIONS = (*_NAMED, "command-config")
_BLOCK_MS_MAX = 2**63 - 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or any(word in [f"--{name}" for name in _NAMED] for word in words):
        return run(_parser(), _work, words)
    if len(words) not in (5, 6):

        def refuse() -> int:
            raise Failure(
                f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(words)}. "
                "Usage: bootstrap-server topic num-records producer-acks record-size [optional] "
                "command-config"
            )

        return finish(refuse)
    print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please "
        "use named arguments instead: " + ", ".join(f"--{name}" for name in _POSITIONS)
    )
    named = [part for pair in zip(_POSITIONS, words, strict=False) for part in (f"--{pair[0]}", pair[1])]
    return run(_parser(), _work, named)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-e2e-latency", "Measure the latency from producer to consumer.")
    parser.value("bootstrap-server", text="Servers to connect to. Required.", shown_as="host:port,...")
    parser.value("topic", text="Topic to use. Required.", shown_as="topic")
    parser.value("producer-acks", text="1 or all. Required.", shown_as="acks")
    parser.value("command-config", text="Properties file for the clients.", shown_as="file")
    for name, text, default in (
        ("num-records", "Number of records to send. Required.", None),
        ("record-size", "Size of record values in bytes. Required.", None),
        ("record-key-size", "Size of record keys in bytes.", 0),
        ("record-header-key-size", "Size of header names in bytes.", 0),
        ("record-header-size", "Size of header values in bytes; -1: null.", 0),
        ("num-headers", "Number of headers per record.", 0),
    ):
        parser.value(name, text=text, shown_as="number", convert=int, default=default)
    return parser


def _check(options: Options) -> None:
    options.check_required(*_NAMED)
    error = options.parser.error
    if options.value("producer-acks") not in ("1", "all"):
        raise error(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. Please "
            "use '1' or 'all'."
        )
    if options.value("num-records") <= 0:
        raise error("Value for --num-records must be a positive integer.")
    for name in ("record-size", "record-key-size", "record-header-key-size"):
        if options.value(name) < 0:
            raise error(f"Value for --{name} must be a non-negative integer.")
    if options.value("record-header-size") < -1:
        raise error(
            "Value for --record-header-size must be a non-negative integer or -1 for null header value."
        )
    if options.value("num-headers") < 0:
        raise error("Value for --num-headers must be a non-negative integer.")


def _work(options: Options) -> int:
    _check(options)
    servers, topic = options.value("bootstrap-server"), options.value("topic")
    given = read_properties(options.value("command-config"))
    reading = consumer_settings(
        given,
        {
            "bootstrap.servers": servers,
            "group.id": f"test-group-{now_ms()}",
            "enable.auto.commit": "false",
            "auto.offset.reset": "latest",
            "fetch.max.wait.ms": "0",
        },
    )
    sending = producer_settings(
        given,
        {
            "bootstrap.servers": servers,
            "linger.ms": "0",
            "max.block.ms": str(_BLOCK_MS_MAX),
            "acks": options.value("producer-acks"),
        },
    )
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.producer.producer import Producer

    with Consumer(reading) as consumer, Producer(sending) as producer:
        _prepare(consumer, topic, options)
        _measure(consumer, producer, topic, options)
        consumer.commit()
    return 0


def _prepare(consumer: Consumer[Any, Any], topic: str, options: Options) -> None:
    from ottla.client.admin import NewTopic
    from ottla.tools.admin_connection import open_admin

    config = options.value("command-config")
    with open_admin(servers=options.value("bootstrap-server"), config=config) as admin:
        if topic not in admin.list_topics():
            print(
                f'Topic "{topic}" does not exist. '
                "Will create topic with 1 partition(s) and replication factor = 1"
            )
            admin.create_topics([NewTopic(topic, 1, 1)]).all()
        described = admin.describe_topics([topic]).result(topic)
    consumer.assign([(topic, one.partition) for one in described.partitions])
    consumer.seek_to_end()
    for partition in consumer.assignment:
        consumer.position(partition)


def _measure(consumer: Consumer[Any, Any], producer: Producer, topic: str, options: Options) -> None:
    drawing = random.Random(0)
    count: int = options.value("num-records")
    total_ns, latencies_ms = 0, []
    for number in range(count):
        key = _letters(drawing, options.value("record-key-size"))
        value = _letters(drawing, options.value("record-size"))
        headers = [_header(drawing, options) for _ in range(options.value("num-headers"))]
        began_ns = time.perf_counter_ns()
        producer.send(topic, value, key, headers).result()
        records = consumer.poll(_POLL_SECONDS)
        took_ns = time.perf_counter_ns() - began_ns
        _compare(records, key, value, headers)
        if number % 1000 == 0:
            print(f"{number}\t{took_ns / 1_000_000}", flush=True)
        total_ns += took_ns
        latencies_ms.append(took_ns // 1_000_000)
    latencies_ms.sort()
    half, most, nearly = (latencies_ms[int(count * part)] for part in (0.5, 0.99, 0.999))
    print(f"Avg latency: {total_ns / count / 1_000_000:.4f} ms")
    print(f"Percentiles: 50th = {half}, 99th = {most}, 99.9th = {nearly}")


def _letters(drawing: random.Random, size: int) -> bytes:
    return bytes([drawing.randrange(26) + 65]) * size


def _header(drawing: random.Random, options: Options) -> tuple[str, bytes | None]:
    name = _letters(drawing, options.value("record-header-key-size")).decode()
    size: int = options.value("record-header-size")
    return name, None if size == -1 else _letters(drawing, size)


def _compare(records: list[Any], key: bytes, value: bytes, headers: list[tuple[str, bytes | None]]) -> None:
    if not records:
        raise Failure(f"poll() timed out before finding a result (timeout:[{int(_POLL_SECONDS * 1000)}ms])")
    found = records[0]
    if found.value != value:
        raise Failure(
            f"The message value read [{found.value}] did not match the message value sent [{value!r}]"
        )
    if found.key != key:
        raise Failure(f"The message key read [{found.key}] did not match the message key sent [{key!r}]")
    if list(found.headers) != headers:
        raise Failure(f"The message headers read {found.headers} did not match those sent {headers}")
    if len(records) != 1:
        raise Failure(f"Only one result was expected during this test. We found [{len(records)}]")


if __name__ == "__main__":
    sys.exit(main())
