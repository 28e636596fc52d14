"""Regular expressions of a group's members: validated at once, resolved in the background.

A task resolves all expressions of a group together when a heartbeat finds that this is due: there is a new
expression, there are new topics, or the last resolution is old. Until then a new expression matches no
topics. The result becomes records, and the group's epoch is bumped if it changed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.groups import regex
from ottla.coordinator.groups.consumer import records
from ottla.coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex, count
from ottla.coordinator.groups.consumer.member import ConsumerMember
from ottla.coordinator.groups.consumer.subscriptions import (
    REGEX_REFRESH_INTERVAL_MS_MIN,
    after_resolving,
    resolve,
)
from ottla.coordinator.groups.consumer.timers import undone, when_refused
from ottla.coordinator.result import Result, Task
from ottla.wire import errors

if TYPE_CHECKING:
    from ottla.coordinator.groups.consumer.protocol import ConsumerProtocol


class Regexes:
    """See the module. `topics_version` is the metadata offset of the last created topic."""

    def __init__(self, protocol: ConsumerProtocol) -> None:
        self._protocol = protocol
        self._under_way: set[str] = set()
        self.topics_version = protocol.shard.image.offset

    def update(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        now_ms: int,
        result: Result[object],
    ) -> tuple[bool, bool]:
        """(whether the member's expression changed, whether the new one is resolved)."""
        is_changed = member.topic_regex != updated.topic_regex
        if not is_changed and not group.regexes:
            return False, False
        is_resolved = False
        is_new = False
        if is_changed:
            is_new = self._check(group, updated)
            if member.regex is not None and group.regexes.get(member.regex) == 1:
                result.records.append(records.no_regex(group.id, member.regex))
            if updated.regex is None:
                is_resolved = member.regex is not None
            else:
                is_resolved = not is_new and updated.regex in group.resolved
        if is_new or group.regexes:
            self._refresh_if_due(group, member, updated, is_new, now_ms, result)
        return is_changed, is_resolved

    def _check(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether the expression is new in the group; then validate it."""
        expression = member.regex
        if expression is None or expression in group.regexes:
            return False
        try:
            regex.compile(expression)
        except regex.InvalidExpression as error:
            raise errors.InvalidRegularExpression(
                f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}."
            ) from error
        return True

    def _refresh_if_due(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        is_new: bool,
        now_ms: int,
        result: Result[object],
    ) -> None:
        if group.id in self._under_way:
            return
        last = next(iter(group.resolved.values()), None)
        if last is not None and now_ms <= last.timestamp_ms + REGEX_REFRESH_INTERVAL_MS_MIN:
            return
        expressions = dict(group.regexes)
        if member.regex is not None:
            count(expressions, member.regex, -1)
        if updated.regex is not None:
            count(expressions, updated.regex, 1)
        refresh_ms = self._protocol.shard.settings.consumer.regex_refresh_interval_ms
        is_due = (
            is_new
            or len(expressions) != len(group.resolved)
            or last is None
            or last.version < self.topics_version
            or now_ms > last.timestamp_ms + refresh_ms
        )
        if not is_due or not expressions:
            return
        image = self._protocol.shard.image
        steps = resolve(list(expressions), list(image.topics_by_name), image.offset, now_ms)
        self._under_way.add(group.id)
        undo = partial(self._under_way.discard, group.id)
        when_refused(result, undo)
        decision = partial(self._resolved, group.id)
        result.tasks.append(Task(("consumer-regex", group.id), undone(steps, undo), decision))

    def _resolved(self, group_id: str, found: dict[str, ResolvedRegex]) -> Result[None]:
        self._under_way.discard(group_id)
        result: Result[None] = Result()
        group = self._protocol.group(group_id)
        if group is None:
            return result
        wanted = {expression: new for expression, new in found.items() if expression in group.regexes}
        bump = False
        for expression, new in wanted.items():
            old = group.resolved.get(expression)
            bump = bump or new.topics != (old.topics if old is not None else frozenset())
            result.records.append(
                records.resolved_regex(group_id, expression, new.topics, new.version, new.timestamp_ms)
            )
        subscriptions = after_resolving(group, wanted)
        hashed = self._protocol.metadata_hash(group, subscriptions)
        if bump or hashed != group.metadata_hash:
            epoch = group.epoch + 1
            result.records.append(records.group_epoch(group_id, epoch, hashed))
            self._protocol.refreshed(group, epoch, self._protocol.shard.clock.now_ms())
        return result
