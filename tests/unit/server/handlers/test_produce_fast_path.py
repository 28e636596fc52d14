"""The quick way of a produce request against the general one: same answers, same log, or left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.host import HostDisk
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.batch import Codec
from ottla.records.record import Record, build_batch
from ottla.server.handlers import produce
from ottla.server.handlers.produce_fast_path import express
from ottla.server.net.dispatch import RequestContext, _Route
from ottla.server.replicas.partition import Partition, Partitions
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


class _Side:
    """A broker with one topic of one partition, as far as produce requests see it."""

    def __init__(self, directory: Path, config: LogConfig) -> None:
        self.disk = HostDisk(threads=1)
        directory.mkdir()
        self.log = Log.open(
            self.disk, _Clock(), str(directory), config, topic="news", partition=0, topic_id=TOPIC_ID
        )
        self.partition = Partition("news", TOPIC_ID, 0, self.log)
        self.partition.is_leader = True
        self.partition.leader_epoch = 3
        self.partition.isr = [1]
        partitions = Partitions()
        partitions.add(self.partition)
        self.broker: Any = SimpleNamespace(
            partitions=partitions,
            clock=_Clock(),
            image=SimpleNamespace(topics={}, topics_by_name={}),
            directories=SimpleNamespace(storage_error=self._storage_error),
            # The coordinator has nothing against any write.
            transactions=SimpleNamespace(verification=SimpleNamespace(check=lambda _writing: ({}, {}))),
        )

    def _storage_error(self, log: Log, error: OSError) -> Exception:
        return KafkaStorageError(str(error))

    def general(self, version: int, frame: bytes) -> bytes | str:
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
        response = produce.handle(self.broker, request, context)
        return "no answer" if response is None else b"".join(route.frame(response, 7))  # type: ignore[arg-type]

    def quick(self, version: int, frame: bytes) -> bytes | str:
        """The same, by the quick way where it takes the request."""
        own = memoryview(bytearray(frame))
        try:
            _, position = read_client_id(own, True)
            way = express(version)
            answer = way(self.broker, own, position, 7) if way is not None else None
        except MalformedMessage as error:
            return str(error)
        assert answer is not None or own == frame, "a request that is left alone is left as it was"
        return self.general(version, frame) if answer is None else answer

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
def test_the_usual_request_goes_the_quick_way(side: _Side, version: int, acks: int) -> None:
    way = express(version)
    assert way is not None
    frame = memoryview(bytearray(_frame(version, [_batch(100)], acks=acks)))
    answer = way(side.broker, frame, read_client_id(frame, True)[1], 7)
    assert answer is not None
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
    way = express(13)
    assert way is not None
    assert way(side.broker, frame, read_client_id(frame, True)[1], 7) is None
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
    way = express(13)
    assert way is not None
    assert way(side.broker, frame, read_client_id(frame, True)[1], 7) is None
    assert frame == before


def test_old_versions_have_no_quick_way() -> None:
    assert [version for version in range(14) if express(version) is not None] == VERSIONS
