"""Record batches against Kafka's own classes: both build, both read, both judge the same produced bytes."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from ottla.records.batch import BatchHeader, Codec, TimestampType, read_header
from ottla.records.compression import compress
from ottla.records.control import ControlType, control_batch, end_txn_marker
from ottla.records.record import Record, build_batch, read_batch, read_content, read_records
from ottla.records.validate import ProduceRules, ValidBatch, assign, check_request, validate
from ottla.wire import codec as wire_codec
from ottla.wire.errors import KafkaError
from ottla.wire.messages.protocol_data import LeaderChangeMessage
from tests.interop.records.oracle import ask, batch_bytes, build_question, bytes_of, hex_of, read_answer
from tests.unit.records.samples import NOW, with_body, with_header

LEVELS = {Codec.GZIP: (None, 1, 9), Codec.LZ4: (None, 1, 17), Codec.ZSTD: (None, -5, 19)}
APPENDS = 12_000


def mixed_records() -> list[Record]:
    """Nulls, empty and large values, compressible and not, headers with and without a value."""
    source = random.Random(4)
    values = [None, b"", b"v", b"abc" * 30_000, source.randbytes(50_000), b"line %d\n" * 400]
    headers = [(), (("name", b"value"), ("name", None)), (("n\u00e4me", b""), ("", b"x"))]
    return [
        Record(0, NOW + index * 7 % 11, values[index % 4], values[index % 6], headers[index % 3])
        for index in range(60)
    ]


def numbered(records: list[Record], base_offset: int) -> list[Record]:
    return [record._replace(offset=base_offset + index) for index, record in enumerate(records)]


def test_batches_of_kafka_are_read_with_every_codec_and_level() -> None:
    records = mixed_records()
    cases = [(codec, level) for codec in Codec for level in LEVELS.get(codec, (None,))]
    questions = [
        build_question(records, codec=codec.config_name, level=level, base_offset=99)
        for codec, level in cases
    ]
    for (codec, level), answer in zip(cases, ask(questions), strict=True):
        batch = batch_bytes(answer)
        assert list(read_records(batch)) == numbered(records, 99), (codec, level)
        if codec == Codec.NONE:
            assert batch == build_batch(records, base_offset=99)


def test_message_sets_of_formats_v0_and_v1_are_read() -> None:
    records = [record._replace(headers=()) for record in mixed_records()]
    cases = [
        (magic, codec) for magic in (0, 1) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
    ]
    questions = [
        build_question(records, magic=magic, codec=codec.config_name, base_offset=1000)
        for magic, codec in cases
    ]
    stamped = build_question(records, magic=1, codec="gzip", log_append_time=NOW + 5)
    *answers, stamped_answer = ask([*questions, stamped])
    for (magic, codec), answer in zip(cases, answers, strict=True):
        expected = numbered(records, 1000)
        if magic == 0:
            expected = [record._replace(timestamp=-1) for record in expected]
        assert list(read_records(batch_bytes(answer))) == expected, (magic, codec)
    assert {record.timestamp for record in read_records(batch_bytes(stamped_answer))} == {NOW + 5}


def test_kafka_reads_our_batches_with_every_codec_and_field() -> None:
    records = mixed_records()
    batches = [
        build_batch(records, codec=codec, level=level, base_offset=7)
        for codec in Codec
        for level in LEVELS.get(codec, (None,))
    ]
    batches.append(
        build_batch(records, base_offset=7, producer_id=5, producer_epoch=3, base_sequence=2**31 - 2)
    )
    batches.append(
        build_batch(
            records, base_offset=7, transactional=True, producer_id=5, producer_epoch=3, base_sequence=1
        )
    )
    batches.append(build_batch(records, base_offset=7, delete_horizon_ms=NOW + 100, leader_epoch=12))
    for batch, answer in zip(batches, ask([f"read {hex_of(batch)}" for batch in batches]), strict=True):
        fields, found = read_answer(answer)
        assert found == numbered(records, 7)
        assert fields == [header_fields(read_header(batch))]
    stamped = build_batch(records, log_append_time=NOW + 3)
    (answer,) = ask([f"read {hex_of(stamped)}"])
    assert {record.timestamp for record in read_answer(answer)[1]} == {NOW + 3}
    assert read_answer(answer)[1] == read_batch(stamped)


def header_fields(header: BatchHeader) -> list[str]:
    """Our reading of a header as the oracle prints Kafka's."""
    horizon = header.delete_horizon_ms
    fields: list[object] = [header.base_offset, header.last_offset, header.magic, header.max_timestamp]
    fields += [int(header.timestamp_type), header.codec, header.producer_id, header.producer_epoch]
    fields += [header.base_sequence, header.last_sequence, str(header.is_transactional).lower()]
    fields += [
        str(header.is_control).lower(),
        header.partition_leader_epoch,
        "-" if horizon is None else horizon,
    ]
    fields += [header.length_bytes, header.crc]
    return [str(field) for field in fields]


