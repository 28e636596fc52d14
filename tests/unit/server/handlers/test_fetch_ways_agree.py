"""Two leaders get the same fetches of followers and consumers, one of them without the fast path.

After each step the bytes of all responses, the sessions, the progress of the followers, watermarks and ISR
changes are the same: also where logs grow, are truncated or fail, leader epochs and replicas change, and
topics are deleted in between, and for requests that a client would not send.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.log.support import FaultyDisk
from tests.unit.server.handlers.support import (
    LISTENER,
    add_topic,
    append,
    broker_of,
    connection_of,
    host_log,
    image_of,
)

from ottla.log.file_slice import FileSlice
from ottla.replication.leader import Leadership
from ottla.server.handlers import HANDLERS
from ottla.server.net.connection import Connection
from ottla.server.net.dispatch import Dispatcher
from ottla.server.replicas.fetch_sessions import FetchSession, FetchSessions
from ottla.server.replicas.replication import Replication
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import codec
from ottla.wire.errors import KafkaStorageError
from ottla.wire.frame import request_frame
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.metadata_records import RegisterBrokerRecord

TOPICS, PARTITIONS = ("news", "logs"), 2
PLACES = [(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
FOLLOWERS = (2, 3)
CLIENTS = (*FOLLOWERS, 0, -1)
"""Followers by their ids, and two consumers."""
START_MS = 1_000_000


class _Clock:
    def __init__(self) -> None:
        self.time_ms = START_MS

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000


class _Numbers:
    """Session ids in the same order on both sides."""

    def __init__(self) -> None:
        self.last = 0

    def below(self, bound: int) -> int:
        self.last += 1
        return self.last

    def bytes(self, count: int) -> bytes:
        return bytes(count)

    def fraction(self) -> float:
        return 0.5


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose time only a test moves."""

    now = 0.0

    def time(self) -> float:
        return self.now


class _Transport:
    """Collects what is written, and what slices of files hold."""

    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.write(part)

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Client:
    """A connection with the session of its fetches."""

    def __init__(self, side: _Side, client_id: int) -> None:
        self.replica_id = client_id if client_id > 0 else -1
        self.transport = _Transport()
        self.connection = connection_of()
        self.connection.is_closed = False
        self.connection.transport = self.transport  # type: ignore[assignment]
        self.session_id = self.session_epoch = 0
        self.seen = 0
        self.side = side

    def learn(self) -> None:
        """Take the session id from a response that has arrived whole."""
        new = self.transport.written[self.seen :]
        if len(new) < 4:
            return
        size = int.from_bytes(new[:4], "big")
        response = codec.decode(FetchResponse, new[9 : 4 + size], self.side.version, 0)
        self.seen += 4 + size
        if response.error_code:
            self.session_id = self.session_epoch = 0
        else:
            self.session_id = response.session_id
            self.session_epoch = self.session_epoch + 1 if response.session_id else 0


