"""`ottla cluster`: describes a cluster, and runs several nodes on this machine under one supervisor.

`describe` works with any cluster; `up`, `down` and `status` with a cluster in a local directory, or with the
nodes that this machine runs from one configuration file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem
from ottla.cli.output import Cell, Format, Styled, emit, show, size_text
from ottla.cli.session import Flags, Session, session_of
from ottla.cluster.group import ClusterError, NodeGroup
from ottla.cluster.layout import Layout, Plan, format_layout, is_layout, read_layout, write_layout

app = typer.Typer(help="Describe a cluster, or run one on this machine.", no_args_is_help=True)

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.nodes import FeatureRange, QuorumDescription
    from ottla.client.admin.replicas import LogDirDescription

NODES = 3
PORT = 9092

DataOption = Annotated[Path, typer.Option("--data", help="Directory of the cluster.", metavar="DIR")]
FileArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="A server.properties file: the nodes that ottla serve FILE --nodes runs on this machine.",
        show_default=False,
    ),
]
_DATA = Path("cluster")


@app.command("up")
def up(
    file: FileArgument = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help=f"Number of nodes of a new cluster, by default {NODES}; with a FILE also auto, the default.",
        ),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Number of nodes, from node 1, that are also controllers. Default: 3 or 1."
        ),
    ] = None,
    data: DataOption = _DATA,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help=f"Port of node 1; the other nodes use the following ports. Default: {PORT}; 0 picks free "
            "ports.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting for all nodes of a new cluster.")
    ] = None,
) -> None:
    """Run the cluster in DIR until Ctrl-C or ottla cluster down. Creates it if DIR has none.

    With a FILE it is ottla serve FILE --nodes auto.
    """
    from ottla.cluster.supervisor import Supervisor, stops_on_signals

    if file is not None:
        if controllers is not None or port is not None or data != _DATA:
            raise Misuse(
                "A FILE says which ports, directories and roles its nodes have. Omit the other flags."
            )
        _serve(file, nodes or "auto", override or [])
        return
    with _told():
        layout = _layout(data, _count(nodes), controllers, port, override or [])
        supervisor = Supervisor(
            layout.group, lambda line: typer.echo(line, err=True), lambda: format_layout(layout)
        )
        with stops_on_signals(supervisor.request_stop):
            supervisor.run(lambda cluster_id: _tell_up(layout, cluster_id))
    typer.echo("Cluster stopped.")


def _serve(file: str, nodes: str, override: list[str]) -> None:
    from ottla.cli.serve import main

    code = main([file, "--nodes", nodes, *(f"--override={one}" for one in override)])
    if code:
        raise typer.Exit(code)


def _count(nodes: str | None) -> int | None:
    if nodes is None:
        return None
    try:
        return int(nodes)
    except ValueError:
        raise Misuse(f"--nodes {nodes} is not a number. Only with a FILE it may be auto.") from None


@app.command("down")
def down(file: FileArgument = None, data: DataOption = _DATA) -> None:
    """Stop the cluster that runs in DIR, or the nodes of FILE, and wait until all have exited."""
    from ottla.cluster.supervisor import stop_supervisor

    with _told():
        group = _group(file, data)
        was_running = stop_supervisor(group.directory)
    typer.echo("Cluster stopped." if was_running else f"No cluster is running in {group.directory}.")


def _group(file: str | None, data: Path) -> NodeGroup:
    """The nodes of a file, of a cluster, or of a machine whose log directory is `data`."""
    from ottla.cluster.machine import group_in, stored_group
    from ottla.config import ConfigError
    from ottla.operations.configuration import ConfigurationSource

    if file is None:
        return (None if is_layout(data) else group_in(data)) or read_layout(data).group
    try:
        return stored_group(ConfigurationSource(file=file))
    except OSError as error:
        raise ClusterError(f"{file} cannot be read: {error.strerror}.") from error
    except ConfigError as error:
        raise ClusterError(str(error)) from error


@app.command("status")
def status(
    context: typer.Context,
    file: FileArgument = None,
    data: DataOption = _DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the nodes of the cluster in DIR or of FILE, the quorum leader, and the health of partitions."""
    from ottla.cluster.status import cluster_status

    session = session_of(context)
    if as_json:
        session = Session(Flags(output=Format.JSON).over(session.flags))
    with _told():
        group = _group(file, data)
        found = cluster_status(group)
    if session.is_structured:
        emit(session, dataclasses.asdict(found))
        return
    rows = [
        {
            "node": node.node_id,
            "roles": node.roles,
            "port": node.port,
            "controller": node.controller_port,
            "pid": node.pid,
            "state": "running" if node.is_ready else "starting" if node.is_alive else "stopped",
            "restarts": node.restarts,
            "leads": node.partitions_led,
        }
        for node in found.nodes
    ]
    show(session, rows, formats={"state": _state_cell})
    typer.echo()
    if found.supervisor_pid is None:
        typer.echo(f"The cluster is not running. Start it with: ottla cluster up {group.selector}")
    elif found.partitions is None:
        typer.echo("No node has answered yet.")
    else:
        led_by = f"Node {found.quorum_leader} leads" if found.quorum_leader is not None else "Nobody leads"
        typer.echo(f"{led_by} the quorum. Clients connect to {found.bootstrap_servers}")
        typer.echo(
            f"{found.partitions} partitions, {found.under_replicated_partitions} under-replicated, "
            f"{found.offline_partitions} without a leader."
        )


