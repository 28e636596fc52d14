"""The cleaner: compacts logs, the dirtiest first, while they are read and written.

A cleaning reads the dirty part once to map each key to its last offset, then copies the records that stay
into `.cleaned` files and replaces the old segments by these. The work is done in slices off the event loop
(`rewriter.py`); only the replacement happens on the loop. The rule: before it, the old segments must still
belong to the log and have the size they had. Otherwise (the log was truncated, deleted or moved) the result
is discarded.

An error of a cleaning affects its own log: that log is not compacted again until a restart, as in Kafka, and
the cleaner continues with the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ottla.log import checkpoints
from ottla.log.checkpoints import CheckpointError, CheckpointFile, Partition
from ottla.log.compaction.rewriter import CleaningReport, Compaction, Steps, advance
from ottla.log.compaction.rules import Dirt, TransactionTracker, group_segments, last_records, measure
from ottla.log.log import Log
from ottla.log.offload import outlast
from ottla.log.segment import LogDamaged, Segment
from ottla.ports import Clock, Disk, Random
from ottla.rare_paths import rarely
from ottla.records.compaction import SECRET_BYTES, SLOT_BYTES, KeyMap
from ottla.wire.errors import KafkaError, KafkaStorageError

logger = logging.getLogger("ottla.log.compaction.cleaner")

_T = TypeVar("_T")
_CHUNK_BYTES_MIN = 4096
_BUFFER_BYTES_MAX = 2**31 - 1
"""Of the map of one cleaning, as in Kafka: more is ignored."""
_LOAD_FACTORS = (0.01, 1.0)
_UNLIMITED = 1e15
_FOREVER_S = float("inf")
_THROTTLE_PAUSE_S = 1.0
"""A throttled cleaning checks this often whether it is aborted or the rate has changed."""


class CleaningAborted(Exception):
    """The log changed under a cleaning, or someone asked to stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """`log.cleaner.*`."""

    enabled: bool = True
    threads: int = 1
    """How many cleanings the node runs at a time: they share the buffers."""
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    io_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000


class _Throttle:
    """Keeps the sum of reads and writes below a rate, which may change at any time. A rate of 0 is a stop."""

    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._owed_bytes = 0.0
        self._paid_at = clock.monotonic()

    def set_rate(self, bytes_per_second: float) -> None:
        self._pay()
        self._bytes_per_second = bytes_per_second

    def charge(self, count: int) -> None:
        self._pay()
        self._owed_bytes += count

    def delay_s(self) -> float:
        """For how long to wait before the next read or write."""
        self._pay()
        if self._owed_bytes <= 0:
            return 0.0
        # Written so that a rate that is no number stops cleaning too.
        return self._owed_bytes / self._bytes_per_second if self._bytes_per_second > 0 else _FOREVER_S

    def _pay(self) -> None:
        now = self._clock.monotonic()
        elapsed_s, self._paid_at = now - self._paid_at, now
        if self._bytes_per_second >= _UNLIMITED:
            self._owed_bytes = 0.0
        elif self._bytes_per_second > 0:
            self._owed_bytes = max(0.0, self._owed_bytes - elapsed_s * self._bytes_per_second)


class _Job:
    """A cleaning in progress."""

    __slots__ = ("dirt", "is_aborted", "log", "partition", "report", "sizes")

    def __init__(self, partition: Partition, log: Log, dirt: Dirt) -> None:
        self.partition = partition
        self.log = log
        self.dirt = dirt
        self.is_aborted = False
        self.report = CleaningReport(
            name=log.name, first_dirty_offset=dirt.first_dirty_offset, end_offset=dirt.first_dirty_offset
        )
        # The segments that must not change until they are replaced, with their sizes.
        segments = log.segments.covering(-1, dirt.end_offset)
        self.sizes = {segment: segment.size_bytes for segment in segments}

    @property
    def is_unchanged(self) -> bool:
        present = set(self.log.segments)
        return self.log.failure is None and all(
            segment in present and segment.size_bytes == size for segment, size in self.sizes.items()
        )


