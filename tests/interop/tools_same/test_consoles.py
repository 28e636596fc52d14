"""Our kafka-console-producer and kafka-console-consumer beside Kafka's, on Kafka and on Ottla."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ottla.client.admin import Admin, NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.client.values import TopicPartition
from ottla.tools import console_consumer, console_producer
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.tools_same.same import OURS, THEIRS, Tool, ours, theirs

PRODUCER = Tool("org.apache.kafka.tools.ConsoleProducer", console_producer.main)
CONSUMER = Tool("org.apache.kafka.tools.consumer.ConsoleConsumer", console_consumer.main)
FORMATTERS = "org.apache.kafka.tools.consumer"
SERIALIZATION = "org.apache.kafka.common.serialization"
NOWHERE = "127.0.0.1:1"
PATIENCE_SECONDS = 60
TIME_MS = 1_700_000_000_000
Sent = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

# Lines that are sent, by the words on the command line.
SENT = {
    "": "one\ntwo\r\n\nthrée",
    "--sync --timeout 0": "a\nb\n",
    "--sync --timeout 0 --compression-codec": "a\nb\n",
    "--compression-codec=zstd --batch-size 100 --timeout 0 --request-required-acks 1": "a\nb\n",
    "--max-partition-memory-bytes 2000 --retry-backoff-ms 5 --message-send-max-retries 1": "a\n",
    "--max-memory-bytes 100000 --request-timeout-ms 9999 --socket-buffer-size 9999": "a\n",
    "--property parse.key=true": "k\tv\n\tempty\nk2\tv\tw\n",
    "--reader-property parse.key=true --reader-property key.separator=:": "k:v\nk:v:w\n",
    "--reader-property parse.key=true --reader-property ignore.error=true": "k\tv\nnothing\n",
    "--reader-property parse.headers=TRUE": "a:1,b:2\tv\na:1\tx\n",
    "--reader-property parse.headers=true --reader-property parse.key=true": "a:1,b:\tk\tv\n",
    "--reader-property parse.headers=true --reader-property headers.delimiter=| "
    "--reader-property headers.separator=; --reader-property headers.key.separator==": "a=1;b=2;|v\n",
    "--reader-property parse.headers=true --reader-property ignore.error=true": "a\tv\nb\n",
    "--reader-property parse.headers=true --reader-property parse.key=true "
    "--reader-property null.marker=NULL": "NULL\tNULL\tNULL\na:NULL\tk\tNULL\n",
    "--reader-config READER": "k=v\n",
    "--producer-property client.id=me --producer.config CLIENT": "a\n",
    "--command-property linger.ms=1 --command-config CLIENT": "a\n",
    "--reader-property parse.key=true --sync --timeout 0": "k\tv\nnothing\nk\tw\n",
    "--reader-property parse.headers=true --sync --timeout 0": "a\tv\n",
    "--reader-property parse.headers=true --reader-property null.marker=N --sync --timeout 0": "N:1\tv\n",
    "--reader-property headers.delimiter=,": "v\n",
    "--reader-property null.marker=,": "v\n",
    "--reader-property key.separator=x --reader-property null.marker=x": "v\n",
}
REFUSED_TO_SEND = [
    "",
    "--topic t",
    "--bootstrap-server BROKER",
    "--bootstrap-server localhost --topic t",
    "--bootstrap-server BROKER --topic t --nothing",
    "--bootstrap-server BROKER --topic t --batch-size many",
    "--bootstrap-server BROKER --topic t --compression-codec rar",
    "--bootstrap-server BROKER --topic t --line-reader my.Reader",
    "--bootstrap-server BROKER --topic t --producer.config CLIENT --command-config CLIENT",
    "--bootstrap-server BROKER --topic t --producer-property a=1 --command-property a=1",
    "--bootstrap-server BROKER --topic t --property a=1 --reader-property a=1",
    "--bootstrap-server BROKER --topic t --command-config /nowhere",
    "--bootstrap-server BROKER --topic t --reader-config /nowhere",
    "--bootstrap-server BROKER --topic t --command-property acks=9",
]

READ = [
    "--from-beginning --max-messages 5",
    "--offset earliest --max-messages 2",
    "--offset 3 --max-messages 2",
    "--offset 1 --max-messages 1 --isolation-level read_committed",
    "--from-beginning --max-messages 0",
    "--from-beginning --max-messages 5 --property print.key=true",
    "--from-beginning --max-messages 5 --formatter-property print.key=true "
    "--formatter-property print.timestamp=true --formatter-property print.offset=true "
    "--formatter-property print.partition=true --formatter-property print.headers=true "
    "--formatter-property print.epoch=true --formatter-property print.delivery=true",
    "--from-beginning --max-messages 5 --formatter-property print.value=false",
    "--from-beginning --max-messages 5 --formatter-property print.value=false "
    "--formatter-property print.offset=true --formatter-property line.separator=;",
    "--from-beginning --max-messages 5 --formatter-property print.key=true "
    "--formatter-property print.headers=true --formatter-property key.separator=| "
    "--formatter-property headers.separator=+ --formatter-property null.literal=(none)",
    "--from-beginning --max-messages 5 --formatter-config FORMATTER",
    "--from-beginning --max-messages 5 --formatter-config FORMATTER --formatter-property key.separator=#",
    f"--from-beginning --max-messages 5 --value-deserializer {SERIALIZATION}.StringDeserializer",
    f"--offset 4 --max-messages 1 --value-deserializer {SERIALIZATION}.LongDeserializer",
    f"--offset 4 --max-messages 1 --formatter-property value.deserializer={SERIALIZATION}.DoubleDeserializer",
    f"--from-beginning --max-messages 5 --skip-message-on-error "
    f"--formatter-property value.deserializer={SERIALIZATION}.LongDeserializer",
    f"--from-beginning --max-messages 5 "
    f"--formatter-property value.deserializer={SERIALIZATION}.LongDeserializer",
    f"--offset 3 --max-messages 1 --formatter-property print.headers=true "
    f"--formatter-property headers.deserializer={SERIALIZATION}.StringDeserializer",
    f"--from-beginning --max-messages 5 --formatter {FORMATTERS}.NoOpMessageFormatter",
    f"--from-beginning --max-messages 5 --formatter {FORMATTERS}.LoggingMessageFormatter",
    "--from-beginning --max-messages 2 --consumer-property client.id=me --consumer.config CLIENT",
    "--from-beginning --max-messages 2 --command-property fetch.max.wait.ms=10 --command-config CLIENT",
    "--timeout-ms 400",
]
REFUSED_TO_READ = [
    "",
    "--bootstrap-server BROKER",
    "--topic t",
    "--bootstrap-server BROKER --topic t --include t",
    "--bootstrap-server BROKER --include t --partition 0",
    "--bootstrap-server BROKER --topic t --offset 3",
    "--bootstrap-server BROKER --topic t --partition 0 --offset -3",
    "--bootstrap-server BROKER --topic t --partition 0 --offset soon",
    "--bootstrap-server BROKER --topic t --partition zero",
    "--bootstrap-server BROKER --topic t --partition 0 --offset 3 --from-beginning",
    "--bootstrap-server BROKER --topic t --partition 0 --group g",
    "--bootstrap-server BROKER --topic t --group g --command-property group.id=h",
    "--bootstrap-server BROKER --topic t --consumer.config CLIENT --command-config CLIENT",
    "--bootstrap-server BROKER --topic t --consumer-property a=1 --command-property a=1",
    "--bootstrap-server BROKER --topic t --property a=1 --formatter-property a=1",
    "--bootstrap-server BROKER --topic t --formatter my.Formatter",
    "--bootstrap-server BROKER --topic t --from-beginning --command-property auto.offset.reset=latest",
    "--bootstrap-server BROKER --topic t --isolation-level read_nothing",
    "--bootstrap-server BROKER --topic t --command-config /nowhere",
    "--bootstrap-server BROKER --topic t --nothing",
]
FILES = {
    "CLIENT": "client.id=mine\n",
    "READER": "parse.key=true\nkey.separator=\\=\n",
    "FORMATTER": "print.key=true\nkey.separator=:\n",
}


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker with a topic of all sorts of records, whose internal topics have one partition each."""
    few = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with peers.running(request.param, properties=few) as broker:
        with Admin(broker.bootstrap, default_api_timeout_ms=120_000) as admin:
            names = ("mixed", f"made-{OURS}", f"made-{THEIRS}")
            # The records are old: they would soon be deleted.
            admin.create_topics(
                [NewTopic(name, 1, 1, configs={"retention.ms": "-1"}) for name in names]
            ).all()
        with Producer(broker.bootstrap) as producer:
            producer.send("mixed", b"first", timestamp=TIME_MS)
            producer.send("mixed", b"second", b"key", timestamp=TIME_MS + 1)
            producer.send("mixed", None, b"gone", timestamp=TIME_MS + 2)
            headers = [("a", b"1"), ("b", None), ("a", b"")]
            producer.send("mixed", "thrée".encode(), b"", headers, timestamp=TIME_MS + 3)
            producer.send("mixed", bytes(7) + b"*", timestamp=TIME_MS + 4)
        yield broker.bootstrap


