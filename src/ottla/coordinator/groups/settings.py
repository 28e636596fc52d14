"""The settings of groups: the node's own, and those that a GROUP config resource overrides.

The value of a group is limited to the bounds of the node (`group.consumer.min.*`, `.max.*`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config import BrokerConfig


class MigrationPolicy(Enum):
    """In which direction a group may migrate: `group.consumer.migration.policy`."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings:
    """Settings of the classic protocol."""

    size_max: int
    initial_rebalance_delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Settings of the consumer protocol. `GroupSettings.of_group` returns those of one group."""

    size_max: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    assignors: tuple[str, ...]  # the first is the default
    migration_policy: MigrationPolicy
    regex_refresh_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSettings:
    """Settings of committed offsets."""

    metadata_bytes_max: int
    retention_ms: int
    retention_check_interval_ms: int


class GroupSettings:
    """All settings of groups on this node. Replaced as a whole when one changes."""

    __slots__ = ("_bounds", "_group_texts", "classic", "consumer", "offsets", "protocols")

    def __init__(self, config: BrokerConfig, group_texts: Mapping[str, Mapping[str, str]]) -> None:
        """`group_texts`: group id -> the texts of its GROUP config resource."""
        number = config.int_of
        self._group_texts = group_texts
        self.protocols = frozenset(config.list_of("group.coordinator.rebalance.protocols"))
        self.classic = ClassicSettings(
            size_max=number("group.max.size"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
        )
        self.consumer = ConsumerSettings(
            size_max=number("group.consumer.max.size"),
            session_timeout_ms=number("group.consumer.session.timeout.ms"),
            heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
            assignment_interval_ms=number("group.consumer.assignment.interval.ms"),
            assignors=tuple(config.list_of("group.consumer.assignors")),
            migration_policy=MigrationPolicy(config.str_of("group.consumer.migration.policy").lower()),
            regex_refresh_interval_ms=number("group.consumer.regex.refresh.interval.ms"),
        )
        self._bounds = {
            name: (number(f"group.consumer.min.{name}"), number(f"group.consumer.max.{name}"))
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
        }
        self.offsets = OffsetSettings(
            metadata_bytes_max=number("offset.metadata.max.bytes"),
            retention_ms=number("offsets.retention.minutes") * 60_000,
            retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
        )

    def of_group(self, group_id: str) -> ConsumerSettings:
        """The settings of the consumer protocol for one group."""
        texts = self._group_texts.get(group_id)
        if not texts:
            return self.consumer
        return replace(
            self.consumer,
            session_timeout_ms=self._own(texts, "session.timeout.ms", self.consumer.session_timeout_ms),
            heartbeat_interval_ms=self._own(
                texts, "heartbeat.interval.ms", self.consumer.heartbeat_interval_ms
            ),
            assignment_interval_ms=self._own(
                texts, "assignment.interval.ms", self.consumer.assignment_interval_ms
            ),
        )

    def _own(self, texts: Mapping[str, str], name: str, default: int) -> int:
        text = texts.get(f"consumer.{name}")
        if text is None:
            return default
        low, high = self._bounds[name]
        return min(max(int(text), low), high)
