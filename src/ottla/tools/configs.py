"""`kafka-configs.sh`: describes and alters settings of topics, brokers, loggers, groups and client metrics,
and quotas and SCRAM credentials of users, clients and addresses.

Options, output and exit codes are those of Kafka's tool. Every failure is a line on standard error with exit
code 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import run

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.configs import ConfigEntry, ConfigResource
    from ottla.client.admin.quotas import QuotaEntity

TOPICS, BROKERS, LOGGERS, GROUPS = "topics", "brokers", "broker-loggers", "groups"
METRICS, USERS, CLIENTS, IPS = "client-metrics", "users", "clients", "ips"
TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS, METRICS, GROUPS, LOGGERS)

_NAMED = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": LOGGERS,
    "ip": IPS,
    "client-metrics": METRICS,
    "group": GROUPS,
}
_DEFAULTS = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}
_QUOTAS = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_IP_QUOTAS = frozenset({"connection_creation_rate"})
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PARTS = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_ITERATIONS, _ITERATIONS_MIN = 4096, 4096
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser(
        "kafka-configs",
        "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, "
        "client-metrics or group",
    )
    parser.value("bootstrap-server", text="Servers to connect to.", shown_as="host:port")
    parser.value("bootstrap-controller", text="Controllers to connect to.", shown_as="host:port")
    parser.value("command-config", text="Properties file for the admin client.", shown_as="file")
    parser.flag("alter", text="Change settings.")
    parser.flag("describe", text="Show settings.")
    parser.flag("all", text="Show all settings, including defaults.")
    parser.value("entity-type", text=f"What the settings belong to: {', '.join(TYPES)}.", shown_as="type")
    parser.value("entity-name", text="Name or id of the entity.", shown_as="name")
    parser.flag("entity-default", text="The default of clients, users, brokers or ips.")
    parser.value(
        "add-config", text="Settings to add; use [] around values with commas.", shown_as="name=value,..."
    )
    parser.value("add-config-file", text="A file with settings to add.", shown_as="file")
    parser.value("delete-config", text="Settings to remove.", shown_as="name,...")
    for name, kind in _NAMED.items():
        parser.value(name, text=f"Short for --entity-type {kind} --entity-name.", shown_as="name")
    for name, kind in _DEFAULTS.items():
        parser.flag(name, text=f"Short for --entity-type {kind} --entity-default.")
    return parser


def _work(options: Options) -> int:
    from ottla.tools.admin_connection import open_admin

    types, names = _types(options), _names(options)
    _check(options, types, names)
    with open_admin(
        servers=options.value("bootstrap-server"),
        controllers=options.value("bootstrap-controller"),
        config=options.value("command-config"),
    ) as admin:
        if options.has("describe"):
            _describe(admin, options, types, names)
        else:
            if len(types) != len(names):
                raise Failure("An entity name must be specified for every entity type")
            _alter(admin, options, types, names)
    return 0


# The command line


def _types(options: Options) -> list[str]:
    flags = {**_NAMED, **_DEFAULTS}
    return [*options.values("entity-type"), *(kind for name, kind in flags.items() if options.has(name))]


def _names(options: Options) -> list[str]:
    """The names in order; an empty one is the default."""
    given = iter(options.values("entity-name"))
    named = [
        next(given) if name == "entity-name" else ""
        for name in options.order
        if name in ("entity-name", "entity-default")
    ]
    named += [options.value(name) for name in _NAMED if options.has(name)]
    return named + ["" for name in _DEFAULTS if options.has(name)]


def _check(options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    if options.has("alter") == options.has("describe"):
        raise options.parser.error("Command must include exactly one action: --describe, --alter")
    options.check_invalid("describe", "add-config", "delete-config")
    twice = [kind for index, kind in enumerate(types) if kind in types[:index]]
    if twice:
        raise UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if not options.has("bootstrap-server") and not options.has("bootstrap-controller"):
        raise UsageError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for kind in types:
        if kind not in TYPES:
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise UsageError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise UsageError(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")
    general = any(options.has(name) for name in ("entity-name", "entity-type", "entity-default"))
    if general and any(options.has(name) for name in (*_NAMED, *_DEFAULTS)):
        raise UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    if options.has("bootstrap-server") and options.has("bootstrap-controller"):
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    _check_names(options, types, names)


def _check_names(options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    has_name, has_default = any(names), "" in names
    if has_name and (BROKERS in types or LOGGERS in types):
        for name in filter(None, names):
            _broker_id(types[0], name, "but it is")
    can_default = bool({USERS, CLIENTS, BROKERS, IPS} & set(types))
    listed = ",".join(types)
    if options.has("describe"):
        if not can_default and options.has("entity-default"):
            raise UsageError(f"--entity-default must not be specified with --describe of {listed}")
        if LOGGERS in types and not has_name:
            raise UsageError(f"An entity name must be specified with --describe of {listed}")
        return
    if can_default and not has_name and not has_default:
        raise UsageError(
            "An entity-name or default entity must be specified with --alter of users, clients, "
            "brokers or ips"
        )
    if not can_default and not has_name:
        raise UsageError(f"An entity name must be specified with --alter of {listed}")
    if options.has("add-config") and options.has("add-config-file"):
        raise UsageError("Only one of --add-config or --add-config-file must be specified")
    if not any(options.has(name) for name in ("add-config", "add-config-file", "delete-config")):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified "
            "with --alter"
        )


def _broker_id(kind: str, name: str, found: str = "found") -> None:
    if not re.fullmatch(r"[+-]?\d+", name):
        raise UsageError(f"The entity name for {kind} must be a valid integer broker id, {found}: {name}")


def _added(options: Options) -> dict[str, str]:
    from ottla import properties
    from ottla.operations.configuration import read

    added: dict[str, str] = {}
    if options.has("add-config-file"):
        text = properties.decode(read(options.value("add-config-file")))
        added = {entry.key: entry.value for entry in properties.parse(text)}
    if options.has("add-config"):
        entries = re.split("," + _OUTSIDE_BRACKETS, options.value("add-config"))
        while entries and not entries[-1]:
            entries.pop()
        for pair in (re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, entry) for entry in entries):
            if len(pair) != 2:
                raise UsageError(
                    "requirement failed: Invalid entity config: all configs to be added must be in the "
                    "format "
                    '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            added[pair[0].strip()] = re.sub(r"[\[\]]", "", pair[1]).strip()
    for name in added:
        if not re.fullmatch(r"[$a-zA-Z0-9._-]*", name):
            raise UsageError(f"Invalid character found for config key: {name}")
    return added


def _deleted(options: Options) -> list[str]:
    return [name.strip() for text in options.values("delete-config") for name in text.split(",")]


# Alter


def _alter(admin: Admin, options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    added, deleted = _added(options), _deleted(options)
    kind, name = types[0], names[0]
    if kind in (USERS, CLIENTS):
        _alter_user_or_client(admin, types, names, added, deleted)
    elif kind == IPS:
        unknown = [one for one in (*added, *deleted) if one not in _IP_QUOTAS]
        if unknown:
            raise Failure(
                f"Only connection quota configs can be added for '{IPS}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        _alter_quotas(admin, types, names, added, deleted)
    else:
        _alter_resource(admin, kind, name, added, deleted)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def _alter_resource(
    admin: Admin, kind: str, name: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    from ottla.client.admin.configs import AlterConfig, AlterOperation

    if kind == LOGGERS:
        known = {entry.name for entry in _entries(admin, kind, name, describe_all=False)}
        unknown = [one for one in (*deleted, *added) if one not in known]
        if unknown:
            raise Failure(f"Invalid broker logger(s): {','.join(unknown)}")
    changes = [AlterConfig(one, "", AlterOperation.DELETE) for one in deleted]
    changes += [AlterConfig(one, value) for one, value in added.items()]
    admin.incremental_alter_configs({_resource(kind, name): changes}).all()


def _alter_user_or_client(
    admin: Admin, types: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    with_client = types[0] == CLIENTS or len(types) == 2
    known = _QUOTAS if with_client else _QUOTAS | set(_SCRAM)
    what = "quota" if with_client else "quota and SCRAM credential"
    whose = CLIENTS if with_client else USERS
    for done, wanted in (("added", list(added)), ("deleted", deleted)):
        unknown = [one for one in wanted if one not in known]
        if unknown:
            raise Failure(
                f"Only {what} configs can be {done} for '{whose}' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(unknown)}"
            )
    quotas = [one for one in (*added, *deleted) if one in _QUOTAS]
    scram = [one for one in (*added, *deleted) if one in _SCRAM]
    if scram:
        if "" in names:
            raise Failure(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
                "using --bootstrap-server."
            )
        if quotas:
            raise Failure(
                f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' "
                "using --bootstrap-server."
            )
        _alter_credentials(admin, names[0], added, deleted)
    else:
        _alter_quotas(admin, types, names, added, deleted)


def _alter_quotas(
    admin: Admin, types: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    from ottla.client.admin.quotas import entity_of

    old = next(iter(_quotas(admin, types, names).values()), {})
    unknown = [name for name in deleted if name not in old]
    if unknown:
        raise Failure(f"Invalid config(s): {','.join(unknown)}")
    changes: dict[str, float | None] = {}
    for name, value in added.items():
        try:
            changes[name] = float(value)
        except ValueError:
            raise Failure(f"Cannot parse quota configuration value for {name}: {value}") from None
    changes |= dict.fromkeys(deleted)
    entity = entity_of({_PARTS[kind]: name or None for kind, name in zip(types, names, strict=True)})
    admin.alter_client_quotas({entity: changes}).all()


def _alter_credentials(admin: Admin, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from ottla.client.admin.credentials import ScramDeletion, ScramMechanism, ScramUpsertion

    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramDeletion(user, ScramMechanism[name.replace("-", "_")]) for name in deleted
    ]
    for name, value in added.items():
        found = _CREDENTIAL.fullmatch(value)
        if found is None:
            raise Failure(f"Invalid credential property {name.replace('-', '_')}={value}")
        iterations = int(found[1]) if found[1] not in (None, "-1") else _ITERATIONS
        if iterations < _ITERATIONS_MIN:
            raise Failure(
                f"Iterations {iterations} is less than the minimum {_ITERATIONS_MIN} required for {name}"
            )
        changes.append(ScramUpsertion(user, ScramMechanism[name.replace("-", "_")], found[2], iterations))
    admin.alter_user_scram_credentials(changes).all()


# Describe


def _describe(admin: Admin, options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    kind = types[0]
    if kind in (USERS, CLIENTS, IPS):
        _describe_quotas(admin, types, names)
        if kind != IPS and CLIENTS not in types and "" not in names:
            _describe_credentials(admin, names)
        return
    describe_all = options.has("all")
    name = names[0] if names else None
    if not describe_all and name is not None and not _exists(admin, kind, name):
        print(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    for entity in _entities(admin, kind) if name is None else [name]:
        if entity:
            print(f"{'All' if describe_all else 'Dynamic'} configs for {kind[:-1]} {entity} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        for entry in _entries(admin, kind, entity, describe_all=describe_all):
            synonyms = ", ".join(f"{one.source.name}:{one.name}={_text(one.value)}" for one in entry.synonyms)
            sensitive = str(entry.is_sensitive).lower()
            print(f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _resource(kind: str, name: str) -> ConfigResource:
    from ottla.client.admin.configs import ConfigResource, ResourceType

    types = {
        TOPICS: ResourceType.TOPIC,
        BROKERS: ResourceType.BROKER,
        LOGGERS: ResourceType.BROKER_LOGGER,
        METRICS: ResourceType.CLIENT_METRICS,
        GROUPS: ResourceType.GROUP,
    }
    return ConfigResource(types[kind], name)


def _entries(admin: Admin, kind: str, name: str, *, describe_all: bool) -> list[ConfigEntry]:
    """The settings of one entity to show: its own, or all."""
    from ottla.client.admin.configs import ConfigSource

    sources = {
        TOPICS: ConfigSource.DYNAMIC_TOPIC_CONFIG,
        BROKERS: ConfigSource.DYNAMIC_BROKER_CONFIG if name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
        GROUPS: ConfigSource.DYNAMIC_GROUP_CONFIG,
    }
    resource = _resource(kind, name)
    found = admin.describe_configs([resource], include_synonyms=True).result(resource)
    wanted = None if describe_all else sources.get(kind)
    return [found[one] for one in sorted(found) if wanted is None or found[one].source is wanted]


def _exists(admin: Admin, kind: str, name: str) -> bool:
    from ottla.client.admin.configs import ResourceType

    if kind == TOPICS:
        return name in admin.list_topics(include_internal=True)
    if kind in (BROKERS, LOGGERS):
        return not name or name in {str(node.id) for node in admin.describe_cluster().nodes}
    if kind == METRICS:
        return name in {one.name for one in admin.list_config_resources([ResourceType.CLIENT_METRICS])}
    configured = _groups_with_settings(admin)
    return name in {one.group_id for one in admin.list_groups()} or configured is None or name in configured


def _entities(admin: Admin, kind: str) -> list[str]:
    from ottla.client.admin.configs import ResourceType
    from ottla.operations.java_order import map_order, string_hash

    if kind == TOPICS:
        return map_order(admin.list_topics(include_internal=True), string_hash)
    if kind in (BROKERS, LOGGERS):
        return [*(str(one) for one in sorted(node.id for node in admin.describe_cluster().nodes)), ""]
    if kind == METRICS:
        return [one.name for one in admin.list_config_resources([ResourceType.CLIENT_METRICS])]
    groups = [one.group_id for one in admin.list_groups()]
    return list(dict.fromkeys([*groups, *(_groups_with_settings(admin) or ())]))


def _groups_with_settings(admin: Admin) -> list[str] | None:
    """None if the broker hides it."""
    from ottla.client.admin.configs import ResourceType
    from ottla.wire.errors import ClusterAuthorizationFailed, UnsupportedVersion

    try:
        return [one.name for one in admin.list_config_resources([ResourceType.GROUP])]
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return None


def _quotas(admin: Admin, types: Sequence[str], names: Sequence[str]) -> dict[QuotaEntity, dict[str, float]]:
    from ottla.client.admin.quotas import Match, QuotaFilter

    if len(names) > len(types):
        raise Failure("More entity names specified than entity types")
    filters = []
    for index, kind in enumerate(types):
        if index >= len(names):
            filters.append(QuotaFilter(_PARTS[kind]))
        elif names[index]:
            filters.append(QuotaFilter(_PARTS[kind], Match.EXACT, names[index]))
        else:
            filters.append(QuotaFilter(_PARTS[kind], Match.DEFAULT))
    return admin.describe_client_quotas(filters, strict=True)


def _describe_quotas(admin: Admin, types: Sequence[str], names: Sequence[str]) -> None:
    from ottla.operations.java_order import double_text, entity_hash, map_order, string_hash

    found = _quotas(admin, types, names)
    shown_as = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
    for entity in map_order(found, entity_hash, len(found)):
        parts = dict(entity)
        who = ", ".join(
            f"the default {shown}" if parts[part] is None else f"{shown} '{parts[part]}'"
            for part, shown in shown_as.items()
            if part in parts
        )
        quotas = found[entity]
        listed = map_order(quotas, string_hash, len(quotas))
        values = ", ".join(f"{name}={double_text(quotas[name])}" for name in listed)
        print(f"Quota configs for {who} are {values}")


def _describe_credentials(admin: Admin, names: Sequence[str]) -> None:
    from ottla.wire.errors import ResourceNotFound

    for user, outcome in admin.describe_user_scram_credentials(list(names) or None).items():
        if isinstance(outcome, ResourceNotFound):
            continue
        if isinstance(outcome, Exception):
            print(f"Error retrieving SCRAM credential configs for user-principal '{user}': {outcome}")
            continue
        iterations = ", ".join(
            f"{one.mechanism.name.replace('_', '-')}=iterations={one.iterations}" for one in outcome
        )
        print(f"SCRAM credential configs for user-principal '{user}' are {iterations}")


if __name__ == "__main__":
    sys.exit(main())
