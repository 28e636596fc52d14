"""`kafka-features.sh`: describes and changes the feature levels of the cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.operations.failure import Failure
from ottla.tools.admin_connection import open_admin
from ottla.tools.feature_text import (
    METADATA,
    RELEASE_FEATURES,
    dependency_lines,
    feature_level,
    level_of_release,
    mapping_lines,
)
from ottla.tools.subcommands import SubcommandParser, run

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.nodes import UpgradeType


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    commands = {
        "describe": _describe,
        "upgrade": _upgrade,
        "downgrade": _downgrade,
        "disable": _disable,
        "version-mapping": _version_mapping,
        "feature-dependencies": _feature_dependencies,
    }
    return run(_parser(), commands, arguments)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(prog="kafka-features", description="Describes and changes feature levels.")
    addresses = parser.add_mutually_exclusive_group()
    addresses.add_argument("--bootstrap-server", help="Brokers to connect to: host:port, comma-separated.")
    addresses.add_argument("--bootstrap-controller", help="Controllers to connect to, in the same format.")
    parser.add_argument("--command-config", help="Properties file for the client.")
    commands = parser.add_commands()
    describe = commands.add_parser("describe", help="Show the levels.")
    describe.add_argument("--node-id", type=int, help="Node to ask. Default: any.")
    for name in ("upgrade", "downgrade"):
        change = commands.add_parser(name, help=f"{name.capitalize()} features.")
        change.add_argument("--metadata", help="Metadata release; deprecated, use --feature.")
        change.add_argument("--release-version", help="Set all features to the levels of this release.")
        change.add_argument("--feature", action="append", help="feature=level; repeatable.")
        change.add_argument("--dry-run", action="store_true", help="Validate only; change nothing.")
        if name == "downgrade":
            change.add_argument(
                "--unsafe", action="store_true", help="Allow a downgrade that loses metadata."
            )
    disable = commands.add_parser("disable", help="Disable features.")
    disable.add_argument("--feature", action="append", help="Feature; repeatable.")
    disable.add_argument("--unsafe", action="store_true", help="Allow a downgrade that loses metadata.")
    disable.add_argument("--dry-run", action="store_true", help="Validate only; change nothing.")
    mapping = commands.add_parser("version-mapping", help="Show the feature levels of a release.")
    mapping.add_argument("--release-version", help="Release. Default: the newest.")
    needs = commands.add_parser("feature-dependencies", help="Show the dependencies of a feature level.")
    needs.add_argument("--feature", action="append", required=True, help="feature=level; repeatable.")
    return parser


def _connect(options: argparse.Namespace) -> Admin:
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise Failure(
            "Command line error: You must specify either --bootstrap-controller or --bootstrap-server."
            " Type --help for help."
        )
    return open_admin(
        servers=options.bootstrap_server,
        controllers=options.bootstrap_controller,
        config=options.command_config,
    )


def _describe(options: argparse.Namespace) -> int:
    if options.node_id is not None and options.node_id < 0:
        raise Failure(f"Invalid node id {options.node_id}: must be non-negative.")
    with _connect(options) as admin:
        features = admin.describe_features(node_id=options.node_id)
    epoch = "-" if features.finalized_epoch is None else features.finalized_epoch
    for name, supported in sorted(features.supported.items()):
        finalized = features.finalized.get(name)
        level = 0 if finalized is None else finalized.last
        print(
            f"Feature: {name:<40}  SupportedMinVersion: {_level(name, supported.first):<15}"
            f"  SupportedMaxVersion: {_level(name, supported.last):<15}"
            f"  FinalizedVersionLevel: {_level(name, level):<15}  Epoch: {epoch}"
        )
    return 0


def _level(feature: str, level: int) -> str:
    from ottla.controller.feature_levels import metadata_version

    if feature != METADATA:
        return str(level)
    try:
        return metadata_version(level).name
    except ValueError:
        return f"UNKNOWN {level}"


def _upgrade(options: argparse.Namespace) -> int:
    from ottla.client.admin.nodes import UpgradeType

    return _change("upgrade", options, UpgradeType.UPGRADE)


def _downgrade(options: argparse.Namespace) -> int:
    return _change("downgrade", options, _downgrade_type(options))


def _downgrade_type(options: argparse.Namespace) -> UpgradeType:
    from ottla.client.admin.nodes import UpgradeType

    return UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE


def _change(verb: str, options: argparse.Namespace, kind: UpgradeType) -> int:
    if options.release_version is not None:
        if options.metadata is not None or options.feature is not None:
            raise Failure("Can not specify `release-version` with other feature flags.")
        levels = _levels_of_release(options.release_version, only_on=verb == "upgrade")
    else:
        levels = {}
        if options.metadata is not None:
            print(" `metadata` flag is deprecated and may be removed in a future release.")
            levels[METADATA] = level_of_release(options.metadata)
        for text in options.feature or ():
            name, level = feature_level(text)
            _add(levels, name, level)
    return _update(verb, options, levels, kind)


def _levels_of_release(release: str, *, only_on: bool) -> dict[str, int]:
    from ottla.controller.feature_levels import default_level

    metadata = level_of_release(release)
    levels = {METADATA: metadata}
    for name in RELEASE_FEATURES:
        level = default_level(name, metadata)
        if level > 0 or not only_on:
            levels[name] = level
    return levels


def _disable(options: argparse.Namespace) -> int:
    levels: dict[str, int] = {}
    for name in options.feature or ():
        _add(levels, name, 0)
    return _update("disable", options, levels, _downgrade_type(options))


def _add(levels: dict[str, int], name: str, level: int) -> None:
    if name in levels:
        raise Failure(f"Feature {name} was specified more than once.")
    levels[name] = level


def _update(verb: str, options: argparse.Namespace, levels: dict[str, int], kind: UpgradeType) -> int:
    from ottla.client.admin.nodes import FeatureUpdate

    with _connect(options) as admin:
        if not levels:
            raise Failure(f"You must specify at least one feature to {verb}")
        updates = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
        results = admin.update_features(updates, validate_only=options.dry_run)
    failures = 0
    for name, level in sorted(levels.items()):
        error = results.failed.get(name)
        if error is None:
            done = "disabled." if verb == "disable" else f"{verb}d to {level}."
            print(f"{name}{' can be ' if options.dry_run else ' was '}{done}")
        else:
            failures += 1
            what = f"{verb} {name}" if verb == "disable" else f"{verb} {name} to {level}"
            print(f"{'Can' if options.dry_run else 'Could'} not {what}. {error}")
    if failures:
        raise Failure(f"{failures} out of {len(levels)} operation(s) failed.")
    return 0


def _version_mapping(options: argparse.Namespace) -> int:
    print(*mapping_lines(options.release_version), sep="\n")
    return 0


def _feature_dependencies(options: argparse.Namespace) -> int:
    for text in options.feature:
        print(*dependency_lines(*feature_level(text)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
