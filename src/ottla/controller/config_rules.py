"""The rules of settings for decisions: `ottla.config` behind the controller's `ConfigRules`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla import config as settings
from ottla.config import BrokerConfig, Change, Operation, ResourceType
from ottla.controller.state import ConfigEntry, DynamicConfigs
from ottla.wire.errors import InvalidRequest


class BrokerConfigRules:
    """Rules by the configuration of this node, overridden by the dynamic settings in the log."""

    def __init__(self, config: BrokerConfig) -> None:
        self._static = config
        # The dynamic settings that `_config` saw last, and what it made of them.
        self._seen: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self._made = config

    def check(
        self, resource_type: int, name: str, proposed: Mapping[str, str], existing: Mapping[str, str]
    ) -> None:
        settings.check(self._static, ResourceType(resource_type), name, proposed, existing)

    def changed(
        self, resource_type: int, current: Mapping[str, str], changes: Iterable[tuple[str, int, str | None]]
    ) -> dict[str, str | None]:
        wanted = []
        for name, operation, value in changes:
            if operation not in Operation.__members__.values():
                raise InvalidRequest(f"Unknown operations type {operation}")
            wanted.append(Change(name, Operation(operation), value))
        return settings.apply_changes(ResourceType(resource_type), current, wanted)

    def topic_text(self, dynamic: DynamicConfigs, overrides: Mapping[str, str], name: str) -> str:
        value = settings.topic_value(self._config(dynamic), overrides, name)
        return settings.show(value) or ""

    def describe_topic(self, dynamic: DynamicConfigs, overrides: Mapping[str, str]) -> Sequence[ConfigEntry]:
        return settings.describe_created_topic(self._config(dynamic), overrides)

    def _config(self, dynamic: DynamicConfigs) -> BrokerConfig:
        if (dynamic.cluster, dynamic.node) != self._seen:
            cluster, node = dict(dynamic.cluster), dict(dynamic.node)
            self._made = self._static.with_dynamic(cluster=cluster, broker=node)
            self._seen = cluster, node
        return self._made
