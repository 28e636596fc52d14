"""Wires a node: creates its parts, starts them in order, runs its duties, and stops them in reverse order.

Start: lock and check log directories -> replay the metadata log -> load logs (recover them after an unclean
stop) -> register the broker and wait until it is unfenced -> serve clients. Stop: close listeners -> finish
open requests -> flush logs and mark them clean -> close the metadata log.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ottla.config import BrokerConfig, ConfigError, Endpoint, ResourceType, topic_texts
from ottla.config.listeners import is_loopback
from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.failures import Failures
from ottla.log.compaction.cleaner import CleanerConfig
from ottla.log.config import LogConfig
from ottla.log.directories.log_directories import DirectoriesConfig, LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.directories.properties import DirectoryError
from ottla.log.log import Log
from ottla.ports import PASSING, Clock, Disk, Network, Random
from ottla.server.broker import Broker
from ottla.server.coordinators.producer_ids import ProducerIds
from ottla.server.fatal_errors import STARTING_ERRORS, StopReason
from ottla.server.formatter import format_if_new
from ottla.server.garbage_collector import GarbageCollector
from ottla.server.handlers import HANDLERS
from ottla.server.log_lines import set_up_logging
from ottla.server.metadata.broker_registration import Registration
from ottla.server.metadata.metadata_quorum import MetadataQuorum
from ottla.server.metadata.quorum import Quorum
from ottla.server.net.dispatch import Dispatcher
from ottla.server.net.listener import Listener, ListenerSettings
from ottla.server.net.loop_lag import LoopLateness
from ottla.server.net.node_quotas import NodeQuotas
from ottla.server.net.request_memory import RequestMemory
from ottla.server.net.response_memory import ResponseMemory
from ottla.server.net.turns import Turns
from ottla.server.replicas.directory_assignments import DirectoryAssignments
from ottla.server.replicas.fetch_sessions import FetchSessions
from ottla.server.replicas.reconciler import Replicas
from ottla.server.replicas.replication import Replication
from ottla.version import __version__

T = TypeVar("T")

DRAIN_SECONDS_MAX = 2.0
MEMORY_KEPT_BYTES = 4 * 1024 * 1024
BACKLOG_MIN = 1024
"""The minimum backlog of new connections. One loop does everything here: a connection that exceeds the
backlog while the loop is busy would retry only after a second."""
DUTY_RETRY_SECONDS = 1.0
"""The pause before a failed duty restarts."""
REAPPLY_MS = 5_000
INTERVAL_MS_MIN = 10
"""Kafka accepts an interval of 0; a loop without pauses would block everything else."""

COLLECTION_THRESHOLDS = (10_000, 2, 100)
"""The thresholds of Python's garbage collector in a node's process; see also `garbage_collector.py`.

