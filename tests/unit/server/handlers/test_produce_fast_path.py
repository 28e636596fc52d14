"""The fast path of a produce request against the general one: same answers, same log, or left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla.records
from ottla.failures import Failures
from ottla.host import HostDisk
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.producer_state import RememberedBatch
from ottla.records.batch import Codec, iterate_headers
from ottla.records.record import Record, build_batch
from ottla.server.handlers import produce
from ottla.server.handlers.produce_fast_path import Begun, ProduceExpress
from ottla.server.net.dispatch import RequestContext, _Route
from ottla.server.replicas.partition import Partition, Partitions
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import KafkaStorageError, MalformedMessage
from ottla.wire.frame import read_client_id, request_frame
from ottla.wire.messages.produce import ProduceRequest

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
VERSIONS = [9, 10, 11, 12, 13]


class _Clock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 1.0


def no_wait(*_: object) -> PendingResponse:
    raise AssertionError("a request waits for replicas that the partition does not have")


class _Partition(Partition):
    """One whose methods a test may replace."""


class _Side:
    """A broker with one topic of one partition, as far as produce requests see it."""

    def __init__(self, directory: Path, config: LogConfig) -> None:
        self.disk = HostDisk(threads=1)
        directory.mkdir()
        self.log = Log.open(
            self.disk, _Clock(), str(directory), config, topic="news", partition=0, topic_id=TOPIC_ID
        )
        self.partition = _Partition("news", TOPIC_ID, 0, self.log)
        self.partition.is_leader = True
        self.partition.leader_epoch = 3
        self.partition.isr = [1]
        partitions = Partitions()
        partitions.add(self.partition)
        self.broker: Any = SimpleNamespace(
            partitions=partitions,
            clock=_Clock(),
            lateness=SimpleNamespace(latest_api=-1),
            image=SimpleNamespace(topics={}, topics_by_name={}),
            directories=SimpleNamespace(storage_error=self._storage_error),
            failures=Failures(),
            # The coordinator has nothing against any write.
            transactions=SimpleNamespace(verification=SimpleNamespace(check=lambda _writing: ({}, {}))),
        )

    def _storage_error(self, log: Log, error: OSError) -> Exception:
        return KafkaStorageError(str(error))

    def general(self, version: int, frame: bytes, begun: Begun | None = None) -> bytes | str:
        """The answer's frame, or why the connection would be closed."""
        route = _Route(produce.handle, 0, version)
        own = memoryview(bytearray(frame))
        try:
            _, position = read_client_id(own, True)
            request, _ = route.decode(own, position)
        except MalformedMessage as error:
            return str(error)
        assert isinstance(request, ProduceRequest)
        connection: Any = SimpleNamespace(close=lambda reason: None)
        context = RequestContext(version, 7, "test", connection, "PLAINTEXT")
        context.begun = begun
        response = produce.handle(self.broker, request, context)
        return "no answer" if response is None else b"".join(route.frame(response, 7))  # type: ignore[arg-type]

    def quick(self, version: int, frame: bytes) -> bytes | str:
        """The same, by the fast path where it takes the request."""
        own = memoryview(bytearray(frame))
        express = ProduceExpress(self.broker, no_wait)
        answer = express.answer(own, 0, len(own))
        if answer is not None:
            assert isinstance(answer, bytes)
            return answer
        assert express.begun or own == frame, "a request that is left alone is left as it was"
        return self.general(version, frame, express.begun)

    def express(self, frame: memoryview) -> bytes | PendingResponse | None:
        return ProduceExpress(self.broker, no_wait).answer(frame, 0, len(frame))

    def producers(self) -> list[tuple[str, list[RememberedBatch], int]]:
        entries = self.log.producers.entries.values()
        return [(repr(entry), list(entry.batches), entry.last_timestamp) for entry in entries]

    def records(self) -> bytes:
        return self.log.segments.active.file.pread(1 << 20, 0)

    def close(self) -> None:
        self.log.close(clean=False)
        self.disk.close()


CONFIGS: dict[str, Callable[[], LogConfig]] = {
    "plain": LogConfig,
    "append time": lambda: LogConfig(message_timestamp_type="LogAppendTime"),
    "small": lambda: LogConfig(max_message_bytes=150),
    "compacted": lambda: LogConfig(cleanup_policy=frozenset(("compact",))),
}


def _batch(value_bytes: int, **options: Any) -> bytearray:
    return build_batch([Record(0, NOW_MS, None, b"v" * value_bytes)], **options)


