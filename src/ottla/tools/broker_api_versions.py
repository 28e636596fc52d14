"""`kafka-broker-api-versions.sh`: lists the API versions of every broker."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.tools.admin_connection import open_admin
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run
from ottla.wire.apis import API_BY_KEY

if TYPE_CHECKING:
    from ottla.client.admin.nodes import ApiRange


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _show, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-broker-api-versions", "Shows the API versions that brokers support.")
    parser.value("bootstrap-server", shown_as="host:port", text="REQUIRED: brokers to connect to.")
    parser.value("command-config", shown_as="file", text="Properties file for the client.")
    return parser


def _show(options: Options) -> int:
    options.check_required("bootstrap-server")
    config = options.value("command-config")
    with open_admin(servers=options.value("bootstrap-server"), config=config) as admin:
        nodes = {node.id: node for node in admin.describe_cluster().nodes}
        results = admin.describe_api_versions(nodes)
    for node in nodes.values():
        rack = "null" if node.rack is None else node.rack
        title = f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false)"
        error = results.failed.get(node.id)
        if error is not None:
            print(f"{title} -> ERROR: {error}")
            continue
        lines = ",\n\t".join(_lines(results.result(node.id)))
        print(f"{title} -> (\n\t{lines}\n)")
    return 0


def _lines(apis: Iterable[ApiRange]) -> list[str]:
    shown = {api.key: _line(api) for api in apis}
    for known in API_BY_KEY.values():
        if "broker" in known.listeners and known.key not in shown:
            shown[known.key] = f"{known.name}({known.key}): UNSUPPORTED"
    return [shown[key] for key in sorted(shown)]


def _line(api: ApiRange) -> str:
    versions = str(api.first) if api.first == api.last else f"{api.first} to {api.last}"
    if api.name is None:
        return f"UNKNOWN({api.key}): {versions}"
    if api.usable is not None:
        use = f"usable: {api.usable}"
    else:
        newest = API_BY_KEY[api.key].versions[-1]
        use = f"unusable: node too {'new' if newest < api.first else 'old'}"
    return f"{api.name}({api.key}): {versions} [{use}]"


if __name__ == "__main__":
    sys.exit(main())
