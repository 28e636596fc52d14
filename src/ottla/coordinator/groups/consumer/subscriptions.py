"""The subscriptions of a group: their counts after a change, their hash, and the resolution of expressions.

A decision is made before its records are replayed, so it needs the subscriptions that the group will have.
Expressions are matched against all topics in the background: `resolve` works on a copy of the names.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Set
from dataclasses import dataclass

from ottla.controller.image import ClusterImage
from ottla.coordinator.groups import regex
from ottla.coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex, TopicIndex, count
from ottla.coordinator.groups.consumer.member import ConsumerMember
from ottla.coordinator.groups.topic_hash import group_hash, topic_hash

REGEX_REFRESH_INTERVAL_MS_MIN = 10_000
"""The minimum time between two resolutions of a group's expressions."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The counts of a group, as in `ConsumerGroup`: by name, by expression, of expressions, of members."""

    names: Mapping[str, int]
    matched: Mapping[str, int]
    regexes: Mapping[str, int]
    member_count: int

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics in the same way."""
        count_of_members = self.member_count
        if not self.regexes:
            return all(by_name == count_of_members for by_name in self.names.values()) and (
                self.matched.keys() <= self.names.keys()
            )
        if next(iter(self.regexes.values())) != count_of_members:
            return False
        return not self.names and all(by_regex == 1 for by_regex in self.matched.values())


def now(group: ConsumerGroup) -> Subscriptions:
    return Subscriptions(group.names, group.matched, group.regexes, len(group.members))


def after_change(group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> Subscriptions:
    """The counts after a member changed or joined (then `old` has no subscription)."""
    members = len(group.members)
    if new.id not in group.members and group.static_member(new.instance_id) is None:
        members += 1
    names: Mapping[str, int] = group.names
    if old.topic_names != new.topic_names:
        changed = dict(group.names)
        for name in old.topic_names:
            count(changed, name, -1)
        for name in new.topic_names:
            count(changed, name, 1)
        names = changed
    if old.regex == new.regex:
        return Subscriptions(names, group.matched, group.regexes, members)
    regexes = dict(group.regexes)
    gone = []
    if old.regex is not None:
        count(regexes, old.regex, -1)
        gone = [old.regex] if old.regex not in regexes else []
    if new.regex is not None:
        count(regexes, new.regex, 1)
    return Subscriptions(names, _without(group, gone), regexes, members)


def after_leaving(group: ConsumerGroup, leaving: Iterable[ConsumerMember]) -> tuple[Subscriptions, list[str]]:
    """The counts after some members left, and the expressions without subscribers then."""
    leaving = list(leaving)
    names = dict(group.names)
    regexes = dict(group.regexes)
    for member in leaving:
        for name in member.topic_names:
            count(names, name, -1)
        if member.regex is not None:
            count(regexes, member.regex, -1)
    gone = [expression for expression in group.regexes if expression not in regexes]
    return Subscriptions(names, _without(group, gone), regexes, len(group.members) - len(leaving)), gone


def after_resolving(group: ConsumerGroup, resolved: Mapping[str, ResolvedRegex]) -> Subscriptions:
    """The counts after some expressions match other topics."""
    matched = dict(_without(group, resolved))
    for found in resolved.values():
        for topic in found.topics:
            count(matched, topic, 1)
    return Subscriptions(group.names, matched, group.regexes, len(group.members))


def _without(group: ConsumerGroup, gone: Iterable[str]) -> Mapping[str, int]:
    matched = dict(group.matched)
    for expression in gone:
        old = group.resolved.get(expression)
        for topic in old.topics if old is not None else ():
            count(matched, topic, -1)
    return matched


def metadata_hash(
    group: ConsumerGroup, subscriptions: Subscriptions, index: TopicIndex, image: ClusterImage
) -> int:
    """The hash of the topics that a group will be subscribed to. Hashes of topics are cached."""
    topics: Set[str] = subscriptions.names.keys()
    if subscriptions.matched:
        topics = topics | subscriptions.matched.keys()
    if group.hashed is not None and topics == group.hashed[0]:
        return group.hashed[1]
    hashes = {}
    for name in topics:
        topic = image.topics_by_name.get(name)
        if topic is not None:
            known = index.hashes.get(name)
            if known is None:
                known = index.hashes[name] = topic_hash(topic, image)
            hashes[name] = known
    hashed = group_hash(hashes)
    group.hashed = (frozenset(topics), hashed)
    return hashed


def resolve(
    expressions: Iterable[str], names: list[str], version: int, timestamp_ms: int
) -> Generator[None, None, dict[str, ResolvedRegex]]:
    """Match all topics. An invalid expression matches none; those of members are validated before."""
    resolved: dict[str, ResolvedRegex] = {}
    for expression in expressions:
        topics: list[str] = []
        try:
            pattern = regex.compile(expression)
        except regex.InvalidExpression:
            pass  # Kafka's engine may have accepted it, and its record is in the log
        else:
            topics = yield from pattern.select(names)
        resolved[expression] = ResolvedRegex(frozenset(topics), version, timestamp_ms)
        yield
    return resolved
