"""`kafka-topics.sh`: creates, deletes, describes, lists and alters topics.

Options, output and exit codes are those of Kafka's tool, including the order of its hash maps, since scripts
parse the output. Failures go to standard output, usage errors to standard error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import run
from ottla.tools.patterns import INTERNAL_TOPICS, IncludeList
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.configs import ConfigEntry
    from ottla.client.admin.replicas import Reassignment
    from ottla.client.admin.topics import PartitionDescription, TopicDescription
    from ottla.client.core.metadata import Node
    from ottla.client.values import TopicPartition

ACTIONS = ("list", "describe", "create", "alter", "delete")
_REPORTS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
_CONFIGS_TOOL = " (To alter topic configurations, the kafka-configs tool can be used.)"
_COLLIDING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)
_SHORT_MAX = 2**15 - 1
_ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-topics", "This tool helps to create, delete, describe, or change a topic.")
    parser.value("bootstrap-server", text="Server to connect to. Required.", shown_as="host:port")
    parser.value("command-config", text="Properties file for the admin client.", shown_as="file")
    parser.flag("list", text="List the topics.")
    parser.flag("create", text="Create a topic.")
    parser.flag("delete", text="Delete topics.")
    parser.flag("alter", text="Add partitions to topics." + _CONFIGS_TOOL)
    parser.flag("describe", text="Show topics and their partitions.")
    parser.value("topic", text="Topic; a regular expression except with --create.", shown_as="topic")
    parser.value("topic-id", text="Id of the topic to describe.", shown_as="topic id")
    parser.value("config", text="Setting of the new topic; repeatable.", shown_as="name=value")
    parser.value("delete-config", text="No longer supported; ignored.", shown_as="name")
    parser.value("partitions", text="Number of partitions.", convert=int, shown_as="count")
    parser.value("replication-factor", text="Replication factor.", convert=int, shown_as="count")
    parser.value(
        "replica-assignment",
        text="Replica assignment of each partition; the first broker is the preferred leader.",
        shown_as="id:id,id:id,...",
    )
    parser.flag(_REPORTS[0], text="Describe only under-replicated partitions.")
    parser.flag(_REPORTS[1], text="Describe only partitions without a leader.")
    parser.flag(_REPORTS[2], text="Describe only partitions below min.insync.replicas.")
    parser.flag(_REPORTS[3], text="Describe only partitions at min.insync.replicas.")
    parser.flag("topics-with-overrides", text="Describe only topics with overridden settings.")
    parser.flag("if-exists", text="Do nothing if the topic does not exist.")
    parser.flag("if-not-exists", text="Do nothing if the topic exists.")
    parser.flag("exclude-internal", text="Exclude internal topics.")
    parser.value(
        "partition-size-limit-per-response",
        text="Maximum number of partitions per describe response.",
        convert=int,
        shown_as="count",
    )
    return parser


def _work(options: Options) -> int:
    from ottla.tools.admin_connection import open_admin

    _check(options)
    action = next(name for name in ACTIONS if options.has(name))
    with open_admin(
        servers=options.value("bootstrap-server"), config=options.value("command-config")
    ) as admin:
        try:
            _RUN[action](admin, options)
        except (Failure, KafkaError, ClientError, UsageError) as error:
            from ottla.operations.java_order import message_of

            print(f"Error while executing topic command : {message_of(error)}")
            return 1
    return 0


# The command line


def _check(options: Options) -> None:
    parser = options.parser
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise parser.error(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    if options.has("delete-config"):
        print(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases.",
            file=sys.stderr,
        )
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified")
    if options.has("describe") and options.has("if-exists"):
        if not options.has("topic") and not options.has("topic-id"):
            raise parser.error("--topic or --topic-id is required to describe a topic")
        if options.has("topic") and options.has("topic-id"):
            print(
                "Only topic id will be used when both --topic and --topic-id are specified "
                "and topicId is not Uuid.ZERO_UUID"
            )
    if not options.has("list") and not options.has("describe"):
        options.check_required("topic")
    if options.has("alter"):
        if options.has("config"):
            raise parser.error(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]"'
                + _CONFIGS_TOOL
            )
        options.check_required("partitions")
    _check_together(options)


def _check_together(options: Options) -> None:
    def only_with(name: str, *actions: str, also_not: Sequence[str] = ()) -> None:
        options.check_invalid(name, *(one for one in ACTIONS if one not in actions), *also_not)

    only_with("config", "alter", "create")
    only_with("partitions", "alter", "create")
    only_with("replication-factor", "create")
    only_with("replica-assignment", "alter", "create")
    if options.has("create"):
        options.check_invalid("replica-assignment", "partitions", "replication-factor")
    for report in _REPORTS:
        only_with(report, "describe", also_not=["topics-with-overrides"])
    only_with("topics-with-overrides", "describe", also_not=_REPORTS)
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


# Create and alter


def _create(admin: Admin, options: Options) -> None:
    from ottla.client.admin.topics import NewTopic
    from ottla.wire.errors import TopicAlreadyExists

    name: str = options.value("topic")
    partitions, factor = options.value("partitions"), options.value("replication-factor")
    assignments = _assignments(options.value("replica-assignment"))
    configs = _configs(options.values("config"))
    if "." in name or "_" in name:
        print(_COLLIDING)
    if factor is not None and not 1 <= factor <= _SHORT_MAX:
        raise Failure(f"The replication factor must be between 1 and {_SHORT_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise Failure("The partitions must be greater than 0")
    topic = NewTopic(name, partitions, factor, assignments, configs)
    outcome = admin.create_topics([topic], retry_on_quota_violation=False)[name]
    if isinstance(outcome, TopicAlreadyExists) and options.has("if-not-exists"):
        return
    if isinstance(outcome, Exception):
        raise outcome
    print(f"Created topic {name}.")


def _assignments(written: str | None) -> dict[int, list[int]] | None:
    if not written:
        return None
    found: dict[int, list[int]] = {}
    for index, part in enumerate(written.split(",")):
        brokers = [_whole_number(one.strip()) for one in part.split(":")]
        twice = [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]
        if twice:
            raise Failure(
                "Partition replica lists may not contain duplicate entries: " + ",".join(map(str, twice))
            )
        found[index] = brokers
        if len(brokers) != len(found[0]):
            raise Failure(f"Partition {index} has different replication factor: {brokers}")
    return found


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Failure(f'For input string: "{text}"') from None


def _configs(entries: Sequence[str]) -> dict[str, str]:
    pairs = [re.split(r"\s*=\s*", entry) for entry in entries]
    # Java's split drops empty strings at the end: "name=" has one part.
    if not all(len(pair) == 2 and pair[1] for pair in pairs):
        raise Failure(
            "requirement failed: Invalid topic config: all configs to be added must be in the format "
            '"key=val".'
        )
    configs = {name.strip(): value.strip() for name, value in pairs}
    _validate(configs)
    return configs


def _validate(configs: Mapping[str, str]) -> None:
    """Check settings before the request, as Kafka's tool does."""
    if not configs:
        return
    from ottla.config.schema import ResourceType, definitions
    from ottla.config.values import InvalidValue

    known = definitions(ResourceType.TOPIC)
    for name, value in configs.items():
        if name not in known:
            raise Failure(f"Unknown topic config name: {name}")
        try:
            known[name].parse(value)
        except InvalidValue as error:
            raise Failure(str(error)) from error


