"""`kafka-metadata-quorum.sh`: describes the metadata quorum, and adds and removes controllers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.operations.failure import Failure
from ottla.operations.text_files import read_text
from ottla.tools.admin_connection import open_admin
from ottla.tools.subcommands import SubcommandParser, run
from ottla.tools.tables import lines_of

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.nodes import Endpoint, QuorumDescription, QuorumReplica

_HEADER = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
_NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    commands = {"describe": _describe, "add-controller": _add, "remove-controller": _remove}
    return run(_parser(), commands, arguments)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="kafka-metadata-quorum", description="Describes and changes the controller quorum."
    )
    addresses = parser.add_mutually_exclusive_group(required=True)
    addresses.add_argument("--bootstrap-server", help="Brokers to connect to: host:port, comma-separated.")
    addresses.add_argument(
        "--bootstrap-controller", help="Controllers to connect to: host:port, comma-separated."
    )
    parser.add_argument(
        "--command-config",
        help="Properties file for the client; for add-controller, the new controller's configuration.",
    )
    commands = parser.add_commands()
    describe = commands.add_parser("describe", help="Describe the quorum.")
    describe.add_argument("--status", action="store_true", help="Show leader, epoch and members.")
    describe.add_argument("--replication", action="store_true", help="Show the lag of every replica.")
    describe.add_argument("--human-readable", action="store_true", help="Show times as time elapsed.")
    add = commands.add_parser("add-controller", help="Add a controller to the voters.")
    add.add_argument("--dry-run", action="store_true", help="Validate only; change nothing.")
    remove = commands.add_parser("remove-controller", help="Remove a controller from the quorum.")
    remove.add_argument("--controller-id", "-i", type=int, required=True, help="Its node id.")
    remove.add_argument("--controller-directory-id", "-d", required=True, help="The id of its directory.")
    remove.add_argument("--dry-run", action="store_true", help="Validate only; change nothing.")
    return parser


def _connect(options: argparse.Namespace) -> Admin:
    return open_admin(
        servers=options.bootstrap_server,
        controllers=options.bootstrap_controller,
        config=options.command_config,
    )


def _describe(options: argparse.Namespace) -> int:
    if options.status and options.replication:
        raise Failure("Only one of --status or --replication should be specified with describe sub-command")
    if not options.status and not options.replication:
        raise Failure("One of --status or --replication must be specified with describe sub-command")
    if options.status and options.human_readable:
        raise Failure("The option --human-readable is only supported along with --replication")
    with _connect(options) as admin:
        quorum = admin.describe_metadata_quorum()
        if options.replication:
            print(*_replication(quorum, options.human_readable), sep="\n")
        else:
            print(*_status(quorum, admin.describe_cluster().cluster_id), sep="\n")
    return 0


def _replication(quorum: QuorumDescription, human_readable: bool) -> list[str]:
    leader = _leader(quorum)
    now_ms = time.time_ns() // 1_000_000

    def moment(timestamp: int | None) -> str:
        if timestamp is None:
            return "-1"
        return f"{max(now_ms - timestamp, 0)} ms ago" if human_readable else str(timestamp)

    def row(replica: QuorumReplica, status: str) -> tuple[object, ...]:
        return (
            replica.id,
            replica.directory_id,
            replica.log_end_offset,
            leader.log_end_offset - replica.log_end_offset,
            moment(replica.last_fetch_timestamp),
            moment(replica.last_caught_up_timestamp),
            status,
        )

    followers = [voter for voter in quorum.voters if voter is not leader]
    rows = [
        row(leader, "Leader"),
        *(row(voter, "Follower") for voter in followers),
        *(row(observer, "Observer") for observer in quorum.observers),
    ]
    return lines_of(_HEADER, rows)


def _status(quorum: QuorumDescription, cluster_id: str) -> list[str]:
    leader = _leader(quorum)
    slowest = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    lag_ms = -1
    if slowest is leader:
        lag_ms = 0
    elif leader.last_caught_up_timestamp is not None and slowest.last_caught_up_timestamp is not None:
        lag_ms = leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp
    facts = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - slowest.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _members(quorum, quorum.voters),
        "CurrentObservers": _members(quorum, quorum.observers),
    }
    return [f"{name + ':':<24}{value}" for name, value in facts.items()]


def _leader(quorum: QuorumDescription) -> QuorumReplica:
    for voter in quorum.voters:
        if voter.id == quorum.leader_id:
            return voter
    raise Failure("The quorum has no leader at the moment. Try again.")


def _members(quorum: QuorumDescription, replicas: Sequence[QuorumReplica]) -> str:
    return f"[{', '.join(_member(replica, quorum.endpoints.get(replica.id, ())) for replica in replicas)}]"


def _member(replica: QuorumReplica, endpoints: Sequence[Endpoint]) -> str:
    text = f'"id": {replica.id}'
    if replica.directory_id != _NO_DIRECTORY:
        text += f', "directoryId": "{replica.directory_id}"'
    if endpoints:
        addresses = ", ".join(f'"{_address(endpoint)}"' for endpoint in endpoints)
        text += f', "endpoints": [{addresses}]'
    return f"{{{text}}}"


def _address(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _add(options: argparse.Namespace) -> int:
    if options.command_config is None:
        raise Failure(
            "You must supply the configuration file of the controller you are adding when using"
            " add-controller."
        )
    settings = _controller_settings(options.command_config)
    node_id = _controller_id(settings)
    directory_id = _directory_id(settings)
    endpoints = _controller_endpoints(settings)
    with _connect(options) as admin:
        if not options.dry_run:
            admin.add_raft_voter(node_id, directory_id, endpoints)
    done = "DRY RUN of adding" if options.dry_run else "Added"
    places = ", ".join(map(_address, endpoints))
    print(f"{done} controller {node_id} with directory id {directory_id} and endpoints: {places}")
    return 0


def _remove(options: argparse.Namespace) -> int:
    from ottla.wire.uuid import from_text

    if options.controller_id < 0:
        raise Failure(f"Invalid negative --controller-id: {options.controller_id}")
    try:
        from_text(options.controller_directory_id)
    except ValueError as error:
        raise Failure(f"Failed to parse --controller-directory-id: {error}") from error
    with _connect(options) as admin:
        if not options.dry_run:
            admin.remove_raft_voter(options.controller_id, options.controller_directory_id)
    done = "DRY RUN of removing " if options.dry_run else "Removed "
    directory_id = options.controller_directory_id
    print(f"{done} KRaft controller {options.controller_id} with directory id {directory_id}")
    return 0


def _controller_settings(path: str) -> dict[str, str]:
    from ottla import properties

    return {entry.key: entry.value for entry in properties.parse(read_text(path))}


def _controller_id(settings: dict[str, str]) -> int:
    found = settings.get("node.id")
    if found is None:
        raise Failure(
            "node.id not found in configuration file. Is this a valid controller configuration file?"
        )
    if not found.isdecimal():
        raise Failure("node.id is not a non-negative integer. Is this a valid controller configuration file?")
    if "controller" not in settings.get("process.roles", ""):
        raise Failure(
            "process.roles did not contain 'controller' in configuration file."
            " Is this a valid controller configuration file?"
        )
    return int(found)


def _directory_id(settings: dict[str, str]) -> str:
    from ottla import properties

    directory = settings.get("metadata.log.dir") or settings.get("log.dirs", "").strip().split(",")[0]
    if not directory:
        raise Failure(
            "Neither metadata.log.dir nor log.dirs were found. Is this a valid controller configuration file?"
        )
    found = {entry.key: entry.value for entry in properties.parse(read_text(f"{directory}/meta.properties"))}
    if "directory.id" not in found:
        raise Failure(f"No directory id found in {directory}")
    return found["directory.id"]


def _controller_endpoints(settings: dict[str, str]) -> list[Endpoint]:
    from ottla.client.admin.nodes import Endpoint
    from ottla.config.listeners import Conflict, parse_listeners

    names = settings.get("controller.listener.names")
    if names is None:
        raise Failure(
            "controller.listener.names was not found. Is this a valid controller configuration file?"
        )
    known = {}
    for setting in ("listeners", "advertised.listeners"):
        entries = [entry.strip() for entry in settings.get(setting, "").split(",") if entry.strip()]
        protocols = {entry.partition(":")[0].upper(): "PLAINTEXT" for entry in entries}
        try:
            listeners = parse_listeners(setting, entries, protocols, distinct_ports=False)
        except Conflict as error:
            raise Failure(str(error)) from error
        known.update({listener.name: listener for listener in listeners})
    found = []
    for name in names.split(","):
        listener = known.get(name.strip().upper())
        if listener is None:
            raise Failure(f"Cannot find information about controller listener name: {name.strip().upper()}")
        found.append(Endpoint(listener.name, listener.host or "localhost", listener.port))
    return found


if __name__ == "__main__":
    sys.exit(main())
