"""Two followers get the same responses, one of them without the fast path.

After each response the next request has the same bytes, and logs, positions and notified waiters are the
same: for whole and damaged batches, growth, watermarks, truncations, errors, pauses and changes of what is
followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.log.support import FakeClock, FaultyDisk

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.batch import Codec, write_crc
from ottla.records.record import Record, build_batch
from ottla.replication.fetch_exchange import FetchExchange
from ottla.replication.fetcher import Fetcher, FetchSettings
from ottla.replication.follower import Plan
from ottla.replication.throttle import Throttle
from ottla.wire.errors import ErrorCode, KafkaError, KafkaStorageError
from ottla.wire.frame import read_response, request_frame, response_frame
from ottla.wire.messages.fetch import FetchResponse

EPOCH = 5
KEYS = [(b"a" * 16, 0), (b"a" * 16, 1), (b"b" * 16, 0)]
CLIENT = "broker-2-fetcher-0"
VERSION = 18
SESSION = 77


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Errors are reported in the log, and hypothesis makes many."""
    with caplog.at_level(logging.CRITICAL, "ottla"):
        yield


class _Replica:
    def __init__(self, key: tuple[bytes, int], log: Log, woken: list[Any]) -> None:
        self.topic, self.topic_id, self.index = key[0].decode(), key[0], key[1]
        self.leader_id, self.leader_epoch = 9, EPOCH
        self.log: Log | None = log
        self.watermark_moved = partial(woken.append, key)


class _Side:
    """A follower of three partitions in a session with node 9."""

    def __init__(self, directory: Path, config: LogConfig, *, is_quick: bool) -> None:
        directory.mkdir()
        self.is_quick = is_quick
        self.disk = FaultyDisk()
        self.clock = FakeClock()
        self.woken: list[Any] = []
        self.errors: list[str] = []
        self.quick_count = 0
        self.broker_epoch = 20
        self.throttle = Throttle()
        self.fetcher = Fetcher(
            9,
            2,
            lambda: self.broker_epoch,
            clock=self.clock,
            storage=self,
            ask=self._ask,
            settings=FetchSettings(backoff_ms=1000),
            throttle=self.throttle,
        )
        self.logs: dict[Any, Log] = {}
        for key in KEYS:
            log = Log.open(
                self.disk,
                self.clock,
                f"{directory}/{key[0].decode()}-{key[1]}",
                config,
                topic=key[0].decode(),
                partition=key[1],
            )
            self.logs[key] = log
            for base in range(2):
                log.append_as_follower(memoryview(_batch(base, 1)), leader_epoch=EPOCH)
            self.fetcher.follow(_Replica(key, log, self.woken), log)
        self.exchange: FetchExchange = self.fetcher._exchange
        self.plan: Plan | None = None
        self.correlation_id = 0

    async def _ask(self, _leader_id: int, _request: Any) -> Any:
        raise KafkaStorageError("Its offsets are not known here.")

    async def truncate_to(self, log: Log, offset: int) -> bool:
        return log.truncate_to(offset)

    async def start_over(self, log: Log, offset: int) -> None:
        log.truncate_fully_and_start_at(offset)

    def storage_error(self, log: Log, error: OSError) -> KafkaError:
        self.errors.append(log.name)
        return KafkaStorageError(str(error))

    async def flush(self, log: Log) -> None:
        log.flush()

    def ask(self) -> bytes | None:
        """The next request the general way; None if there is nothing to fetch."""
        self.plan = self.fetcher._plan()
        if self.plan is None:
            return None
        self.correlation_id += 1
        request = self.fetcher._request(self.plan)
        if self.is_quick and self.exchange.may_follow(self.plan):
            assert self.exchange.begin(request, VERSION, CLIENT)
        return request_frame(request, VERSION, self.correlation_id, CLIENT)

    async def take(self, frame: bytes) -> bytes | None:
        """The request after this response."""
        assert self.plan is not None
        if self.is_quick and self.plan.session_epoch > 0:
            following = self.exchange.take(frame, self.correlation_id)
            if following is not None:
                self.quick_count += 1
                self.correlation_id += 1
                return following
        _, response = read_response(frame, 1, VERSION)
        if self.fetcher.following.session.on_response(response.error_code, response.session_id):
            await self.fetcher._handle_response(self.plan, response)
        return self.ask()

    def state(self) -> dict[str, Any]:
        following = self.fetcher.following
        return {
            "logs": {
                key: (
                    log.log_start_offset,
                    log.high_watermark,
                    log.log_end_offset,
                    log.failure is not None,
                    list(log.epochs.entries),
                    log.producers.end_offset,
                    {
                        number: (entry.epoch, list(entry.batches), entry.transaction_first_offset)
                        for number, entry in log.producers.entries.items()
                    },
                    [
                        (
                            segment.base_offset,
                            segment.size_bytes,
                            segment.max_timestamp,
                            segment.offset_of_max_timestamp,
                            segment._bytes_since_entry,
                            [segment.offset_index.entry(at) for at in range(segment.offset_index.count)],
                            [segment.time_index.entry(at) for at in range(segment.time_index.count)],
                            segment.file.pread(1 << 20, 0)[: segment.size_bytes],
                        )
                        for segment in log.segments
                    ],
                )
                for key, log in self.logs.items()
            },
            "positions": [
                (key, one.offset, one.last_fetched_epoch, one.lag, one.resume_ms)
                for key, one in following.positions.items()
            ],
            "session": following.session._epoch,
            "woken": self.woken,
            "failing": bool(self.errors),
        }

    def close(self) -> None:
        self.disk.heal()
        for log in self.logs.values():
            log.close(clean=False)
        self.disk.close()


