"""Settings stored in a cluster: for topics, brokers, groups, loggers, client metrics, users, clients, hosts.

The first five are config resources, the last three are quotas, and users have SCRAM credentials too; this
module treats all as names with values. Rule: sensitive values never leave this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import Misuse, Problem, near_names

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.configs import AlterConfig, ConfigEntry, ConfigResource
    from ottla.client.admin.quotas import QuotaEntity

DEFAULT = "default"
_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_ADDRESS_QUOTAS = ("connection_creation_rate",)
_CREDENTIALS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Kind(StrEnum):
    """The kinds of entities with settings."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT = "client"
    USER = "user"
    IP = "ip"
    LOGGER = "logger"
    CLIENT_METRICS = "client-metrics"

    @property
    def is_quota(self) -> bool:
        return self in (Kind.CLIENT, Kind.USER, Kind.IP)

    @classmethod
    def read(cls, text: str) -> Kind:
        """Parse a kind; `topics` works as well as `topic`."""
        word = text.lower()
        by_word = {one.value: one for one in cls} | {f"{one.value}s": one for one in cls}
        if word not in by_word:
            hint = near_names(word, list(cls)) or f"Use one of {', '.join(cls)}."
            raise Misuse(f"Unknown kind of settings {text}. {hint}")
        return by_word[word]


@dataclass(frozen=True, slots=True)
class Entity:
    """The owner of settings: a topic, a broker, a user with a client id. None means the default for all."""

    kind: Kind
    name: str | None
    client: str | None = None

    @classmethod
    def read(cls, kind: str, name: str, client: str | None = None) -> Entity:
        found = Kind.read(kind)
        if client is not None and found is not Kind.USER:
            raise Misuse("--client requires a user.")
        can_be_default = found is Kind.BROKER or found.is_quota
        return cls(found, None if name == DEFAULT and can_be_default else name, client)

    def __str__(self) -> str:
        whose = DEFAULT if self.name is None else self.name
        with_client = f" with client {self.client}" if self.client is not None else ""
        return f"{self.kind} {whose}{with_client}"

    def resource(self) -> ConfigResource:
        from ottla.client.admin import ConfigResource, ResourceType

        names = {Kind.LOGGER: "BROKER_LOGGER", Kind.CLIENT_METRICS: "CLIENT_METRICS"}
        if self.kind in (Kind.BROKER, Kind.LOGGER) and not (self.name is None or self.name.isdigit()):
            raise Misuse(f"{self.name} is not a broker id. Use a number, or {DEFAULT} for all brokers.")
        return ConfigResource(ResourceType[names.get(self.kind, self.kind.name)], self.name or "")

    def quota(self) -> QuotaEntity:
        from ottla.client.admin.quotas import entity_of

        parts: dict[str, str | None] = {_part(self.kind): self.name}
        if self.client is not None:
            parts["client-id"] = None if self.client == DEFAULT else self.client
        return entity_of(parts)


def describe(admin: Admin, entity: Entity) -> list[dict[str, Any]]:
    """Every setting of the entity: name, value, source."""
    if entity.kind.is_quota:
        return _describe_quotas(admin, entity)
    _check_there(admin, entity)
    found = admin.describe_configs([entity.resource()], include_synonyms=True, include_documentation=True)
    entries = found.result(entity.resource())
    return [_row(entity, entry) for _, entry in sorted(entries.items())]


def alter(
    admin: Admin,
    entity: Entity,
    changes: Mapping[str, str | None],
    *,
    dry_run: bool = False,
) -> None:
    """Change settings; None resets to the default. `name+` and `name-` append to a list and remove from
    it."""
    if entity.kind.is_quota:
        _alter_quotas(admin, entity, changes, dry_run=dry_run)
        return
    from ottla.wire.errors import InvalidConfig

    _check_there(admin, entity)
    resource = entity.resource()
    altered = admin.incremental_alter_configs(
        {resource: [_change(name, value) for name, value in changes.items()]}, validate_only=dry_run
    )
    for error in altered.failed.values():
        hint = _near_settings(entity.kind, changes) if isinstance(error, InvalidConfig) else ""
        raise InvalidConfig(f"{str(error).rstrip('.')}. {hint}") if hint else error


def known_names(kind: Kind) -> list[str]:
    """The known settings, without a request to the cluster."""
    from ottla.config import ResourceType, definitions

    if kind is Kind.IP:
        return list(_ADDRESS_QUOTAS)
    if kind.is_quota:
        return [*_QUOTAS, *(_CREDENTIALS if kind is Kind.USER else ())]
    if kind is Kind.LOGGER:
        return []
    return sorted(definitions(ResourceType[kind.name]))


def _near_settings(kind: Kind, names: Iterable[str]) -> str:
    known = known_names(kind)
    hints = (near_names(name.rstrip("+-"), known) for name in names if name.rstrip("+-") not in known)
    return " ".join(hint for hint in hints if hint)


def _part(kind: Kind) -> str:
    return "client-id" if kind is Kind.CLIENT else kind.value


def _check_there(admin: Admin, entity: Entity) -> None:
    """Report a missing topic or broker, with similar names, before requesting its settings."""
    if entity.kind is Kind.TOPIC:
        from ottla.cli.lookups import describe_topics

        describe_topics(admin, [entity.name or ""])
    elif entity.kind in (Kind.BROKER, Kind.LOGGER) and entity.name is not None:
        entity.resource()
        ids = [str(node.id) for node in admin.describe_cluster().nodes]
        if entity.name not in ids:
            there = ", ".join(sorted(ids, key=int))
            raise Problem(f"Unknown broker {entity.name}. The cluster has {there}.")


