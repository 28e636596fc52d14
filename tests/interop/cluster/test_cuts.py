"""Nodes that are disconnected from each other for a while, under a load that checks its own results.

In every case a partition has one leader per epoch, no acknowledged record is lost, duplicated or reordered,
readers never see less than before, and after the network heals all replicas are in sync again and every
client makes progress. Until then requests to a disconnected node, for example a coordinator, may wait: like
Kafka's it answers with its last known state.

OTTLA_TEST_CUTS=30 adds that many random cuts, with kills among them; a failure names the seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from tests.interop import peers
from tests.interop.cluster.links import Links
from tests.interop.cluster.load import PLAIN, TOPICS, Load, create_topics
from tests.interop.cluster.nodes import BROKERS, CONTROLLERS, SECONDS_MAX, Five
from tests.interop.cluster.watching import Watch, wait_until_equal
from tests.unit.server.asking import Asking

CUTS = int(os.environ.get("OTTLA_TEST_CUTS", "0"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
FLAPS = 6


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as made:
        yield made


class Cuts:
    """Cuts in a running cluster. Each lasts until its effect is observed, and is then healed."""

    def __init__(self, five: Five, links: Links, load: Load) -> None:
        self.five, self.links, self.load = five, links, load
        self.epochs: dict[int, int] = {}  # of the quorum, with their leaders

    # What nodes say

    def active_controllers(self) -> dict[int, int]:
        """The self-declared leader of the quorum and its epoch: at most one per epoch."""
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        found = {}
        for node_id in CONTROLLERS:
            with Asking(self.five.nodes[node_id].controller_port) as asking:
                answer = asking.ask(DescribeQuorumRequest(topics=[topic]), 2)
            if answer.error_code == 0 and answer.topics[0].partitions[0].error_code == 0:
                epoch = found[node_id] = int(answer.topics[0].partitions[0].leader_epoch)
                assert self.epochs.setdefault(epoch, node_id) == node_id, f"two lead in epoch {epoch}"
        return found

    def active(self) -> int:
        """The active controller, once there is exactly one."""
        found: dict[int, int] = {}

        def is_known() -> bool:
            found.clear()
            found.update(self.active_controllers())
            return len(found) == 1

        peers.wait_until(is_known, SECONDS_MAX, "an active controller", 0.1)
        return next(iter(found))

    def partition(self, at: int, number: int = 0) -> tuple[int, int, set[int]]:
        """Leader, epoch and ISR of a partition, according to a node."""
        one = self.five.partitions([PLAIN], at=at).get((PLAIN, number))
        return (-1, -1, set()) if one is None else (one.leader_id, one.leader_epoch, set(one.isr_nodes))

    def balance(self) -> None:
        """Restore the preferred leaders, so that every node leads one partition of each topic."""
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000)

        def is_balanced() -> bool:
            with contextlib.suppress(OSError), self.five.nodes[1].ask() as asking:
                asking.ask(request, 2)
            found = self.five.partitions(TOPICS, at=1).values()
            return bool(found) and all(one.leader_id == one.replica_nodes[0] for one in found)

        peers.wait_until(is_balanced, SECONDS_MAX, "the preferred leaders", 0.1)

    # Cutting

    def heal(self, *, resets: bool) -> None:
        """Wait for the recovery: every replica in sync, and every client making progress."""
        self.links.heal(resets=resets)
        self.five.wait_until_in_sync(TOPICS)
        self.load.wait_for_progress()
        self.load.check_committed()

    def leader_from_followers(self) -> None:
        """The leader still reaches the controllers, unless they are its followers: they leave its ISR."""
        leader, epoch, isr = self.partition(at=1)
        followers = isr - {leader}
        self.links.part([leader], followers)
        self._wait_until_alone(leader, epoch)

    def active_controller_from_all(self) -> None:
        """Nobody receives from the active controller: another one replaces it, and its broker's
        leaderships."""
        active = self.active()
        others = [node_id for node_id in BROKERS if node_id != active]
        self.links.part([active], others)
        self._wait_for_another(active)
        self._wait_until_it_leads_nothing(active, via=others[0])
        self.load.wait_for_progress("records")  # the others go on without it

    def broker_from_controllers(self) -> None:
        """Clients and brokers reach a broker, but no controller does: it is fenced, and leads nothing."""
        broker = 4
        self.links.part([broker], CONTROLLERS)
        self._wait_until_it_leads_nothing(broker, via=1)
        self.load.wait_for_progress("records")

    def active_controller_is_heard_by_nobody(self) -> None:
        """One way: it receives everything, and its messages are dropped."""
        active = self.active()
        others = [node_id for node_id in BROKERS if node_id != active]
        self.links.cut([active], others)
        self._wait_for_another(active)
        self._wait_until_it_leads_nothing(active, via=others[0])
        self.load.wait_for_progress("records")

    def active_controller_hears_nobody(self) -> None:
        """One way: messages to it are dropped."""
        active = self.active()
        others = [node_id for node_id in BROKERS if node_id != active]
        self.links.cut(others, [active])
        self._wait_for_another(active)
        self._wait_until_it_leads_nothing(active, via=others[0])
        self.load.wait_for_progress("records")

    def followers_are_not_heard(self) -> None:
        """One way: the leader gets none of its followers' requests, but they receive from it."""
        leader, epoch, isr = self.partition(at=1)
        followers = isr - {leader}
        self.links.cut(followers, [leader])
        self._wait_until_alone(leader, epoch)

    def flapping_link(self) -> None:
        """A leader's link to the others flaps, each time long enough to be noticed or too short."""
        leader, _, _ = self.partition(at=1)
        others = [node_id for node_id in BROKERS if node_id != leader]
        for number in range(FLAPS):
            self.links.part([leader], others)
            time.sleep(0.3 * (number + 1))  # what happens meanwhile is the test
            self.links.heal()
            time.sleep(0.3)

    def by_chance(self, chance: random.Random) -> str:
        """Some do not hear some, or are not heard, for a while. One may be killed or stand still too."""
        nodes = list(BROKERS)
        chance.shuffle(nodes)
        size = chance.randint(1, 2)
        some, others = nodes[:size], nodes[size:]
        if chance.random() < 0.3:
            others = others[: chance.randint(1, len(others))]
        how = chance.choice(["part", "cut", "heard"])
        if how == "part":
            self.links.part(some, others)
        elif how == "cut":
            self.links.cut(some, others)
        else:
            self.links.cut(others, some)
        seconds = chance.choice([0.5, 2.0, 5.0, 8.0])
        fate = chance.choice(["lives", "lives", "is killed", "stands still"])
        victim = self.five.nodes[chance.choice(BROKERS)]
        if fate == "is killed":
            victim.kill()
        elif fate == "stands still":
            os.kill(victim.pid, signal.SIGSTOP)
        time.sleep(seconds)  # what happens meanwhile is the test
        resets = chance.random() < 0.5
        if fate == "is killed":
            self.links.heal(resets=resets)
            self.five.start(victim.node_id)
        elif fate == "stands still":
            os.kill(victim.pid, signal.SIGCONT)
        self.heal(resets=resets)
        return f"{how} {some} {others} for {seconds} s, {victim.node_id} {fate}, resets: {resets}"

    def _wait_for_another(self, controller: int) -> None:
        peers.wait_until(
            lambda: set(self.active_controllers()) - {controller},
            SECONDS_MAX,
            f"another active controller than {controller}",
            0.1,
        )

    def _wait_until_alone(self, leader: int, epoch: int) -> None:
        """Wait until a node knows that the leader's ISR shrank, or that there is another leader."""

        def is_alone() -> bool:
            known = [self.partition(node_id) for node_id in BROKERS]
            return any(isr == {leader} or later > epoch for _, later, isr in known)

        peers.wait_until(is_alone, SECONDS_MAX, f"the followers of {leader} to leave it", 0.1)

    def _wait_until_it_leads_nothing(self, broker: int, via: int) -> None:
        def leads_nothing() -> bool:
            found = self.five.partitions(TOPICS, at=via)
            return bool(found) and all(one.leader_id not in (broker, -1) for one in found.values())

        peers.wait_until(leads_nothing, SECONDS_MAX, f"other leaders than {broker}", 0.1)


