"""Kafka's controller and ours lead the same random life with five brokers that are only requests.

Every request goes to both; the answers, the records that each writes and the state they make must be the
same. Placement is by hand, because the placers draw; see tests/interop/placement for those.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.controller.feature_levels import SUPPORTED_FEATURES
from ottla.controller.reassignment_replicas import completed, started
from ottla.controller.registrations import NO_LEADER, PartitionRegistration, Topic
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest as Altering
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest as Moving
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest as Assigning
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest as Registering
from ottla.wire.messages.create_partitions import CreatePartitionsRequest as Adding
from ottla.wire.messages.create_topics import CreateTopicsRequest as Creating
from ottla.wire.messages.delete_topics import DeleteTopicsRequest as Deleting
from ottla.wire.messages.elect_leaders import ElectLeadersRequest as Electing
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest as Configuring
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest as Features
from tests.interop import peers
from tests.interop.controllers.sides import Side
from tests.interop.mixed.nodes import KafkaController, OttlaController

BROKERS = (1, 2, 3, 4, 5)
STEPS = 250
TIMEOUT_MS = 60_000
PROPERTIES = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "2000",
    "auto.leader.rebalance.enable": "false",
}
Located = tuple[Topic, int, PartitionRegistration]


def identifier(*parts: object) -> bytes:
    return hashlib.md5(repr(parts).encode()).digest()


class Life:
    """What is done to both sides, chosen by a seed and by the state that both are in."""

    def __init__(self, theirs: Side, ours: Side, seed: int) -> None:
        self.sides = (theirs, ours)
        self.chance = random.Random(seed)
        self.running: set[int] = set()
        self.clean_epochs: dict[int, dict[int, int]] = {}  # by broker and side, after a clean stop
        self.directories = {b: [identifier("disk", b, number) for number in range(2)] for b in BROKERS}
        self.runs = 0
        self.names = 0
        self.cleared: set[str] = set()  # topics that Kafka fails on once they are deleted
        self.did = "nothing yet"
        self.settle()

    @property
    def image(self) -> Any:
        return self.sides[0].image

    # Asking both

    def both(self, make: Callable[[Side], Message], version: int) -> Any:
        """The answer of both sides, which is one."""
        answers = [side.ask(make(side), version) for side in self.sides]
        shown = [side.plain(answer) for side, answer in zip(self.sides, answers, strict=True)]
        assert shown[0] == shown[1], f"{self.did}: answers of Kafka and of ours:\n{shown[0]}\n{shown[1]}"
        self.settle()
        return answers[0]

    def settle(self) -> None:
        """Read what both wrote; it is the same."""
        theirs, ours = (side.read() for side in self.sides)
        assert theirs == ours, f"{self.did}: records of Kafka and of ours:\n" + "\n".join(
            [*(f"K {line}" for line in theirs if line not in ours)]
            + [f"O {line}" for line in ours if line not in theirs]
        )
        states = [side.state() for side in self.sides]
        assert states[0] == states[1], f"{self.did}: {states}"

    def heartbeat(self, broker_id: int, **fields: Any) -> Any:
        return self.both(
            lambda side: BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=side.epochs[broker_id],
                current_metadata_offset=side.offset,
                **fields,
            ),
            1,
        )

    def everyone_beats(self, *, but: int = 0) -> None:
        for broker_id in sorted(self.running - {but}):
            self.heartbeat(broker_id)

    def pick(self) -> Located | None:
        located = [
            (self.image.topics_by_name[name], index, partition)
            for name in sorted(self.image.topics_by_name)
            for index, partition in sorted(self.image.topics_by_name[name].partitions.items())
        ]
        return self.chance.choice(located) if located else None

    # Brokers

    def start(self, broker_id: int) -> None:
        if broker_id in self.running:
            return
        self.runs += 1
        run = self.runs
        rack = self.chance.choice([None, "a", "b"])
        for side_number, side in enumerate(self.sides):
            previous = self.clean_epochs.get(broker_id, {}).get(side_number, -1)
            request = Registering(
                broker_id=broker_id,
                cluster_id=side.controller.cluster_id,
                incarnation_id=identifier("run", run),
                listeners=[Registering.Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
                features=[
                    Registering.Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in SUPPORTED_FEATURES.items()
                ],
                rack=rack,
                log_dirs=sorted(self.directories[broker_id]),
                previous_broker_epoch=previous,
            )
            self._register(side, request)
        self.settle()
        self.running.add(broker_id)
        self.clean_epochs.pop(broker_id, None)
        assert self.heartbeat(broker_id, want_fence=True).is_fenced
        assert not self.heartbeat(broker_id).is_fenced

    def _register(self, side: Side, request: Registering) -> None:
        """Register; Kafka wants the last session to be over, also of a broker that it has let go."""

        def registered() -> bool:
            answer = side.ask(request, 4)
            if answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                for broker_id in sorted(self.running):
                    for other in self.sides:
                        other.ask(
                            BrokerHeartbeatRequest(
                                broker_id=broker_id,
                                broker_epoch=other.epochs[broker_id],
                                current_metadata_offset=other.offset,
                            ),
                            1,
                        )
                return False
            assert answer.error_code == 0, answer
            side.epochs[request.broker_id] = answer.broker_epoch
            return True

        peers.wait_until(registered, 60, "the registration to be accepted", pause_s=0.2)

    def kill(self, broker_id: int) -> None:
        """It is not heard of any more, until both have found out."""
        if broker_id not in self.running or len(self.running) < 3:
            return
        self.running.discard(broker_id)

        def is_fenced() -> bool:
            for other in sorted(self.running):
                for side in self.sides:
                    side.ask(
                        BrokerHeartbeatRequest(
                            broker_id=other,
                            broker_epoch=side.epochs[other],
                            current_metadata_offset=side.offset,
                        ),
                        1,
                    )
            return all(side.has_fenced(broker_id) for side in self.sides)

        peers.wait_until(is_fenced, 60, f"broker {broker_id} to be fenced", pause_s=0.2)
        self.settle()

    def shut_down(self, broker_id: int) -> None:
        if broker_id not in self.running:
            return
        for _ in range(10):
            self.everyone_beats(but=broker_id)
            if self.heartbeat(broker_id, want_shut_down=True).should_shut_down:
                break
        else:
            raise AssertionError("the shutdown does not end")
        self.running.discard(broker_id)
        self.clean_epochs[broker_id] = {n: side.epochs[broker_id] for n, side in enumerate(self.sides)}

    def fence(self, broker_id: int) -> None:
        if broker_id in self.running:
            self.heartbeat(broker_id, want_fence=True)

    def unregister(self, broker_id: int) -> None:
        if broker_id not in self.running:
            self.both(lambda side: UnregisterBrokerRequest(broker_id=broker_id), 0)

    def lose_directory(self, broker_id: int) -> None:
        directories = self.directories[broker_id]
        if broker_id not in self.running or len(directories) < 2:
            return
        self.heartbeat(broker_id)
        lost = directories.pop(self.chance.randrange(2))
        self.heartbeat(broker_id, offline_log_dirs=[lost])

    def assign_directory(self, broker_id: int) -> None:
        found = self.pick()
        if found is None or broker_id not in self.running:
            return
        topic, index, partition = found
        known = [*self.directories[broker_id], uuid.DIRECTORY_UNASSIGNED]
        if broker_id in partition.replicas and partition.directory_of(broker_id) not in known:
            return  # see docs/differences.md
        directory = self.chance.choice([*self.directories[broker_id], identifier("unknown")])

        def request(side: Side) -> Message:
            data = Assigning.TopicData(
                topic_id=side.image.topics_by_name[topic.name].id,
                partitions=[
                    Assigning.PartitionData(partition_index=index),
                    Assigning.PartitionData(partition_index=99),
                ],
            )
            nobody = Assigning.TopicData(
                topic_id=identifier("nobody"), partitions=[Assigning.PartitionData(partition_index=0)]
            )
            return Assigning(
                broker_id=broker_id,
                broker_epoch=side.epochs[broker_id],
                directories=[Assigning.DirectoryData(id=directory, topics=[data, nobody])],
            )

        self.both(request, 0)

    # Topics

    def create(self) -> None:
        if len(self.image.topics) >= 6:
            return
        self.names += 1
        count = self.chance.randint(1, 4)
        assignments = [
            Creating.CreatableReplicaAssignment(
                partition_index=index, broker_ids=self.chance.sample(BROKERS, count)
            )
            for index in range(self.chance.randint(1, 3))
        ]
        texts = {
            "min.insync.replicas": str(self.chance.randint(1, 3)),
            "unclean.leader.election.enable": self.chance.choice(["false", "false", "false", "true"]),
        }
        topic = Creating.CreatableTopic(
            name=f"topic-{self.names}",
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[Creating.CreatableTopicConfig(name=name, value=text) for name, text in texts.items()],
        )
        self.both(lambda side: Creating(topics=[topic], timeout_ms=TIMEOUT_MS), 7)

    def too_many_replicas(self) -> None:
        topic = Creating.CreatableTopic(name="never", num_partitions=1, replication_factor=6)
        self.both(lambda side: Creating(topics=[topic], timeout_ms=TIMEOUT_MS), 7)

    def delete(self) -> None:
        found = self.pick()
        if found is not None and found[0].name not in self.cleared:
            state = Deleting.DeleteTopicState(name=found[0].name)
            self.both(lambda side: Deleting(topics=[state], timeout_ms=TIMEOUT_MS), 6)

    def add_partition(self) -> None:
        found = self.pick()
        if found is None or len({len(p.replicas) for p in found[0].partitions.values()}) > 1:
            return  # of such a topic Kafka takes the size of any partition for the rule
        assignment = Adding.CreatePartitionsAssignment(broker_ids=self.chance.sample(BROKERS, 2))
        topic = Adding.CreatePartitionsTopic(
            name=found[0].name, count=len(found[0].partitions) + 1, assignments=[assignment]
        )
        self.both(lambda side: Adding(topics=[topic], timeout_ms=TIMEOUT_MS), 3)

    def configure(self) -> None:
        found = self.pick()
        if found is None:
            return
        name, texts = self.chance.choice(
            [("min.insync.replicas", ["1", "2", "3"]), ("unclean.leader.election.enable", ["true", "false"])]
        )
        resource_type, resource = self.chance.choice([(2, found[0].name), (2, found[0].name), (4, "")])
        config = Configuring.AlterableConfig(name=name, config_operation=0, value=self.chance.choice(texts))
        if resource_type == 4:
            config = Configuring.AlterableConfig(name="min.insync.replicas", config_operation=0, value="2")
        if config.name == "min.insync.replicas":
            # Kafka clears the eligible leaders, yet not where it looks for them when a broker goes.
            self.cleared |= {
                topic.name
                for topic in self.image.topics.values()
                if any(partition.elr for partition in topic.partitions.values())
            }
        asked = Configuring.AlterConfigsResource(
            resource_type=resource_type, resource_name=resource, configs=[config]
        )
        self.both(lambda side: Configuring(resources=[asked]), 1)

    # Partitions

    def alter_isr(self) -> None:
        found = self.pick()
        if found is None or found[2].leader == NO_LEADER:
            return
        partition = found[2]
        members = [r for r in partition.replicas if r == partition.leader or self.chance.random() < 0.7]
        self.propose(found, members)

    def catch_up(self) -> None:
        """All that can be in sync are."""
        found = self.pick()
        if found is None or found[2].leader == NO_LEADER:
            return
        brokers = self.image.brokers
        members = [r for r in found[2].replicas if r in brokers and brokers[r].is_active]
        self.propose(found, members)

    def alter_isr_wrongly(self) -> None:
        found = self.pick()
        if found is None:
            return
        sender = self.chance.choice(sorted(self.running)) if self.running else 1
        members = self.chance.sample(BROKERS, self.chance.randint(0, 3))
        self.propose(
            found,
            members,
            sender=sender,
            leader_epoch_off=self.chance.choice([0, 0, 1, -1]),
            partition_epoch_off=self.chance.choice([0, 0, 1, -1]),
            broker_epoch_off=self.chance.choice([0, 0, -1]),
            recovery=self.chance.choice([0, 1]),
        )

    def propose(
        self,
        found: Located,
        members: Sequence[int],
        *,
        sender: int | None = None,
        leader_epoch_off: int = 0,
        partition_epoch_off: int = 0,
        broker_epoch_off: int = 0,
        recovery: int = 0,
    ) -> None:
        topic, index, partition = found
        asks = partition.leader if sender is None else sender
        done = completed(partition.replicas, partition.removing, partition.adding, members)
        if done is not None and self.is_below_minimum(topic, done[1]):
            return

        version = self.chance.choice([2, 3, 3])

        def request(side: Side) -> Message:
            data = Altering.PartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch + leader_epoch_off,
                partition_epoch=partition.partition_epoch + partition_epoch_off,
                leader_recovery_state=recovery,
            )
            if version == 2:
                data.new_isr = list(members)
            else:
                data.new_isr_with_epochs = [
                    Altering.BrokerState(
                        broker_id=member, broker_epoch=side.epochs.get(member, 0) + broker_epoch_off
                    )
                    for member in members
                ]
            topics = [
                Altering.TopicData(topic_id=side.image.topics_by_name[topic.name].id, partitions=[data])
            ]
            return Altering(broker_id=asks, broker_epoch=side.epochs.get(asks, 0), topics=topics)

        self.both(request, version)

    def elect(self) -> None:
        kind = self.chance.choice([0, 0, 1])
        topics = [
            Electing.TopicPartitions(topic=name, partitions=[*topic.partitions, 99])
            for name, topic in sorted(self.image.topics_by_name.items())
        ]
        topics.append(Electing.TopicPartitions(topic="nothing", partitions=[0]))
        self.both(
            lambda side: Electing(election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS), 2
        )

    def reassign(self) -> None:
        found = self.pick()
        if found is None or found[2].is_reassigning:  # see docs/differences.md
            return
        topic, _, partition = found
        wanted = self.chance.sample(BROKERS, self.chance.randint(1, 4))
        done = completed(*started(partition, wanted), partition.isr)
        if done is None or not self.is_below_minimum(topic, done[1]):
            self.move(found, wanted)

    def cancel(self) -> None:
        for name in sorted(self.image.topics_by_name):
            topic = self.image.topics_by_name[name]
            for index, partition in sorted(topic.partitions.items()):
                remaining = set(partition.isr) - set(partition.adding)
                if self.is_below_minimum(topic, remaining):
                    continue
                if partition.is_reassigning or self.chance.random() < 0.05:
                    self.move((topic, index, partition), None)
                    return

    def is_below_minimum(self, topic: Topic, isr: Collection[int]) -> bool:
        """Whether these are so few that Kafka keeps replicas that go for good as eligible leaders."""
        text = self.image.topic_config(topic.name).get("min.insync.replicas", "1")
        return len(isr) < min(int(text), len(topic.partitions[0].replicas))

    def move(self, found: Located, replicas: list[int] | None) -> None:
        wanted = Moving.ReassignablePartition(partition_index=found[1], replicas=replicas)
        topic = Moving.ReassignableTopic(name=found[0].name, partitions=[wanted])
        may_resize = self.chance.random() < 0.8
        self.both(
            lambda side: Moving(
                topics=[topic], timeout_ms=TIMEOUT_MS, allow_replication_factor_change=may_resize
            ),
            1,
        )
        self.both(lambda side: ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS), 0)

    def allocate(self) -> None:
        broker_id = self.chance.choice(BROKERS)
        self.both(
            lambda side: AllocateProducerIdsRequest(
                broker_id=broker_id, broker_epoch=side.epochs.get(broker_id, 0)
            ),
            0,
        )

    # The whole

    def without_eligible_leader_replicas(self) -> None:
        update = Features.FeatureUpdateKey(
            feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2
        )
        self.both(lambda side: Features(feature_updates=[update], timeout_ms=TIMEOUT_MS), 2)

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Often what is quick; what waits for a session to end is rare."""
        plain: list[tuple[int, Callable[[], None]]] = [
            (6, self.create),
            (1, self.too_many_replicas),
            (1, self.delete),
            (2, self.add_partition),
            (4, self.configure),
            (10, self.alter_isr),
            (12, self.catch_up),
            (6, self.alter_isr_wrongly),
            (6, self.elect),
            (10, self.reassign),
            (4, self.cancel),
            (1, self.allocate),
            (2, self.everyone_beats),
        ]
        of_brokers: list[tuple[int, Callable[[int], None]]] = [
            (8, self.fence),
            (3, self.shut_down),
            (4, self.start),
            (1, self.kill),
            (1, self.unregister),
            (1, self.lose_directory),
            (6, self.assign_directory),
        ]
        for number in range(STEPS):
            weights = [weight for weight, _ in [*plain, *of_brokers]]
            chosen = self.chance.choices(range(len(weights)), weights)[0]
            if chosen < len(plain):
                step = plain[chosen][1]
                yield f"step {number}, {step.__name__}", step
            else:
                about = of_brokers[chosen - len(plain)][1]
                broker_id = self.chance.choice(BROKERS)
                yield f"step {number}, {about.__name__} {broker_id}", lambda b=broker_id, a=about: a(b)  # type: ignore[misc]

    def live(self) -> None:
        for broker_id in BROKERS:
            self.did = f"start {broker_id}"
            self.everyone_beats()
            self.start(broker_id)
        for name, step in self.steps():
            self.did = name
            self.everyone_beats()
            step()


@contextmanager
def life(directory: Path, seed: int) -> Iterator[Life]:
    with (
        KafkaController(directory / "kafka", properties=PROPERTIES) as kafkas,
        OttlaController(directory / "ottla", properties=PROPERTIES) as ottlas,
        closing(Side(kafkas)) as theirs,
        closing(Side(ottlas)) as ours,
    ):
        yield Life(theirs, ours, seed)


@pytest.mark.parametrize("with_elr", [True, False], ids=["elr", "no-elr"])
def test_both_controllers_decide_the_same(tmp_path: Path, with_elr: bool) -> None:
    with life(tmp_path, seed=6 + with_elr) as led:
        if not with_elr:
            led.without_eligible_leader_replicas()
        led.live()
