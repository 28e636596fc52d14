"""Our kafka-consumer-groups and kafka-groups say what Kafka's say, on Kafka and on Ottla."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client.admin import Admin, GroupState, NewTopic
from ottla.client.values import OffsetAndMetadata
from ottla.client.values import TopicPartition as Key
from ottla.tools import consumer_groups, groups
from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.library.support import eventually
from tests.interop.tools_same.same import OURS, THEIRS, Tool, check_same

GROUPS = Tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", consumer_groups.main)
ALL_GROUPS = Tool("org.apache.kafka.tools.GroupsCommand", groups.main)
LOOKS = [
    "--list",
    "--list --state",
    "--list --type",
    "--list --state --type",
    "--list --state Empty,stable",
    "--list --type classic",
    "--list --state=Nonsense",
    "--list --type Nonsense",
    "--describe --group simple",
    "--describe --group simple --verbose",
    "--describe --group simple --offsets",
    "--describe --group simple --members",
    "--describe --group simple --state",
    "--describe --group simple --state --verbose",
    "--describe --group classic",
    "--describe --group classic --verbose",
    "--describe --group classic --members",
    "--describe --group classic --members --verbose",
    "--describe --group classic --state",
    "--describe --group newer",
    "--describe --group newer --verbose",
    "--describe --group newer --members --verbose",
    "--describe --group newer --state --verbose",
    "--describe --group static --members",
    "--describe --group simple --group classic --offsets",
    "--describe --all-groups",
    "--describe --all-groups --state",
    "--describe --group missing",
    "--describe --group missing --state",
    "--describe",
    "--describe --group simple --members --state",
    "--describe --group simple --state Empty",
    "--list --members",
    "--list --group simple",
    "--describe --topic words --group simple",
    "--describe --list --group simple",
    "--validate-regex a.*b",
    "--timeout soon --describe --group simple",
    "--group",
    "--nonsense",
    "",
]
LISTS = [
    "--list",
    "--list --group-type classic",
    "--list --group-type CONSUMER",
    "--list --group-type classic --protocol consumer",
    "--list --protocol consumer",
    "--list --protocol connect",
    "--list --consumer",
    "--list --share",
    "--list --streams",
    "--list --group-type nonsense",
    "--list --consumer --share",
    "--consumer",
    "--nonsense",
    "",
]
CHANGES = [
    "--reset-offsets --group g-% --topic words --to-offset 2 --execute",
    "--describe --group g-%",
    "--reset-offsets --group g-% --topic words --to-earliest --dry-run",
    "--reset-offsets --group g-% --topic words --to-latest",
    "--reset-offsets --group g-% --topic words:1,2 --to-offset 99 --execute",
    "--reset-offsets --group g-% --topic words:0 --topic numbers --to-current --execute",
    "--reset-offsets --group g-% --all-topics --shift-by -1 --execute",
    "--reset-offsets --group g-% --all-topics --shift-by 100 --execute",
    "--reset-offsets --group g-% --topic words --to-datetime 1970-01-01T00:00:02.500 --execute",
    "--reset-offsets --group g-% --topic words --to-datetime 1970-01-01T01:00:02.500+01:00 --dry-run",
    "--reset-offsets --group g-% --topic words --by-duration PT0S --dry-run",
    "--reset-offsets --group g-% --topic words --by-duration P99999D --dry-run",
    "--reset-offsets --group g-% --all-topics --to-current --export",
    "--reset-offsets --group g-% --group h-% --topic words --to-earliest --export",
    "--reset-offsets --group g-% --topic words:7 --to-earliest",
    "--reset-offsets --group g-% --topic missing --to-earliest",
    "--reset-offsets --group g-% --topic missing:0 --to-earliest",
    "--reset-offsets --group g-% --topic words:x --to-earliest",
    "--reset-offsets --group g-% --topic words:0:1 --to-earliest",
    "--reset-offsets --group fresh-% --topic words --shift-by 1",
    "--reset-offsets --group g-% --topic words",
    "--reset-offsets --group g-% --to-earliest",
    "--reset-offsets --group g-% --topic words --to-earliest --to-latest",
    "--reset-offsets --group g-% --topic words --to-earliest --dry-run --execute",
    "--reset-offsets --topic words --to-earliest",
    "--reset-offsets --group classic --topic words --to-earliest --execute",
    "--describe --group g-% --verbose",
    "--delete-offsets --group g-% --topic words:0,1",
    "--delete-offsets --group g-% --topic numbers",
    "--delete-offsets --group classic --topic words",
    "--delete-offsets --group missing-% --topic words",
    "--delete-offsets --group g-%",
    "--delete --group classic --group g-%",
    "--delete --group g-%",
    "--delete --group missing-%",
    "--delete",
    "--delete --group h-% --topic words",
]


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker with groups of every kind: without members, with classic, newer and static ones."""
    quick = {"group.initial.rebalance.delay.ms": "0"}
    with ExitStack() as stack:
        broker = stack.enter_context(peers.running(request.param, properties=quick))
        admin = stack.enter_context(Admin(broker.bootstrap, default_api_timeout_ms=120_000))
        admin.create_topics([NewTopic("words", 3, 1), NewTopic("numbers", 1, 1)]).all()
        _write(broker.bootstrap)
        offsets: dict[Key, OffsetAndMetadata | int] = {
            Key("words", 0): 1,
            Key("words", 2): OffsetAndMetadata(3, 0),
            Key("numbers", 0): 0,
        }
        admin.alter_consumer_group_offsets("simple", offsets).all()
        for group, more in {
            "classic": {"group.protocol": "classic"},
            "newer": {"group.protocol": "consumer"},
            "static": {"group.instance.id": "fixed"},
        }.items():
            consumer = _member(broker.bootstrap, group, more)
            stack.callback(consumer.close)
        _wait_stable(admin, ["classic", "newer", "static"])
        yield broker.bootstrap


