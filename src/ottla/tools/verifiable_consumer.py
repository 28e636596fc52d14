"""`kafka-verifiable-consumer.sh`: reads a topic as a member of a group and prints events as JSON lines.

Options and events are those of Kafka's tool. SIGTERM and Ctrl-C exit cleanly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ottla.client.errors import ClientError, Disconnected
from ottla.tools.client_options import consumer_settings, read_properties
from ottla.tools.entry_point import finish
from ottla.tools.subcommands import SubcommandParser
from ottla.tools.verifiable import place, print_event, properties_file, until_signalled
from ottla.wire.errors import KafkaError

_POLL_SECONDS = 60.0
_RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    return finish(lambda: _work(words))


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="verifiable-consumer", description="Consume a topic in a group and report events."
    )
    parser.add_argument("--bootstrap-server", "--broker-list", required=True, help="servers to connect to")
    parser.add_argument("--topic", required=True, help="topic to consume")
    parser.add_argument("--group-protocol", default="classic", help="classic or consumer")
    parser.add_argument("--group-remote-assignor", help="with the protocol consumer")
    parser.add_argument("--group-id", required=True, help="the group")
    parser.add_argument("--group-instance-id", help="the name of a static member")
    parser.add_argument("--max-messages", type=int, default=-1, help="number of records; -1: unlimited")
    parser.add_argument("--session-timeout", type=int, help="the consumer's session.timeout.ms")
    parser.add_argument("--verbose", action="store_true", help="also report each record")
    parser.add_argument("--enable-autocommit", action="store_true", help="commit automatically")
    parser.add_argument("--reset-policy", default="earliest", help="earliest, latest or none")
    parser.add_argument("--assignment-strategy", default=_RANGE, help="with the protocol classic")
    parser.add_argument(
        "--consumer.config", dest="consumer_config", help="deprecated name of --command-config"
    )
    parser.add_argument("--command-config", help="properties file for the consumer")
    return parser


def _work(words: Sequence[str]) -> int:
    parser = _parser()
    if not words:
        parser.print_help()
        return 0
    options = parser.parse_args(words)
    path = properties_file(parser, "--consumer.config", options.consumer_config, options.command_config)
    given = read_properties(path)
    settings = consumer_settings(given, _overrides(options))
    reading = _Reading(options, settings)
    return until_signalled(reading.run)


def _overrides(options: Any) -> dict[str, object]:
    found: dict[str, object] = {
        "bootstrap.servers": options.bootstrap_server,
        "group.id": options.group_id,
        "group.protocol": options.group_protocol,
        "enable.auto.commit": str(options.enable_autocommit).lower(),
        "auto.offset.reset": options.reset_policy,
        "value.deserializer": "string",
        "key.deserializer": "string",
    }
    if options.group_protocol.lower() == "classic":
        found["partition.assignment.strategy"] = options.assignment_strategy
    elif options.group_remote_assignor is not None:
        found["group.remote.assignor"] = options.group_remote_assignor
    if options.session_timeout is not None:
        found["session.timeout.ms"] = str(options.session_timeout)
    if options.group_instance_id is not None:
        found["group.instance.id"] = options.group_instance_id
    return found


class _Reading:
    """Records and rebalances of one member."""

    def __init__(self, options: Any, settings: Any) -> None:
        from ottla.client.consumer.consumer import Consumer

        self._options = options
        self._count = 0
        self._consumer: Consumer[str, str] = Consumer(settings)

    def run(self) -> None:
        is_asked = False
        try:
            print_event("startup_complete")
            self._consumer.subscribe(
                [self._options.topic],
                on_assigned=lambda found: print_event("partitions_assigned", partitions=[*map(place, found)]),
                on_revoked=lambda found: print_event("partitions_revoked", partitions=[*map(place, found)]),
            )
            while not self._is_finished:
                records = self._poll()
                if records:
                    self._took(records)
        except KeyboardInterrupt:
            is_asked = True
            print_event("shutdown_requested")
        except (ClientError, KafkaError) as error:
            print(f"Error during processing, terminating consumer process: {error}", file=sys.stderr)
        finally:
            self._consumer.close()
            print_event("shutdown_complete")
            if not is_asked:
                print_event("shutdown_requested")  # Kafka's tool prints this when its JVM exits

    def _poll(self) -> list[Any]:
        """The next records. It waits for a broker that is not available yet, or no longer."""
        try:
            return self._consumer.poll(_POLL_SECONDS)
        except Disconnected as error:
            print(f"{error} Retrying.", file=sys.stderr, flush=True)
            return []

    @property
    def _is_finished(self) -> bool:
        return bool(0 <= self._options.max_messages <= self._count)

    def _took(self, records: list[Any]) -> None:
        by_partition: dict[tuple[str, int], list[Any]] = {}
        for record in records:
            by_partition.setdefault((record.topic, record.partition), []).append(record)
        summaries, offsets = [], {}
        for partition, found in by_partition.items():
            if self._options.max_messages >= 0:
                found = found[: self._options.max_messages - self._count]
            if not found:
                break
            first, last = found[0].offset, found[-1].offset
            offsets[partition] = last + 1
            summary = {"count": len(found), "minOffset": first, "maxOffset": last}
            summaries.append({**place(partition), **summary})
            for record in found if self._options.verbose else ():
                words = {"key": record.key, "value": record.value}
                print_event("record_data", **words, **place(partition), offset=record.offset)
            self._count += len(found)
        print_event("records_consumed", count=len(records), partitions=summaries)
        if not self._options.enable_autocommit:
            self._commit(offsets)

    def _commit(self, offsets: dict[tuple[str, int], int]) -> None:
        listed = [{**place(partition), "offset": offset} for partition, offset in offsets.items()]
        try:
            self._consumer.commit(offsets)
        except (ClientError, KafkaError) as error:
            print_event("offsets_committed", offsets=listed, error=str(error), success=False)
        else:
            print_event("offsets_committed", offsets=listed, success=True)


if __name__ == "__main__":
    sys.exit(main())
