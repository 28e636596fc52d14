"""What the tests of the client share: settings, and a server that answers as a script says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

from ottla.client.config import AdminSettings, CommonSettings
from ottla.client.net.cluster import Cluster
from ottla.host import HostClock, HostNetwork, HostRandom
from ottla.wire.apis import API_BY_KEY
from ottla.wire.frame import read_request, response_frame
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataResponse

DEADLINE_SECONDS = 60

Handler = Callable[["Script", int, Any], Any]


def settings(*servers: str, **more: Any) -> CommonSettings:
    return AdminSettings.parse(bootstrap_servers=",".join(servers), **more)


def cluster_of(*servers: str, **more: Any) -> Cluster:
    return Cluster(settings(*servers, **more), clock=HostClock(), network=HostNetwork(), random=HostRandom())


def run(work: Awaitable[Any]) -> Any:
    """Run a test's coroutine, with a bound of time."""

    async def bounded() -> Any:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await work

    return asyncio.run(bounded())


def every_version() -> ApiVersionsResponse:
    one = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        api_keys=[
            one(api_key=key, min_version=entry.versions[0], max_version=entry.versions[-1])
            for key, entry in API_BY_KEY.items()
        ]
    )


class Script:
    """A server of one connection at a time or many: `handle(script, version, request)` gives the answer.

    A handler returns a message, bytes to be sent as they are, CUT to end the connection, or SILENT.
    """

    CUT = object()
    SILENT = object()

    def __init__(self, handle: Handler | None = None, node_id: int = 0) -> None:
        self._handle = handle
        self.node_id = node_id
        self.requests: list[Any] = []
        self.connections = 0
        self.port = 0
        self.known: dict[int, int] = {}
        """The nodes that metadata names, and their ports; by default this one."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    def metadata(self) -> MetadataResponse:
        known = self.known or {self.node_id: self.port}
        return MetadataResponse(
            cluster_id="scripted",
            controller_id=self.node_id,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=port)
                for node_id, port in known.items()
            ],
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                _, version, correlation_id, _, request = read_request(frame)
                self.requests.append(request)
                answer = self._answer(version, request)
                if asyncio.iscoroutine(answer):
                    answer = await answer
                if answer is Script.CUT:
                    break
                if answer is Script.SILENT:
                    continue
                if not isinstance(answer, bytes):
                    answer = response_frame(answer, version, correlation_id)
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _answer(self, version: int, request: Any) -> Any:
        if self._handle is not None:
            answer = self._handle(self, version, request)
            if answer is not None:
                return answer
        if request.NAME == "ApiVersionsRequest":
            return every_version()
        if request.NAME == "MetadataRequest":
            return self.metadata()
        raise AssertionError(f"The script has no answer to {request.NAME}.")
