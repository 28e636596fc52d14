"""`kafka-client-metrics.sh`: lists, describes, alters and deletes the subscriptions to client metrics.

Options, output and exit codes are those of Kafka's tool.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import run
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.configs import ConfigEntry, ConfigResource

ACTIONS = ("alter", "delete", "describe", "list")
_SETTINGS = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser(
        "kafka-client-metrics", "This tool helps to manipulate and describe client metrics configurations."
    )
    parser.value("bootstrap-server", text="Server to connect to. Required.", shown_as="host:port")
    parser.value("command-config", text="Properties file for the admin client.", shown_as="file")
    parser.flag("alter", text="Change a client metrics subscription.")
    parser.flag("delete", text="Delete a client metrics subscription.")
    parser.flag("describe", text="Describe a client metrics subscription, or all.")
    parser.flag("list", text="List the names of the subscriptions.")
    parser.value("name", text="Name of the subscription.", shown_as="name")
    parser.flag("generate-name", text="Generate a random name.")
    parser.value("interval", text="Push interval in ms; empty: the default.", shown_as="ms")
    parser.value("match", text="Which clients: client_id=a,client_software_name=b ...", shown_as="k=v,...")
    parser.value("metrics", text="Prefixes of the metric names.", shown_as="name,...")
    return parser


def _work(options: Options) -> int:
    from ottla.operations.java_order import message_of
    from ottla.tools.admin_connection import open_admin

    _check(options)
    action = next(name for name in ACTIONS if options.has(name))
    with open_admin(
        servers=options.value("bootstrap-server"), config=options.value("command-config")
    ) as admin:
        try:
            _RUN[action](admin, options)
        except (KafkaError, ClientError, UsageError) as error:
            print(f"Error while executing client metrics command : {message_of(error)}")
            return 1
    return 0


def _check(options: Options) -> None:
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise options.parser.error(
            "Command must include exactly one action: --alter, --delete, --describe or --list."
        )
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified.")
    for action in ("delete", "describe"):
        options.check_invalid(action, "generate-name", *_SETTINGS)
    options.check_invalid("list", "name", "generate-name", *_SETTINGS)
    if options.has("alter"):
        if options.has("name") == options.has("generate-name"):
            raise UsageError("One of --name or --generate-name must be specified with --alter.")
        interval = options.value("interval")
        if interval and not re.fullmatch(r"[+-]?\d{1,10}", interval):
            raise UsageError("Invalid interval value. Enter an integer, or leave empty to reset.")
    if options.has("delete") and not options.has("name"):
        raise UsageError("A client metrics resource name must be specified with --delete.")


def _resource(name: str) -> ConfigResource:
    from ottla.client.admin.configs import ConfigResource, ResourceType

    return ConfigResource(ResourceType.CLIENT_METRICS, name)


def _names(admin: Admin) -> list[str]:
    from ottla.client.admin.configs import ResourceType

    return [one.name for one in admin.list_config_resources([ResourceType.CLIENT_METRICS])]


def _entries(admin: Admin, name: str) -> list[ConfigEntry]:
    from ottla.operations.java_order import map_order, string_hash

    found = admin.describe_configs([_resource(name)]).result(_resource(name))
    return [found[one] for one in map_order(found, string_hash)]


def _alter(admin: Admin, options: Options) -> None:
    from ottla.client.admin.configs import AlterConfig, AlterOperation

    name: str = _random_name() if options.has("generate-name") else options.value("name")
    values = {
        setting: options.value(option) if option == "interval" else ",".join(options.values(option))
        for option, setting in _SETTINGS.items()
        if options.has(option)
    }
    changes = [
        AlterConfig(setting, value, AlterOperation.SET if value else AlterOperation.DELETE)
        for setting, value in values.items()
    ]
    admin.incremental_alter_configs({_resource(name): changes}).all()
    print(f"Altered client metrics config for {name}.")


def _random_name() -> str:
    from ottla.host import HostRandom
    from ottla.wire import uuid

    return uuid.to_text(uuid.random(HostRandom().bytes))


def _delete(admin: Admin, options: Options) -> None:
    from ottla.client.admin.configs import AlterConfig, AlterOperation

    name: str = options.value("name")
    changes = [AlterConfig(one.name, one.value, AlterOperation.DELETE) for one in _entries(admin, name)]
    admin.incremental_alter_configs({_resource(name): changes}).all()
    print(f"Deleted client metrics config for {name}.")


def _describe(admin: Admin, options: Options) -> None:
    name: str | None = options.value("name")
    names = _names(admin)
    if name is not None and name not in names:
        print(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
        return
    for one in names if name is None else [name]:
        print(f"Client metrics configs for {one} are:")
        for entry in _entries(admin, one):
            print(f"  {entry.name}={'null' if entry.value is None else entry.value}")


def _list(admin: Admin, options: Options) -> None:
    print("\n".join(_names(admin)))


_RUN = {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}


if __name__ == "__main__":
    sys.exit(main())
