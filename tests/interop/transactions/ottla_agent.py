"""A zombie with the client of this project: see `zombie` in the agents of other clients."""

from __future__ import annotations

from typing import Any

import ottla
from ottla.wire.errors import KafkaError


def _member(command: dict[str, Any]) -> ottla.Consumer[Any, Any]:
    settings: dict[str, Any] = {"max_poll_interval_ms": command["poll_interval_ms"]}
    if command["protocol"] == "classic":
        session_ms = command.get("session_ms", command["poll_interval_ms"])
        settings |= {"session_timeout_ms": session_ms, "heartbeat_interval_ms": 300}
    if command.get("instance"):
        settings |= {"group_instance_id": command["instance"]}
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


def take_over(**command: Any) -> None:
    """Read everything as the next member of the group, and commit that in a transaction."""
    name = f"{command['id']}-new"
    with (
        _member(command) as new,
        ottla.Producer(command["bootstrap"], transactional_id=name) as successor,
    ):
        _read(new, command["count"])
        successor.begin_transaction()
        successor.send(command["topic"], b"of the new one", partition=0)
        successor.send_offsets(new)
        successor.commit_transaction()


def zombie(**command: Any) -> dict[str, Any]:
    """As an agent's command."""
    with (
        _member(command) as old,
        ottla.Producer(command["bootstrap"], transactional_id=command["id"]) as producer,
    ):
        _read(old, 5)
        producer.begin_transaction()
        producer.send(command["topic"], b"of the zombie", partition=0)
        producer.flush()
        take_over(**command)
        try:
            producer.send_offsets(old)
            producer.commit_transaction()
        except KafkaError as error:
            producer.abort_transaction()
            return {"refused": type(error).__name__}
        return {"refused": None}
