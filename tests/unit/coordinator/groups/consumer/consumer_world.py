"""A shard, and consumers that reconcile as real ones do, for tests of the consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.unit.coordinator.groups.shards import ShardOfTests, topic_id_of
from tests.unit.coordinator.pending import recorded

from ottla.controller.image_delta import ImageDelta
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.result import HELD, Caller, Result, Task
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.metadata_records import PartitionRecord

CALLER = Caller(1, "client", "/127.0.0.1")
NO_ANSWER = -1  # as the code of an answer that does not come
Pair = tuple[str, int]


class World(ShardOfTests):
    """The shard with tasks, which run when `work` is called or, by default, as soon as they are there."""

    def __init__(self, settings: dict[str, str] | None = None, **topics: int) -> None:
        self.tasks: dict[Any, Task] = {}
        self.is_busy = False  # tasks wait for `work`
        super().__init__({"group.consumer.assignment.interval.ms": "0", **(settings or {})}, **topics)

    def take(self, result: Result[Any]) -> Any:
        response = super().take(result)
        for pending, answer in result.late_responses:
            pending.complete(answer)
        for task in result.tasks:
            assert task.key not in self.tasks, "a task was replaced: whoever waits for it would wait for ever"
            self.tasks[task.key] = task
        if not self.is_busy:
            self.work()
        return response

    def work(self) -> None:
        """Run all tasks to their end."""
        self.is_busy = False
        while self.tasks:
            task = next(iter(self.tasks.values()))
            outcome = None
            while True:
                try:
                    next(task.steps)
                except StopIteration as end:
                    outcome = end.value
                    break
            del self.tasks[task.key]
            self.take(task.decision(outcome))

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.shard.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def restart(self) -> None:
        """Go on with what the log has: timers begin anew, tasks are gone."""
        loaded = self.reload(fast=False)
        self.shard, self.timers = loaded.shard, loaded.timers
        self.tasks.clear()

    def grow_topic(self, name: str, partitions: int) -> None:
        delta = ImageDelta()
        for index in range(len(self.image.topics_by_name[name].partitions), partitions):
            self.image.replay(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id_of(name),
                    replicas=[1],
                    isr=[1],
                    leader=1,
                    directories=[bytes(16)],
                ),
                delta,
            )
        self.image.offset += 1
        self.take(self.shard.on_metadata(self.image, delta))

    def make_topic(self, name: str, partitions: int = 1, life: int = 0) -> None:
        self.add_topic(name, partitions, life)
        delta = ImageDelta()
        delta.topics_created[topic_id_of(name, life)] = self.image.topics_by_name[name]
        self.image.offset += 1
        self.take(self.shard.on_metadata(self.image, delta))

    def names(self, partitions: dict[bytes, Any]) -> set[Pair]:
        return {
            (self.image.topics[topic_id].name, partition)
            for topic_id, owned in partitions.items()
            for partition in owned
        }

    def heartbeat(self, caller: Caller = CALLER, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """The answer; that of a held heartbeat once it is there."""
        request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", **fields})
        answers: list[Any] = []
        pending = recorded(answers)
        try:
            response = self.take(self.shard.consumer.heartbeat(request, caller, pending))
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        if response is HELD:
            return answers[0] if answers else ConsumerGroupHeartbeatResponse(error_code=NO_ANSWER)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.heartbeat(
            **{
                "member_id": member_id,
                "member_epoch": 0,
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": list(topics),
                "topic_partitions": [],
                **fields,
            }
        )


class Consumer:
    """A client: it owns what it was told to, and gives up what it is not told any more, in its own time."""

    def __init__(
        self,
        world: World,
        member_id: str,
        topics: Iterable[str] = (),
        *,
        regex: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        self.world = world
        self.id = member_id
        self.topics = list(topics)
        self.regex = regex
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.told: dict[bytes, set[int]] = {}
        self.is_unanswered = False  # the last answer did not come
        self.has_news = False  # it has not said yet what it owns now
        self.has_new_topics = False  # nor what it is subscribed to
        self.must_acknowledge = False  # an assignment came: once it is carried out it says what it owns

    def subscribe(self, topics: Iterable[str]) -> None:
        self.topics = list(topics)
        self.has_new_topics = True

    def subscribe_to(self, regex: str) -> None:
        self.regex = regex
        self.has_new_topics = True

    def beat(self, *, answer_is_lost: bool = False) -> int:
        """One heartbeat; the error code."""
        fields: dict[str, Any] = {"member_id": self.id, "member_epoch": self.epoch}
        if self.instance_id is not None:
            fields["instance_id"] = self.instance_id
        is_full = self.epoch == 0 or self.is_unanswered
        if is_full:
            fields["rebalance_timeout_ms"] = 60_000
        if is_full or self.has_new_topics:
            if self.regex is not None:
                fields["subscribed_topic_regex"] = self.regex
            fields["subscribed_topic_names"] = self.topics
        if is_full or self.has_news:
            fields["topic_partitions"] = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=sorted(owned))
                for topic_id, owned in self.owned.items()
            ]
        response = self.world.heartbeat(**fields)
        if answer_is_lost or response.error_code == NO_ANSWER:
            self.is_unanswered = True  # it says all again, and owns what it did
            return response.error_code
        self.is_unanswered = False
        return self._take(response)

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> int:
        code = response.error_code
        if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.owned, self.told, self.epoch, self.has_news = {}, {}, 0, False
        elif code == 0:
            self.has_new_topics = False
            assert response.member_epoch >= self.epoch
            self.epoch = response.member_epoch
            self.has_news = False
            if response.assignment is not None:
                self.must_acknowledge = True
                self.told = {
                    topic.topic_id: set(topic.partitions) for topic in response.assignment.topic_partitions
                }
                if all(owned <= self.told.get(topic_id, set()) for topic_id, owned in self.owned.items()):
                    self.reconcile()  # nothing to give up
        return code

    def reconcile(self) -> None:
        """Give up what it is not to own any more; only then take on what is new."""
        if self.must_acknowledge:
            self.owned = {topic_id: set(partitions) for topic_id, partitions in self.told.items()}
            self.has_news = True
            self.must_acknowledge = False

    def revoke(self) -> None:
        """Give up what it is not to own any more, and nothing else yet."""
        kept = {
            topic_id: partitions & self.told.get(topic_id, set())
            for topic_id, partitions in self.owned.items()
        }
        kept = {topic_id: partitions for topic_id, partitions in kept.items() if partitions}
        if kept != self.owned:
            self.owned = kept
            self.has_news = True

    @property
    def may_own(self) -> set[tuple[bytes, int]]:
        """All that this client may be working on by what it was told."""
        return {(topic_id, partition) for topic_id, owned in self.owned.items() for partition in owned}

    def leave(self) -> int:
        response = self.world.heartbeat(member_id=self.id, member_epoch=-1, instance_id=self.instance_id)
        self.owned, self.told, self.epoch, self.has_news = {}, {}, 0, False
        return response.error_code


def settle(consumers: Iterable[Consumer], rounds: int = 8) -> None:
    """Heartbeats until all are where they are to be."""
    consumers = list(consumers)
    for _ in range(rounds):
        for consumer in consumers:
            consumer.beat()
            consumer.reconcile()
