"""Kafka's kafka-consumer-groups and kafka-groups print the same about Ottla's groups as about Kafka's.

Both brokers are brought into the same state by the same raw requests; then every command runs on both. With
OTTLA_TEST_BROKERS=kafka two Kafka nodes are compared, which proves the test itself.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import peers
from tests.interop.clients.same.batches import BASE_TIME_MS, Entry, batch
from tests.interop.groups_raw.ask_consumer import Modern
from tests.interop.groups_raw.brokers import PROPERTIES, wait_for_coordinator
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.members import Member, assignment, commits, protocols, subscription
from tests.interop.groups_tool.runner import CONSUMER_GROUPS, GROUPS, Tools

RECORDS = 20
HOUR_MS = 3_600_000
# Record n is 2n hours older than the newest, which is an hour old: durations in odd half hours are safe.
OLDEST_MS = BASE_TIME_MS - (RECORDS - 1) * 2 * HOUR_MS


class Side:
    """One broker in the agreed state."""

    def __init__(self, broker: peers.BrokerProcess) -> None:
        self.broker = broker
        self.masks: dict[str, str] = {broker.bootstrap: "(listener)", str(broker.port): "(port)"}
        self.talk = Talk(broker, 1, {})
        self.talk.salt = ""
        self.live: list[Member | Modern] = []

    def prepare(self) -> None:
        wait_for_coordinator(self.broker)
        self.talk.topics(alpha=3, beta=2)
        for topic, partitions in (("alpha", 3), ("beta", 1)):
            for index in range(partitions):
                self._produce(topic, index)
        self._offsets("simple", {"alpha": {0: 5, 1: 20, 2: 0}, "beta": {0: 7}})
        for number in range(6):
            self._offsets(f"spare-{number}", {"alpha": {0: 5, 1: 20, 2: 0}, "beta": {0: 7}})
        self._offsets("ahead", {"alpha": {0: 999}})
        self._classic()
        self._empty()
        self._consumers()
        self._connectors()

    def _produce(self, topic: str, index: int) -> None:
        entries = [Entry(value=b"%d" % number, delta_ms=number * 2 * HOUR_MS) for number in range(RECORDS)]
        rows = [{"index": index, "records": memoryview(batch(entries, base_time_ms=OLDEST_MS))}]
        topics = [{"name": topic, "partition_data": rows}]
        response = self.talk.quietly("Produce", 9, acks=-1, timeout_ms=10_000, topic_data=topics)
        assert response.responses[0].partition_responses[0].error_code == 0

    def _offsets(self, group: str, offsets: dict[str, dict[int, int]]) -> None:
        response = self.talk.hears("OffsetCommit", group_id=group, topics=commits(self.talk, offsets))
        assert all(part.error_code == 0 for topic in response.topics for part in topic.partitions), response

    def _talk(self, group: str) -> Talk:
        talk = self.talk.another()
        talk.group = group
        return talk

    def _remember(self, member: Member | Modern, name: str) -> None:
        self.masks[member.id] = name
        self.live.append(member)

    def _classic(self) -> None:
        """Two members, one of them static; the partitions of one are not committed."""
        talk = self._talk("classic")
        leader = Member(talk, "A", protocols=protocols(range=subscription("alpha", "beta")))
        follower = Member(
            talk, "B", instance="the-static-one", protocols=protocols(range=subscription("alpha"))
        )
        leader.join()
        leader.sync({})
        follower.begin_join()
        talk.wait_members(2)
        leader.join()
        follower.end_join()
        follower.begin_sync()
        leader.sync(
            {
                leader.id: assignment(("alpha", [0, 1]), ("beta", [0, 1])),
                follower.id: assignment(("alpha", [2])),
            }
        )
        follower.talk.finish()
        leader.commit(topics=commits(talk, {"alpha": {0: 5, 2: 20}, "beta": {0: 0}}))
        self._remember(leader, "(leader)")
        self._remember(follower, "(follower)")

    def _empty(self) -> None:
        """A group whose member is gone."""
        member = Member(self._talk("empty"), "C")
        member.join()
        member.sync({member.id: assignment(("alpha", [0, 1, 2]))})
        member.commit()
        member.leave()

    def _consumers(self) -> None:
        """Two members of the consumer protocol that have settled."""
        talk = self._talk("consumers")
        first = Modern(talk, "member-one", rack_id="rack")
        second = Modern(talk, "member-two", instance="another-static-one")
        first.join()
        first.settle(1)
        second.join()
        for _ in range(2):
            first.settle(2)
            second.settle(2)
        first.settle(2)
        talk.wait_state("Stable")
        [(_, partitions)] = first.owned.items()
        first.commit(topics=commits(talk, {"alpha": dict.fromkeys(partitions, 3)}))
        self._remember(first, "(first)")
        self._remember(second, "(second)")

    def _connectors(self) -> None:
        member = Member(self._talk("connectors"), "D", protocol_type="connect", protocols=protocols(x=b"?"))
        member.join()
        member.sync({member.id: b"work"})
        self._remember(member, "(connector)")


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


@pytest.fixture(scope="module")
def sides() -> Iterator[list[Side]]:
    """Kafka and the broker that is compared with it, in the same state."""
    second = "kafka" if os.environ.get("OTTLA_TEST_BROKERS") == "kafka" else "ottla"
    with (
        peers.running("kafka", properties=PROPERTIES) as kafka,
        peers.running(second, properties=PROPERTIES) as other,
    ):
        made = [Side(kafka), Side(other)]
        for side in made:
            side.prepare()
        yield made
        for side in made:
            side.talk.__exit__()


def moment(hours_before_newest: float) -> str:
    seconds = BASE_TIME_MS / 1000 - hours_before_newest * 3600
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000")


LOOKING = [
    "--list",
    "--list --state",
    "--list --type",
    "--list --state stable,empty --type",
    "--list --type consumer --state",
    "--list --type classic",
    "--list --state assigning,dead",
    "--list --state nonsense",
    "--describe --all-groups",
    "--describe --all-groups --state",
    "--describe --all-groups --members",
    "--describe --all-groups --members --verbose",
    "--describe --all-groups --state --verbose",
    "--describe --all-groups --offsets --verbose",
    *(
        f"--describe --group {group} {what}"
        for group in ("classic", "consumers", "simple", "empty", "connectors", "missing")
        for what in ("", "--members --verbose", "--state --verbose")
    ),
    "--describe --group simple --group empty",
    "--reset-offsets --group simple --to-earliest",
    "--delete-offsets --group missing --topic alpha",
    "--delete-offsets --group classic --topic alpha",
    "--delete-offsets --group consumers --topic alpha:0",
    "--delete --group classic --group missing",
    "--delete --group consumers",
    "--reset-offsets --group classic --to-earliest --all-topics --execute",
    "--reset-offsets --group consumers --to-earliest --all-topics --execute",
    "--reset-offsets --group classic --to-earliest --all-topics --dry-run",
    "--reset-offsets --group missing --to-earliest --all-topics --dry-run",
    "--validate-regex a.*",
    "--validate-regex [",
]
WAYS = [
    "--to-earliest --all-topics",
    "--to-latest --all-topics",
    "--to-latest --topic alpha --topic beta:0",
    "--to-current --all-topics",
    "--to-offset 12 --topic alpha",
    "--to-offset 1000 --topic alpha:1",
    "--to-offset 3 --topic alpha:0,2",
    "--shift-by 3 --all-topics",
    "--shift-by -3 --all-topics",
    "--shift-by 1000 --topic beta",
    f"--to-datetime {moment(0)} --all-topics",
    f"--to-datetime {moment(7)} --all-topics",
    f"--to-datetime {moment(-5)} --topic alpha",
    f"--to-datetime {moment(1000)} --topic alpha",
    "--by-duration PT8H30M --all-topics",
    "--by-duration P30D --topic alpha",
    "--by-duration PT1S --topic alpha",
    "--to-offset 1 --topic missing",
    "--to-offset 1 --topic alpha:77",
    "--to-earliest",
    "--to-datetime yesterday --all-topics",
    "--by-duration soon --all-topics",
]


def assert_same(tools: Tools, sides: list[Side], main_class: str, command: str) -> None:
    kafka, other = (
        tools.run(main_class, "--bootstrap-server", side.broker.bootstrap, *command.split()).lines(side.masks)
        for side in sides
    )
    assert other == kafka


@pytest.mark.parametrize("command", LOOKING)
def test_looking_at_groups_prints_the_same(tools: Tools, sides: list[Side], command: str) -> None:
    assert_same(tools, sides, CONSUMER_GROUPS, command)


@pytest.mark.parametrize(
    "command",
    [
        "--list",
        "--list --consumer",
        "--list --group-type classic",
        "--list --group-type consumer",
        "--list --group-type share",
        "--list --protocol connect",
        "--list --share",
        "--list --group-type nonsense",
    ],
)
def test_listing_groups_of_every_kind_prints_the_same(tools: Tools, sides: list[Side], command: str) -> None:
    assert_same(tools, sides, GROUPS, command)


@pytest.mark.parametrize("way", WAYS)
def test_offsets_are_reset_the_same(tools: Tools, sides: list[Side], way: str) -> None:
    for action in ("--dry-run", "--dry-run --export", "--execute"):
        assert_same(tools, sides, CONSUMER_GROUPS, f"--reset-offsets --group simple {way} {action}")
    assert_same(tools, sides, CONSUMER_GROUPS, "--describe --group simple")


def test_offsets_are_reset_from_a_file_that_was_exported(
    tools: Tools, sides: list[Side], tmp_path: Path
) -> None:
    exported = tools.run(
        CONSUMER_GROUPS,
        *("--bootstrap-server", sides[0].broker.bootstrap),
        *("--reset-offsets", "--group", "spare-0", "--to-current", "--all-topics", "--dry-run", "--export"),
    )
    one = tmp_path / "one.csv"
    one.write_text(exported.out)
    several = tmp_path / "several.csv"
    several.write_text("spare-1,alpha,0,2\nspare-1,beta,0,1\nspare-2,alpha,1,4000\n")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("alpha;0;2\n")
    for scope, file in (
        ("--group spare-1", one),
        ("--group spare-1 --group spare-2", several),
        ("--group spare-1", wrong),
        ("--group spare-1", tmp_path / "missing.csv"),
    ):
        for action in ("--dry-run", "--execute", "--execute --export"):
            command = f"--reset-offsets {scope} --from-file {file} {action}"
            assert_same(tools, sides, CONSUMER_GROUPS, command)
    assert_same(tools, sides, CONSUMER_GROUPS, "--describe --group spare-1 --group spare-2")


def test_offsets_of_several_groups_are_reset(tools: Tools, sides: list[Side]) -> None:
    scope = "--group spare-3 --group spare-4 --all-topics"
    for action in ("--dry-run --export", "--execute"):
        assert_same(tools, sides, CONSUMER_GROUPS, f"--reset-offsets {scope} --to-offset 9 {action}")
    assert_same(tools, sides, CONSUMER_GROUPS, "--describe --group spare-3 --group spare-4 --group ahead")


def test_offsets_and_groups_are_deleted(tools: Tools, sides: list[Side]) -> None:
    for command in (
        "--delete-offsets --group spare-5 --topic alpha:0 --topic beta",
        "--delete-offsets --group spare-5 --topic alpha:0",
        "--delete-offsets --group spare-5 --topic missing",
        "--describe --group spare-5",
        "--delete --group spare-5 --group spare-0",
        "--delete --group spare-5",
        "--describe --group spare-5",
        "--list",
    ):
        assert_same(tools, sides, CONSUMER_GROUPS, command)