def _state_cell(state: str | None) -> Cell:
    if state is None:
        return "-"
    return Styled(state, {"running": "green", "starting": "yellow", "fenced": "red"}.get(state, "red"))


@app.command("describe")
def describe(context: typer.Context) -> None:
    """Describe the connected cluster: nodes, racks, controller, versions, health."""
    session = session_of(context)
    with session.admin() as admin:
        fact = _facts(admin)
    if session.is_structured:
        emit(session, fact)
        return
    show(
        session,
        {key: value for key, value in fact.items() if key not in ("nodes", "features")},
        wide=[],
        formats={"under_replicated": _bad_count, "offline": _bad_count},
    )
    print()
    show(
        session,
        fact["nodes"],
        columns=[
            "node",
            "address",
            "rack",
            "roles",
            "state",
            "leads",
            "replicas",
            "size_bytes",
            "free_bytes",
        ],
        wide=["version", "log_dirs"],
        formats={"state": _state_cell, "size_bytes": size_text, "free_bytes": size_text},
    )
    if session.is_wide:
        print()
        show(session, [{"feature": name, "level": one} for name, one in fact["features"].items()])


def _facts(admin: Admin) -> dict[str, Any]:
    cluster = admin.describe_cluster(include_fenced_brokers=True)
    quorum = _quorum(admin)
    features = admin.describe_features()
    partitions = [
        one
        for topic in admin.describe_topics(list(admin.list_topics(include_internal=True))).succeeded.values()
        for one in topic.partitions
    ]
    voters = () if quorum is None else tuple(one.id for one in quorum.voters)
    leader = None if quorum is None else quorum.leader_id
    live = [node.id for node in cluster.nodes if not node.is_fenced]
    directories = admin.describe_log_dirs(live).succeeded
    versions = {node: _version_of(admin, node) for node in live}
    nodes = [
        {
            "node": node.id,
            "address": f"{node.host}:{node.port}",
            "rack": node.rack,
            "roles": [
                "broker",
                *(["controller"] if node.id in voters else []),
                *(["leader"] if node.id == leader else []),
            ],
            "state": "fenced" if node.is_fenced else "running",
            "leads": sum(one.leader is not None and one.leader.id == node.id for one in partitions),
            "replicas": sum(node.id in [replica.id for replica in one.replicas] for one in partitions),
            **_space(directories.get(node.id, {})),
            "version": versions.get(node.id),
        }
        for node in sorted(cluster.nodes, key=lambda node: node.id)
    ]
    if quorum is not None:
        nodes += _controllers_alone(quorum, {node["node"] for node in nodes})
    return {
        "cluster_id": cluster.cluster_id,
        "controller": leader if leader is not None else getattr(cluster.controller, "id", None),
        "controllers": sorted(voters),
        "metadata_version": _release(features.finalized),
        "partitions": len(partitions),
        "under_replicated": sum(len(one.isr) < len(one.replicas) for one in partitions),
        "offline": sum(one.leader is None for one in partitions),
        "features": {name: one.last for name, one in sorted(features.finalized.items())},
        "nodes": nodes,
    }


def _controllers_alone(quorum: QuorumDescription, brokers: set[int]) -> list[dict[str, Any]]:
    """The controllers that are not brokers; only the quorum lists them."""
    return [
        {
            "node": one.id,
            "address": next((f"{at.host}:{at.port}" for at in quorum.endpoints.get(one.id, ())), None),
            "rack": None,
            "roles": ["controller", *(["leader"] if one.id == quorum.leader_id else [])],
            "state": None,
            "leads": 0,
            "replicas": 0,
            "size_bytes": None,
            "free_bytes": None,
            "log_dirs": [],
            "version": None,
        }
        for one in sorted(quorum.voters, key=lambda one: one.id)
        if one.id not in brokers
    ]


