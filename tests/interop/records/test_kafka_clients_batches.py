"""Our builder makes the batches that Kafka's producer makes, and our reader sees what its consumer sees."""

from __future__ import annotations

import random
from typing import Any

from ottla.records.batch import Codec, read_header
from ottla.records.builder import BatchBuilder
from ottla.records.reader import records_of
from ottla.records.record import Record, read_content
from tests.interop.records.oracle import ask, batch_bytes, build_question, hex_of, read_answer
from tests.unit.records.samples import NOW

CASES = 300
TIMESTAMPS = (NOW, NOW, NOW + 1, NOW - 5, -1, 0, 2**31, 2**62, 2**63 - 1)
PRODUCERS = ((-1, -1, -1, False), (7, 3, 12, False), (2**40, 32767, 2**31 - 1, True))


def random_records(source: random.Random) -> list[Record]:
    values = [None, b"", b"v", b"abc" * 300, source.randbytes(source.randrange(2000))]
    names = ["", "name", "n\u00e4me", "\U0001f600"]
    return [
        Record(
            index,
            source.choice(TIMESTAMPS),
            source.choice(values),
            source.choice(values),
            tuple(
                (source.choice(names), source.choice(values[:3])) for _ in range(source.choice([0, 0, 1, 3]))
            ),
        )
        for index in range(source.choice([1, 2, 7, 60, 200]))
    ]


def built(records: list[Record], codec: Codec, **producer: Any) -> bytearray:
    batch = BatchBuilder(codec=codec, level=None, batch_size=1 << 30)
    for record in records:
        assert batch.append(record.timestamp, record.key, record.value, record.headers)
    return batch.build(**producer)


def test_random_batches_equal_those_of_kafkas_producer() -> None:
    source = random.Random(11)
    cases = []
    questions = []
    for index in range(CASES):
        records = random_records(source)
        codec = Codec(index % len(Codec))
        producer_id, epoch, sequence, transactional = source.choice(PRODUCERS)
        ours = built(
            records,
            codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        cases.append((records, codec, ours))
        questions.append(
            build_question(
                records,
                codec=codec.config_name,
                producer=(producer_id, epoch, sequence),
                transactional=transactional,
            )
        )
    answers = ask([*questions, *(f"read {hex_of(ours)}" for _, _, ours in cases)])
    for (records, codec, ours), wanted, seen in zip(cases, answers[:CASES], answers[CASES:], strict=True):
        theirs = batch_bytes(wanted)
        if codec == Codec.NONE:
            assert ours == theirs
        ours_header, theirs_header = read_header(ours), read_header(theirs)
        assert ours_header._replace(length=0, crc=0) == theirs_header._replace(length=0, crc=0)
        assert read_content(ours, 0, ours_header) == read_content(theirs, 0, theirs_header)
        assert read_answer(seen)[1] == records
        for data in (ours, theirs):
            found = records_of("t", 0, memoryview(data), from_offset=0).take(1000)
            assert [
                Record(record.offset, record.timestamp, record.key, record.value, record.headers)
                for record in found
            ] == records
