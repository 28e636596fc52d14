"""A group coordinator behind connections, with or without the fast paths: both must agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.coordinator.groups.shards import CountingRandom
from tests.unit.log.support import FakeClock, FaultyDisk
from tests.unit.server.handlers.support import LISTENER, broker_of, connection_of, host_log, image_of

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.classic.member import ClassicMember
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.groups.consumer.member import ConsumerMember
from ottla.log.config import LogConfig
from ottla.server.broker import GROUPS_TOPIC
from ottla.server.handlers import HANDLERS
from ottla.server.net.connection import Connection
from ottla.server.net.dispatch import Dispatcher

TOPICS = {"news": 3, "sport": 1}


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_open = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.is_open = False


class Side:
    """A coordinator with one partition, behind two connections."""

    def __init__(self, directory: Path, *, is_quick: bool) -> None:
        self.disk = FaultyDisk()
        self.clock = FakeClock()
        image = image_of(1, **{GROUPS_TOPIC: 1}, **TOPICS)
        self.broker = broker_of(image, {"offset.metadata.max.bytes": "5"}, self.clock)
        self.broker.random = CountingRandom()
        self.log = host_log(self.broker, self.disk, str(directory), GROUPS_TOPIC)
        partition = self.broker.partitions.get(GROUPS_TOPIC, 0)
        assert partition is not None
        self.partition = partition
        self.broker.groups.start()
        self.dispatcher = Dispatcher(self.broker, HANDLERS, LISTENER, "broker")
        if not is_quick:
            self.dispatcher._makers.clear()
        self.connections: list[tuple[Connection, Wire]] = []
        self.connect()
        self.connect()
        shard = self.broker.groups.coordinator.active(0).shard
        members = [classic_member("m1", None), classic_member("m2", "i2")]
        classic = ClassicGroup(
            "classic", state=ClassicState.STABLE, generation=3, protocol_type="consumer", members=members
        )
        consumer = ConsumerGroup("consumer")
        news = image.topics_by_name["news"].id
        consumer.put_member(ConsumerMember("m1", epoch=3, assigned={news: {0: 2, 1: 3}}))
        shard.groups.update({"classic": classic, "consumer": consumer})

    def connect(self) -> None:
        connection, wire = connection_of(clock=self.clock), Wire()
        connection.connection_made(wire)  # type: ignore[arg-type]
        self.connections.append((connection, wire))

    def send(self, number: int, frame: bytes) -> None:
        connection = self.connections[number][0]
        if connection.is_closed:
            return
        self.dispatcher.dispatch(connection, memoryview(bytearray(frame)))

    def change(self, step: tuple[Any, ...]) -> None:
        match step:
            case "state", state, generation:
                active = self.broker.groups.coordinator.loaded_one(0)
                group = None if active is None else active.shard.groups.get("classic")
                if isinstance(group, ClassicGroup):
                    group.state, group.generation = state, generation
            case "replicas", count:
                self.partition.min_insync_replicas = count
            case "isr", isr:
                self.partition.isr = list(isr)
            case ("advance",):
                self.log.advance_high_watermark(self.log.log_end_offset)
                self.partition.growth.notify()
            case "leader", is_leader:
                self.partition.is_leader = is_leader
            case "size", most:
                self.log.reconfigure(LogConfig(max_message_bytes=most))
            case "clock", step_ms:
                self.clock.time_ms += step_ms
            case "fault", code:
                self.disk.fault = lambda asked, path: (
                    code if asked == "write" and path.endswith(".log") else 0
                )
            case ("break",):
                active = self.broker.groups.coordinator.loaded_one(0)
                if active is not None:
                    active.shard.offsets.store.put = _broken  # type: ignore[method-assign, assignment]
            case "lose", number:
                self.connections[number][0].connection_lost(None)
                self.connections[number] = self.connections[-1]
                self.connect()
                self.connections[number] = self.connections.pop()

    def state(self) -> dict[str, Any]:
        active = self.broker.groups.coordinator.loaded_one(0)
        return {
            "answers": [(wire.written, wire.is_open) for _, wire in self.connections],
            "waiting": [len(connection._queue) for connection, _ in self.connections],
            "log": [segment.file.pread(1 << 20, 0)[: segment.size_bytes] for segment in self.log.segments],
            "end": self.log.log_end_offset,
            "offsets": None if active is None else active.shard.offsets.store.committed,
            "groups": None if active is None else [_facts(one) for one in active.shard.groups.values()],
            "timers": None if active is None else list(active._timers._timers),
        }

    def close(self) -> None:
        self.disk.heal()
        self.broker.groups.close()
        self.log.close(clean=False)
        self.disk.close()


def _facts(group: Any) -> Any:
    if not isinstance(group, ClassicGroup):
        return group.id
    return {
        "id": group.id,
        "state": (group.state, group.previous_state, group.state_since_ms),
        "generation": (group.generation, group.protocol_type, group.protocol_name, group.leader_id),
        "waiting": (group.joined_count, sorted(group.pending_sync), sorted(group.pending_join)),
        "counts": group.protocol_counts,
        "members": [
            (
                one.id,
                one.protocols,
                one.assignment,
                one.rebalance_timeout_ms,
                one.session_timeout_ms,
                None if one.join is None else one.join.version,
                one.sync is not None,
            )
            for one in group.members.values()
        ],
    }


def _broken(*_arguments: object) -> None:
    raise ValueError("as asked for")


def classic_member(member_id: str, instance_id: str | None) -> ClassicMember:
    return ClassicMember(
        member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=45_000,
        protocols=(("range", b""),),
    )
