"""Two nodes get the same produce requests, sound, damaged and hostile, one of them without the fast path.

After each request, answers, log, indexes, producers, leader epochs and notified waiters are the same: also
where rules, leadership, replicas or the clock change in between, and where the disk fails.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import pack_into
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.log.support import START_MS, TOPIC_ID, FakeClock, FaultyDisk

from ottla.failures import Failures
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.batch import HEADER_BYTES, Codec, write_crc
from ottla.records.plain_batch import NOT_PLAIN
from ottla.records.record import Record, build_batch
from ottla.replication.leader import Leadership
from ottla.server.handlers import produce
from ottla.server.handlers.produce_fast_path import Begun, ProduceExpress
from ottla.server.net.dispatch import RequestContext, _Route
from ottla.server.replicas.partition import Partition, Partitions
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import codec
from ottla.wire.errors import ErrorCode, KafkaStorageError, MalformedMessage
from ottla.wire.frame import read_client_id, request_frame
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

LONG_MAX = 2**63 - 1
HOUR_MS = 3_600_000
CONFIGS: dict[str, Callable[[], LogConfig]] = {
    "usual": LogConfig,
    "small segments": lambda: LogConfig(segment_bytes=700, index_interval_bytes=1),
    "small indexes": lambda: LogConfig(segment_index_bytes=40, index_interval_bytes=1),
    "rolled soon": lambda: LogConfig(segment_ms=1000, index_interval_bytes=150),
    "preallocated": lambda: LogConfig(preallocate=True, segment_bytes=2000),
    "append time": lambda: LogConfig(message_timestamp_type="LogAppendTime"),
    "small batches": lambda: LogConfig(max_message_bytes=110),
    "compacted": lambda: LogConfig(cleanup_policy=frozenset(("compact",))),
    "strict times": lambda: LogConfig(
        message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000
    ),
}
TIMES = (START_MS, START_MS, START_MS + 1, START_MS - 2000, START_MS + 2 * HOUR_MS, 0, -1, -5, LONG_MAX)
EXTREMES = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 5, 2**15 - 1, 2**31 - 1, LONG_MAX)
OTHER_ID = bytes(range(16, 32))
PARTITIONS = (("news", TOPIC_ID, 0), ("news", TOPIC_ID, 1), ("news", TOPIC_ID, 2), ("olds", OTHER_ID, 0))
FIELDS = {  # of the header of a batch: position and layout
    0: ">q",
    8: ">i",
    12: ">i",
    16: ">b",
    21: ">h",
    23: ">i",
    27: ">q",
    35: ">q",
    43: ">q",
    51: ">h",
    53: ">i",
    57: ">i",
}


class _Side:
    """A broker with four partitions of two topics, as far as produce requests see it."""

    def __init__(self, directory: Path, config: LogConfig, *, is_quick: bool) -> None:
        directory.mkdir()
        self.disk = FaultyDisk()
        self.clock = FakeClock()
        self.woken: list[str] = []
        self.has_reported = False
        self.is_quick = is_quick
        self.quick_answers = 0
        self.begun_answers = 0
        self.waiting: list[tuple[PendingResponse, Callable[[Any], bytes]]] = []
        partitions = Partitions()
        self.partitions: list[Partition] = []
        for topic, topic_id, index in PARTITIONS:
            path = directory / f"{topic}-{index}"
            path.mkdir()
            log = Log.open(
                self.disk, self.clock, str(path), config, topic=topic, partition=index, topic_id=topic_id
            )
            partition = Partition(topic, topic_id, index, log)
            partition.is_leader = True
            partition.leader_epoch = 3
            partition.isr = [1]
            partition.growth.add(partial(self._note, f"growth of {partition}"))
            partition.appends.add(partial(self._note, f"appends of {partition}"))
            partitions.add(partition)
            self.partitions.append(partition)
        self.partition = self.partitions[0]
        self.log = cast(Log, self.partition.log)
        self.broker: Any = SimpleNamespace(
            partitions=partitions,
            clock=self.clock,
            lateness=SimpleNamespace(latest_api=-1),
            image=SimpleNamespace(topics={}, topics_by_name={}, partition=lambda _topic, _index: None),
            directories=SimpleNamespace(storage_error=self._storage_error),
            failures=Failures(),
            transactions=SimpleNamespace(verification=SimpleNamespace(check=lambda _writing: ({}, {}))),
        )
        wait = partial(produce.wait_for_replicas, self.broker, "PLAINTEXT")
        self.express = ProduceExpress(cast(Any, self.broker), wait)

    def _note(self, watched: str) -> bool:
        self.woken.append(watched)
        return False

    def _storage_error(self, log: Log, error: OSError) -> Exception:
        assert any(partition.log is log for partition in self.partitions)
        self.has_reported = True
        return KafkaStorageError(str(error))

    def ask(self, version: int, frame: bytes) -> bytes | str:
        """The answer's frame, or why the connection would be closed."""
        if not self.is_quick:
            with patch.object(produce, "append_as_leader", lambda *_: NOT_PLAIN):
                return self._ask_generally(version, frame, None)
        read = memoryview(bytearray(len(frame).to_bytes(4, "big") + frame))
        answer = self.express.answer_read(read, len(read))
        begun, self.express.begun = self.express.begun, None
        if answer is None:
            assert begun or read[4:] == frame, "a request that is left alone is left as it was"
            self.begun_answers += begun is not None
            return self._ask_generally(version, frame, begun)
        assert begun is None
        self.quick_answers += 1
        if isinstance(answer, bytes):
            return answer
        self.waiting.append((answer, bytes))
        return "waits"

    def _ask_generally(self, version: int, frame: bytes, begun: Begun | None) -> bytes | str:
        own = memoryview(bytearray(frame))
        route = _Route(produce.handle, 0, version)
        try:
            client_id, position = read_client_id(own, True)
            request, _ = route.decode(own, position)
        except MalformedMessage:
            assert begun is None
            return "malformed"
        assert isinstance(request, ProduceRequest)
        connection: Any = SimpleNamespace(close=lambda reason: None)
        context = RequestContext(version, 7, client_id, connection, "PLAINTEXT")
        context.begun = begun
        response: Any = produce.handle(self.broker, request, context)
        if response is None:
            return "no answer"
        encode = partial(_encoded, route)
        if isinstance(response, PendingResponse):
            self.waiting.append((response, encode))
            return "waits"
        return encode(response)

    def answered(self) -> list[bytes | None]:
        """The responses that had to wait: those that are complete by now."""
        return [encode(answer.response) if answer.is_completed else None for answer, encode in self.waiting]

    def state(self) -> dict[str, Any]:
        logs = [self._log_state(cast(Log, partition.log)) for partition in self.partitions]
        return {"logs": logs, "reported": self.has_reported, "woken": self.woken, "later": self.answered()}

    def _log_state(self, log: Log) -> dict[str, Any]:
        segments = [
            (
                segment.base_offset,
                segment.is_torn,
                segment.first_batch_timestamp,
                segment.max_timestamp,
                segment.offset_of_max_timestamp,
                segment._bytes_since_entry,
                [segment.offset_index.entry(number) for number in range(segment.offset_index.count)],
                [segment.time_index.entry(number) for number in range(segment.time_index.count)],
                segment.file.pread(1 << 20, 0)[: segment.size_bytes],
            )
            for segment in log.segments
        ]
        producers = {
            key: (entry.epoch, entry.last_timestamp, entry.transaction_first_offset, list(entry.batches))
            for key, entry in log.producers.entries.items()
        }
        return {
            "offsets": (log.log_start_offset, log.high_watermark, log.log_end_offset),
            "failure": log.failure is not None,
            "epochs": list(log.epochs.entries),
            "producers": (producers, log.producers.end_offset, log.producers.first_undecided_offset),
            "segments": segments,
        }

    def close(self) -> None:
        self.disk.heal()
        for answer, _ in self.waiting:
            answer.abandon()
        for partition in self.partitions:
            cast(Log, partition.log).close(clean=False)
        self.disk.close()


