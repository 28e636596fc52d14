"""`kafka-leader-election.sh`: elects preferred replicas, or replicas out of sync, as leaders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.client.values import TopicPartition
from ottla.operations.failure import Failure
from ottla.operations.partition_files import duplicates, entries_of, name_of, place_of, read_object
from ottla.tools.admin_connection import open_admin
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run
from ottla.wire.errors import ElectionNotNeeded

if TYPE_CHECKING:
    from ottla.client.admin.replicas import ElectionType

_WHAT = "Replica election data"
_ONE_OF = ("topic", "all-topic-partitions", "path-to-json-file")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _elect, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-leader-election", "Elects leaders of partitions.")
    parser.value("bootstrap-server", shown_as="host:port", text="REQUIRED: brokers to connect to.")
    parser.value("admin.config", shown_as="file", text="Deprecated name of --command-config.")
    parser.value("command-config", shown_as="file", text="Properties file for the client.")
    parser.value(
        "path-to-json-file",
        shown_as="file",
        text='The partitions: {"partitions": [{"topic": "a", "partition": 0}]}.',
    )
    parser.value("topic", shown_as="name", text="Topic; requires --partition.")
    parser.value("partition", shown_as="number", convert=int, text="The partition of --topic.")
    parser.flag("all-topic-partitions", text="All eligible partitions.")
    parser.value(
        "election-type",
        shown_as="type",
        text="REQUIRED: preferred elects the first replica if it is in sync; unclean elects any live "
        "replica if no in-sync replica is alive, which may lose records.",
    )
    return parser


def _elect(options: Options) -> int:
    _check(options)
    election = _election_type(options)
    places = _places(options)
    config = options.value("command-config")
    if options.has("admin.config"):
        print(
            "Option --admin.config has been deprecated and will be removed in a future version."
            " Use --command-config instead."
        )
        config = options.value("admin.config")
    with open_admin(servers=options.value("bootstrap-server"), config=config) as admin:
        results = admin.elect_leaders(election, places)
    kind = election.name
    elected = ", ".join(map(name_of, results.succeeded))
    if elected:
        print(f"Successfully completed leader election ({kind}) for partitions {elected}")
    kept = [place for place, error in results.failed.items() if isinstance(error, ElectionNotNeeded)]
    if kept:
        print(f"Valid replica already elected for partitions {', '.join(map(name_of, kept))}")
    failed = {place: error for place, error in results.failed.items() if place not in kept}
    for place, error in failed.items():
        name = f"org.apache.kafka.common.errors.{type(error).__name__}Exception"
        print(f"Error completing leader election ({kind}) for partition: {name_of(place)}: {name}: {error}")
    if failed:
        raise Failure(f"{len(failed)} replica(s) could not be elected")
    return 0


def _check(options: Options) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if not options.has(name)]
    if missing:
        raise Failure(f"Missing required option(s): {', '.join(missing)}")
    options.check_invalid("admin.config", "command-config")
    if sum(map(options.has, _ONE_OF)) != 1:
        raise Failure(f"One and only one of the following options is required: {', '.join(_ONE_OF)}")
    if options.has("topic") and not options.has("partition"):
        raise Failure("Missing required option(s): partition")
    if options.has("partition") and not options.has("topic"):
        raise Failure("Option partition is only allowed if topic is used")


def _election_type(options: Options) -> ElectionType:
    from ottla.client.admin.replicas import ElectionType

    text = options.value("election-type")
    for election in ElectionType:
        if election.name.lower() == text.lower():
            return election
    raise Failure(f"Unknown election type {text}. Use preferred or unclean.")


def _places(options: Options) -> list[TopicPartition] | None:
    """The partitions on the command line; None for all."""
    if options.has("topic"):
        return [TopicPartition(options.value("topic"), options.value("partition"))]
    if options.has("all-topic-partitions"):
        return None
    entries = entries_of(read_object(options.value("path-to-json-file"), _WHAT), _WHAT)
    places = [place_of(entry) for entry in entries]
    if found := duplicates(places):
        raise Failure(f"{_WHAT} contains duplicate partitions: [{', '.join(map(name_of, found))}]")
    return places


if __name__ == "__main__":
    sys.exit(main())
