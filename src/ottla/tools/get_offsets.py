"""`kafka-get-offsets.sh`: prints the offset of each partition for a given time.

Options, output and exit codes are those of Kafka's tool, and `--broker-list` still works. Partitions without
an available offset are reported on standard error and skipped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run
from ottla.tools.patterns import IncludeList
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.values import TopicPartition

_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_SERVER = re.compile(r".*?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_INT_MAX = 2**31 - 1
_TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_NOWHERE = -1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-get-offsets", "An interactive shell for getting topic-partition offsets.")
    parser.value(
        "bootstrap-server", "broker-list", text="Servers to connect to. Required.", shown_as="host:port,..."
    )
    parser.value(
        "topic-partitions",
        text="Patterns of partitions: topic:1, topic:0-3 (without 3), topic:5-, topic:-3, topic, :1.",
        shown_as="pattern,...",
    )
    parser.value("topic", text="Topics, by regular expression. Default: all.", shown_as="topic")
    parser.value("partitions", text="Partitions, by number. Default: all.", shown_as="number,...")
    parser.value(
        "time",
        text="A timestamp in ms, or one of " + _names_of_times(),
        shown_as="time",
        default="latest",
    )
    parser.value("command-config", text="Properties file for the admin client.", shown_as="file")
    parser.flag("exclude-internal-topics", text="Exclude internal topics.")
    return parser


def _names_of_times() -> str:
    return ", ".join(f"{value} ({name})" for name, value in _TIMES.items())


def _work(options: Options) -> int:
    options.check_required("bootstrap-server")
    servers: str = options.value("bootstrap-server")
    _check_servers(options, servers)
    try:
        _show(options, servers)
    except (Failure, KafkaError, ClientError) as error:
        print(f"Error occurred: {error}", file=sys.stderr)
        return 1
    return 0


def _check_servers(options: Options, servers: str) -> None:
    if not all(_SERVER.fullmatch(server) for server in servers.split(",")):
        raise options.parser.error("Please provide valid host:port like host1:9091,host2:9092\n")


def _show(options: Options, servers: str) -> None:
    from ottla.tools.admin_connection import open_admin

    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise Failure("--topic-partitions cannot be used with --topic or --partitions")
    time = _time(options.value("time"))
    allows = _filter(options)
    with open_admin(servers=servers, config=options.value("command-config")) as admin:
        keys = _partitions(admin, allows, include_internal=not options.has("exclude-internal-topics"))
        if not keys:
            raise Failure("Could not match any topic-partitions with the specified filters")
        results = admin.list_offsets(dict.fromkeys(keys, time))
    for key, error in results.failed.items():
        print(f"Skip getting offsets for topic-partition {key} due to error: {error}", file=sys.stderr)
    for key, found in sorted(results.succeeded.items(), key=lambda pair: str(pair[0])):
        if found.offset != _NOWHERE:
            print(f"{key.topic}:{key.partition}:{found.offset}")


def _time(written: str) -> int:
    if written in _TIMES:
        return _TIMES[written]
    if re.fullmatch(r"[+-]?[0-9]+", written) and -(2**63) <= int(written) < 2**63:
        return int(written)
    times = " / ".join(f"{value} or {name}" for name, value in _TIMES.items())
    raise Failure(
        f"Malformed time argument {written}. Please use {times}, or a specified long format timestamp"
    )


# Selecting partitions

_Allows = Callable[[str, int | None], bool]
"""Whether a partition is selected; without a number, whether any partition of the topic may be."""


def _filter(options: Options) -> _Allows:
    if options.has("topic-partitions"):
        rules = [_rule(text) for text in options.value("topic-partitions").split(",")]
        return lambda topic, index: any(rule(topic, index) for rule in rules)
    topics = IncludeList(options.value("topic") or ".*")
    numbers = _numbers(options.value("partitions"))
    return lambda topic, index: topics.allows(topic) and (index is None or not numbers or index in numbers)


def _numbers(written: str | None) -> set[int]:
    try:
        return {int(text) for text in written.split(",")} if written else set()
    except ValueError:
        raise Failure(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {written}"
        ) from None


def _rule(text: str) -> _Allows:
    matched = _RULE.fullmatch(text)
    if matched is None:
        raise Failure(f"Invalid rule specification: {text}")
    topics = IncludeList(matched[1] or ".*")
    if matched[2]:
        first, after = int(matched[2]), int(matched[2]) + 1
    else:
        first, after = int(matched[3] or 0), int(matched[4] or _INT_MAX)
    return lambda topic, index: topics.allows(topic) and (index is None or first <= index < after)


def _partitions(admin: Admin, allows: _Allows, *, include_internal: bool) -> list[TopicPartition]:
    from ottla.client.values import TopicPartition

    topics = [topic for topic in admin.list_topics(include_internal=include_internal) if allows(topic, None)]
    described = admin.describe_topics(topics).all()
    return [
        TopicPartition(topic, one.partition)
        for topic, found in described.items()
        for one in found.partitions
        if allows(topic, one.partition)
    ]


if __name__ == "__main__":
    sys.exit(main())