def _alter(admin: Admin, options: Options) -> None:
    from ottla.client.admin.topics import NewPartitions

    assignments = _assignments(options.value("replica-assignment"))
    total: int = options.value("partitions")
    topics = _topics(admin, options)
    _check_exists(topics, options)
    if not topics:
        return
    wanted: dict[str, int | NewPartitions] = dict.fromkeys(topics, total)
    if assignments is not None:
        described = admin.describe_topics(topics).all()
        for topic in topics:
            have = len(described[topic].partitions)
            wanted[topic] = NewPartitions(total, [assignments[one] for one in assignments if one >= have])
    admin.create_partitions(wanted, retry_on_quota_violation=False).all()


def _delete(admin: Admin, options: Options) -> None:
    topics = _topics(admin, options)
    _check_exists(topics, options)
    admin.delete_topics(topics, retry_on_quota_violation=False).all()


# List and describe


def _list(admin: Admin, options: Options) -> None:
    print("\n".join(_topics(admin, options)))


def _topics(admin: Admin, options: Options) -> list[str]:
    excludes = options.has("exclude-internal")
    found = sorted(admin.list_topics(include_internal=not excludes))
    written = options.value("topic")
    if written is None:
        return [topic for topic in found if not (excludes and topic in INTERNAL_TOPICS)]
    wanted = IncludeList(written)
    return [topic for topic in found if wanted.allows(topic, exclude_internal=excludes)]


def _check_exists(topics: Sequence[str], options: Options) -> None:
    written = options.value("topic")
    if written and not topics and not options.has("if-exists"):
        raise Failure(f"Topic '{written}' does not exist as expected")


def _describe(admin: Admin, options: Options) -> None:
    from ottla.client.admin.configs import topic_resource
    from ottla.client.values import TopicPartition
    from ottla.operations.java_order import map_order, string_hash

    described = _described(admin, options)
    names = [topic.name for topic in described]
    configs = admin.describe_configs([topic_resource(name) for name in names]).all() if names else {}
    alive = {node.id for node in admin.describe_cluster().nodes}
    keys = [TopicPartition(topic.name, one.partition) for topic in described for one in topic.partitions]
    report = _Report(options, alive, _reassignments(admin, keys))
    for topic in described:
        found = configs[topic_resource(topic.name)]
        report.show(topic, {name: found[name] for name in map_order(found, string_hash)})


