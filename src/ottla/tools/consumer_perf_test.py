"""`kafka-consumer-perf-test.sh`: measures consumer throughput, with the options and output of Kafka's tool.

`--broker-list` still works. `--date-format` supports the letters y, M, d, H, m, s and S of Java's formats.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientError, Disconnected
from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.client_options import consumer_settings, key_values, read_properties
from ottla.tools.entry_point import run
from ottla.tools.measurements import now_ms, print_metrics, rate
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer

_MEGABYTE = 1024 * 1024
_POLL_SECONDS = 0.1
_GROUPS_MAX = 100_000
_HEADER = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, "
    "fetch.MB.sec, fetch.nMsg.sec"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-consumer-perf-test", "Measure consumer throughput.")
    parser.value(
        "bootstrap-server", "broker-list", text="Servers to connect to. Required.", shown_as="host:port,..."
    )
    for name, text, shown_as in (
        ("topic", "Topic to consume.", "topic"),
        ("include", "Topics by a regular expression.", "pattern"),
        ("group", "Consumer group. Default: a new one.", "group"),
        ("command-property", "A consumer setting.", "name=value"),
        ("consumer.config", "Deprecated name of --command-config.", "file"),
        ("command-config", "Properties file for the consumer.", "file"),
    ):
        parser.value(name, text=text, shown_as=shown_as)
    for name, text, default in (
        ("fetch-size", "The consumer's max.partition.fetch.bytes.", 1024 * 1024),
        ("socket-buffer-size", "The consumer's receive.buffer.bytes.", 2 * 1024 * 1024),
        ("messages", "Deprecated name of --num-records.", None),
        ("num-records", "Number of records to consume. Required.", None),
        ("reporting-interval", "Reporting interval in ms.", 5000),
    ):
        parser.value(name, text=text, shown_as="number", convert=int, default=default)
    parser.value(
        "timeout",
        text="Exit if no record arrives for this many ms.",
        shown_as="number",
        convert=int,
        default=10_000,
        value_is_optional=True,
    )
    parser.value("date-format", text="Format of times.", shown_as="format", default="yyyy-MM-dd HH:mm:ss:SSS")
    parser.flag("from-latest", text="Without a committed offset, start at the end.")
    parser.flag("print-metrics", text="Print the consumer's metrics.")
    parser.flag("show-detailed-stats", text="Print a line per interval.")
    parser.flag("hide-header", text="Do not print the header.")
    return parser


def _work(options: Options) -> int:
    options.check_required("bootstrap-server")
    for one, other in (("topic", "include"), ("messages", "num-records")):
        if options.has(one) == options.has(other):
            raise options.parser.error(f"Exactly one of the following arguments is required: {one}, {other}")
    options.check_invalid("consumer.config", "command-config")
    for older, newer in (("messages", "num-records"), ("consumer.config", "command-config")):
        if options.has(older):
            print(f"Warning: --{older} is deprecated. Use --{newer} instead.")
    if not options.has("hide-header"):
        print(
            f"{'time, threadId' if options.has('show-detailed-stats') else 'start.time, end.time'}, {_HEADER}"
        )
    if options.value("reporting-interval") <= 0:
        raise Failure("Reporting interval must be greater than 0.")
    config = "consumer.config" if options.has("consumer.config") else "command-config"
    given = read_properties(options.value(config)) | key_values(options.values("command-property"))
    settings = consumer_settings(given, _overrides(options, given))
    from ottla.client.consumer.consumer import Consumer

    with Consumer(settings) as consumer:
        reading = _Reading(consumer, options)
        try:
            reading.run()
        except (ClientError, KafkaError) as error:
            print(error, file=sys.stderr)
            return 1
        reading.print_total()
        if options.has("print-metrics"):
            print_metrics("consumer-metrics", settings.client_id, consumer.metrics())
    return 0


def _overrides(options: Options, given: dict[str, str]) -> dict[str, object]:
    from random import randrange

    return {
        "bootstrap.servers": options.value("bootstrap-server"),
        "group.id": options.value("group") or f"perf-consumer-{randrange(_GROUPS_MAX)}",
        "receive.buffer.bytes": str(options.value("socket-buffer-size")),
        "max.partition.fetch.bytes": str(options.value("fetch-size")),
        "auto.offset.reset": "latest" if options.has("from-latest") else "earliest",
        "check.crcs": "false",
        "client.id": given.get("client.id", "perf-consumer-client"),
    }


class _Reading:
    """The measurement: records read, and the time spent in rebalances."""

    def __init__(self, consumer: Consumer[bytes | None, bytes | None], options: Options) -> None:
        self._consumer = consumer
        self._options = options
        self._wanted: int = options.value("messages" if options.has("messages") else "num-records")
        self._format = options.value("date-format")
        self._start_ms = self._joining_ms = now_ms()
        self._end_ms = self._start_ms
        self._records = self._bytes = 0
        self._join_ms = self._round_join_ms = 0
        self._assigned: set[Any] = set()
        self._unreachable: Disconnected | None = None

    def run(self) -> None:
        topic, pattern = self._options.value("topic"), self._options.value("include")
        try:
            self._consumer.subscribe(
                None if topic is None else [topic],
                pattern=None if pattern is None else re.compile(pattern),
                on_assigned=self._on_assigned,
                on_revoked=self._on_revoked,
            )
        except re.error as error:
            raise Failure(f"{pattern} is not a valid regular expression: {error}") from error
        timeout_ms: int = self._options.value("timeout")
        now = heard_ms = reported_ms = now_ms()
        before = (0, 0)
        while self._records < self._wanted and now - heard_ms <= timeout_ms:
            records = self._poll()
            now = now_ms()
            if not records:
                continue
            heard_ms = now
            self._records += len(records)
            self._bytes += sum(len(record.key or b"") + len(record.value or b"") for record in records)
            if now - reported_ms >= self._options.value("reporting-interval"):
                self._report(before, reported_ms, now)
                self._round_join_ms, reported_ms, before = 0, now, (self._records, self._bytes)
        self._end_ms = now_ms()
        if self._unreachable is not None and not self._records:
            print(self._unreachable, file=sys.stderr)
        if self._records < self._wanted:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )

    def _poll(self) -> list[Any]:
        """The next records. It waits for a broker that is not available yet."""
        try:
            return self._consumer.poll(_POLL_SECONDS)
        except Disconnected as error:
            self._unreachable = error
            return []

    def _on_assigned(self, partitions: Any) -> None:
        if not self._assigned:
            took_ms = now_ms() - self._joining_ms
            self._join_ms += took_ms
            self._round_join_ms += took_ms
        self._assigned.update(partitions)

    def _on_revoked(self, partitions: Any) -> None:
        self._assigned.difference_update(partitions)
        if not self._assigned:
            self._joining_ms = now_ms()

    def _report(self, before: tuple[int, int], from_ms: int, now: int) -> None:
        if not self._options.has("show-detailed-stats"):
            return
        records, size = self._records - before[0], (self._bytes - before[1]) / _MEGABYTE
        seconds, fetch_ms = (now - from_ms) / 1000, now - from_ms - self._round_join_ms
        fetching = fetch_ms / 1000
        print(
            f"{_date(now, self._format)}, 0, {self._bytes / _MEGABYTE:.4f}, {rate(size, seconds, 4)}, "
            f"{self._records}, {rate(records, seconds, 4)}, {self._round_join_ms}, {fetch_ms}, "
            f"{rate(size, fetching, 4) if fetch_ms > 0 else '0.0000'}, "
            f"{rate(records, fetching, 4) if fetch_ms > 0 else '0.0000'}",
            flush=True,
        )

    def print_total(self) -> None:
        if self._options.has("show-detailed-stats"):
            return
        size, seconds = self._bytes / _MEGABYTE, (self._end_ms - self._start_ms) / 1000
        fetch_ms = self._end_ms - self._start_ms - self._join_ms
        print(
            f"{_date(self._start_ms, self._format)}, {_date(self._end_ms, self._format)}, {size:.4f}, "
            f"{rate(size, seconds, 4)}, {self._records}, {rate(self._records, seconds, 4)}, "
            f"{self._join_ms}, {fetch_ms}, {rate(size, fetch_ms / 1000, 4)}, "
            f"{rate(self._records, fetch_ms / 1000, 4)}",
            flush=True,
        )


_LETTERS = {"y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S"}


def _date(moment_ms: int, written: str) -> str:
    """Format a time with a pattern of Java's SimpleDateFormat."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC).astimezone()

    def shown(found: re.Match[str]) -> str:
        letter = found[0][0]
        if letter == "'":
            return found[0][1:-1] or "'"
        if letter == "S":
            return f"{moment_ms % 1000:0{len(found[0])}d}"
        text = moment.strftime(_LETTERS[letter])
        return text[-2:] if found[0] == "yy" else text

    return re.sub(r"'[^']*'|y+|M+|d+|H+|m+|s+|S+", shown, written)


if __name__ == "__main__":
    sys.exit(main())
