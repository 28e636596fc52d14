"""`kafka-consumer-groups.sh`: lists, describes and deletes groups, resets and deletes their offsets.

Options, tables, their order and exit codes are those of Kafka's tool. As there, a failed operation is a line
on standard output with exit code 0, since scripts parse the text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import run
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.group_offsets import Offsets
    from ottla.client.admin.groups import ConsumerGroupDescription, GroupListing, MemberDescription
    from ottla.client.values import TopicPartition

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
MISSING = "-"
_STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "Unknown",
)
_TYPES = ("Classic", "Consumer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser(
        "kafka-consumer-groups",
        "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, "
        "or reset consumer group offsets.",
    )
    parser.value("bootstrap-server", text="Server to connect to. Required.", shown_as="host:port")
    parser.value("group", text="Group; repeatable.", shown_as="group")
    parser.value("topic", text="Topic, or topic:partition,partition; repeatable.", shown_as="topic")
    parser.flag("all-topics", text="All topics with committed offsets of the group.")
    parser.flag("list", text="List the groups.")
    parser.flag("describe", text="Describe groups: offsets and lag, members or state.")
    parser.flag("all-groups", text="All groups.")
    parser.flag("delete", text="Delete groups and their offsets.")
    parser.value("timeout", text="Timeout of each step, in ms.", convert=int, default=30000, shown_as="ms")
    parser.value("command-config", text="Properties file for the admin client.", shown_as="file")
    parser.flag("reset-offsets", text="Reset the offsets of groups that have no members.")
    parser.flag("delete-offsets", text="Delete the offsets of a group for topics.")
    parser.flag("dry-run", text="Show the result of a reset without applying it.")
    parser.flag("execute", text="Apply the reset.")
    parser.flag("export", text="Show the result of a reset as CSV.")
    parser.value("to-offset", text="Reset to this offset.", convert=int, shown_as="offset")
    parser.value("from-file", text="Reset to the offsets in a CSV file.", shown_as="file")
    parser.value("to-datetime", text="Reset to a time: YYYY-MM-DDThh:mm:ss.sss.", shown_as="time")
    parser.value("by-duration", text="Reset to a duration ago: PnDTnHnMnS.", shown_as="duration")
    parser.flag("to-earliest", text="Reset to the first offset.")
    parser.flag("to-latest", text="Reset to the end.")
    parser.flag("to-current", text="Reset to the current offset.")
    parser.value(
        "shift-by", text="Shift by this many records; negative shifts back.", convert=int, shown_as="count"
    )
    parser.flag("members", text="Describe the members.")
    parser.flag("verbose", text="Describe with more columns.")
    parser.flag("offsets", text="Describe the offsets. This is the default.")
    parser.value(
        "state",
        text="With --describe: the state; with --list: states to list, or a column.",
        value_is_optional=True,
        shown_as="state,...",
    )
    parser.value(
        "type", text="With --list: types to list, or a column.", value_is_optional=True, shown_as="type,..."
    )
    parser.value("validate-regex", text="Check whether this is a valid regular expression.", shown_as="regex")
    return parser


def _work(options: Options) -> int:
    _check(options)
    if options.has("validate-regex"):
        _validate_regex(options.value("validate-regex"))
        return 0
    from ottla.tools.admin_connection import open_admin

    action = next(name for name in ACTIONS if options.has(name))
    with open_admin(
        servers=options.value("bootstrap-server"), config=options.value("command-config")
    ) as admin:
        try:
            _RUN[action](admin, options)
        except (Failure, KafkaError, ClientError, OSError, UsageError) as error:
            if isinstance(error, UsageError) and error.help_text:
                raise
            from ottla.operations.java_order import message_of

            tell_error(f"Executing consumer group command failed due to {message_of(error)}")
    return 0


def tell_error(text: str) -> None:
    print(f"\nError: {text}")


# The command line


def _check(options: Options) -> None:
    parser = options.parser
    if not options.has("validate-regex"):
        options.check_required("bootstrap-server")
    _check_available(options)
    has_groups = options.has("group") or options.has("all-groups")
    for action in ("describe", "delete", "reset-offsets"):
        if options.has(action) and not has_groups:
            raise parser.error(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if options.has("describe"):
        if sum(options.has(name) for name in ("members", "offsets", "state")) > 1:
            raise parser.error(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if options.has("state") and options.value("state") is not None:
            raise parser.error("Option [describe] does not take a value for [state]")
    if options.has("delete") and options.has("topic"):
        raise parser.error(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise parser.error("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        _check_reset(options)
    options.check_invalid("group", "all-groups", "list")
    options.check_invalid("topic", "list", "describe")
    if sum(options.has(action) for action in ACTIONS) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise parser.error(f"Command must include exactly one action: {actions}")


def _check_available(options: Options) -> None:
    """Check options that are valid only with some actions."""
    for name, actions in (
        ("members", ("describe",)),
        ("verbose", ("describe",)),
        ("offsets", ("describe",)),
        ("state", ("describe", "list")),
        ("type", ("list",)),
    ):
        if options.has(name) and not any(options.has(action) for action in actions):
            raise UsageError(f"Option(s) [{name}] are unavailable given other options on the command line")


def _check_reset(options: Options) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise options.parser.error("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        print(
            "WARN: No action will be performed as the --execute option is missing. "
            "In version 5.0, this command will require either --dry-run or --execute to be specified. "
            "You should add the --dry-run option explicitly if you are scripting this command and want to "
            "keep the current default behavior without prompting.",
            file=sys.stderr,
        )
    for scenario in SCENARIOS:
        options.check_invalid(scenario, *(other for other in SCENARIOS if other != scenario))


def _validate_regex(written: str) -> None:
    try:
        re.compile(written)
    except re.error as error:
        print(f"The regular expression `{written}` is invalid: {error.msg.capitalize()}.")
    else:
        print(f"The regular expression `{written}` is valid.")


def _named(options: Options, name: str, known: Sequence[str], what: str) -> list[str]:
    """Parse the states or types in an option."""
    written = options.value(name)
    if not written:
        return []
    by_text = {one.lower(): one for one in known}
    wanted = [text.strip().lower() for text in written.split(",")]
    if not all(text in by_text for text in wanted):
        raise options.parser.error(
            f"Invalid {what} list '{written}'. Valid {what}s are: {', '.join(known)}"
            if what == "state"
            else f"Invalid {what}s list '{written}'. Valid {what}s are: {', '.join(known)}"
        )
    return [by_text[text] for text in wanted]


# Listing


def _list(admin: Admin, options: Options) -> None:
    with_type, with_state = options.has("type"), options.has("state")
    states = _named(options, "state", _STATES, "state")
    types = _named(options, "type", _TYPES, "type")
    listed = _groups(admin, options, states, types)
    if not with_type and not with_state:
        for one in listed:
            print(one.group_id)
        return
    width = max([15, *(len(one.group_id) for one in listed)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(one.group_id, one.type or "Unknown", one.state or "Unknown") for one in listed]
    for group, kind, state in rows:
        print(
            f"{group:<{width}}"
            + (f" {kind!s:<20}" if with_type else "")
            + (f" {state!s:<20}" if with_state else "")
        )


def _groups(
    admin: Admin, options: Options, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """The consumer groups, in the order of Kafka's tool."""
    from ottla.operations.java_order import map_order, string_hash

    found = admin.list_consumer_groups(states=states, types=types, timeout_ms=options.value("timeout"))
    listed = {one.group_id: one for one in found}
    return [listed[group] for group in map_order(listed, string_hash)]