@pytest.fixture(scope="module")
def reader(servers: str) -> Iterator[Consumer[bytes | None, bytes | None]]:
    with Consumer(servers, fetch_max_wait_ms=10) as consumer:
        consumer.assign([(f"made-{side}", 0) for side in (OURS, THEIRS)])
        yield consumer


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """What stands for the words in capitals."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return {"BROKER": NOWHERE, **{name: str(tmp_path / name) for name in FILES}}


def filled(line: str, places: dict[str, str]) -> list[str]:
    return [places.get(word, word) for word in line.split()]


def both(tools: Tools, tool: Tool, arguments: Sequence[str]) -> tuple[Ran, Ran]:
    mine = ours(tool, arguments)
    assert "Traceback" not in mine.err, mine.err
    return theirs(tools, tool, arguments), mine


# Sending


def end_of(reader: Consumer[bytes | None, bytes | None], topic: str) -> int:
    partition = TopicPartition(topic, 0)
    return reader.end_offsets([partition])[partition]


def sent_since(reader: Consumer[bytes | None, bytes | None], topic: str, offset: int) -> list[Sent]:
    """The records from an offset to the end."""
    partition, end = TopicPartition(topic, 0), end_of(reader, topic)
    reader.resume()
    reader.pause([one for one in reader.assignment if one != partition])
    reader.seek(partition, offset)
    found: list[Sent] = []
    while len(found) < end - offset:
        records = reader.poll(PATIENCE_SECONDS)
        assert records, f"{len(found)} of {end - offset} records came"
        found += [(record.key, record.value, record.headers) for record in records]
    return found


@pytest.mark.parametrize("line", SENT)
def test_both_send_the_same_records(
    tools: Tools,
    servers: str,
    reader: Consumer[bytes | None, bytes | None],
    places: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
) -> None:
    before = {side: end_of(reader, f"made-{side}") for side in (OURS, THEIRS)}
    arguments = ["--bootstrap-server", servers, "--topic", "made-%", *filled(line, places)]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SENT[line].encode())))

    mine = ours(PRODUCER, arguments)
    words = [argument.replace("%", THEIRS) for argument in arguments]
    kafkas = tools.run(PRODUCER.main_class, *words, stdin=SENT[line])

    assert (mine.exit, mine.out) == (kafkas.exit, kafkas.out)
    assert mine.err.splitlines()[:1] == kafkas.err.splitlines()[:1]
    mine_sent, kafkas_sent = (sent_since(reader, f"made-{side}", before[side]) for side in (OURS, THEIRS))
    assert mine_sent == kafkas_sent


@pytest.mark.parametrize("line", REFUSED_TO_SEND)
def test_both_refuse_the_same_lines_to_send(tools: Tools, places: dict[str, str], line: str) -> None:
    kafkas, mine = both(tools, PRODUCER, filled(line, places))
    assert mine.exit == kafkas.exit == 1
    assert mine.err
    assert kafkas.err
    assert mine.out == kafkas.out


# Reading


def told(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if line.startswith("Processed")]


@pytest.mark.parametrize("line", READ)
def test_both_print_the_same_records(tools: Tools, servers: str, places: dict[str, str], line: str) -> None:
    arguments = ["--bootstrap-server", servers, "--topic", "mixed", "--partition", "0"]
    kafkas, mine = both(tools, CONSUMER, [*arguments, *filled(line, places)])
    assert (mine.exit, mine.out, told(mine)) == (kafkas.exit, kafkas.out, told(kafkas))
    assert len(told(mine)) == 1


def test_both_commit_what_they_print(tools: Tools, servers: str) -> None:
    arguments = ["--bootstrap-server", servers, "--topic", "mixed", "--group", "read-%", "--from-beginning"]
    for words in (["--max-messages", "3"], ["--max-messages", "2"]):
        kafkas, mine = both(tools, CONSUMER, [*arguments, *words])
        assert (mine.exit, mine.out, told(mine)) == (kafkas.exit, kafkas.out, told(kafkas))
    kafkas, mine = both(
        tools,
        CONSUMER,
        ["--bootstrap-server", servers, "--include", "mix.*", "--from-beginning", "--max-messages", "5"],
    )
    assert (mine.exit, mine.out) == (kafkas.exit, kafkas.out)
    with Admin(servers) as admin:
        committed = [
            admin.list_consumer_group_offsets(f"read-{side}").result(f"read-{side}")
            for side in (OURS, THEIRS)
        ]
    places = [found[TopicPartition("mixed", 0)] for found in committed]
    assert [place and place.offset for place in places] == [5, 5]


@pytest.mark.parametrize("line", REFUSED_TO_READ)
def test_both_refuse_the_same_lines_to_read(tools: Tools, places: dict[str, str], line: str) -> None:
    kafkas, mine = both(tools, CONSUMER, filled(line, places))
    assert mine.exit == kafkas.exit == 1
    assert mine.err
    assert mine.out == kafkas.out
