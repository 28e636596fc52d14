"""The features of Kafka 4.3: their levels, names and dependencies.

metadata.version determines which records may be written. kraft.version is special: the quorum itself stores
it, in control records, and 1 means a dynamic quorum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.controller.image import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION
from ottla.controller.records import ELIGIBLE_LEADER_REPLICAS_LEVEL

VersionRange = tuple[int, int]


class MetadataVersion(NamedTuple):
    """A level of metadata.version: `changes_records` means that records differ from one level before."""

    level: int
    name: str
    changes_records: bool

    @property
    def release(self) -> str:
        return self.name.partition("-")[0]


_NAMES = """
3.3-IV3* 3.4-IV0* 3.5-IV0 3.5-IV1 3.5-IV2* 3.6-IV0 3.6-IV1* 3.6-IV2* 3.7-IV0* 3.7-IV1 3.7-IV2* 3.7-IV3 3.7-IV4
3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1* 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0* 4.4-IV0
"""  # from level 7 on; a star: records changed

METADATA_VERSIONS: tuple[MetadataVersion, ...] = tuple(
    MetadataVersion(level, name.rstrip("*"), name.endswith("*"))
    for level, name in enumerate(_NAMES.split(), 7)
)
METADATA_VERSION_MIN = METADATA_VERSIONS[0].level
METADATA_VERSION_LATEST = 30  # 4.3-IV0; what comes after it is not stable
METADATA_VERSION_TESTING = METADATA_VERSIONS[-1].level

SCRAM_LEVEL = 11  # 3.5-IV2
TRANSACTIONS_LEVEL = 13  # 3.6-IV1: metadata transactions
CONTROLLER_REGISTRATION_LEVEL = 15  # 3.7-IV0


class _Level(NamedTuple):
    default_from: int  # the metadata.version that a new cluster must have to start at this level
    needs: Mapping[str, int]


_FEATURES: dict[str, tuple[_Level, ...]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: (
        _Level(7, {}),
        _Level(26, {METADATA_VERSION: ELIGIBLE_LEADER_REPLICAS_LEVEL}),
    ),
    "group.version": (_Level(7, {}), _Level(22, {})),
    KRAFT_VERSION: (_Level(7, {}), _Level(21, {})),
    "share.version": (_Level(7, {}), _Level(28, {})),
    "streams.version": (_Level(7, {}), _Level(29, {})),
    "transaction.version": (_Level(7, {}), _Level(24, {}), _Level(24, {})),
}

SUPPORTED_FEATURES: dict[str, VersionRange] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LATEST),
    **{name: (0, len(levels) - 1) for name, levels in _FEATURES.items()},
}
"""The levels that a node supports.

A broker registers with them, so that it may join a Kafka cluster with levels that high.
"""

SERVED_FEATURES: dict[str, VersionRange] = {
    name: levels
    for name, levels in SUPPORTED_FEATURES.items()
    if name not in ("share.version", "streams.version")  # neither kind of group is served yet
}
"""The features that clients can use on a node, and that it therefore advertises to them."""


def metadata_version(level: int) -> MetadataVersion:
    """The metadata.version of a level; ValueError if there is none."""
    if not METADATA_VERSION_MIN <= level <= METADATA_VERSION_TESTING:
        raise ValueError(
            f"No MetadataVersion with feature level {level}. Valid feature levels are from "
            f"{METADATA_VERSION_MIN} to {METADATA_VERSION_TESTING}."
        )
    return METADATA_VERSIONS[level - METADATA_VERSION_MIN]


def metadata_version_of_release(text: str, *, unstable: bool = False) -> MetadataVersion:
    """The metadata.version of a release ("4.3", "4.3.1") or of a level's name ("4.0-IV1").

    Unstable levels are known only with `unstable`.
    """
    key = ".".join(text.split(".")[:2])
    highest = METADATA_VERSION_TESTING if unstable else METADATA_VERSION_LATEST
    known = [version for version in METADATA_VERSIONS if version.level <= highest]
    for version in reversed(known):
        if key in (version.name, version.release):
            return version
    names = ", ".join(version.name for version in known)
    raise ValueError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {names}")


def default_level(feature: str, metadata_level: int) -> int:
    """The initial level of the feature in a cluster of that metadata.version."""
    default = 0
    for level, entry in enumerate(_FEATURES[feature]):
        if entry.default_from <= metadata_level:
            default = level
    return default


def check_level(feature: str, level: int, levels: Mapping[str, int]) -> None:
    """Raise ValueError unless the feature has that level and `levels` contain its dependencies."""
    entries = _FEATURES.get(feature)
    if entries is None:
        raise ValueError(f"Feature {feature} not found.")
    if not 0 <= level < len(entries):
        raise ValueError(f"No feature:{feature} with feature level {level}")
    if level >= 1 and levels.get(METADATA_VERSION, 0) < METADATA_VERSION_MIN:
        first = METADATA_VERSIONS[0]
        raise ValueError(
            f"{feature} could not be set to {level} because it depends on metadata.version={first.level} "
            f"({first.name})"
        )
    for needed, needed_level in entries[level].needs.items():
        if levels.get(needed, 0) < needed_level:
            raise ValueError(
                f"{feature} could not be set to {level} because it depends on {needed} level {needed_level}"
            )


def dependencies(feature: str, level: int) -> dict[str, int]:
    """The dependencies of a feature's level."""
    return dict(_FEATURES[feature][level].needs)


def resolve_features(
    *, release: str | None, features: Mapping[str, int], is_dynamic_quorum: bool = False
) -> dict[str, int]:
    """The level of every feature of a new cluster; ValueError if the requested levels are invalid."""
    if METADATA_VERSION in features:
        if release is not None:
            raise ValueError(
                "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
            )
        version = metadata_version(features[METADATA_VERSION])
        if version.level > METADATA_VERSION_LATEST:
            raise ValueError(f"metadata.version {version.name} is not yet stable.")
    elif release is not None:
        version = metadata_version_of_release(release)
    else:
        version = metadata_version(METADATA_VERSION_LATEST)
    levels = {METADATA_VERSION: version.level}
    for name, level in features.items():
        if name == METADATA_VERSION:
            continue
        if name not in _FEATURES:
            known = ", ".join(sorted(_FEATURES))
            raise ValueError(f"Unsupported feature: {name}. Supported features are: {known}")
        levels[name] = level
    levels[KRAFT_VERSION] = _kraft_level(levels.get(KRAFT_VERSION), is_dynamic_quorum)
    for name in _FEATURES:
        levels.setdefault(name, default_level(name, version.level))
    for name in sorted(_FEATURES):
        check_level(name, levels[name], levels)
    return levels


def _kraft_level(wanted: int | None, is_dynamic_quorum: bool) -> int:
    if wanted is None:
        return 1 if is_dynamic_quorum else 0
    if wanted == 0 and is_dynamic_quorum:
        raise ValueError(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags "
            "--standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic "
            "controllers support, try removing the --feature flag for kraft.version."
        )
    if wanted != 0 and not is_dynamic_quorum:
        raise ValueError(
            f"Cannot set kraft.version to {wanted} unless controller.quorum.voters is empty and one of the "
            "flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic "
            "controllers support, try using one of --standalone, --initial-controllers, or "
            "--no-initial-controllers and removing controller.quorum.voters."
        )
    return wanted


def does_metadata_change(high: int, low: int) -> bool:
    """Whether a downgrade from metadata.version `high` to `low` could lose content of records."""
    return any(version.changes_records for version in METADATA_VERSIONS if low < version.level <= high)
