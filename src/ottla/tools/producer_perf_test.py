"""`kafka-producer-perf-test.sh`: measures producer throughput and latency.

Options and output are those of Kafka's tool. Records are random letters, lines of a file, or increasing
numbers.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.tools.client_options import producer_settings, read_properties
from ottla.tools.entry_point import finish
from ottla.tools.measurements import Pace, now_ms, print_metrics, rate
from ottla.tools.subcommands import SubcommandParser
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.config import ProducerSettings
    from ottla.client.producer.producer import Producer

_MEGABYTE = 1024 * 1024
_SAMPLES_MAX = 500_000
_TRANSACTION_MS = 3000
_LETTERS = bytes(ord("A") + byte % 26 for byte in range(256))
"""A letter per byte value: translating random bytes is a hundred times cheaper than drawing letters."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""

    def work() -> int:
        words = sys.argv[1:] if arguments is None else arguments
        parser = _parser()
        if not words:
            parser.print_help()
            return 0
        options = parser.parse_args(words)
        _check(parser, options)
        return _measure(options)

    return finish(work)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(prog="kafka-producer-perf-test", description="Measure producer throughput.")
    parser.add_argument("--bootstrap-server", "--broker-list", help="servers to connect to")
    parser.add_argument("--topic", required=True, help="topic to produce to")
    parser.add_argument("--num-records", type=int, required=True, help="number of records to send")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, help="size of records in bytes")
    payload.add_argument("--payload-file", help="file with record values, picked at random")
    payload.add_argument("--payload-monotonic", action="store_true", help="use increasing numbers as values")
    parser.add_argument("--payload-delimiter", default="\\n", help="delimiter between records in the file")
    parser.add_argument(
        "--throughput", type=float, required=True, help="maximum records per second; -1: no limit"
    )
    parser.add_argument("--producer-props", nargs="+", help="deprecated name of --command-property")
    parser.add_argument("--command-property", nargs="+", help="producer settings: name=value ...")
    parser.add_argument(
        "--producer.config", dest="producer_config", help="deprecated name of --command-config"
    )
    parser.add_argument("--command-config", help="properties file for the producer")
    parser.add_argument("--print-metrics", action="store_true", help="print the producer's metrics")
    parser.add_argument("--transactional-id", help="send in transactions")
    parser.add_argument(
        "--transaction-duration-ms", type=int, help="maximum duration of a transaction in ms (default: 3000)"
    )
    parser.add_argument(
        "--warmup-records", type=int, default=0, help="number of warmup records, reported separately"
    )
    parser.add_argument("--reporting-interval", type=int, default=5000, help="reporting interval in ms")
    return parser


def _check(parser: SubcommandParser, options: argparse.Namespace) -> None:
    settings = (
        options.bootstrap_server,
        options.command_property,
        options.producer_props,
        options.producer_config,
        options.command_config,
    )
    if options.num_records <= 0:
        parser.error("--num-records should be greater than zero.")
    if options.warmup_records >= options.num_records:
        parser.error(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )
    if options.record_size is not None and options.record_size <= 0:
        parser.error("--record-size should be greater than zero.")
    if all(one is None for one in settings):
        parser.error(
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
            "--command-config must be specified."
        )
    if options.command_property is not None and options.producer_props is not None:
        parser.error("--command-property and --producer-props cannot be specified together.")
    if options.command_config is not None and options.producer_config is not None:
        parser.error("--command-config and --producer.config cannot be specified together.")
    if options.transaction_duration_ms is not None and options.transaction_duration_ms <= 0:
        parser.error("--transaction-duration-ms should be greater than zero.")
    if options.reporting_interval <= 0:
        parser.error("--reporting-interval should be greater than zero.")


