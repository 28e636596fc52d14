"""`kafka-delete-records.sh`: deletes the records before given offsets of partitions, from a JSON file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ottla.operations.failure import Failure
from ottla.operations.java_order import text_of
from ottla.operations.partition_files import duplicates, entries_of, field, name_of, place_of, read_object
from ottla.tools.admin_connection import open_admin
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run

_WHAT = "The offset json file"
_VERSION = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _delete, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-delete-records", "Deletes the records before an offset.")
    parser.value("bootstrap-server", shown_as="host:port", text="REQUIRED: brokers to connect to.")
    parser.value(
        "offset-json-file",
        shown_as="file",
        text=(
            'REQUIRED: {"partitions": [{"topic": "a", "partition": 0, "offset": 1}], "version": 1}; offset '
            "-1 means the high watermark."
        ),
    )
    parser.value("command-config", shown_as="file", text="Properties file for the client.")
    return parser


def _delete(options: Options) -> int:
    options.check_required("bootstrap-server", "offset-json-file")
    content = read_object(options.value("offset-json-file"), _WHAT)
    if content.get("version", _VERSION) != _VERSION:
        raise Failure(f"Not supported version field value {content['version']}")
    entries = entries_of(content, _WHAT)
    if found := duplicates(map(place_of, entries)):
        names = ",".join(map(name_of, found))
        raise Failure(f"Offset json file contains duplicate topic partitions: {names}")
    before = {place_of(entry): field(entry, "offset", int, _WHAT) for entry in entries}
    config = options.value("command-config")
    with open_admin(servers=options.value("bootstrap-server"), config=config) as admin:
        print("Executing records delete operation")
        results = admin.delete_records(before)
        print("Records delete operation completed:")
        for place, offset in results.succeeded.items():
            print(f"partition: {name_of(place)}\tlow_watermark: {offset}")
        for place, error in results.failed.items():
            print(f"partition: {name_of(place)}\terror: {text_of(error)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
