"""`kafka-transactions.sh`: lists and describes transactions, and finds and aborts hanging ones.

Subcommands, tables and exit codes are those of Kafka's tool.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.client.errors import ClientError
from ottla.operations import java_order
from ottla.operations.failure import Failure
from ottla.operations.hanging_transactions import batches_of, failure_of, hanging_transactions, now_ms
from ottla.tools.subcommands import SubcommandParser, run
from ottla.tools.tables import lines_of
from ottla.version import __version__
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.transactions import ProducerState
    from ottla.client.values import TopicPartition

T = TypeVar("T")

_BATCH = 500
_MINUTE_MS = 60_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    commands = {
        "list": _list,
        "describe": _describe,
        "describe-producers": _describe_producers,
        "abort": _abort,
        "find-hanging": _find_hanging,
        "forceTerminateTransaction": _force_terminate,
    }
    return run(_parser(), commands, arguments)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="kafka-transactions.sh",
        description="Describe transactional producers; find and abort hanging transactions.",
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    parser.add_argument("--command-config", metavar="FILE", help="properties file for the admin client")
    parser.add_argument(
        "--bootstrap-server", metavar="host:port", required=True, help="servers to connect to"
    )
    commands = parser.add_commands("COMMAND")
    listing = commands.add_parser("list", help="list transactions")
    listing.add_argument(
        "--duration-filter", type=int, help="only transactions open for longer than this, in ms"
    )
    listing.add_argument(
        "--transactional-id-pattern", help="only transactional ids that match a regular expression"
    )
    describing = commands.add_parser("describe", help="describe the transaction of a transactional id")
    describing.add_argument("--transactional-id", required=True)
    producers = commands.add_parser("describe-producers", help="describe the producers of a partition")
    producers.add_argument("--broker-id", type=int, help="ask this replica, not the leader")
    producers.add_argument("--topic", required=True)
    producers.add_argument("--partition", type=int, required=True)
    aborting = commands.add_parser("abort", help="abort a hanging transaction")
    aborting.add_argument("--topic", required=True)
    aborting.add_argument("--partition", type=int, required=True)
    aborting.add_argument("--start-offset", type=int, help="start offset of the transaction")
    aborting.add_argument("--producer-id", type=int, help="for brokers before 3.0")
    aborting.add_argument("--producer-epoch", type=int, help="for brokers before 3.0")
    aborting.add_argument("--coordinator-epoch", type=int, help="for brokers before 3.0")
    finding = commands.add_parser("find-hanging", help="find hanging transactions")
    finding.add_argument("--broker-id", type=int, help="only partitions of this broker")
    finding.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=15,
        help="only transactions older than this, in minutes (default: 15)",
    )
    finding.add_argument("--topic", help="only partitions of this topic")
    finding.add_argument("--partition", type=int, help="only this partition of the topic")
    ending = commands.add_parser("forceTerminateTransaction", help="abort the transaction of a producer")
    ending.add_argument("--transactionalId", required=True)
    return parser


def _open(options: argparse.Namespace) -> Admin:
    from ottla.tools.admin_connection import open_admin

    return open_admin(servers=options.bootstrap_server, config=options.command_config)


def _print(header: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    print("\n".join(lines_of(header, rows)))
    return 0


# List and describe


def _list(options: argparse.Namespace) -> int:
    duration_ms = -1 if options.duration_filter is None else options.duration_filter
    with _open(options) as admin:
        try:
            found = admin.list_transactions(
                duration_ms=duration_ms, transactional_id_pattern=options.transactional_id_pattern
            ).all()
        except (ClientError, KafkaError) as error:
            raise failure_of("Failed to list transactions", error) from error
    by_broker = sorted(found, key=lambda one: one.coordinator_id)
    rows = [(one.transactional_id, one.coordinator_id, one.producer_id, one.state) for one in by_broker]
    return _print(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def _describe(options: argparse.Namespace) -> int:
    name = options.transactional_id
    with _open(options) as admin:
        try:
            found = admin.describe_transactions([name]).result(name)
        except (ClientError, KafkaError) as error:
            what = f"Failed to describe transaction state of transactional-id `{name}`"
            raise failure_of(what, error) from error
    start: object = "None" if found.start_time_ms is None else found.start_time_ms
    duration: object = "None" if found.start_time_ms is None else now_ms() - found.start_time_ms
    partitions = java_order.map_order(found.partitions, java_order.partition_hash)
    row = (
        found.coordinator_id,
        name,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        start,
        duration,
        ",".join(map(str, partitions)),
    )
    header = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    return _print(header, [row])


def _describe_producers(options: argparse.Namespace) -> int:
    from ottla.client.values import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    with _open(options) as admin:
        try:
            found = admin.describe_producers([partition], broker_id=options.broker_id).result(partition)
        except (ClientError, KafkaError) as error:
            place = "leader" if options.broker_id is None else f"broker {options.broker_id}"
            raise failure_of(
                f"Failed to describe producers for partition {partition} on {place}", error
            ) from error
    header = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    return _print(
        header,
        [
            (
                one.producer_id,
                one.producer_epoch,
                _or(one.coordinator_epoch, -1),
                one.last_sequence,
                one.last_timestamp,
                _or(one.transaction_start_offset, "None"),
            )
            for one in found
        ],
    )


def _or(value: int | None, other: object) -> object:
    return other if value is None else value


# Abort


def _abort(options: argparse.Namespace) -> int:
    from ottla.client.admin.transactions import AbortSpec
    from ottla.client.values import TopicPartition

    if options.start_offset is None and options.producer_id is None:
        raise Failure(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or "
            "above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    partition = TopicPartition(options.topic, options.partition)
    with _open(options) as admin:
        if options.start_offset is not None:
            producer = _producer_at(admin, partition, options.start_offset)
            spec = AbortSpec(
                partition, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0
            )
        else:
            for name in ("producer_epoch", "coordinator_epoch"):
                if getattr(options, name) is None:
                    raise Failure(f"Missing required argument --{name.replace('_', '-')}")
            epochs = (options.producer_epoch, max(options.coordinator_epoch, 0))
            spec = AbortSpec(partition, options.producer_id, *epochs)
        try:
            admin.abort_transaction(spec)
        except (ClientError, KafkaError) as error:
            shown = (
                f"AbortTransactionSpec(topicPartition={partition}, producerId={spec.producer_id}, "
                f"producerEpoch={spec.producer_epoch}, coordinatorEpoch={spec.coordinator_epoch})"
            )
            raise failure_of(f"Failed to abort transaction {shown}", error) from error
    return 0


def _producer_at(admin: Admin, partition: TopicPartition, offset: int) -> ProducerState:
    try:
        producers = admin.describe_producers([partition]).result(partition)
    except (ClientError, KafkaError) as error:
        raise failure_of(f"Failed to validate producer state for partition {partition}", error) from error
    for producer in producers:
        if producer.transaction_start_offset == offset:
            return producer
    raise Failure(
        f"Could not find any open transactions starting at offset {offset} on partition {partition}"
    )


def _force_terminate(options: argparse.Namespace) -> int:
    name = options.transactionalId
    with _open(options) as admin:
        try:
            admin.force_terminate_transaction(name)
        except (ClientError, KafkaError) as error:
            raise failure_of(f"Failed to force terminate transactionalId `{name}`", error) from error
    return 0


# Find hanging transactions


def _find_hanging(options: argparse.Namespace) -> int:
    if options.topic is None and options.broker_id is None:
        raise Failure(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the "
            "search"
        )
    if options.partition is not None and options.topic is None:
        raise Failure("The --partition argument requires --topic to be provided")
    with _open(options) as admin:
        partitions = _partitions(admin, options.topic, options.partition, options.broker_id)
        least_ms = options.max_transaction_timeout * _MINUTE_MS
        hanging = hanging_transactions(admin, partitions, least_ms, options.broker_id)
    header = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    at_ms = now_ms()
    return _print(
        header,
        [
            (
                one.partition.topic,
                one.partition.partition,
                one.producer.producer_id,
                one.producer.producer_epoch,
                _or(one.producer.coordinator_epoch, -1),
                _or(one.producer.transaction_start_offset, -1),
                one.producer.last_timestamp,
                (at_ms - one.producer.last_timestamp) // _MINUTE_MS,
            )
            for one in hanging
        ],
    )


def _partitions(
    admin: Admin, topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    from ottla.client.values import TopicPartition

    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    try:
        topics = list(admin.list_topics(include_internal=True)) if topic is None else [topic]
    except (ClientError, KafkaError) as error:
        raise failure_of("Failed to list topics", error) from error
    found = []
    for batch in batches_of(topics):
        try:
            described = admin.describe_topics(batch).all()
        except (ClientError, KafkaError) as error:
            raise failure_of(f"Failed to describe {len(batch)} topics", error) from error
        found += [
            TopicPartition(name, one.partition)
            for name, description in described.items()
            for one in description.partitions
            if broker is None or broker in [node.id for node in one.replicas]
        ]
    return found


if __name__ == "__main__":
    sys.exit(main())
