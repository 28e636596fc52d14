"""Random and damaged requests of every API and version: a few here, a million with `make fuzz`."""

from __future__ import annotations

import os
import random
from pathlib import Path
from struct import pack

import pytest

from ottla.server.handlers import HANDLERS
from ottla.server.net.dispatch import Dispatcher
from ottla.server.replicas.partition import flush_partition
from ottla.wire.apis import API_BY_KEY
from ottla.wire.codec import encode
from ottla.wire.errors import ErrorCode, KafkaStorageError
from ottla.wire.frame import read_request, request_frame
from ottla.wire.message import Message
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.fuzz import session
from tests.fuzz.grammar import Grammar, Lexicon
from tests.fuzz.replay import load, replay, save, smallest
from tests.fuzz.target import Fault, Target, node, run_inside

_LIST_GROUPS = ListGroupsRequest()

FRAMES = int(os.environ.get("OTTLA_FUZZ_FRAMES", "30000"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.hex"))


def test_a_node_survives_any_frame() -> None:
    tally = session.run(FRAMES, SEED)
    assert not tally.faults, (
        f"seed {SEED}: {tally.faults[0][1].what}; python -m tests.fuzz --seed {SEED} finds it"
    )
    assert tally.frames == FRAMES
    assert tally.answered > FRAMES / 5
    assert tally.closed > FRAMES / 10
    if FRAMES >= 30_000:
        assert set(tally.by_api) == {API_BY_KEY[api.key].name for api in HANDLERS}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_frame_found_earlier_does_no_harm(path: Path) -> None:
    faults = replay(load(path))
    assert not faults, faults[0].what


def test_every_served_version_can_be_drawn_and_decoded() -> None:
    grammar = Grammar(random.Random(3), Lexicon())
    for key, version in {*session.served("broker"), *session.served("controller")}:
        made = [frame for _ in range(20) if (frame := grammar.frame(key, version, 5)) is not None]
        assert made, (key, version)
        for frame in made:
            assert read_request(frame[4:])[:3] == (key, version, 5)


def _long_texts() -> list[tuple[int, Message, int]]:
    text = "x" * 32_767
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name=text)
    component = DescribeClientQuotasRequest.ComponentData(entity_type=text, match_type=1)
    return [
        (0, DescribeConfigsRequest(resources=[resource]), 4),
        (0, DescribeConfigsRequest(resources=[resource]), 1),
        (0, DescribeClientQuotasRequest(components=[component]), 0),
        (1, AddRaftVoterRequest(cluster_id=text), 0),
    ]


@pytest.mark.parametrize("case", range(len(_long_texts())))
def test_an_error_with_a_long_text_is_truncated(case: int) -> None:
    listener, message, version = _long_texts()[case]
    faults = replay([(listener, request_frame(message, version, 1, "fuzz"))])
    assert not faults, faults[0].what


# The fuzzer itself.


@pytest.fixture
def list_groups_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Dispatcher._make_route

    def make_another(self: Dispatcher, connection: object, key: int, version: int, number: int) -> object:
        route = make(self, connection, key, version, number)  # type: ignore[arg-type]
        if key == ListGroupsRequest.API_KEY and route is not None:

            def fail(*_: object) -> None:
                raise RuntimeError("planted")

            route.handle = fail
        return route

    monkeypatch.setattr(Dispatcher, "_make_route", make_another)


def _frames_with_one_bad(bad: Message = _LIST_GROUPS, version: int = 4) -> list[tuple[int, bytes]]:
    good = request_frame(DescribeConfigsRequest(), 4, 1, "fuzz")
    return [(0, good), (0, request_frame(bad, version, 2, "fuzz")), (0, good)]


@pytest.mark.usefixtures("list_groups_fails")
def test_a_failing_handler_is_found_and_its_frame_saved(tmp_path: Path) -> None:
    frames = _frames_with_one_bad()
    faults = replay(frames)
    assert "RuntimeError('planted')" in faults[0].what
    found = smallest(Fault("planted", tuple(frames)))
    assert found == [frames[1]]
    save(tmp_path / "one.hex", found, ["planted\nin a test"])
    assert load(tmp_path / "one.hex") == found
    assert replay(load(tmp_path / "one.hex"))


def _answer_with(
    monkeypatch: pytest.MonkeyPatch, outcome: object, request: Message = _LIST_GROUPS, api_version: int = 4
) -> list[str]:
    make = Dispatcher._make_route

    def make_another(self: Dispatcher, connection: object, key: int, version: int, number: int) -> object:
        route = make(self, connection, key, version, number)  # type: ignore[arg-type]
        if key == request.API_KEY and route is not None:
            route.handle = lambda *_: outcome
        return route

    monkeypatch.setattr(Dispatcher, "_make_route", make_another)
    return [fault.what for fault in replay(_frames_with_one_bad(request, api_version))]


def test_an_unknown_error_in_a_response_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    response = ListGroupsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    (what,) = _answer_with(monkeypatch, response)
    assert what.startswith("ListGroups v4 was answered with UNKNOWN_SERVER_ERROR")


def test_an_unanswered_request_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_over = _answer_with(monkeypatch, None, HeartbeatRequest(), 4)
    assert passed_over[0] == "Heartbeat v4 was passed over"


def test_an_unanswered_request_that_is_handled_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _answer_with(monkeypatch, None) == ["ListGroups v4 was not answered"]


def test_lost_records_are_found() -> None:
    with node(1, Lexicon()) as target:
        partition = target.node.broker.partitions.get("kept", 0)
        assert partition is not None
        assert partition.log is not None
        partition.log.truncate_to(3)
        run_inside(target, target.check_kept())
        assert "changed or lost" in target.faults[0].what


@pytest.mark.parametrize("is_served", [True, False])
def test_deleting_a_log_during_its_flush_is_no_error(
    is_served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 31: flush.messages=1, and a topic that was deleted before its first flush ended."""
    with node(1, Lexicon()) as target:
        broker = target.node.broker
        partition = broker.partitions.get("alpha", 0)
        assert partition is not None
        assert partition.log is not None
        directory = partition.log.directory

        async def flush(_: object) -> None:
            if not is_served:
                del broker.directories.logs["alpha", 0]
            raise KafkaStorageError("No such file or directory")

        monkeypatch.setattr(broker.directories, "flush", flush)
        run_inside(target, flush_partition(broker.directories, partition))
        assert [error.text for error in target.world.logged] == (
            [f"Failed to flush {directory}: No such file or directory"] if is_served else []
        )


def test_a_fetch_session_continues_in_an_older_version() -> None:
    """Seed 1, round 175: the session knew an epoch; a response of version 10 cannot carry its end."""
    wanted = FetchRequest.FetchPartition(
        partition=0,
        fetch_offset=1000,
        last_fetched_epoch=0,
        partition_max_bytes=1024,
        current_leader_epoch=-1,
    )
    first = FetchRequest(
        session_epoch=0, max_wait_ms=0, topics=[FetchRequest.FetchTopic(topic="alpha", partitions=[wanted])]
    )

    async def talk(target: Target) -> None:
        begun = await target.ask(first, 12)
        assert begun.responses[0].partitions[0].diverging_epoch.end_offset == 20
        following = FetchRequest(session_id=begun.session_id, session_epoch=1, max_wait_ms=0)
        older = await target.ask(following, 10)
        assert older.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with node(1, Lexicon()) as target:
        run_inside(target, talk(target))
        assert not target.faults


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_nonexistent_partitions_are_dropped_in_a_group_upgrade(
    assignor: str,
) -> None:
    """Found by seed 1: the leader of a classic group assigned partition -2^31 to a member."""
    topic = ConsumerProtocolAssignment.TopicPartition(topic="alpha", partitions=[0, -1, -(2**31)])
    given = pack(">h", 1) + encode(ConsumerProtocolAssignment(assigned_partitions=[topic]), 1)
    subscription = pack(">h", 1) + encode(ConsumerProtocolSubscription(topics=["alpha"]), 1)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)

    async def talk(target: Target) -> None:
        join = JoinGroupRequest(
            group_id="g1", session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
        )
        joined = await target.ask(join, 3)
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=given)
        sync = SyncGroupRequest(group_id="g1", generation_id=1, member_id=joined.member_id)
        sync.assignments = [assignment]
        assert (await target.ask(sync, 3)).error_code == ErrorCode.NONE
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="g1",
            member_id="newer",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["alpha"],
            server_assignor=assignor,
            topic_partitions=[],
        )
        assert (await target.ask(heartbeat, 0)).error_code == ErrorCode.NONE

    with node(1, Lexicon()) as target:
        run_inside(target, talk(target))
        target.look()
        assert not target.faults