def wanted_groups(admin: Admin, options: Options) -> list[str]:
    """The groups on the command line."""
    if options.has("all-groups"):
        return [one.group_id for one in _groups(admin, options)]
    return list(dict.fromkeys(options.values("group")))


# Describing


def _describe(admin: Admin, options: Options) -> None:
    groups = wanted_groups(admin, options)
    results = admin.describe_consumer_groups(groups, timeout_ms=options.value("timeout"))
    for error in results.failed.values():
        from ottla.operations.java_order import text_of

        raise Failure(text_of(error))
    described = [results.result(group) for group in sorted(groups)]
    if options.has("members"):
        for group in described:
            _show_members(group, verbose=options.has("verbose"))
    elif options.has("state"):
        _show_states(admin, options, described)
    else:
        rows = [(group, _offset_rows(admin, options, group)) for group in described]
        for group, of_group in rows:
            _show_offsets(group, of_group, verbose=options.has("verbose"))


def _is_shown(group: ConsumerGroupDescription, rows: int) -> bool:
    """Whether a group has anything to show; prints its state if that explains the result."""
    state = str(group.state)
    if state == "Dead":
        tell_error(f"Consumer group '{group.group_id}' does not exist.")
    elif state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    elif state != "Stable":
        raise Failure(f"Expected a valid consumer group state, but found '{state}'.")
    return state != "Dead" and rows > 0