def _batch(offset: int, count: int, epoch: int = EPOCH, **options: Any) -> bytearray:
    time_ms = options.pop("time_ms", 1_000)
    made = build_batch(
        [Record(number, time_ms + number, None, b"v" * 9) for number in range(count)], **options
    )
    made[:8] = offset.to_bytes(8, "big")
    made[12:16] = epoch.to_bytes(4, "big")
    return made


_PLAIN = {"count": 1, "gap": 0, "epoch": EPOCH, "time_ms": 1_000, "producer": None, "kind": "plain"}
_batches = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.integers(1, 3),
            "gap": st.sampled_from([0] * 12 + [1, -1]),
            "epoch": st.sampled_from([EPOCH] * 12 + [EPOCH - 1, EPOCH + 1]),
            "time_ms": st.sampled_from([1_000, 1_000, 5, 2_000, 9_000_000]),
            "producer": st.sampled_from([None, None, None, 0, 1]),
            "kind": st.sampled_from([*["plain"] * 9, "gzip", "transactional", "damaged", "other format"]),
        }
    ),
    max_size=4,
)
_parts = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "batches": _batches,
        "cut": st.sampled_from([0] * 9 + [1, 20, 70]),
        "behind": st.sampled_from([0, 0, 1, 2, 50]),
        "fields": st.sampled_from(
            [
                *[{}] * 12,
                {"log_start_offset": 1},
                {"error_code": int(ErrorCode.NOT_LEADER_OR_FOLLOWER)},
                {"error_code": int(ErrorCode.FENCED_LEADER_EPOCH)},
                {"error_code": int(ErrorCode.OFFSET_OUT_OF_RANGE)},
                {"diverging_epoch": FetchResponse.EpochEndOffset(epoch=EPOCH, end_offset=1)},
                {"aborted_transactions": []},
            ]
        ),
    }
)
_responses = st.tuples(
    st.just("response"),
    st.lists(_parts, max_size=3),
    st.sampled_from([*[""] * 16, "session", "no session", "error", "cut", "longer"]),
)
_changes = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([1, 1000])),
    st.tuples(st.just("forget"), st.sampled_from(KEYS)),
    st.tuples(st.just("follow"), st.sampled_from(KEYS)),
    st.tuples(st.just("throttle"), st.booleans()),
    st.tuples(st.just("epoch")),
    st.tuples(st.just("start"), st.sampled_from(KEYS)),
    st.tuples(
        st.just("fault"), st.sampled_from(["", "", "write", "write and truncate"]), st.sampled_from([5, 28])
    ),
)
CONFIGS = {
    "usual": LogConfig(index_interval_bytes=150),
    "small segments": LogConfig(segment_bytes=500, index_interval_bytes=1),
    "rolled soon": LogConfig(segment_ms=1000, index_interval_bytes=1),
    "flushed": LogConfig(flush_messages=2),
}


def _response(side: _Side, parts: list[dict[str, Any]], bend: str) -> bytes:
    topics: dict[bytes, list[Any]] = {}
    sequences: dict[int, int] = {}
    for part in parts:
        key = part["key"]
        log = side.logs[key]
        offset = log.log_end_offset
        records = bytearray()
        for one in part["batches"]:
            options: dict[str, Any] = {"time_ms": one["time_ms"]}
            if one["kind"] == "gzip":
                options["codec"] = Codec.GZIP
            if one["producer"] is not None:
                known = log.producers.entries.get(one["producer"])
                base = sequences.get(one["producer"], known.last_sequence + 1 if known is not None else 0)
                sequences[one["producer"]] = base + one["count"]
                options |= {"producer_id": one["producer"], "producer_epoch": 1, "base_sequence": base}
                options["transactional"] = one["kind"] == "transactional"
            offset = max(offset + one["gap"], 0)
            batch = _batch(offset, one["count"], one["epoch"], **options)
            offset += one["count"]
            if one["kind"] == "damaged":
                batch[-1] ^= 1
            elif one["kind"] == "other format":
                batch[16] = 3
                write_crc(batch, 0, len(batch))
            records += batch
        records = records[: max(len(records) - part["cut"], 0)]
        topics.setdefault(key[0], []).append(
            FetchResponse.PartitionData(
                partition_index=key[1],
                records=bytes(records),
                **(
                    {
                        "high_watermark": max(offset - part["behind"], 0),
                        "last_stable_offset": 0,
                        "log_start_offset": 0,
                        "aborted_transactions": None,
                    }
                    | part["fields"]
                ),
            )
        )
    response = FetchResponse(
        error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND) if bend == "error" else 0,
        session_id={"session": SESSION + 1, "no session": 0}.get(bend, SESSION),
        responses=[
            FetchResponse.FetchableTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )
    return response_frame(response, VERSION, side.correlation_id)[4:]


