"""Who leads when replicas go and come back: preferred leaders, and eligible ones after all in sync have died.

The brokers are Ottla's; the controller is Ottla's or Kafka's, and both must bring a partition through the
same states. OTTLA_TEST_LONG=1 has every order of return under both, and a cluster of Kafka's nodes alone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.wire.messages.create_topics import CreateTopicsRequest
from tests.interop import peers
from tests.interop.cluster.nodes import SECONDS_MAX
from tests.interop.controllers.sides import Side
from tests.interop.groups_tool.runner import Tools
from tests.interop.mixed.nodes import MixedCluster
from tests.unit.server.asking import Asking

IS_LONG = os.environ.get("OTTLA_TEST_LONG") == "1"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REPLICAS = (1, 2, 3)
SESSION_MS = "4000"  # long enough that nobody is taken for dead who lives, on a busy machine


class State(NamedTuple):
    """The controller's state of a partition."""

    leader: int
    isr: set[int]
    elr: set[int]
    last_known: set[int]


class Trio:
    """A controller and three brokers, each with a replica of every topic."""

    def __init__(self, cluster: MixedCluster, brokers: str = "ottla") -> None:
        self.cluster = cluster
        for _ in REPLICAS:
            cluster.add_broker(brokers)
        self.side = Side(cluster.controller)

    def create(self, topic: str) -> None:
        assignment = CreateTopicsRequest.CreatableReplicaAssignment(
            partition_index=0, broker_ids=list(REPLICAS)
        )
        config = CreateTopicsRequest.CreatableTopicConfig(name="min.insync.replicas", value="2")
        wanted = CreateTopicsRequest.CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assignment],
            configs=[config],
        )
        with Asking(self.cluster.brokers[0].port) as asking:
            (made,) = asking.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7).topics
        assert made.error_code == 0, made

    def state(self, topic: str) -> State:
        self.side.read()
        partition = self.side.image.topics_by_name[topic].partitions[0]
        last_known = set(partition.last_known_elr)
        return State(partition.leader, set(partition.isr), set(partition.elr), last_known)

    def wait_for(self, topic: str, *wanted: State) -> State:
        seen: list[State] = []

        def is_so() -> bool:
            state = self.state(topic)
            if state not in seen[-1:]:
                seen.append(state)
            return state in wanted

        try:
            peers.wait_until(is_so, SECONDS_MAX, f"{wanted}", 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}, saw {seen}") from None
        return seen[-1]

    def write(self, topic: str, value: bytes, *, at: int) -> None:
        """Write with acks=all, and retry like a client."""
        codes: list[int] = []

        def is_written() -> bool:
            with Asking(self.cluster.brokers[at - 1].port) as asking:
                codes.append(asking.produce(topic, [value]).error_code)
            return codes[-1] == 0

        peers.wait_until(is_written, SECONDS_MAX, f"{value!r} to be taken by {at}: {codes}", 0.05)

    def wait_for_values(self, topic: str, values: list[bytes], *, at: int) -> None:
        found: list[bytes | None] = []

        def are_there() -> bool:
            with Asking(self.cluster.brokers[at - 1].port) as asking:
                if asking.fetch(topic, 0).error_code:
                    return False
                found[:] = asking.values(topic)
            return len(found) >= len(values)

        peers.wait_until(are_there, SECONDS_MAX, f"{values} at {at}", 0.05)
        assert found == values

    def go(self, node_id: int, *, is_clean: bool) -> None:
        broker = self.cluster.brokers[node_id - 1]
        if is_clean:
            assert broker.stop() in (0, 143)
        else:
            broker.kill()

    def come(self, node_id: int) -> None:
        self.cluster.brokers[node_id - 1].start()


KINDS = [("ottla", "ottla"), ("kafka", "ottla")]  # controller, brokers
if IS_LONG:
    KINDS.append(("kafka", "kafka"))


@pytest.fixture(scope="module", params=KINDS, ids="-leads-".join)
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    settings = {"broker_session_timeout_ms": SESSION_MS, "auto_leader_rebalance_enable": "false"}
    controller, brokers = request.param
    with MixedCluster(tmp_path_factory.mktemp("trio"), controller, **settings) as cluster:
        made = Trio(cluster, brokers)
        with closing(made.side):
            yield made