_Row = tuple[str, ...]
_NOBODY = (MISSING, MISSING, MISSING)


def _offset_rows(admin: Admin, options: Options, group: ConsumerGroupDescription) -> list[_Row]:
    """Topic, partition, epoch, offset, end, lag, member, host, client of each partition."""
    timeout_ms = options.value("timeout")
    committed = admin.list_consumer_group_offsets(group.group_id, timeout_ms=timeout_ms).result(
        group.group_id
    )
    rows: list[_Row] = []
    assigned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda one: -len(one.assignment)):
        if member.assignment:
            assigned |= member.assignment
            who = (member.member_id, member.host, member.client_id)
            rows += _partition_rows(admin, timeout_ms, member.assignment, committed, who)
    rest = [key for key in committed if key not in assigned]
    return rows + (_partition_rows(admin, timeout_ms, rest, committed, _NOBODY) if rest else [])


def _partition_rows(
    admin: Admin, timeout_ms: int, keys: Iterable[TopicPartition], committed: Offsets, who: _Row
) -> list[_Row]:
    from ottla.client.admin.offsets import OffsetSpec
    from ottla.tools.offset_resets import all_of, leaderless

    ordered = sorted(keys)
    without = leaderless(admin, ordered, timeout_ms)
    asked = {key: OffsetSpec.LATEST for key in ordered if key not in without}
    ends = all_of(admin.list_offsets(asked, timeout_ms=timeout_ms))
    rows = []
    for key in ordered:
        at = committed.get(key)
        end = ends[key].offset if key in ends else None
        lag = None if at is None or end is None or at.offset == -1 else end - at.offset
        epoch = None if at is None else at.leader_epoch
        numbers = (epoch, None if at is None else at.offset, end, lag)
        rows.append((key.topic, str(key.partition), *(_cell(number) for number in numbers), *who))
    return rows


def _cell(value: object) -> str:
    return MISSING if value is None else str(value)


def _show_offsets(group: ConsumerGroupDescription, rows: Sequence[_Row], *, verbose: bool) -> None:
    if not _is_shown(group, len(rows)):
        return
    headers = (
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    group_width = max(15, len(group.group_id))
    widths = [max(15, *(len(row[0]) for row in rows)), 10, 15, 15, 15, 15]
    widths += [max(15, *(len(row[column]) for row in rows)) for column in (6, 7)]
    for name, row in [("GROUP", headers), *((group.group_id, row) for row in rows)]:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, [*widths, 0], strict=True)]
        if not verbose:
            del cells[2]
        print("\n" + " ".join([f"{name:<{group_width}}", *cells]), end="")
    print()


