"""Members on Ottla's own client library, classic protocol and consumer protocol."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from ottla import Consumer, TopicPartition
from tests.interop.groups.members.lines import At, ThreadMember, emit_partitions, serve_threads


class LibraryMember(ThreadMember):
    def open(self) -> None:
        self._consumer: Consumer[bytes, bytes] = Consumer(self._config())
        pattern = self.given.get("pattern")
        self._consumer.subscribe(
            None if pattern else self.given["topics"],
            pattern=pattern,
            on_assigned=lambda added: emit_partitions(self.name, "assigned", _ats(added)),
            on_revoked=lambda gone: self._revoked(_ats(gone)),
            on_lost=lambda gone: self._lost(_ats(gone)),
        )

    def _config(self) -> dict[str, Any]:
        given = self.given
        config: dict[str, Any] = {
            "bootstrap.servers": given["bootstrap"],
            "client.id": self.name,
            "group.id": given["group"],
            "group.protocol": given["protocol"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": 500,
            "fetch.max.wait.ms": 200,
            "max.poll.interval.ms": given["max_poll_ms"],
            "max.poll.records": 100,
        }
        if given.get("instance"):
            config["group.instance.id"] = given["instance"]
        if given["protocol"] == "consumer":
            if given.get("assignor"):
                config["group.remote.assignor"] = given["assignor"]
        else:
            config["session.timeout.ms"] = given["session_ms"]
            config["heartbeat.interval.ms"] = given["heartbeat_ms"]
            if given.get("assignor"):
                config["partition.assignment.strategy"] = given["assignor"]
        return config

    def poll(self) -> int:
        records = self._consumer.poll(0.1)
        for (topic, partition), group in groupby(records, lambda one: (one.topic, one.partition)):
            self.pending.delivered(At(topic, partition), [record.offset for record in group])
        return len(records)

    def send_commit(self, offsets: dict[At, int]) -> None:
        self._consumer.commit(dict(offsets), timeout=20)

    def close(self) -> None:
        self._consumer.close()

    def _revoked(self, gone: list[At]) -> None:
        self.commit(gone)
        self.pending.forget(gone)
        emit_partitions(self.name, "revoked", gone)

    def _lost(self, gone: list[At]) -> None:
        self.pending.forget(gone)
        emit_partitions(self.name, "lost", gone)


def _ats(partitions: Iterable[TopicPartition]) -> list[At]:
    return [At(*each) for each in partitions]


if __name__ == "__main__":
    serve_threads(LibraryMember)
    os._exit(0)  # as a process that is taken away: nothing is left in order
