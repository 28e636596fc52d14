"""Text about features: the levels of a release, and the dependencies of a level."""

from __future__ import annotations

from ottla.operations.failure import Failure

RELEASE_FEATURES = (
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
"""The features that have a level in every release, in the order of the output."""
METADATA = "metadata.version"


def short(text: str) -> int:
    """Parse a 16-bit number; raises ValueError for anything else."""
    number = int(text)
    if not -(2**15) <= number < 2**15:
        raise ValueError(text)
    return number


def feature_level(text: str) -> tuple[str, int]:
    """Parse `feature=level`."""
    name, equals, level = text.partition("=")
    if not equals:
        raise Failure(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), short(level.strip())
    except ValueError:
        raise Failure(
            f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short."
        ) from None


def level_of_release(release: str) -> int:
    """The metadata.version level of a release."""
    from ottla.controller.feature_levels import metadata_version_of_release

    try:
        return metadata_version_of_release(release, unstable=True).level
    except ValueError as error:
        raise Failure(str(error)) from error


def mapping_lines(release: str | None) -> list[str]:
    """The levels of all features in a release; without one, in the newest."""
    from ottla.controller.feature_levels import METADATA_VERSION_LATEST, default_level, metadata_version

    release = release or metadata_version(METADATA_VERSION_LATEST).name
    level = level_of_release(release)
    return [
        f"{METADATA}={level} ({release})",
        *(f"{name}={default_level(name, level)}" for name in RELEASE_FEATURES),
    ]


def dependency_lines(name: str, level: int) -> list[str]:
    """The dependencies of a feature's level."""
    from ottla.controller.feature_levels import SUPPORTED_FEATURES, dependencies, metadata_version

    if name == METADATA:
        try:
            return [f"{name}={level} ({metadata_version(level).name}) has no dependencies."]
        except ValueError:
            raise Failure(f"Unknown metadata.version {level}") from None
    if name not in SUPPORTED_FEATURES:
        raise Failure(f"Unknown feature: {name}")
    lowest, highest = SUPPORTED_FEATURES[name]
    if not lowest <= level <= highest:
        raise Failure(f"Feature level {level} is not supported for feature {name}")
    needs = dependencies(name, level)
    lines = [f"{name}={level} requires:" if needs else f"{name}={level} has no dependencies."]
    for needed, needed_level in needs.items():
        release = f" ({metadata_version(needed_level).name})" if needed == METADATA else ""
        lines.append(f"    {needed}={needed_level}{release}")
    return lines