def _row(entity: Entity, entry: ConfigEntry) -> dict[str, Any]:
    source = entry.source.name.lower().replace("_config", "").replace("_", " ")
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": source,
        "is_default": entry.is_default,
        "is_read_only": entry.is_read_only,
        "is_secret": entry.is_sensitive,
        "is_own": _is_own(entity, entry),
        "type": entry.type.name.lower(),
        "synonyms": [
            {
                "name": one.name,
                "value": None if entry.is_sensitive else one.value,
                "source": one.source.name.lower(),
            }
            for one in entry.synonyms
        ],
        "meaning": _meaning(entity.kind, entry),
    }


def _is_own(entity: Entity, entry: ConfigEntry) -> bool:
    """Whether the value was set for this entity itself."""
    from ottla.client.admin import ConfigSource

    own = {
        Kind.TOPIC: (ConfigSource.DYNAMIC_TOPIC_CONFIG,),
        Kind.GROUP: (ConfigSource.DYNAMIC_GROUP_CONFIG,),
        Kind.CLIENT_METRICS: (ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,),
        Kind.LOGGER: (ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,),
        Kind.BROKER: (
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,)
            if entity.name is None
            else (
                ConfigSource.DYNAMIC_BROKER_CONFIG,
                ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
                ConfigSource.STATIC_BROKER_CONFIG,
            )
        ),
    }
    return entry.source in own[entity.kind]


def _meaning(kind: Kind, entry: ConfigEntry) -> str | None:
    from ottla.config import ResourceType, definition

    known = None if kind is Kind.LOGGER else definition(ResourceType[kind.name], entry.name)
    return known.doc if known is not None else entry.documentation


def _change(name: str, value: str | None) -> AlterConfig:
    from ottla.client.admin import AlterConfig, AlterOperation

    if value is None:
        return AlterConfig(name, None, AlterOperation.DELETE)
    if name.endswith("+"):
        return AlterConfig(name[:-1], value, AlterOperation.APPEND)
    if name.endswith("-"):
        return AlterConfig(name[:-1], value, AlterOperation.SUBTRACT)
    return AlterConfig(name, value)


# Quotas and credentials


def _describe_quotas(admin: Admin, entity: Entity) -> list[dict[str, Any]]:
    from ottla.client.admin.quotas import Match, QuotaFilter

    filters = [
        QuotaFilter(kind, Match.DEFAULT) if name is None else QuotaFilter(kind, Match.EXACT, name)
        for kind, name in entity.quota()
    ]
    found = admin.describe_client_quotas(filters, strict=True).get(entity.quota(), {})
    rows = [_quota_row(name, _number_text(value), "quota") for name, value in sorted(found.items())]
    if entity.kind is Kind.USER and entity.name is not None and entity.client is None:
        rows += _credential_rows(admin, entity.name)
    return rows


def _quota_row(name: str, value: str, source: str) -> dict[str, Any]:
    return {"name": name, "value": value, "source": source, "is_default": False, "is_own": True}


def _credential_rows(admin: Admin, user: str) -> list[dict[str, Any]]:
    from ottla.wire.errors import ResourceNotFound, UnsupportedVersion

    try:
        outcome = admin.describe_user_scram_credentials([user])[user]
    except UnsupportedVersion:
        # Brokers without credentials have none to list, but may have quotas.
        return []
    if isinstance(outcome, ResourceNotFound):
        return []
    if isinstance(outcome, Exception):
        raise outcome
    return [
        _quota_row(one.mechanism.name.replace("_", "-"), f"iterations={one.iterations}", "credential")
        for one in outcome
    ]


def _alter_quotas(admin: Admin, entity: Entity, changes: Mapping[str, str | None], *, dry_run: bool) -> None:
    known = known_names(entity.kind)
    for name in changes:
        if name not in known:
            hint = near_names(name, known) or f"Known settings: {', '.join(known)}."
            raise Misuse(f"{name} is not a setting of {entity.kind}s. {hint}")
    quotas = {name: value for name, value in changes.items() if name not in _CREDENTIALS}
    credentials = {name: value for name, value in changes.items() if name in _CREDENTIALS}
    if credentials and (entity.name is None or entity.client is not None):
        raise Misuse("SCRAM credentials belong to one user. Specify the user, without --client.")
    if quotas:
        values = {name: None if value is None else _number(name, value) for name, value in quotas.items()}
        admin.alter_client_quotas({entity.quota(): values}, validate_only=dry_run).all()
    if credentials and not dry_run:
        _alter_credentials(admin, entity.name or "", credentials)


def _alter_credentials(admin: Admin, user: str, changes: Mapping[str, str | None]) -> None:
    from ottla.client.admin.credentials import ScramDeletion, ScramMechanism, ScramUpsertion

    wanted: list[ScramUpsertion | ScramDeletion] = []
    for name, value in changes.items():
        mechanism = ScramMechanism[name.replace("-", "_")]
        if value is None:
            wanted.append(ScramDeletion(user, mechanism))
        else:
            wanted.append(ScramUpsertion(user, mechanism, value))
    admin.alter_user_scram_credentials(wanted).all()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Misuse(f"{name}={text} is not a number.") from None


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