def _write(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(3):
        for timestamp in (1000, 2000, 3000, 4000):
            producer.produce("words", b"value", partition=partition, timestamp=timestamp)
    producer.produce("numbers", b"1")
    assert producer.flush(120) == 0


def _member(bootstrap: str, group: str, more: dict[str, str]) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"client-{group}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 300_000,
            "max.poll.interval.ms": 600_000,
            **more,
        }
        if more.get("group.protocol") != "consumer"
        else {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"client-{group}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": 600_000,
            **more,
        }
    )
    consumer.subscribe(["words"])

    def has_all() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == 3

    eventually(has_all, f"the partitions of {group}")
    consumer.commit(offsets=[TopicPartition("words", 1, 2)], asynchronous=False)
    return consumer


def _wait_stable(admin: Admin, groups: list[str]) -> None:
    def are_stable() -> bool:
        described = admin.describe_consumer_groups(groups).all()
        return all(
            one.state is GroupState.STABLE and one.members and one.members[0].assignment
            for one in described.values()
        )

    eventually(are_stable, "stable groups")


def test_groups_are_shown_alike(servers: str, tools: Tools) -> None:
    check_same(tools, GROUPS, [["--bootstrap-server", servers, *line.split()] for line in LOOKS])


def test_groups_of_all_kinds_are_listed_alike(servers: str, tools: Tools) -> None:
    check_same(tools, ALL_GROUPS, [["--bootstrap-server", servers, *line.split()] for line in LISTS])
    check_same(tools, ALL_GROUPS, [["--list"], [], ["--help"]])


def test_groups_are_changed_alike(servers: str, tools: Tools) -> None:
    check_same(tools, GROUPS, [["--bootstrap-server", servers, *line.split()] for line in CHANGES])


def test_offsets_are_reset_from_a_file_alike(servers: str, tools: Tools, tmp_path: Path) -> None:
    for name in (OURS, THEIRS):
        (tmp_path / f"one-{name}.csv").write_text("words,0,1\nwords,1,99\n")
        (tmp_path / f"two-{name}.csv").write_text(f"f-{name},words,0,2\nother,words,0,1\n")
    common = ["--bootstrap-server", servers, "--reset-offsets", "--group", "f-%", "--execute", "--from-file"]
    check_same(
        tools, GROUPS, [[*common, str(tmp_path / "one-%.csv")], [*common, str(tmp_path / "two-%.csv")]]
    )
