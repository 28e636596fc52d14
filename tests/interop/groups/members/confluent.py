"""Members on confluent-kafka (librdkafka), classic protocol and consumer protocol."""

from __future__ import annotations

import os
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.interop.groups.members.lines import At, ThreadMember, emit, emit_partitions, serve_threads


class ConfluentMember(ThreadMember):
    def open(self) -> None:
        self._consumer = Consumer(self._config())
        pattern = self.given.get("pattern")
        self._consumer.subscribe(
            [pattern] if pattern else self.given["topics"],
            on_assign=lambda _, added: emit_partitions(self.name, "assigned", _ats(added)),
            on_revoke=lambda _, gone: self._revoked(_ats(gone)),
            on_lost=lambda _, gone: self._lost(_ats(gone)),
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
            "topic.metadata.refresh.interval.ms": 500,
            "fetch.wait.max.ms": 200,
            "max.poll.interval.ms": given["max_poll_ms"],
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
        count = 0
        message = self._consumer.poll(0.1)
        while message is not None:
            error = message.error()
            if error is None:
                self.pending.delivered(At(message.topic(), message.partition()), [message.offset()])
                count += 1
            elif error.code() == KafkaError._FATAL or error.fatal():
                raise RuntimeError(str(error))
            else:
                emit(self.name, "note", note=str(error))
            message = self._consumer.poll(0) if count < 100 else None
        return count

    def send_commit(self, offsets: dict[At, int]) -> None:
        named = [TopicPartition(at.topic, at.partition, offset) for at, offset in offsets.items()]
        for answer in self._consumer.commit(offsets=named, asynchronous=False):
            if answer.error is not None:
                raise RuntimeError(str(answer.error))

    def close(self) -> None:
        self._consumer.close()

    def _revoked(self, gone: list[At]) -> None:
        self.commit(gone)
        self.pending.forget(gone)
        emit_partitions(self.name, "revoked", gone)

    def _lost(self, gone: list[At]) -> None:
        self.pending.forget(gone)
        emit_partitions(self.name, "lost", gone)


def _ats(partitions: list[TopicPartition]) -> list[At]:
    return [At(each.topic, each.partition) for each in partitions]


if __name__ == "__main__":
    serve_threads(ConfluentMember)
    os._exit(0)  # as a process that is taken away: librdkafka must not leave its groups in order
