"""Kafka's log beside ours: every step is done by both, and what they answer and leave on disk is compared."""

from __future__ import annotations

import base64
import subprocess
import zlib
from pathlib import Path
from typing import Any

from ottla.host import HostDisk
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.producer_state import decode_snapshot
from ottla.records.batch import iterate_headers
from ottla.records.validate import Origin
from ottla.wire.errors import KafkaError
from tests.interop import peers
from tests.unit.log.support import FakeClock

_SOURCE = Path(__file__).with_name("LogPeer.java")
_REFUSED_LATE = (
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "TRANSACTION_COORDINATOR_FENCED",
)
_SAME_BYTES = (".log", ".index", ".timeindex", ".txnindex", "leader-epoch-checkpoint")


class LogPeer:
    """The JVM that holds Kafka's log."""

    def __init__(self) -> None:
        classes = peers.javac_compile([_SOURCE])
        command = peers.java_command("LogPeer", classes=classes, log_level="off")
        self._process = peers.start_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words: object) -> str:
        """One command, and its answer: "ok ..." or "error NAME"."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self._process.stdin.flush()
        return self._process.stdout.readline().decode().strip()

    def close(self) -> None:
        peers.end_process(self._process)


class Pair:
    """Two logs that must not differ: `topic-0` under `path`/ours and `path`/kafkas."""

    def __init__(self, peer: LogPeer, path: Path, settings: dict[str, str], now_ms: int) -> None:
        self._peer = peer
        self._disk = HostDisk(threads=1)
        self.clock = FakeClock(now_ms)
        self._settings = settings
        self.ours = path / "ours" / "topic-0"
        self.kafkas = path / "kafkas" / "topic-0"
        self.log: Log
        self.set_time(now_ms)
        self.open(recovery_point=0, log_start_offset=0, clean=True)

    # ---- what both do

    def both(self, ours: str, *words: object) -> str:
        kafkas = " ".join(self._peer.ask(*words).split())
        assert " ".join(ours.split()) == kafkas, (
            f"{' '.join(map(str, words))[:80]}: ours {ours!r}, Kafka's {kafkas!r}"
        )
        return kafkas

    def set_time(self, now_ms: int) -> None:
        self.clock.time_ms = now_ms
        self.both("ok", "time", now_ms)

    def open(self, *, recovery_point: int, log_start_offset: int, clean: bool) -> None:
        self.log = Log.open(
            self._disk,
            self.clock,
            str(self.ours),
            LogConfig.from_texts(self._settings),
            topic="topic",
            partition=0,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
        )
        words = [f"{name}={value}" for name, value in self._settings.items()]
        self.both(
            f"ok {self._state()}",
            "open",
            self.kafkas,
            recovery_point,
            log_start_offset,
            str(clean).lower(),
            *words,
        )

    def append(
        self, records: bytes, *, origin: Origin = Origin.CLIENT, leader_epoch: int = 0, version: int = 0
    ) -> str:
        text = base64.b64encode(records).decode()
        try:
            done = self.log.append(
                memoryview(bytearray(records)),
                leader_epoch=leader_epoch,
                now_ms=self.clock.time_ms,
                origin=origin,
                transaction_version=version,
            )
            answer = f"ok {done.first_offset} {done.last_offset} {done.log_append_time_ms}"
            is_written = not done.duplicate
        except KafkaError as error:
            answer = f"error {error.code.name}"
            is_written = error.code.name not in _REFUSED_LATE
        answer = self.both(answer, "append", origin.name, leader_epoch, version, text)
        if not is_written:
            self._catch_up(leader_epoch)
        return answer

    def _catch_up(self, leader_epoch: int) -> None:
        """Kafka notes the epoch and may roll before it refuses a producer; ours leaves no trace of it."""
        self.log.assign_epoch_start_offset(leader_epoch, self.log.log_end_offset)
        if int(self._peer.ask("state").split()[-1]) > len(self.log.segments):
            self.log.roll()

    def follow(self, records: bytes, *, leader_epoch: int) -> str:
        text = base64.b64encode(records).decode()
        done = self.log.append_as_follower(memoryview(bytearray(records)), leader_epoch=leader_epoch)
        answer = f"ok {done.first_offset} {done.last_offset} {done.log_append_time_ms}"
        return self.both(answer, "follow", leader_epoch, text)

    def set_watermark(self, offset: int) -> None:
        self.both(f"ok {self.log.set_high_watermark(offset)}", "watermark", offset)

    def roll(self) -> None:
        self.both(f"ok {self.log.roll().base_offset}", "roll")

    def truncate_to(self, offset: int) -> None:
        self.both(f"ok {str(self.log.truncate_to(offset)).lower()}", "truncate", offset)

    def start_over_at(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.both("ok", "restart", offset)

    def move_start(self, offset: int) -> None:
        try:
            answer = f"ok {str(self.log.increase_log_start_offset(offset, 'test')).lower()}"
        except KafkaError as error:
            answer = f"error {error.code.name}"
        self.both(answer, "start", offset)

    def retain(self) -> None:
        self.both(f"ok {self.log.delete_old_segments(self.clock.time_ms)}", "retain")

    def flush(self) -> None:
        self.log.flush()
        self.both("ok", "flush")

    def reopen(self, *, clean: bool) -> None:
        """Stop both and open them again; an unclean stop of Kafka's is a copy of the files while it runs."""
        start = self.log.log_start_offset
        point = self.log.log_end_offset if clean else 0
        if clean:
            self.flush()
        self.log.close(clean=clean)
        self.both("ok", "close")
        self.purge()
        self.open(recovery_point=point, log_start_offset=start, clean=clean)
        for entry in self.log.producers.entries.values():
            # Over a restart Kafka keeps one batch of each, with the time of the producer's last act; ours
            # keeps all that a scan finds, as they were.
            while len(entry.batches) > 1:
                entry.batches.popleft()
            if entry.batches:
                entry.batches.append(entry.batches.pop()._replace(timestamp=entry.last_timestamp))
        # Ours also keeps the transactions whose markers are not known to be replicated, Kafka forgets them.
        self.set_watermark(self.log.log_end_offset)

    def purge(self) -> None:
        """Remove files that wait for their delay."""
        self.log.delete_due(2**62)
        self.both("ok", "purge")

    # ---- what both say

    def _state(self) -> str:
        log = self.log
        return (
            f"{log.log_start_offset} {log.log_end_offset} {log.high_watermark} {log.last_stable_offset} "
            f"{log.size_bytes} {len(log.segments)}"
        )

    def compare_state(self) -> None:
        self.both(f"ok {self._state()}", "state")

    def compare_read(self, offset: int, max_bytes: int, isolation: str) -> None:
        log = self.log
        limits = {
            "LOG_END": log.log_end_offset,
            "HIGH_WATERMARK": log.high_watermark,
            "TXN_COMMITTED": log.last_stable_offset,
        }
        try:
            read = log.read(offset, max_bytes, limit_offset=limits[isolation])
        except KafkaError as error:
            self.both(f"error {error.code.name}", "read", offset, max_bytes, isolation)
            return
        answer = self._peer.ask("read", offset, max_bytes, isolation).split()
        assert answer[:3] == ["ok", str(len(read.records)), str(zlib.crc32(read.records))]
        if isolation == "TXN_COMMITTED":
            # Where an index entry fits exactly Kafka looks one further, and may name later transactions.
            aborted = [f"{entry.producer_id}:{entry.first_offset}" for entry in log.aborted_in(read, offset)]
            headers = [header for _, header in iterate_headers(read.records)]
            last_offset = headers[-1].last_offset if headers else -1
            needed = [word for word in answer[3:] if int(word.split(":")[1]) <= last_offset]
            assert set(needed) <= set(aborted) <= set(answer[3:])

    def compare_search(self, timestamp: int) -> None:
        found = (
            self.log.offset_for_timestamp(timestamp) if timestamp >= 0 else self.log.offset_of_max_timestamp()
        )
        answer = "ok none"
        if found is not None:
            epoch = "none" if found.leader_epoch is None else found.leader_epoch
            answer = f"ok {found.timestamp} {found.offset} {epoch}"
        self.both(answer, "find", timestamp)

    def compare_epoch(self, epoch: int) -> None:
        found, end = self.log.end_offset_for_epoch(epoch)
        self.both(f"ok {found} {end}", "epoch", epoch)

    def compare_aborted(self, first: int, end: int) -> None:
        entries = self.log.aborted_transactions(first, end)
        answer = "".join(
            f" {e.producer_id}:{e.first_offset}:{e.last_offset}:{e.last_stable_offset}" for e in entries
        )
        self.both(f"ok{answer}", "aborted", first, end)

    # ---- what both leave

    def close_and_compare_files(self) -> None:
        """Stop both and compare the directories."""
        self.flush()
        self.log.close()
        self.both("ok", "close")
        self.purge()
        ours, kafkas = contents(self.ours), contents(self.kafkas)
        for files in (ours, kafkas):  # below the log start Kafka removes snapshots, ours need not
            for offset in [int(name[:20]) for name in files if name.endswith(".snapshot")]:
                if offset <= self.log.log_start_offset:
                    del files[f"{offset:020d}.snapshot"]
        assert sorted(ours) == sorted(kafkas), set(ours) ^ set(kafkas)
        for name in ours:
            if name.endswith(".snapshot"):
                assert snapshot(ours[name]) == snapshot(kafkas[name]), (
                    f"{name}: {snapshot(ours[name])} and {snapshot(kafkas[name])}"
                )
            else:
                assert name.endswith(_SAME_BYTES), name
                assert ours[name] == kafkas[name], f"{name}: {ours[name]!r} and {kafkas[name]!r}"


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a log. One without entries may be empty or missing, which is the same."""
    found = {path.name: path.read_bytes() for path in directory.iterdir()}
    return {name: data for name, data in found.items() if data}


def snapshot(data: bytes) -> dict[int, Any]:
    """The producers of a snapshot, whatever their order."""
    return {
        entry.producer_id: (
            entry.epoch,
            entry.coordinator_epoch,
            entry.last_timestamp,
            entry.transaction_first_offset,
            list(entry.batches),
        )
        for entry in decode_snapshot(data)
    }
