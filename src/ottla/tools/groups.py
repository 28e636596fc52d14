"""`kafka-groups.sh`: lists groups of all types, with Kafka's options, columns and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import run
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupListing

_TYPES = ("classic", "consumer", "share", "streams")
_WIDTH = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-groups", "This tool helps to list groups of all types.")
    parser.value("bootstrap-server", text="Server to connect to. Required.", shown_as="host:port")
    parser.value("command-config", text="Properties file for the admin client.", shown_as="file")
    parser.flag("list", text="List the groups.")
    parser.value("group-type", text=f"Only groups of this type: {', '.join(_TYPES)}.", shown_as="type")
    parser.value("protocol", text="Only groups of this protocol.", shown_as="protocol")
    parser.flag("consumer", text="Only consumer groups, including classic and simple ones.")
    parser.flag("share", text="Only share groups.")
    parser.flag("streams", text="Only streams groups.")
    return parser


def _work(options: Options) -> int:
    from ottla.operations.java_order import map_order, message_of, string_hash
    from ottla.tools.admin_connection import open_admin

    _check(options)
    with open_admin(
        servers=options.value("bootstrap-server"), config=options.value("command-config")
    ) as admin:
        try:
            listed = {one.group_id: one for one in admin.list_groups()}
        except (KafkaError, ClientError) as error:
            print(f"Error while executing groups command : {message_of(error)}")
            return 1
    _show([listed[group] for group in map_order(listed, string_hash) if _is_wanted(options, listed[group])])
    return 0


def _check(options: Options) -> None:
    if not options.has("bootstrap-server"):
        raise options.parser.error("Missing required option(s) [bootstrap-server]")
    if not options.has("list"):
        raise options.parser.error("Command must include exactly one action: --list.")
    if options.has("group-type") and options.value("group-type").lower() not in _TYPES:
        raise UsageError("--group-type must be a valid group type.")
    kinds = ("consumer", "share", "streams")
    for kind in kinds:
        others = (other for other in kinds if other != kind)
        options.check_invalid(kind, "group-type", "protocol", *others)


def _is_wanted(options: Options, group: GroupListing) -> bool:
    kind, protocol = str(group.type or "").lower(), options.value("protocol")
    if options.has("group-type"):
        return kind == options.value("group-type").lower() and protocol in (None, group.protocol_type)
    if protocol is not None:
        return bool(group.protocol_type == protocol)
    if options.has("consumer"):
        return group.protocol_type in ("consumer", "") or kind == "consumer"
    return not any(options.has(name) and kind != name for name in ("share", "streams"))


def _show(groups: Sequence[GroupListing]) -> None:
    rows = [(one.group_id, str(one.type or ""), one.protocol_type) for one in groups]
    width = max([_WIDTH, *(len(cell) for row in rows for cell in row)])
    print(" ".join(f"{cell:<{width}}" for cell in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell in row))


if __name__ == "__main__":
    sys.exit(main())
