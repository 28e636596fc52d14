"""A production node in a simulated world that receives frames without a network: fast, and reproducible.

`Peer` replaces the socket: it passes bytes to the node's `Connection`, in pieces, and receives its responses.
Time is virtual, so a request that waits for a minute costs nothing, and a missing response is seen. Checks:
- no unexpected exception occurs, and no error is logged;
- each response is decodable, in the order of the requests, and without UNKNOWN_SERVER_ERROR;
- each request gets a response or a closed connection, unless it asked to wait or for no response;
- earlier records are unchanged, and the node still serves.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from struct import unpack_from
from typing import Any

from ottla.records.record import Record, build_batch, read_records
from ottla.server.net.connection import Connection
from ottla.server.net.listener import Listener
from ottla.server.node import Node
from ottla.server.peers.controller_channel import mentions_error
from ottla.testing.world import World
from ottla.testing.world.loop import Livelock
from ottla.wire import frame as frames
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import ErrorCode, MalformedMessage, UnsupportedVersion
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from tests.fuzz.grammar import KEPT, TOPICS, Lexicon

CREATE_TOPICS, PRODUCE, FETCH, METADATA, JOIN_GROUP, SYNC_GROUP = 19, 0, 1, 3, 11, 14
SETTLE_SECONDS = 65.0
"""The virtual time within which every request that does not ask to wait is answered."""
SETTINGS = {
    "num.partitions": "2",
    "socket.request.max.bytes": "8388608",
    "message.max.bytes": "1048588",
    "auto.create.topics.enable": "true",
    "group.min.session.timeout.ms": "100",
    "log.segment.delete.delay.ms": "1000",
    "log.segment.bytes": "1048576",  # preallocate=true allocates this, and the disk is in memory
}
_KEPT_VALUES = [b"kept-%d" % number for number in range(20)]
OFFSET_COMMIT, TXN_OFFSET_COMMIT = 8, 28
CLIENTS, CONTROLLERS, CLIENTS_APART = 0, 1, 2
"""The targets of frames: a node that is broker and controller, on one of its two listeners, or a broker whose
controller is another node."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and the frames that may have caused it."""

    what: str
    frames: tuple[tuple[int, bytes], ...]