def _encoded(route: _Route, response: ProduceResponse) -> bytes:
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                part.error_message = None  # it names the directory
    return b"".join(route.frame(response, 7))  # type: ignore[arg-type]


def _frame(
    version: int, batch: bytes | bytearray | None, *, acks: int = 1, client: str | None = "test"
) -> bytes:
    data = ProduceRequest.PartitionProduceData(index=0, records=None if batch is None else memoryview(batch))
    topic = ProduceRequest.TopicProduceData(
        name="news" if version < 13 else "",
        topic_id=TOPIC_ID if version >= 13 else bytes(16),
        partition_data=[data],
    )
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[topic])
    return request_frame(request, version, 7, client)[4:]


def _with_records_size(version: int, frame: bytes, size: bytes) -> bytes:
    """A request with other bytes as the size of its records: one of the client id "test"."""
    at = 15 + 8 + (16 if version >= 13 else 5) + 5
    end = at
    while frame[end] & 0x80:
        end += 1
    return frame[:at] + size + frame[end + 1 :]


def _spread(number: int, count: int, last_bits: int) -> bytes:
    """A number as a varint of `count` bytes, whose last one has other bits too."""
    parts = [(number >> 7 * place) & 0x7F | 0x80 for place in range(count)]
    parts[-1] = parts[-1] & 0x7F | last_bits
    return bytes(parts)


