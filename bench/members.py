"""A group with many members, in either protocol: `python -m bench.members --help`.

Each member has its own connection and follows the protocol like a client, but without its pauses; this
process is the clock and prints its measurements as JSON.

Rule: a measurement ends when every member has its final state, and it counts only if there was no error.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from contextlib import closing
from statistics import median

from bench.plain_client import CLIENT_ID, Client, Fleet, NotAnswered, ask_until
from ottla.wire import codec
from ottla.wire.errors import ErrorCode
from ottla.wire.frame import read_response, request_frame
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest

FIND_VERSION = 4
JOIN_VERSION = 9
SYNC_VERSION = 5
LEAVE_VERSION = 5
DESCRIBE_VERSION = 5
HEARTBEAT_VERSION = 1
FETCH_VERSION = 9
PROTOCOL_VERSION = 1
"""The version of the consumer protocol's embedded messages in a classic group."""

LEAVING = -1
"""The epoch with which a member of the consumer protocol leaves."""
HEARTBEAT_PAUSE_S = 0.1
"""The heartbeat interval of an unchanged member of the consumer protocol."""

SESSION_TIMEOUT_MS = 60_000
REBALANCE_TIMEOUT_MS = 120_000
PROTOCOL = "range"
_ERROR_AT = 9  # in a response: correlation id, no tags, throttle time, error code, in a join the generation
_ERROR = struct.Struct(">h")
_ERROR_AND_GENERATION = struct.Struct(">hi")


def find_coordinator(port: int, group: str, timeout_s: float) -> None:
    """Wait until the group has a coordinator that responds for it."""
    find = FindCoordinatorRequest(coordinator_keys=[group])
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] = []
    fetch = OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    )
    with Client(port) as client:
        ask_until(client, find, FIND_VERSION, timeout_s, _error_found)
        ask_until(client, fetch, FETCH_VERSION, timeout_s, _error_fetched)


def _error_found(response: FindCoordinatorResponse) -> int:
    return response.coordinators[0].error_code


def _error_fetched(response: OffsetFetchResponse) -> int:
    return response.groups[0].error_code