def _frame(version: int, batches: list[bytes | bytearray | None], **options: Any) -> bytes:
    parts = [
        ProduceRequest.PartitionProduceData(
            index=options.get("index", 0) + at,
            records=None if batch is None else memoryview(batch),
        )
        for at, batch in enumerate(batches)
    ]
    topic = ProduceRequest.TopicProduceData(
        name=options.get("name", "news") if version < 13 else "",
        topic_id=options.get("topic_id", TOPIC_ID) if version >= 13 else bytes(16),
        partition_data=parts,
    )
    request = ProduceRequest(
        transactional_id=options.get("transactional_id"),
        acks=options.get("acks", 1),
        timeout_ms=1000,
        topic_data=[topic] * options.get("topics", 1),
    )
    return request_frame(request, version, 7, "test")[4:]


@st.composite
def _frames(draw: st.DrawFn) -> tuple[int, bytes]:
    """Requests that are mostly in order, and bent in one way or another."""
    version = draw(st.sampled_from(VERSIONS))
    options: dict[str, Any] = {"codec": draw(st.sampled_from([Codec.NONE, Codec.LZ4, Codec.GZIP]))}
    if draw(st.booleans()):
        options |= {
            "producer_id": 5,
            "producer_epoch": 0,
            "base_sequence": draw(st.integers(0, 3)),
            "transactional": draw(st.integers(0, 5)) == 0,
        }
    batch = _batch(draw(st.sampled_from([0, 1, 40, 200, 20_000])), **options)
    batches: list[bytes | bytearray | None] = [batch]
    bend = draw(st.integers(0, 12))
    if bend == 0:
        batch[draw(st.integers(0, len(batch) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif bend == 1:
        batches = draw(st.sampled_from([[], [None], [batch, batch], [batch + batch], [batch[:-3]]]))
    frame = _frame(
        version,
        batches,
        acks=draw(st.sampled_from([1, 1, 1, -1, 2])),
        index=1 if bend == 2 else 0,
        name="olds" if bend == 3 else "news",
        topic_id=bytes(16) if bend == 3 else TOPIC_ID,
        topics=2 if bend == 4 else 1,
        transactional_id="t" if bend == 5 else None,
    )
    if bend == 6:
        frame += b"more"
    elif bend == 7:
        frame = frame[: draw(st.integers(8, len(frame)))]
    elif bend == 8:
        bent = bytearray(frame)
        bent[draw(st.integers(8, min(len(bent), 120) - 1))] = draw(st.integers(0, 255))
        frame = bytes(bent)
    return version, frame


@settings(max_examples=150, deadline=None)
@given(config=st.sampled_from(sorted(CONFIGS)), asked=st.lists(_frames(), min_size=1, max_size=8))
def test_both_ways_answer_with_the_same_bytes_and_write_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, config: str, asked: list[tuple[int, bytes]]
) -> None:
    directory = tmp_path_factory.mktemp("sides")
    quick = _Side(directory / "quick", CONFIGS[config]())
    general = _Side(directory / "general", CONFIGS[config]())
    try:
        for version, frame in asked:
            if frame[10:14] != b"test":
                continue
            assert quick.quick(version, frame) == general.general(version, frame)
            assert quick.log.log_end_offset == general.log.log_end_offset
            assert quick.log.high_watermark == general.log.high_watermark
            assert quick.producers() == general.producers()
        assert quick.records() == general.records()
    finally:
        quick.close()
        general.close()


@pytest.fixture
def side(tmp_path: Path) -> Any:
    made = _Side(tmp_path / "side", LogConfig())
    yield made
    made.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_the_usual_request_goes_the_fast_path(side: _Side, version: int, acks: int) -> None:
    frame = memoryview(bytearray(_frame(version, [_batch(100)], acks=acks)))
    assert side.express(frame) is not None
    assert side.log.high_watermark == 1


@pytest.mark.parametrize("cause", ["acks", "replicas", "flush", "offline", "follower"])
def test_a_request_whose_answer_must_wait_or_fail_is_left_alone(
    tmp_path: Path, side: _Side, cause: str
) -> None:
    if cause == "replicas":
        side.partition.isr = [1, 2]
    elif cause == "flush":
        side.log.reconfigure(LogConfig(flush_messages=1))
    elif cause == "offline":
        side.partition.log = None
    elif cause == "follower":
        side.partition.is_leader = False
    before = _frame(13, [_batch(100)], acks=0 if cause == "acks" else 1)
    frame = memoryview(bytearray(before))
    assert side.express(frame) is None
    assert frame == before
    assert side.log.log_end_offset == 0


@pytest.mark.parametrize("kind", [bytearray, bytes])
def test_a_write_that_fails_leaves_the_request_as_it_was(
    side: _Side, monkeypatch: pytest.MonkeyPatch, kind: type[bytes | bytearray]
) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(side.log.segments.active.file), "pwrite", fail)
    before = _frame(13, [_batch(100)])
    frame = memoryview(kind(before))
    assert side.express(frame) is None
    assert frame == before


def test_a_request_lies_within_its_buffer(side: _Side) -> None:
    express = ProduceExpress(side.broker, no_wait)
    view = memoryview(bytearray(_frame(12, [_batch(100)])))
    for start, end in ((0, len(view) + 1), (-1, len(view)), (20, 10)):
        with pytest.raises(ValueError, match="no bytes"):
            express.answer(view, start, end)
    assert express.answer_read(view, len(view) + 1) is None


@pytest.mark.parametrize("version", range(3, 9))
def test_old_versions_have_no_fast_path(side: _Side, version: int) -> None:
    frame = memoryview(bytearray(_frame(version, [_batch(100)])))
    assert side.express(frame) is None
    assert side.log.log_end_offset == 0


def test_sequences_wrap_and_retries_are_recognized_in_both_ways(tmp_path: Path) -> None:
    quick = _Side(tmp_path / "quick", LogConfig())
    general = _Side(tmp_path / "general", LogConfig())
    records = [Record(number, NOW_MS, None, b"v") for number in range(2)]
    top = 2**31
    for sequence in (top - 6, top - 4, top - 4, top - 2, 0, top - 2, 2, 9, 4):
        batch = build_batch(records, producer_id=5, producer_epoch=0, base_sequence=sequence)
        frame = _frame(12, [batch])
        assert quick.quick(12, frame) == general.general(12, frame)
        assert quick.producers() == general.producers()
    assert quick.records() == general.records()
    assert quick.log.log_end_offset == 12
    quick.close()
    general.close()


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_batch_after_the_first_is_appended_in_one_step(side: _Side, idempotent: bool) -> None:
    """The first one of a segment and of a leader epoch is not."""
    for number in range(400):  # index entries too
        options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": number} if idempotent else {}
        frame = bytearray(_frame(12, [_batch(40, **options)]))
        assert side.express(memoryview(frame)) is not None
        if number == 0:
            side.partition.append = None  # type: ignore[assignment,method-assign]
    assert side.log.high_watermark == 400
    batches = list(iterate_headers(side.records()[: side.log.segments.active.size_bytes]))
    assert [header.base_offset for _, header in batches] == list(range(400))
    assert {header.partition_leader_epoch for _, header in batches} == {3}
    assert side.log.segments.active.offset_index.count > 0


GUARDED = """
# Every request ends where an unreadable page begins, so that one byte read too far ends this process.
import ctypes, mmap, random, sys
from pathlib import Path
from ottla.log.config import LogConfig
from ottla.records import KERNEL
from ottla.server.handlers.produce_fast_path import ProduceExpress
from tests.unit.server.handlers.test_produce_fast_path import _batch, _frame, _Side, no_wait
assert KERNEL == "compiled"
libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
area = mmap.mmap(-1, 2 * PAGE)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
assert libc.mprotect(ctypes.c_void_p(start + PAGE), PAGE, 0) == 0
source = random.Random(7)
side = _Side(Path(sys.argv[1]), LogConfig())
express = ProduceExpress(side.broker, no_wait)
answered = 0
for number in range(20_000):
    batches = [_batch(source.choice((0, 1, 40)))] * source.choice((1, 1, 3))
    frame = bytearray(_frame(source.choice((9, 12, 13)), batches, topics=source.choice((1, 1, 2))))
    for _ in range(source.choice((0, 1, 2))):
        value = source.choice((0, 1, 2, 0x7F, 0x80, 0xFF, source.randrange(256)))
        frame[source.randrange(8, len(frame))] = value
    if source.random() < 0.2:
        del frame[source.randrange(len(frame)) :]
    if number % 2:
        frame = bytearray(len(frame).to_bytes(4, "big")) + frame
    view = memoryview((ctypes.c_ubyte * len(frame)).from_address(start + PAGE - len(frame))).cast("B")
    view[:] = frame
    if number % 2:
        answered += express.answer_read(view, len(view)) is not None
    else:
        answered += express.answer(view, 0, len(view)) is not None
assert side.log.log_end_offset > answered  # some of them have two batches for the one partition
print("answered", answered)
side.close()
"""
ROOT = Path(__file__).resolve().parents[4]


def test_the_compiled_form_reads_no_byte_past_the_end_of_a_request(tmp_path: Path) -> None:
    if ottla.records.KERNEL != "compiled":
        pytest.skip("only the compiled form can read past the end: plain Python checks each index")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", GUARDED, str(tmp_path / "side")]
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, (result.returncode, result.stderr)
    assert int(result.stdout.split()[-1]) > 1000


def test_the_plain_form_passes_the_same_tests() -> None:
    if ottla.records.KERNEL != "compiled":
        pytest.skip("the plain form runs in this process already")
    others = ("handlers/test_produce_ways_agree.py", "../records/test_plain_batch.py")
    files = [__file__, *(str(ROOT / "tests/unit/server" / other) for other in others)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "OTTLA_KERNEL": "python"}
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "2 skipped" in result.stdout
