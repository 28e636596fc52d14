"""`kafka-reassign-partitions.sh`: moves partitions to other brokers and log directories.

Options, output and exit codes are those of Kafka's tool. As there, failures go to standard output in a line
that begins with "Error: ", and only usage errors to standard error.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.operations.java_order import int_hash, map_order, message_of, partition_hash, string_hash, text_of
from ottla.operations.partition_files import name_of
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import run
from ottla.wire.errors import KafkaError, ReplicaNotAvailable, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.replicas import Replica, ReplicaLogDirs
    from ottla.client.admin.topics import PartitionDescription, TopicDescription
    from ottla.client.values import TopicPartition
    from ottla.operations.reassignment_files import Plan

_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_FURTHER = {
    "generate": ("bootstrap-server", "command-config", "disable-rack-aware"),
    "execute": (
        "additional",
        "bootstrap-server",
        "command-config",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "verify": ("bootstrap-server", "command-config", "preserve-throttles"),
    "cancel": ("bootstrap-server", "bootstrap-controller", "command-config", "preserve-throttles", "timeout"),
    "list": ("bootstrap-server", "bootstrap-controller", "command-config"),
}
_UNDER_WAY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this"
    " and create a new partition assignment in addition to the existing one. The --additional flag can also"
    " be used to change the throttle by resubmitting the current reassignment."
)
_VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle "
    "is removed."
)
_PAUSE_SECONDS = 0.1


class _Refused(Exception):
    """The tool prints only these lines and exits with code 1."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser(
        "kafka-reassign-partitions", "This tool helps to move topic partitions between replicas."
    )
    parser.flag("verify", text="Show the progress of a plan; after completion, remove the throttles.")
    parser.flag("generate", text="Generate a plan for topics and brokers, without executing it.")
    parser.flag("execute", text="Execute a plan.")
    parser.flag("cancel", text="Cancel the reassignments of a plan and restore the previous replicas.")
    parser.flag("list", text="List all reassignments in progress.")
    parser.value(
        "bootstrap-server", shown_as="host:port", text="Brokers to connect to.", value_is_optional=True
    )
    parser.value(
        "bootstrap-controller",
        shown_as="host:port",
        text="Controllers to connect to instead, for --cancel and --list.",
        value_is_optional=True,
    )
    parser.value("command-config", shown_as="file", text="Properties file for the client.")
    parser.value(
        "reassignment-json-file",
        shown_as="file",
        text=(
            'The plan: {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 2], '
            '"log_dirs": ["any", "/data/2"]}]}. log_dirs is optional.'
        ),
    )
    parser.value(
        "topics-to-move-json-file",
        shown_as="file",
        text='The topics for --generate: {"version": 1, "topics": [{"topic": "a"}]}.',
    )
    parser.value("broker-list", shown_as="ids", text='The brokers for --generate: "1,2,3".')
    parser.flag("disable-rack-aware", text="Ignore racks.")
    parser.value(
        "throttle",
        shown_as="bytes",
        convert=int,
        default=-1,
        text="Replication throttle between brokers, in bytes per second; -1: no limit.",
    )
    parser.value(
        "replica-alter-log-dirs-throttle",
        shown_as="bytes",
        convert=int,
        default=-1,
        text="Throttle between log directories of a broker, in bytes per second; -1: no limit.",
    )
    parser.value(
        "timeout",
        shown_as="ms",
        convert=int,
        default=10_000,
        text="Timeout for starting moves between log directories.",
    )
    parser.flag("additional", text="Add to the reassignments in progress, or change their throttle.")
    parser.flag("preserve-throttles", text="Keep the throttles.")
    parser.flag(
        "disallow-replication-factor-change", text="Reject a plan that changes the replication factor."
    )
    return parser


def _work(options: Options) -> int:
    action = _checked_action(options)
    from ottla.tools.admin_connection import open_admin

    work: dict[str, Callable[[Admin, Options], None]] = {
        "generate": _generate,
        "execute": _execute,
        "verify": _verify,
        "cancel": _cancel,
        "list": _list,
    }
    try:
        with open_admin(
            servers=options.value("bootstrap-server"),
            controllers=options.value("bootstrap-controller"),
            config=options.value("command-config"),
        ) as admin:
            work[action](admin, options)
    except _Refused as end:
        print(end)
        return 1
    except KafkaError as error:
        print(f"Error: {text_of(error)}")
        return 1
    except (Failure, ClientError, UsageError) as error:
        print(f"Error: {error}")
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"Error: {error.filename}: {error.strerror}" if error.filename else f"Error: {error}")
        return 1
    return 0


