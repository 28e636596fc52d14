"""ApiVersions: what is advertised, to whom, and what is refused."""

from __future__ import annotations

import pytest
from tests.unit.server.handlers.support import (
    CONTROLLER_LISTENER,
    as_sent,
    ask,
    broker_of,
    context_of,
    image_of,
)

from ottla.server.handlers import HANDLERS, api_versions
from ottla.wire import apis
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata_records import FeatureLevelRecord

ASKED = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.8.0")


def ranges(response: object) -> dict[int, tuple[int, int]]:
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", range(5))
def test_every_api_that_a_broker_listener_handles_is_advertised_in_every_version(version: int) -> None:
    response = ask(broker_of(image_of()), ASKED, version)
    handled = {api.key for api in HANDLERS if "broker" in apis.API_BY_KEY[api.key].listeners}
    assert response.error_code == 0
    assert set(ranges(response)) == handled


def test_produce_is_advertised_from_version_0() -> None:
    assert ranges(ask(broker_of(image_of()), ASKED))[0] == (0, 13)


def test_a_version_that_is_not_stable_is_not_advertised() -> None:
    assert ranges(ask(broker_of(image_of()), ASKED))[22] == (0, 5)


def test_a_controller_listener_advertises_what_controllers_serve() -> None:
    response = ask(broker_of(image_of()), ASKED, listener=CONTROLLER_LISTENER)
    assert 62 in ranges(response)
    assert 3 not in ranges(response)


def test_groups_of_consumers_are_advertised_and_share_groups_are_not() -> None:
    advertised = set(ranges(ask(broker_of(image_of()), ASKED)))
    assert {8, 9, 10, 11, 12, 13, 14, 15, 16, 28, 42, 47, 68, 69} <= advertised
    assert not {76, 77, 78, 79} & advertised


def test_features_come_with_their_levels_and_the_offset_that_they_are_from() -> None:
    image = image_of()
    image.offset = 77
    response = ask(broker_of(image), ASKED)
    finalized = {
        one.name: (one.min_version_level, one.max_version_level) for one in response.finalized_features
    }
    assert finalized == {"metadata.version": (30, 30), "kraft.version": (1, 1)}
    assert response.finalized_features_epoch == 77
    assert response.zk_migration_ready is False


def test_features_that_no_client_can_use_are_not_advertised() -> None:
    image = image_of()
    for name in ("share.version", "streams.version", "group.version"):
        image.replay(FeatureLevelRecord(name=name, feature_level=1))
    response = ask(broker_of(image), ASKED)
    for features in (response.finalized_features, response.supported_features):
        assert {one.name for one in features} & {"share.version", "streams.version", "group.version"} == {
            "group.version"
        }


def test_features_with_level_0_are_kept_from_clients_that_cannot_read_them() -> None:
    broker = broker_of(image_of())
    new = {one.name: one.min_version for one in ask(broker, ASKED, 4).supported_features}
    old = {one.name: one.min_version for one in ask(broker, ASKED, 3).supported_features}
    assert new["kraft.version"] == 0
    assert set(old) == {"metadata.version"}


def test_the_software_of_the_client_is_remembered_with_its_connection() -> None:
    broker = broker_of(image_of())
    context = context_of(3)
    api_versions.handle(broker, ASKED, context)
    assert context.connection.client_software == ("librdkafka", "2.8.0")


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a b", "1"), ("a", "-1"), ("a", "1."), ("a\n", "1")]
)
def test_software_that_is_not_named_properly_is_refused(name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = ask(broker_of(image_of()), request)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.api_keys == []


def test_a_request_that_is_too_new_learns_the_versions_of_this_api() -> None:
    response = as_sent(api_versions.answer_unsupported(broker_of(image_of())), 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ranges(response) == {18: (0, 4)}
