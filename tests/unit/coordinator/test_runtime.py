"""The runtime of coordinators, with a small shard of its own: it counts, and holds whoever asks it to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.coordinator.pending import recorded

from ottla.coordinator import shard_loader
from ottla.coordinator.active_shard import HostedPartition
from ottla.coordinator.records import encode, kinds_of
from ottla.coordinator.result import HELD, Record, Result, StartTimer, StopTimer, Task, TransactionalWrite
from ottla.coordinator.runtime import Coordinator, client_error
from ottla.coordinator.slices import Slices
from ottla.host import HostClock, HostDisk
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records import compression
from ottla.records.batch import BatchHeader, Codec, iterate_headers
from ottla.records.control import end_txn_marker
from ottla.records.record import Record as LogRecord
from ottla.records.record import assemble, build_batch, read_batch, read_records
from ottla.records.validate import Origin
from ottla.server.replicas.partition import Partition
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    UnknownMemberId,
    UnknownServerError,
)
from ottla.wire.messages import group_records
from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue

TOPIC = "__consumer_offsets"
CLOCK = HostClock()


def put(name: str, generation: int) -> Record:
    return Record(GroupMetadataKey(group=name), GroupMetadataValue(generation=generation), 3)


class Counters:
    """A shard: names and numbers."""

    def __init__(self, settings: Any = None) -> None:
        self.settings = settings
        self.numbers: dict[str, int] = {}
        self.pending: dict[int, dict[str, int]] = {}
        self.held: list[PendingResponse] = []
        self.breaks_on = ""

    def replay(self, record: Record, *, producer_id: int = -1, producer_epoch: int = -1) -> None:
        assert isinstance(record.key, GroupMetadataKey)
        if record.key.group == self.breaks_on:
            raise ValueError("as asked for")
        numbers = self.numbers if producer_id < 0 else self.pending.setdefault(producer_id, {})
        if record.value is None:
            numbers.pop(record.key.group, None)
        else:
            assert isinstance(record.value, GroupMetadataValue)
            numbers[record.key.group] = record.value.generation

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        numbers = self.pending.pop(producer_id, {})
        if is_commit:
            self.numbers |= numbers

    def on_loaded(self) -> Result[None]:
        return Result()

    def on_unloaded(self) -> list[PendingResponse]:
        return self.held

    def on_metadata(self, image: Any, delta: Any) -> Result[None]:
        return Result()

    # Decisions

    def add(self, name: str) -> Result[int]:
        number = self.numbers.get(name, 0) + 1
        return Result(number, [put(name, number)])

    def hold(self, pending: PendingResponse) -> Result[int]:
        self.held.append(pending)
        return Result(HELD)


@dataclass
class World:
    """One partition and the coordinator on it."""

    log: Log
    partition: Partition
    coordinator: Coordinator[Counters] = field(init=False)
    shards: list[Counters] = field(default_factory=list)
    effects: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    is_hosted: bool = True

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(
            topic=TOPIC,
            partition_count=lambda: 1,
            hosted=lambda: [self.partition] if self.is_hosted else [],
            new_shard=self._new_shard,
            kinds=kinds_of(group_records),
            clock=CLOCK,
            slices=Slices(CLOCK),
            write_timeout_ms=60_000,
            flush=self._flush,
            run_effect=lambda _index, effect: self.effects.append(effect),
        )
        self.coordinator.update_leadership()

    def _flush(self, _partition: HostedPartition) -> None:
        self.log.flush()
        self.partition.advance(self.log.log_end_offset)

    def _new_shard(self, _index: int) -> Counters:
        self.shards.append(Counters())
        return self.shards[-1]

    @property
    def numbers(self) -> dict[str, int]:
        return self.coordinator.active(0).shard.numbers

    def ask(self, decision: Callable[[Counters, PendingResponse], Result[Any]]) -> None:
        self.coordinator.ask(0, decision, recorded(self.answers))

    def add(self, name: str) -> None:
        self.ask(lambda shard, _pending: shard.add(name))

    def replicate(self) -> None:
        """The other replica has everything now."""
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.partition.growth.notify()

    def stored(self) -> list[tuple[str, int]]:
        """What a fresh load finds."""
        data = self.log.read(0, 1 << 20, limit_offset=self.log.log_end_offset).records
        return [(bytes(record.key or b"")[4:].decode(), record.offset) for record in read_records(data)]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.001)


def open_world(directory: Path, *, isr: int = 1, limit: int = 1_000_000, **settings: str) -> World:
    log = Log.open(
        HostDisk(),
        CLOCK,
        str(directory / f"{TOPIC}-0"),
        LogConfig.from_texts(
            {
                "max.message.bytes": str(limit),
                **{key.replace("_", "."): text for key, text in settings.items()},
            }
        ),
        topic=TOPIC,
        partition=0,
        topic_id=b"t" * 16,
    )
    partition = Partition(TOPIC, b"t" * 16, 0, log)
    partition.is_leader = True
    partition.leader_id = 1
    partition.leader_epoch = 3
    partition.isr = list(range(1, isr + 1))
    partition.advance(log.log_end_offset)
    return World(log, partition)


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(bounded())


def test_the_decisions_of_one_turn_go_into_one_batch_and_each_sees_the_one_before(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        for _ in range(3):
            world.add("a")
        assert world.answers == []
        await asyncio.sleep(0)
        assert world.answers == [1, 2, 3]
        data = world.log.read(0, 1 << 20, limit_offset=3).records
        assert [header.record_count for _, header in iterate_headers(data)] == [3]
        assert [header.partition_leader_epoch for _, header in iterate_headers(data)] == [3]

    run(main())


def test_an_answer_leaves_when_the_replicas_have_what_it_rests_on(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        world.ask(lambda _shard, _pending: Result("nothing is open"))
        assert world.answers == ["nothing is open"]
        world.add("a")
        await asyncio.sleep(0)
        world.ask(lambda shard, _pending: Result(dict(shard.numbers)))
        await asyncio.sleep(0.01)
        assert world.answers == ["nothing is open"]
        world.replicate()
        assert world.answers == ["nothing is open", 1, {"a": 1}]

    run(main())


def test_effects_wait_for_the_commit_too(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        world.ask(lambda _shard, _pending: Result(None, [put("a", 1)], effects=["go"]))
        await asyncio.sleep(0.01)
        assert world.effects == []
        world.replicate()
        assert world.effects == ["go"]

    run(main())


def test_a_request_times_out_when_replicas_are_slow_and_its_record_stays(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        world.coordinator._write_timeout_ms = 5
        world.coordinator.close()
        world.coordinator.update_leadership()
        world.add("a")
        await world.until(lambda: bool(world.answers))
        assert isinstance(client_error(world.answers[0]), CoordinatorNotAvailable)
        world.replicate()
        assert len(world.answers) == 1
        assert world.numbers == {"a": 1}

    run(main())


def test_a_read_that_comes_after_the_deadline_of_an_uncommitted_write_times_out_too(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        world.coordinator._write_timeout_ms = 5
        world.coordinator.close()
        world.coordinator.update_leadership()
        world.add("a")
        await world.until(lambda: len(world.answers) == 1)
        for count in (2, 3):
            world.ask(lambda shard, _pending: Result(dict(shard.numbers)))
            await world.until(lambda count=count: len(world.answers) == count)  # type: ignore[misc]
            assert isinstance(client_error(world.answers[-1]), CoordinatorNotAvailable)
        world.ask(lambda shard, _pending: Result(dict(shard.numbers)))
        world.replicate()
        assert world.answers[3:] == [{"a": 1}]

    run(main())


def test_a_held_request_is_answered_by_a_later_decision(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.ask(lambda shard, pending: shard.hold(pending))
        assert world.answers == []
        world.ask(lambda shard, _pending: Result("second", late_responses=[(shard.held.pop(), "first")]))
        assert sorted(world.answers) == ["first", "second"]

    run(main())


def test_a_refused_request_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        def refuse(_shard: Counters, _pending: PendingResponse) -> Result[Any]:
            raise UnknownMemberId("who?")

        world = open_world(tmp_path)
        world.ask(refuse)
        assert isinstance(world.answers[0], UnknownMemberId)
        assert world.log.log_end_offset == 0

    run(main())


def test_a_mistake_in_a_decision_fails_its_request_and_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.ask(lambda shard, _pending: Result(shard.numbers["missing"]))
        assert isinstance(world.answers[0], UnknownServerError)
        world.add("a")
        await asyncio.sleep(0)
        assert world.answers[1] == 1

    run(main())


def test_of_records_that_are_too_many_no_more_are_made_than_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has the name of its group in it: a request of 200 KB could stand for gigabytes."""

    async def main() -> None:
        world = open_world(tmp_path, limit=100_000)
        made: list[object] = []

        def counted(record: Record) -> tuple[bytes, bytes | None]:
            made.append(record)
            return encode(record)

        monkeypatch.setattr("ottla.coordinator.active_shard.encode", counted)
        world.ask(lambda _shard, _pending: Result("never", [put("x" * 10_000, 1)] * 5000))
        assert isinstance(client_error(world.answers[0]), UnknownServerError)
        assert len(made) == 10
        assert world.numbers == {}

    run(main())