def test_control_batches_are_the_bytes_that_kafka_writes() -> None:
    message = LeaderChangeMessage(
        version=0,
        leader_id=7,
        voters=[LeaderChangeMessage.Voter(voter_id=7)],
        granting_voters=[LeaderChangeMessage.Voter(voter_id=7)],
    )
    commit, abort, leader = map(
        batch_bytes, ask(["marker true 77 3 9 1234 55 6", "marker false 1 0 -1 5 0 0", f"leader 4 31 {NOW}"])
    )
    assert commit == end_txn_marker(
        commit=True,
        producer_id=77,
        producer_epoch=3,
        coordinator_epoch=9,
        timestamp=1234,
        base_offset=55,
        leader_epoch=6,
    )
    assert abort == end_txn_marker(
        commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=-1, timestamp=5, leader_epoch=0
    )
    payload = wire_codec.encode(message, 0)
    assert leader == control_batch(
        [(ControlType.LEADER_CHANGE, payload)], timestamp=NOW, base_offset=31, leader_epoch=4
    )


# --- what the leader says to produced bytes -----------------------------------------------------------

CONFIGS: list[dict[str, str]] = [
    {},
    {"cleanup.policy": "compact"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.before.max.ms": "1000"},
    {
        "message.timestamp.before.max.ms": "1000",
        "message.timestamp.after.max.ms": "10",
        "cleanup.policy": "compact,delete",
    },
    {"compression.type": "lz4"},
    {"compression.type": "uncompressed"},
    {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"},
    {"max.message.bytes": "150"},
    {"compression.type": "gzip", "max.message.bytes": "200"},
]


def rules_of(config: dict[str, str]) -> ProduceRules:
    codec = config.get("compression.type")
    log_append = config.get("message.timestamp.type") == "LogAppendTime"
    return ProduceRules(
        max_message_bytes=int(config.get("max.message.bytes", 1048588)),
        compacted="compact" in config.get("cleanup.policy", ""),
        timestamp_type=TimestampType.LOG_APPEND_TIME if log_append else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=int(config.get("message.timestamp.before.max.ms", 2**63 - 1)),
        timestamp_after_max_ms=int(config.get("message.timestamp.after.max.ms", 3_600_000)),
        codec=None if codec is None else Codec.from_name(codec),
    )


def produced_bytes(source: random.Random) -> bytes:
    """A batch as a client may send it: right, wrong in a field, broken inside, cut off, or more than one."""
    times = [0, 5, -5, -1001, 11, 3_600_001, -NOW - 1, -2 * NOW]
    values = [b"v" * 10, None, b"", b"w" * 100]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [(), (("h", b"1"),), (("h", None), ("", b""))]
    records = [
        Record(
            0,
            NOW + source.choice(times),
            source.choice([b"k", b"k", b"k", None, b""]),
            source.choice(values),
            source.choice(headers),
        )
        for _ in range(source.choice([1, 2, 3, 5]))
    ]
    if source.random() < 0.5:
        records = [record._replace(timestamp=NOW, key=b"k") for record in records]
    codec = Codec(source.choice([0, 0, 1, 2, 3, 4]))
    batch = build_batch(records, codec=codec)
    kind = source.choice(["right", "field", "field", "records", "records", "packed", "bit", "cut", "joined"])
    if kind == "field":
        return bytes(_with_another_field(source, batch))
    if kind == "records":
        content = bytearray(read_content(batch, 0, read_header(batch)))
        return bytes(with_body(batch, compress(codec, _mutated(source, content))))
    if kind == "packed":
        return bytes(with_body(batch, _mutated(source, bytearray(batch[61:]))))
    if kind == "bit":
        batch[source.randrange(len(batch))] ^= 1 << source.randrange(8)
    if kind == "cut":
        return bytes(batch[: source.randrange(len(batch))])
    if kind == "joined":
        ends: list[bytes | bytearray] = [
            batch[:5],
            batch[:12],
            batch[:30],
            batch,
            bytes(20),
            struct.pack(">qi", 0, 13),
        ]
        return bytes(batch + source.choice(ends))
    return bytes(batch)


def _with_another_field(source: random.Random, batch: bytearray) -> bytearray:
    numbers = [-2, -1, 0, 1, 2, 3, 7, 2**31 - 1, -(2**31)]
    choices: dict[str, list[int]] = {
        "base_offset": numbers,
        "last_offset_delta": numbers,
        "record_count": numbers,
        "base_sequence": numbers,
        "partition_leader_epoch": numbers,
        "max_timestamp": [*numbers, NOW, NOW + 5_000_000],
        "base_timestamp": [*numbers, NOW],
        "producer_id": [-1, -2, 2**40],
        "attributes": list(range(128)) + [0x100, 0x7F00, -0x8000, 0x80],
        "magic": [-1, 0, 1, 3],
    }
    field = source.choice(list(choices))
    changed = with_header(batch, **{field: source.choice(choices[field])})
    if changed[16] == 2 and source.random() < 0.3:
        changed = with_header(changed, attributes=read_header(changed).attributes | 0x08)
    return changed


def _mutated(source: random.Random, body: bytearray) -> bytearray:
    for _ in range(source.choice([1, 1, 2])):
        at = source.randrange(len(body) + 1)
        kind = source.choice(["set", "set", "cut", "insert"])
        if kind == "set" and at < len(body):
            body[at] = source.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, source.randrange(256)])
        elif kind == "cut":
            del body[at : at + source.choice([1, 2, 5])]
        else:
            body[at:at] = source.randbytes(source.choice([1, 3]))
    return body


