"""Kafka's kafka-transactions, its dump tool and its formatter print the same about Ottla as about Kafka.

Our kafka-transactions prints what Kafka's prints, on both.

Both brokers are brought into the same state by the same raw requests; then every command runs on both. The
verification of transactional writes is off, so that transactions can be made that hang: records of a producer
that no coordinator knows, and records in a partition that was never added. With OTTLA_TEST_BROKERS=kafka two
Kafka nodes are compared, which proves the test itself.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest

from ottla.tools import transactions
from tests.interop import peers
from tests.interop.clients.same.batches import BASE_TIME_MS
from tests.interop.groups_raw.brokers import wait_for_coordinator
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.transactions_tool.producers import Producer

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
UNKNOWN_PRODUCER_ID = 4_711
PROPERTIES = {
    "auto.create.topics.enable": "false",
    "transaction.partition.verification.enable": "false",
}
_LOGGED = re.compile(r"^\| offset: .* key: (?P<key>\{.*\}) payload: (?P<value>\{.*\})$")
_TIME = re.compile(r"\b1\d{12}\b")
_DURATION = re.compile(r"\((time|base time)\) \d+(?= |$)")


class Side:
    """One broker in the agreed state. `hanging` are start offsets in beta-0."""

    def __init__(self, broker: peers.BrokerProcess) -> None:
        self.broker = broker
        self.masks = {broker.bootstrap: "(listener)", str(broker.data): "(data)"}
        self.talk = Talk(broker, 1, {})
        self.hanging: list[int] = []

    def prepare(self) -> None:
        wait_for_coordinator(self.broker)
        self._protocol_2()
        self._protocol_1()
        self._hanging()

    def _producer(self, name: str, *, is_new: bool = True) -> Producer:
        return Producer(self.talk, name, is_new=is_new).init()

    def _protocol_2(self) -> None:
        committed = self._producer("committed")
        for _ in range(2):
            committed.write("alpha", 0)
            committed.write("beta", 1)
            committed.end(committed=True)
        aborted = self._producer("aborted")
        aborted.write("alpha", 0, 2)
        self._producer("between").write("alpha", 0)
        aborted.write("alpha", 1)
        aborted.end(committed=False)
        Producer(self.talk, "between").init().wait_settled()  # the one before it was aborted by this one
        still_open = self._producer("open")
        still_open.write("alpha", 2)
        still_open.write("alpha", 1)
        still_open.write("beta", 1)
        still_open.commit_offset("some-group", "alpha", 2)
        self._producer("idle")

    def _protocol_1(self) -> None:
        old = self._producer("old", is_new=False)
        for committed in (True, False):
            old.add(alpha=[0, 2])
            old.write("alpha", 0)
            old.commit_offset("another-group", "alpha", 1)
            old.end(committed=committed)
        old.add(gamma=[0])
        old.write("gamma", 0)

    def _hanging(self) -> None:
        late = self._producer("late", is_new=False)
        self.hanging.append(late.write("beta", 0))
        unknown = Producer(self.talk, "unknown", is_new=False)
        unknown.producer_id, unknown.epoch = UNKNOWN_PRODUCER_ID, 3
        self.hanging.append(unknown.write("beta", 0))


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
        assert made[0].hanging == made[1].hanging
        yield made
        for side in made:
            side.talk.__exit__()


def masked(lines: list[str]) -> list[str]:
    """Without what the clock says: moments other than those of the records, and how long ago they were."""
    shown = []
    for line in lines:
        line = re.sub(rf"\b{BASE_TIME_MS // 60_000}\d+\b", "(base time)", line)
        shown.append(_TIME.sub("(time)", line))
    return shown


def printed(tools: Tools, side: Side, main_class: str, command: str) -> list[str]:
    return masked(tools.run(main_class, *command.split()).lines(side.masks))


def assert_same(tools: Tools, sides: list[Side], command: str) -> list[str]:
    has_duration = command.startswith(("describe ", "find-hanging"))
    kafka, other = (
        [
            _DURATION.sub(r"(\1) (duration)", line) if has_duration else line
            for line in printed(
                tools, side, TRANSACTIONS, f"--bootstrap-server {side.broker.bootstrap} {command}"
            )
        ]
        for side in sides
    )
    assert other == kafka
    return kafka


LOOKING = [
    "list",
    "list --duration-filter -1",
    "list --duration-filter 0",
    "list --duration-filter 100000000",
    "list --duration-filter soon",
    "list --transactional-id-pattern .*",
    "list --transactional-id-pattern o.*",
    "list --transactional-id-pattern o",
    "list --transactional-id-pattern (open|idle)",
    "list --transactional-id-pattern nothing",
    "list --transactional-id-pattern [",
    "list --transactional-id-pattern o.* --duration-filter 0",
    *(
        f"describe --transactional-id {name}"
        for name in ("committed", "aborted", "between", "open", "idle", "old", "late", "unknown")
    ),
    "describe",
    *(
        f"describe-producers --topic {topic} --partition {index}"
        for topic, count in (("alpha", 3), ("beta", 2), ("gamma", 1), ("__consumer_offsets", 1))
        for index in range(count)
    ),
    "describe-producers --topic __transaction_state --partition 0",
    "describe-producers --topic alpha --partition 0 --broker-id 1",
    "describe-producers --topic alpha",
    "find-hanging",
    "find-hanging --partition 0",
    "find-hanging --broker-id 1",
    "find-hanging --topic beta",
    "find-hanging --topic beta --partition 0 --broker-id 1",
    "find-hanging --topic beta --max-transaction-timeout 1000",
    "find-hanging --topic alpha",
    "find-hanging --topic gamma --partition 0",
    "abort --topic beta --partition 0",
    "abort --topic beta --partition 0 --start-offset 999",
    "abort --topic beta --partition 0 --producer-id 1",
    "abort --topic beta --partition 0 --producer-id 1 --producer-epoch 0",
    "nonsense",
]


@pytest.mark.parametrize("command", LOOKING)
def test_looking_at_transactions_prints_the_same(tools: Tools, sides: list[Side], command: str) -> None:
    kafkas = assert_same(tools, sides, command)
    for side in sides:
        assert shown_by_ours(side, command) == without_errors(kafkas)


def shown_by_ours(side: Side, command: str) -> list[str]:
    """What our tool prints on standard output, and whether it says something on standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = transactions.main(["--bootstrap-server", side.broker.bootstrap, *command.split()])
    assert "Traceback" not in err.getvalue()
    lines = masked(Ran(code, out.getvalue(), err.getvalue()).lines(side.masks))
    if command.startswith(("describe ", "find-hanging")):
        lines = [_DURATION.sub(r"(\1) (duration)", line) for line in lines]
    return without_errors(lines)