class _Side:
    """A node that leads two topics, as far as Fetch sees it."""

    def __init__(self, directory: Path, *, is_quick: bool) -> None:
        directory.mkdir()
        self.disk = FaultyDisk()
        self.clock = _Clock()
        image = image_of(1, *FOLLOWERS)
        self.topic_ids = {
            topic: add_topic(image, topic, PARTITIONS, replicas=[1, *FOLLOWERS]) for topic in TOPICS
        }
        self.broker = broker_of(image, clock=self.clock)
        self.broker.fetch_sessions = FetchSessions(self.clock, _Numbers(), 10)
        self.broker.directories = SimpleNamespace(storage_error=self._storage_error)  # type: ignore[assignment]
        self.broker.replication = self.replication = Replication(self.broker, lambda: 10)
        self.replication.isr_changes = SimpleNamespace(submit=self._submit)  # type: ignore[assignment]
        self.proposals: list[Any] = []
        self.logs = {}
        for topic, index in PLACES:
            log = host_log(self.broker, self.disk, str(directory), topic, index, index_interval_bytes="1")
            self.logs[topic, index] = log
            partition = self.partition((topic, index))
            partition.replicas = partition.isr = [1, *FOLLOWERS]
            partition.leadership = Leadership(self.replication)
            self._lead((topic, index), 0, 0, (1, *FOLLOWERS))
        self.kept = {place: self.partition(place) for place in PLACES}
        self.dispatcher = Dispatcher(self.broker, HANDLERS, LISTENER, "broker")
        if not is_quick:
            self.dispatcher._makers.clear()
        self.version = 18
        self.clients: dict[int, _Client] = {}
        self.errors: list[str] = []
        self.sent: list[tuple[Any, ...]] = []

    def _storage_error(self, log: Any, error: OSError) -> Exception:
        self.errors.append(log.name)
        return KafkaStorageError("The disk failed.")

    def _submit(self, key: Any, partition: Any, proposal: Any) -> None:
        self.proposals.append((key, proposal.isr))

    def _lead(self, place: tuple[str, int], epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> None:
        partition = self.partition(place)
        partition.leader_epoch = epoch
        partition.isr = list(isr)
        partition.leadership.take(
            replicas=(1, *FOLLOWERS),
            isr=isr,
            leader_epoch=epoch,
            partition_epoch=partition_epoch,
            end_offset=self.logs[place].log_end_offset,
        )
        partition.update_high_watermark()

    def partition(self, place: tuple[str, int]) -> Any:
        return self.broker.partitions.get(*place)

    async def step(self, step: tuple[Any, ...]) -> None:
        kind, *rest = step
        getattr(self, "do_" + kind)(*rest)
        for _ in range(4):
            await asyncio.sleep(0)
        for client in self.clients.values():
            client.learn()

    # Steps

    def do_fetch(
        self,
        client_id: int,
        named: list[tuple[tuple[str, int], int, int, int]],
        *,
        wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_bytes: int = 1 << 20,
        bend: str = "",
    ) -> None:
        client = self.clients.get(client_id)
        if client is None or client.connection.is_closed:
            client = self.clients[client_id] = _Client(self, client_id)
        if client.connection._queue and bend != "pipelined":
            return  # its last one still waits
        topics: dict[bytes, list[Any]] = {}
        for place, behind, epoch_step, last_step in named:
            log, partition = self.logs[place], self.kept[place]
            offset = max(log.log_end_offset - behind, 0)
            asked = FetchRequest.FetchPartition(
                partition=place[1],
                current_leader_epoch=-1 if epoch_step == 9 else max(partition.leader_epoch + epoch_step, 0),
                fetch_offset=offset,
                last_fetched_epoch=-1 if last_step == 9 else max(log.epochs.latest_epoch + last_step, -1),
                log_start_offset=log.log_start_offset if client.replica_id > 0 else -1,
                partition_max_bytes=partition_bytes,
            )
            topics.setdefault(self.topic_ids[place[0]], []).append(asked)
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=client.replica_id,
                replica_epoch=client.replica_id * 10 + (bend == "epoch") if client.replica_id > 0 else -1,
            ),
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_id=client.session_id + (bend == "session"),
            session_epoch=client.session_epoch + (bend == "session epoch"),
            isolation_level=int(bend == "committed"),
            rack_id="rack" if bend == "rack" else "",
            topics=[
                FetchRequest.FetchTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic_id=self.topic_ids["logs"], partitions=[0])
            ]
            if bend == "forget"
            else [],
        )
        frame = request_frame(request, self.version, 7, "test")[4:]
        if bend.startswith("cut"):
            frame = frame[: -int(bend[4:])]
        elif bend == "longer":
            frame += b"\0"
        self.dispatcher.dispatch(client.connection, memoryview(bytearray(frame)))

    def do_append(self, place: tuple[str, int], size: int) -> None:
        partition = self.partition(place)
        if partition is not None and partition.is_leader and partition.log is not None:
            for _ in range(size):
                append(self.broker, place[0], START_MS, index=place[1])

    def do_truncate(self, place: tuple[str, int], count: int) -> None:
        log = self.logs[place]
        log.truncate_to(max(log.log_end_offset - count, log.log_start_offset))

    def do_start(self, place: tuple[str, int], count: int) -> None:
        log = self.logs[place]
        log.increase_log_start_offset(min(log.log_start_offset + count, log.high_watermark), "a test")

    def do_lead(self, place: tuple[str, int], isr: tuple[int, ...], step: int) -> None:
        partition = self.partition(place)
        if partition is not None and partition.leadership is not None:
            epoch = partition.leader_epoch + step
            log = self.logs[place]
            if step:
                log.assign_epoch_start_offset(epoch, log.log_end_offset)
            self._lead(place, epoch, partition.leadership.partition_epoch + 1, isr)
            if step:
                partition.notify_all()

    def do_flip(self, place: tuple[str, int], what: str) -> None:
        partition = self.kept[place]
        if what == "leader":
            partition.is_leader = not partition.is_leader
        elif what == "log":
            partition.log = None if partition.log is not None else self.logs[place]
        elif self.partition(place) is None:
            self.broker.partitions.add(partition)
        else:
            self.broker.partitions.remove(partition)
        partition.notify_all()

    def do_throttle(self, topic: str, *, is_on: bool) -> None:
        self.replication.leader_throttle.set_topic(topic, None if is_on else frozenset())

    def do_fence(self, broker_id: int, *, is_fenced: bool) -> None:
        self.broker.image.replay(
            RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id * 10, fenced=is_fenced)
        )

    def do_fail(self, *, is_failing: bool) -> None:
        self.disk.fault = lambda asked, path: 5 if is_failing and asked == "read" else 0

    def do_wait(self, wait_ms: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _Loop)
        loop.now += wait_ms / 1000
        self.clock.time_ms += wait_ms

    def do_close(self, client_id: int) -> None:
        client = self.clients.get(client_id)
        if client is not None:
            client.connection.is_closed = True
            for pending, _ in client.connection._queue:
                pending.abandon()
            client.connection._queue.clear()

    # What must agree

    def state(self) -> dict[str, Any]:
        return {
            "clients": {
                client_id: (client.transport.written, client.transport.is_aborted, client.session_id)
                for client_id, client in self.clients.items()
            },
            "sessions": {
                session.id: (
                    session.epoch,
                    session.is_incremental,
                    session.used_ms,
                    [
                        (key, one.fetch_offset, one.told_high_watermark, one.told_log_start_offset)
                        for key, one in session.partitions.items()
                    ],
                )
                for session in self.broker.fetch_sessions._sessions.values()
            },
            "partitions": {
                place: (
                    self.logs[place].high_watermark,
                    self.logs[place].log_end_offset,
                    [
                        (replica_id, *(getattr(one, name) for name in one.__slots__))
                        for replica_id, one in sorted(partition.leadership.followers.items())
                    ],
                    sorted(partition.leadership.maximal_isr),
                    len(partition.appends.watchers),
                    len(partition.growth.watchers),
                )
                for place, partition in self.kept.items()
            },
            "proposals": self.proposals,
            "failing": bool(self.errors),
        }

    def close(self) -> None:
        self.disk.heal()
        for log in self.logs.values():
            log.close(clean=False)
        self.disk.close()


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(work)