@st.composite
def _batches(draw: st.DrawFn) -> bytearray:
    count = draw(st.sampled_from([1, 1, 1, 2, 5]))
    key = draw(st.sampled_from([None, b"", b"k"]))
    value = b"v" * draw(st.sampled_from([0, 1, 40, 200]))
    first = draw(st.sampled_from(TIMES))
    records = [
        Record(number, min(first + draw(st.integers(0, 2)), LONG_MAX), key, value) for number in range(count)
    ]
    options: dict[str, Any] = {"codec": draw(st.sampled_from([*[Codec.NONE] * 7, Codec.GZIP]))}
    if draw(st.booleans()):
        options |= {
            "producer_id": draw(st.integers(5, 6)),
            "producer_epoch": draw(st.integers(0, 2)),
            "base_sequence": draw(st.sampled_from([0, 0, 1, 2, 3, 4, 5, 2**31 - 1])),
            "transactional": draw(st.integers(0, 20)) == 0,
        }
    batch = build_batch(records, **options)
    bend = draw(st.integers(0, 9))
    if bend == 0:
        layout_at = draw(st.sampled_from(sorted(FIELDS)))
        layout = FIELDS[layout_at]
        bits = {"b": 8, "h": 16, "i": 32, "q": 64}[layout[1]]
        value_at = (draw(st.sampled_from(EXTREMES)) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        pack_into(layout, batch, layout_at, value_at)
    elif bend == 1:
        batch[draw(st.integers(HEADER_BYTES, len(batch) - 1))] = draw(st.integers(0, 255))
    elif bend == 2:
        batch += batch[: draw(st.sampled_from([1, 11, 30, len(batch)]))]
    elif bend == 3:
        del batch[draw(st.integers(HEADER_BYTES, len(batch))) :]
    if draw(st.integers(0, 9)):  # so that a change is not only found by the checksum
        write_crc(batch, 0, len(batch))
    return batch


@st.composite
def _requests(draw: st.DrawFn) -> tuple[str, int, bytes]:
    version = draw(st.sampled_from([9, 12, 13]))
    batch = draw(_batches())
    client = draw(st.sampled_from(["test", "test", "test", None, "", "__admin_client"]))
    frame = _frame(version, batch, acks=draw(st.sampled_from([1, 1, 1, -1, -1, 0, 2])), client=client)
    bend = draw(st.integers(0, 9))
    if bend == 0 and client == "test":
        size = _spread(len(batch) + 1, draw(st.integers(2, 6)), draw(st.sampled_from([0, 1, 0x10, 0x80])))
        frame = _with_records_size(version, frame, size)
    elif bend == 1:
        bent = bytearray(frame)
        bent[draw(st.integers(8, min(len(bent), 60) - 1))] = draw(
            st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 255])
        )
        frame = bytes(bent)
    elif bend == 2:
        frame = frame[: draw(st.integers(8, len(frame)))] if draw(st.booleans()) else frame + b"\0"
    return "request", version, frame


