"""`kafka-preferred-replica-election.sh`: the old name of `kafka-leader-election --election-type preferred`.

Without a file it elects for all partitions, as the old tool did.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ottla.tools import leader_election
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _elect, arguments)


def _parser() -> OptionParser:
    parser = OptionParser(
        "kafka-preferred-replica-election",
        "Elects the preferred replicas as leaders. Deprecated, use kafka-leader-election.",
    )
    parser.value("bootstrap-server", shown_as="host:port", text="REQUIRED: brokers to connect to.")
    parser.value("admin.config", shown_as="file", text="Properties file for the client.")
    parser.value(
        "path-to-json-file",
        shown_as="file",
        text='The partitions: {"partitions": [{"topic": "a", "partition": 0}]}. Default: all.',
    )
    return parser


def _elect(options: Options) -> int:
    options.check_required("bootstrap-server")
    words = ["--bootstrap-server", options.value("bootstrap-server"), "--election-type", "preferred"]
    if options.has("admin.config"):
        words += ["--command-config", options.value("admin.config")]
    if options.has("path-to-json-file"):
        words += ["--path-to-json-file", options.value("path-to-json-file")]
    else:
        words.append("--all-topic-partitions")
    return leader_election.main(words)


if __name__ == "__main__":
    sys.exit(main())
