"""`kafka-verifiable-producer.sh`: sends increasing numbers to a topic and prints the results as JSON lines.

Options and events are those of Kafka's tool. SIGTERM and Ctrl-C exit cleanly, with a summary.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

from ottla.client.errors import ClientError
from ottla.operations.java_order import class_of
from ottla.tools.client_options import producer_settings, read_properties
from ottla.tools.entry_point import finish
from ottla.tools.measurements import Pace, now_ms
from ottla.tools.subcommands import SubcommandParser
from ottla.tools.verifiable import print_event, properties_file, until_signalled
from ottla.wire.errors import KafkaError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    return finish(lambda: _work(words))


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="verifiable-producer", description="Produce increasing numbers and report the result of each."
    )
    parser.add_argument("--topic", required=True, help="topic to produce to")
    parser.add_argument("--bootstrap-server", "--broker-list", required=True, help="servers to connect to")
    parser.add_argument("--max-messages", type=int, default=-1, help="number of records; -1: unlimited")
    parser.add_argument("--throughput", type=int, default=-1, help="maximum records per second; -1: no limit")
    parser.add_argument("--acks", type=int, default=-1, choices=(0, 1, -1), help="the producer's acks")
    parser.add_argument(
        "--producer.config", dest="producer_config", help="deprecated name of --command-config"
    )
    parser.add_argument("--message-create-time", type=int, default=-1, help="timestamp of the first record")
    parser.add_argument("--value-prefix", type=int, help="prefix of each value, followed by a dot")
    parser.add_argument("--repeating-keys", type=int, help="keys repeat from 0 to this number, exclusive")
    parser.add_argument("--command-config", help="properties file for the producer")
    return parser


def _work(words: Sequence[str]) -> int:
    parser = _parser()
    if not words:
        parser.print_help()
        return 0
    options = parser.parse_args(words)
    path = properties_file(parser, "--producer.config", options.producer_config, options.command_config)
    given = {
        "bootstrap.servers": options.bootstrap_server,
        "acks": str(options.acks),
        "retries": "0",
    } | read_properties(path)
    sending = _Sending(options)
    settings = producer_settings(given, {})
    return until_signalled(lambda: sending.run(settings))


class _Sending:
    """The numbers that were sent and acknowledged."""

    def __init__(self, options: Any) -> None:
        self._options = options
        self._sent = self._acked = 0

    def run(self, settings: Any) -> None:
        from ottla.client.producer.producer import Producer

        start_ms = now_ms()
        producer = Producer(settings)
        try:
            print_event("startup_complete")
            self._send_all(producer, start_ms)
        finally:
            producer.close()
            print_event("shutdown_complete")
            seconds = max(now_ms() - start_ms, 1) / 1000
            print_event(
                "tool_data",
                sent=self._sent,
                acked=self._acked,
                target_throughput=self._options.throughput,
                avg_throughput=self._acked / seconds,
            )

    def _send_all(self, producer: Any, start_ms: int) -> None:
        options = self._options
        pace = Pace(options.throughput)
        time_ms = None if options.message_create_time == -1 else options.message_create_time
        keys = itertools.cycle(range(options.repeating_keys)) if options.repeating_keys else None
        numbers = itertools.count() if options.max_messages < 0 else range(options.max_messages)
        for number in numbers:
            key = None if keys is None else str(next(keys))
            value = str(number) if options.value_prefix is None else f"{options.value_prefix}.{number}"
            self._sent += 1
            self._send(producer, key, value, time_ms)
            if time_ms is not None:
                time_ms += now_ms() - start_ms
            pace.keep(number)

    def _send(self, producer: Any, key: str | None, value: str, time_ms: int | None) -> None:
        topic = self._options.topic

        def failed(error: Exception) -> None:
            kind = f"class {class_of(error)}"
            print_event(
                "producer_send_error", topic=topic, key=key, value=value, exception=kind, message=str(error)
            )

        def heard(report: Any) -> None:
            if report.error is not None:
                failed(report.error)
                return
            self._acked += 1
            where = {"topic": report.topic, "partition": report.partition, "offset": report.offset}
            print_event("producer_send_success", key=key, value=value, **where)

        try:
            producer.send(topic, value, key, timestamp=time_ms, on_delivery=heard)
        except (ClientError, KafkaError) as error:
            failed(error)


if __name__ == "__main__":
    sys.exit(main())
