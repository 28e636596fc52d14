"""Our tools that measure beside Kafka's, on Kafka and on Ottla: the same lines with numbers of their own."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ottla.tools import (
    consumer_perf_test,
    e2e_latency,
    producer_perf_test,
    verifiable_consumer,
    verifiable_producer,
)
from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.tools_same.same import Tool, ours, theirs

PRODUCER = Tool("org.apache.kafka.tools.ProducerPerformance", producer_perf_test.main)
CONSUMER = Tool("org.apache.kafka.tools.ConsumerPerformance", consumer_perf_test.main)
LATENCY = Tool("org.apache.kafka.tools.EndToEndLatency", e2e_latency.main)
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?|NaN|-?Infinity")

SENDER = Tool("org.apache.kafka.tools.VerifiableProducer", verifiable_producer.main)
READER = Tool("org.apache.kafka.tools.VerifiableConsumer", verifiable_consumer.main)
SECONDS_MAX = 150
VERIFIED = [
    (SENDER, "--max-messages 4 --repeating-keys 3 --value-prefix 7"),
    (READER, "--group-id verified-% --max-messages 3 --verbose"),
]

SENT = "--bootstrap-server BROKER --topic speed-% --num-records 40 --throughput -1"
SAME = [
    (PRODUCER, f"{SENT} --record-size 20"),
    (PRODUCER, f"{SENT} --payload-monotonic --warmup-records 3"),
    (PRODUCER, f"{SENT} --payload-file PAYLOADS --payload-delimiter ;"),
    (PRODUCER, f"{SENT} --record-size 5 --transactional-id tx-% --transaction-duration-ms 5"),
    (
        PRODUCER,
        "--topic speed-% --num-records 4 --throughput 1000 --record-size 5 "
        "--producer-props bootstrap.servers=BROKER linger.ms=0 --producer.config CLIENT",
    ),
    (CONSUMER, "--bootstrap-server BROKER --topic speed-% --num-records 30"),
    (
        CONSUMER,
        "--bootstrap-server BROKER --topic speed-% --messages 30 --consumer.config CLIENT --hide-header",
    ),
    (
        CONSUMER,
        "--bootstrap-server BROKER --include speed-% --num-records 30 --date-format HH:mm --from-latest "
        "--timeout 200",
    ),
    (CONSUMER, "--bootstrap-server BROKER --topic speed-% --num-records 30 --show-detailed-stats"),
    (LATENCY, "--bootstrap-server BROKER --topic late-% --num-records 3 --producer-acks all --record-size 9"),
    (LATENCY, "BROKER late-% 2 1 8"),
]
REFUSED = [
    (PRODUCER, "--topic t"),
    (PRODUCER, f"{SENT} --record-size 0"),
    (PRODUCER, f"{SENT}"),
    (PRODUCER, f"{SENT} --record-size 1 --payload-monotonic"),
    (PRODUCER, f"{SENT} --record-size 1 --warmup-records 40"),
    (PRODUCER, f"{SENT} --record-size 1 --transaction-duration-ms 0"),
    (PRODUCER, f"{SENT} --record-size 1 --reporting-interval 0"),
    (PRODUCER, f"{SENT} --record-size 1 --command-property a=1 --producer-props a=1"),
    (PRODUCER, f"{SENT} --record-size 1 --nothing"),
    (PRODUCER, "--topic t --num-records 1 --throughput 1 --record-size 1"),
    (CONSUMER, ""),
    (CONSUMER, "--bootstrap-server BROKER --topic t"),
    (CONSUMER, "--bootstrap-server BROKER --num-records 3"),
    (CONSUMER, "--bootstrap-server BROKER --topic t --messages 3 --num-records 3"),
    (CONSUMER, "--bootstrap-server BROKER --topic t --num-records many"),
    (LATENCY, ""),
    (LATENCY, "one two"),
    (LATENCY, "BROKER late-% 2 0 8"),
    (LATENCY, "BROKER late-% 0 1 8"),
    (LATENCY, "--bootstrap-server BROKER --topic t --num-records 1 --producer-acks 1 --record-size -1"),
    (LATENCY, "--bootstrap-server BROKER --topic t --num-records 1 --producer-acks 1"),
]


def filled(line: str, servers: str, directory: Path) -> list[str]:
    for name, text in {"CLIENT": "client.id=mine\n", "PAYLOADS": "one;two;three"}.items():
        (directory / name).write_text(text)
        line = line.replace(name, str(directory / name))
    return line.replace("BROKER", servers).split()


def masked(out: str) -> list[str]:
    """Lines without their numbers."""
    return [_NUMBER.sub("#", line).replace("java", "%").replace("ours", "%") for line in out.splitlines()]


def test_both_print_the_same_lines(tools: Tools, broker: peers.BrokerProcess, tmp_path: Path) -> None:
    different = []
    for tool, line in SAME:
        arguments = filled(line, broker.bootstrap, tmp_path)
        mine, kafkas = ours(tool, arguments), theirs(tools, tool, arguments)
        if (mine.exit, masked(mine.out)) != (kafkas.exit, masked(kafkas.out)) or mine.exit:
            different.append(f"{line}\n  ours:   {mine}\n  theirs: {kafkas}")
    assert not different, "\n".join(different)


@pytest.mark.parametrize(("tool", "line"), REFUSED)
def test_both_refuse_the_same(tools: Tools, tmp_path: Path, tool: Tool, line: str) -> None:
    arguments = filled(line, "127.0.0.1:1", tmp_path)
    mine, kafkas = ours(tool, arguments), theirs(tools, tool, arguments)
    assert mine.exit == kafkas.exit == 1
    assert mine.err
    assert "Traceback" not in mine.err


def events(out: str) -> list[dict[str, Any]]:
    """Lines of JSON without what is each run's own."""
    found = [json.loads(line.replace("java", "%").replace("ours", "%")) for line in out.splitlines()]
    return [{**one, **dict.fromkeys(one.keys() & {"timestamp", "avg_throughput"}, 0)} for one in found]


def test_both_tell_the_same_events(broker: peers.BrokerProcess) -> None:
    """Kafka's tell the last ones when their JVM ends, so each has one of its own."""
    for tool, line in VERIFIED:
        arguments = ["--bootstrap-server", broker.bootstrap, "--topic", "verified-%", *line.split()]
        mine = ours(tool, arguments)
        words = [word.replace("%", "java") for word in arguments]
        kafkas = subprocess.run(
            peers.java_command(tool.main_class, *words, log_level="error"),
            capture_output=True,
            timeout=SECONDS_MAX,
            check=True,
            text=True,
        )
        assert mine.exit == 0
        assert sorted(events(mine.out), key=str) == sorted(events(kafkas.stdout), key=str)