@st.composite
def _sound_batches(draw: st.DrawFn) -> bytearray:
    records = [Record(number, START_MS, b"k", b"v") for number in range(draw(st.integers(1, 3)))]
    if draw(st.integers(0, 3)):
        return build_batch(records)
    return build_batch(records, producer_id=5, producer_epoch=0, base_sequence=draw(st.integers(0, 3)))


@st.composite
def _large_requests(draw: st.DrawFn) -> tuple[str, int, bytes]:
    """Batches for several partitions of several topics, some of them more than once or unknown. Half of the
    requests are sound."""
    version = draw(st.sampled_from([9, 12, 13]))
    is_sound = draw(st.booleans())
    batches = _sound_batches() if is_sound else st.one_of(_sound_batches(), _sound_batches(), _batches())
    known = [("news", TOPIC_ID), ("news", TOPIC_ID), ("olds", OTHER_ID)]
    topics = []
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        name, topic_id = draw(st.sampled_from([*known, *([] if is_sound else [("lost", bytes(16))])]))
        held = [0] if name == "olds" else [0, 1, 2]
        indexes = draw(
            st.lists(st.sampled_from(held if is_sound else [*held, *held, 7]), min_size=is_sound, max_size=12)
        )
        data = [
            ProduceRequest.PartitionProduceData(
                index=index,
                records=memoryview(draw(batches)),
            )
            for index in indexes
        ]
        topics.append(
            ProduceRequest.TopicProduceData(
                name=name if version < 13 else "",
                topic_id=topic_id if version >= 13 else bytes(16),
                partition_data=data,
            )
        )
    request = ProduceRequest(
        acks=draw(st.sampled_from([1, 1, 1, -1, -1, -1, 0])),
        timeout_ms=draw(st.sampled_from([0, 60_000, 60_000])),
        topic_data=topics,
    )
    frame = request_frame(request, version, 7, "test")[4:]
    bend = draw(st.integers(0, 14))
    if bend == 0:
        bent = bytearray(frame)
        bent[draw(st.integers(8, len(bent) - 1))] = draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 255]))
        frame = bytes(bent)
    elif bend == 1:
        frame = frame[: draw(st.integers(8, len(frame)))] if draw(st.booleans()) else frame + b"\0"
    return "request", version, frame


_which = st.integers(0, len(PARTITIONS) - 1)
_changes = st.one_of(
    st.tuples(st.just("config"), _which, st.sampled_from(sorted(CONFIGS))),
    st.tuples(st.just("epoch"), _which, st.integers(-1, 6)),
    st.tuples(st.just("replicas"), _which, st.integers(1, 2)),
    st.tuples(st.just("leader"), _which, st.booleans()),
    st.tuples(st.just("followers"), _which, st.integers(0, 2)),
    st.tuples(st.just("fetched"), _which, st.integers(2, 3)),
    st.tuples(st.just("fetched"), _which, st.integers(2, 3)),
    st.tuples(st.just("clock"), st.integers(-2000, 5000)),
    st.tuples(st.just("verify"), _which, st.integers(0, 3)),
    st.tuples(st.just("truncating"), _which, st.booleans()),
    st.tuples(
        st.just("fault"),
        st.sampled_from(["write", "write and truncate", "", ""]),
        st.sampled_from([5, 28]),
        st.sampled_from(["", "-1/"]),
    ),
)


