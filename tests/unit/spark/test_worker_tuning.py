"""Tuning of Spark's Python workers: only reused ones, and only once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ottla

TOLD = """
import gc
from ottla.spark.worker_tuning import tune
tune()
frozen = gc.get_freeze_count()
tune()
made = bytearray(8 << 20)  # what is freed is kept, and can be had again
del made
print(frozen, gc.get_freeze_count())
"""


def counts(**variables: str) -> tuple[int, int]:
    kept = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    source = str(Path(ottla.__file__).parents[1])
    told = subprocess.run(
        [sys.executable, "-c", TOLD],
        env={**kept, "PYTHONPATH": source, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    first, second = told.stdout.split()
    return int(first), int(second)


def test_a_reused_worker_excludes_imports_from_collections() -> None:
    first, second = counts(SPARK_REUSE_WORKER="1")
    assert first > 1000
    assert second == first


def test_a_worker_that_is_not_reused_is_not_tuned() -> None:
    assert counts() == (0, 0)


def test_a_task_fetches_in_bulk_unless_the_options_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from ottla.spark import task_reader
    from ottla.spark.settings import read_settings

    monkeypatch.setattr(task_reader, "_consumers", {})
    plain = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    chosen = {**plain, "kafka.max.partition.fetch.bytes": "1000", "kafka.receive.buffer.bytes": "65536"}
    bulk = task_reader._consumer(read_settings(plain, streaming=False))
    small = task_reader._consumer(read_settings(chosen, streaming=False))
    try:
        assert bulk.settings.max_partition_fetch_bytes == 4 << 20
        assert bulk.settings.receive_buffer_bytes == -1
        assert small.settings.max_partition_fetch_bytes == 1000
        assert small.settings.receive_buffer_bytes == 65536
        assert small.settings.fetch_max_bytes == 8 << 20
    finally:
        bulk.close(timeout=1.0)
        small.close(timeout=1.0)