_places = st.sampled_from(PLACES)
_named = st.lists(
    st.tuples(
        _places,
        st.sampled_from([0, 0, 0, 0, 1, 1, 2, -1, 30]),
        st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1, 9]),
        st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1, 9]),
    ),
    max_size=3,
    unique_by=lambda one: one[0],
)
_bends = st.sampled_from(
    [
        *[""] * 14,
        "session",
        "session epoch",
        "committed",
        "rack",
        "forget",
        "cut 1",
        "longer",
        "epoch",
        "pipelined",
    ]
)
_options = st.fixed_dictionaries(
    {
        "wait_ms": st.sampled_from([0, 500, 500, 500, 100]),
        "min_bytes": st.sampled_from([0, 1, 1, 1, 100]),
        "max_bytes": st.sampled_from([1 << 20, 1 << 20, 100, 0]),
        "partition_bytes": st.sampled_from([1 << 20, 1 << 20, 90, 0]),
        "bend": _bends,
    }
)
_fetches = st.tuples(st.just("fetch"), st.sampled_from(CLIENTS), _named, _options)
_appends = st.tuples(st.just("append"), _places, st.integers(1, 3))
_changes = st.one_of(
    st.tuples(st.just("truncate"), _places, st.integers(1, 2)),
    st.tuples(st.just("start"), _places, st.integers(1, 2)),
    st.tuples(
        st.just("lead"), _places, st.sampled_from([(1, 2, 3), (1, 2), (1,)]), st.sampled_from([0, 0, 1])
    ),
    st.tuples(st.just("flip"), _places, st.sampled_from(["leader", "log", "host"])),
    st.tuples(st.just("throttle"), st.sampled_from(TOPICS), st.fixed_dictionaries({"is_on": st.booleans()})),
    st.tuples(
        st.just("fence"), st.sampled_from(FOLLOWERS), st.fixed_dictionaries({"is_fenced": st.booleans()})
    ),
    st.tuples(st.just("fail"), st.fixed_dictionaries({"is_failing": st.booleans()})),
    st.tuples(st.just("close"), st.sampled_from(CLIENTS)),
)
_waits = st.tuples(st.just("wait"), st.sampled_from([1, 100, 499, 500, 1000]))
_steps = st.lists(
    st.one_of(_fetches, _fetches, _fetches, _appends, _appends, _waits, _changes), min_size=4, max_size=25
)

