"""Our dump-log and Kafka's say the same of the same files: a broker's own, and the old formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.tools import dump_log
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.tools_same.conftest import ours

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DATA = [
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--print-data-log", "--max-bytes", "500"],
    ["--print-data-log", "--max-bytes=300"],
    ["--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder"],
    ["--offsets-decoder"],
]
INDEXES = [[], ["--verify-index-only"], ["--index-sanity-check"], ["--max-message-size", "100000"]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker leaves that was used by producers of all kinds, groups and a transaction."""
    directory = tmp_path_factory.mktemp("dumped")
    settings = {"log.index.interval.bytes": "200", "log.segment.bytes": "1048576"}
    with peers.running("ottla", directory=directory, properties=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for made in admin.create_topics([NewTopic("words", 1, 1), NewTopic("sums", 1, 1)]).values():
            made.result(60)
        for codec in CODECS:
            _write(broker.bootstrap, codec)
        _commit(broker.bootstrap)
        _transact(broker.bootstrap)
        broker.stop()
    return directory


def _write(bootstrap: str, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": codec != "gzip",
            "linger.ms": 20,
        }
    )
    for number in range(40):
        producer.produce(
            "words",
            key=None if number % 3 else f"key-{number}",
            value=None if number % 7 == 6 else f"{codec} {'wörter ' * (number % 5)}{number}",
            headers=[("one", b"1"), ("two", None)] if number % 4 == 0 else [],
            timestamp=1_700_000_000_000 + number * (1 if number % 5 else -1),
        )
    assert producer.flush(60) == 0


def _commit(bootstrap: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["words"])
    found = 0
    while found < 200:
        found += len(consumer.consume(100, 1.0))
    consumer.commit(asynchronous=False)
    consumer.close()
    newer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "newer", "group.protocol": "consumer"},
    )
    newer.subscribe(["words", "^su.*"])
    while not newer.assignment():
        newer.poll(0.5)
    newer.commit(offsets=[TopicPartition("words", 0, 7, metadata="mine")], asynchronous=False)
    newer.close()


def _transact(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "summing"})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("sums", key="sum", value=str(number))
        producer.flush(60)
        if number % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def files_of(data: Path, topic: str, suffix: str) -> list[Path]:
    found = sorted(
        path
        for directory in data.rglob(f"{topic}-*")
        if directory.is_dir()
        for path in directory.iterdir()
        if path.suffix == suffix and path.stat().st_size
    )
    assert found, f"no {suffix} of {topic}"
    return found


def check(tools: Tools, files: list[Path], *options: str) -> Ran:
    arguments = [*options, "--files", ",".join(map(str, files))]
    theirs, mine = tools.run(DUMP, *arguments), ours(dump_log.main, arguments)
    assert mine.out.splitlines() == theirs.out.splitlines()
    assert sorted(mine.err.splitlines()) == sorted(theirs.err.splitlines())
    assert mine.exit == theirs.exit
    return mine


@pytest.mark.parametrize("options", DATA, ids=" ".join)
def test_logs_of_topics(tools: Tools, data: Path, options: list[str]) -> None:
    files = files_of(data, "words", ".log") + files_of(data, "sums", ".log")
    if "--offsets-decoder" in options:
        files = files_of(data, "__consumer_offsets", ".log")
    ran = check(tools, files, *options)
    assert "baseOffset: 0 " in ran.out


def test_logs_of_transactions(tools: Tools, data: Path) -> None:
    ran = check(tools, files_of(data, "__transaction_state", ".log"), "--transaction-log-decoder")
    assert '"transactionalId":"summing"' in ran.out


def test_logs_and_snapshots_of_metadata(tools: Tools, data: Path) -> None:
    files = files_of(data, "__cluster_metadata", ".log") + sorted(data.rglob("*.checkpoint"))
    ran = check(tools, files, "--cluster-metadata-decoder")
    assert "REGISTER_BROKER_RECORD" in ran.out


@pytest.mark.parametrize("options", INDEXES, ids=" ".join)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes(tools: Tools, data: Path, suffix: str, options: list[str]) -> None:
    check(tools, files_of(data, "words", suffix), *options)


def test_producers_and_aborted_transactions(tools: Tools, data: Path) -> None:
    check(tools, files_of(data, "sums", ".txnindex"))
    check(tools, files_of(data, "words", ".snapshot") + files_of(data, "sums", ".snapshot"))


def test_indexes_of_another_log(tools: Tools, data: Path, tmp_path: Path) -> None:
    """Indexes whose entries name other offsets than the log has there."""
    (source,) = files_of(data, "words", ".log")[:1]
    (tmp_path / source.name).write_bytes(source.read_bytes())
    for suffix, at in ((".index", 3), (".timeindex", 11)):
        entries = bytearray(source.with_suffix(suffix).read_bytes())
        entries[at] += 1
        (tmp_path / source.name).with_suffix(suffix).write_bytes(entries)
    ran = check(tools, [(tmp_path / source.name).with_suffix(".index")], "--verify-index-only")
    assert "Mismatches in :" in ran.err
    check(tools, [(tmp_path / source.name).with_suffix(".timeindex")])


def test_a_log_that_is_cut_off_and_one_with_a_changed_byte(tools: Tools, data: Path, tmp_path: Path) -> None:
    (source,) = files_of(data, "words", ".log")[:1]
    whole = bytearray(source.read_bytes())
    whole[70] ^= 1
    damaged = tmp_path / source.name
    damaged.write_bytes(whole[:-9])
    ran = check(tools, [damaged])
    assert "isvalid: false" in ran.out
    assert "invalid bytes at the end of" in ran.out


@pytest.mark.parametrize(
    ("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)], ids=str
)
def test_messages_of_the_old_formats(tools: Tools, tmp_path: Path, magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for index in range(5):
        builder.append(index, timestamp=1000 + index, key=b"k" if index % 2 else None, value=b"v%d" % index)
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(bytes(builder.build()))
    check(tools, [file])
    check(tools, [file], "--print-data-log")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--nothing"],
        ["--files"],
        ["--print-data-log"],
        ["--files", "/nowhere/00000000000000000000.log"],
        ["--files", "/nowhere/00000000000000000000.index"],
        ["--files", "unknown.txt"],
        ["--files", "x.log", "--max-bytes", "many"],
    ],
    ids=" ".join,
)
def test_bad_use_ends_alike(tools: Tools, arguments: list[str]) -> None:
    theirs, mine = tools.run(DUMP, *arguments), ours(dump_log.main, arguments)
    assert mine.exit == theirs.exit
    assert bool(mine.err) == bool(theirs.err)
    assert "Traceback" not in mine.err
