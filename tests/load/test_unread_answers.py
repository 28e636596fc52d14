"""Clients that ask for large answers and do not read them: a node keeps as much as its budget allows.

Each answer here takes 8 MB of the node for 50 bytes of the request. Others are served meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import pytest

from ottla.testing import Broker
from ottla.wire.frame import request_frame
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from tests.interop.peers import wait_until
from tests.load.crowd import connect, raise_file_limit, resident_bytes
from tests.unit.server.asking import Asking, fetch_request

TOPIC = "wide"
GROUP = "offsets"
PARTITIONS = 2_000
METADATA_LETTERS = 4_000
LIMIT_BYTES = 16 << 20
GROWN_BYTES_MAX = 128 << 20
"""The limit, one answer beyond it, what is made at a time, and what the allocator keeps of all that."""
QUIET_ROUNDS = 10


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    raise_file_limit(200)
    limits = {
        "queued.max.request.bytes": str(LIMIT_BYTES),
        "socket.request.max.bytes": str(LIMIT_BYTES),
        "offsets.topic.num.partitions": "1",
    }
    with Broker(in_process=False, config=limits) as running:
        with Asking(running.port) as asking:
            asking.create_topic(TOPIC, PARTITIONS)
            asking.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)  # makes its topic
            for start in range(0, PARTITIONS, 200):  # what is stored at once must fit into a batch
                wait_until(partial(_commit, asking, start), 60, "offsets to be committed")
            assert len(_offsets(asking)) == PARTITIONS
        yield running


def test_many_who_do_not_read_their_answer_take_the_memory_of_a_few(broker: Broker) -> None:
    with contextlib.ExitStack() as crowd:
        before = resident_bytes(broker)
        for _ in range(60):
            crowd.enter_context(connect(broker.port, receive_bytes=4096)).sendall(_large(1))
        assert _most_bytes(broker) - before < GROWN_BYTES_MAX


def test_one_who_asks_behind_a_request_that_waits_takes_no_more_than_one_answer(broker: Broker) -> None:
    waiting = fetch_request(TOPIC, 0, max_wait_ms=10_000)
    with contextlib.ExitStack() as crowd:
        before = resident_bytes(broker)
        for _ in range(2):
            one = crowd.enter_context(connect(broker.port, receive_bytes=4096))
            one.sendall(request_frame(waiting, 12, 1, "tests") + b"".join(map(_large, range(2, 62))))
        assert _most_bytes(broker) - before < GROWN_BYTES_MAX


def test_who_reads_gets_a_large_answer_though_others_hold_all_the_memory(broker: Broker) -> None:
    with contextlib.ExitStack() as crowd:
        for _ in range(60):
            crowd.enter_context(connect(broker.port, receive_bytes=4096)).sendall(_large(1))
        _most_bytes(broker)
        with Asking(broker.port, host="127.0.0.2") as asking:
            assert len(_offsets(asking)) == PARTITIONS


def _most_bytes(broker: Broker) -> int:
    """The most memory that the node has, until it has no more, while it gives others their small answers."""
    most = quiet_rounds = 0
    with Asking(broker.port) as asking:
        while quiet_rounds < QUIET_ROUNDS:
            topics = [MetadataRequest.MetadataRequestTopic(name="other")]
            answer = asking.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
            assert len(answer.topics) == 1
            assert asking.fetch(TOPIC, 0, max_wait_ms=100).error_code == 0
            now = resident_bytes(broker)
            quiet_rounds = 0 if now > most else quiet_rounds + 1
            most = max(most, now)
    return most


def _large(correlation_id: int) -> bytes:
    return request_frame(_request(), 8, correlation_id, "tests")


def _request() -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
    )


def _offsets(asking: Asking) -> list[object]:
    partitions: list[object] = asking.ask(_request(), 8).groups[0].topics[0].partitions
    return partitions


def _commit(asking: Asking, start: int) -> bool:
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata="m" * METADATA_LETTERS
        )
        for index in range(start, start + 200)
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    answer = asking.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 8)
    return answer.topics[0].partitions[0].error_code == 0  # type: ignore[no-any-return]