def judge(produced: bytes, version: int, config: dict[str, str]) -> ValidBatch | KafkaError:
    records = memoryview(bytearray(produced))
    try:
        check_request(records, version)
        return validate(records, rules_of(config), NOW)
    except KafkaError as refused:
        assert records == produced, "a refused batch was changed"
        return refused


def test_produced_bytes_get_the_judgement_of_kafka() -> None:
    source = random.Random(20)
    cases = [
        (produced_bytes(source), source.choice([3, 7, 9, 13]), source.choice(CONFIGS)) for _ in range(APPENDS)
    ]
    questions = []
    for produced, version, config in cases:
        settings = ";".join(f"{name}={value}" for name, value in config.items()) or "-"
        questions.append(f"append {version} {NOW} 4 {settings} {hex_of(produced)}")
    seen: Counter[str] = Counter()
    stricter: list[tuple[bytes, KafkaError]] = []
    for (produced, version, config), answer in zip(cases, ask(questions), strict=True):
        words = answer.split(" ")
        ours = judge(produced, version, config)
        if isinstance(ours, ValidBatch):
            seen["accepted"] += 1
            if words[0] == "ok":
                compare_stored(ours, produced, words)
            else:
                # Kafka fails only when it rebuilds such a batch for another codec; as it is it would take it.
                reason = " ".join(words[4:])
                assert words[1] == "UNKNOWN_SERVER_ERROR", answer
                assert reason.startswith(("Invalid negative", "Cannot write transactional messages")), answer
        elif words[0] == "error" and words[1] == ours.code.name:
            seen[ours.code.name] += 1
            indexes = [index for index, _ in getattr(ours, "record_errors", [])]
            if ",".join(map(str, indexes)) != words[2].removeprefix("-"):
                stricter.append((produced, ours))
        elif words[0] == "error" and words[1] == "UNKNOWN_SERVER_ERROR":
            seen["typed where Kafka's is unknown"] += 1
        else:
            stricter.append((produced, ours))
    assert_unreadable(stricter)
    seen["refused though Kafka stores it"] = len(stricter)
    assert seen["accepted"] > APPENDS // 10
    assert {"CORRUPT_MESSAGE", "INVALID_RECORD", "INVALID_TIMESTAMP", "MESSAGE_TOO_LARGE"} < set(seen)


def compare_stored(ours: ValidBatch, produced: bytes, words: list[str]) -> None:
    """What we would write against what Kafka wrote: the same bytes, or the same records if recompressed."""
    first, last, max_timestamp, log_append_time = map(int, words[1:5])
    stored = bytes_of(words[5])
    assert stored is not None
    assign(ours, first, 4)
    assert last == first + ours.record_count - 1
    assert (ours.max_timestamp, ours.log_append_time) == (max_timestamp, log_append_time)
    before, after = read_header(produced), read_header(stored)
    if before.codec == after.codec:
        assert ours.buffer == stored
        return
    assert read_header(ours.buffer).codec == after.codec
    found = read_batch(ours.buffer)
    if before.timestamp_type == TimestampType.LOG_APPEND_TIME:
        # A client claims LogAppendTime: when Kafka rebuilds, it writes the claimed time into each record.
        found = [record._replace(timestamp=before.max_timestamp) for record in found]
        if after.timestamp_type == TimestampType.LOG_APPEND_TIME:
            found = read_batch(ours.buffer)
    assert found == read_batch(stored)


def assert_unreadable(refused: list[tuple[bytes, KafkaError]]) -> None:
    """Where we refuse more than Kafka, its own reader fails on the batch or the offsets do not count up."""
    for (produced, error), answer in zip(
        refused, ask([f"read {hex_of(produced)}" for produced, _ in refused]), strict=True
    ):
        assert error.code.name == "INVALID_RECORD", error
        if answer.startswith("ok "):
            offsets = [record.offset for record in read_answer(answer)[1]]
            assert offsets != list(range(len(offsets))), (error, produced.hex())


@pytest.mark.parametrize("version", [3, 13])
def test_no_records_at_all_are_refused_as_kafka_refuses_them(version: int) -> None:
    (answer,) = ask([f"append {version} {NOW} 0 - x"])
    assert answer.split(" ")[1] == "INVALID_RECORD"
    with pytest.raises(KafkaError, match="at least one") as refused:
        check_request(b"", version)
    assert refused.value.code.name == "INVALID_RECORD"
