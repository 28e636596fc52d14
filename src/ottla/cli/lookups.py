"""Lookups that several nouns share: topics and groups by name, replica sizes, confirmation.

Rule: an unknown name is reported together with similar names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.cli.errors import FAILED, Misuse, report, unknown
from ottla.wire.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.groups import GroupListing
    from ottla.client.admin.replicas import ReplicaInfo
    from ottla.client.admin.topics import TopicDescription
    from ottla.client.values import TopicPartition

K = TypeVar("K")


def describe_topics(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics by name; a Problem if one does not exist."""
    found = admin.describe_topics(list(dict.fromkeys(names)))
    for name, error in found.failed.items():
        if isinstance(error, UnknownTopicOrPartition):
            raise no_topic(admin, name) from error
        raise error
    return found.succeeded


def no_topic(admin: Admin, name: str) -> Exception:
    """The Problem of an unknown topic, with similar names."""
    known = admin.list_topics(include_internal=True)
    return unknown("topic", name, known, cure="List topics with: ottla topic list")


def find_groups(admin: Admin, names: Iterable[str]) -> dict[str, GroupListing]:
    """Find groups of any type by name; a Problem if one does not exist."""
    listed = {one.group_id: one for one in admin.list_groups().all()}
    for name in names:
        if name not in listed:
            raise unknown("group", name, listed, cure="List groups with: ottla group list")
    return {name: listed[name] for name in names}


def leader_of(partition: Any) -> int | None:
    return None if partition.leader is None else partition.leader.id


def replica_sizes(admin: Admin, brokers: Collection[int]) -> dict[tuple[int, TopicPartition], ReplicaInfo]:
    """The replicas on brokers. Brokers that are down or refuse the request are skipped."""
    sizes: dict[tuple[int, TopicPartition], ReplicaInfo] = {}
    for broker, outcome in admin.describe_log_dirs(brokers).items():
        if isinstance(outcome, Exception):
            continue
        for directory in outcome.values():
            for key, replica in directory.replicas.items():
                if not replica.is_future:
                    sizes[broker, key] = replica
    return sizes


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The sorted names that match a pattern: `orders-*`, or a part of the name."""
    if pattern is None:
        return sorted(names)
    whole = pattern if any(one in pattern for one in "*?[") else f"*{pattern}*"
    return sorted(name for name in names if fnmatchcase(name, whole))


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation, unless --yes was given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Misuse(f"{question} Confirmation is required: use --yes when not on a terminal.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if answer.strip().lower() not in ("y", "yes"):
        from ottla.cli.errors import Problem

        raise Problem("Aborted; nothing was changed.")


def each(outcomes: Mapping[K, object], done: Callable[[K], None]) -> int:
    """Report the result or the error of each item and return the exit code."""
    code = 0
    for item, outcome in outcomes.items():
        if isinstance(outcome, KafkaError) and outcome.message is None:
            outcome = type(outcome)(f"{item}: {outcome}")
        if isinstance(outcome, Exception):
            report(outcome)
            code = FAILED
        else:
            done(item)
    return code
