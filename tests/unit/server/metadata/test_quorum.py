"""The controller on a node: decisions are answered once committed, and the image holds only what is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.config import development_config
from ottla.controller.bootstrap import (
    BOOTSTRAP_FILE,
    bootstrap_checkpoint,
    bootstrap_records,
    voters_checkpoint,
)
from ottla.controller.brokers import broker_heartbeat, fence_stale_broker, register_broker
from ottla.controller.feature_levels import SUPPORTED_FEATURES, resolve_features
from ottla.controller.features import update_features
from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.controller.result import Decision, Result
from ottla.controller.state import ControllerState
from ottla.controller.topics import create_topics
from ottla.host import HostClock, HostDisk, HostRandom
from ottla.ports import Clock
from ottla.raft.driver import DIRECTORY_NAME
from ottla.raft.snapshots import BOOTSTRAP_ID
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.server.metadata.quorum import Quorum
from ottla.wire.errors import ErrorCode, InvalidTopicException, KafkaStorageError, NotController
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.metadata_records import NoOpRecord
from ottla.wire.messages.update_features import UpdateFeaturesRequest

DIRECTORY_ID = bytes(range(16))


class Node:
    """A formatted directory and one run of its controller."""

    def __init__(
        self, directory: Path, *, is_dynamic: bool = False, clock: Clock | None = None, **settings: str
    ) -> None:
        overrides = {
            "metadata.max.idle.interval.ms": "0",
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
        if not is_dynamic:
            overrides["controller.quorum.voters"] = "1@localhost:9093"
        self.disk = HostDisk()
        config = development_config(data_directory=str(directory), controller_port=9093, overrides=overrides)
        if not (directory / BOOTSTRAP_FILE).exists():
            levels = resolve_features(release=None, features={}, is_dynamic_quorum=is_dynamic)
            (directory / BOOTSTRAP_FILE).write_bytes(bootstrap_checkpoint(bootstrap_records(levels), 1))
            if is_dynamic:
                endpoint = VoterEndpoint("CONTROLLER", "localhost", 9093)
                voters = VoterSet([Voter(ReplicaKey(1, DIRECTORY_ID), (endpoint,))])
                (directory / DIRECTORY_NAME).mkdir()
                (directory / DIRECTORY_NAME / BOOTSTRAP_ID.file_name).write_bytes(
                    voters_checkpoint(voters, 1)
                )
        self.quorum = Quorum(
            disk=self.disk,
            clock=clock or HostClock(),
            random=HostRandom(),
            config=config,
            cluster_id="cluster",
            directory_id=DIRECTORY_ID,
        )

    async def __aenter__(self) -> Quorum:
        await self.quorum.open()
        await self.quorum.join()
        return self.quorum

    async def __aexit__(self, *_: object) -> None:
        await self.quorum.stop()
        self.disk.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def registration(run_number: int) -> BrokerRegistrationRequest:
    features = [
        BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
    ]
    return BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="cluster",
        incarnation_id=bytes([run_number] * 16),
        listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="localhost", port=9092)],
        features=features,
        log_dirs=[DIRECTORY_ID],
    )


async def start_broker(quorum: Quorum, run_number: int = 1) -> int:
    request = registration(run_number)
    epoch = (
        await quorum.submit(lambda state: register_broker(state, request, 4, is_local=True))
    ).broker_epoch
    beat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch, current_metadata_offset=quorum.image.offset
    )
    response = await quorum.submit(lambda state: broker_heartbeat(state, beat))
    assert not response.is_fenced
    return epoch


async def create(quorum: Quorum, name: str) -> CreateTopicsResponse:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    return await quorum.submit(lambda state: create_topics(state, CreateTopicsRequest(topics=[topic])))


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_new_cluster_bootstraps_and_keeps_its_topics(tmp_path: Path, is_dynamic: bool) -> None:
    async def test() -> None:
        async with Node(tmp_path, is_dynamic=is_dynamic) as quorum:
            assert quorum.is_active
            assert (quorum.leader_id, quorum.epoch, quorum.kraft_version) == (1, 1, int(is_dynamic))
            assert quorum.image.metadata_version == 30
            assert 1 in quorum.image.controllers
            await start_broker(quorum)
            response = await create(quorum, "t")
            assert quorum.image.topics_by_name["t"].id == response.topics[0].topic_id
        async with Node(tmp_path, is_dynamic=is_dynamic) as quorum:
            assert quorum.epoch == 2
            assert len(quorum.image.topics_by_name["t"].partitions) == 2
            await start_broker(quorum, 2)
            partition = quorum.image.partition("t", 1)
            assert partition is not None
            assert partition.leader == 1

    run(test)


def test_subscribers_are_told_after_the_image_changed_and_before_the_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            seen: list[tuple[bool, list[str]]] = []

            def told(image: ClusterImage, delta: ImageDelta) -> None:
                seen.append(("t" in image.topics_by_name, [t.name for t in delta.topics_created.values()]))

            quorum.subscribe(told)
            await create(quorum, "t")
            assert seen == [(True, ["t"])]

    run(test)


def test_the_image_shows_a_decision_only_once_it_is_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            pending = asyncio.ensure_future(create(quorum, "t"))
            await asyncio.sleep(0)
            assert "t" not in quorum.image.topics_by_name
            again = await create(quorum, "t")  # decided after it, so it knows of it
            assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert pending.done()
            assert "t" in quorum.image.topics_by_name

    run(test)


def test_what_a_full_disk_refused_about_a_broker_is_decided_again_once_there_is_room(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            epoch = await start_broker(quorum)
            assert quorum.active.state is not None
            beat = BrokerHeartbeatRequest(
                broker_id=1, broker_epoch=epoch, current_metadata_offset=quorum.image.offset
            )

            async def decide_with_room_later(decision: Decision[Any]) -> None:
                quorum.driver._space.is_lacking = True
                with pytest.raises(KafkaStorageError):
                    await quorum.submit(decision)
                quorum.driver._space.is_lacking = False
                await quorum.submit(decision)

            quorum.active.state.heartbeats.contact(1, epoch, -(10**9))
            await decide_with_room_later(fence_stale_broker)
            assert quorum.image.brokers[1].fenced
            await decide_with_room_later(lambda state: broker_heartbeat(state, beat))
            assert not quorum.image.brokers[1].fenced

    run(test)


def test_an_error_of_the_decision_comes_out_and_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            before = quorum.driver.next_offset

            def refuse(state: ControllerState) -> Result[None]:
                raise InvalidTopicException("no")

            with pytest.raises(InvalidTopicException):
                await quorum.submit(refuse)
            assert quorum.driver.next_offset == before

    run(test)


def test_an_idle_controller_shows_that_it_is_alive(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path, metadata_max_idle_interval_ms="5") as quorum:
            before = quorum.image.offset
            while quorum.image.offset < before + 3:
                await asyncio.sleep(0)

    run(test)


def test_snapshots_are_written_by_size_and_the_next_run_uses_them(tmp_path: Path) -> None:
    async def test() -> None:
        limit = "2000"
        async with Node(tmp_path, metadata_log_max_record_bytes_between_snapshots=limit) as quorum:
            await start_broker(quorum)
            for number in range(20):
                await create(quorum, f"t{number}")
            while quorum.driver.latest_snapshot is None:
                await asyncio.sleep(0)
        async with Node(tmp_path, metadata_log_max_record_bytes_between_snapshots=limit) as quorum:
            assert sorted(quorum.image.topics_by_name) == sorted(f"t{number}" for number in range(20))

    run(test)


def test_a_failed_log_fails_who_waits_and_who_comes(tmp_path: Path) -> None:
    async def test() -> None:
        node = Node(tmp_path)
        quorum = node.quorum
        await quorum.open()
        await quorum.join()
        log = quorum.driver.log

        def broken(*_: object, **__: object) -> None:
            raise OSError(5, "Input/output error")

        log_class = type(log)
        original = log_class.append
        log_class.append = broken  # type: ignore[method-assign, assignment]
        try:
            with pytest.raises(KafkaStorageError):
                await quorum.submit(lambda _: Result(None, [NoOpRecord()]))
        finally:
            log_class.append = original  # type: ignore[method-assign]
        assert not quorum.is_active
        with pytest.raises(KafkaStorageError, match="Input/output error"):
            await quorum.failure
        with pytest.raises(KafkaStorageError):
            await quorum.submit(lambda _: Result(None))
        await quorum.stop()

    run(test)


def test_after_the_stop_there_is_no_controller_here(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            pass
        with pytest.raises(NotController):
            await quorum.submit(lambda _: Result(None))

    run(test)


def test_the_quorum_describes_itself(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            partition = DescribeQuorumRequest.PartitionData(partition_index=0)
            topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
            response = quorum.describe_quorum(DescribeQuorumRequest(topics=[topic]))
            found = response.topics[0].partitions[0]
            assert (found.leader_id, found.leader_epoch) == (1, 1)
            assert found.high_watermark == quorum.image.offset + 1
            assert [voter.replica_id for voter in found.current_voters] == [1]
            assert response.nodes[0].listeners[0].port == 9093
            topic.topic_name = "other"  # the handler says that it has no quorum
            assert quorum.describe_quorum(DescribeQuorumRequest(topics=[topic])).topics == []

    run(test)


def test_a_static_quorum_can_be_made_dynamic(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            update = UpdateFeaturesRequest.FeatureUpdateKey(feature="kraft.version", max_version_level=1)
            request = UpdateFeaturesRequest(feature_updates=[update])
            response = await quorum.submit(lambda state: update_features(state, request, 2))
            assert response.error_code == 0
            assert quorum.finalized_features["kraft.version"] == 1
        async with Node(tmp_path) as quorum:
            assert quorum.kraft_version == 1

    run(test)
