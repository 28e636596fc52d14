"""Reassignments in progress: listing, progress on a terminal, removal of throttles."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.cli.output import count_text, duration_text, is_terminal, size_text
from ottla.cli.reassignment.progress import Moving, Standing, Tracker, moving_of

if TYPE_CHECKING:
    from ottla.cli.session import Session
    from ottla.client.admin import Admin
    from ottla.client.values import TopicPartition

LOOK_SECONDS = 1.0


def look(admin: Admin) -> dict[TopicPartition, Moving]:
    """The reassignments in progress."""
    from ottla.cli.lookups import replica_sizes

    found = admin.list_partition_reassignments()
    brokers = sorted({broker for one in found.values() for broker in one.replicas})
    sizes = replica_sizes(admin, brokers) if brokers else {}
    return moving_of(
        {place: (one.replicas, one.adding, one.removing) for place, one in found.items()},
        {key: info.size_bytes for key, info in sizes.items()},
    )


def watch(session: Session, admin: Admin) -> Standing:
    """Show progress until no reassignment is left."""
    tracker = Tracker()
    moving = look(admin)
    standing = tracker.take(moving, time.monotonic())
    if not moving:
        return standing
    try:
        with _Bar(session) as bar:
            while moving:
                bar.show(standing)
                time.sleep(LOOK_SECONDS)
                moving = look(admin)
                standing = tracker.take(moving, time.monotonic())
            bar.show(standing)
    except KeyboardInterrupt:
        print("The reassignment continues. Show progress with: ottla reassign status", file=sys.stderr)
        raise
    return standing


class _Bar:
    """A progress bar with rate and remaining time on a terminal, one line per poll elsewhere."""

    def __init__(self, session: Session) -> None:
        self._is_silent = session.is_structured
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> _Bar:
        if is_terminal() and not self._is_silent:
            from rich.progress import BarColumn, Progress, TextColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("{task.fields[rest]}"),
            )
            self._task = self._progress.add_task("", total=1, rest="")
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, standing: Standing) -> None:
        if self._is_silent:
            return
        head = f"{standing.partitions_done} of {count_text(standing.partitions, 'partition')} moved"
        if self._progress is None:
            print(f"{head}, {rest_text(standing)}", flush=True)
            return
        is_empty = not standing.total_bytes
        self._progress.update(
            self._task,
            description=head,
            completed=standing.partitions_done if is_empty else standing.copied_bytes,
            total=standing.partitions if is_empty else standing.total_bytes,
            rest=rest_text(standing),
        )


def rest_text(standing: Standing) -> str:
    """`1.2 GiB of 4.0 GiB, 48.0 MiB/s, 1m 2s left`"""
    parts = [f"{size_text(standing.copied_bytes)} of {size_text(standing.total_bytes)}"]
    if standing.bytes_per_second is not None:
        parts.append(f"{size_text(round(standing.bytes_per_second))}/s")
    if standing.seconds_left is not None:
        parts.append(f"{duration_text(round(standing.seconds_left))} left")
    return ", ".join(parts)


def throttled(admin: Admin) -> dict[int, int]:
    """The throttled brokers and their rates."""
    from ottla.client.admin.configs import ConfigSource, broker_resource
    from ottla.operations.reassignments import FOLLOWER_RATE, LEADER_RATE

    nodes = [node.id for node in admin.describe_cluster().nodes]
    found = admin.describe_configs(
        [broker_resource(node) for node in nodes], names=[LEADER_RATE, FOLLOWER_RATE]
    )
    return {
        int(resource.name): int(entry.value)
        for resource, entries in found.succeeded.items()
        for entry in entries.values()
        if entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG and entry.value is not None
    }


def clear_throttles(admin: Admin, topics: Iterable[str] = ()) -> bool:
    """Remove the throttles of brokers and topics; returns whether there were any.

    A broker that has not applied a throttle yet does not report it, so the throttles of all brokers and of
    `topics` are removed regardless.
    """
    from ottla.client.admin.configs import ConfigSource, topic_resource
    from ottla.operations.reassignments import (
        FOLLOWER_REPLICAS,
        LEADER_REPLICAS,
        clear_broker_throttles,
        clear_topic_throttles,
    )

    limits = throttled(admin)
    clear_broker_throttles(admin, [node.id for node in admin.describe_cluster().nodes])
    names = admin.list_topics(include_internal=True)
    settings = admin.describe_configs(
        [topic_resource(name) for name in names], names=[LEADER_REPLICAS, FOLLOWER_REPLICAS]
    )
    listed = {
        resource.name
        for resource, entries in settings.succeeded.items()
        if any(entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG for entry in entries.values())
    }
    clear_topic_throttles(admin, sorted(listed.union(topics)))
    return bool(limits or listed)
