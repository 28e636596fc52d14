"""`kafka-cluster.sh`: shows the cluster id and the endpoints, and unregisters brokers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.operations.failure import Failure
from ottla.tools.admin_connection import open_admin
from ottla.tools.subcommands import SubcommandParser, run
from ottla.wire.errors import UnsupportedVersion

if TYPE_CHECKING:
    from ottla.client.admin import Admin

_HOST_WIDTH = 100
_RACK_WIDTH = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    commands = {"cluster-id": _cluster_id, "unregister": _unregister, "list-endpoints": _list_endpoints}
    return run(_parser(), commands, arguments)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(prog="kafka-cluster", description="Describes a cluster and its nodes.")
    commands = parser.add_commands()
    cluster_id = commands.add_parser("cluster-id", help="Show the cluster's id.")
    unregister = commands.add_parser("unregister", help="Unregister a broker.")
    endpoints = commands.add_parser("list-endpoints", help="List the endpoints of the nodes.")
    for command in (cluster_id, unregister, endpoints):
        addresses = command.add_mutually_exclusive_group(required=True)
        addresses.add_argument(
            "--bootstrap-server", "-b", help="Brokers to connect to: host:port, comma-separated."
        )
        addresses.add_argument(
            "--bootstrap-controller", "-C", help="Controllers to connect to, in the same format."
        )
        command.add_argument("--config", help="Deprecated name of --command-config.")
        command.add_argument("--command-config", "-c", help="Properties file for the client.")
    unregister.add_argument("--id", "-i", type=int, required=True, help="The broker's node id.")
    endpoints.add_argument("--include-fenced-brokers", action="store_true", help="Include fenced brokers.")
    return parser


def _connect(options: argparse.Namespace) -> Admin:
    config = options.command_config
    if options.config is not None:
        if config is not None:
            raise Failure("--config and --command-config cannot be specified together.")
        print(
            "Option --config has been deprecated and will be removed in a future version."
            " Use --command-config instead."
        )
        config = options.config
    return open_admin(
        servers=options.bootstrap_server, controllers=options.bootstrap_controller, config=config
    )


def _cluster_id(options: argparse.Namespace) -> int:
    with _connect(options) as admin:
        print(f"Cluster ID: {admin.describe_cluster().cluster_id}")
    return 0


def _unregister(options: argparse.Namespace) -> int:
    with _connect(options) as admin:
        try:
            admin.unregister_broker(options.id)
            print(f"Broker {options.id} is no longer registered.")
        except UnsupportedVersion:
            print("The target cluster does not support the broker unregistration API.")
    return 0


def _list_endpoints(options: argparse.Namespace) -> int:
    asks_controllers = options.bootstrap_controller is not None
    if asks_controllers and options.include_fenced_brokers:
        raise Failure("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    with _connect(options) as admin:
        nodes = admin.describe_cluster(include_fenced_brokers=options.include_fenced_brokers).nodes
    host_width = max((len(node.host) for node in nodes), default=_HOST_WIDTH)
    rack_width = max((len(node.rack) for node in nodes if node.rack is not None), default=_RACK_WIDTH)

    def show(cells: Sequence[object], state: str, kind: str) -> None:
        number, host, port, rack = cells
        line = f"{number!s:<10} {host!s:<{host_width}} {port!s:<10} {rack!s:<{rack_width}} "
        print(line + f"{'' if asks_controllers else f'{state:<10} '}{kind:<15}")

    show(("ID", "HOST", "PORT", "RACK"), "STATE", "ENDPOINT_TYPE")
    for node in nodes:
        state = "fenced" if node.is_fenced else "unfenced"
        rack = "null" if node.rack is None else node.rack
        show((node.id, node.host, node.port, rack), state, "controller" if asks_controllers else "broker")
    return 0


if __name__ == "__main__":
    sys.exit(main())
