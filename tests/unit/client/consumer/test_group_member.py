"""A consumer's requests to its group's coordinator, which answers when the test wants."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from ottla.client.consumer.group_member import GroupMember
from ottla.client.core.membership import Change, Notify
from ottla.client.errors import CommitFailed, RequestTimedOut
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.host import HostClock
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Backoff:
    def delay_ms(self, attempt: int) -> int:
        return 0


class Coordinator:
    """Stands for the cluster. It answers the first request when the test says so, and others at once."""

    def __init__(self) -> None:
        self.clock = HostClock()
        self.backoff = Backoff()
        self.first_answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent: list[tuple[int, int]] = []  # partition and generation of each commit
        self.is_asked = asyncio.Event()

    async def coordinator(self, kind: int, key: str) -> int:
        return 1

    def forget_coordinator(self, kind: int, key: str) -> None:
        pass

    async def ask(self, node: int, request: OffsetCommitRequest, **options: Any) -> OffsetCommitResponse:
        partition = request.topics[0].partitions[0].partition_index
        self.sent.append((partition, request.generation_id_or_member_epoch))
        self.is_asked.set()
        if len(self.sent) == 1:
            await self.first_answer
        return OffsetCommitResponse()


class Member:
    """Stands for a membership in its 5th generation."""

    generation, member_id, identity = 5, "m", (5, "m")
    is_outside = False
    rejoins_at_once = True  # the next generation begins when partitions are given back

    def __init__(self) -> None:
        self.taken_back: list[Notify] = []

    def notified(self, notice: Notify) -> None:
        self.generation += self.rejoins_at_once

    def notifying(self, notice: Notify) -> None:
        pass

    def polled(self) -> None:
        pass

    def withdraw(self, notice: Notify) -> None:
        self.taken_back.append(notice)

    def effects(self, now_ms: int) -> list[Any]:
        return []


def group_member() -> tuple[GroupMember, Coordinator]:
    cluster: Any = Coordinator()
    group = GroupMember(
        cluster, "g", None, is_stable_required=False, alert=lambda: None, counters=Counter[str]()
    )
    member: Any = Member()
    group.membership = member
    return group, cluster


def committing(group: GroupMember, partition: TopicPartition, offset: int) -> asyncio.Task[None]:
    offsets = {partition: OffsetAndMetadata(offset)}
    return asyncio.create_task(group.commit(offsets, asked_at=group.ownership, seconds=60, retries=False))


@pytest.mark.parametrize("change", [Change.REVOKED, Change.LOST])
def test_a_commit_that_waits_is_not_sent_after_its_partition_was_given_back(change: Change) -> None:
    async def play() -> None:
        group, coordinator = group_member()
        first, second, third = committing(group, T0, 10), committing(group, T0, 20), committing(group, T1, 5)
        await coordinator.is_asked.wait()
        group.notified(Notify(change, frozenset({T0})))
        fourth = committing(group, T0, 40)  # as one who has read what another member left
        coordinator.first_answer.set_exception(RequestTimedOut("the answer was lost"))
        with pytest.raises(RequestTimedOut):
            await first
        with pytest.raises(CommitFailed, match="was revoked"):
            await second
        await asyncio.gather(third, fourth)
        assert coordinator.sent == [(0, 5), (1, 6), (0, 6)]

    asyncio.run(play())


@pytest.mark.parametrize("partition", [T0, T1])
def test_a_commit_that_waits_is_sent_after_its_partition_was_given_back_in_the_same_generation(
    partition: TopicPartition,
) -> None:
    async def play() -> None:
        group, coordinator = group_member()
        member: Any = group.membership
        member.rejoins_at_once = False
        first, second = committing(group, T0, 10), committing(group, partition, 20)
        await coordinator.is_asked.wait()
        group.notified(Notify(Change.REVOKED, frozenset({partition})))
        coordinator.first_answer.set_result(None)
        await asyncio.gather(first, second)
        assert coordinator.sent == [(0, 5), (partition.partition, 5)]

    asyncio.run(play())


def test_a_commit_that_waits_is_sent_in_a_later_generation_if_its_partition_was_kept() -> None:
    async def play() -> None:
        group, coordinator = group_member()
        first, second = committing(group, T0, 10), committing(group, T0, 20)
        await coordinator.is_asked.wait()
        group.notified(Notify(Change.REVOKED, frozenset({T1})))
        coordinator.first_answer.set_result(None)
        await asyncio.gather(first, second)
        assert coordinator.sent == [(0, 5), (0, 6)]

    asyncio.run(play())


def test_a_commit_that_waits_is_not_sent_by_another_membership_of_the_same_generation() -> None:
    async def play() -> None:
        group, coordinator = group_member()
        first, second = committing(group, T0, 10), committing(group, T0, 20)
        await coordinator.is_asked.wait()
        await group.leave(None)
        another: Any = Member()
        group.membership = another
        coordinator.first_answer.set_result(None)
        await first
        with pytest.raises(CommitFailed, match="was revoked"):
            await second
        assert coordinator.sent == [(0, 5)]

    asyncio.run(play())


def test_a_commit_that_waits_is_not_sent_after_the_member_has_left() -> None:
    async def play() -> None:
        group, coordinator = group_member()
        first, second = committing(group, T0, 10), committing(group, T0, 20)
        await coordinator.is_asked.wait()
        await group.leave(None)
        coordinator.first_answer.set_result(None)
        await first
        with pytest.raises(CommitFailed, match="was revoked"):
            await second
        await committing(group, T0, 30)  # by hand, as of no member
        assert coordinator.sent == [(0, 5), (0, -1)]

    asyncio.run(play())


def test_an_error_that_repeats_waits_for_the_user_once() -> None:
    async def play() -> None:
        group, _ = group_member()
        for text in ("no", "no", "other", "no"):
            group.fail(RequestTimedOut(text))
        assert [str(error) for error in group.errors] == ["no", "other"]

    asyncio.run(play())


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_assignment_that_was_lost_before_the_user_heard_of_it_is_not_told(is_begun: bool) -> None:
    async def play() -> None:
        group, _ = group_member()
        member: Any = group.membership
        notice = Notify(Change.ASSIGNED, frozenset({T0}))
        group.notices.append(notice)
        if is_begun:
            group.notifying(notice)  # a poll was interrupted while the listener ran
        assert group.note_poll() is None
        member.is_outside = True
        expected = None if is_begun else notice
        assert group.note_poll() is expected
        assert list(group.notices) == ([notice] if is_begun else [])
        assert member.taken_back == ([] if is_begun else [notice])

    asyncio.run(play())
