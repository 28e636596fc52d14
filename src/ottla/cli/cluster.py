"""`ottla cluster`: what a cluster is made of; and several nodes on this machine, under one supervisor.

`describe` asks any cluster; `up`, `down` and `status` are about one in a directory of this machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Problem
from ottla.cli.output import Cell, Format, Styled, emit, show, size_text
from ottla.cli.session import Flags, Session, session_of
from ottla.cluster.layout import ClusterError, Layout, Plan, is_layout, read_layout, write_layout

app = typer.Typer(help="Describe the cluster; run one on this machine.", no_args_is_help=True)

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.nodes import FeatureRange, QuorumDescription
    from ottla.client.admin.replicas import LogDirDescription

NODES = 3
PORT = 9092

DataOption = Annotated[Path, typer.Option("--data", help="Directory of the cluster.", metavar="DIR")]
_DATA = Path("cluster")


@app.command("up")
def up(
    nodes: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help=f"How many nodes a new cluster has; {NODES} if not given."),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="How many of them, the first ones, are controllers too; 3 or 1."),
    ] = None,
    data: DataOption = _DATA,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help=f"Port of node 1; the others are the next ones. {PORT} if not given, 0 takes free ones.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of all nodes of a new cluster.")
    ] = None,
) -> None:
    """Run a cluster until Ctrl-C or ottla cluster down: make it, or start the one that is in DIR again."""
    from ottla.cluster.supervisor import Supervisor, stops_on_signals

    with _told():
        layout = _layout(data, nodes, controllers, port, override or [])
        supervisor = Supervisor(layout, lambda line: typer.echo(line, err=True))
        with stops_on_signals(supervisor.request_stop):
            supervisor.run(lambda cluster_id: _tell_up(layout, cluster_id))
    typer.echo("The cluster has stopped.")


@app.command("down")
def down(data: DataOption = _DATA) -> None:
    """Stop the cluster that runs in DIR, and return when all its nodes have ended."""
    from ottla.cluster.supervisor import stop_supervisor

    with _told():
        read_layout(data)
        was_running = stop_supervisor(data)
    typer.echo("The cluster has stopped." if was_running else f"The cluster in {data} does not run.")


@app.command("status")
def status(
    context: typer.Context,
    data: DataOption = _DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the nodes of the cluster in DIR, who leads, and whether all replicas are in sync."""
    from ottla.cluster.status import cluster_status

    session = session_of(context)
    if as_json:
        session = Session(Flags(output=Format.JSON).over(session.flags))
    with _told():
        found = cluster_status(read_layout(data))
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
        typer.echo(f"The cluster does not run: start it with ottla cluster up --data {data}")
    elif found.partitions is None:
        typer.echo("No node answers yet.")
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
    """Describe the cluster that you are connected to: nodes, racks, controller, versions, health."""
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
    """The controllers that are no brokers, of which only the quorum knows."""
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
    """None where there is no quorum to ask for: a cluster with ZooKeeper, or none that we may see."""
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
    """The newest release whose metadata a node understands: brokers do not tell their own version."""
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
    """An error that a person can do something about is one sentence and exit code 1."""
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
            f"{data} holds the data of a node and no cluster: name another directory with --data."
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
    """What is asked for must be what is there: nodes are not added or changed in passing."""
    there = len(layout.nodes)
    if nodes not in (None, there):
        raise ClusterError(
            f"The cluster in {layout.directory} has {there} nodes, not {nodes}: leave --nodes out to start "
            "it, or make another one in another directory with --data."
        )
    voters = sum(node.config.is_controller for node in layout.nodes.values())
    if controllers not in (None, voters):
        raise ClusterError(
            f"The cluster in {layout.directory} has {voters} controllers, not {controllers}: leave "
            "--controllers out to start it, or make another one in another directory with --data."
        )
    first = next(iter(layout.nodes.values()))
    if override or (port is not None and first.address is not None and first.address[1] != port):
        raise ClusterError(
            f"--port and --override are for a new cluster, and there is one in {layout.directory}: change "
            f"{first.properties} and those of the other nodes."
        )


def _tell_up(layout: Layout, cluster_id: str) -> None:
    typer.echo(f"Cluster {cluster_id} is up: {len(layout.nodes)} nodes.")
    typer.echo(f"Each has its server.properties, node.log and data in {layout.directory}/node-<id>.")
    typer.echo(f"Clients connect to {layout.bootstrap_servers}")
    typer.echo("Ctrl-C, or ottla cluster down in another terminal, stops it.")
