"""A zombie with the client of this project: see `zombie` in the agents of other clients."""

from __future__ import annotations

from typing import Any

import ottla
from ottla.wire.errors import KafkaError


def _member(command: dict[str, Any]) -> ottla.Consumer[Any, Any]:
    settings: dict[str, Any] = {"max_poll_interval_ms": command["poll_interval_ms"]}
    if command["protocol"] == "classic":
        settings |= {"session_timeout_ms": command["poll_interval_ms"], "heartbeat_interval_ms": 300}
    return ottla.Consumer(
        command["bootstrap"],
        group_id=command["group"],
        group_protocol=command["protocol"],
        topics=[command["source"]],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=5,
        **settings,
    )


def _read(consumer: ottla.Consumer[Any, Any], count: int) -> None:
    read = 0
    while read < count:
        read += len(consumer.poll(0.2))


def zombie(**command: Any) -> dict[str, Any]:
    """As an agent's command."""
    topic, name = command["topic"], command["id"]
    with (
        _member(command) as old,
        _member(command) as new,
        ottla.Producer(command["bootstrap"], transactional_id=name) as producer,
        ottla.Producer(command["bootstrap"], transactional_id=f"{name}-new") as successor,
    ):
        _read(old, 5)
        producer.begin_transaction()
        producer.send(topic, b"of the zombie", partition=0)
        producer.flush()
        _read(new, command["count"])
        successor.begin_transaction()
        successor.send(topic, b"of the new one", partition=0)
        successor.send_offsets(new)
        successor.commit_transaction()
        try:
            producer.send_offsets(old)
            producer.commit_transaction()
        except KafkaError as error:
            producer.abort_transaction()
            return {"refused": type(error).__name__}
        return {"refused": None}
