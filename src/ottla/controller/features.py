"""UpdateFeatures: raises the finalized levels of features, or lowers them if nothing is lost.

A request makes all of its updates, or none.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.controller.configs import elr_safety_records
from ottla.controller.feature_levels import (
    CONTROLLER_REGISTRATION_LEVEL,
    METADATA_VERSION_MIN,
    METADATA_VERSION_TESTING,
    VersionRange,
    check_level,
    does_metadata_change,
)
from ottla.controller.image import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION
from ottla.controller.result import Result
from ottla.controller.state import ControllerState
from ottla.wire.errors import InvalidUpdateVersion, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import FeatureLevelRecord, NoOpRecord
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3

_DISABLED = (0, 0)


def update_features(
    state: ControllerState, request: UpdateFeaturesRequest, version: int
) -> Result[UpdateFeaturesResponse]:
    """Set finalized levels. The result's `kraft_version` tells the quorum to raise its own."""
    updates = {update.feature: update.max_version_level for update in request.feature_updates}
    proposed = {**state.image.features, **updates}
    records: list[Message] = []
    kraft_version: int | None = None
    try:
        for update in request.feature_updates:
            kind = update.upgrade_type
            if version == 0:
                kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
            level = update.max_version_level
            _check_direction(state, update.feature, level, kind)
            if update.feature == METADATA_VERSION:
                records.append(_metadata_version(state, level, kind))
            elif update.feature == KRAFT_VERSION:
                if kind == UPGRADE:
                    kraft_version = level
                    records.append(NoOpRecord())
                elif level != state.kraft_version:
                    raise _invalid(update.feature, level, "Can't downgrade the version of this feature.")
            else:
                records.append(_feature(update.feature, level, proposed))
    except KafkaError as error:
        text = "The update failed for all features since the following feature had an error: "
        return Result(UpdateFeaturesResponse(error_code=error.code, error_message=f"{text}{error.message}"))
    if updates.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records = elr_safety_records(state) + records
    response = UpdateFeaturesResponse(error_message=None)
    if version <= 1:  # with Kafka's odd message for no error
        response.results = [
            UpdateFeaturesResponse.UpdatableFeatureResult(feature=name, error_message="NONE")
            for name in updates
        ]
    if request.validate_only:
        return Result(response)
    return Result(response, records, kraft_version=kraft_version)


def _invalid(feature: str, level: int, why: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(f"Invalid update version {level} for feature {feature}. {why}")


def _check_direction(state: ControllerState, feature: str, level: int, kind: int) -> None:
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(feature, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(feature, level, "A feature version cannot be less than 0.")
    why = _why_not_supported(state, feature, level)
    if why is not None:
        raise _invalid(feature, level, why)
    current = state.kraft_version if feature == KRAFT_VERSION else state.image.features.get(feature, 0)
    if level < current and kind == UPGRADE:
        raise _invalid(
            feature,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and kind != UPGRADE:
        raise _invalid(feature, level, "Can't downgrade to a newer version.")


def _why_not_supported(state: ControllerState, feature: str, level: int) -> str | None:
    """The node that does not support this level; None if all do."""
    settings, image = state.settings, state.image
    why = _outside(
        f"Local controller {settings.node_id}", settings.supported_features.get(feature, _DISABLED), level
    )
    if why is not None:
        return why
    for broker in image.brokers.values():
        why = _outside(f"Broker {broker.id}", broker.features.get(feature, _DISABLED), level)
        if why is not None:
            return why
    if image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return None
    for controller in image.controllers.values():
        if controller.id == settings.node_id:
            continue
        why = _outside(f"Controller {controller.id}", controller.features.get(feature, _DISABLED), level)
        if why is not None:
            return why
    for voter_id in sorted(settings.quorum_ids - {settings.node_id}):
        if voter_id not in image.controllers:
            return f"controller {voter_id} has not registered, and may not support this feature"
    return None


def _outside(who: str, supported: VersionRange, level: int) -> str | None:
    lowest, highest = supported
    if lowest <= level <= highest:
        return None
    if highest == 0:
        return f"{who} does not support this feature."
    shown = str(lowest) if lowest == highest else f"{lowest}-{highest}"
    return f"{who} only supports versions {shown}"


def _metadata_version(state: ControllerState, level: int, kind: int) -> Message:
    current = state.image.metadata_version
    if not METADATA_VERSION_MIN <= level <= METADATA_VERSION_TESTING:
        raise InvalidUpdateVersion(
            f"Invalid metadata.version {level}. Valid versions are from {METADATA_VERSION_MIN} to "
            f"{METADATA_VERSION_TESTING}."
        )
    if level < current and does_metadata_change(current, level):
        why = "Refusing to perform the requested downgrade because it might delete metadata information."
        if kind == UNSAFE_DOWNGRADE:
            why = "Unsafe metadata downgrade is not supported in this version."
        raise InvalidUpdateVersion(f"Unsupported metadata.version downgrade from {current} to {level}. {why}")
    return FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)


def _feature(feature: str, level: int, proposed: Mapping[str, int]) -> Message:
    try:
        check_level(feature, level, proposed)
    except ValueError as error:
        raise _invalid(feature, level, str(error)) from None
    return FeatureLevelRecord(name=feature, feature_level=level)
