"""Planted bugs in production code, each one switchable: they prove that the workload and the checker find
such bugs.

A plant is a list of patches, created anew for each run and reverted after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import patch

from ottla.client.consumer.group_member import GroupMember
from ottla.client.consumer.record_source import RecordSource
from ottla.client.core.assignors.range_and_round_robin import Range
from ottla.client.core.fetch_buffer import Buffer
from ottla.client.core.idempotence import PartitionSequences
from ottla.client.errors import TimedOut
from ottla.client.producer.async_producer import AsyncProducer
from ottla.client.values import GroupMetadata
from ottla.controller import brokers
from ottla.controller import image as image_module
from ottla.controller.image import ClusterImage
from ottla.controller.registrations import PartitionRegistration
from ottla.controller.result import Steps
from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.groups.offsets.store import OffsetStore
from ottla.log import retention
from ottla.log.compaction.rules import TransactionTracker
from ottla.log.directories.moves import Moves
from ottla.log.directories.names import name_of
from ottla.log.log import Log
from ottla.log.producer_state import ProducerStates
from ottla.raft import follower_progress
from ottla.raft.contact_deadlines import DeadlineExtensions
from ottla.records import compaction
from ottla.records.batch import iterate_headers, write_crc
from ottla.records.control import end_txn_marker
from ottla.replication.leader import Leadership
from ottla.server.coordinators import marker_writer
from ottla.server.handlers import fetch, produce
from ottla.server.net import dispatch
from ottla.testing.world import SimulatedClient
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import ConfigRecord
from tests.sim import targeted_stories
from tests.sim.scenarios import SCENARIOS, Scenario, disks
from tests.sim.workload import Outcome, run_story

Patch = tuple[Any, str, Any]

SEEDS_MAX = 25
CUT_OFF = ("isolate",)
REPORTED = "a node reported it"


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug; `faults` are those under which it does harm, `kinds` the anomalies it causes."""

    name: str
    patches: Callable[[], list[Patch]]
    kinds: frozenset[str]
    faults: tuple[str, ...] = ()
    seconds: float = 8.0
    scenario: str | Scenario | None = None
    story: targeted_stories.TargetedStory | None = None
    """A targeted story that leads directly to the bug, instead of a random one."""

    def run(self, seed: int) -> Outcome:
        if self.story is not None:
            return self.story(seed)
        return run_story(
            seed,
            seconds=self.seconds,
            faults=self.faults,
            scenario=SCENARIOS[self.scenario] if isinstance(self.scenario, str) else self.scenario,
            calm_s=2.0,
            give_up_s=70.0,
        )