class Cleaner:
    """The log cleaner of a node, which calls `clean_next` periodically."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        config: CleanerConfig,
        logs: Mapping[Partition, Log],
        on_disk_error: Callable[[Log, OSError], object],
        secure: Callable[[Log, int], Awaitable[None]] | None = None,
    ) -> None:
        """`secure` is awaited before segments are exchanged: see `LogDirectories.secure`."""
        self._disk = disk
        self._clock = clock
        self._random = random
        self._logs = logs
        self._on_disk_error = on_disk_error
        self._secure = secure
        self._throttle = _Throttle(clock, config.io_bytes_per_second)
        self._jobs: dict[Partition, _Job] = {}
        self._pauses: dict[Partition, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False
        self._files: dict[str, CheckpointFile] = {}
        self.config = config
        self.cleaned: dict[str, dict[Partition, int]] = {}
        """For each log directory the offsets up to which its logs are clean: `cleaner-offset-checkpoint`."""
        self.uncleanable: dict[Partition, str] = {}
        """Partitions that are no longer cleaned, and why."""
        self.last: CleaningReport | None = None
        self.dirtiest_ratio = 0.0
        self.overdue_ms_max = 0

    def reconfigure(self, config: CleanerConfig) -> None:
        """Use new settings from the next cleaning on."""
        self.config = config
        self._throttle.set_rate(config.io_bytes_per_second)

    # ---- who may be cleaned

    def abort(self, partition: Partition) -> None:
        """Abort a cleaning of this log if there is one: its segments are about to change."""
        job = self._jobs.get(partition)
        if job is not None:
            job.is_aborted = True

    def pause(self, partition: Partition) -> None:
        """Do not clean this log until `resume` has been called as often as this."""
        self.abort(partition)
        self._pauses[partition] = self._pauses.get(partition, 0) + 1

    def resume(self, partition: Partition) -> None:
        count = self._pauses.pop(partition, 0) - 1
        if count > 0:
            self._pauses[partition] = count

    async def close(self) -> None:
        """Stop, and wait until no cleaning runs."""
        self._is_closed = True
        for job in self._jobs.values():
            job.is_aborted = True
        await self._idle.wait()

    # ---- the checkpoint

    def load_checkpoint(self, directory: str) -> None:
        """Read up to where the logs of a directory are clean. If that is damaged, cleaning starts over.
        Blocks."""
        path = f"{directory}/{checkpoints.CLEANED}"
        try:
            self.cleaned[directory] = checkpoints.read(self._disk, path)
        except CheckpointError as error:
            logger.warning("%s Cleaning restarts in this directory.", error)
            self.cleaned[directory] = {}

    def cleaned_offset(self, partition: Partition, log: Log) -> int | None:
        return self.cleaned.get(directory_of(log), {}).get(partition)

    async def set_cleaned(self, directory: str, changes: Mapping[Partition, int | None]) -> None:
        """Change the checkpoint of a directory; None removes a partition. Those without a log are removed
        too."""
        offsets = self.cleaned.setdefault(directory, {})
        for partition, offset in changes.items():
            if offset is None:
                offsets.pop(partition, None)
            else:
                offsets[partition] = offset
        for partition in [partition for partition in offsets if partition not in self._logs]:
            del offsets[partition]
        file = self._files.get(directory)
        if file is None:
            path = f"{directory}/{checkpoints.CLEANED}"
            file = self._files[directory] = CheckpointFile(self._disk, path)
        await file.write(lambda: offsets)

    async def truncated(self, partition: Partition, log: Log) -> None:
        """The log was truncated: what is appended from now on is dirty."""
        cleaned = self.cleaned_offset(partition, log)
        offset = log.active_segment.base_offset
        if cleaned is not None and cleaned > offset:
            await self.set_cleaned(directory_of(log), {partition: offset})

    # ---- choosing

    def _choose(self) -> _Job | None:
        """The dirtiest log that is due."""
        now_ms = self._clock.now_ms()
        self.dirtiest_ratio, self.overdue_ms_max = 0.0, 0
        best: tuple[Partition, Log, Dirt] | None = None
        for partition, log in self._compacted_logs():
            try:
                dirt = measure(log, self.cleaned_offset(partition, log), now_ms)
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._handle(partition, log, error)
                continue
            if dirt.is_checkpoint_wrong:
                self._restart_at(partition, log, dirt.first_dirty_offset)
            self.dirtiest_ratio = max(self.dirtiest_ratio, dirt.ratio)
            self.overdue_ms_max = max(self.overdue_ms_max, dirt.overdue_ms)
            if dirt.is_due(log.config) and (best is None or dirt.ratio > best[2].ratio):
                best = partition, log, dirt
        return _Job(*best) if best is not None else None

    def _restart_at(self, partition: Partition, log: Log, offset: int) -> None:
        """The checkpoint is outside the log: with `compact,delete` that is normal, else worth a warning."""
        self.cleaned.setdefault(directory_of(log), {})[partition] = offset
        if not log.config.is_deleted:
            logger.warning(
                "%s: the cleaner checkpoint does not match the log; cleaning restarts at offset %d",
                log.name,
                offset,
            )

    def _compacted_logs(self) -> list[tuple[Partition, Log]]:
        """The logs that compaction may look at now."""
        free = [
            (partition, log)
            for partition, log in self._logs.items()
            if partition not in self._jobs
            and partition not in self._pauses
            and partition not in self.uncleanable
        ]
        return [(partition, log) for partition, log in free if self._is_compacted(partition, log)]

    def _is_compacted(self, partition: Partition, log: Log) -> bool:
        try:
            return log.config.is_compacted and log.failure is None
        except Exception as error:  # noqa: BLE001 - it affects this log alone
            self._handle(partition, log, error)
            return False

    def _handle(self, partition: Partition, log: Log, error: Exception) -> None:
        """A failing disk is reported for its directory. Any other error affects this log alone."""
        if isinstance(error, OSError) and not isinstance(error, LogDamaged):
            self._on_disk_error(log, error)
            return
        if isinstance(error, KafkaStorageError):  # it was reported for its directory; a retry may succeed
            logger.warning("Failed to compact %s: %s", log.name, error)
            return
        is_foreseen = isinstance(error, (OSError, KafkaError))
        logger.warning(
            "Failed to compact %s, which is not compacted again until a restart: %s",
            log.name,
            error if is_foreseen else f"{type(error).__name__}: {error}",
            exc_info=None if is_foreseen else error,
        )
        self.uncleanable[partition] = str(error) or type(error).__name__

    # ---- cleaning

    async def clean_next(self) -> bool:
        """Clean the dirtiest log that is due, and delete old segments of compacted logs.

        False: nothing was cleaned, ask again in `config.backoff_ms`.
        """
        if self._is_closed or not self.config.enabled:
            return False
        for partition in [partition for partition in self.uncleanable if partition not in self._logs]:
            del self.uncleanable[partition]
        job = self._choose()
        is_cleaned = job is not None and await self._run(job)
        self._delete_old_segments()
        return is_cleaned

    async def _run(self, job: _Job) -> bool:
        self._jobs[job.partition] = job
        self._idle.clear()
        started = self._clock.monotonic()
        try:
            await self._clean(job)
            await self.set_cleaned(directory_of(job.log), {job.partition: job.report.end_offset})
        except CleaningAborted:
            logger.info("Aborted the cleaning of %s", job.log.name)
            return False
        except Exception as error:
            if isinstance(error, OSError) or not self._is_outdated(job):
                self._handle(job.partition, job.log, error)
            else:
                logger.warning(
                    "Cleaning of %s failed because its log changed meanwhile", job.log.name, exc_info=error
                )
            return False
        finally:
            del self._jobs[job.partition]
            if not self._jobs:
                self._idle.set()
        job.report.seconds = self._clock.monotonic() - started
        self._announce(job.report)
        return True

    def _announce(self, report: CleaningReport) -> None:
        self.last = report
        logger.info(
            "Cleaned %s up to offset %d (before: %d): kept %d of %d bytes and %d of %d records, in %.1f s",
            report.name,
            report.end_offset,
            report.first_dirty_offset,
            report.bytes_written,
            report.bytes_read,
            report.records_kept,
            report.records_read,
            report.seconds,
        )
        if report.records_without_key:
            logger.warning("%s: dropped %d records without a key", report.name, report.records_without_key)

    def _delete_old_segments(self) -> None:
        """Retention of compacted logs: below the log start, and with `compact,delete` by age and size."""
        for partition, log in self._compacted_logs():
            try:
                log.delete_old_segments(self._clock.now_ms())
            except Exception as error:  # noqa: BLE001 - it affects this log alone
                self._handle(partition, log, error)

    async def _clean(self, job: _Job) -> None:
        log, dirt = job.log, job.dirt
        key_map = await outlast(self._disk, self._new_key_map, dirt)
        if self._is_outdated(job):
            raise CleaningAborted
        clean = log.segments.covering(-1, dirt.first_dirty_offset)
        compaction = Compaction(
            disk=self._disk,
            config=log.config,
            chunk_bytes=max(
                _CHUNK_BYTES_MIN, self.config.io_buffer_bytes // max(1, self.config.threads) // 2
            ),
            key_map=key_map,
            report=job.report,
            first_dirty_offset=dirt.first_dirty_offset,
            end_offset=dirt.end_offset,
            now_ms=self._clock.now_ms(),
            legacy_horizon_ms=clean[-1].modified_ms - log.config.delete_retention_ms if clean else 0,
        )
        await self._map_keys(job, compaction)
        end_offset = key_map.latest_offset + 1
        if self._secure is not None:
            await self._secure(log, dirt.end_offset)  # all of the segments that are replaced
        if self._is_outdated(job):
            raise CleaningAborted
        groups = group_segments(log.segments.covering(-1, end_offset), log.config, dirt.end_offset)
        for group in groups:
            sources = [(segment, log.aborted_transactions(*_range_of(log, segment))) for segment in group]
            cleaned = await self._drive(job, compaction.copy_segments(sources, last_records(log)))
            await self._exchange(job, cleaned, group)
        job.report.end_offset = end_offset

    def _new_key_map(self, dirt: Dirt) -> KeyMap:
        """A map with room for each key of the dirty part, within the limit of the buffer."""
        bytes_max = min(self.config.dedupe_buffer_bytes // max(1, self.config.threads), _BUFFER_BYTES_MAX)
        keys_max = dirt.end_offset - dirt.first_dirty_offset
        least, most = _LOAD_FACTORS  # Kafka accepts any number as a load factor
        load_factor = min(max(least, self.config.load_factor), most)
        slots = min(bytes_max // SLOT_BYTES, int(keys_max / load_factor) + 2)
        return KeyMap(slots, self._random.bytes(SECRET_BYTES), load_factor)

    async def _map_keys(self, job: _Job, compaction: Compaction) -> None:
        """Map the keys of the dirty part to their last offsets, until the map is full."""
        log, dirt = job.log, job.dirt
        tracker = TransactionTracker()
        tracker.expect(log.aborted_transactions(dirt.first_dirty_offset, dirt.end_offset))
        segments = log.segments.covering(dirt.first_dirty_offset, dirt.end_offset)
        for segment in segments:
            if not await self._drive(job, compaction.map_segment(segment, tracker)):
                return
            compaction.key_map.pass_over(_range_of(log, segment)[1] - 1)

    async def _drive(self, job: _Job, steps: Steps[_T]) -> _T:
        """Run steps off the loop, a slice at a time, until they are done."""
        is_done = False
        try:
            while True:
                if job.is_aborted or rarely("a cleaning is given up"):
                    raise CleaningAborted
                done: tuple[int, list[_T]] = await outlast(self._disk, advance, steps)
                count, results = done
                if results:
                    is_done = True
                    return results[0]
                self._throttle.charge(count)
                while (delay_s := self._throttle.delay_s()) > 0 and not job.is_aborted:
                    await asyncio.sleep(min(delay_s, _THROTTLE_PAUSE_S))
        except CleaningAborted:
            raise
        except Exception as error:
            if self._is_outdated(job):
                raise CleaningAborted from error
            raise
        finally:
            if not is_done:
                await outlast(self._disk, steps.close)

    def _is_outdated(self, job: _Job) -> bool:
        """Whether the log has changed so that the result cannot be used."""
        return job.is_aborted or self._logs.get(job.partition) is not job.log or not job.is_unchanged

    async def _exchange(self, job: _Job, cleaned: Segment, group: list[Segment]) -> None:
        """Replace the sources by the cleaned segment."""
        if self._is_outdated(job):
            await outlast(self._disk, cleaned.remove)
            raise CleaningAborted
        job.log.replace_segments([cleaned], group)
        for segment in group:
            del job.sizes[segment]


def directory_of(log: Log) -> str:
    """The log directory that has a log."""
    return log.directory.rpartition("/")[0]


def _range_of(log: Log, segment: Segment) -> tuple[int, int]:
    """The offsets that a segment can hold."""
    following = log.segments.after(segment)
    return segment.base_offset, log.log_end_offset if following is None else following.base_offset