WHOLE = State(1, {1, 2, 3}, set(), set())
STOPPED, KILLED = frozenset[int](), frozenset(REPLICAS)  # who is killed, while the others are stopped
CASES: list[tuple[frozenset[int], tuple[int, ...]]] = [(STOPPED, (3, 2, 1)), (KILLED, (2, 3, 1))]
if IS_LONG:
    some = [STOPPED, KILLED, frozenset((1,)), frozenset((2,)), frozenset((1, 3))]
    CASES = [(killed, order) for killed in some for order in itertools.permutations(REPLICAS)]


def _name(case: tuple[frozenset[int], Sequence[int]]) -> str:
    killed, order = case
    return f"{''.join(map(str, sorted(killed))) or 'none'}-killed-{''.join(map(str, order))}-come"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_partition_whose_in_sync_replicas_all_went_is_led_by_one_that_has_everything(
    trio: Trio, case: tuple[frozenset[int], Sequence[int]]
) -> None:
    """They go in the order 3, 2, 1. So 3 misses what was written without it; 2 does not, as a write needs two
    in sync. After a kill a replica may have lost its tail, so the last leader is trusted then only once all
    that were eligible are known to have been killed."""
    killed, order = case
    topic = _name(case)
    trio.create(topic)
    trio.wait_for(topic, WHOLE)
    trio.write(topic, b"by three", at=1)
    trio.go(3, is_clean=3 not in killed)
    trio.wait_for(topic, State(1, {1, 2}, set(), set()))
    trio.write(topic, b"by two", at=1)
    trio.go(2, is_clean=2 not in killed)
    trio.wait_for(topic, State(1, {1}, {2}, set()))
    trio.go(1, is_clean=1 not in killed)
    trio.wait_for(topic, State(-1, set(), {1, 2}, {1}))
    eligible, back, leader = {1, 2}, set[int](), -1
    for node_id in order:
        trio.come(node_id)
        back.add(node_id)
        if leader < 0 and node_id in eligible:
            if node_id in killed:
                eligible.remove(node_id)
                leader = -1 if eligible else 1
            else:
                leader = node_id
        if leader < 0:
            trio.wait_for(topic, State(-1, set(), eligible, {1}))
        else:
            left = eligible - {leader} if len(back) < 2 else set()
            trio.wait_for(topic, State(leader, set(back), left, set()))
    trio.wait_for_values(topic, [b"by three", b"by two"], at=leader)
    trio.write(topic, b"after all", at=leader)
    trio.wait_for_values(topic, [b"by three", b"by two", b"after all"], at=leader)


def test_kafkas_tool_gives_leadership_back_to_the_preferred_replica(trio: Trio) -> None:
    trio.create("preferred")
    trio.wait_for("preferred", WHOLE)
    trio.go(1, is_clean=True)
    trio.wait_for("preferred", State(2, {2, 3}, set(), set()))
    trio.come(1)
    trio.wait_for("preferred", State(2, {1, 2, 3}, set(), set()))
    words = ["--bootstrap-server", trio.cluster.brokers[2].bootstrap, "--election-type", "preferred"]
    words += ["--topic", "preferred", "--partition", "0"]
    with Tools() as tools:
        done = tools.run(ELECTION, *words)
        assert (done.exit, done.out.strip()) == (
            0,
            "Successfully completed leader election (PREFERRED) for partitions preferred-0",
        )
        again = tools.run(ELECTION, *words)
        assert (again.exit, again.out.strip()) == (
            0,
            "Valid replica already elected for partitions preferred-0",
        )
    trio.wait_for("preferred", WHOLE)


def test_leadership_goes_back_to_preferred_replicas_by_itself(tmp_path: Path) -> None:
    settings = {
        "broker_session_timeout_ms": SESSION_MS,
        "auto_leader_rebalance_enable": "true",
        "leader_imbalance_check_interval_seconds": "1",
    }
    with MixedCluster(tmp_path, "ottla", **settings) as cluster:
        trio = Trio(cluster)
        with closing(trio.side):
            trio.create("balanced")
            trio.wait_for("balanced", WHOLE)
            trio.go(1, is_clean=True)
            trio.wait_for("balanced", State(2, {2, 3}, set(), set()))
            trio.come(1)
            trio.wait_for("balanced", WHOLE)