def without_errors(lines: list[str]) -> list[str]:
    """Sentences of usage, and what a client says of an error code, are each tool's own."""
    last = len(lines) - 1 - lines[::-1].index("---")
    return [*lines[: last + 1], "(an error)" if lines[last + 1 :] else ""]


def test_hanging_transactions_are_found_and_aborted(tools: Tools, sides: list[Side]) -> None:
    known, unknown = sides[0].hanging
    found = assert_same(tools, sides, "find-hanging --broker-id 1")
    assert sum(line.startswith("beta 0 ") for line in found) == 2
    stable = [_stable_offset(side) for side in sides]
    assert stable == [known, known]
    # An epoch that is behind is refused: so is a coordinator's.
    assert_same(
        tools,
        sides,
        f"abort --topic beta --partition 0 --producer-id {UNKNOWN_PRODUCER_ID} "
        "--producer-epoch 2 --coordinator-epoch 0",
    )
    assert_same(tools, sides, f"abort --topic beta --partition 0 --start-offset {known}")
    assert_same(tools, sides, f"abort --topic beta --partition 0 --start-offset {known}")
    assert [_stable_offset(side) for side in sides] == [unknown, unknown]
    assert_same(
        tools,
        sides,
        f"abort --topic beta --partition 0 --producer-id {UNKNOWN_PRODUCER_ID} "
        "--producer-epoch 3 --coordinator-epoch -1",
    )
    found = assert_same(tools, sides, "find-hanging --broker-id 1")
    assert not any(line.startswith("beta 0 ") for line in found)
    assert_same(tools, sides, "describe-producers --topic beta --partition 0")
    first, second = (_stable_offset(side) for side in sides)
    assert first == second > unknown


def _stable_offset(side: Side) -> int:
    """The offset up to which somebody who reads what is committed can read."""
    rows = [{"partition_index": 0, "timestamp": -1}]
    topics = [{"name": "beta", "partitions": rows}]
    response = side.talk.quietly("ListOffsets", 7, replica_id=-1, isolation_level=1, topics=topics)
    return int(response.topics[0].partitions[0].offset)


