"""`kafka-console-consumer.sh`: prints records of topics as they arrive.

Options, output and exit codes are those of Kafka's tool: it exits with 1 for a record that it cannot print,
and with 0 after read errors and timeouts. In every case it reports the number of processed records, and a
group has committed exactly those.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ClientError, Disconnected, TimedOut
from ottla.operations.failure import Failure
from ottla.operations.termination import terminable
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.client_options import consumer_settings, either, key_values, read_properties
from ottla.tools.entry_point import run
from ottla.tools.message_formatters import DEFAULT, CannotShow, Formatter, formatter_of
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer

_WARNING = "Option --{older} is deprecated and will be removed in a future version. Use --{newer} instead."
_REFUSAL = "Options --{older} and --{newer} cannot be specified together."
_POLL_SECONDS = 60.0
_POLL_RECORDS = 500
_GROUPS_MAX = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-console-consumer", "Consume records and print them.")
    for name, text, shown_as in (
        ("bootstrap-server", "Servers to connect to. Required.", "host:port,..."),
        ("topic", "Topic to consume.", "topic"),
        ("include", "Topics by a regular expression.", "pattern"),
        ("offset", "Start offset in the partition: a number, earliest or latest.", "offset"),
        ("consumer-property", "Deprecated name of --command-property.", "name=value"),
        ("command-property", "A consumer setting.", "name=value"),
        ("consumer.config", "Deprecated name of --command-config.", "file"),
        ("command-config", "Properties file for the consumer; --command-property takes precedence.", "file"),
        ("property", "Deprecated name of --formatter-property.", "name=value"),
        (
            "formatter-property",
            "Output properties: print.timestamp, print.key, print.value, print.offset, print.partition, "
            "print.headers, print.epoch, key.separator, line.separator, headers.separator, null.literal, "
            "key.deserializer, value.deserializer, headers.deserializer.",
            "name=value",
        ),
        ("formatter-config", "File with output properties; --formatter-property takes precedence.", "file"),
        ("key-deserializer", "Kafka deserializer class for keys.", "class"),
        ("value-deserializer", "Kafka deserializer class for values.", "class"),
        ("group", "Consumer group. Default: a new one.", "group"),
    ):
        parser.value(name, text=text, shown_as=shown_as)
    parser.value("formatter", text="Kafka formatter class for records.", shown_as="class", default=DEFAULT)
    parser.value("isolation-level", text="Or read_committed.", shown_as="level", default="read_uncommitted")
    for name, text in (
        ("partition", "Partition to consume, from its end unless --offset is given."),
        ("max-messages", "Exit after this many records."),
        ("timeout-ms", "Exit if no record arrives for this many ms."),
    ):
        parser.value(name, text=text, shown_as="number", convert=int)
    parser.flag("from-beginning", text="Without a committed offset, start at the earliest record.")
    parser.flag("skip-message-on-error", text="Skip records that cannot be printed.")
    parser.flag("enable-systest-events", text="Print shutdown_complete at the end.")
    return parser


# Command line


def _work(options: Options) -> int:
    _check(options)
    words = either(options, "command-property", "consumer-property", _WARNING, _REFUSAL)
    config = either(options, "command-config", "consumer.config", _WARNING, _REFUSAL)
    file, extra = read_properties(options.value(config)), key_values(options.values(words))
    given = file | extra
    overrides = _overrides(options, given, _groups(options, file, extra))
    start = _start(options)
    formatter = _formatter(options)
    settings = consumer_settings(given, overrides)
    from ottla.client.consumer.consumer import Consumer

    consumer: Consumer[bytes | None, bytes | None] = Consumer(settings)
    printing = _Printing(consumer, formatter, skips=options.has("skip-message-on-error"))
    with terminable():
        try:
            _choose(consumer, options, start)
            timeout_ms = options.value("timeout-ms")
            printing.run(options.value("max-messages"), -1 if timeout_ms is None else timeout_ms)
        finally:
            try:
                printing.close()
            finally:
                print(f"Processed a total of {printing.count} messages", file=sys.stderr)
                if options.has("enable-systest-events"):
                    print("shutdown_complete")
    return 0


def _check(options: Options) -> None:
    parser = options.parser
    if options.has("topic") == options.has("include"):
        raise parser.error("Exactly one of the following arguments is required: topic, include")
    if options.has("partition"):
        options.value("partition")
        if not options.has("topic"):
            raise parser.error("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise parser.error("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise parser.error("The partition is required when offset is specified.")
    options.check_required("bootstrap-server")


def _groups(options: Options, file: dict[str, str], extra: dict[str, str]) -> str | None:
    """The group; several options may name it, if they agree."""
    named = [options.value("group")] if options.has("group") else []
    named += [given["group.id"] for given in (file, extra) if "group.id" in given]
    groups = list(dict.fromkeys(named))
    if len(groups) > 1:
        raise options.parser.error(
            "The group ids provided in different places (directly using '--group', via '--consumer-property',"
            " or via '--consumer.config') do not match. Detected group ids: "
            + ", ".join(f"'{group}'" for group in groups)
        )
    if groups and options.has("partition"):
        raise options.parser.error("Options group and partition cannot be specified together.")
    return groups[0] if groups else None


def _overrides(options: Options, given: dict[str, str], group: str | None) -> dict[str, object]:
    found: dict[str, object] = {
        "bootstrap.servers": options.value("bootstrap-server"),
        "client.id": given.get("client.id", "console-consumer"),
        "group.id": group,
    }
    reset = given.get("auto.offset.reset")
    if options.has("from-beginning") and reset not in (None, "earliest"):
        raise Failure(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    found["auto.offset.reset"] = reset or ("earliest" if options.has("from-beginning") else "latest")
    if options.has("isolation-level") or "isolation.level" not in given:
        found["isolation.level"] = options.value("isolation-level")
    if group is None:
        from random import randrange

        found["group.id"] = f"console-consumer-{randrange(_GROUPS_MAX)}"
        found["enable.auto.commit"] = given.get("enable.auto.commit", "false")
    return found


def _start(options: Options) -> str | int:
    """The start position in a partition."""
    if not options.has("offset"):
        return "earliest" if options.has("from-beginning") else "latest"
    written: str = options.value("offset")
    if written.lower() in ("earliest", "latest"):
        return written.lower()
    if not re.fullmatch(r"\+?[0-9]+", written) or int(written) >= 2**63:
        raise options.parser.error(
            f"The provided offset value '{written}' is incorrect. Valid values are 'earliest', 'latest', or "
            "a non-negative long."
        )
    return int(written)


def _formatter(options: Options) -> Formatter:
    words = either(
        options,
        "formatter-property",
        "property",
        _WARNING,
        "Options --property and --formatter-property cannot be specified together.",
    )
    properties = read_properties(options.value("formatter-config"))
    for option in ("key-deserializer", "value-deserializer"):
        if options.value(option):
            properties[option.replace("-", ".")] = options.value(option)
    found = formatter_of(options.value("formatter"), properties | key_values(options.values(words)))
    if found is None:
        raise options.parser.error(options.value("formatter"))
    return found


# Reading


def _choose(consumer: Consumer[Any, Any], options: Options, start: str | int) -> None:
    if not options.has("topic"):
        try:
            consumer.subscribe(pattern=re.compile(options.value("include")))
        except re.error as error:
            raise Failure(f"{options.value('include')} is not a valid regular expression: {error}") from error
        return
    topic: str = options.value("topic")
    if not options.has("partition"):
        consumer.subscribe([topic])
        return
    partition = (topic, options.value("partition"))
    consumer.assign([partition])
    if start == "earliest":
        consumer.seek_to_beginning([partition])
    elif start == "latest":
        consumer.seek_to_end([partition])
    else:
        consumer.seek(partition, int(start))


class _Printing:
    """Records from the consumer to standard output, and how many there were."""

    def __init__(
        self, consumer: Consumer[bytes | None, bytes | None], formatter: Formatter, *, skips: bool
    ) -> None:
        self.count = 0
        self._consumer = consumer
        self._formatter = formatter
        self._skips = skips
        self._rest: list[Any] = []
        self._write = _writer()

    def run(self, count_max: int | None, timeout_ms: int) -> None:
        """Print until `count_max` records, or until none arrives for `timeout_ms` (negative: no limit)."""
        limit = -1 if count_max is None else count_max
        while limit == -1 or self.count < limit:
            wanted = _POLL_RECORDS if limit == -1 else min(_POLL_RECORDS, limit - self.count)
            try:
                records = self._poll(wanted, timeout_ms)
            except (ClientError, KafkaError) as error:
                _complain(f"Error processing message, terminating consumer process: {error}")
                return
            try:
                self._print(records)
            except BrokenPipeError:
                _complain("Unable to write to standard out, closing consumer.")
                _close_output()
                return

    def _poll(self, wanted: int, timeout_ms: int) -> list[Any]:
        """The next records. It waits for a broker that is not available yet, or no longer."""
        began = time.monotonic()
        last: ClientError | None = None
        while True:
            seconds = timeout_ms / 1000 - (time.monotonic() - began) if timeout_ms >= 0 else _POLL_SECONDS
            try:
                records = self._consumer.poll(max(seconds, 0), wanted)
            except Disconnected as error:
                if last is None and timeout_ms < 0:
                    _complain(f"{error} Retrying.")
                last = error
                continue
            if records or timeout_ms < 0:
                return records
            raise last or TimedOut(f"no record arrived within {timeout_ms} ms")

    def _print(self, records: list[Any]) -> None:
        self._rest = records[::-1]
        while self._rest:
            record = self._rest.pop()
            self.count += 1
            try:
                shown = self._formatter(record)
            except CannotShow as error:
                if not self._skips:
                    raise Failure(f"Unknown error when running consumer: {error}") from error
                _complain(f"Error processing message, skipping this message: {error}")
            else:
                self._write(shown)
        sys.stdout.flush()

    def close(self) -> None:
        """Seek back to the first unprinted record, so that it is not committed, and close."""
        first = {(record.topic, record.partition): record.offset for record in self._rest}
        assigned = self._consumer.assignment if first else frozenset()
        for partition in assigned:
            if (partition.topic, partition.partition) in first:
                self._consumer.seek(partition, first[partition.topic, partition.partition])
        self._consumer.close()


def _writer() -> Callable[[bytes], object]:
    """Write bytes to standard output, or text if it accepts no bytes."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        return lambda shown: sys.stdout.write(shown.decode(errors="replace"))
    sys.stdout.flush()
    write: Callable[[bytes], object] = binary.write
    return write


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


def _close_output() -> None:
    """Discard the buffered output, since Python would flush it at exit and fail again."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