def _quorum(admin: Admin) -> QuorumDescription | None:
    """The quorum, or None for a ZooKeeper cluster or without authorization."""
    from ottla.wire.errors import ClusterAuthorizationFailed, UnsupportedVersion

    try:
        return admin.describe_metadata_quorum()
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return None


def _space(directories: Mapping[str, LogDirDescription]) -> dict[str, Any]:
    free = [one.usable_bytes for one in directories.values() if one.usable_bytes is not None]
    return {
        "size_bytes": sum(
            replica.size_bytes for one in directories.values() for replica in one.replicas.values()
        )
        if directories
        else None,
        "free_bytes": sum(free) if free else None,
        "log_dirs": sorted(directories),
    }


def _release(finalized: Mapping[str, FeatureRange]) -> str | None:
    """The metadata version by its name, such as 4.3-IV0."""
    from ottla.controller.feature_levels import metadata_version

    if "metadata.version" not in finalized:
        return None
    level = finalized["metadata.version"].last
    try:
        return metadata_version(level).name
    except (KeyError, ValueError):
        return f"level {level}"


def _version_of(admin: Admin, node: int) -> str | None:
    """The newest release whose metadata a node supports; brokers do not report their own version."""
    from ottla.client.errors import ClientError
    from ottla.wire.errors import KafkaError

    try:
        return _release(admin.describe_features(node_id=node).supported)
    except (ClientError, KafkaError):
        return None


def _bad_count(count: int) -> Cell:
    return Styled(str(count), "yellow") if count else str(count)


@contextmanager
def _told() -> Iterator[None]:
    """Report an error that the user can fix as one sentence with exit code 1."""
    try:
        yield
    except ClusterError as error:
        raise Problem(str(error)) from error


def _layout(
    data: Path, nodes: int | None, controllers: int | None, port: int | None, override: list[str]
) -> Layout:
    from ottla.operations.configuration import parse_overrides

    if is_layout(data):
        layout = read_layout(data)
        _check_same(layout, nodes, controllers, port, override)
        return layout
    if (data / "meta.properties").exists():
        raise ClusterError(
            f"{data} contains the data of a single node, not of a cluster. Choose another directory with "
            "--data."
        )
    try:
        overrides = parse_overrides(override)
    except ValueError as error:
        raise ClusterError(str(error)) from error
    plan = Plan(
        nodes=NODES if nodes is None else nodes,
        controllers=controllers,
        port=PORT if port is None else port,
        overrides=overrides,
    )
    layout = write_layout(data, plan)
    for node in layout.nodes.values():
        typer.echo(f"# {node.properties}\n{node.properties.read_text()}")
    return layout


def _check_same(
    layout: Layout, nodes: int | None, controllers: int | None, port: int | None, override: list[str]
) -> None:
    """Reject flags that contradict the existing cluster: `up` never adds or changes nodes."""
    there = len(layout.nodes)
    if nodes not in (None, there):
        raise ClusterError(
            f"The cluster in {layout.directory} has {there} nodes, not {nodes}. Omit --nodes to start it, "
            "or create another cluster in another directory with --data."
        )
    voters = sum(node.config.is_controller for node in layout.nodes.values())
    if controllers not in (None, voters):
        raise ClusterError(
            f"The cluster in {layout.directory} has {voters} controllers, not {controllers}. Omit "
            "--controllers to start it, or create another cluster in another directory with --data."
        )
    first = next(iter(layout.nodes.values()))
    if override or (port is not None and first.address is not None and first.address[1] != port):
        raise ClusterError(
            f"--port and --override apply to a new cluster only, and {layout.directory} already contains "
            f"one. Edit {first.properties} and the files of the other nodes instead."
        )


def _tell_up(layout: Layout, cluster_id: str) -> None:
    typer.echo(f"Cluster {cluster_id} is up: {len(layout.nodes)} nodes.")
    typer.echo(f"Each node keeps its server.properties, node.log and data in {layout.directory}/node-<id>.")
    typer.echo(f"Clients connect to {layout.bootstrap_servers}")
    typer.echo("Stop it with Ctrl-C, or with ottla cluster down in another terminal.")