class ClassicMembers:
    """A group of the classic protocol."""

    def __init__(self, fleet: Fleet, port: int, group: str, timeout_s: float) -> None:
        self._port = port
        self._group = group
        self._timeout_s = timeout_s
        self._fleet = fleet
        count = len(fleet)
        self._places = list(range(count))  # the members in the group; the first is its leader
        self._ids = [""] * count
        self._generation = 0
        self._joins: dict[int, bytes] = {}  # length of the member id: frame

    def join_all(self) -> float:
        """All members join a new group; return the seconds until each has its assignment.

        The first one is alone for one generation. It rejoins when all the others wait for that.
        """
        started = time.perf_counter()
        leader, others = self._places[0], self._places[1:]
        self._generation = 1
        self._join_with_new_ids([leader])
        self._join_and_sync([leader], self._sync_frames([leader]))
        self._join_with_new_ids(others)
        self._generation = 2
        syncs = self._sync_frames(self._places)
        self._wait_for_members()
        self._fleet.send(leader, self._join_frame(leader))
        self._join_and_sync(self._places, syncs)
        return time.perf_counter() - started

    def rebalance(self) -> float:
        """One member leaves and all others rejoin; return the seconds until each has its assignment."""
        leaver = self._places.pop()
        leave = self._leave_frame([leaver])
        joins = [self._join_frame(place) for place in self._places]
        self._generation += 1
        syncs = self._sync_frames(self._places)
        started = time.perf_counter()
        self._fleet.send(leaver, leave)
        for _place, answer in self._fleet.collect(1):
            _check(answer, "leave")
        for place, frame in zip(self._places, joins, strict=True):
            self._fleet.send(place, frame)
        self._join_and_sync(self._places, syncs)
        return time.perf_counter() - started

    def leave_all(self) -> None:
        """Empty the group, so that it costs the broker nothing later."""
        self._fleet.send(self._places[0], self._leave_frame(self._places))
        for _place, answer in self._fleet.collect(1):
            _check(answer, "leave")

    def _leave_frame(self, places: list[int]) -> bytes:
        leavers = [LeaveGroupRequest.MemberIdentity(member_id=self._ids[place]) for place in places]
        request = LeaveGroupRequest(group_id=self._group, members=leavers)
        return request_frame(request, LEAVE_VERSION, 1, CLIENT_ID)

    def _join_with_new_ids(self, places: list[int]) -> None:
        """Request member ids and join with them; the join responses arrive later."""
        for place in places:
            self._fleet.send(place, self._join_frame(place))
        for place, answer in self._fleet.collect(len(places)):
            _, response = read_response(answer, JoinGroupRequest.API_KEY or 0, JOIN_VERSION)
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise NotAnswered(f"A first join got error {response.error_code} and no member id.")
            self._ids[place] = response.member_id
            self._fleet.send(place, self._join_frame(place))

    def _wait_for_members(self) -> None:
        """Wait until every join has reached the group, since the rebalance would omit the others."""
        request = DescribeGroupsRequest(groups=[self._group])
        with Client(self._port) as client:
            ask_until(client, request, DESCRIBE_VERSION, self._timeout_s, self._missing)

    def _missing(self, response: DescribeGroupsResponse) -> int:
        return len(self._places) - len(response.groups[0].members)

    def _join_and_sync(self, places: list[int], frames: list[bytes]) -> None:
        """Each member syncs when its join is answered; the leader sends all assignments."""
        waiting = dict(zip(places, frames, strict=True))  # members without a join response
        for place, answer in self._fleet.collect(2 * len(places)):
            frame = waiting.pop(place, None)
            if frame is None:
                _check(answer, "sync")
                continue
            error, generation = _ERROR_AND_GENERATION.unpack_from(answer, _ERROR_AT)
            if error or generation != self._generation:
                raise NotAnswered(
                    f"A join got error {error} and generation {generation}, not {self._generation}."
                )
            self._fleet.send(place, frame)

    def _join_frame(self, place: int) -> bytes:
        member_id = self._ids[place]
        template = self._joins.get(len(member_id))
        if template is None:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=_stand_in(member_id),
                protocol_type="consumer",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription())],
            )
            template = self._joins[len(member_id)] = request_frame(request, JOIN_VERSION, 1, CLIENT_ID)
        return _filled_in(template, member_id)

    def _sync_frames(self, places: list[int]) -> list[bytes]:
        """The SyncGroup request of each member; the first is the leader's."""
        leader = self._sync_frame(self._ids[places[0]], [self._ids[place] for place in places])
        templates: dict[int, bytes] = {}
        frames = [leader]
        for place in places[1:]:
            member_id = self._ids[place]
            template = templates.get(len(member_id))
            if template is None:
                template = templates[len(member_id)] = self._sync_frame(_stand_in(member_id), [])
            frames.append(_filled_in(template, member_id))
        return frames

    def _sync_frame(self, member_id: str, assigned: list[str]) -> bytes:
        share = assignment()
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=one, assignment=share)
                for one in assigned
            ],
        )
        return request_frame(request, SYNC_VERSION, 1, CLIENT_ID)


def subscription() -> bytes:
    """The subscription that a member sends when it joins."""
    message = ConsumerProtocolSubscription(topics=["topic-of-the-members"])
    return PROTOCOL_VERSION.to_bytes(2, "big") + codec.encode(message, PROTOCOL_VERSION)


def assignment() -> bytes:
    """The assignment that the leader gives to a member."""
    share = ConsumerProtocolAssignment.TopicPartition(topic="topic-of-the-members", partitions=[0])
    message = ConsumerProtocolAssignment(assigned_partitions=[share])
    return PROTOCOL_VERSION.to_bytes(2, "big") + codec.encode(message, PROTOCOL_VERSION)


def _stand_in(member_id: str) -> str:
    """A placeholder for a member id of this length, in a frame that is built once for all members."""
    return "~" * len(member_id)


def _filled_in(template: bytes, member_id: str) -> bytes:
    return template.replace(_stand_in(member_id).encode(), member_id.encode()) if member_id else template


