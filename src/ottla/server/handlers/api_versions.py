"""ApiVersions (18), versions 0 to 4.

Returns the APIs and versions that this listener serves, and the levels of the cluster's features. It is
derived from the table of handlers, so everything advertised is served; with `unstable.api.versions.enable`
that includes unstable versions. Produce is advertised from version 0 although it is served from 3: librdkafka
mistakes a higher first version for a broker without produce.

v3 is flexible (the response header stays at version 0) and names the client's software, which the connection
remembers; a name or version in another format is INVALID_REQUEST. v4 includes features whose lowest level is
0: older clients cannot read those, so they are omitted for them. A version above 4 gets a v0 response with
UNSUPPORTED_VERSION and this API's own range.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Protocol

from ottla.controller.feature_levels import SERVED_FEATURES
from ottla.server.handlers.common import is_controller_listener
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.parts import HasApiKeys, HasConfig, HasImage, HasQuorum
from ottla.wire import apis
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

KEY = 18

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Parts(HasConfig, HasImage, HasQuorum, HasApiKeys, Protocol):
    """The parts of a node that ApiVersions needs."""


def handle(parts: Parts, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if _SOFTWARE.fullmatch(name) is None or _SOFTWARE.fullmatch(version) is None:
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.client_software = (name, version)
    response = ApiVersionsResponse(
        api_keys=_served(parts, for_controllers=is_controller_listener(parts, context))
    )
    if context.version >= 3:
        _add_features(parts, response, has_level_zero=context.version >= 4)
    return response


def answer_unsupported(_parts: object) -> ApiVersionsResponse:
    """The v0 response to a client with a newer ApiVersions than ours."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range(KEY, False)])


def _served(parts: Parts, *, for_controllers: bool) -> list[ApiVersionsResponse.ApiVersion]:
    keys = _controller_keys() if for_controllers else parts.api_keys
    unstable = parts.config.bool_of("unstable.api.versions.enable")
    return [_range(key, unstable) for key in keys]


@cache
def _controller_keys() -> tuple[int, ...]:
    from ottla.server.handlers import HANDLERS

    return tuple(sorted(api.key for api in HANDLERS if "controller" in apis.API_BY_KEY[api.key].listeners))


@cache  # every connection asks, and what is answered is only read
def _range(key: int, unstable: bool) -> ApiVersionsResponse.ApiVersion:
    versions = apis.API_BY_KEY[key].advertised_versions(unstable=unstable)
    return ApiVersionsResponse.ApiVersion(
        api_key=key, min_version=versions.start, max_version=versions.stop - 1
    )


def _add_features(parts: Parts, response: ApiVersionsResponse, *, has_level_zero: bool) -> None:
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in SERVED_FEATURES.items()
        if highest > 0 and (has_level_zero or lowest > 0)
    ]
    levels = dict(parts.image.features)
    if parts.quorum.kraft_version > 0:
        levels["kraft.version"] = parts.quorum.kraft_version
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
        if level > 0 and name in SERVED_FEATURES
    ]
    response.finalized_features_epoch = parts.image.offset


API = Api(KEY, handle, answer_unsupported=answer_unsupported)
