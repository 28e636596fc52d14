"""Coordinators as the handlers see them: a request in, a response or an `Answer` out.

Groups live in `__consumer_offsets`. The state machines and their runtime are in `ottla.coordinator`; here
they are joined to this node's partitions, configuration and metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.config import ResourceType
from ottla.coordinator.active_shard import HostedPartition, S
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.groups.shard import GroupShard
from ottla.coordinator.records import kinds_of
from ottla.coordinator.result import Caller, Reply, Result
from ottla.coordinator.runtime import Coordinator, shown
from ottla.records.batch import Codec
from ottla.server.broker import GROUPS_TOPIC, Broker
from ottla.server.net.answers import Answer
from ottla.server.replicas.partition import flush_partition
from ottla.wire.errors import KafkaError, NotCoordinator
from ottla.wire.messages import group_records

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.server.net.dispatch import RequestContext

KEYS_PER_DECISION = 500

_R = TypeVar("_R")
_T = TypeVar("_T")


def caller_of(context: RequestContext) -> Caller:
    return Caller(context.version, context.client_id or "", f"/{context.connection.peer_host}")


class Asked(Generic[S]):
    """A coordinator with the handlers' ways to ask it."""

    def __init__(self, coordinator: Coordinator[S]) -> None:
        self.coordinator = coordinator

    def ask(
        self,
        key: str,
        decision: Callable[[S, Reply], Result[_R]],
        failed: Callable[[KafkaError], _R],
    ) -> _R | Answer:
        """The response to a request about one group or transactional id, now or later.

        `failed` makes a response of an error.
        """
        answer: Answer | None = None
        outcome: list[_R] = []

        def send(response: _R) -> None:
            if answer is None:
                outcome.append(response)
            else:
                answer.settle(response)

        coordinator = self.coordinator
        coordinator.ask(
            coordinator.partition_for(key), decision, Reply(send, lambda error: send(failed(shown(error))))
        )
        if outcome:
            return outcome[0]
        answer = Answer()
        return answer

    def ask_many(
        self,
        asked: Iterable[tuple[str, Callable[[S, Reply], Result[_T]], Callable[[KafkaError], _T]]],
        join: Callable[[list[_T]], _R],
    ) -> Generator[None, None, _R | Answer]:
        """Several decisions, each (key, decision, failed), and one response made of their outcomes."""
        outcomes: list[Any] = []
        open_count = 0
        answer: Answer | None = None

        def ask_one(
            place: int,
            key: str,
            decision: Callable[[S, Reply], Result[_T]],
            failed: Callable[[KafkaError], _T],
        ) -> None:
            def send(outcome: _T) -> None:
                nonlocal open_count
                outcomes[place] = outcome
                open_count -= 1
                if open_count == 0 and answer is not None:
                    answer.settle(join(outcomes))

            coordinator = self.coordinator
            coordinator.ask(
                coordinator.partition_for(key),
                decision,
                Reply(send, lambda error: send(failed(shown(error)))),
            )

        for place, (key, decision, failed) in enumerate(asked):
            outcomes.append(None)
            open_count += 1
            ask_one(place, key, decision, failed)
            yield
        if open_count == 0:
            return join(outcomes)
        answer = Answer()
        return answer

    def ask_every(
        self,
        choose: Callable[[S], Generator[None, None, list[str]]],
        decision: Callable[[S, list[str]], list[_T]],
        join: Callable[[list[_T], bool], _R],
    ) -> Generator[None, None, _R | Answer]:
        """Ask all shards of this node, each about the keys that `choose` found in it, some at a time.

        `join` gets what they said, and whether one is still being loaded.
        """
        is_any_loading = self.coordinator.is_any_loading
        outcomes: list[_T] = []
        open_count = 0
        answer: Answer | None = None

        def finish() -> None:
            nonlocal open_count
            open_count -= 1
            if open_count == 0 and answer is not None:
                answer.settle(join(outcomes, is_any_loading))

        def send(outcome: list[_T]) -> None:
            outcomes.extend(outcome)
            finish()

        def fail(_error: KafkaError) -> None:
            nonlocal is_any_loading
            is_any_loading = True
            finish()

        for active in self.coordinator.loaded():
            keys = yield from choose(active.shard)
            for start in range(0, len(keys), KEYS_PER_DECISION):
                open_count += 1
                if not active.is_open:
                    fail(NotCoordinator("Another node has become leader of the partition."))
                    break
                some = keys[start : start + KEYS_PER_DECISION]
                active.decide(
                    lambda shard, _reply, some=some: Result(decision(shard, some)),  # type: ignore[misc]
                    Reply(send, fail),
                )
                yield
        if open_count == 0:
            return join(outcomes, is_any_loading)
        answer = Answer()
        return answer


class Groups(Asked[GroupShard]):
    """The group coordinator of this node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings = self._read_settings()
        super().__init__(
            Coordinator(
                topic=GROUPS_TOPIC,
                partition_count=lambda: internal_partition_count(
                    broker, GROUPS_TOPIC, "offsets.topic.num.partitions"
                ),
                hosted=lambda: hosted_partitions(broker, GROUPS_TOPIC),
                new_shard=self._new_shard,
                kinds=kinds_of(group_records),
                clock=broker.clock,
                slices=broker.slices,
                write_timeout_ms=broker.config.int_of("offsets.commit.timeout.ms"),
                flush=lambda partition: flush_soon(broker, partition),
                run_effect=_no_effects,
                codec=Codec(broker.config.int_of("offsets.topic.compression.codec")),
            )
        )

    def start(self) -> None:
        self.coordinator.take_seats()

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        if any(kind in (ResourceType.BROKER, ResourceType.GROUP) for kind, _name in delta.configs_changed):
            self._settings = self._read_settings()
            for active in self.coordinator.loaded():
                active.shard.settings = self._settings
        self.coordinator.on_metadata(image, delta)

    def close(self) -> None:
        self.coordinator.close()

    def _new_shard(self, index: int) -> GroupShard:
        broker = self._broker
        return GroupShard(
            index=index,
            image=broker.image,
            clock=broker.clock,
            random=broker.random,
            settings=self._settings,
        )

    def _read_settings(self) -> GroupSettings:
        texts: Mapping[str, Mapping[str, str]] = {
            name: values
            for (kind, name), values in self._broker.image.configs.items()
            if kind == ResourceType.GROUP
        }
        return GroupSettings(self._broker.config, texts)


def internal_partition_count(broker: Broker, topic: str, setting: str) -> int:
    """How many partitions an internal topic has, or will have."""
    known = broker.image.topics_by_name.get(topic)
    return len(known.partitions) if known is not None else broker.config.int_of(setting)


def hosted_partitions(broker: Broker, topic: str) -> list[HostedPartition]:
    return list(broker.partitions.by_name.get(topic, {}).values())


def flush_soon(broker: Broker, partition: HostedPartition) -> None:
    """Flush a partition whose topic asks for it; its high watermark moves then."""
    found = broker.partitions.get(partition.topic, partition.index)
    if found is not None:
        broker.in_background(flush_partition(broker.directories, found))


def _no_effects(_index: int, effect: Any) -> None:
    raise AssertionError(f"groups have no effects, and got {effect!r}")