def _settings(options: argparse.Namespace) -> ProducerSettings:
    if options.producer_props is not None:
        _deprecated("producer-props", "command-property")
    if options.producer_config is not None:
        _deprecated("producer.config", "command-config")
    given = read_properties(options.command_config or options.producer_config)
    for word in options.command_property or options.producer_props or ():
        name, equals, value = word.partition("=")
        if not equals or not value or "=" in value:
            raise Failure(f"Invalid property: {word}")
        given[name] = value
    overrides: dict[str, object] = {"client.id": given.get("client.id", "perf-producer-client")}
    if options.bootstrap_server is not None:
        overrides["bootstrap.servers"] = options.bootstrap_server
    if options.transactional_id is not None:
        overrides["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None and "transactional.id" not in given:
        from uuid import uuid4

        overrides["transactional.id"] = f"performance-producer-{uuid4()}"
    return producer_settings(given, overrides)


def _deprecated(older: str, newer: str) -> None:
    print(
        f"Option --{older} has been deprecated and will be removed in a future version. "
        f"Use --{newer} instead."
    )


def _payloads(options: argparse.Namespace) -> Callable[[int], bytes]:
    """The function that creates the record for a number."""
    drawing = random.Random(0)
    if options.payload_monotonic:
        return lambda number: str(number).encode()
    if options.record_size is not None:
        size: int = options.record_size
        return lambda number: drawing.randbytes(size).translate(_LETTERS)
    print(f"Reading payloads from: {os.path.abspath(options.payload_file)}")
    try:
        with open(options.payload_file, encoding="utf-8", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    if not text:
        raise Failure("File does not exist or empty file provided.")
    delimiter = "\n" if options.payload_delimiter == "\\n" else options.payload_delimiter
    found = [part.encode() for part in text.removesuffix(delimiter).split(delimiter)]
    print(f"Number of records read: {len(found)}")
    return lambda number: drawing.choice(found)


# Measuring


def _measure(options: argparse.Namespace) -> int:
    payload = _payloads(options)
    settings = _settings(options)
    from ottla.client.producer.producer import Producer

    with Producer(settings) as producer:
        if options.warmup_records > 0:
            print(
                f"Warmup first {options.warmup_records} records. Steady state results will print after the "
                "complete test summary."
            )
        figures = _send_all(producer, options, payload)
        producer.flush()
        for one in figures:
            one.print_total()
        if options.print_metrics:
            print_metrics("producer-metrics", settings.client_id, producer.metrics())
    return 0


def _send_all(
    producer: Producer, options: argparse.Namespace, payload: Callable[[int], bytes]
) -> list[_Figures]:
    figures = [_Figures(options.num_records, options.reporting_interval)]
    duration_ms = None
    if producer.settings.transactional_id is not None:
        duration_ms = options.transaction_duration_ms or _TRANSACTION_MS
    began_ms, is_open = 0, False
    pace = Pace(options.throughput)
    for number in range(options.num_records):
        value = payload(number)
        if duration_ms is not None and not is_open:
            producer.begin_transaction()
            began_ms, is_open = now_ms(), True
        sent_ms = now_ms()
        if options.warmup_records > 0 and number == options.warmup_records:
            left = options.num_records - options.warmup_records
            figures[0].is_quiet = True
            figures.append(_Figures(left, options.reporting_interval, is_steady=True))
        _send(producer, options.topic, value, sent_ms, tuple(figures))
        if duration_ms is not None and duration_ms <= sent_ms - began_ms:
            producer.commit_transaction()
            is_open = False
        pace.keep(number)
    if is_open:
        producer.commit_transaction()
    return figures


def _send(producer: Producer, topic: str, value: bytes, sent_ms: int, figures: tuple[_Figures, ...]) -> None:
    def heard(report: Any) -> None:
        if report.error is not None:
            print(report.error, file=sys.stderr)
            return
        now = now_ms()
        for one in figures:
            one.add(now - sent_ms, len(value), now)

    try:
        producer.send(topic, value, on_delivery=heard)
    except (ClientError, KafkaError) as error:
        print(error, file=sys.stderr)


class _Figures:
    """Counts and latencies, in total and since the last line."""

    def __init__(self, records: int, interval_ms: int, *, is_steady: bool = False) -> None:
        self.is_quiet = False
        self._is_steady = is_steady
        self._interval_ms = interval_ms
        self._start_ms = self._window_ms = now_ms()
        self._every = records // min(records, _SAMPLES_MAX)
        self._latencies: list[int] = []
        self._count = self._bytes = self._total_ms = self._max_ms = 0
        self._window = _Window()

    def add(self, latency_ms: int, size: int, now: int) -> None:
        if self._count % self._every == 0:
            self._latencies.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._total_ms += latency_ms
        self._max_ms = max(self._max_ms, latency_ms)
        self._window.add(latency_ms, size)
        if now - self._window_ms >= self._interval_ms:
            if self._is_steady and self._count == self._window.count:
                print("In steady state.")
            if not self.is_quiet:
                self._window.print((now - self._window_ms) / 1000)
            self._window, self._window_ms = _Window(), now

    def print_total(self) -> None:
        seconds = (now_ms() - self._start_ms) / 1000
        ordered = sorted(self._latencies) or [0]
        parts = (
            ordered[min(int(part * len(ordered)), len(ordered) - 1)] for part in (0.5, 0.95, 0.99, 0.999)
        )
        half, most, nearly, all_but = parts
        print(
            f"{self._count}{' steady state' if self._is_steady else ''} records sent, "
            f"{rate(self._count, seconds, 6)} records/sec "
            f"({rate(self._bytes / _MEGABYTE, seconds, 2)} MB/sec), "
            f"{rate(self._total_ms, self._count, 2)} ms avg latency, {float(self._max_ms):.2f} ms max "
            f"latency, {half} ms 50th, {most} ms 95th, {nearly} ms 99th, {all_but} ms 99.9th.",
            flush=True,
        )


class _Window:
    """The counts since the last line."""

    def __init__(self) -> None:
        self.count = self._bytes = self._total_ms = self._max_ms = 0

    def add(self, latency_ms: int, size: int) -> None:
        self.count += 1
        self._bytes += size
        self._total_ms += latency_ms
        self._max_ms = max(self._max_ms, latency_ms)

    def print(self, seconds: float) -> None:
        print(
            f"{self.count} records sent, {rate(self.count, seconds, 1)} records/sec "
            f"({rate(self._bytes / _MEGABYTE, seconds, 2)} MB/sec), "
            f"{self._total_ms / self.count:.1f} ms avg latency, {float(self._max_ms):.1f} ms max latency.",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