Requests leave no cycles behind, but a thousand waiting ones, as in a rebalance, look like a growing heap:
with the defaults the collector would walk through them repeatedly, and take more time than serving them. With
these thresholds a collection visits few objects."""

logger = logging.getLogger("ottla.server.node")


class Node:
    """One node: controller, broker or both, as `process.roles` says."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        random: Random,
        disk: Disk,
        network: Network,
        trim_memory: Callable[[], None] | None = None,
        freeze_startup_objects: Callable[[], None] | None = None,
        garbage: GarbageCollector | None = None,
    ) -> None:
        self.config = config
        self.listeners: list[Listener] = []
        self.failure: asyncio.Future[None] | None = None
        self.lateness = LoopLateness(clock)
        self._clock = clock
        self._random = random
        self._disk = disk
        self._network = network
        self._trim = trim_memory
        self._freeze_startup_objects = freeze_startup_objects
        self._garbage = garbage
        self.failures = Failures()
        self._duties: dict[str, asyncio.Task[None]] = {}
        self._broker: Broker | None = None
        self._quorum: MetadataQuorum | None = None
        self._directories: LogDirectories | None = None
        self._replicas: Replicas | None = None
        self._assignments: DirectoryAssignments | None = None
        self._replication: Replication | None = None
        self._registration: Registration | None = None
        self._listener_roles: dict[str, str] = {}  # listener name: "broker" or "controller"
        self._quotas: NodeQuotas | None = None
        self._turns = Turns(clock)
        self._memory = RequestMemory(config.queued_request_bytes or sys.maxsize)
        self._answers = ResponseMemory(config.queued_request_bytes or sys.maxsize)

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "the node is not started"
        return self._broker

    @property
    def port(self) -> int:
        """The port of the first client listener."""
        return self.listeners[0].port

    # Start

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            with contextlib.suppress(OSError):
                await self.stop()
            raise

    async def _start(self) -> None:
        config = self.config
        self.lateness.start()
        for warning in config.warnings:
            logger.warning("%s", warning)
        format_if_new(self._disk, self._clock, self._random, config, logger.debug)
        self._directories = directories = self._make_directories()
        cluster_id = directories.open(node_id=config.node_id)
        await self._bind_listeners()
        self._quorum = quorum = self._make_quorum(cluster_id, directories.metadata_directory_id)
        self.failure = quorum.failure
        await quorum.open()
        self._broker = broker = Broker(
            node_id=config.node_id,
            cluster_id=cluster_id,
            config=config,
            clock=self._clock,
            random=self._random,
            disk=self._disk,
            image=quorum.image,
            quorum=quorum,
            directories=directories,
            fetch_sessions=FetchSessions(
                self._clock, self._random, config.int_of("max.incremental.fetch.session.cache.slots")
            ),
            producer_ids=ProducerIds(quorum, config.node_id),
            lateness=self.lateness,
            network=self._network,
            failures=self.failures,
        )
        await self._serve_listeners("controller")  # a leader election needs them
        await quorum.join()
        self._contain("settings of this node", self._apply_dynamic_config)
        if config.is_broker:
            self._assignments = DirectoryAssignments(broker, self._broker_epoch)
            broker.replication = self._replication = Replication(broker, self._broker_epoch)
            broker.replicas = self._replicas = Replicas(
                broker, self._assignments, self._replication, failures=self.failures
            )
            await directories.load(is_stray=self._replicas.stray_reason)
            broker.hold_coordinators()
            self._replicas.apply_all(quorum.image)
        quorum.subscribe(self._on_metadata)
        if self._replicas is not None:
            await self._replicas.drained()
            self._registration = Registration(
                broker,
                self._bound(config.advertised_listeners),
                previous_epoch=directories.previous_broker_epoch,
            )
            await self._unless_failed(self._registration.start())
            # Until here the image may still name this node the leader of partitions that the controller has
            # since given to others. A write in such an epoch would conflict with other records and go
            # unnoticed.
            broker.start_coordinators()
            # Clients come last: they find a broker that already leads its partitions.
            await self._serve_listeners("broker")
        self._start_duties()
        self._log_started()

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for other nodes as long as necessary, unless this node fails: no controller accepts a broker
        whose disk failed. In that case raise the failure."""
        assert self.failure is not None
        step = asyncio.ensure_future(work)
        try:
            await asyncio.wait([step, self.failure], return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                self.failure.result()
            await step
        finally:
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)

    def _make_quorum(self, cluster_id: str, directory_id: bytes) -> MetadataQuorum:
        """The controller of this node, or the way to those on other nodes."""
        config = self.config
        if not config.is_controller:
            from ottla.server.metadata.remote_quorum import RemoteQuorum

            return RemoteQuorum(
                disk=self._disk,
                clock=self._clock,
                random=self._random,
                network=self._network,
                config=config,
                cluster_id=cluster_id,
                directory_id=directory_id,
                failures=self.failures,
            )
        return Quorum(
            disk=self._disk,
            clock=self._clock,
            random=self._random,
            config=config,
            cluster_id=cluster_id,
            directory_id=directory_id,
            controller_endpoints=self._bound(config.advertised_controller_listeners),
            network=self._network,
            failures=self.failures,
        )

    def _make_directories(self) -> LogDirectories:
        config = self.config
        return LogDirectories(
            self._disk,
            self._clock,
            self._random,
            DirectoriesConfig(
                paths=config.log_directories,
                metadata_path=config.metadata_log_directory,
                recovery_threads=config.int_of("num.recovery.threads.per.data.dir"),
                producer_id_expiration_ms=config.int_of("producer.id.expiration.ms"),
                delete_delay_ms=config.int_of("log.segment.delete.delay.ms"),
                cordoned=config.cordoned_directories,
                copy_bytes_per_second=config.int_of("replica.alter.log.dirs.io.max.bytes.per.second"),
                cleaner=_cleaner_config(config),
            ),
            log_config=self._log_config,
            on_offline=self._on_offline,
            on_moved=self._on_moved,
            on_truncated=self._on_truncated,
            failures=self.failures,
        )

    def _log_config(self, topic: str) -> LogConfig:
        broker = self.broker
        return LogConfig.from_texts(topic_texts(broker.config, broker.image.topic_config(topic)))

    async def _bind_listeners(self) -> None:
        """Bind the ports first, since the node registers with the real ones."""
        config = self.config
        self._listener_roles = {
            endpoint.name: "broker" for endpoint in config.data_listeners if config.is_broker
        }
        if config.is_controller:
            self._listener_roles |= {endpoint.name: "controller" for endpoint in config.controller_listeners}
        self._quotas = quotas = NodeQuotas(self._clock, config, self._listener_roles, self.listeners)
        for endpoint in sorted(config.listeners, key=lambda one: self._listener_roles.get(one.name, "")):
            if endpoint.name not in self._listener_roles:
                continue
            listener = Listener(
                ListenerSettings(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    frame_bytes_max=config.int_of("socket.request.max.bytes"),
                    idle_max_ms=config.int_of("connections.max.idle.ms"),
                    backlog=max(config.int_of("socket.listen.backlog.size"), BACKLOG_MIN),
                ),
                clock=self._clock,
                memory=self._memory,
                answers=self._answers,
                quotas=quotas.of(endpoint.name),
                lateness=self.lateness,
                turns=self._turns,
            )
            listener.make_room = quotas.make_room
            try:
                await listener.bind(self._network)
            except OSError as error:
                raise ConfigError(
                    f"Cannot listen on {endpoint.host or '*'}:{endpoint.port} (listener {endpoint.name}): "
                    f"{error.strerror or error}. Change `listeners`, or stop the process that uses the "
                    "port."
                ) from error
            self.listeners.append(listener)

    async def _serve_listeners(self, kind: str) -> None:
        quorum = self.broker.quorum
        for listener in self.listeners:
            if self._listener_roles[listener.name] != kind:
                continue
            forward = quorum.forward if kind == "broker" else None
            dispatcher = Dispatcher(self.broker, HANDLERS, listener.name, kind, forward=forward)
            self.broker.dispatchers[listener.name] = dispatcher
            if kind == "broker":
                self.broker.api_keys = dispatcher.api_keys
            await listener.serve(dispatcher)

    def _bound(self, advertised: Sequence[Endpoint]) -> list[Endpoint]:
        """The advertised endpoints, with the real port where the configuration says 0."""
        ports = {listener.name: listener.port for listener in self.listeners}
        return [
            endpoint if endpoint.port else endpoint._replace(port=ports[endpoint.name])
            for endpoint in advertised
        ]

    def _log_started(self) -> None:
        where = ", ".join(
            f"{listener.name}://{listener.host_shown}:{listener.port}" for listener in self.listeners
        )
        logger.info("Ottla %s listens on %s", __version__, where)
        open_to_others = ", ".join(
            f"{listener.name}://{listener.host_shown}:{listener.port}"
            for listener in self.listeners
            if not is_loopback(listener.host_shown)
        )
        if open_to_others:
            logger.warning(
                "Whoever can reach %s can read and change all data: a node checks no logins. Keep other "
                "machines out with a firewall, or listen on localhost.",
                open_to_others,
            )
        logger.info("[KafkaRaftServer nodeId=%d] Kafka Server started", self.config.node_id)
        if self._freeze_startup_objects is not None:
            self._freeze_startup_objects()

    # Running

    def _on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        own, replicas, quotas = str(self.config.node_id), self._replicas, self._quotas
        if (ResourceType.BROKER, "") in delta.configs_changed or (
            ResourceType.BROKER,
            own,
        ) in delta.configs_changed:
            self._contain("settings of this node", self._apply_dynamic_config)
            if replicas is not None:
                self._contain("settings of topics", replicas.apply_broker_config)
        elif delta.client_quotas_changed and quotas is not None:
            self._contain("quotas", lambda: quotas.take_limits(self.broker.config, image))
        if replicas is not None:
            self._contain("metadata", lambda: replicas.apply(image, delta))
            self._contain("metadata of coordinators", lambda: self.broker.on_metadata(image, delta))

    def _contain(self, name: str, step: Callable[[], object]) -> None:
        """Run a step whose failure must not prevent the following ones."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - see `ottla.failures`
            self.failures.note(name, "", error)

    def _apply_dynamic_config(self) -> None:
        broker = self.broker
        broker.config = broker.config.with_dynamic(
            cluster=broker.image.config(ResourceType.BROKER, ""),
            broker=broker.image.config(ResourceType.BROKER, str(self.config.node_id)),
        )
        for warning in broker.config.warnings:
            logger.warning("%s", warning)
        broker.directories.cleaner.reconfigure(_cleaner_config(broker.config))
        broker.directories.limit_moves(broker.config.int_of("replica.alter.log.dirs.io.max.bytes.per.second"))
        broker.directories.cordon(broker.config.cordoned_directories)
        if self._registration is not None:
            self._registration.tell_soon()  # the controller places replicas by heartbeats
        assert self._quotas is not None
        self._quotas.take_limits(broker.config, broker.image)

    def _on_offline(self, directory: LogDirectory, partitions: list[tuple[str, int]]) -> None:
        for topic, index in partitions:
            partition = self.broker.partitions.get(topic, index)
            if partition is not None:
                partition.log = None
                if self._replication is not None:
                    self._replication.leave(partition)
                partition.notify_all()
        if self._registration is not None:
            self._registration.tell_soon()
        if self._directories is not None and not any(one.online for one in self._directories.directories):
            self._end(
                StopReason.NO_DIRECTORY, f"the last one, {directory.path}, failed with {directory.failure}"
            )

    def _on_moved(self, key: tuple[str, int], log: Log) -> None:
        """Switch to the new log of a replica that moved to another directory of this node."""
        partition = self.broker.partitions.get(*key)
        if partition is not None:
            partition.log = log
            if self._replicas is not None:
                self._replicas.apply_verification(log)
            partition.notify_all()
            if self._assignments is not None:
                directory_id = self.broker.directories.directory_id_of(log)
                self._assignments.submit(partition.topic_id, partition.index, directory_id)

    def _on_truncated(self, key: tuple[str, int], log: Log) -> None:
        """A log that was truncated takes records again."""
        partition = self.broker.partitions.get(*key)
        if partition is not None and partition.log is log and self._replicas is not None:
            self._replicas.log_truncated(partition)

    def _broker_epoch(self) -> int:
        return self._registration.broker_epoch if self._registration is not None else -1

    def _end(self, why: StopReason, cause: str) -> None:
        if self.failure is not None and not self.failure.done():
            self.failure.set_exception(DirectoryError(f"{why.value[0].upper()}{why.value[1:]}: {cause}"))

    def _start_duties(self) -> None:
        directories, config = self._directories, self.config
        assert directories is not None
        self._run_every("close idle connections", 30_000, self._close_idle)
        self._run_every("give back memory", 30_000, self._trim_memory)
        if (garbage := self._garbage) is not None:
            self.broker.step_runner.pause.freeze = garbage.freeze
            self._run_every("collect garbage", 10_000, lambda: garbage.collect(is_quiet=self._is_quiet()))
        if not config.is_broker:
            return
        for name, setting, duty in (
            (
                "recovery points",
                "log.flush.offset.checkpoint.interval.ms",
                directories.checkpoint_recovery_points,
            ),
            (
                "log start offsets",
                "log.flush.start.offset.checkpoint.interval.ms",
                directories.checkpoint_log_starts,
            ),
            (
                "high watermarks",
                "replica.high.watermark.checkpoint.interval.ms",
                directories.checkpoint_high_watermarks,
            ),
            ("retention", "log.retention.check.interval.ms", directories.retain),
            (
                "expiry of producers",
                "producer.id.expiration.check.interval.ms",
                directories.expire_producers,
            ),
        ):
            self._run_every(name, config.int_of(setting), duty)
        self._run_every(
            "flush", min(config.int_of("log.flush.scheduler.interval.ms"), 1_000), directories.flush_due
        )
        self._run_duty("deletion", self._delete_due)
        for number in range(config.int_of("log.cleaner.threads")):
            self._run_duty(f"cleaning {number}", self._clean)
        self._run_duty("moves", self._copy_futures)
        assert self._assignments is not None
        assert self._replication is not None
        assert self._replicas is not None
        self._run_duty("assignments", self._assignments.run)
        self._run_duty("in-sync replicas", self._replication.isr_changes.run)
        self._run_every("lag", config.int_of("replica.lag.time.max.ms") // 2, self._replication.shrink)
        self._run_every("metadata that failed", REAPPLY_MS, self._replicas.apply_failed)

    def _run_duty(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        """Run a duty until the node stops, and restart it whenever it fails."""

        async def run() -> None:
            while True:
                try:
                    await duty()
                except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                    self.failures.note(name, "", error)
                await asyncio.sleep(DUTY_RETRY_SECONDS)

        self._duties[name] = asyncio.ensure_future(run())

    def _run_every(self, name: str, interval_ms: int, duty: Callable[[], Awaitable[Any] | Any]) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(max(interval_ms, INTERVAL_MS_MIN) / 1000)
                try:
                    outcome = duty()
                    if isinstance(outcome, Awaitable):
                        await outcome
                except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                    self.failures.note(name, "", error)

        self._duties[name] = asyncio.ensure_future(run())

    def _close_idle(self) -> None:
        for listener in self.listeners:
            listener.close_idle()

    def _trim_memory(self) -> None:
        """Return memory that large requests and responses needed from the allocator to the system."""
        most_bytes = self._memory.most_bytes + self._answers.most_bytes
        if self._trim is not None and most_bytes >= MEMORY_KEPT_BYTES:
            self._memory.most_bytes = self._answers.most_bytes = 0
            self._trim()

    def _is_quiet(self) -> bool:
        """Whether no request has arrived for a second."""
        since = self._clock.monotonic() - 1
        return all(
            connection.last_active < since
            for listener in self.listeners
            for connection in listener.connections
        )

    async def _delete_due(self) -> None:
        directories = self.broker.directories
        while True:
            await asyncio.sleep(min(max(await directories.delete_due(), 1.0), 15.0))

    async def _clean(self) -> None:
        cleaner = self.broker.directories.cleaner
        while True:
            if not await cleaner.clean_next():
                await asyncio.sleep(self.broker.config.int_of("log.cleaner.backoff.ms") / 1000)

    async def _copy_futures(self) -> None:
        directories = self.broker.directories
        while True:
            if not (directories.futures and await directories.copy_futures()):
                await asyncio.sleep(0.2)

    # Stop

    async def stop(self) -> None:
        """Stop cleanly: flush everything acknowledged, so that the next start needs no recovery."""
        if self._registration is not None:
            await self._registration.leave()
        if self._quorum is not None:
            await self._quorum.leave()
        for listener in self.listeners:
            listener.stop_accepting()
        if self._broker is not None:
            self._broker.stop_coordinators()
        await self._drain()
        if self._replication is not None:
            await self._replication.close()
        for duty in self._duties.values():
            duty.cancel()
        await asyncio.gather(*self._duties.values(), return_exceptions=True)
        self._duties = {}
        self.lateness.stop()
        for listener in self.listeners:
            await listener.close()
        if self._broker is not None:
            await self._broker.end_appends()
        if self._replicas is not None:
            self._replicas.close()
            await self._replicas.wait_for_deletions()
        if self._quorum is not None:
            await self._quorum.stop()
        if self._directories is not None:
            await self._directories.close(broker_epoch=self._broker_epoch())

    async def _drain(self) -> None:
        """Give open requests a moment to finish."""
        deadline = self._clock.monotonic() + DRAIN_SECONDS_MAX
        while self._clock.monotonic() < deadline and any(
            connection.has_unanswered for listener in self.listeners for connection in listener.connections
        ):
            await asyncio.sleep(0.01)


def _cleaner_config(config: BrokerConfig) -> CleanerConfig:
    return CleanerConfig(
        enabled=config.bool_of("log.cleaner.enable"),
        threads=config.int_of("log.cleaner.threads"),
        dedupe_buffer_bytes=config.int_of("log.cleaner.dedupe.buffer.size"),
        load_factor=config.float_of("log.cleaner.io.buffer.load.factor"),
        io_buffer_bytes=config.int_of("log.cleaner.io.buffer.size"),
        io_bytes_per_second=config.float_of("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=config.int_of("log.cleaner.backoff.ms"),
    )


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the fastest available event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def serve_until_signal(node: Node, *, on_started: Callable[[Node], None] | None = None) -> int:
    """Start a node and run it until SIGTERM, SIGINT or a failure. Returns the exit code."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    starting: asyncio.Future[Any] = asyncio.ensure_future(node.start())
    waiting: asyncio.Future[Any] = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        logger.info("Stopping before startup has completed")
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    await starting
    if on_started is not None:
        on_started(node)
    assert node.failure is not None
    await asyncio.wait([node.failure, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    error = node.failure.exception() if node.failure.done() else None
    if error is not None:
        logger.critical("Fatal error, shutting down: %s", error)
    await node.stop()
    logger.info("[KafkaRaftServer nodeId=%d] Kafka Server stopped", node.config.node_id)
    return 0 if error is None else 1


def run(
    config: BrokerConfig,
    *,
    on_started: Callable[[Node], None] | None = None,
    log_source: str | None = None,
) -> int:
    """Run a node in the foreground, for `ottla serve` and kafka-server-start.sh.

    `log_source` names it in each line of a log that several nodes share."""
    from ottla.host import (
        HostClock,
        HostDisk,
        HostNetwork,
        HostRandom,
        freeze_startup_objects,
        raise_open_files_limit,
        trim_memory,
    )

    set_up_logging(source=log_source)
    raise_open_files_limit()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        clock = HostClock()
        node = Node(
            config,
            clock=clock,
            random=HostRandom(),
            disk=HostDisk(),
            network=HostNetwork(),
            trim_memory=trim_memory,
            freeze_startup_objects=freeze_startup_objects,
            garbage=GarbageCollector(clock),
        )
        return run_loop(serve_until_signal(node, on_started=on_started))
    except STARTING_ERRORS as error:
        logger.critical("%s", error)
        return 1
    except OSError as error:
        if error.errno not in PASSING:
            raise
        logger.critical("Startup failed: %s. Free disk space or memory, or raise the exhausted limit.", error)
        return 1
    except KeyboardInterrupt:
        return 130