def _show_members(group: ConsumerGroupDescription, *, verbose: bool) -> None:
    rows = [_member_row(group, one) for one in group.members]
    counted = rows if _is_shown(group, len(rows)) else []
    with_instance = any(row[2] for row in counted)
    upgrades = {one.is_upgraded for one in group.members} if counted else set()
    migrates = {True, False} <= upgrades
    least = (15, 15, 17, 15, 15, 15, 15, 20, 15, 20, 0)
    grown = {0, 1, 2, 3, 4, 7, 9}
    widths = [
        max([width, *(len(row[column]) for row in counted)]) if column in grown else width
        for column, width in enumerate(least)
    ]
    headers = (
        "GROUP",
        "CONSUMER-ID",
        "GROUP-INSTANCE-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
        "UPGRADED",
    )
    print()
    for row in (headers, *rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        shown = [*cells[:2], *(cells[2:3] if with_instance else []), *cells[3:6]]
        line = " ".join(shown) + " "
        if verbose:
            line += " ".join(cells[6:11] if migrates else cells[6:10])
        print(line)


def _member_row(group: ConsumerGroupDescription, member: MemberDescription) -> _Row:
    upgraded = MISSING if member.is_upgraded is None else str(member.is_upgraded).lower()
    return (
        group.group_id,
        member.member_id,
        member.group_instance_id or "",
        member.host,
        member.client_id,
        str(len(member.assignment)),
        _cell(member.member_epoch),
        _assignment_text(member.assignment),
        _cell(group.target_assignment_epoch),
        _assignment_text(member.target_assignment or ()),
        upgraded,
    )


def _assignment_text(partitions: Iterable[TopicPartition]) -> str:
    of_topic: dict[str, list[int]] = {}
    for key in sorted(partitions):
        of_topic.setdefault(key.topic, []).append(key.partition)
    texts = sorted(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in of_topic.items())
    return ";".join(texts) or MISSING


def _show_states(admin: Admin, options: Options, groups: Sequence[ConsumerGroupDescription]) -> None:
    nodes = {node.id: node for node in admin.describe_cluster(timeout_ms=options.value("timeout")).nodes}
    verbose = options.has("verbose")
    for group in groups:
        if not _is_shown(group, 1):
            continue
        node = nodes.get(group.coordinator_id)
        address = f"{node.host}:{node.port}" if node is not None else ":-1"
        coordinator = f"{address}  ({group.coordinator_id})"
        widths = [max(15, len(group.group_id)), max(25, len(coordinator)), 20, 20, 15, 25, 0]
        headers = (
            "GROUP",
            "COORDINATOR (ID)",
            "ASSIGNMENT-STRATEGY",
            "STATE",
            "GROUP-EPOCH",
            "TARGET-ASSIGNMENT-EPOCH",
            "#MEMBERS",
        )
        row = (
            group.group_id,
            coordinator,
            group.assignor or MISSING,
            str(group.state),
            _cell(group.group_epoch),
            _cell(group.target_assignment_epoch),
            str(len(group.members)),
        )
        for cells in (headers, row):
            texts = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)]
            print("\n" + " ".join(texts if verbose else [*texts[:4], texts[6]]), end="")
        print()


# Deleting


def _delete(admin: Admin, options: Options) -> None:
    from ottla.operations.java_order import map_order, string_hash, text_of

    groups = wanted_groups(admin, options)
    results = admin.delete_groups(groups, timeout_ms=options.value("timeout"))
    gone = ", ".join(f"'{group}'" for group in map_order(results.succeeded, string_hash))
    if not results.failed:
        print(f"Deletion of requested consumer groups ({gone}) was successful.")
        return
    tell_error("Deletion of some consumer groups failed:")
    for group in map_order(results.failed, string_hash):
        print(f"* Group '{group}' could not be deleted due to: {text_of(results.failed[group])}")
    if gone:
        print(f"\nThese consumer groups were deleted successfully: {gone}")


def _delete_offsets(admin: Admin, options: Options) -> None:
    from ottla.operations.java_order import message_of, text_of
    from ottla.tools.offset_resets import partitions_in
    from ottla.wire.errors import ErrorCode

    group: str = options.value("group")
    timeout_ms = options.value("timeout")
    written = options.values("topic")
    keys = [key for text in written if ":" in text for key in partitions_in(options, text)]
    topics = [text for text in written if ":" not in text]
    described = admin.describe_topics(topics, timeout_ms=timeout_ms)
    outcomes: dict[tuple[str, int], Exception | None] = {
        (topic, -1): error for topic, error in described.failed.items()
    }
    from ottla.client.values import TopicPartition

    for topic, found in described.succeeded.items():
        keys += [TopicPartition(topic, one.partition) for one in found.partitions]
    results = admin.delete_consumer_group_offsets(group, keys, timeout_ms=timeout_ms)
    outcomes.update(results.items())
    codes = [error.code for error in results.failed.values() if isinstance(error, KafkaError)]
    if not results.failed:
        print(f"Request succeeded for deleting offsets from group {group}.")
    elif codes and codes[0] in (
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    ):
        tell_error(message_of(next(iter(results.failed.values()))))
    else:
        tell_error("Encountered some partition-level error, see the follow-up details.")
    width = max([15, *(len(topic) for topic, _ in outcomes)])
    print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}", end="")
    for topic, index in sorted(outcomes, key=lambda key: f"{key[0]}{key[1]}"):
        error = outcomes[topic, index]
        status = "Successful" if error is None else f"Error: {text_of(error)}"
        print(f"\n{topic:<{width}} {index if index >= 0 else MISSING!s:<10} {status:<15}", end="")
    print()


def _reset(admin: Admin, options: Options) -> None:
    from ottla.tools.offset_resets import reset

    reset(admin, options, wanted_groups(admin, options))


_RUN = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}


if __name__ == "__main__":
    sys.exit(main())