@contextmanager
def planted(patches: list[Patch]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in patches:
            stack.enter_context(patch.object(owner, name, replacement))
        yield


def kinds_of(outcome: Outcome) -> set[str]:
    """The kinds of anomalies in a run."""
    reported = {REPORTED} if outcome.unhandled else set()
    return {anomaly.kind for anomaly in outcome.anomalies} | reported


def find(plant: Plant, seeds_max: int = SEEDS_MAX) -> tuple[int, Outcome]:
    """The number of seeds until a run found the bug, and that run; the last one if none did."""
    for number in range(1, seeds_max + 1):
        with planted(plant.patches()):
            outcome = plant.run(1000 + number)
        if plant.kinds & kinds_of(outcome):
            break
    return number, outcome


def _now_and_then(every: int) -> Callable[[], bool]:
    calls = count(1)
    return lambda: next(calls) % every == 0


# The log and its transactions


def _stable_is_high() -> list[Patch]:
    return [(Log, "last_stable_offset", property(lambda log: log.high_watermark))]


def _aborted_untold() -> list[Patch]:
    return [(Log, "aborted_in", lambda log, read, offset: [])]


def _duplicates_forgotten() -> list[Patch]:
    return [(ProducerStates, "check", lambda *arguments, **named: None)]


def _watermark_back() -> list[Patch]:
    real, is_due = Log.advance_high_watermark, _now_and_then(40)

    def advance(log: Any, offset: int) -> bool:
        if is_due() and log.high_watermark > 5:
            log.high_watermark -= 5
            return True
        return real(log, offset)

    return [(Log, "advance_high_watermark", advance)]


def _other_bytes_on_a_replica() -> list[Patch]:
    real, is_due = Log.append_as_follower, _now_and_then(30)

    def append(log: Any, records: Any, **named: Any) -> Any:
        if is_due() and not log.topic.startswith("__"):
            changed = bytearray(records)
            for position, header in iterate_headers(changed):
                changed[position + header.length_bytes - 2] ^= 1  # in the value of the last record
                write_crc(changed, position, header.length_bytes)
            records = memoryview(changed)
        return real(log, records, **named)

    return [(Log, "append_as_follower", append)]


def _wrong_marker() -> list[Patch]:
    is_due = _now_and_then(5)

    def marker(*, commit: bool, **named: Any) -> Any:
        return end_txn_marker(commit=commit and not is_due(), **named)

    return [(marker_writer, "end_txn_marker", marker)]


def _abort_is_commit() -> list[Patch]:
    def marker(*, commit: bool, **named: Any) -> Any:
        return end_txn_marker(commit=True, **named)

    return [(marker_writer, "end_txn_marker", marker)]


# Replication


def _acknowledged_before_replication() -> list[Patch]:
    def wait(_broker: Any, response: Any, _waiting: Any, acks: int, *_rest: Any) -> Any:
        return None if acks == 0 else response

    return [(produce, "_wait", wait)]


def _watermark_of_the_leader_alone() -> list[Patch]:
    return [(Leadership, "high_watermark", lambda leadership, end_offset: end_offset)]


def _reads_above_the_watermark() -> list[Patch]:
    real = fetch._data_of

    def data_of(log: Any, fetched: Any) -> Any:
        data = real(log, fetched)
        data.high_watermark = data.last_stable_offset = log.log_end_offset
        return data

    return [(fetch, "_data_of", data_of)]


def _epochs_ignored_in_truncation() -> list[Patch]:
    return [(fetch, "_diverges", lambda log, fetched, data: False)]


def _epoch_stays() -> list[Patch]:
    real = PartitionRegistration.merge

    def merge(before: PartitionRegistration, record: Any) -> PartitionRegistration:
        return real(before, record)._replace(leader_epoch=before.leader_epoch)

    return [(PartitionRegistration, "merge", merge)]


def _images_differ() -> list[Patch]:
    real, is_due = ClusterImage._set_config, _now_and_then(2)

    def set_config(image: ClusterImage, record: ConfigRecord, delta: Any) -> None:
        if not is_due():
            real(image, record, delta)

    return [(image_module, "_REPLAYS", {**image_module._REPLAYS, ConfigRecord: set_config})]


def _growth_before_the_wait_missed() -> list[Patch]:
    def wait(one: Any) -> Any:
        pending = one._pending = PendingResponse()
        for fetched in one._session.partitions.values():
            one._watch(pending, fetched)
        one._set_deadline(pending)
        return pending

    return [(fetch._Fetch, "wait", wait), *_without_fast_path(fetch.KEY)]


def _without_fast_path(key: int) -> list[Patch]:
    """Have every request of an API handled by the general path: compiled code cannot be patched."""
    real = dispatch.Dispatcher._direct_route

    def direct_route(dispatcher: Any, one: int, version: int) -> Any:
        route = real(dispatcher, one, version)
        if one == key:
            route.fast_path = None
        return route

    return [(dispatch.Dispatcher, "_direct_route", direct_route)]


# Answers


def _wrong_offset_told() -> list[Patch]:
    real = produce._acknowledge

    def acknowledge(broker: Any, response: Any, waiting: Any, *rest: Any) -> Any:
        for append in waiting:
            append.subject.base_offset += not append.outcome
        return real(broker, response, waiting, *rest)

    return [(produce, "_acknowledge", acknowledge)]


def _other_partition() -> list[Patch]:
    real, is_due = AsyncProducer.send, _now_and_then(50)

    async def send(producer: Any, topic: str, value: Any, partition: int) -> Any:
        other = {"plain": "ledger"}.get(topic, topic) if is_due() else topic
        return await real(producer, other, value, partition=partition)

    return [(AsyncProducer, "send", send)]


def _record_dropped() -> list[Patch]:
    real, is_due = RecordSource.take, _now_and_then(20)

    def take(source: Any, limit: int) -> Any:
        found = real(source, limit)
        return found[1:] if len(found) > 1 and is_due() else found

    return [(RecordSource, "take", take)]


def _record_given_twice() -> list[Patch]:
    real, is_due = RecordSource.take, _now_and_then(20)

    def take(source: Any, limit: int) -> Any:
        found = real(source, limit)
        return [*found, found[-1]] if found and is_due() else found

    return [(RecordSource, "take", take)]


def _sent_twice() -> list[Patch]:
    real, is_due = AsyncProducer.send, _now_and_then(50)

    async def send(producer: Any, topic: str, value: Any, partition: int) -> Any:
        if is_due():
            await real(producer, topic, value, partition=partition)
        return await real(producer, topic, value, partition=partition)

    return [(AsyncProducer, "send", send)]


# Groups


def _commits_dropped() -> list[Patch]:
    real = OffsetStore.put

    def put(store: Any, group_id: str, *place: Any) -> None:
        if group_id != "consumer-group":
            real(store, group_id, *place)

    return [(OffsetStore, "put", put)]


def _offsets_of_transactions_forgotten() -> list[Patch]:
    real = OffsetStore.end_transaction
    return [
        (
            OffsetStore,
            "end_transaction",
            lambda store, producer, *, is_commit: real(store, producer, is_commit=False),
        )
    ]


def _offsets_of_aborted_transactions_kept() -> list[Patch]:
    real = OffsetStore.end_transaction
    return [
        (
            OffsetStore,
            "end_transaction",
            lambda store, producer, *, is_commit: real(store, producer, is_commit=True),
        )
    ]


def _two_owners() -> list[Patch]:
    real = Range.assign

    def assign(assignor: Any, view: Any, members: Any) -> Any:
        given = real(assignor, view, members)
        everything = sorted({one for partitions in given.values() for one in partitions})
        return {member: list(everything) for member in given}

    return [(Range, "assign", assign)]


def _members_of_transactions_unchecked() -> list[Patch]:
    def unless_transactional(real: Any) -> Any:
        def check(group: Any, *arguments: Any, is_transactional: bool, **named: Any) -> Any:
            return None if is_transactional else real(group, *arguments, is_transactional=False, **named)

        return check

    return [
        (kind, "check_offset_commit", unless_transactional(kind.check_offset_commit))
        for kind in (ClassicGroup, ConsumerGroup)
    ]


def _generations_back() -> list[Patch]:
    real = GroupMember.metadata
    shown = count(1000, -1)

    def metadata(member: Any) -> Any:
        told = real.fget(member)  # type: ignore[attr-defined]
        return replace(told, generation_id=next(shown)) if told.generation_id > 0 else told

    return [(GroupMember, "metadata", property(metadata))]


def _members_that_were_put_out_are_nobody() -> list[Patch]:
    def metadata(member: Any) -> GroupMetadata:
        membership = member.membership
        if membership is None:
            return GroupMetadata(member.group_id, group_instance_id=member.instance_id)
        return GroupMetadata(member.group_id, membership.generation, membership.member_id, member.instance_id)

    return [(GroupMember, "metadata", property(metadata))]


# Disks, compaction and bugs that only scenarios reveal


def _newest_of_a_key_dropped() -> list[Patch]:
    real, real_add = compaction._payload, compaction.KeyMap.add

    def shifted(*place: Any) -> Any:
        payload = real(*place)
        return payload._replace(base_offset=payload.base_offset + 1)

    def add(keys: Any, buffer: Any, position: int, header: Any, start_offset: int) -> bool:
        with patch.object(compaction, "_payload", shifted):
            return real_add(keys, buffer, position, header, start_offset)

    return [(compaction.KeyMap, "add", add)]


def _aborted_records_count_in_compaction() -> list[Patch]:
    return [(TransactionTracker, "is_aborted", lambda tracker, header: False)]


def _metadata_ends_a_pending_expansion() -> list[Patch]:
    real = Leadership.take

    def take(leadership: Any, *, isr: Any, partition_epoch: int, **named: Any) -> None:
        if partition_epoch == leadership.partition_epoch:
            leadership._commit(frozenset(isr), partition_epoch)
        real(leadership, isr=isr, partition_epoch=partition_epoch, **named)

    return [(Leadership, "take", take)]


def _young_segments_deleted() -> list[Patch]:
    def above_age(retention_ms: int, now_ms: int) -> retention.Rule:
        return retention.Rule(lambda segment, following: following is not None, "it is closed")

    return [(retention, "above_age", above_age)]


def _checksums_not_read() -> list[Patch]:
    real = SimulatedClient.consumer
    return [(SimulatedClient, "consumer", lambda client, **given: real(client, check_crcs=False, **given))]


def _acknowledged_before_flush() -> list[Patch]:
    return [(Log, "is_flush_due", property(lambda log: False))]


def _quorum_of_one() -> list[Patch]:
    def committed_offset(leader: Any) -> int | None:
        offset = max(progress.end_offset for progress in leader.progress.values())
        return offset if offset > max(leader.start_offset, leader.high_watermark) else None

    return [(follower_progress, "committed_offset", committed_offset)]


def _late_timers_judge() -> list[Patch]:
    return [(DeadlineExtensions, "extend", lambda extensions, role, due_ms, now_ms: None)]


def _lost_tails_ignored() -> list[Patch]:
    def no_changes(state: Any, broker_id: int, *, is_clean: bool) -> Steps[list[Message]]:
        yield from ()
        return []

    return [(brokers, "_shutdown_changes", no_changes)]


def _old_epochs_taken() -> list[Patch]:
    return [(ProducerStates, "_check_epoch", lambda *arguments, **named: None)]


# Copies, moves between disks, and the exchange of compacted segments


def _deaths_in(*effects: str) -> Scenario:
    """Nodes die only at the steps of one kind of work."""
    found = SCENARIOS["copies and disks"]
    return replace(found, targeted_faults=(partial(disks.die_at_a_step, effects=effects),))


def _segments_begin_behind_gaps() -> list[Patch]:
    """A copy names its segments by their first batch: recovery takes gaps between segments for losses."""
    real_roll, real_write, real_open = Log.roll, Log._write_run, Log.open
    first: list[int] = []

    def write_run(log: Any, records: Any, run: Any, now_ms: int) -> None:
        first[:] = [run[0][1].base_offset]
        try:
            real_write(log, records, run, now_ms)
        finally:
            first.clear()

    def roll(log: Any, base_offset: int | None = None) -> Any:
        return real_roll(log, max(base_offset or 0, 0, *first))

    def open_log(*place: Any, **named: Any) -> Any:
        return real_open(*place, **{**named, "is_contiguous": True})

    return [(Log, "roll", roll), (Log, "_write_run", write_run), (Log, "open", open_log)]


def _source_of_a_move_goes_first() -> list[Patch]:
    """The copy replaces the log before it is on stable storage."""

    async def advance(moves: Any, partition: Any, log: Any, future: Any) -> bool:
        if copied := await moves._copy_slice(partition, log, future):
            moves._charge(copied)
            return True
        if not moves._is_current(partition, log, future):
            return False
        while future.log_end_offset < log.log_end_offset:
            moves._take(log, future, moves._read(log, future.log_end_offset))
        hosted = moves._hosted
        hosted.rename(future, f"{hosted.directory_of(future).path}/{name_of(partition)}")
        moves._complete(partition, log, future)
        return False

    return [(Moves, "_advance", advance)]


def exchange_without_syncs() -> list[Patch]:
    """The names of compacted segments are not synced before old segments lose theirs."""
    real = Log.replace_segments

    def replace_segments(log: Any, *segments: Any) -> None:
        with patch.object(log._disk, "sync_directory", lambda path: None):
            real(log, *segments)

    return [(Log, "replace_segments", replace_segments)]


def _failed_flush_acknowledged() -> list[Patch]:
    return [(produce, "_flush_outcome", lambda written, flush: ErrorCode.NONE)]


def _producers_expire_batch_by_batch() -> list[Patch]:
    real = ProducerStates.restore

    def restore(states: Any, entries: Any, end_offset: int, now_ms: int) -> None:
        young = [one for one in entries if now_ms - one.last_timestamp < states.expiration_ms]
        real(states, young, end_offset, now_ms)

    return [(ProducerStates, "restore", restore)]


# Clients that wait for the wrong event


def _batches_before_the_first_is_known() -> list[Patch]:
    return [(PartitionSequences, "is_known", property(lambda one: True, lambda one, value: None))]


def _paused_bytes_count() -> list[Patch]:
    return [(Buffer, "bytes_ready", property(lambda buffer: buffer.bytes_buffered))]


def _commits_wait_without_end() -> list[Patch]:
    async def commit(
        member: Any, offsets: Any, *, seconds: float, retries: bool = True, asked_at: Any
    ) -> None:
        try:
            async with member._commits, asyncio.timeout(seconds):
                await member._commit(offsets, asked_at, retries=retries)
        except TimeoutError as error:
            raise TimedOut("Offsets were not committed in time.") from error

    return [(GroupMember, "commit", commit)]


PLANTS = (
    Plant("the last stable offset is the watermark", _stable_is_high, frozenset({"uncommitted read"})),
    Plant("fetch responses omit aborted transactions", _aborted_untold, frozenset({"aborted read"})),
    Plant(
        "retries of a producer are appended again",
        _duplicates_forgotten,
        frozenset({"duplicate", "reordering"}),
        ("reset", "isolate", "slow", "crash"),
        20.0,
    ),
    Plant("a watermark decreases", _watermark_back, frozenset({"watermark went back"})),
    Plant(
        "a replica writes other bytes",
        _other_bytes_on_a_replica,
        frozenset({"replicas differ", "unknown value"}),
    ),
    Plant("some markers of a commit say abort", _wrong_marker, frozenset({"torn transaction"})),
    Plant("aborts are written as commits", _abort_is_commit, frozenset({"aborted records", "aborted read"})),
    Plant(
        "records are acknowledged before they are replicated",
        _acknowledged_before_replication,
        frozenset({"lost write", "moved write", "two values"}),
        CUT_OFF,
        30.0,
    ),
    Plant(
        "the watermark is the leader's log end",
        _watermark_of_the_leader_alone,
        frozenset({"lost write", "moved write", "lost after it was read", "two values"}),
        CUT_OFF,
        30.0,
    ),
    Plant(
        "reads go beyond the watermark",
        _reads_above_the_watermark,
        frozenset({"lost after it was read", "two values", "uncommitted read"}),
    ),
    Plant(
        "followers do not truncate records that the leader lacks",
        _epochs_ignored_in_truncation,
        frozenset({"replicas differ", "not alive", "two values"}),
        CUT_OFF,
        30.0,
    ),
    Plant(
        "a new leader keeps the old leader epoch",
        _epoch_stays,
        frozenset({"two leaders", "not alive"}),
        ("restart",),
        12.0,
    ),
    Plant(
        "a follower misses appends from before it waited",
        _growth_before_the_wait_missed,
        frozenset({"late"}),
    ),
    Plant("nodes replay settings differently", _images_differ, frozenset({"images differ"})),
    Plant("the offset in an acknowledgment is wrong", _wrong_offset_told, frozenset({"moved write"})),
    Plant("records go to another topic", _other_partition, frozenset({"stray value"})),
    Plant("a consumer drops a record", _record_dropped, frozenset({"skipped"})),
    Plant("a consumer returns a record twice", _record_given_twice, frozenset({"reads out of order"})),
    Plant("a producer sends a record twice", _sent_twice, frozenset({"duplicate"})),
    Plant("committed offsets are not stored", _commits_dropped, frozenset({"offset went back"})),
    Plant(
        "offsets of a transaction are not stored",
        _offsets_of_transactions_forgotten,
        frozenset({"processed twice"}),
    ),
    Plant(
        "offsets of an aborted transaction are stored",
        _offsets_of_aborted_transactions_kept,
        frozenset({"never processed"}),
    ),
    Plant("an assignor assigns partitions to two members", _two_owners, frozenset({"two owners"})),
    Plant(
        "compaction drops the newest value of a key",
        _newest_of_a_key_dropped,
        frozenset({"lost key"}),
        seconds=15.0,
        scenario="compaction and retention",
    ),
    Plant(
        "compaction treats aborted records as committed",
        _aborted_records_count_in_compaction,
        frozenset({"lost key", "aborted records", "resurrected"}),
        seconds=15.0,
        scenario="compaction and retention",
    ),
    Plant(
        "retention deletes young segments",
        _young_segments_deleted,
        frozenset({"lost write"}),
        seconds=12.0,
        scenario="bits flip",
    ),
    Plant(
        "readers ignore checksums",
        _checksums_not_read,
        frozenset({"unknown value", "two values", "skipped"}),
        seconds=15.0,
        scenario="bits flip",
    ),
    Plant(
        "records are acknowledged before they are flushed",
        _acknowledged_before_flush,
        frozenset({"lost write", "moved write", "two values"}),
        seconds=15.0,
        scenario="all lose power",
    ),
    Plant(
        "the quorum commits without a majority",
        _quorum_of_one,
        frozenset({"metadata differs", "images differ", REPORTED}),
        seconds=20.0,
        scenario="cut in halves",
    ),
    Plant(
        "a late timer deposes the leader at once",
        _late_timers_judge,
        frozenset({"needless election"}),
        scenario="late timers",
    ),
    Plant(
        "a replica that lost its tail may lead",
        _lost_tails_ignored,
        frozenset({"lost write", "moved write", "two values"}),
        seconds=15.0,
        scenario="last one standing",
    ),
    Plant(
        "old producer epochs are accepted",
        _old_epochs_taken,
        frozenset({"aborted read", "aborted records", "torn transaction", "processed twice", "duplicate"}),
        seconds=15.0,
        scenario="late requests",
    ),
    Plant(
        "a removed member counts as a consumer without a group",
        _members_that_were_put_out_are_nobody,
        frozenset({"processed twice", "offset went back"}),
        seconds=12.0,
        scenario="zombies",
    ),
    Plant(
        "any member may commit offsets in a transaction",
        _members_of_transactions_unchecked,
        frozenset({"processed twice", "offset went back"}),
        seconds=12.0,
        scenario="zombies",
    ),
    Plant(
        "a move drops the source before the copy is on stable storage",
        _source_of_a_move_goes_first,
        frozenset({"lost key", "lost write"}),
        seconds=15.0,
        scenario=_deaths_in("died at the end of a move"),
    ),
    Plant(
        "recovery deletes the records after a gap in a copied log",
        _segments_begin_behind_gaps,
        frozenset({"lost key"}),
        story=targeted_stories.copied_gaps_and_a_kill,
    ),
    Plant(
        "metadata of a known partition epoch drops a pending ISR expansion",
        _metadata_ends_a_pending_expansion,
        frozenset({"lost write"}),
        story=targeted_stories.metadata_that_repeats_an_answer,
    ),
    Plant(
        "a record is acknowledged although its flush failed",
        _failed_flush_acknowledged,
        frozenset({"lost write"}),
        story=targeted_stories.failed_sync,
    ),
    Plant(
        "producers expire batch by batch in recovery",
        _producers_expire_batch_by_batch,
        frozenset({"duplicate"}),
        story=targeted_stories.old_timestamps_and_a_clean_restart,
    ),
    Plant(
        "a producer does not wait for its first batch in a partition",
        _batches_before_the_first_is_known,
        frozenset({"late", "reordering", "lost write"}),
        story=targeted_stories.first_batch_refused,
    ),
    Plant(
        "bytes of paused partitions count as buffered",
        _paused_bytes_count,
        frozenset({"late"}),
        story=targeted_stories.paused_partition,
    ),
    Plant(
        "the timeout of a commit starts after earlier commits",
        _commits_wait_without_end,
        frozenset({"late"}),
        story=targeted_stories.commit_while_nobody_answers,
    ),
    Plant("generations decrease", _generations_back, frozenset({"generation went back"})),
)