NAMED: dict[str, Callable[[Cuts], None]] = {
    "leader from followers": Cuts.leader_from_followers,
    "active controller from all": Cuts.active_controller_from_all,
    "broker from controllers": Cuts.broker_from_controllers,
    "active controller is heard by nobody": Cuts.active_controller_is_heard_by_nobody,
    "active controller hears nobody": Cuts.active_controller_hears_nobody,
    "followers are not heard": Cuts.followers_are_not_heard,
    "flapping link": Cuts.flapping_link,
}


def test_no_cut_loses_doubles_or_reorders_anything_and_all_is_whole_after_healing(
    links: Links, tmp_path: Path
) -> None:
    print(f"seed {SEED}: OTTLA_TEST_SEED={SEED} draws the same cuts")
    chance = random.Random(SEED)
    with Five(tmp_path, links=links) as five:
        create_topics(five.bootstrap)
        five.wait_until_in_sync(TOPICS)
        load, watch = Load(five.bootstrap), Watch(five, TOPICS)
        done = []
        with load, watch:
            cuts = Cuts(five, links, load)
            load.wait_for_progress()
            for number, (name, cut) in enumerate(NAMED.items()):
                began = time.monotonic()
                done.append(name)
                try:
                    cuts.balance()
                    cut(cuts)
                    caused = time.monotonic()
                    cuts.heal(resets=number % 2 == 0)
                except AssertionError as error:
                    raise AssertionError(f"after {done}: {error}") from error
                print(f"{name}: {caused - began:.1f} s, healed in {time.monotonic() - caused:.1f} s")
            for _ in range(CUTS):
                try:
                    done.append(cuts.by_chance(chance))
                except AssertionError as error:
                    raise AssertionError(f"seed {SEED}, after {done}: {error}") from error
                print(done[-1])
            load.finish()
        print(load.check())
        wait_until_equal(five, TOPICS)
        print(f"{watch.check()} leader epochs seen")
