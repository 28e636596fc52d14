"""What the members in Python share: commands as JSON lines on stdin, events as JSON lines on stdout.

Each event is written before what it tells of can take effect on another member: `revoked` before the
partitions are released, `records` before their commit. So merged logs say who owned a partition at each time.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

_writing = threading.Lock()


class At(NamedTuple):
    """A partition, by its topic's name."""

    topic: str
    partition: int


def emit(member: str, event: str, **fields: Any) -> None:
    with _writing:
        line = {"at": time.time_ns() // 1000, "member": member, "event": event, **fields}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def emit_partitions(member: str, event: str, partitions: Iterable[At]) -> None:
    emit(member, event, partitions=[[at.topic, at.partition] for at in partitions])


def emit_offsets(member: str, event: str, offsets: dict[At, int], **fields: Any) -> None:
    emit(
        member, event, offsets=[[at.topic, at.partition, offset] for at, offset in offsets.items()], **fields
    )


def log_to_stderr() -> None:
    """What the client says of itself, when OTTLA_TEST_CLIENT_LOG asks for it (warn unless told)."""
    level = os.environ.get("OTTLA_TEST_CLIENT_LOG", "warn").upper()
    logging.basicConfig(level=level, format="%(asctime)s %(threadName)s %(name)s %(message)s")


def commands() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


class Pending:
    """Offsets delivered and not committed yet."""

    def __init__(self, member: str) -> None:
        self._member = member
        self.offsets: dict[At, int] = {}

    def delivered(self, at: At, offsets: list[int]) -> None:
        emit(self._member, "records", topic=at.topic, partition=at.partition, offsets=offsets)
        self.offsets[at] = offsets[-1] + 1

    def of(self, partitions: Iterable[At] | None) -> dict[At, int]:
        if partitions is None:
            return dict(self.offsets)
        return {at: self.offsets[at] for at in partitions if at in self.offsets}

    def committed(self, offsets: dict[At, int]) -> None:
        for at, offset in offsets.items():
            if self.offsets.get(at) == offset:
                del self.offsets[at]
        emit_offsets(self._member, "committed", offsets)

    def forget(self, partitions: Iterable[At]) -> None:
        for at in partitions:
            self.offsets.pop(at, None)


class ThreadMember:
    """A member with a thread of its own; a client says how it opens, polls, commits and closes."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.name: str = given["member"]
        self.commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.pending = Pending(self.name)

    def open(self) -> None:
        raise AssertionError("a client says how it joins")

    def poll(self) -> int:
        """Poll for about 100 ms, tell of each record; how many there were."""
        raise AssertionError("a client says how it polls")

    def send_commit(self, offsets: dict[At, int]) -> None:
        """Commit and wait for the answer; raises what the client raises."""
        raise AssertionError("a client says how it commits")

    def close(self) -> None:
        raise AssertionError("a client says how it leaves")

    def commit(self, partitions: Iterable[At] | None = None) -> None:
        offsets = self.pending.of(partitions)
        if not offsets:
            return
        emit_offsets(self.name, "committing", offsets)
        try:
            self.send_commit(offsets)
        except Exception as error:  # noqa: BLE001 (whatever the client says is what the log is to show)
            emit_offsets(self.name, "commit_failed", offsets, error=repr(error))
        else:
            self.pending.committed(offsets)

    def run(self) -> None:
        try:
            self.open()
            self._serve()
        except BaseException as error:
            traceback.print_exc()
            emit(self.name, "error", error=repr(error))
            raise

    def _serve(self) -> None:
        uncommitted = pause_ms = 0
        commit_every: int = self.given["commit_every"]
        while True:
            if not self.commands.empty():
                command = self.commands.get()
                if command["op"] == "close":
                    break
                pause_ms = command["ms"]
            count = self.poll()
            uncommitted += count
            if pause_ms and count:
                emit(self.name, "paused")
                time.sleep(pause_ms / 1000)
                pause_ms = 0
                emit(self.name, "resumed")
                uncommitted = commit_every
            if uncommitted >= commit_every:
                uncommitted = 0
                self.commit()
        self.commit()
        self.close()
        emit(self.name, "closed")


def serve_threads(make: Callable[[dict[str, Any]], ThreadMember]) -> None:
    """Obey stdin until it ends; the process then ends without a word to the broker."""
    log_to_stderr()
    members: dict[str, ThreadMember] = {}
    for command in commands():
        if command["op"] == "start":
            member = members[command["member"]] = make(command)
            threading.Thread(target=member.run, name=member.name, daemon=True).start()
        else:
            members[command["member"]].commands.put(command)
