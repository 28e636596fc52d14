"""What one broker wrote about groups the other reads: the same records, and the groups live on.

With OTTLA_TEST_BROKERS=kafka two Kafka nodes are compared and hand over, which proves the tests themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import peers
from tests.interop.groups_disk.group_states import Lives
from tests.interop.groups_raw.brokers import PROPERTIES
from tests.interop.groups_tool.runner import CONSUMER_GROUPS, Tools

# A killed broker registers again once its old session has run out; Kafka's default is 9 s.
SETTINGS = {**PROPERTIES, "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
OTHER = "kafka" if os.environ.get("OTTLA_TEST_BROKERS") == "kafka" else "ottla"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TARGET_OF_MEMBER = "7"
FORMATTERS = ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter")
_RECORD = re.compile(r"\bkey: (\{.*?\})(?: payload: (.*))?$")
_TIMES = {"commitTimestamp", "currentStateTimestamp", "assignmentTimestamp", "timestamp", "expireTimestamp"}
# The hash goes over the ids of topics, and a regular expression keeps the version of the metadata that it was
# resolved with: both differ between two clusters. (A record's own version is a text, and is compared.)
_VARIES = _TIMES | {"metadataHash", "version"}


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


def masked(value: Any, lives: Lives) -> Any:
    """A JSON value without times and made-up ids."""
    if isinstance(value, dict):
        return {
            key: "(varies)"
            if key in _VARIES and isinstance(inner, int) and inner not in (-1, 0)
            else masked(inner, lives)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return sorted((masked(item, lives) for item in value), key=lambda item: json.dumps(item))
    if isinstance(value, str):
        for found, name in lives.names.items():
            value = value.replace(found, f"({name})")
        return lives.talk.masks.text(value)
    return value


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def values_in(text: str) -> Iterator[Any]:
    """JSON values that stand one after the other."""
    place, decoder = 0, json.JSONDecoder()
    while place < len(text.rstrip()):
        value, place = decoder.raw_decode(text, place)
        yield value


def dumped(tools: Tools, data: Path, lives: Lives) -> list[tuple[Any, Any]]:
    """Every record of the groups' log, as Kafka's dump tool decodes it."""
    files = ",".join(map(str, sorted((data / "__consumer_offsets-0").glob("*.log"))))
    ran = tools.run(DUMP, "--offsets-decoder", "--files", files)
    assert ran.exit == 0, ran
    rows = []
    for line in ran.out.splitlines():
        found = _RECORD.search(line)
        if found is not None:
            rows.append(tuple(masked(parsed(text), lives) for text in _split(line)))
    assert rows, ran
    return [row for _, run in itertools.groupby(rows, _run_of) for row in sorted(run, key=json.dumps)]


def _run_of(row: tuple[Any, Any]) -> object:
    """Records beside each other that may stand in any order: targets of one assignment, and tombstones."""
    key, value = row
    kind, group = key["type"], key["data"].get("groupId", key["data"].get("group"))
    return (kind, group) if kind == TARGET_OF_MEMBER or value in (None, "<DELETE>") else json.dumps(row)


def _split(line: str) -> tuple[str, str]:
    key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
    return key, payload


def formatted(tools: Tools, broker: peers.BrokerProcess, lives: Lives) -> dict[str, list[Any]]:
    """What Kafka's formatters make of the groups' topic as a consumer reads it."""
    asked = [{"partition_index": 0, "timestamp": -1}]
    topics = [{"name": "__consumer_offsets", "partitions": asked}]
    end = lives.talk.quietly("ListOffsets", 7, replica_id=-1, topics=topics).topics[0].partitions[0].offset
    shown = {}
    for formatter in FORMATTERS:
        ran = tools.run(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", broker.bootstrap, "--topic", "__consumer_offsets", "--partition", "0"),
            *("--offset", "earliest", "--max-messages", str(end), "--timeout-ms", "20000"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        )
        shown[formatter] = [masked(value, lives) for value in values_in(ran.out)]
        assert shown[formatter], ran
    return shown


def test_the_same_steps_leave_the_same_records(tools: Tools) -> None:
    found = []
    formats = []
    for kind in ("kafka", OTHER):
        with peers.running(kind, properties=SETTINGS) as broker:
            lives = Lives(broker)
            with contextlib.closing(lives):
                lives.begin(broker)
                formats.append(formatted(tools, broker, lives))
                broker.stop()
                found.append(dumped(tools, broker.data, lives))
    kafka, other = found
    assert other == kafka
    assert formats[1] == formats[0]


@pytest.mark.parametrize("kinds", [("kafka", OTHER), (OTHER, "kafka")], ids="-to-".join)
def test_groups_live_on_when_the_directory_changes_hands(
    tools: Tools, tmp_path: Path, kinds: tuple[str, str]
) -> None:
    """After a clean stop the other broker has the directory; after a kill the first has it back."""
    ports = {"port": peers.free_port(), "controller_port": peers.free_port()}
    with contextlib.ExitStack() as stack:

        def start(kind: str) -> peers.BrokerProcess:
            return stack.enter_context(peers.running(kind, tmp_path, properties=SETTINGS, **ports))

        first = start(kinds[0])
        lives = stack.enter_context(contextlib.closing(Lives(first)))
        lives.begin(first)
        before, printed = lives.seen(), described(tools, first)
        first.stop()
        second = start(kinds[1])
        lives.move_to(second)
        wait_loaded(lives)
        assert lives.seen() == before
        assert described(tools, second) == printed
        lives.go_on()
        after = lives.seen()
        second.kill()
        lives.move_to(start(kinds[0]))
        wait_loaded(lives)
        assert lives.seen() == after
        lives.go_on()


def wait_loaded(lives: Lives) -> None:
    def loaded() -> bool:
        fields = {"group_id": "any", "generation_id": 0, "member_id": "x"}
        return bool(lives.talk.hears("Heartbeat", **fields).error_code == 25)

    peers.wait_until(loaded, 30, "the coordinator to load its groups")


def described(tools: Tools, broker: peers.BrokerProcess) -> list[list[str]]:
    return [
        tools.run(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap, *command).lines({})
        for command in (
            ("--list", "--state", "--type"),
            ("--describe", "--all-groups", "--members", "--verbose"),
            ("--describe", "--all-groups", "--offsets", "--verbose"),
        )
    ]