def _checked_action(options: Options) -> str:
    """The chosen action, after checking its options."""
    actions = [action for action in _ACTIONS if options.has(action)]
    if len(actions) != 1:
        names = ", ".join(f"--{action}" for action in _ACTIONS)
        raise options.parser.error(f"Command must include exactly one action: {names}")
    servers, controllers = options.has("bootstrap-server"), options.has("bootstrap-controller")
    if servers and controllers:
        raise options.parser.error("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not servers and not controllers:
        raise options.parser.error("Please specify either --bootstrap-server or --bootstrap-controller")
    action = actions[0]
    options.check_required(*_REQUIRED[action])
    allowed = {action, *_REQUIRED[action], *_FURTHER[action]}
    for name in options.order:
        if name not in allowed:
            raise options.parser.error(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _read(path: str) -> str:
    """Read a file named on the command line."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not valid UTF-8: {error.reason} at byte {error.start}.") from error


def _plan(options: Options) -> Plan:
    from ottla.operations.reassignment_files import read_plan

    return read_plan(_read(options.value("reassignment-json-file")))


# --verify


def _verify(admin: Admin, options: Options) -> None:
    plan = _plan(options)
    lines, is_moving = _states(admin, plan)
    print("\n".join(["Status of partition reassignment:", *lines]))
    directories = _directory_states(admin, plan.directories)
    lines = [
        _directory_line(replica, plan.directories[key], found)
        for key, (replica, found) in sorted(directories.items(), key=lambda item: _by_broker(item[0]))
    ]
    print("\n".join(lines))
    is_moving = is_moving or any(found.future is not None for _, found in directories.values())
    if not is_moving and not options.has("preserve-throttles"):
        _clear_throttles(admin, plan)


def _states(admin: Admin, plan: Plan) -> tuple[list[str], bool]:
    """Print a line per partition of the plan; return whether any reassignment is in progress."""
    under_way = admin.list_partition_reassignments()
    replicas = plan.replicas
    known = {place.topic for place in replicas if place not in under_way}
    topics = admin.describe_topics(known)
    lines = []
    for place in sorted(replicas):
        name = name_of(place)
        if place in under_way:
            lines.append(f"Reassignment of partition {name} is still in progress.")
            continue
        found = topics[place.topic]
        if isinstance(found, Exception) and not isinstance(found, UnknownTopicOrPartition):
            raise found
        current = [] if isinstance(found, Exception) else _replicas_in(found, place.partition)
        if current == replicas[place]:
            lines.append(f"Reassignment of partition {name} is completed.")
        else:
            lines.append(
                f"There is no active reassignment of partition {name}, but replica set is"
                f" {_commas(current)} rather than {_commas(replicas[place])}."
            )
    return lines, bool(under_way)


def _replicas_in(topic: TopicDescription, partition: int) -> list[int]:
    for one in topic.partitions:
        if one.partition == partition:
            return [node.id for node in one.replicas]
    return []


def _directory_states(
    admin: Admin, wanted: Collection[tuple[TopicPartition, int]]
) -> dict[tuple[TopicPartition, int], tuple[Replica, ReplicaLogDirs]]:
    if not wanted:
        return {}
    from ottla.client.admin.replicas import Replica

    replicas = {(place, broker): Replica(place.topic, place.partition, broker) for place, broker in wanted}
    found = admin.describe_replica_log_dirs(replicas.values()).all()
    return {key: (replica, found[replica]) for key, replica in replicas.items()}


def _directory_line(replica: Replica, target: str, found: ReplicaLogDirs) -> str:
    place, broker = f"{replica.topic}-{replica.partition}", replica.broker
    if found.current is None:
        return (
            f"Partition {place} is not found in any live log dir on broker {broker}. There is likely an"
            " offline log directory on the broker."
        )
    if found.future is not None:
        if found.future == target:
            return f"Reassignment of replica {place}-{broker} is still in progress."
        return (
            f"Partition {place} on broker {broker} is being moved to log dir {found.future}"
            f" instead of {target}."
        )
    if found.current == target:
        return f"Reassignment of replica {place}-{broker} completed successfully."
    return (
        f"Partition {place} on broker {broker} is not being moved from log dir {found.current} to {target}."
    )


def _clear_throttles(admin: Admin, plan: Plan) -> None:
    """Remove throttles: of all brokers, since participants of earlier plans are unknown, and of these
    topics."""
    from ottla.operations.reassignments import clear_broker_throttles, clear_topic_throttles

    nodes = [node.id for node in admin.describe_cluster().nodes]
    named = [broker for _, replicas in plan.entries for broker in replicas]
    brokers = map_order([*nodes, *named], int_hash)
    print(f"Clearing broker-level throttles on broker{_plural(brokers)} {_commas(brokers)}")
    clear_broker_throttles(admin, brokers)
    topics = map_order((place.topic for place, _ in plan.entries), string_hash)
    print(f"Clearing topic-level throttles on topic{_plural(topics)} {','.join(topics)}")
    clear_topic_throttles(admin, topics)


# --generate


def _generate(admin: Admin, options: Options) -> None:
    from ottla.operations.reassignment_files import plan_text, read_brokers, read_topics

    text = _read(options.value("topics-to-move-json-file"))
    brokers = read_brokers(options.value("broker-list"))
    topics = read_topics(text)
    partitions = {
        (name, one.partition): one
        for name, topic in _described(admin, topics).items()
        for one in topic.partitions
    }
    current = {_place(*key): one for key, one in partitions.items()}
    directories = _directories_of(admin, current)
    proposed = _proposed(admin, current, brokers, uses_racks=not options.has("disable-rack-aware"))
    print(f"Current partition replica assignment\n{plan_text(_ids(current), directories)}\n")
    print(f"Proposed partition reassignment configuration\n{plan_text(proposed)}")


def _proposed(
    admin: Admin,
    current: Mapping[TopicPartition, PartitionDescription],
    brokers: Collection[int],
    *,
    uses_racks: bool,
) -> dict[TopicPartition, list[int]]:
    """Place the partitions of each topic as the controller would place new ones."""
    from ottla.controller.placement import Placer, UsableBroker

    usable = [
        UsableBroker(node.id, node.rack if uses_racks else None)
        for node in admin.describe_cluster().nodes
        if node.id in brokers
    ]
    if len({one.rack is None for one in usable}) > 1:
        raise Failure(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica"
            " assignment without rack information."
        )
    of_topic: dict[str, list[TopicPartition]] = {}
    for place in map_order(current, partition_hash):
        of_topic.setdefault(place.topic, []).append(place)
    proposed = {}
    for topic, places in of_topic.items():
        try:
            rows = Placer(usable, random.randrange).place(len(places), len(current[places[0]].replicas))
        except KafkaError as error:
            raise Failure(str(error)) from error
        proposed.update({_place(topic, index): row for index, row in enumerate(rows)})
    return proposed


def _described(admin: Admin, topics: Iterable[str]) -> dict[str, TopicDescription]:
    found = admin.describe_topics(set(topics))
    for topic in map_order(found, string_hash):
        outcome = found[topic]
        if isinstance(outcome, UnknownTopicOrPartition):
            raise UnknownTopicOrPartition(f"Topic {topic} not found.")
        if isinstance(outcome, Exception):
            raise outcome
    return found.succeeded


def _directories_of(
    admin: Admin, partitions: Mapping[TopicPartition, PartitionDescription]
) -> dict[tuple[TopicPartition, int], str]:
    """The log directories of replicas on reachable brokers."""
    wanted = [(place, node.id) for place, one in partitions.items() for node in one.replicas if node.host]
    return {
        key: found.current
        for key, (_, found) in _directory_states(admin, wanted).items()
        if found.current is not None
    }


def _ids(partitions: Mapping[TopicPartition, PartitionDescription]) -> dict[TopicPartition, list[int]]:
    return {place: [node.id for node in one.replicas] for place, one in partitions.items()}


# --execute


def _execute(admin: Admin, options: Options) -> None:
    from ottla.operations.reassignment_files import check_plan, plan_text
    from ottla.operations.reassignments import moves_of, set_directory_throttle, set_throttle

    plan = _plan(options)
    throttle, directory_throttle = options.value("throttle"), options.value("replica-alter-log-dirs-throttle")
    timeout_ms = options.value("timeout")
    check_plan(plan)
    under_way = admin.list_partition_reassignments()
    if under_way and not options.has("additional"):
        raise _Refused(_UNDER_WAY)
    replicas = plan.replicas
    _check_brokers(admin, replicas)
    current = _current(admin, replicas)
    print(
        f"Current partition replica assignment\n\n{plan_text(_ids(current), _directories_of(admin, current))}"
    )
    print("\nSave this to use as the --reassignment-json-file option during rollback")
    if throttle >= 0 or directory_throttle >= 0:
        print(_VERIFY_LATER)
    if throttle >= 0:
        set_throttle(admin, moves_of(under_way, replicas, _ids(current)), throttle)
        print(f"The inter-broker throttle limit was set to {throttle} B/s")
    if directory_throttle >= 0:
        set_directory_throttle(admin, {broker for _, broker in plan.directories}, directory_throttle)
        print(f"The replica-alter-dir throttle limit was set to {directory_throttle} B/s")
    errors = admin.alter_partition_reassignments(
        replicas, allow_replication_factor_change=not options.has("disallow-replication-factor-change")
    ).failed
    if errors:
        raise _Refused("\n".join(["Error reassigning partition(s):", *_error_lines(errors)]))
    names = ",".join(map(name_of, sorted(replicas)))
    print(f"Successfully started partition reassignment{_plural(replicas)} for {names}")
    _move_directories(admin, plan.directories, timeout_ms)


def _check_brokers(admin: Admin, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
    known = {node.id for node in admin.describe_cluster().nodes}
    named = [broker for place in map_order(replicas, partition_hash) for broker in replicas[place]]
    for broker in map_order(named, int_hash):
        if broker not in known:
            raise Failure(f"Unknown broker id {broker}")


def _current(admin: Admin, wanted: Collection[TopicPartition]) -> dict[TopicPartition, PartitionDescription]:
    """The current state of the partitions, all of which must exist."""
    found = {}
    for topic, description in _described(admin, {place.topic for place in wanted}).items():
        for one in description.partitions:
            place = _place(topic, one.partition)
            if place in wanted:
                found[place] = one
    if missing := map_order(set(wanted) - set(found), partition_hash):
        raise UnknownTopicOrPartition(f"Unable to find partition: {', '.join(map(name_of, missing))}")
    return found


def _move_directories(
    admin: Admin, directories: Mapping[tuple[TopicPartition, int], str], timeout_ms: int
) -> None:
    """Move replicas to log directories. A replica that is not on its broker yet is retried."""
    from ottla.client.admin.replicas import Replica

    waiting = {
        Replica(place.topic, place.partition, broker): directory
        for (place, broker), directory in directories.items()
    }
    deadline = time.monotonic() + timeout_ms / 1000
    while waiting:
        results = admin.alter_replica_log_dirs(waiting)
        for replica, error in results.failed.items():
            if not isinstance(error, ReplicaNotAvailable):
                raise Failure(f"Failed to alter dir for {_replica_name(replica)}") from error
        for replica in sorted(results.succeeded, key=lambda one: (one.broker, one.topic, one.partition)):
            print(
                f"Successfully started moving log directory to {waiting.pop(replica)} for replica"
                f" {replica.topic}-{replica.partition} with broker {replica.broker} "
            )
        if waiting and time.monotonic() >= deadline:
            names = ",".join(
                _replica_name(one)
                for one in sorted(waiting, key=lambda one: (one.broker, one.topic, one.partition))
            )
            raise _Refused(
                f"Timed out before log directory move{_plural(waiting)} could be started for: {names}"
            )
        if waiting:
            time.sleep(_PAUSE_SECONDS)


# --cancel and --list


def _cancel(admin: Admin, options: Options) -> None:
    plan = _plan(options)
    timeout_ms = options.value("timeout")
    wanted = plan.replicas
    under_way = [
        place
        for place, found in admin.list_partition_reassignments(wanted).items()
        if found.adding or found.removing
    ]
    if under_way:
        errors = admin.alter_partition_reassignments(dict.fromkeys(under_way)).failed
        if errors:
            head = f"Error cancelling partition reassignment{_plural(errors)} for:"
            raise _Refused("\n".join([head, *_error_lines(errors)]))
        names = ",".join(map(name_of, sorted(under_way)))
        print(f"Successfully cancelled partition reassignment{_plural(under_way)} for: {names}")
    else:
        print("None of the specified partition reassignments are active.")
    back = {
        key: found.current
        for key, (_, found) in _directory_states(admin, plan.directories).items()
        if found.current is not None and found.future is not None
    }
    if back:
        _move_directories(admin, back, timeout_ms)
    else:
        print("None of the specified partition moves are active.", end="")
    if not options.has("preserve-throttles"):
        _clear_throttles(admin, plan)


def _list(admin: Admin, options: Options) -> None:
    under_way = admin.list_partition_reassignments()
    if not under_way:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for place in sorted(under_way):
        found = under_way[place]
        adding = f" adding: {_commas(found.adding)}." if found.adding else ""
        removing = f" removing: {_commas(found.removing)}." if found.removing else ""
        print(f"{name_of(place)}: replicas: {_commas(found.replicas)}.{adding}{removing}")


# Texts


def _place(topic: str, partition: int) -> TopicPartition:
    from ottla.client.values import TopicPartition

    return TopicPartition(topic, partition)


def _by_broker(key: tuple[TopicPartition, int]) -> tuple[int, TopicPartition]:
    return key[1], key[0]


def _replica_name(replica: Replica) -> str:
    return f"{replica.topic}-{replica.partition}-{replica.broker}"


def _error_lines(errors: Mapping[TopicPartition, Exception]) -> list[str]:
    return [f"{name_of(place)}: {message_of(errors[place])}" for place in sorted(errors)]


def _commas(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _plural(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"


if __name__ == "__main__":
    sys.exit(main())