def test_records_that_are_too_large_are_refused_before_the_state_changes(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, limit=300)
        taken_back: list[KafkaError] = []

        def too_large(_shard: Counters, _pending: PendingResponse) -> Result[Any]:
            def on_failed(error: KafkaError) -> Result[None]:
                taken_back.append(error)
                return Result()

            return Result("never", [put("x" * 400, 1)], on_failed=on_failed)

        world.ask(too_large)
        assert len(taken_back) == 1
        assert isinstance(client_error(world.answers[0]), UnknownServerError)
        assert world.numbers == {}
        for _ in range(8):
            world.add("some name")  # more than one batch together: they are split
        await asyncio.sleep(0)
        assert world.answers[1:] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert world.log.log_end_offset == 8

    run(main())


def test_without_enough_replicas_nothing_is_decided(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.partition.min_insync_replicas = 2
        world.add("a")
        assert isinstance(client_error(world.answers[0]), CoordinatorNotAvailable)
        assert world.numbers == {}
        assert world.log.log_end_offset == 0

    run(main())


def test_a_shard_is_loaded_from_its_log_and_knows_what_it_knew(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        for number in range(1_000):
            world.add(f"n{number % 10}")
        world.ask(lambda _shard, _pending: Result("gone", [Record(GroupMetadataKey(group="n3"), None)]))
        await asyncio.sleep(0)
        expected = dict(world.numbers)
        assert "n3" not in expected
        world.coordinator.close()
        world.answers.clear()
        world.coordinator.update_leadership()
        world.add("n0")
        assert isinstance(world.answers[0], CoordinatorLoadInProgress)
        assert world.coordinator.is_any_loading
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert world.numbers == expected

    run(main())


def test_a_shard_is_not_at_work_before_what_it_was_loaded_from_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        world.add("a")
        await asyncio.sleep(0)
        world.coordinator.close()
        world.answers.clear()
        world.coordinator.update_leadership()
        await world.until(lambda: bool(world.shards[-1].numbers))
        assert world.shards[-1].numbers == {"a": 1}
        await asyncio.sleep(0.01)
        world.add("a")
        assert isinstance(world.answers[0], CoordinatorLoadInProgress)
        _append(world, [encode(put("b", 5))])  # by the end of a transaction, say
        world.log.advance_high_watermark(1)
        world.partition.growth.notify()
        await world.until(lambda: "b" in world.shards[-1].numbers)
        assert world.coordinator.is_any_loading
        world.replicate()
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert world.numbers == {"a": 1, "b": 5}

    run(main())


def test_a_load_that_waits_for_the_commit_ends_with_the_leadership(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        world.add("a")
        await asyncio.sleep(0)
        world.coordinator.close()
        world.coordinator.update_leadership()
        await world.until(lambda: bool(world.partition.growth.watchers))
        world.is_hosted = False
        world.coordinator.update_leadership()
        assert not world.partition.growth.watchers
        world.replicate()
        assert not world.coordinator.loaded()

    run(main())


def test_who_waits_hears_that_the_coordinator_has_moved(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        world.add("a")
        await asyncio.sleep(0)
        world.ask(lambda shard, pending: shard.hold(pending))
        world.add("b")
        world.partition.is_leader = False
        world.coordinator.update_leadership()
        assert [type(answer) for answer in world.answers] == [NotCoordinator] * 3
        world.add("c")
        assert isinstance(world.answers[3], NotCoordinator)
        await asyncio.sleep(0)
        assert world.log.log_end_offset == 1  # the turn that was open is not written by one who lost the seat

    run(main())


def test_a_new_epoch_means_a_new_load(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.add("a")
        await asyncio.sleep(0)
        world.partition.leader_epoch = 4
        world.coordinator.update_leadership()
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert len(world.shards) == 2
        assert world.numbers == {"a": 1}

    run(main())


def test_what_the_log_did_not_take_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr("ottla.coordinator.runtime.RELOAD_DELAY_S", 0)
        world = open_world(tmp_path)
        world.add("a")
        await asyncio.sleep(0)
        monkeypatch.setattr(Partition, "append_own", _no_space)
        world.ask(lambda shard, pending: shard.hold(pending))
        world.add("a")
        await asyncio.sleep(0)
        monkeypatch.undo()
        assert world.answers[0] == 1
        assert [type(client_error(answer)) for answer in world.answers[1:]] == [NotCoordinator] * 2
        await world.until(lambda: bool(world.coordinator.loaded()))
        assert world.numbers == {"a": 1}

    run(main())


def test_what_was_written_and_not_flushed_is_flushed_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would where nobody writes: the watermark would wait for the flush, the load for both."""

    async def main() -> None:
        monkeypatch.setattr("ottla.coordinator.runtime.RELOAD_DELAY_S", 0)
        world = open_world(tmp_path, flush_messages="1")
        with monkeypatch.context() as patch:
            patch.setattr(
                "ottla.coordinator.active_shard.rarely", lambda name: "whether it has written" in name
            )
            world.add("a")
            await asyncio.sleep(0)
        assert isinstance(client_error(world.answers[0]), NotCoordinator)
        assert world.log.high_watermark == 0
        await world.until(lambda: bool(world.coordinator.loaded()))
        assert world.numbers == {"a": 1}
        assert world.log.high_watermark == 1

    run(main())


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (NotEnoughReplicas("Too few are in sync."), "WARNING"),
        (KafkaStorageError("The disk failed."), "ERROR"),
    ],
)
def test_too_few_replicas_are_a_warning_and_a_log_that_fails_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: KafkaError,
    level: str,
) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise error

    async def main() -> None:
        monkeypatch.setattr("ottla.coordinator.runtime.RELOAD_DELAY_S", 0)
        world = open_world(tmp_path)
        world.add("a")
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "append_own", refuse)
            await asyncio.sleep(0)
        assert world.answers == [error]
        await world.until(lambda: bool(world.coordinator.loaded()))

    with caplog.at_level(logging.WARNING, logger="ottla.coordinator"):
        run(main())
    assert [one.levelname for one in caplog.records if "Failed to write to" in one.message] == [level]


def _no_space(*_arguments: Any, **_options: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_a_shard_that_cannot_replay_its_own_record_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("ottla.coordinator.runtime.RELOAD_DELAY_S", 0)
        world = open_world(tmp_path)
        world.shards[0].breaks_on = "b"
        world.add("a")
        world.add("b")
        assert [type(client_error(answer)) for answer in world.answers] == [CoordinatorNotAvailable] * 2
        await world.until(lambda: bool(world.coordinator.loaded()))
        assert world.numbers == {}
        assert world.log.log_end_offset == 0

    run(main())


@pytest.mark.parametrize("transaction", [None, TransactionalWrite(7, 0)])
def test_a_request_fails_if_the_records_before_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transaction: TransactionalWrite | None
) -> None:
    async def main() -> None:
        monkeypatch.setattr("ottla.coordinator.runtime.RELOAD_DELAY_S", 0)
        world = open_world(tmp_path, limit=150)
        append = Partition.append_own

        def fail_once(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(Partition, "append_own", append)
            _no_space()

        monkeypatch.setattr(Partition, "append_own", fail_once)
        world.add("a")
        fired: list[str] = []
        timer = StartTimer("t", 0, lambda: fired.append("timer") or Result())  # type: ignore[func-returns-value]
        world.ask(
            lambda _shard, _pending: Result("written", [put("b", 1)], timers=[timer], transaction=transaction)
        )
        await world.until(lambda: bool(world.coordinator.loaded()))
        assert [type(client_error(answer)) for answer in world.answers] == [
            NotCoordinator,
            CoordinatorNotAvailable,
        ]
        assert world.log.log_end_offset == 0
        await asyncio.sleep(0.01)
        assert fired == []

    run(main())


def test_a_shard_that_cannot_replay_a_record_of_a_transaction_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("ottla.coordinator.runtime.RELOAD_DELAY_S", 0)
        world = open_world(tmp_path, isr=2)
        world.shards[0].breaks_on = "b"
        write = TransactionalWrite(7, 0)
        world.ask(lambda _shard, _pending: Result("written", [put("b", 1)], transaction=write))
        world.replicate()
        assert [type(client_error(answer)) for answer in world.answers] == [CoordinatorNotAvailable]
        await world.until(lambda: bool(world.coordinator.loaded()))
        assert world.coordinator.active(0).shard.pending == {7: {"b": 1}}
        world.ask(lambda _shard, _pending: Result("read"))
        assert world.answers[1:] == ["read"]

    run(main())


def test_a_response_that_cannot_be_completed_keeps_no_other_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)

        def fail() -> None:
            raise ValueError("as asked for")

        failing = PendingResponse()
        failing.on_completed = fail
        world.coordinator.ask(0, lambda shard, _pending: shard.add("a"), failing)
        world.add("a")
        world.ask(lambda _shard, _pending: Result("effect", effects=["effect"]))
        await asyncio.sleep(0)
        world.replicate()
        assert (world.answers, world.effects) == ([2, "effect"], ["effect"])
        assert "as asked for" in caplog.text

    run(main())


def test_a_timer_decides_unless_it_is_put_off_or_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        fired: list[str] = []

        def timer(key: str, delay_ms: int) -> StartTimer:
            def fire() -> Result[None]:
                fired.append(key)
                return Result(None, [put(key, 1)])

            return StartTimer(key, delay_ms, fire)

        def start(*timers: StartTimer | StopTimer) -> None:
            world.ask(lambda _shard, _pending: Result(None, timers=list(timers)))

        start(timer("now", 1), timer("sooner", 60_000), timer("stopped", 5), timer("later", 5))
        start(timer("sooner", 2), StopTimer("stopped"), StopTimer("unknown"), timer("later", 60_000))
        await world.until(lambda: len(fired) >= 2)
        await asyncio.sleep(0.02)
        assert sorted(fired) == ["now", "sooner"]
        assert world.numbers == {"now": 1, "sooner": 1}
        start(timer("later", 1))
        await world.until(lambda: len(fired) == 3)
        world.coordinator.close()

    run(main())


def test_what_a_timer_decided_is_decided_again_when_it_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("ottla.coordinator.active_shard.TIMER_RETRY_MS", 1)
        world = open_world(tmp_path)
        tries: list[int] = []

        def fire() -> Result[None]:
            tries.append(1)
            return Result(None, [put("a", 1)])

        world.partition.min_insync_replicas = 2
        world.ask(lambda _shard, _pending: Result(None, timers=[StartTimer("t", 1, fire)]))
        await world.until(lambda: len(tries) == 3)
        assert world.numbers == {}
        world.partition.min_insync_replicas = 1
        await world.until(lambda: world.numbers == {"a": 1})

    run(main())


def test_long_work_lets_others_in_between_and_then_decides(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        turns = 0

        def steps() -> Generator[None, None, int]:
            while turns < 3:
                yield
            return turns

        def replaced() -> Generator[None, None, int]:
            while True:
                yield

        async def count_turns() -> None:
            nonlocal turns
            while turns < 3:
                await asyncio.sleep(0)
                turns += 1

        def decide(outcome: int) -> Result[None]:
            return Result(None, [put("turns", outcome)])

        world.ask(lambda _shard, _pending: Result(None, tasks=[Task("work", replaced(), decide)]))
        world.ask(lambda _shard, _pending: Result(None, tasks=[Task("work", steps(), decide)]))
        await count_turns()
        await world.until(lambda: world.numbers == {"turns": 3})

    run(main())


def test_a_transactions_records_count_from_its_marker_on(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)

        def write(name: str, producer_id: int) -> None:
            world.ask(
                lambda _shard, _pending: Result(
                    name, [put(name, 1)], transaction=TransactionalWrite(producer_id, 0)
                )
            )

        def end(producer_id: int, *, is_commit: bool) -> None:
            marker = end_txn_marker(
                commit=is_commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=1, timestamp=1
            )

            def append() -> None:
                world.partition.append(memoryview(marker), acks=-1, now_ms=1, origin=Origin.COORDINATOR)

            world.coordinator.active(0).write_marker(append, producer_id, 0, is_commit=is_commit)

        world.add("plain")
        write("kept", 7)
        write("dropped", 8)
        await world.until(lambda: len(world.answers) == 3)
        assert world.numbers == {"plain": 1}
        end(7, is_commit=True)
        end(8, is_commit=False)
        write("open", 9)
        await asyncio.sleep(0)
        for _ in range(2):  # as it ran, and as it is loaded
            assert world.numbers == {"plain": 1, "kept": 1}
            assert world.coordinator.active(0).shard.pending == {9: {"open": 1}}
            world.coordinator.close()
            world.coordinator.update_leadership()
            await world.until(lambda: not world.coordinator.is_any_loading)

    run(main())


def test_a_read_of_transactional_state_waits_until_its_marker_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)
        write = TransactionalWrite(7, 0)
        world.ask(lambda _shard, _pending: Result("written", [put("kept", 1)], transaction=write))
        world.replicate()
        await world.until(lambda: world.answers == ["written"])
        world.coordinator.active(0).write_marker(lambda: _append_marker(world, 7), 7, 0, is_commit=True)
        world.ask(lambda shard, _pending: Result(dict(shard.numbers)))
        await asyncio.sleep(0.01)
        assert world.answers == ["written"], "the marker could still be lost"
        world.replicate()
        assert world.answers == ["written", {"kept": 1}]

    run(main())


def test_a_marker_that_the_log_rejects_delays_no_request(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path, isr=2)

        def refuse() -> None:
            raise NotEnoughReplicas("as asked for")

        with pytest.raises(NotEnoughReplicas):
            world.coordinator.active(0).write_marker(refuse, 7, 0, is_commit=True)
        world.ask(lambda shard, _pending: Result(dict(shard.numbers)))
        assert world.answers == [{}]

    run(main())


def _append_marker(world: World, producer_id: int) -> None:
    marker = end_txn_marker(
        commit=True, producer_id=producer_id, producer_epoch=0, coordinator_epoch=1, timestamp=1
    )
    world.partition.append(memoryview(marker), acks=-1, now_ms=1, origin=Origin.COORDINATOR)


def test_a_record_of_a_kind_that_is_not_known_is_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.coordinator.close()
        _append(world, [(b"\x7f\xff what", b"\0\0ever"), (b"\0\2\0\1a", None)])
        world.coordinator.update_leadership()
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert world.numbers == {}

    run(main())


@pytest.mark.parametrize(
    "stored", [(b"\0", None), (None, None), (b"\0\2\0\1a", b"\0\x63x"), (b"\0\2\0\1a", b"")]
)
def test_a_record_that_cannot_be_read_is_skipped(
    tmp_path: Path, stored: tuple[bytes | None, bytes | None], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.coordinator.close()
        _append(world, [encode(put("b", 3)), stored, stored, encode(put("c", 4))])
        world.coordinator.update_leadership()
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert world.numbers == {"b": 3, "c": 4}
        world.coordinator.close()

    run(main())
    [line] = [record.message for record in caplog.records if "skipped" in record.message]
    assert "0 records of unknown types and 2 unreadable records, the first at or after offset 0" in line


def test_a_batch_that_decompresses_to_more_than_the_bound_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.coordinator.close()
        _append(world, [encode(put("b", 3))])
        content = compression.compress(4, b"\0" * 100_000)
        header = BatchHeader(world.log.log_end_offset, 0, 0, 2, 0, 4, 1, 1, 1, -1, -1, -1, 2)
        world.log.append_as_follower(memoryview(assemble(header, content)))
        _append(world, [encode(put("c", 4))])
        bounded = partial(read_batch, decompressed_bytes_max=10_000)
        monkeypatch.setattr(shard_loader, "read_batch", bounded)
        world.coordinator.update_leadership()
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert world.numbers == {"b": 3, "c": 4}
        world.coordinator.close()

    run(main())
    [line] = [record.message for record in caplog.records if "skipped" in record.message]
    assert "2 unreadable records" in line
    assert "MessageTooLarge" in line


def test_records_of_unknown_types_are_skipped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.coordinator.close()
        _append(world, [(b"\x7f\x7f", b"\0\0"), encode(put("b", 3)), (b"\x7f\x7f", None)])
        world.coordinator.update_leadership()
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert world.numbers == {"b": 3}
        world.coordinator.close()

    run(main())
    [line] = [record.message for record in caplog.records if "skipped" in record.message]
    assert "skipped 2 records of unknown types and 0 unreadable records" in line


@pytest.mark.parametrize("error", [ValueError("as asked for"), RuntimeError("unforeseen")])
def test_a_record_that_cannot_be_replayed_is_skipped(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.coordinator.close()
        _append(world, [encode(put("b", 3)), encode(put("bad", 3)), encode(put("c", 4))])
        replay = Counters.replay

        def fail(shard: Counters, record: Record, **options: int) -> None:
            if isinstance(record.key, GroupMetadataKey) and record.key.group == "bad":
                raise error
            replay(shard, record, **options)

        monkeypatch.setattr(Counters, "replay", fail)
        world.coordinator.update_leadership()
        await world.until(lambda: not world.coordinator.is_any_loading)
        assert world.numbers == {"b": 3, "c": 4}
        world.coordinator.close()

    run(main())


def test_damage_stops_the_load_since_what_it_held_was_committed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.coordinator.close()
        _append(world, [encode(put("b", 3))])
        world.log.flush()
        file = world.log.active_segment.file
        last = world.log.size_bytes - 3
        file.pwrite([bytes([file.pread(1, last)[0] ^ 1])], last)
        world.coordinator.update_leadership()
        await world.until(lambda: "Failed to load " in caplog.text)
        world.add("a")
        assert isinstance(world.answers[0], CoordinatorLoadInProgress)
        world.coordinator.close()

    run(main())


@pytest.mark.parametrize("has_records", [False, True])
def test_a_shard_that_fails_once_loaded_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_records: bool
) -> None:
    async def main() -> None:
        world = open_world(tmp_path)
        world.coordinator.close()
        if has_records:
            _append(world, [encode(put("b", 3))])
        failures = [RuntimeError("unforeseen")]

        def on_loaded(_shard: Counters) -> Result[None]:
            if failures:
                raise failures.pop()
            return Result()

        monkeypatch.setattr("ottla.coordinator.runtime.RELOAD_DELAY_S", 0.001)
        monkeypatch.setattr(Counters, "on_loaded", on_loaded)
        world.coordinator.update_leadership()
        await world.until(lambda: bool(world.coordinator.loaded()))
        assert world.numbers == ({"b": 3} if has_records else {})
        world.coordinator.close()

    run(main())
    assert "Failed to load" in caplog.text


def _append(world: World, records: list[tuple[bytes | None, bytes | None]]) -> None:
    batch = build_batch([LogRecord(0, 1, key, value) for key, value in records])
    world.log.append(memoryview(batch), leader_epoch=3, now_ms=1, origin=Origin.REPLICATION)
    world.partition.advance(world.log.log_end_offset)


def test_many_large_decisions_in_one_turn_are_all_in_the_log(tmp_path: Path) -> None:
    """Above the size at which a batch stops growing, and below the limit of the topic."""
    names = [[f"{turn}-{number}-" + "n" * 30_000 for number in range(80)] for turn in range(4)]

    async def main() -> None:
        world = open_world(tmp_path, limit=16 << 20)
        for some in names:
            world.ask(lambda _shard, _pending, some=some: Result(1, [put(name, 1) for name in some]))  # type: ignore[misc]
        await asyncio.sleep(0)
        assert world.answers == [1] * len(names)
        assert world.log.log_end_offset == sum(map(len, names))

    run(main())


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_records_that_grow_when_compressed_never_exceed_the_limit(tmp_path: Path, codec: Codec) -> None:
    limit, random = 100_000, Random(1)

    def result_with(spare: int) -> Result[int]:
        member = GroupMetadataValue.MemberMetadata(assignment=random.randbytes(limit - spare))
        return Result(spare, [Record(GroupMetadataKey(group="a"), GroupMetadataValue(members=[member]), 3)])

    async def main() -> None:
        world = open_world(tmp_path, limit=limit)
        active = world.coordinator.active(0)
        active._codec = codec
        for spare in range(0, 600, 25):
            active.carry_out(result_with(spare), recorded(world.answers))
            active.flush()
        assert world.coordinator.active(0) is active
        kept = [answer for answer in world.answers if not isinstance(answer, MessageTooLarge)]
        assert kept == list(range(kept[0], 600, 25))
        assert kept[0] < 550

    run(main())
