"""The records of `kafka-producer-perf-test`: like those of Kafka's tool, and cheap."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.tools import producer_perf_test


def options(**more: Any) -> Any:
    return SimpleNamespace(**{"payload_monotonic": False, "record_size": None, "payload_file": None, **more})


def test_each_record_is_random_letters_of_the_requested_size() -> None:
    payload = producer_perf_test._payloads(options(record_size=200))
    records = [payload(number) for number in range(50)]
    assert {len(record) for record in records} == {200}
    assert {bytes([byte]) for record in records for byte in record} == {
        b"%c" % byte for byte in range(65, 91)
    }
    assert len(set(records)) == 50


def test_a_record_costs_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(random.Random):
        draws = 0

        def getrandbits(self, count: int) -> int:
            self.draws += 1
            return super().getrandbits(count)

        def random(self) -> float:
            self.draws += 1
            return super().random()

    drawing = Counting(0)
    monkeypatch.setattr("ottla.tools.producer_perf_test.random.Random", lambda seed: drawing)
    payload = producer_perf_test._payloads(options(record_size=1000))
    for number in range(10):
        payload(number)
    assert drawing.draws == 10


def test_counting_records_are_their_numbers() -> None:
    payload = producer_perf_test._payloads(options(payload_monotonic=True))
    assert [payload(number) for number in (0, 17)] == [b"0", b"17"]