_ALL: list[Any] = [(place, 0, 0, 0) for place in PLACES]


def _with_options(step: tuple[Any, ...]) -> Callable[[_Side], Coroutine[Any, Any, None]]:
    """A step whose last part, a dictionary, holds arguments by name."""

    async def take(side: _Side) -> None:
        if isinstance(step[-1], dict):
            getattr(side, "do_" + step[0])(*step[1:-1], **step[-1])
            await side.step(("wait", 0))
        else:
            await side.step(step)

    return take


@settings(max_examples=100, deadline=None)
@given(steps=_steps)
@example(
    steps=[
        ("fetch", 2, _ALL, {}),
        ("fetch", 3, _ALL, {}),
        ("wait", 500),
        ("fetch", 2, [], {}),
        ("fetch", 3, [], {}),
        ("append", PLACES[0], 2),
        ("fetch", 2, [(PLACES[0], 0, 0, 0)], {}),
        ("fetch", 3, [(PLACES[0], 0, 0, 0)], {}),
        ("wait", 500),
    ]
)
def test_two_leaders_agree_whatever_they_are_asked(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    directory = tmp_path_factory.mktemp("fetches")

    async def both() -> None:
        quick = _Side(directory / "quick", is_quick=True)
        general = _Side(directory / "general", is_quick=False)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _Loop)
        try:
            for step in steps:
                before = loop.now
                await _with_options(step)(quick)
                loop.now = before  # the other side's timers of this step fire at the same time
                await _with_options(step)(general)
                await asyncio.sleep(0)
                assert quick.state() == general.state(), step
        finally:
            quick.close()
            general.close()

    _run(both())


def _kept(kind: type) -> int:
    return sum(type(one) is kind for one in gc.get_objects())