def _described(admin: Admin, options: Options) -> list[TopicDescription]:
    """The topics to show, in the order of Kafka's tool."""
    from ottla.operations.java_order import map_order, string_hash

    topic_id = options.value("topic-id")
    if topic_id is not None and topic_id != _ZERO_ID:
        listed = admin.list_topics(include_internal=not options.has("exclude-internal"))
        if topic_id in {one.topic_id for one in listed.values()}:
            return list(admin.describe_topics_by_id([topic_id]).all().values())
        if not options.has("if-exists"):
            raise Failure(f"TopicId '{topic_id}' does not exist as expected")
        return []
    topics = _topics(admin, options)
    _check_exists(topics, options)
    limit = options.value("partition-size-limit-per-response") or 2000
    described = admin.describe_topics(topics, partitions_per_answer=limit).all()
    asked = map_order(topics, string_hash, len(topics))
    return [described[name] for name in map_order(asked, string_hash, len(topics))]


def _reassignments(admin: Admin, keys: Sequence[TopicPartition]) -> dict[TopicPartition, Reassignment]:
    from ottla.wire.errors import ClusterAuthorizationFailed, UnsupportedVersion

    try:
        return admin.list_partition_reassignments(keys)
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return {}


@dataclass(slots=True)
class _Report:
    """Selects and formats the topics and partitions to show."""

    options: Options
    alive: set[int]
    reassignments: Mapping[TopicPartition, Reassignment]

    def show(self, topic: TopicDescription, configs: Mapping[str, ConfigEntry]) -> None:
        shows_topics = not any(self.options.has(report) for report in _REPORTS)
        own = [f"{one.name}={one.value}" for one in configs.values() if not one.is_default]
        only_overrides = self.options.has("topics-with-overrides")
        if shows_topics and (own or not only_overrides):
            self._show_topic(topic, own)
        if not only_overrides:
            for partition in topic.partitions:
                if shows_topics or self._is_reported(topic.name, partition, configs):
                    self._show_partition(topic.name, partition)

    def _show_topic(self, topic: TopicDescription, own: Sequence[str]) -> None:
        identity = f"\tTopicId: {topic.topic_id}" if topic.topic_id else ""
        print(
            f"Topic: {topic.name}{identity}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {self._factor(topic.name, topic.partitions[0])}"
            f"\tConfigs: {','.join(own)}"
        )

    def _is_reported(
        self, topic: str, partition: PartitionDescription, configs: Mapping[str, ConfigEntry]
    ) -> bool:
        required = int(configs["min.insync.replicas"].value or 1)
        in_sync, leader = len(partition.isr), partition.leader
        return any(
            (
                self.options.has(_REPORTS[0]) and self._factor(topic, partition) > in_sync,
                self.options.has(_REPORTS[1]) and (leader is None or leader.id not in self.alive),
                self.options.has(_REPORTS[2]) and (leader is None or in_sync < required),
                self.options.has(_REPORTS[3]) and in_sync == required,
            )
        )

    def _factor(self, topic: str, partition: PartitionDescription) -> int:
        """The number of replicas, without those being added by a reassignment."""
        moving = self._reassignment(topic, partition)
        if moving is not None:
            changing = {*moving.adding, *moving.removing}
            if any(node.id in changing for node in partition.replicas):
                return len(moving.replicas) - len(moving.adding)
        return len(partition.replicas)

    def _reassignment(self, topic: str, partition: PartitionDescription) -> Reassignment | None:
        from ottla.client.values import TopicPartition

        return self.reassignments.get(TopicPartition(topic, partition.partition))

    def _show_partition(self, topic: str, partition: PartitionDescription) -> None:
        moving = self._reassignment(topic, partition)
        fields = [
            f"\tTopic: {topic}",
            f"Partition: {partition.partition}",
            f"Leader: {'none' if partition.leader is None else partition.leader.id}",
            f"Replicas: {_ids(partition.replicas)}",
            f"Isr: {_ids(partition.isr)}",
        ]
        if moving is not None:
            fields.append(f"Adding Replicas: {','.join(map(str, moving.adding))}")
            fields.append(f"Removing Replicas: {','.join(map(str, moving.removing))}")
        fields.append(f"Elr: {_ids(partition.elr)}")
        fields.append(f"LastKnownElr: {_ids(partition.last_known_elr)}")
        print("\t".join(fields))


def _ids(nodes: Sequence[Node] | None) -> str:
    return "N/A" if nodes is None else ",".join(str(node.id) for node in nodes)


_RUN = {"list": _list, "describe": _describe, "create": _create, "alter": _alter, "delete": _delete}


if __name__ == "__main__":
    sys.exit(main())
