"""The table of APIs matches the classes, and has Kafka's exceptions to its own rules."""

from __future__ import annotations

from ottla.wire.apis import API_BY_KEY, API_BY_NAME, request_header_version, response_header_version


def test_the_table_agrees_with_the_classes() -> None:
    assert len(API_BY_KEY) == 89
    for key, entry in API_BY_KEY.items():
        request, response = entry.request_class(), entry.response_class()
        assert (request.API_KEY, response.API_KEY, entry.key) == (key, key, key)
        assert request.VERSIONS == response.VERSIONS == entry.versions
        assert request.FLEXIBLE_FROM == response.FLEXIBLE_FROM == entry.flexible_from
        assert entry.listeners <= {"broker", "controller"}
        assert API_BY_NAME[entry.name] is entry


def test_produce_is_advertised_from_version_0_and_served_from_3() -> None:
    produce = API_BY_NAME["Produce"]
    assert produce.versions == range(3, 14)
    assert produce.advertised_versions() == range(14)
    assert API_BY_NAME["Fetch"].advertised_versions() == range(4, 19)


def test_an_unstable_last_version_is_not_advertised() -> None:
    entry = API_BY_NAME["InitProducerId"]
    assert entry.versions == range(7)
    assert entry.stable_versions == entry.advertised_versions() == range(6)
    assert entry.served_versions(unstable=True) == entry.advertised_versions(unstable=True) == range(7)


def test_headers_follow_the_flexible_versions() -> None:
    assert [request_header_version(0, version) for version in (8, 9)] == [1, 2]
    assert [response_header_version(0, version) for version in (8, 9)] == [0, 1]
    assert request_header_version(17, 1) == 1


def test_the_api_versions_response_has_the_oldest_header() -> None:
    assert [request_header_version(18, version) for version in (2, 3, 99)] == [1, 2, 2]
    assert [response_header_version(18, version) for version in (0, 4, 99)] == [0, 0, 0]