def _change(side: _Side, step: tuple[Any, ...]) -> None:
    match step:
        case "wait", wait_ms:
            side.clock.time_ms += wait_ms
        case "forget", key:
            side.fetcher.forget(key)
        case "follow", key:
            log = side.logs[key]
            side.fetcher.forget(key)
            side.fetcher.follow(_Replica(key, log, side.woken), log)
        case "throttle", is_on:
            side.throttle.set_topic("a" * 16, None if is_on else frozenset())
        case ("epoch",):
            side.broker_epoch += 1
        case "start", key:
            log = side.logs[key]
            log.increase_log_start_offset(log.high_watermark, "a test")
        case "fault", kind, code:
            side.disk.fault = lambda asked, path: (
                code if asked in kind.split() and path.endswith(".log") else 0
            )


@settings(max_examples=60, deadline=None)
@given(
    config=st.sampled_from(sorted(CONFIGS)),
    steps=st.lists(st.one_of(_responses, _responses, _responses, _changes), min_size=2, max_size=14),
)
@example(
    config="usual",
    steps=[
        ("response", [], ""),
        (
            "response",
            [
                {
                    "key": KEYS[0],
                    "batches": [
                        {
                            "count": 1,
                            "gap": 0,
                            "epoch": EPOCH,
                            "time_ms": 1_000,
                            "producer": 0,
                            "kind": "plain",
                        }
                    ],
                    "cut": 0,
                    "behind": 1,
                    "fields": {},
                }
            ],
            "",
        ),
    ],
)
@example(
    config="usual",
    steps=[
        (
            "response",
            [
                {"key": KEYS[0], "batches": [], "cut": 0, "behind": 0, "fields": {}},
                {"key": KEYS[1], "batches": [_PLAIN], "cut": 0, "behind": 0, "fields": {}},
                {"key": KEYS[2], "batches": [_PLAIN | {"gap": -1}], "cut": 0, "behind": 0, "fields": {}},
            ],
            "",
        ),
        ("response", [], ""),
    ],
)
def test_two_followers_agree_whatever_they_are_sent(
    tmp_path_factory: pytest.TempPathFactory, config: str, steps: list[tuple[Any, ...]]
) -> None:
    directory = tmp_path_factory.mktemp("exchanges")

    async def both() -> None:
        sides = [
            _Side(directory / name, CONFIGS[config], is_quick=name == "quick")
            for name in ("quick", "general")
        ]
        quick, general = sides
        try:
            requests = [side.ask() for side in sides]
            for step in (("response", [], ""), *steps):
                if step[0] != "response":
                    for side in sides:
                        _change(side, step)
                    continue
                if requests[0] is None:
                    requests = [side.ask() for side in sides]
                    continue
                frame = _response(general, step[1], step[2])
                assert frame == _response(quick, step[1], step[2])
                if step[2] in ("cut", "longer"):
                    frame = frame[:-1] if step[2] == "cut" else frame + b"\0"
                    if quick.plan is not None and quick.plan.session_epoch > 0:
                        assert quick.exchange.take(frame, quick.correlation_id) is None
                    continue  # the general way closes the connection
                requests = [await side.take(frame) for side in sides]
                assert requests[0] == requests[1]
                assert quick.state() == general.state()
        finally:
            for side in sides:
                side.close()

    asyncio.run(both())


def test_the_fast_path_takes_what_leaders_usually_send(tmp_path: Path) -> None:
    async def main() -> None:
        side = _Side(tmp_path / "side", LogConfig(), is_quick=True)
        side.ask()
        await side.take(_response(side, [], ""))
        plain = {"count": 2, "gap": 0, "epoch": EPOCH, "time_ms": 1_000, "producer": None, "kind": "plain"}
        parts = [{"key": key, "batches": [plain, plain], "cut": 0, "behind": 1, "fields": {}} for key in KEYS]
        for count in range(4):
            await side.take(_response(side, parts[:count], ""))
        assert side.quick_count == 4
        assert [log.log_end_offset for log in side.logs.values()] == [14, 10, 6]
        assert [log.high_watermark for log in side.logs.values()] == [13, 9, 5]
        side.close()

    asyncio.run(main())
