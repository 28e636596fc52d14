"""Consumer groups whose members are unmodified clients and our own, each with the protocols it speaks.

A scenario is mostly waiting, so those that were asked for run side by side, each in a group of its own on one
broker, and each test waits for its own. Ottla always runs; OTTLA_TEST_ORACLE=1 runs it all on Kafka too and
OTTLA_TEST_BROKERS=kafka names the kinds outright.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.interop import peers
from tests.interop.clients.conftest import broker_kinds
from tests.interop.groups import scenarios
from tests.interop.groups.harness import CLIENTS, Client, World

_AT_ONCE = 8
_BROKER_PROPERTIES = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",  # librdkafka gives up on a heartbeat after this time
    "group.consumer.assignment.interval.ms": "100",
}
Run = Callable[[World], str]

RUNS: dict[str, Run] = {}


def _name(run: Run, name: str) -> str:
    RUNS[name] = run
    return name


def _of_clients() -> list[str]:
    def bind(scenario: Callable[[World, Client], str], client: Client) -> Run:
        return lambda world: scenario(world, client)

    return [
        _name(bind(scenario, client), f"{name}-{client.name}")
        for name, scenario in scenarios.SCENARIOS.items()
        for client in CLIENTS
        if scenarios.takes_part(name, client)
    ]


class Runs:
    """The runs that were asked for, on one broker; started when the first is waited for."""

    def __init__(self, broker: peers.BrokerProcess, names: list[str]) -> None:
        self._world = World(broker)
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._futures: dict[str, Future[str]] = {
            name: self._pool.submit(RUNS[name], self._world) for name in names
        }

    def result(self, name: str) -> str:
        return self._futures[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._world.close()


@pytest.fixture(scope="module", params=broker_kinds())
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    asked = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    names = [each["run"] for each in asked if each.get("runs") == request.param and each.get("run") in RUNS]
    with peers.running(request.param, properties=_BROKER_PROPERTIES) as broker:
        running = Runs(broker, list(dict.fromkeys(names)))
        try:
            yield running
        finally:
            running.close()
        assert "Traceback" not in broker.log_file.read_text(), (
            "the broker logged an error that it did not foresee"
        )


@pytest.mark.parametrize("run", _of_clients())
def test_each_partition_has_one_owner_and_each_record_is_delivered(runs: Runs, run: str) -> None:
    print(run, runs.result(run))


@pytest.mark.parametrize(
    "run",
    [
        _name(lambda world: scenarios.everyone(world, "classic"), "everyone-classic"),
        _name(lambda world: scenarios.everyone(world, "consumer"), "everyone-consumer"),
    ],
)
def test_members_of_all_clients_share_one_group(runs: Runs, run: str) -> None:
    print(run, runs.result(run))


@pytest.mark.parametrize(
    "run",
    [
        _name(lambda world: scenarios.upgrade(world, "java"), "upgrade-java"),
        _name(
            lambda world: scenarios.upgrade(world, "java", "cooperative-sticky"), "upgrade-java-cooperative"
        ),
        _name(lambda world: scenarios.upgrade(world, "confluent"), "upgrade-confluent"),
        _name(lambda world: scenarios.upgrade(world, "go"), "upgrade-franz-go"),
        _name(lambda world: scenarios.upgrade(world, "library"), "upgrade-library"),
    ],
)
def test_a_live_group_moves_to_the_consumer_protocol_and_back(runs: Runs, run: str) -> None:
    print(run, runs.result(run))
