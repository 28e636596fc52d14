"""`kafka-console-producer.sh`: sends each line of standard input as a record.

Options, warnings and exit codes are those of Kafka's tool, and `--broker-list` still works. A record that
could not be sent is reported on standard error, and the tool continues; with `--sync` it exits. On Ctrl-C the
lines read so far are still sent.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.client_options import either, key_values, producer_settings, read_properties
from ottla.tools.entry_point import run
from ottla.tools.line_reader import Line, LineReader
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.config import ProducerSettings
    from ottla.client.core.accumulator import DeliveryReport
    from ottla.client.producer.producer import Producer

_READERS = ("org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")
_SERVER = re.compile(r".*?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_WARNING = "Warning: --{older} is deprecated and will be removed in a future version. Use --{newer} instead."
_SETTINGS = {
    "linger.ms": "timeout",
    "acks": "request-required-acks",
    "request.timeout.ms": "request-timeout-ms",
    "retries": "message-send-max-retries",
    "retry.backoff.ms": "retry-backoff-ms",
    "send.buffer.bytes": "socket-buffer-size",
    "buffer.memory": "max-memory-bytes",
    "batch.size": "batch-size",
    "metadata.max.age.ms": "metadata-expiry-ms",
    "max.block.ms": "max-block-ms",
}
"""Producer settings, and the options that override them and have their own defaults."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-console-producer", "Produce lines of standard input to a topic.")
    parser.value("topic", text="Topic to produce to. Required.", shown_as="topic")
    parser.value(
        "bootstrap-server", "broker-list", text="Servers to connect to. Required.", shown_as="host:port,..."
    )
    parser.flag("sync", text="Send synchronously, one record at a time; exit on the first failure.")
    parser.value(
        "compression-codec",
        text="Compression: none, gzip, snappy, lz4 or zstd; gzip without a value.",
        shown_as="codec",
        value_is_optional=True,
    )
    _add_tuning(parser)
    for names, text, shown_as in (
        ("line-reader", f"Line reader class; only {_READERS[0]} is supported.", "class"),
        ("property", "Deprecated name of --reader-property.", "name=value"),
        (
            "reader-property",
            "Input properties: parse.key, key.separator, parse.headers, headers.delimiter, "
            "headers.separator, headers.key.separator, null.marker, ignore.error.",
            "name=value",
        ),
        ("reader-config", "File with input properties; --reader-property takes precedence.", "file"),
        ("producer-property", "Deprecated name of --command-property.", "name=value"),
        ("command-property", "A producer setting.", "name=value"),
        ("producer.config", "Deprecated name of --command-config.", "file"),
        ("command-config", "Properties file for the producer; --command-property takes precedence.", "file"),
    ):
        parser.value(names, text=text, shown_as=shown_as)
    return parser


def _add_tuning(parser: OptionParser) -> None:
    for name, setting, default in (
        ("batch-size", "batch.size", 16384),
        ("message-send-max-retries", "retries", 3),
        ("retry-backoff-ms", "retry.backoff.ms", 100),
        ("timeout", "linger.ms", 1000),
        ("request-timeout-ms", "request.timeout.ms", 1500),
        ("metadata-expiry-ms", "metadata.max.age.ms", 300_000),
        ("max-block-ms", "max.block.ms", 60_000),
        ("max-memory-bytes", "buffer.memory", 32 * 1024 * 1024),
        ("max-partition-memory-bytes", "batch.size (deprecated name of --batch-size)", 16384),
        ("socket-buffer-size", "send.buffer.bytes", 102_400),
    ):
        parser.value(name, text=f"The producer's {setting}.", shown_as="number", convert=int, default=default)
    parser.value("request-required-acks", text="The producer's acks.", shown_as="acks", default="-1")


def _work(options: Options) -> int:
    options.check_required("topic")
    settings, reader = _configured(options)
    from ottla.client.producer.producer import Producer

    producer = Producer(settings)
    try:
        _send_all(producer, options.value("topic"), reader, is_awaited=options.has("sync"))
    finally:
        producer.close()
    return 0


def _configured(options: Options) -> tuple[ProducerSettings, LineReader]:
    words = either(options, "command-property", "producer-property", _WARNING)
    config = either(options, "command-config", "producer.config", _WARNING)
    reading = either(options, "reader-property", "property", _WARNING)
    if options.has("max-partition-memory-bytes"):
        print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
            "Use --batch-size instead."
        )
    _check_servers(options)
    if options.value("line-reader") not in (None, *_READERS):
        raise Failure(f"Unknown line reader {options.value('line-reader')}. Omit --line-reader.")
    reader = LineReader(read_properties(options.value("reader-config")) | key_values(options.values(reading)))
    given = read_properties(options.value(config)) | key_values(options.values(words))
    return producer_settings(given, _overrides(options, given)), reader


def _check_servers(options: Options) -> None:
    servers = options.value("bootstrap-server")
    if servers is None or not servers.strip():
        raise options.parser.error("Error while validating the bootstrap address\n")
    if not all(_SERVER.fullmatch(server) for server in servers.split(",")):
        raise options.parser.error("Please provide valid host:port like host1:9091,host2:9092\n")


def _overrides(options: Options, given: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {
        "bootstrap.servers": options.value("bootstrap-server"),
        "compression.type": "none",
        "client.id": given.get("client.id", "console-producer"),
    }
    if options.has("compression-codec"):
        found["compression.type"] = options.value("compression-codec") or "gzip"
    for setting, option in _SETTINGS.items():
        if options.has(option) or setting not in given:
            found[setting] = str(options.value(option))
    if options.has("max-partition-memory-bytes"):
        found["batch.size"] = str(options.value("max-partition-memory-bytes"))
    return found


# Sending


def _send_all(producer: Producer, topic: str, reader: LineReader, *, is_awaited: bool) -> None:
    for text in _lines():
        line = reader.read(text)
        if is_awaited:
            producer.send(topic, line.value, line.key, line.headers).result()
            continue
        report = _delivery_reporter(topic, line)
        try:
            producer.send(topic, line.value, line.key, line.headers, on_delivery=report)
        except (ClientError, KafkaError) as error:
            _tell(topic, line, error)


def _delivery_reporter(topic: str, line: Line) -> Any:
    def heard(report: DeliveryReport) -> None:
        if report.error is not None:
            _tell(topic, line, report.error)

    return heard


def _tell(topic: str, line: Line, error: Exception) -> None:
    key, value = ("null" if part is None else f"{len(part)} bytes" for part in (line.key, line.value))
    print(
        f"Error when sending message to topic {topic} with key: {key}, value: {value} with error: {error}",
        file=sys.stderr,
    )


def _lines() -> Iterator[str]:
    """The lines of standard input, with a prompt for each on a terminal."""
    prompt = ">" if sys.stdin.isatty() and sys.stdout.isatty() else ""
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    try:
        while True:
            if prompt:
                print(prompt, end="", flush=True)
            line = lines.readline()
            if not line:
                return
            yield line.removesuffix("\n")
    finally:
        lines.detach()


if __name__ == "__main__":
    sys.exit(main())
