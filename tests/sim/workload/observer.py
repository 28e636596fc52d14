"""Observes nodes from inside: leaders by epoch, watermarks, replicas, metadata."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ottla.controller.records import encode_record
from ottla.records.batch import iterate_headers
from tests.sim.checker import Exposed, Leads, MetadataLog, ReplicaLog, Watermark
from tests.sim.checker.history import Partition

if TYPE_CHECKING:
    from ottla.log.log import Log
    from ottla.testing.world import SimulatedNode, World
    from tests.sim.workload.recording import Recorder

OBSERVATION_INTERVAL_S = 0.2
_READ_BYTES = 1 << 20
_METADATA: Partition = ("__cluster_metadata", 0)


class Observer:
    """Observes the live nodes of a world at intervals; it changes nothing."""

    def __init__(self, world: World, recorder: Recorder) -> None:
        self._world = world
        self._history = recorder.history
        self._last: dict[tuple[int, int, Partition], tuple[int, int, int]] = {}
        self._led: dict[tuple[int, int], int] = {}
        self._leading: dict[tuple[int, Partition, int], float] = {}

    async def watch(self) -> None:
        while True:
            self.observe()
            await asyncio.sleep(OBSERVATION_INTERVAL_S)

    def observe(self) -> None:
        """Record each leader and its watermarks, if they changed."""
        now, history = self._world.now, self._history
        self._observe_replicas()
        for simulated in self._world.nodes.values():
            if not simulated.is_serving:
                continue  # the node's metadata is not up to date yet
            self._observe_quorum(simulated)
            for partition in _partitions(simulated):
                log = partition.log
                if not partition.is_leader or log is None:
                    continue
                named = (partition.topic, partition.index)
                key = (simulated.id, simulated.life, named)
                seen = (partition.leader_epoch, log.high_watermark, log.last_stable_offset)
                self._leading[simulated.id, named, partition.leader_epoch] = now
                before = self._last.get(key)
                if before == seen:
                    continue
                self._last[key] = seen
                epoch, high, stable = seen
                if before is None or before[0] != epoch:
                    history.leads.append(
                        Leads(
                            node=simulated.id,
                            partition=named,
                            epoch=epoch,
                            at=now,
                            is_preferred=partition.replicas[:1] == [simulated.id],
                        )
                    )
                history.watermarks.append(
                    Watermark(
                        node=simulated.id, partition=named, epoch=epoch, high=high, stable=stable, at=now
                    )
                )

    def _observe_replicas(self) -> None:
        """Compare high watermarks with the replicas in the newest committed ISR."""
        serving = {one.id: one for one in self._world.nodes.values() if one.is_serving}
        images = [one.node._quorum.image for one in serving.values() if one.node and one.node._quorum]
        if not images:
            return
        newest = max(images, key=lambda image: image.offset)
        hosted = {
            (node_id, one.topic_id, one.index): one
            for node_id, simulated in serving.items()
            for one in _partitions(simulated)
            if one.log is not None
        }
        for (node_id, topic_id, index), leader in hosted.items():
            if not leader.is_leader or not leader.log.high_watermark:
                continue
            known = newest.partition(topic_id, index)
            if known is None or (known.leader, known.leader_epoch) != (node_id, leader.leader_epoch):
                continue
            for replica_id in known.isr:
                replica = hosted.get((replica_id, topic_id, index))
                if (
                    replica is not None
                    and replica.leader_epoch == leader.leader_epoch
                    and replica.log.log_end_offset < leader.log.high_watermark
                ):
                    self._history.exposed.append(
                        Exposed(
                            node=node_id,
                            partition=(leader.topic, index),
                            epoch=leader.leader_epoch,
                            high=leader.log.high_watermark,
                            replica=replica_id,
                            replica_end=replica.log.log_end_offset,
                            at=self._world.now,
                        )
                    )

    def _observe_quorum(self, simulated: SimulatedNode) -> None:
        epoch = simulated.active_epoch
        if epoch is not None and self._led.get((simulated.id, simulated.life)) != epoch:
            self._led[simulated.id, simulated.life] = epoch
            led = Leads(node=simulated.id, partition=_METADATA, epoch=epoch, at=self._world.now)
            self._history.leads.append(led)

    def first_unfinished(self, topics: Collection[str]) -> str | None:
        """The first thing that is missing until every partition has a leader, and every replica is in
        sync."""
        found: dict[Partition, tuple[int, int]] = {}
        for simulated in self._world.nodes.values():
            if simulated.is_broker and not simulated.is_serving:
                return f"{simulated.host} does not serve"
            for partition in _partitions(simulated):
                if partition.is_leader and partition.log is not None:
                    if len(partition.isr) < len(partition.replicas):
                        return f"{partition.topic}-{partition.index} has {partition.isr} in sync"
                    end = partition.log.log_end_offset
                    if partition.log.high_watermark < end:
                        return f"{partition.topic}-{partition.index} has records that are not committed"
                    if partition.log.last_stable_offset < end:
                        return f"{partition.topic}-{partition.index} has an open transaction"
                    found[partition.topic, partition.index] = (simulated.id, end)
        for simulated in self._world.nodes.values():
            for partition in _partitions(simulated):
                named = (partition.topic, partition.index)
                if named not in found:
                    return f"{named[0]}-{named[1]} is led by nobody"
                if partition.log is None:
                    return f"{named[0]}-{named[1]} is offline on {simulated.host}"
                if partition.log.log_end_offset < found[named][1]:
                    return f"{simulated.host} lags behind in {named[0]}-{named[1]}"
                if partition.log.high_watermark < found[named][1]:
                    return f"{simulated.host} was not told that all of {named[0]}-{named[1]} is committed"
        missing = set(topics) - {topic for topic, _ in found}
        return f"nobody leads {min(missing)}" if missing else None

    def inspect(self, topics: Collection[str]) -> None:
        """Record the final contents of each replica and each node's metadata, and the leaders."""
        self._history.led += [
            # A deposed leader may acknowledge until shortly before the next observation.
            Leads(node=node, partition=partition, epoch=epoch, at=at + OBSERVATION_INTERVAL_S)
            for (node, partition, epoch), at in self._leading.items()
        ]
        for simulated in self._world.nodes.values():
            node = simulated.node
            if node is None:
                continue
            for partition in _partitions(simulated):
                if partition.topic in topics and partition.log is not None:
                    self._history.replicas.append(
                        ReplicaLog(
                            node=simulated.id,
                            partition=(partition.topic, partition.index),
                            high_watermark=partition.log.high_watermark,
                            batches=_batches(partition.log),
                        )
                    )
            quorum = node._quorum
            if quorum is None:
                continue
            image = quorum.image
            records = sorted(encode_record(one, image.metadata_version) for one in image.to_records())
            log = quorum.driver.log
            epochs = {header.base_offset: header.partition_leader_epoch for header in _headers(log)}
            self._history.metadata.append(
                MetadataLog(
                    node=simulated.id,
                    entries=tuple((first, epochs[first], crc) for first, _, crc in _batches(log)),
                    applied_to=image.offset,
                    image=zlib.crc32(b"".join(records)),
                )
            )


def _partitions(simulated: Any) -> list[Any]:
    node = simulated.node
    broker = node._broker if node is not None else None
    return [] if broker is None or not simulated.is_broker else list(broker.partitions)


def _headers(log: Log) -> list[Any]:
    found = []
    offset, end = log.log_start_offset, log.high_watermark
    while offset < end:
        read = log.read(offset, _READ_BYTES, limit_offset=end)
        headers = [header for _, header in iterate_headers(read.records)]
        if not headers:
            break
        found += headers
        offset = headers[-1].last_offset + 1
    return found


def _batches(log: Log) -> tuple[tuple[int, int, int], ...]:
    return tuple((header.base_offset, header.last_offset, header.crc) for header in _headers(log))
