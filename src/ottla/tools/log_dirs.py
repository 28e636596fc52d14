"""`kafka-log-dirs.sh`: describes log directories: their replicas, with size and lag."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.operations.decoders import compact
from ottla.operations.failure import Failure
from ottla.operations.partition_files import name_of
from ottla.tools.admin_connection import open_admin
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run
from ottla.wire.json_form import Json

if TYPE_CHECKING:
    from ottla.client.admin.replicas import LogDirDescription


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _describe, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-log-dirs", "Describes the log directories of brokers.")
    parser.value("bootstrap-server", shown_as="host:port", text="REQUIRED: brokers to connect to.")
    parser.value("command-config", shown_as="file", text="Properties file for the client.")
    parser.flag("describe", text="REQUIRED: describe the log directories.")
    parser.value("topic-list", shown_as="topics", default="", text="Only these topics, comma-separated.")
    parser.value("broker-list", shown_as="ids", default="", text="Only these brokers, comma-separated.")
    return parser


def _describe(options: Options) -> int:
    options.check_required("bootstrap-server", "describe")
    topics = {topic for topic in options.value("topic-list").split(",") if topic}
    try:
        wanted = {int(text) for text in options.value("broker-list").split(",") if text}
    except ValueError as error:
        raise Failure(f"--broker-list must be comma-separated node ids: {error}.") from error
    config = options.value("command-config")
    with open_admin(servers=options.value("bootstrap-server"), config=config) as admin:
        known = {node.id for node in admin.describe_cluster().nodes}
        if missing := wanted - known:
            raise Failure(
                f"ERROR: The given brokers do not exist from --broker-list: {_commas(missing)}."
                f" Current existent brokers: {_commas(known)}"
            )
        brokers = sorted(wanted or known)
        print("Querying brokers for log directories information")
        found = admin.describe_log_dirs(brokers).all()
        print(f"Received log directory information from brokers {_commas(brokers)}")
        shown: list[Json] = [
            {"broker": broker, "logDirs": _directories(found[broker], topics)} for broker in brokers
        ]
        print(compact({"brokers": shown, "version": 1}))
    return 0


def _directories(directories: Mapping[str, LogDirDescription], topics: set[str]) -> Json:
    shown: list[Json] = []
    for path, directory in directories.items():
        replicas: list[Json] = [
            {
                "partition": name_of(place),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for place, replica in directory.replicas.items()
            if not topics or place.topic in topics
        ]
        error = None if directory.error is None else type(directory.error).__name__
        name = None if error is None else f"org.apache.kafka.common.errors.{error}Exception"
        shown.append({"partitions": replicas, "error": name, "logDir": path})
    return shown


def _commas(numbers: Sequence[int] | set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


if __name__ == "__main__":
    sys.exit(main())
