"""Replication between this node and others.

It knows which partitions this node leads and follows, and runs the loops behind that: the fetchers, the
proposals of ISR changes to the controller, and the throttles. Rule: a partition is led or followed, never
both; `Replicas` decides which, from the metadata.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ottla.config import topic_value
from ottla.rare_paths import rarely
from ottla.replication.isr_changes import IsrChanges
from ottla.replication.leader import BrokerStatus, Leadership
from ottla.replication.selector import LEADER, RACK_AWARE, nearest_replica
from ottla.replication.throttle import Throttle, throttled_partitions
from ottla.server.parts import HasClock, HasNetwork, HasQuorum
from ottla.server.peers.broker_channels import ChannelParts
from ottla.server.replicas.partition import FlushingParts, flush_soon

if TYPE_CHECKING:
    from ottla.controller.registrations import PartitionRegistration
    from ottla.replication.fetcher import Fetcher, Fetchers
    from ottla.server.peers.broker_channels import BrokerChannels
    from ottla.server.replicas.partition import Partition
    from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

ALTER_TIMEOUT_MS = 30_000
LATE_SECONDS = 0.5
"""How long a simulation delays a response of the controller."""

logger = logging.getLogger("ottla.server.replicas.replication")


class Parts(ChannelParts, FlushingParts, HasQuorum, HasClock, HasNetwork, Protocol):
    """The parts of a node that `Replication` uses."""


class Replication:
    """The replication of one node; also the environment of its leaders (`LeaderEnvironment`)."""

    def __init__(self, parts: Parts, broker_epoch: Callable[[], int]) -> None:
        config = parts.config
        samples = config.int_of("replication.quota.window.num")
        width_ms = config.int_of("replication.quota.window.size.seconds") * 1000
        self._parts = parts
        self._broker_epoch = broker_epoch
        self.node_id = parts.node_id
        self.lag_max_ms = config.int_of("replica.lag.time.max.ms")
        self.leader_throttle = Throttle(samples=samples, width_ms=width_ms)
        self.follower_throttle = Throttle(samples=samples, width_ms=width_ms)
        self.isr_changes = IsrChanges(parts.node_id, broker_epoch, self._ask_controller)
        self._shrunk_ms: int | None = None  # time of the last check for lagging followers
        self._has_skipped_shrink = False  # the last check was late and was skipped
        self._fetchers: Fetchers | None = None
        self._channels: dict[int, BrokerChannels] = {}
        self._selects_by_rack = self._selector() == RACK_AWARE
        self.apply_config()

    # Environment of leaders

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch()

    @property
    def brokers(self) -> Mapping[int, BrokerStatus]:
        return self._parts.image.brokers

    def now_ms(self) -> int:
        return int(self._parts.clock.monotonic() * 1000)

    # Settings

    def _selector(self) -> str:
        name = str(self._parts.config["replica.selector.class"] or LEADER)
        if name not in (LEADER, RACK_AWARE):
            logger.warning("Unknown replica.selector.class %s; consumers fetch from leaders", name)
        return name

    def apply_config(self) -> None:
        """Apply changed settings of the node."""
        config = self._parts.config
        self.leader_throttle.set_limit(config.int_of("leader.replication.throttled.rate"))
        self.follower_throttle.set_limit(config.int_of("follower.replication.throttled.rate"))

    def apply_topic_config(self, topic: str) -> None:
        """Apply a topic's settings, after a change or when a partition was assigned to this node."""
        parts = self._parts
        own = parts.image.topic_config(topic)
        for throttle, name in (
            (self.leader_throttle, "leader.replication.throttled.replicas"),
            (self.follower_throttle, "follower.replication.throttled.replicas"),
        ):
            if name not in own:
                throttle.set_topic(topic, frozenset())
                continue
            listed: Any = topic_value(parts.config, own, name)
            throttle.set_topic(topic, throttled_partitions(listed, parts.node_id))

    # Roles

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Lead a partition, and track its followers if it has any. Its log counts as durable."""
        self._stop_following(partition)
        log = partition.log
        if log is None:
            partition.leadership = None
            return
        if len(registration.replicas) == 1:
            partition.leadership = None
        else:
            if partition.leadership is None:
                partition.leadership = Leadership(self)
            partition.leadership.min_insync_replicas = partition.min_insync_replicas
            partition.leadership.take(
                replicas=registration.replicas,
                isr=registration.isr,
                leader_epoch=registration.leader_epoch,
                partition_epoch=registration.partition_epoch,
                end_offset=log.log_end_offset,
            )
        if log.is_flush_due:
            flush_soon(self._parts, partition.topic, partition.index)
        partition.advance(log.log_end_offset)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader in a new leader epoch."""
        partition.leadership = None
        if self._parts.network is None:
            return
        if self._fetchers is None:
            from ottla.replication.fetcher import Fetchers

            self._fetchers = Fetchers(self._make_fetcher, self._fetchers_per_leader)
        self._fetchers.follow(partition)

    def leave(self, partition: Partition) -> None:
        """Stop replicating a partition that is no longer hosted or whose log is offline."""
        partition.leadership = None
        self._stop_following(partition)

    def _stop_following(self, partition: Partition) -> None:
        if self._fetchers is not None:
            self._fetchers.forget((partition.topic_id, partition.index))

    def end_idle_fetchers(self) -> None:
        """End fetchers without partitions, after a run of metadata was applied."""
        if self._fetchers is not None:
            self._fetchers.end_idle()

    # Followers of this node

    def fetched(
        self,
        partition: Partition,
        replica_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        *,
        names_epoch: bool,
    ) -> None:
        """A follower fetches: it has everything below `offset`."""
        proposal = partition.follower_fetched(
            replica_id, broker_epoch, offset, log_start_offset, names_epoch=names_epoch
        )
        if proposal is not None:
            logger.info(
                "%s-%d: expanding ISR by replica %d, which caught up at offset %d",
                partition.topic,
                partition.index,
                replica_id,
                offset,
            )
            self.isr_changes.submit((partition.topic_id, partition.index), partition, proposal)

    def shrink(self) -> None:
        """Propose to remove lagging followers from the ISR.

        It runs every half `replica.lag.time.max.ms`. If it runs late, this process stalled, and fetches of
        followers may wait unread in sockets: it skips the check this time, but not twice in a row.
        """
        now_ms, last_ms, has_skipped = self.now_ms(), self._shrunk_ms, self._has_skipped_shrink
        self._shrunk_ms = now_ms
        is_late = last_ms is not None and now_ms - last_ms > self.lag_max_ms // 2 + max(
            self.lag_max_ms // 8, 50
        )
        self._has_skipped_shrink = is_late and not has_skipped
        if last_ms is not None and self._has_skipped_shrink:
            logger.warning(
                "The last follower lag check was %d ms ago; skipping this one so that followers can catch up",
                now_ms - last_ms,
            )
            return
        for partition in self._parts.partitions:
            leadership, log = partition.leadership, partition.log
            if leadership is None or log is None or not partition.is_leader:
                continue
            proposal = leadership.shrinkage(log.log_end_offset)
            if proposal is not None:
                logger.info(
                    "%s-%d: shrinking ISR by replicas %s, which lag behind offset %d",
                    partition.topic,
                    partition.index,
                    ", ".join(map(str, sorted(proposal.removed))),
                    log.log_end_offset,
                )
                self.isr_changes.submit((partition.topic_id, partition.index), partition, proposal)

    def is_held_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether the leader's throttle delays a follower now."""
        throttle = self.leader_throttle
        return throttle.has_topics and throttle.holds_back(
            partition.topic, partition.index, in_sync=replica_id in partition.isr, now_ms=self.now_ms()
        )

    def record_sent(self, topic: str, index: int, size: int) -> None:
        """Count records that were sent to a follower."""
        if self.leader_throttle.has_topics and self.leader_throttle.is_throttled(topic, index):
            self.leader_throttle.record(size, self.now_ms())

    # Consumers

    def preferred_replica(self, partition: Partition, rack: str, offset: int, listener: str) -> int | None:
        """The replica that a consumer in this rack should read from; None for this one."""
        leadership = partition.leadership
        if leadership is None or not self._selects_by_rack or not rack:
            return None
        parts = self._parts
        racks = {
            replica: parts.image.brokers[replica].rack
            for replica in partition.replicas
            if parts.image.alive_endpoint(replica, listener) is not None
        }
        return nearest_replica(rack, parts.node_id, leadership.readable(offset), racks)

    # Other nodes

    async def _ask_controller(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        response: AlterPartitionResponse = await self._parts.quorum.ask(request, timeout_ms=ALTER_TIMEOUT_MS)
        if rarely("an answer about in-sync replicas arrives late"):  # after other metadata
            await asyncio.sleep(LATE_SECONDS)
        return response

    def _fetchers_per_leader(self) -> int:
        return self._parts.config.int_of("num.replica.fetchers")

    def _make_fetcher(self, leader_id: int, number: int) -> Fetcher:
        from ottla.replication.fetcher import Fetcher, FetchSettings
        from ottla.server.peers.broker_channels import BrokerChannels

        parts = self._parts
        config = parts.config
        assert parts.network is not None
        channels = self._channels.get(number)
        if channels is None:
            client_id = f"broker-{parts.node_id}-fetcher-{number}"
            channels = self._channels[number] = BrokerChannels(
                parts, parts.network, client_id=client_id, timeout_setting="replica.socket.timeout.ms"
            )
        return Fetcher(
            leader_id,
            parts.node_id,
            self._broker_epoch,
            clock=parts.clock,
            storage=parts.directories,
            ask=channels.ask,
            ask_repeatedly=channels.ask_repeatedly,
            settings=FetchSettings(
                wait_max_ms=config.int_of("replica.fetch.wait.max.ms"),
                min_bytes=config.int_of("replica.fetch.min.bytes"),
                response_bytes_max=config.int_of("replica.fetch.response.max.bytes"),
                partition_bytes_max=config.int_of("replica.fetch.max.bytes"),
                backoff_ms=config.int_of("replica.fetch.backoff.ms"),
            ),
            throttle=self.follower_throttle,
        )

    async def close(self) -> None:
        """Stop all fetchers."""
        if self._fetchers is not None:
            await self._fetchers.close()
        for channels in self._channels.values():
            channels.close()