def _change(side: _Side, change: tuple[Any, ...]) -> None:
    partition = side.partitions[change[1]] if change[0] not in ("clock", "fault") else side.partition
    log = cast(Log, partition.log)
    match change:
        case "config", _, name:
            log.reconfigure(CONFIGS[name]())
        case "epoch", _, epoch:
            partition.leader_epoch = max(epoch, partition.leader_epoch)
        case "replicas", _, count:
            partition.min_insync_replicas = count
        case "leader", _, is_leader:
            partition.is_leader = is_leader
            if not is_leader:
                partition.leadership = None
            partition.notify_all()
        case "followers", _, count:
            _lead(partition, [1, 2, 3][: count + 1])
        case "fetched", _, node:
            if partition.leadership is not None and node in partition.leadership.followers:
                partition.follower_fetched(node, -1, log.log_end_offset, 0, names_epoch=True)
        case "clock", step_ms:
            side.clock.time_ms += step_ms
        case "verify", _, sequence:
            entry = log.producers.entries.get(5)
            epoch = entry.epoch if entry is not None else 0
            log.start_transaction_verification(5, sequence, epoch, supports_epoch_bump=True)
        case "truncating", _, is_pending:
            log.truncations_pending = int(is_pending)
        case "fault", kind, code, where:
            side.disk.fault = lambda asked, path: (
                code if asked in kind.split() and path.endswith(".log") and where in path else 0
            )


def _lead(partition: Partition, in_sync: list[int]) -> None:
    """Replicas 2 and 3 follow the partition, and these of the three are in sync."""
    environment: Any = SimpleNamespace(
        node_id=1, broker_epoch=1, brokers={}, lag_max_ms=1000, now_ms=lambda: 0
    )
    partition.leadership = leadership = Leadership(environment)
    leadership.min_insync_replicas = partition.min_insync_replicas
    leadership.take(
        replicas=[1, 2, 3],
        isr=in_sync,
        leader_epoch=partition.leader_epoch,
        partition_epoch=0,
        end_offset=cast(Log, partition.log).log_end_offset,
    )
    partition.isr = in_sync


@settings(max_examples=300, deadline=None)
@given(
    config=st.sampled_from(sorted(CONFIGS)),
    steps=st.lists(
        st.one_of(_requests(), _requests(), _large_requests(), _large_requests(), _changes),
        min_size=1,
        max_size=12,
    ),
)
@example(  # a number of six bytes, of which a reader of five sees a good one
    config="usual",
    steps=[
        ("request", 12, _with_records_size(12, _frame(12, batch), _spread(len(batch) + 1, 5, 0x80)))
        for batch in [build_batch([Record(0, START_MS, None, b"v" * 9)])]
    ],
)
@example(  # a write of which the rest cannot be removed
    config="usual",
    steps=[
        ("request", 13, _frame(13, build_batch([Record(0, START_MS, None, b"v")]))),
        ("fault", "write and truncate", 28, ""),
        ("request", 13, _frame(13, build_batch([Record(0, START_MS, None, b"v")]))),
    ],
)
def test_two_nodes_agree_whatever_they_are_asked(
    tmp_path_factory: pytest.TempPathFactory, config: str, steps: list[tuple[Any, ...]]
) -> None:
    asyncio.run(_compare(tmp_path_factory.mktemp("ways"), CONFIGS[config](), steps))


async def _compare(directory: Path, config: LogConfig, steps: list[tuple[Any, ...]]) -> None:
    quick = _Side(directory / "quick", config, is_quick=True)
    general = _Side(directory / "general", config, is_quick=False)
    try:
        for step in steps:
            if step[0] == "request":
                assert quick.ask(*step[1:]) == general.ask(*step[1:])
            else:
                _change(quick, step)
                _change(general, step)
            await asyncio.sleep(0)  # a request may have a deadline of 0 ms
            await asyncio.sleep(0)
            assert quick.state() == general.state()
    finally:
        quick.close()
        general.close()


def test_a_file_that_cannot_be_opened_leaves_the_request_as_it_was(tmp_path: Path) -> None:
    side = _Side(tmp_path / "side", LogConfig(), is_quick=True)
    frame = _frame(13, build_batch([Record(0, START_MS, None, b"v")]))
    side.ask(13, frame)
    assert side.quick_answers == 1
    side.log.segments.active.close_handles()
    side.disk.fail_on("open", ".log", errno.EMFILE)
    assert f"{ErrorCode.KAFKA_STORAGE_ERROR:04x}" in _error_code(side.ask(13, frame))
    assert side.has_reported
    side.disk.heal()
    side.ask(13, frame)
    assert side.log.log_end_offset == 2
    side.close()