@pytest.fixture
def without_collector() -> Iterator[None]:
    """A node freezes what is not freed at once."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_a_session_that_ends_is_freed_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        side = _Side(tmp_path / "quick", is_quick=True)
        before = _kept(FetchSession)
        for _ in range(3):
            await side.step(("fetch", 0, _ALL))
            await side.step(("wait", 500))
            await side.step(("fetch", 0, []))
            await side.step(("wait", 500))
            side.clients[0].session_epoch = 0  # the next fetch opens another session
        assert _kept(FetchSession) == before + 1
        side.close()

    _run(main())


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("client_id", [0, 2])
def test_a_session_keeps_neither_responses_nor_closed_connections(tmp_path: Path, client_id: int) -> None:
    async def main() -> None:
        side = _Side(tmp_path / "quick", is_quick=True)
        await side.step(("fetch", client_id, _ALL))
        await side.step(("wait", 500))
        before = _kept(PendingResponse), _kept(Connection)
        side.do_fetch(client_id, [], wait_ms=1_000_000_000)
        side._lead(PLACES[0], 0, 1, (1,))
        await side.step(("append", PLACES[0], 1))
        assert not side.clients[client_id].connection._queue, "it has its response"
        assert _kept(PendingResponse) == before[0]
        side.do_fetch(client_id, [(PLACES[0], 0, 0, 0)], wait_ms=1_000_000_000)
        assert side.clients[client_id].connection._queue, "it waits"
        await side.step(("close", client_id))
        del side.clients[client_id]
        await side.step(("wait", 10_000))
        assert _kept(PendingResponse) == before[0]
        assert _kept(Connection) == before[1] - 1
        side.close()

    _run(main())


def test_a_session_has_one_timer_whatever_its_fetches_wait(tmp_path: Path) -> None:
    async def main() -> None:
        side = _Side(tmp_path / "quick", is_quick=True)
        await side.step(("fetch", 0, _ALL))
        await side.step(("wait", 500))
        loop: Any = asyncio.get_running_loop()
        for wait_ms in [1_000_000_000, 400, 300, 20_000, 1_000] * 5:
            side.do_fetch(0, [], wait_ms=wait_ms)
            await side.step(("wait", 1))
            assert sum(not timer.cancelled() for timer in loop._scheduled) == 1
            side._lead(PLACES[0], 0, 1, (1,))
            await side.step(("append", PLACES[0], 1))
            side.do_fetch(0, [(PLACES[0], 0, 0, 0)], wait_ms=0)
            await side.step(("wait", 0))
        for wait_ms in (20_000, 5_001, 1_400):
            written = len(side.clients[0].transport.written)
            side.do_fetch(0, [], wait_ms=wait_ms)
            for waited_ms in [1000] * (wait_ms // 1000 - 1) + [wait_ms % 1000, 998]:
                await side.step(("wait", waited_ms))
            assert len(side.clients[0].transport.written) == written, "it waits"
            await side.step(("wait", 2))
            assert len(side.clients[0].transport.written) > written
        side.close()

    _run(main())


def test_a_large_slice_goes_from_its_file_to_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    async def main() -> None:
        sides = [_Side(tmp_path / name, is_quick=name == "quick") for name in ("quick", "general")]
        answers: list[list[Any]] = []
        for side in sides:
            await side.step(("fetch", 0, [(PLACES[0], 0, 0, 0)]))
            await side.step(("wait", 500))
            side._lead(PLACES[0], 0, 1, (1,))
            for _ in range(1100):
                append(side.broker, PLACES[0][0], START_MS)
            with monkeypatch.context() as patch:
                patch.setattr(Connection, "answer_now", lambda _self, parts: sent.append(parts))
                await side.step(("fetch", 0, [(PLACES[0], 1100, 0, 0)]))
            parts = sent.pop()
            assert [type(part) for part in parts] == [bytes, FileSlice, bytes]
            answers.append([part.read() if isinstance(part, FileSlice) else part for part in parts])
        for side in sides:
            side.close()
        assert answers[0] == answers[1]

    _run(main())


def test_the_fast_path_takes_what_followers_and_consumers_usually_send(tmp_path: Path) -> None:
    async def main() -> None:
        side = _Side(tmp_path / "quick", is_quick=True)
        taken: list[bool] = []
        make = side.dispatcher._makers[1]

        def watched(*parts: Any) -> Any:
            made = make(*parts)

            def take(*asked: Any) -> bool:
                taken.append(made.take(*asked))
                return taken[-1]

            return SimpleNamespace(take=take)

        side.dispatcher._makers[1] = watched
        for client_id in CLIENTS:
            await side.step(("fetch", client_id, _ALL))
        await side.step(("wait", 500))
        assert taken == [False] * 4, "the first fetch opens the session"
        taken.clear()
        for _ in range(3):
            for client_id in CLIENTS:
                await side.step(("fetch", client_id, []))
            await side.step(("append", PLACES[1], 1))
            for client_id in FOLLOWERS:
                await side.step(("fetch", client_id, [(PLACES[1], 0, 0, 0)]))
            await side.step(("wait", 500))
        assert len(taken) == 18
        assert all(taken)
        side.close()

    _run(main())


def test_a_bug_in_a_look_is_an_error_of_its_partition_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        sides = [_Side(tmp_path / name, is_quick=name == "quick") for name in ("quick", "general")]
        for side in sides:
            for client_id in (0, 2):
                await side.step(("fetch", client_id, _ALL))
            await side.step(("wait", 500))
            for client_id in (0, 2):
                await side.step(("fetch", client_id, []))
            log = side.logs[PLACES[0]]
            log.segments.forget_positions()
            with monkeypatch.context() as patch:
                patch.setattr(type(log), "locate", lambda *_args, **_options: [][0])
                side._lead(PLACES[0], 0, 1, (1,))
                await side.step(("append", PLACES[0], 1))
            assert log.log_end_offset == 1
            assert not side.clients[2].connection._queue
            assert side.broker.failures.total > 0
        written = [side.clients[2].transport.written for side in sides]
        assert written[0] == written[1]
        for side in sides:
            side.close()

    _run(main())