class ConsumerMembers:
    """A group of the consumer protocol (KIP-848)."""

    def __init__(self, fleet: Fleet, group: str, topic: str, partitions: int) -> None:
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._fleet = fleet
        count = len(fleet)
        self._ids = [f"member-{place:04}" for place in range(count)]
        self._epochs = [0] * count
        self._owned: list[list[ConsumerGroupHeartbeatResponse.TopicPartitions]] = [[] for _ in range(count)]
        self._answers = [b""] * count
        self._frames: dict[tuple[int, int], bytes] = {}

    def join_all(self) -> float:
        """All members join a new group; return the seconds until each owns its share of the partitions."""
        places = range(len(self._ids))
        joins = [self._join_frame(place) for place in places]
        started = time.perf_counter()
        news = self._exchange(list(zip(places, joins, strict=True)))
        asked_all_at = time.perf_counter()
        while not self._is_settled() or news:
            frames = [(place, self._owning_frame(place)) for place in news]
            if not frames:
                time.sleep(max(0.0, asked_all_at + HEARTBEAT_PAUSE_S - time.perf_counter()))
                asked_all_at = time.perf_counter()
                frames = [(place, self._idle_frame(place)) for place in places]
            news = self._exchange(frames)
        return time.perf_counter() - started

    def leave_all(self) -> None:
        """Empty the group, so that it costs the broker nothing later."""
        places = range(len(self._ids))
        self._epochs = [LEAVING] * len(places)
        self._exchange([(place, self._idle_frame(place)) for place in places])

    def _exchange(self, frames: list[tuple[int, bytes]]) -> list[int]:
        """Send a heartbeat for some members and read the responses; return the members with a new
        assignment."""
        for place, frame in frames:
            self._fleet.send(place, frame)
        news = []
        for place, answer in self._fleet.collect(len(frames)):
            if answer == self._answers[place]:
                continue
            self._answers[place] = answer
            _check(answer, "heartbeat")
            _, response = read_response(answer, ConsumerGroupHeartbeatRequest.API_KEY or 0, HEARTBEAT_VERSION)
            self._epochs[place] = response.member_epoch
            if response.assignment is not None:
                self._owned[place] = response.assignment.topic_partitions
                news.append(place)
        return news

    def _is_settled(self) -> bool:
        """Whether all have their share, no partition has two owners, and all are in the same epoch."""
        if len(set(self._epochs)) > 1:
            return False
        shares = [sum(len(topic.partitions) for topic in topics) for topics in self._owned]
        if max(shares) - min(shares) > 1 or sum(shares) != self._partitions:
            return False
        owned = {index for topics in self._owned for topic in topics for index in topic.partitions}
        return len(owned) == self._partitions

    def _join_frame(self, place: int) -> bytes:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._ids[place],
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )
        return request_frame(request, HEARTBEAT_VERSION, 1, CLIENT_ID)

    def _owning_frame(self, place: int) -> bytes:
        """Report only that the assigned partitions are now owned."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._ids[place],
            member_epoch=self._epochs[place],
            topic_partitions=[
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    topic_id=topic.topic_id, partitions=topic.partitions
                )
                for topic in self._owned[place]
            ],
        )
        return request_frame(request, HEARTBEAT_VERSION, 1, CLIENT_ID)

    def _idle_frame(self, place: int) -> bytes:
        key = (place, self._epochs[place])
        frame = self._frames.get(key)
        if frame is None:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._group, member_id=self._ids[place], member_epoch=self._epochs[place]
            )
            frame = self._frames[key] = request_frame(request, HEARTBEAT_VERSION, 1, CLIENT_ID)
        return frame


def _check(answer: bytes, what: str) -> None:
    (error,) = _ERROR.unpack_from(answer, _ERROR_AT)
    if error:
        raise NotAnswered(f"A {what} got error {error}.")


def run(options: argparse.Namespace) -> dict[str, float]:
    """Create the groups and measure; return medians."""
    find_coordinator(options.port, options.topic, options.timeout)
    fleet = Fleet(options.port, options.members, options.timeout)
    names = [f"{options.topic}-{number}" for number in range(options.groups)]
    joins: list[float] = []
    rebalances: list[float] = []
    with closing(fleet):
        for name in names:
            if options.protocol == "classic":
                classic = ClassicMembers(fleet, options.port, name, options.timeout)
                joins.append(classic.join_all())
                rebalances += [classic.rebalance() for _ in range(options.rebalances)]
                classic.leave_all()
            else:
                consumer = ConsumerMembers(fleet, name, options.topic, options.partitions)
                joins.append(consumer.join_all())
                consumer.leave_all()
    figures = {"join_s": median(joins), "join_max_s": max(joins)}
    if rebalances:
        figures |= {"rebalance_s": median(rebalances), "rebalance_max_s": max(rebalances)}
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.members")
    parser.add_argument("protocol", choices=("classic", "consumer"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=1, help="how many the topic has")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=1, help="how many groups, one after the other")
    parser.add_argument("--rebalances", type=int, default=0, help="how often one leaves (classic)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S")
    return parser


if __name__ == "__main__":
    print(json.dumps(run(_parser().parse_args())))