def _error_code(answer: bytes | str) -> str:
    assert isinstance(answer, bytes)
    at = 4 + 4 + 1 + 1 + len(TOPIC_ID) + 1 + 4
    return answer[at : at + 2].hex()


def test_a_write_that_fails_once_is_reported(tmp_path: Path) -> None:
    """A disk that fails takes its directory offline, even if it would take the same write a moment later."""
    side = _Side(tmp_path / "side", LogConfig(), is_quick=True)
    frame = _frame(13, build_batch([Record(0, START_MS, None, b"v")]))
    side.ask(13, frame)
    faults = iter([errno.EIO])
    side.disk.fault = lambda asked, path: next(faults, 0) if asked == "write" else 0
    side.ask(13, frame)
    assert side.has_reported
    side.close()


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_disk_that_fails_in_the_middle_acknowledges_nothing_that_no_follower_has(
    tmp_path: Path, is_quick: bool
) -> None:
    """The directory goes offline with all its partitions, also those to which the request has appended."""

    async def run() -> None:
        side = _Side(tmp_path / "side", LogConfig(), is_quick=is_quick)
        logs = [cast(Log, partition.log) for partition in side.partitions]
        for partition in side.partitions[:2]:
            _lead(partition, [1, 2])
        first = _frame_of_many(acks=1, indexes=[0, 1, 2])
        side.ask(12, first)

        def take_offline(log: Log, error: OSError) -> Exception:
            for partition in side.partitions:
                partition.log = None
                partition.leadership = None
                partition.notify_all()
            return KafkaStorageError(str(error))

        side.broker.directories.storage_error = take_offline
        side.disk.fault = lambda asked, path: (
            errno.EIO if asked == "write" and path.endswith(".log") and "-2/" in path else 0
        )
        answer = side.ask(12, _frame_of_many(acks=-1, indexes=[0, 1, 2, 0]))
        assert logs[0].log_end_offset == 2
        assert answer == "waits"
        [answered] = side.answered()
        assert answered is not None
        response, _ = codec.decoder(ProduceResponse, 12)(memoryview(answered), 9)
        codes = [part.error_code for topic in response.responses for part in topic.partition_responses]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 4
        assert side.begun_answers == is_quick
        for partition, log in zip(side.partitions, logs, strict=True):
            partition.log = log
        side.close()

    asyncio.run(run())


def _frame_of_many(*, acks: int, indexes: list[int]) -> bytes:
    topic = ProduceRequest.TopicProduceData(
        name="news",
        partition_data=[
            ProduceRequest.PartitionProduceData(
                index=index, records=memoryview(build_batch([Record(0, START_MS, None, b"v")]))
            )
            for index in indexes
        ],
    )
    request = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[topic])
    return request_frame(request, 12, 7, "test")[4:]


@pytest.mark.parametrize("error", [KafkaStorageError("x"), OSError(errno.EIO, "x")])
def test_a_watcher_that_fails_neither_doubles_a_batch_nor_blames_the_disk(
    tmp_path: Path, error: Exception
) -> None:
    side = _Side(tmp_path / "side", LogConfig(), is_quick=True)
    side.ask(12, _frame_of_many(acks=1, indexes=[0, 1, 2]))

    def fail() -> bool:
        raise error

    side.partitions[1].growth.add(fail)
    answer = side.ask(12, _frame_of_many(acks=1, indexes=[0, 1, 2]))
    assert isinstance(answer, bytes)
    (topic,) = codec.decode(ProduceResponse, answer, 12, 9).responses
    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    assert [one.error_code for one in topic.partition_responses] == [0, failed, 0]
    assert [cast(Log, partition.log).log_end_offset for partition in side.partitions[:3]] == [2, 2, 2]
    assert not side.has_reported
    side.close()
