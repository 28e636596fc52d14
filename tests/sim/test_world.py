"""Production nodes and clients in the simulated world: they survive faults, and a seed can be replayed."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from xml.etree import ElementTree

import pytest

from ottla.client.admin.topics import NewTopic
from ottla.rare_paths import rarely
from ottla.testing.world import World
from ottla.testing.world.nemesis import FAULTS
from ottla.testing.world.rare_paths import rare_paths
from tests.sim import smoke
from tests.sim.replays import traces_of

SEEDS = int(os.environ.get("OTTLA_TEST_SEEDS", "8"))
FIRST_SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_acknowledged_records_survive_random_faults(seed: int) -> None:
    with World(seed) as world:
        try:
            smoke.run(world, seconds=40.0)
        except Exception as error:
            error.add_note(f"replay: python -m tests.sim {seed} --smoke --seconds 40\n{world.history(100)}")
            raise


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_survived_alone(fault: str) -> None:
    with World(100) as world:
        smoke.run(world, seconds=20.0, faults=[fault])


def test_a_seed_replays_in_another_process_with_other_hashes() -> None:
    assert len(traces_of("3", "--smoke", "--seconds", "20")) == 1


def test_other_seeds_give_other_worlds() -> None:
    traces = set()
    for seed in (1, 2):
        with World(seed) as world:
            world.add_nodes(1)
            world.run(world.start())
            traces.add(world.trace_hash.split("-")[0])
    assert len(traces) == 2


def test_the_timeline_has_leaders_and_faults() -> None:
    with World(5) as world:
        world.add_nodes(3, settings={"num.partitions": "1"})
        client = world.client("client")

        async def create() -> None:
            async with client.admin() as admin:
                await admin.create_topics(["told"])

        async def story() -> None:
            await world.start()
            await client.spawn(create())
            leader = next(node for node in world.nodes.values() if node.active_epoch is not None)
            await asyncio.sleep(1)
            world.crash(leader)
            await asyncio.sleep(20)
            assert any(node.active_epoch is not None for node in world.nodes.values())
            await world.restart(leader.id)
            world.cut(1, 2, both=True)
            world.heal()
            await world.stop()

        world.run(story())
        told = world.history()
        for line in (
            "leads the quorum in epoch",
            "killed",
            "led by",
            "cut node-1 -/-> node-2",
            "healed",
            "stopped",
        ):
            assert line in told
        drawn = ElementTree.fromstring(world.picture())
        shown = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
        assert {"node-1", "node-2", "node-3", "network", "told-0"} <= shown


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_node_with_a_new_disk_replicates_everything(dynamic: bool) -> None:
    with World(5) as world:
        world.add_nodes(4, controllers=3, dynamic=dynamic)
        client = world.client("client")
        wiped = world.nodes[4]

        async def write() -> None:
            async with client.admin() as admin:
                await admin.create_topics([NewTopic("copied", assignments={0: [1, 2, 4]})])
            async with client.producer() as producer:
                for number in range(20):
                    await (await producer.send("copied", str(number).encode()))

        async def story() -> None:
            await world.start()
            await client.spawn(write())
            wiped.crash()
            wiped.wipe()
            await wiped.start()
            while True:
                assert wiped.node is not None
                partition = wiped.node.broker.partitions.get("copied", 0)
                if partition is not None and partition.log is not None and partition.log.log_end_offset == 20:
                    return
                await asyncio.sleep(1)

        world.run(story(), limit_s=300)
        assert world.unhandled == []


def test_a_node_that_stops_by_itself_reports_why() -> None:
    with World(5) as world:
        node = world.add_nodes(1)[0]

        async def story() -> None:
            await world.start()
            assert node.disk is not None
            node.disk.fail("pwrite", "__cluster_metadata")
            while node.is_running:
                await asyncio.sleep(1)

        world.run(story(), limit_s=300)
        assert node.failure is not None
        assert "fails: KafkaStorageError" in world.history()


def test_other_threads_do_not_affect_a_world(caplog: pytest.LogCaptureFixture) -> None:
    """A test may run a real broker beside a world: its errors are not the world's, and it takes no rare
    paths."""
    answers: list[bool] = []

    def elsewhere() -> None:
        logging.getLogger("ottla.server").error("a disk of another one failed")
        answers.extend(rarely(f"point {number % 20}") for number in range(20_000))

    with World(7) as world, rare_paths(7) as paths:
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
        assert not world.logged
        assert not paths.taken
        assert any(rarely(f"point {number % 20}") for number in range(20_000))
    assert answers == [False] * 20_000
    assert "a disk of another one failed" in caplog.text
    assert "another one" not in world.history()