def test_an_open_transaction_is_terminated(tools: Tools, sides: list[Side]) -> None:
    for name in ("open", "idle", "nobody"):
        assert_same(tools, sides, f"forceTerminateTransaction --transactionalId {name}")
    for side in sides:
        Producer(side.talk, "open").wait_settled()
    for command in (
        "list",
        "describe --transactional-id open",
        "describe-producers --topic alpha --partition 2",
    ):
        assert_same(tools, sides, command)


def test_our_tool_ends_transactions(tools: Tools, sides: list[Side]) -> None:
    for side in sides:
        unknown = Producer(side.talk, "unknown", is_new=False)
        unknown.producer_id, unknown.epoch = UNKNOWN_PRODUCER_ID + 1, 0
        start = unknown.write("beta", 0)
        abort = f"abort --topic beta --partition 0 --start-offset {start}"
        assert any(line.startswith("beta 0 ") for line in shown_by_ours(side, "find-hanging --broker-id 1"))
        assert shown_by_ours(side, abort)[0] == "exit 0"
        assert not any(
            line.startswith("beta 0 ") for line in shown_by_ours(side, "find-hanging --topic beta")
        )
        assert shown_by_ours(side, abort)[0] == "exit 1"
        assert shown_by_ours(side, "forceTerminateTransaction --transactionalId old")[0] == "exit 0"
        Producer(side.talk, "old").wait_settled()
    for command in ("describe --transactional-id old", "describe-producers --topic gamma --partition 0"):
        assert_same(tools, sides, command)


def test_the_files_of_partitions_dump_the_same(tools: Tools, sides: list[Side]) -> None:
    """Data with its markers, and the index of aborted transactions."""
    for partition in ("alpha-0", "alpha-1", "beta-0", "gamma-0"):
        for suffix, options in (("log", "--deep-iteration --print-data-log"), ("txnindex", "")):
            name = f"{partition}/00000000000000000000.{suffix}"
            kafka, other = (
                _dumped(tools, side, f"{options} --files {side.broker.data / name}") for side in sides
            )
            assert other == kafka, name


def _dumped(tools: Tools, side: Side, command: str) -> list[str]:
    """The lines in their order, without what the clock and so the sums are made of."""
    lines = masked(_in_order(tools.run(DUMP, *command.split()), side))
    return [re.sub(r"\bcrc: \d+", "crc: (sum)", line) for line in lines]


def _in_order(ran: Ran, side: Side) -> list[str]:
    lines = [f"exit {ran.exit}"]
    for line in ran.out.splitlines():
        for found, name in side.masks.items():
            line = line.replace(found, name)
        lines.append(line)
    return lines


def test_the_transaction_log_dumps_the_same(tools: Tools, sides: list[Side]) -> None:
    """Its records in their order. How many share a batch is a broker's own affair."""
    kafka, other = (
        [
            (json.loads(found["key"]), _without_order(json.loads(found["value"])))
            for found in map(_LOGGED.search, _in_order(tools.run(DUMP, *_decoded(side)), side))
            if found is not None
        ]
        for side in sides
    )
    assert len(kafka) > 20
    assert other == kafka


def test_the_formatter_shows_the_transaction_log_the_same(tools: Tools, sides: list[Side]) -> None:
    kafka, other = (
        list(
            map(
                _without_order,
                _objects(
                    tools.run(
                        CONSOLE_CONSUMER,
                        *("--bootstrap-server", side.broker.bootstrap, "--topic", "__transaction_state"),
                        *("--partition", "0", "--offset", "earliest", "--timeout-ms", "8000"),
                        *("--formatter", FORMATTER),
                    ).out
                ),
            )
        )
        for side in sides
    )
    assert len(kafka) > 20
    assert other == kafka


def _decoded(side: Side) -> list[str]:
    log = side.broker.data / "__transaction_state-0" / "00000000000000000000.log"
    return ["--transaction-log-decoder", "--files", str(log)]


def _objects(text: str) -> Iterator[Any]:
    """JSON objects that follow each other without anything between them."""
    decoder, position = json.JSONDecoder(), 0
    text = text.strip()
    while position < len(text):
        found, position = decoder.raw_decode(text, position)
        yield found


def _without_order(shown: Any) -> Any:
    """A record of the transaction log: its partitions are a set, and its times are the clock's."""
    if isinstance(shown, dict):
        return {
            name: "(time)"
            if name.endswith("TimestampMs") and value not in (-1, "-1")
            else _without_order(value)
            for name, value in shown.items()
        }
    if isinstance(shown, list):
        return sorted(map(_without_order, shown), key=json.dumps)
    return shown