class Peer(asyncio.Transport):
    """The peer's end of a connection."""

    def __init__(self, target: Target, listener: int) -> None:
        super().__init__({"peername": ("10.0.0.1", 40_000)})
        self._target = target
        self.listener = listener
        self.connection = Connection(target.node.listeners[listener % CLIENTS_APART])
        self.is_closed = False
        self.sent: deque[tuple[int, int, int, bytes]] = deque()  # correlation id, key, version, frame
        self.answers = 0
        self.is_out_of_step = False  # after a wrong size the frame boundaries are unknown
        self._loop = asyncio.get_running_loop()
        self._is_reading = True
        self._backlog = b""
        self._received = bytearray()
        self.connection.connection_made(self)

    def feed(self, frame: bytes, pieces: int = 1) -> None:
        """Send a frame in this many pieces."""
        if unpack_from(">i", frame)[0] != len(frame) - 4:
            self.is_out_of_step = True
        if len(frame) >= 12:
            key, version, correlation_id = unpack_from(">hhi", frame, 4)
            self.sent.append((correlation_id, key, version, frame))
        if pieces == 1 or len(frame) < 2:
            self._give(frame)
            return
        step = max(len(frame) // pieces, 1)
        for start in range(0, len(frame), step):
            self._give(frame[start : start + step])

    def _give(self, data: bytes) -> None:
        self._backlog = self._backlog + data if self._backlog else data
        connection = self.connection
        while self._backlog and self._is_reading and not self.is_closed:
            room = connection.get_buffer(-1)
            count = min(len(room), len(self._backlog))
            room[:count] = self._backlog[:count]
            self._backlog = self._backlog[count:]
            try:
                connection.buffer_updated(count)
            except Exception as error:  # noqa: BLE001 - a found fault
                self._target.report(f"a connection failed at what it received: {error!r}")
                self.abort()

    def _go_on(self) -> None:
        self._give(b"")

    # The node's side

    def write(self, data: Any) -> None:
        if self.is_closed:
            return
        received = self._received
        received += data
        while len(received) >= 4:
            size = unpack_from(">i", received)[0]
            if len(received) < 4 + size:
                return
            answer = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            self.answers += 1
            self._target.judge(self, answer)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._backlog = b""
            self.connection.is_closed = True
            self._loop.call_soon(self.connection.connection_lost, None)

    close = abort

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._go_on)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The other end reads at once, so nothing is buffered."""

    def get_write_buffer_size(self) -> int:
        return 0


class Target:
    """A node with some topics, and the faults found so far."""

    def __init__(self, world: World, lexicon: Lexicon) -> None:
        self.world = world
        self.lexicon = lexicon
        self.faults: list[Fault] = []
        self.suspects: list[tuple[int, bytes]] = []
        """(listener, frame) since the node was last known to be healthy."""
        self.answered = self.closed = 0
        self._judged = 0
        self._errors_seen = 0

    @property
    def node(self) -> Node:
        node = self.world.nodes[1].node
        assert node is not None, self.world.nodes[1].failure
        return node

    @property
    def listeners(self) -> list[Listener]:
        return self.node.listeners

    async def prepare(self) -> None:
        """Create topics, coordinators, and records that must survive."""
        self.lexicon.keep("cluster_id", self.node.broker.cluster_id)
        self.lexicon.keep("broker_epoch", self.node._broker_epoch())
        self.lexicon.keep("previous_broker_epoch", self.node._broker_epoch())
        self.lexicon.directory_ids.append(self.node.broker.directories.metadata_directory_id)
        for topic in (KEPT, *TOPICS):
            made = await self.ask(_creation(topic), 7)
            assert made.topics[0].error_code == 0, made
            assert await self._produce(topic), f"nothing can be written into {topic}"
        known = await self.ask(MetadataRequest(topics=None), 12)
        for one in known.topics:
            if one.name == KEPT:
                self.lexicon.kept_id = one.topic_id
        self.lexicon.learn(known)
        for kind, keys in ((0, ["g1", "g2", "g3"]), (1, ["t1", "t2", "t3"])):
            await self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=keys), 4)
        await asyncio.sleep(5)
        given = await self.ask(InitProducerIdRequest(transactional_id="t1", transaction_timeout_ms=60_000), 4)
        assert given.error_code == 0, given
        self.lexicon.learn(given)

    async def _produce(self, topic: str) -> bool:
        """Write the first records of a topic, once the broker knows it."""
        for _ in range(30):
            answer = await self.ask(_production(topic), 9)
            if answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
                return True
            await asyncio.sleep(0.1)
        return False

    async def mend(self) -> None:
        """Recreate topics that a request has deleted, for later requests.

        If that fails, a request may have caused it, too, with a limit of zero.
        """
        try:
            for topic in TOPICS:
                made = await self.ask(_creation(topic), 7)
                if made.topics[0].error_code == ErrorCode.NONE:
                    await self._produce(topic)
            self.lexicon.learn(await self.ask(MetadataRequest(topics=None), 12))
        except (TimeoutError, ConnectionError) as error:
            self.report(f"the node does not serve any more: {error!r}")

    def connect(self, listener: int) -> Peer:
        return Peer(self, listener)

    async def ask(self, message: Message, version: int) -> Any:
        """Send a valid request on its own connection."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Any] = loop.create_future()
        peer = _Client(self, answered)
        peer.feed(frames.request_frame(message, version, 1, "client"))
        async with asyncio.timeout(SETTLE_SECONDS):
            answer = await answered
        peer.abort()
        assert message.API_KEY is not None
        return frames.read_response(answer, message.API_KEY, version)[1]

    def report(self, what: str, suspects: list[tuple[int, bytes]] | None = None) -> None:
        self.faults.append(Fault(what, tuple(self.suspects if suspects is None else suspects)))

    def judge(self, peer: Peer, answer: bytes) -> None:
        """Check a response."""
        self.answered += 1
        if peer.is_out_of_step:
            return
        correlation_id = unpack_from(">i", answer)[0]
        while peer.sent:
            asked, key, version, frame = peer.sent.popleft()
            if asked == correlation_id:
                break
            if key != PRODUCE:  # which may have acks=0
                self.report(f"{_name(key, version)} was passed over", [(peer.listener, frame)])
                return
        else:
            self.report(f"an answer to nothing, with the correlation id {correlation_id}")
            return
        self._judged += 1
        may_be_unknown = b"\xff\xff" in answer
        if not may_be_unknown and self._judged % 4:
            return  # decoding each would take half of the time
        is_versions_fallback = key == 18 and version not in API_BY_KEY[18].versions
        try:
            _, response = frames.read_response(answer, key, 0 if is_versions_fallback else version)
        except (MalformedMessage, UnsupportedVersion, KeyError) as error:
            self.report(
                f"the answer to {_name(key, version)} cannot be read: {error}", [(peer.listener, frame)]
            )
            return
        is_unknown = may_be_unknown and mentions_error(response, ErrorCode.UNKNOWN_SERVER_ERROR)
        if is_unknown and not _has_too_much_to_store(key, frame):
            self.report(
                f"{_name(key, version)} was answered with UNKNOWN_SERVER_ERROR: {str(response)[:600]}",
                [(peer.listener, frame)],
            )
        if peer.listener != CONTROLLERS:
            self.lexicon.learn(response)

    def look(self) -> None:
        """Check for unexpected exceptions."""
        world = self.world
        count = len(world.unhandled) + len(world.logged)
        if count > self._errors_seen:
            new = [*world.unhandled, *world.logged][-1]
            self._errors_seen = count
            self.report(f"a failure that nobody foresaw: {new}")

    async def settle(self, peers: list[Peer]) -> None:
        """Wait until every request that must be answered is, then close the connections."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_SECONDS
        while loop.time() < deadline and any(_owes(peer) for peer in peers):
            await asyncio.sleep(1)
        for peer in peers:
            if _owes(peer):
                key, version = peer.sent[0][1:3]
                self.report(f"{_name(key, version)} was not answered", [(peer.listener, peer.sent[0][3])])
            peer.abort()
        await asyncio.sleep(0.1)
        self.look()
        self.suspects.clear()

    async def check_kept(self) -> None:
        """Check that the node serves, and still has its records."""
        wanted = FetchRequest.FetchPartition(
            partition=0, partition_max_bytes=1 << 20, current_leader_epoch=-1
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchRequest.FetchTopic(topic=KEPT, partitions=[wanted])]
        )
        try:
            answer = (await self.ask(request, 12)).responses[0].partitions[0]
        except (TimeoutError, ConnectionError) as error:
            self.report(f"the node does not serve any more: {error!r}")
            return
        found = [one.value for one in read_records(bytes(answer.records or b""))]
        if found != _KEPT_VALUES:
            self.report(f"what was acknowledged before is changed or lost: {answer.error_code} {found}")


class _Client(Peer):
    """Waits for one response."""

    def __init__(self, target: Target, answered: asyncio.Future[bytes]) -> None:
        self._answered = answered
        super().__init__(target, CLIENTS)

    def write(self, data: Any) -> None:
        self._received += data
        if not self._answered.done() and len(self._received) >= 4:
            size = unpack_from(">i", self._received)[0]
            if len(self._received) >= 4 + size:
                self._answered.set_result(bytes(self._received[4 : 4 + size]))

    def abort(self) -> None:
        if not self._answered.done():
            self._answered.set_exception(ConnectionError("the node closed the connection"))
        super().abort()

    close = abort


def _creation(topic: str) -> CreateTopicsRequest:
    wanted = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=2, replication_factor=1)
    if topic == KEPT:
        settings = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
        wanted.configs = [
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in settings.items()
        ]
    return CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)


def _production(topic: str) -> ProduceRequest:
    records = [Record(index, 1_767_225_600_000, None, value) for index, value in enumerate(_KEPT_VALUES)]
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(build_batch(records)))
    return ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )


def _name(key: int, version: int) -> str:
    return f"{API_BY_KEY[key].name if key in API_BY_KEY else f'API {key}'} v{version}"


def _has_too_much_to_store(key: int, frame: bytes) -> bool:
    """Whether offsets exceed a batch: coordinators then respond with UNKNOWN_SERVER_ERROR, as Kafka's do.

    Each offset is stored with the name of the group, which may have 32,767 bytes.
    """
    if key not in (OFFSET_COMMIT, TXN_OFFSET_COMMIT):
        return False
    request = frames.read_request(memoryview(frame)[4:])[4]
    count = sum(len(topic.partitions) for topic in request.topics)
    return count * len(request.group_id.encode()) + len(frame) > int(SETTINGS["message.max.bytes"])


def _owes(peer: Peer) -> bool:
    """Whether a peer waits for a response that must arrive, whatever others do."""
    if peer.is_closed or not peer.sent or peer.is_out_of_step:
        return False
    _, key, _, frame = peer.sent[0]
    if key in (JOIN_GROUP, SYNC_GROUP):
        return False  # these wait for other members
    try:
        request = frames.read_request(memoryview(frame)[4:])[4]
    except (MalformedMessage, UnsupportedVersion, KeyError):
        return True  # must be closed
    if key == PRODUCE:
        return bool(request.acks != 0) and request.timeout_ms < SETTLE_SECONDS * 1000
    if key == FETCH:
        return bool(request.max_wait_ms < SETTLE_SECONDS * 1000)
    return bool(getattr(request, "timeout_ms", 0) < SETTLE_SECONDS * 1000)


@contextmanager
def node(seed: int, lexicon: Lexicon, *, listener: int = CLIENTS) -> Iterator[Target]:
    """A node for a listener, with its world, ready for `run_inside`."""
    with World(seed) as world:
        world.add_nodes(1, combined=listener != CLIENTS_APART, settings=SETTINGS, model="journaled")
        target = Target(world, lexicon)
        world.run(world.start())
        run_inside(target, target.prepare())
        yield target
    gc.collect()


def run_inside(target: Target, work: Any) -> Any:
    """Run a coroutine in the node's process."""
    process = target.world.nodes[1].process
    assert process is not None

    async def story() -> Any:
        return await process.spawn(work)

    try:
        return target.world.run(story())
    except Livelock as error:  # waiting for this node would never end
        target.report(f"the node does the same again and again: {error}")
        return None
