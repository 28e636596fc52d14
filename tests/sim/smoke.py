"""A small story for any seed: writes and reads records while nodes and networks fail; then checks the log.

An idempotent producer writes numbered values, two members of a group read them, and a nemesis injects the
seed's faults. After the repair, acknowledged records must be in the log once, in order, at their offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.client.admin.topics import NewTopic
from ottla.client.errors import ClientError
from ottla.testing.world import SimulatedClient, World
from ottla.testing.world.nemesis import FAULTS, Nemesis
from ottla.wire.errors import KafkaError

TOPIC = "story"
CALM_S = 45.0
"""How long clients continue after the repair: longer than request.timeout.ms, after which they notice a
connection to a host that lost power."""
FINISH_S_MAX = 240.0
_POWER_FAULTS = {"power", "crash within change", "failing disk"}


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass
class Story:
    """The state of one run's clients."""

    world: World
    partitions: int
    rate: float
    acknowledged: list[tuple[str, int, int]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seen: list[tuple[str, int, int]] = field(default_factory=list)
    faults: Sequence[str] = ()
    is_ending: bool = False

    async def create(self, client: SimulatedClient) -> None:
        async with client.admin() as admin:
            # Hosts lose power one after the other, and with it unflushed records: as in Kafka, a record
            # survives that on all its replicas only if the topic flushes before the acknowledgment.
            flushed = {"flush.messages": "1"} if _POWER_FAULTS & {*self.faults} else {}
            replicas = min(sum(node.is_broker for node in self.world.nodes.values()), 3)
            await admin.create_topics([NewTopic(TOPIC, self.partitions, replicas, configs=flushed)])

    async def write(self, client: SimulatedClient) -> None:
        async with client.producer(linger_ms=5) as producer:
            waits = []
            number = 0
            while not self.is_ending:
                number += 1
                value = f"{client.host}-{number}"
                delivery = await producer.send(TOPIC, value.encode())
                waits.append(asyncio.ensure_future(self._await(delivery, value)))
                await asyncio.sleep(2 * client.random.fraction() / self.rate)
            await producer.flush()
            await asyncio.gather(*waits)

    async def _await(self, delivery: object, value: str) -> None:
        try:
            report = await delivery  # type: ignore[misc]
        except (KafkaError, ClientError) as error:
            self.failed.append(value)
            self.world.note(TOPIC, f"{value} failed: {error!r}")
        else:
            self.acknowledged.append((value, report.partition, report.offset))

    async def read(self, client: SimulatedClient) -> None:
        settings = {
            "group_id": "readers",
            "auto_offset_reset": "earliest",
            # A join may wait this long, even for a coordinator whose host has lost power meanwhile.
            "max_poll_interval_ms": 20_000,
        }
        async with client.consumer(topics=[TOPIC], **settings) as consumer:
            while not self.is_ending:
                for record in await consumer.poll(1.0):
                    self.seen.append((record.value.decode(), record.partition, record.offset))

    async def read_all(self, client: SimulatedClient) -> list[tuple[str, int, int]]:
        """Everything from the beginning to the current end of the log."""
        found: list[tuple[str, int, int]] = []
        async with client.consumer(auto_offset_reset="earliest") as consumer:
            parts = await consumer.partitions_for(TOPIC)
            await consumer.assign(parts)
            ends = await consumer.end_offsets(parts)
            while any([await consumer.position(part) < end for part, end in ends.items()]):
                for record in await consumer.poll(1.0):
                    found.append((record.value.decode(), record.partition, record.offset))
        return found

    async def run(self, seconds: float, faults: Sequence[str]) -> None:
        world, self.faults = self.world, faults
        await world.start()
        writer, readers = world.client("writer"), [world.client("reader-1"), world.client("reader-2")]
        await writer.spawn(self.create(writer))
        at_work = [writer.spawn(self.write(writer)), *(one.spawn(self.read(one)) for one in readers)]
        await Nemesis(world, faults).run(seconds)
        await asyncio.sleep(CALM_S)
        self.is_ending = True
        await asyncio.gather(*at_work)
        judge = world.client("judge")
        self.check(await judge.spawn(self.read_all(judge)))

    def check(self, log: list[tuple[str, int, int]]) -> None:
        at = {(partition, offset): value for value, partition, offset in log}
        for value, partition, offset in self.acknowledged:
            there = at.get((partition, offset))
            if there != value:
                raise Broken(f"{value} was acknowledged at {partition}/{offset}: there is {there}")
        for value, partition, offset in self.seen:
            there = at.get((partition, offset))
            if there != value:
                raise Broken(f"{value} was read at {partition}/{offset}: there is {there}")
        # After a clean restart a leader knows only the last batch of a producer, as in Kafka, and treats a
        # repeated older one as a gap: see docs/reliability.md.
        is_strict = "restart" not in self.faults
        if is_strict and len({value for value, _, _ in log}) != len(log):
            raise Broken("A value is in the log twice.")
        last: dict[tuple[str, int], int] = {}
        for value, partition, _ in log:
            writer, _, number = value.rpartition("-")
            if is_strict and int(number) <= last.get((writer, partition), 0):
                raise Broken(f"{value} stands behind a later value in partition {partition}.")
            last[writer, partition] = int(number)
        unread = {value for value, _, _ in self.acknowledged} - {value for value, _, _ in self.seen}
        if unread:
            raise Broken(f"The group has not read {len(unread)} values, {min(unread)} among them.")
        if not self.acknowledged:
            raise Broken("Nothing was written at all.")
        problems = list(self.world.unhandled)
        if not any("disk" in fault for fault in self.faults):  # which nodes log, correctly
            problems += self.world.logged
        if problems:
            raise Broken("Errors that nobody foresaw:\n" + "\n".join(map(str, problems[:10])))


def run(world: World, *, seconds: float = 60.0, faults: Sequence[str] | None = None) -> None:
    """Run the story of a world's seed. Raises `Broken`, or the world's error."""
    rng = world.rng
    world.add_nodes(rng.choice((3, 3, 3, 4, 5)), combined=rng.random() < 0.8)
    story = Story(world, partitions=rng.choice((1, 2, 4)), rate=5.0)
    chosen = faults if faults is not None else rng.sample(list(FAULTS), rng.randint(1, len(FAULTS)))
    world.note(
        "story",
        f"{len(world.nodes)} nodes, {story.partitions} partitions, {', '.join(chosen) or 'no faults'}",
    )
    world.run(story.run(seconds, chosen), limit_s=seconds + FINISH_S_MAX)
