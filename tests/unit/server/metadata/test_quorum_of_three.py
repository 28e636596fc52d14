"""Three nodes that are broker and controller: one controller leads, any may fail, the voters may change."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.unit.server.nodes import wait_until
from tests.unit.server.quorums import QuorumOf

from ottla.wire import uuid
from ottla.wire.errors import ErrorCode


def test_a_quorum_goes_on_when_its_leader_is_killed_or_stopped_and_all_logs_become_equal(
    tmp_path: Path,
) -> None:
    with QuorumOf(tmp_path, 3, is_static=True) as quorum:
        for node in quorum.nodes.values():
            node.format()
        quorum.start()
        for node_id in quorum.nodes:  # two of them hand the request on
            assert quorum.create(f"by-{node_id}", via=node_id) == ErrorCode.NONE
        first = quorum.wait_for_leader(via=1)
        others = [node_id for node_id in quorum.nodes if node_id != first]
        quorum.nodes[first].kill()
        second = quorum.wait_for_leader(via=others[0], other_than=first)
        assert second in others
        for node_id in others:
            assert quorum.create(f"after-the-kill-by-{node_id}", via=node_id) == ErrorCode.NONE
        quorum.nodes[first].start()
        assert quorum.status(via=first).leader_id == second
        assert quorum.create("after-the-restart", via=first) == ErrorCode.NONE
        assert quorum.nodes[second].stop() == 0
        third = quorum.wait_for_leader(via=first, other_than=second)
        assert quorum.create("after-the-stop", via=first) == ErrorCode.NONE
        quorum.nodes[second].start()
        quorum.wait_until_equal(via=third)
        for node in quorum.nodes.values():
            node.kill()
        logs = [quorum.log_bytes(node_id) for node_id in quorum.nodes]
        shortest = min(map(len, logs))
        assert shortest > 0
        assert len({log[:shortest] for log in logs}) == 1


def test_one_voter_becomes_three_and_its_leader_can_be_removed(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 3, is_static=False) as quorum:
        quorum.nodes[1].format("--standalone")
        for node_id in (2, 3):
            quorum.nodes[node_id].format("--no-initial-controllers")
        quorum.start()
        before = quorum.status(via=2)
        assert (before.leader_id, set(before.voters), before.observers) == (1, {1}, {2, 3})
        for node_id in (2, 3):
            assert quorum.add_voter(node_id, via=3) == ErrorCode.NONE
        assert quorum.add_voter(2, via=1) == ErrorCode.DUPLICATE_VOTER
        assert set(quorum.status(via=3).voters) == {1, 2, 3}
        assert quorum.remove_voter(1, via=2) == ErrorCode.NONE
        leader = quorum.wait_for_leader(via=2, other_than=1)
        assert set(quorum.status(via=2).voters) == {2, 3}
        assert quorum.create("without-the-first", via=1) == ErrorCode.NONE
        assert quorum.add_voter(1, via=1) == ErrorCode.NONE
        quorum.nodes[leader].kill()
        quorum.wait_for_leader(via=1, other_than=leader)
        assert quorum.create("without-the-second", via=1) == ErrorCode.NONE


def test_a_static_quorum_has_the_voters_that_it_has(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 1, is_static=True) as quorum:
        quorum.nodes[1].format()
        quorum.start()
        assert quorum.remove_voter(1, via=1) == ErrorCode.UNSUPPORTED_VERSION
        assert quorum.add_voter(1, via=1) == ErrorCode.UNSUPPORTED_VERSION


def test_the_last_voter_stays(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 1, is_static=False) as quorum:
        quorum.nodes[1].format("--standalone")
        quorum.start()
        assert quorum.remove_voter(1, via=1) == ErrorCode.VOTER_NOT_FOUND


def test_a_leader_that_was_frozen_past_its_time_follows_the_next_one(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 3, is_static=True) as quorum:
        for node in quorum.nodes.values():
            node.format()
        quorum.start()
        first = quorum.wait_for_leader(via=1)
        frozen = quorum.nodes[first].process
        assert frozen is not None
        other = next(node_id for node_id in quorum.nodes if node_id != first)
        frozen.send_signal(signal.SIGSTOP)
        try:
            second = quorum.wait_for_leader(via=other, other_than=first)
            assert quorum.create("while-it-was-frozen", via=other) == ErrorCode.NONE
        finally:
            frozen.send_signal(signal.SIGCONT)
        assert quorum.create("by-the-one-that-was", via=first) == ErrorCode.NONE
        assert quorum.status(via=first).leader_id == second
        assert quorum.create("while-it-was-frozen", via=first) == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_static_quorum_becomes_dynamic_once_its_voters_have_said_what_they_are(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 3, is_static=True) as quorum:
        for node in quorum.nodes.values():
            node.format()
        quorum.start()
        leader = quorum.wait_for_leader(via=1)
        wait_until(lambda: quorum.upgrade(via=1) == ErrorCode.NONE, "kraft.version to be raised")
        other = next(node_id for node_id in quorum.nodes if node_id != leader)
        assert quorum.remove_voter(other, via=leader) == ErrorCode.NONE
        assert set(quorum.status(via=other).voters) == set(quorum.nodes) - {other}


def test_the_first_voters_of_a_dynamic_quorum_can_be_several(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 3, is_static=False) as quorum:
        directory_ids = {node_id: bytes([node_id]) * 16 for node_id in quorum.nodes}
        voters = ",".join(
            f"{node_id}@127.0.0.1:{quorum.ports[node_id]}:{uuid.to_text(directory_id)}"
            for node_id, directory_id in directory_ids.items()
        )
        for node in quorum.nodes.values():
            node.format("--initial-controllers", voters)
        quorum.start()
        quorum.wait_for_leader(via=1)
        assert {node_id: quorum.directory_id(node_id) for node_id in quorum.nodes} == directory_ids
        assert set(quorum.status(via=2).voters) == {1, 2, 3}


def test_a_controller_can_join_the_voters_by_itself(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 2, is_static=False, controller_quorum_auto_join_enable="true") as quorum:
        quorum.nodes[1].format("--standalone")
        quorum.nodes[2].format("--no-initial-controllers")
        quorum.start()
        wait_until(lambda: set(quorum.status(via=1).voters) == {1, 2}, "the second to become a voter")
        assert quorum.create("with-both", via=2) == ErrorCode.NONE


def test_a_leader_that_nobody_follows_steps_down_and_the_quorum_comes_back(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 3, is_static=True) as quorum:
        for node in quorum.nodes.values():
            node.format()
        quorum.start()
        leader = quorum.wait_for_leader(via=1)
        assert quorum.create("before", via=leader) == ErrorCode.NONE
        others = [node.process for node_id, node in quorum.nodes.items() if node_id != leader]
        for process in others:
            assert process is not None
            process.send_signal(signal.SIGSTOP)
        try:
            wait_until(
                lambda: "Resigned as the active controller" in quorum.nodes[leader].log_text,
                "it to step down",
            )
        finally:
            for process in others:
                assert process is not None
                process.send_signal(signal.SIGCONT)
        assert quorum.create("after", via=leader) == ErrorCode.NONE
        assert quorum.create("before", via=leader) == ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_last_controller_that_stops_waits_for_no_hand_over(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 3, is_static=True, controller_quorum_fetch_timeout_ms="60000") as quorum:
        for node in quorum.nodes.values():
            node.format()
        quorum.start()
        leader = quorum.wait_for_leader(via=1)
        others = [node for node_id, node in quorum.nodes.items() if node_id != leader]
        assert others[0].stop() == 0  # the leader and one more are a majority: they go on
        assert quorum.create("two-are-enough", via=leader) == ErrorCode.NONE
        assert others[1].stop() == 0  # long before its leader would give up for lack of followers
        assert quorum.nodes[leader].stop() == 0
        assert "too few controllers are running" in quorum.nodes[leader].log_text


def test_a_leader_that_stops_hands_over_while_a_majority_is_left(tmp_path: Path) -> None:
    with QuorumOf(tmp_path, 3, is_static=True) as quorum:
        for node in quorum.nodes.values():
            node.format()
        quorum.start()
        leader = quorum.wait_for_leader(via=1)
        gone, heir = (node_id for node_id in quorum.nodes if node_id != leader)
        quorum.nodes[gone].kill()
        assert quorum.nodes[leader].stop() == 0
        stopped = quorum.nodes[leader].log_text
        assert f"the leader of the quorum is {heir}." in stopped
        assert "too few controllers" not in stopped
