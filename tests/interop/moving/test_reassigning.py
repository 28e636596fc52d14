"""Kafka's kafka-reassign-partitions moves partitions of an Ottla cluster that is written meanwhile.

A rate that comes out too low may be the machine's, and is measured again; one that is too high never is.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.mixed.nodes import BrokerOnly, MixedCluster
from tests.interop.moving.load import Load, read_values
from tests.interop.moving.moves import (
    PATIENCE_MS,
    SECONDS_MAX,
    Reassigning,
    Watch,
    contents,
    directories_of,
    logs_of,
    size_of,
)

MEGABYTE = 1 << 20
HEAVY_MEGABYTES = 256 if os.environ.get("OTTLA_TEST_LONG") == "1" else 32
BROKERS = (1, 2, 3, 4)
TRIES_MAX = 4
HEAVY = ("heavy", 0)


class Moving:
    """Four brokers with two log directories each."""

    def __init__(self, cluster: MixedCluster, tools: Tools, directory: Path) -> None:
        for node_id in BROKERS:
            paths = ",".join(str(directory / f"broker-{node_id}" / name) for name in ("data", "data-2"))
            cluster.add_broker("ottla", wait=False, log_dirs=paths, log_segment_delete_delay_ms="500")
        for broker in cluster.brokers:
            broker.wait_ready()
        self.brokers: dict[int, BrokerOnly] = {broker.node_id: broker for broker in cluster.brokers}
        self.bootstrap = ",".join(broker.bootstrap for broker in cluster.brokers)
        self.tool = Reassigning(tools, self.bootstrap, directory)

    def fill(self, topic: str, megabytes: int) -> None:
        """Partition 0 gets so many bytes that cannot be compressed."""
        chance = random.Random(topic)
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0})
        for _ in range(megabytes * 16):
            producer.produce(topic, chance.randbytes(MEGABYTE // 16), partition=0)
            producer.poll(0)
        assert producer.flush(SECONDS_MAX) == 0

    def copies(self, place: tuple[str, int]) -> dict[int, bytes]:
        return {node_id: contents(self.brokers[node_id], place) for node_id in self.tool.placement(place)[1]}

    def assert_equal(self, place: tuple[str, int], before: bytes = b"") -> None:
        """All replicas have the same bytes, and what there was before is their beginning."""

        def are_equal() -> bool:
            return len(set(self.copies(place).values())) == 1

        peers.wait_until(are_equal, SECONDS_MAX, f"replicas of {place} with the same bytes", pause_s=0.2)
        content = next(iter(self.copies(place).values()))
        assert content.startswith(before)
        assert content

    def wait_until_gone(self, node_id: int, place: tuple[str, int]) -> None:
        broker = self.brokers[node_id]
        peers.wait_until(
            lambda: not logs_of(broker, place), SECONDS_MAX, f"{place} to leave {directories_of(broker)}"
        )


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


@pytest.fixture(scope="module")
def moving(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    directory = tmp_path_factory.mktemp("moving")
    with MixedCluster(directory, "ottla", broker_session_timeout_ms=PATIENCE_MS) as cluster:
        yield Moving(cluster, tools, directory)


def is_near(rate: float, limit: float) -> bool:
    """Whether a rate is the limit; above it is an error, below it may be the machine."""
    assert rate < limit * 1.1, f"{rate:.0f} bytes a second, {limit:.0f} allowed"
    return rate > limit * 0.9


def test_a_move_under_load_keeps_to_its_throttle_and_starves_nobody(moving: Moving) -> None:
    tool, limit = moving.tool, 4 * MEGABYTE
    tool.create("heavy", [[1, 2]])
    tool.create("beside", [[1, 2], [2, 3], [3, 1], [3, 4]], min_insync_replicas="2")
    moving.fill("heavy", HEAVY_MEGABYTES)
    before = contents(moving.brokers[1], HEAVY)
    rates: list[float] = []
    with Load(moving.bootstrap, {"beside": 4}) as load:
        for stays, comes in ((1, 3), (3, 2), (2, 1), (1, 3)):
            plan = tool.generate(["heavy"], [stays, comes])
            acknowledged = dict(load.acknowledged)
            paths = [directory / "heavy-0" for directory in directories_of(moving.brokers[comes])]
            with Watch(lambda paths=paths: paths, len(before)) as watch:  # type: ignore[misc]
                said = tool.execute(plan, "--throttle", str(limit))
                assert "Successfully started partition reassignment for heavy-0" in said
                rates.append(watch.rate())
            rounds = [known - acknowledged[place] for place, known in load.acknowledged.items()]
            assert min(rounds) >= 10, f"the others were acknowledged {rounds} times during the move"
            said = tool.wait_until_done(plan)
            assert "Clearing broker-level throttles on brokers 1,2,3,4" in said
            assert "Clearing topic-level throttles on topic heavy" in said
            tool.wait_until_unthrottled(["heavy"], BROKERS)
            peers.wait_until(
                lambda wanted={stays, comes}: set(tool.placement(HEAVY)[1]) == wanted,  # type: ignore[misc]
                SECONDS_MAX,
                f"heavy on {stays} and {comes}",
            )
            print(f"{rates[-1]:.0f} bytes a second of {limit}; {min(rounds)} acknowledged meanwhile")
            if is_near(rates[-1], limit):
                break
        load.stop()
    assert any(is_near(rate, limit) for rate in rates), f"{rates} bytes a second of {limit}"
    assert "No partition reassignments found." in tool.listing()
    moving.assert_equal(HEAVY, before)
    for place in load.places:
        assert read_values(moving.bootstrap, place) == load.written[place]
        peers.wait_until(
            lambda here=place: len(tool.placement(here)[2]) == 2,  # type: ignore[misc]
            SECONDS_MAX,
            f"{place} to have both replicas in sync",
        )


def test_the_throttle_of_a_move_under_way_is_changed(moving: Moving) -> None:
    tool, place = moving.tool, ("hastened", 0)
    tool.create("hastened", [[1, 2]])
    moving.fill("hastened", 4)
    before = contents(moving.brokers[1], place)
    with Load(moving.bootstrap, {"hastened": 1}) as load:
        plan = tool.plan({place: [3, 4]})
        tool.execute(plan, "--throttle", "1024")  # more than an hour
        assert "hastened-0 is still in progress" in tool.verify(plan)
        refused = tool.run("--reassignment-json-file", plan, "--execute", fails=True)
        assert "existing partition assignment" in refused
        load.wait_for_more(10)
        tool.execute(plan, "--additional", "--throttle", str(100 * MEGABYTE))
        assert "Clearing broker-level throttles" in tool.wait_until_done(plan)
        load.wait_for_more(10)
        load.stop()
    moving.assert_equal(place, before)
    assert read_values(moving.bootstrap, place)[-len(load.written[place]) :] == load.written[place]


def test_a_move_that_is_called_off_leaves_everything_as_it_was(moving: Moving) -> None:
    tool, place = moving.tool, ("stays", 0)
    tool.create("stays", [[1, 2]])
    moving.fill("stays", 4)
    before = contents(moving.brokers[1], place)
    with Load(moving.bootstrap, {"stays": 1}) as load:
        plan = tool.plan({place: [1, 3]})
        tool.execute(plan, "--throttle", "16384")  # some minutes
        peers.wait_until(
            lambda: size_of(logs_of(moving.brokers[3], place)), SECONDS_MAX, "broker 3 to have some of it"
        )
        assert tool.throttles(["stays"], BROKERS) != {}
        assert "stays-0: replicas" in tool.listing()
        assert "Successfully cancelled partition reassignment for: stays-0" in tool.cancel(plan)
        tool.wait_until_on(place, [1, 2])
        assert "No partition reassignments found." in tool.listing()
        tool.wait_until_unthrottled(["stays"], BROKERS)
        moving.wait_until_gone(3, place)
        load.wait_for_more()
        load.stop()
    moving.assert_equal(place, before)
    assert read_values(moving.bootstrap, place)[-len(load.written[place]) :] == load.written[place]


def test_replicas_are_added_and_taken_away_under_load(moving: Moving) -> None:
    tool, place = moving.tool, ("sized", 0)
    tool.create("sized", [[1]])
    with Load(moving.bootstrap, {"sized": 1}) as load:
        for replicas in ([1, 2, 3], [4, 3, 2, 1], [4, 2], [3]):
            load.wait_for_more(10)
            tool.move({place: replicas})
            tool.wait_until_on(place, replicas)
            load.wait_for_more(10)
            for node_id in set(BROKERS) - set(replicas):
                moving.wait_until_gone(node_id, place)
        refused = tool.run(
            *("--reassignment-json-file", tool.plan({place: [3, 2]})),
            *("--execute", "--disallow-replication-factor-change"),
            fails=True,
        )
        assert "replication factor" in refused, refused
        load.stop()
    assert read_values(moving.bootstrap, place) == load.written[place]


def test_a_replica_moves_to_another_disk_at_the_rate_that_is_set(moving: Moving) -> None:
    tool, place, limit = moving.tool, ("disks", 0), 4 * MEGABYTE
    tool.create("disks", [[1, 2]])
    moving.fill("disks", 24)
    before = contents(moving.brokers[1], place)
    rates: list[float] = []
    with Load(moving.bootstrap, {"disks": 1}) as load:
        for _ in range(TRIES_MAX):
            (source,) = logs_of(moving.brokers[2], place)
            (target,) = [path for path in directories_of(moving.brokers[2]) if path != source.parent]
            plan = tool.plan({place: [1, 2]}, {2: str(target)})
            with Watch(lambda target=target: target.glob("disks-0*"), len(before)) as watch:  # type: ignore[misc]
                tool.execute(plan, "--replica-alter-log-dirs-throttle", str(limit))
                rates.append(watch.rate())
            said = tool.wait_until_done(plan)
            assert "Reassignment of replica disks-0-2 completed successfully." in said
            assert "Clearing broker-level throttles on brokers 1,2,3,4" in said
            tool.wait_until_unthrottled(["disks"], BROKERS)
            peers.wait_until(
                lambda old=source: not old.exists() and len(logs_of(moving.brokers[2], place)) == 1,  # type: ignore[misc]
                SECONDS_MAX,
                f"{source} to go",
            )
            load.wait_for_more()
            print(f"{rates[-1]:.0f} bytes a second of {limit}")
            if is_near(rates[-1], limit):
                break
        load.stop()
    assert any(is_near(rate, limit) for rate in rates), f"{rates} bytes a second of {limit}"
    moving.assert_equal(place, before)
    assert tool.placement(place)[2] == {1, 2}


def test_a_new_replica_comes_to_the_disk_that_is_named(moving: Moving) -> None:
    tool, place = moving.tool, ("placed", 0)
    tool.create("placed", [[1, 2]])
    moving.fill("placed", 1)
    target = directories_of(moving.brokers[4])[1]
    plan = tool.plan({place: [1, 4]}, {4: str(target)})
    tool.execute(plan, "--throttle", str(100 * MEGABYTE))
    tool.wait_until_done(plan)
    # If it came before its place was named, it came elsewhere, and has moved since.
    peers.wait_until(
        lambda: logs_of(moving.brokers[4], place) == [target / "placed-0"],
        SECONDS_MAX,
        f"{place} in {target} alone",
    )
    moving.assert_equal(place)
    wrong = tool.plan({place: [1, 4]}, {4: "/no/such/directory"})
    said = tool.run("--reassignment-json-file", wrong, "--execute", "--timeout", "100", fails=True)
    assert "/no/such/directory" in said or "LogDirNotFound" in said, said
