"""Millions of records leak no memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.records.conftest import forms_of
from tests.unit.records.samples import NOW

from ottla.records.batch import Codec

ROUNDS = 40
RECORDS = 250
BLOCKS_MAX = RECORDS * ROUNDS // 10
"""Far less than one block per record, far more than the interpreter's caches fluctuate."""


def blocks_gained(work: Callable[[], object]) -> int:
    for _ in range(5):
        work()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(ROUNDS):
        work()
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("form", [0, 1], ids=["compiled", "plain"])
def test_building_and_reading_leak_no_memory(form: int, codec: Codec) -> None:
    builder = [*forms_of("builder")][form]
    reader = [*forms_of("reader")][form]
    topic = "topic-" + "x" * 10
    value = bytes(range(100))

    def work() -> None:
        batch = builder.BatchBuilder(codec=codec, batch_size=1 << 20)
        for number in range(RECORDS):
            assert batch.append(NOW + number, b"k%d" % number, value, [("h", value), ("n", None)])
        found: Any = reader.records_of(topic, 1000, memoryview(batch.build()), from_offset=0)
        assert sum(len(records) for records in iter(lambda: found.take(99), [])) == RECORDS

    references = sys.getrefcount(topic), sys.getrefcount(value)
    assert blocks_gained(work) < BLOCKS_MAX
    assert (sys.getrefcount(topic), sys.getrefcount(value)) == references


@pytest.mark.parametrize("form", [0, 1], ids=["compiled", "plain"])
def test_columns_leak_no_memory(form: int) -> None:
    builder = [*forms_of("builder")][form]
    reader = [*forms_of("reader")][form]
    columns = [*forms_of("columns")][form]
    batch = builder.BatchBuilder(batch_size=1 << 20)
    for number in range(RECORDS):
        batch.append(NOW, b"k%d" % number, None, [("h", b"v")])
    data = batch.build()

    def work() -> None:
        gathered = columns.Columns()
        assert reader.records_of("t", 0, memoryview(data), from_offset=0).fill(gathered, 1000) == RECORDS

    assert blocks_gained(work) < BLOCKS_MAX
