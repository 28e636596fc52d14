"""Metadata and connections of a client: what it sees of a broker, and what it does when things break."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.support import Script, cluster_of, every_version, run

from ottla import Admin
from ottla.client.core.metadata import Node
from ottla.client.errors import (
    AuthenticationFailed,
    Closed,
    ConnectionRefused,
    Disconnected,
    LinkLost,
    NameNotResolved,
    NoBrokerAvailable,
    NodeUnknown,
    ProtocolMismatch,
    RequestTimedOut,
)
from ottla.client.net.cluster import GROUP, Cluster
from ottla.host import HostNetwork
from ottla.testing import Broker
from ottla.wire.errors import ErrorCode, UnsupportedVersion
from ottla.wire.frame import response_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "3"}) as started:
        yield started


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def first_failure(cluster: Cluster) -> Exception:
    """Why the first try to reach the cluster failed; more tries follow."""
    starting = asyncio.create_task(cluster.start())
    while cluster.last_error is None:
        await asyncio.sleep(0.01)
    starting.cancel()
    return cluster.last_error


def test_a_started_cluster_knows_its_broker_and_the_topics_that_are_followed(broker: Broker) -> None:
    async def main() -> None:
        cluster = cluster_of(broker.bootstrap_servers)
        try:
            await cluster.start()
            assert [node.port for node in cluster.view.brokers.values()] == [broker.port]
            assert cluster.view.cluster_id
            seen: list[Any] = []
            cluster.on_view(seen.append)
            cluster.follow(["made-here"])
            view = await cluster.refresh(topics=["made-here"], allow_auto_topic_creation=True)
            while view.leader("made-here", 2) < 0:
                view = await cluster.refresh()
            topic = view.topics["made-here"]
            assert len(topic.partitions) == 3
            assert view.topic_names[topic.topic_id] == "made-here"
            assert seen[-1] is cluster.view
            assert cluster.features["metadata.version"] > 0
        finally:
            await cluster.close()

    run(main())


def test_a_topic_that_is_not_there_is_in_the_view_with_its_error(broker: Broker) -> None:
    async def main() -> None:
        cluster = cluster_of(broker.bootstrap_servers)
        try:
            view = await cluster.refresh(topics=["nowhere"])
            assert view.topics["nowhere"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert view.leader("nowhere", 0) == -1
        finally:
            await cluster.close()

    run(main())


def test_coordinators_and_the_controller_are_found(broker: Broker) -> None:
    async def main() -> None:
        cluster = cluster_of(broker.bootstrap_servers)
        try:
            await cluster.start()
            node_id = await cluster.coordinator(GROUP, "some-group")
            assert node_id in cluster.view.brokers
            assert cluster.versions(node_id, ListGroupsRequest.API_KEY) is not None
            topic = CreateTopicsRequest.CreatableTopic(name="by-controller", num_partitions=1)
            topic.replication_factor = 1
            answer = await cluster.ask_controller(CreateTopicsRequest(topics=[topic]))
            assert answer.topics[0].error_code == 0
        finally:
            await cluster.close()

    run(main())


def test_many_requests_on_one_connection_are_answered_in_order(broker: Broker) -> None:
    async def main() -> None:
        cluster = cluster_of(broker.bootstrap_servers)
        try:
            await cluster.start()
            node_id = next(iter(cluster.view.brokers))
            futures = [cluster.send(node_id, ListGroupsRequest(), lane="other") for _ in range(50)]
            answers = await asyncio.gather(*futures)
            assert all(answer.error_code == 0 for answer in answers)
        finally:
            await cluster.close()

    run(main())


def test_a_response_is_handed_over_when_it_is_read_and_the_caller_gets_what_comes_of_it() -> None:
    def handle(script: Script, version: int, request: Any) -> Any:
        return ListGroupsResponse(error_code=7) if isinstance(request, ListGroupsRequest) else None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            seen: list[bool] = []

            def then(answer: ListGroupsResponse) -> int:
                seen.append(request.done())
                return answer.error_code

            def fail(answer: ListGroupsResponse) -> int:
                raise KeyError(answer.error_code)

            request = cluster.send(0, ListGroupsRequest(), then=then)
            failing = cluster.send(0, ListGroupsRequest(), then=fail)
            cancelled = cluster.send(0, ListGroupsRequest(), then=then)
            cancelled.cancel()
            assert await request == 7
            with pytest.raises(KeyError):
                await failing
            assert (await cluster.send(0, ListGroupsRequest())).error_code == 7  # the connection is as before
            assert seen == [False]
            await cluster.close()

    run(main())


def test_a_server_where_nothing_listens_is_refused() -> None:
    async def main() -> None:
        cluster = cluster_of(f"127.0.0.1:{free_port()}")
        assert isinstance(await first_failure(cluster), ConnectionRefused)
        with pytest.raises(ConnectionRefused, match="nothing listens"):
            await cluster.start(timeout_ms=1)
        await cluster.close()

    run(main())


def test_a_name_without_address_is_told_apart() -> None:
    async def main() -> None:
        cluster = cluster_of("no-such-host.invalid:9092")
        error = await first_failure(cluster)
        assert isinstance(error, NameNotResolved)
        assert "no-such-host.invalid" in str(error)
        await cluster.close()

    run(main())


@pytest.mark.parametrize("name", [f"{'a' * 70}.invalid", "two..dots.invalid"])
def test_a_name_that_no_server_can_have_is_one_without_address(name: str) -> None:
    async def main() -> None:
        cluster = cluster_of(f"{name}:9092")
        error = await first_failure(cluster)
        assert isinstance(error, NameNotResolved)
        assert name in str(error)
        await cluster.close()

    run(main())


def test_after_an_unforeseen_failure_to_connect_the_next_request_tries_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        cluster = cluster_of(broker.bootstrap_servers)
        await cluster.start()
        (node_id,) = cluster.view.brokers

        async def fail(*_: object, **__: object) -> None:
            raise LookupError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(HostNetwork, "connect", fail)
            with pytest.raises(Disconnected, match="a bug"):
                await cluster.ask(node_id, ListGroupsRequest(), lane="another")
            with pytest.raises(Disconnected, match="a bug"):
                await cluster.connect(node_id, "another")
        await cluster.ask(node_id, ListGroupsRequest(), lane="another")
        await cluster.close()

    run(main())


def test_with_several_servers_the_error_says_why_for_each_and_one_that_works_is_enough(
    broker: Broker,
) -> None:
    async def main() -> None:
        refused = f"127.0.0.1:{free_port()}"
        cluster = cluster_of(refused, "no-such-host.invalid:9092")
        error = await first_failure(cluster)
        assert isinstance(error, NoBrokerAvailable)
        assert "nothing listens" in str(error)
        assert "no-such-host.invalid" in str(error)
        await cluster.close()
        cluster = cluster_of(refused, broker.bootstrap_servers)
        await cluster.start()
        await cluster.close()

    run(main())


def test_what_does_not_speak_the_protocol_is_named() -> None:
    def handle(script: Script, version: int, request: object) -> bytes:
        return b"HTTP/1.1 400 Bad Request\r\n\r\n"

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            with pytest.raises(ProtocolMismatch, match="protocol"):
                await cluster.start(timeout_ms=5000)
            await cluster.close()

    run(main())


def test_a_tls_listener_is_recognised_by_its_alert() -> None:
    def handle(script: Script, version: int, request: object) -> bytes:
        return b"\x15\x03\x03\x00\x02\x02\x46"

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            with pytest.raises(ProtocolMismatch, match=r"security\.protocol"):
                await cluster.start(timeout_ms=5000)
            await cluster.close()

    run(main())


def test_an_older_server_that_refuses_the_version_of_api_versions_is_asked_again_in_its_own() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        if isinstance(request, ApiVersionsRequest) and version > 2:
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            refusal.api_keys = [ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)]
            return response_frame(refusal, 0, len(script.requests))
        return None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start(timeout_ms=10_000)
            assert list(cluster.view.brokers) == [0]
            await cluster.close()

    run(main())


def test_an_api_that_the_server_does_not_have_is_said_so() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        if isinstance(request, ApiVersionsRequest):
            answer = every_version()
            answer.api_keys = [one for one in answer.api_keys if one.api_key != ListGroupsRequest.API_KEY]
            return answer
        return None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            with pytest.raises(UnsupportedVersion, match="ListGroups"):
                await cluster.ask(0, ListGroupsRequest())
            await cluster.close()

    run(main())


def test_an_api_that_no_server_has_is_unsupported_and_not_a_matter_of_connections() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        if isinstance(request, ApiVersionsRequest):
            answer = every_version()
            answer.api_keys = [one for one in answer.api_keys if one.api_key != ListGroupsRequest.API_KEY]
            return answer
        return None

    async def main() -> None:
        async with Script(handle) as script, Script(handle, node_id=1) as other:
            script.known = other.known = {0: script.port, 1: other.port}
            cluster = cluster_of(script.address)
            await cluster.start()
            with pytest.raises(UnsupportedVersion, match="ListGroups"):
                await cluster.ask_any(ListGroupsRequest())
            await cluster.close()
            await other.stop()
            cluster = cluster_of(script.address)
            await cluster.start()
            with pytest.raises(NoBrokerAvailable, match="ListGroups"):  # the one that is gone may have it
                await cluster.ask_any(ListGroupsRequest())
            await cluster.close()

    run(main())


def test_a_connection_cut_within_an_answer_fails_what_is_under_way_and_the_next_request_connects() -> None:
    cuts = iter([True])

    def handle(script: Script, version: int, request: object) -> object:
        if isinstance(request, ListGroupsRequest):
            return half_an_answer(script) if next(cuts, False) else ListGroupsResponse()
        return None

    async def half_an_answer(script: Script) -> object:
        (writer,) = script._writers
        writer.write(b"\x00\x00\x00\x20\x00\x00")
        await writer.drain()
        return Script.CUT

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            first = cluster.send(0, ListGroupsRequest())
            second = cluster.send(0, ListGroupsRequest())
            with pytest.raises(LinkLost):
                await first
            with pytest.raises(LinkLost):
                await second
            assert (await cluster.ask(0, ListGroupsRequest())).error_code == 0
            assert script.connections == 2
            await cluster.close()

    run(main())


def test_an_answer_out_of_order_ends_the_connection() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        if isinstance(request, ListGroupsRequest):
            return response_frame(ListGroupsResponse(), version, 4711)
        return None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            with pytest.raises(LinkLost, match="out of order"):
                await cluster.ask(0, ListGroupsRequest())
            await cluster.close()

    run(main())


def test_an_answer_that_does_not_come_in_time_fails_the_request_and_those_behind_it() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        return Script.SILENT if isinstance(request, ListGroupsRequest) else None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            first = cluster.send(0, ListGroupsRequest(), timeout_ms=50)
            second = cluster.send(0, ListGroupsRequest(), timeout_ms=60_000)
            with pytest.raises(RequestTimedOut, match="ListGroups"):
                await first
            with pytest.raises(LinkLost):
                await second
            await cluster.close()

    run(main())


def test_lanes_to_one_node_do_not_wait_for_each_other() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        if isinstance(request, ListGroupsRequest):
            return Script.SILENT if request.states_filter else ListGroupsResponse()
        return None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            silent = cluster.send(0, ListGroupsRequest(states_filter=["Empty"]), lane="fetch")
            assert (await cluster.ask(0, ListGroupsRequest())).error_code == 0
            assert not silent.done()
            await cluster.close()
            with pytest.raises(Closed):
                await silent

    run(main())


def test_a_node_that_comes_back_at_another_port_is_found_by_fresh_metadata() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        return ListGroupsResponse() if isinstance(request, ListGroupsRequest) else None

    async def main() -> None:
        async with Script(handle, node_id=0) as steady, Script(handle, node_id=1) as moved:
            steady.known = {0: steady.port, 1: moved.port}
            cluster = cluster_of(steady.address)
            await cluster.start()
            await cluster.ask(1, ListGroupsRequest())
            await moved.stop()
            with pytest.raises(Disconnected):
                await cluster.ask(1, ListGroupsRequest())
            async with Script(handle, node_id=1) as again:
                steady.known = {0: steady.port, 1: again.port}
                await cluster.refresh()
                await cluster.ask(1, ListGroupsRequest())
                assert again.connections == 1
            await cluster.close()

    run(main())


def test_when_all_known_nodes_are_gone_the_first_servers_are_asked_again() -> None:
    async def main() -> None:
        async with Script(node_id=7) as first:
            async with Script(node_id=1) as gone:
                first.known = {1: gone.port}
                cluster = cluster_of(first.address)
                await cluster.start()
                assert list(cluster.view.brokers) == [1]
            first.known = {7: first.port}
            view = await cluster.refresh()
            assert list(view.brokers) == [7]
            with pytest.raises(NodeUnknown):
                await cluster.ask(3, ListGroupsRequest())
            await cluster.close()

    run(main())


def test_a_coordinator_is_looked_up_until_there_is_one_and_again_when_it_is_forgotten() -> None:
    codes = iter([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE, ErrorCode.NONE])

    def handle(script: Script, version: int, request: object) -> object:
        if request.NAME != "FindCoordinatorRequest":  # type: ignore[attr-defined]
            return None
        found = FindCoordinatorResponse.Coordinator(key="g", node_id=5, host="127.0.0.1", port=script.port)
        found.error_code = next(codes)
        return FindCoordinatorResponse(coordinators=[found])

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            first, second = await asyncio.gather(cluster.coordinator(0, "g"), cluster.coordinator(0, "g"))
            assert first == second == 5
            asked = len(script.requests)
            await cluster.coordinator(0, "g")
            assert len(script.requests) == asked
            cluster.forget_coordinator(0, "g")
            assert await cluster.coordinator(0, "g") == 5
            await cluster.close()

    run(main())


def test_a_hint_moves_a_leader_unless_it_is_old() -> None:
    def handle(script: Script, version: int, request: object) -> object:
        if request.NAME != "MetadataRequest":  # type: ignore[attr-defined]
            return None
        answer = script.metadata()
        partition = MetadataResponse.MetadataResponsePartition(leader_id=0, leader_epoch=4)
        topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=b"t" * 16, partitions=[partition])
        answer.topics = [topic]
        return answer

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            cluster.follow(["t"])
            await cluster.start()
            assert not cluster.update_leader("t", 0, 9, 4, Node(9, "127.0.0.1", 1))
            assert cluster.update_leader("t", 0, 9, 5, Node(9, "127.0.0.1", 1))
            assert cluster.view.leader("t", 0) == 9
            view = await cluster.refresh()
            partition = view.partition("t", 0)
            assert partition is not None
            assert partition.leader_epoch == 5, "an older answer must not take the leader back"
            await cluster.close()

    run(main())


def test_a_throttled_connection_sends_when_the_time_is_over() -> None:
    throttles = iter([40, 0])

    def handle(script: Script, version: int, request: object) -> object:
        if isinstance(request, ListGroupsRequest):
            return ListGroupsResponse(throttle_time_ms=next(throttles))
        return None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            assert (await cluster.ask(0, ListGroupsRequest())).throttle_time_ms == 40
            asked = len(script.requests)
            second = cluster.send(0, ListGroupsRequest())
            await asyncio.sleep(0)
            assert len(script.requests) == asked
            assert (await second).throttle_time_ms == 0
            await cluster.close()

    run(main())


def test_after_close_everything_says_so() -> None:
    async def main() -> None:
        async with Script() as script:
            cluster = cluster_of(script.address)
            await cluster.start()
            await cluster.close()
            with pytest.raises(Closed):
                await cluster.ask(0, ListGroupsRequest())
            with pytest.raises(Closed):
                await cluster.refresh()
            await cluster.close()

    run(main())


def test_who_asks_for_other_topics_while_some_are_asked_for_gets_them_in_the_next_answer() -> None:
    asked: list[list[str]] = []
    release = asyncio.Event()

    async def answer(script: Script, request: MetadataRequest) -> MetadataResponse:
        names = [topic.name or "" for topic in request.topics or ()]
        asked.append(names)
        if names == ["a"]:
            await release.wait()
        response = script.metadata()
        response.topics = [MetadataResponse.MetadataResponseTopic(name=name) for name in names]
        return response

    def handle(script: Script, version: int, request: object) -> object:
        return answer(script, request) if isinstance(request, MetadataRequest) else None

    async def main() -> None:
        async with Script(handle) as script:
            cluster = cluster_of(script.address)
            cluster.follow(["followed"])
            await cluster.start()
            first = asyncio.create_task(cluster.refresh(topics=["a"]))
            while ["a"] not in asked:
                await asyncio.sleep(0.001)
            joined = asyncio.create_task(cluster.refresh(topics=["a"]))
            other = asyncio.create_task(cluster.refresh(topics=["b"]))
            await asyncio.sleep(0)
            release.set()
            assert "a" in (await first).topics
            assert "a" in (await joined).topics
            assert "b" in (await other).topics
            assert asked.count(["a"]) == 1
            await cluster.close()

    run(main())


def test_a_login_that_the_listener_does_not_ask_for_ends_with_the_cure(broker: Broker) -> None:
    settings: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    logging_in = settings | {"sasl_username": "alice", "sasl_password": "secret"}
    with (
        pytest.raises(AuthenticationFailed, match=r"does not use SASL .* security\.protocol=PLAINTEXT\."),
        Admin(bootstrap_servers=broker.bootstrap_servers, **logging_in) as admin,
    ):
        admin.describe_cluster()
