"""The settings of the nodes that one machine runs from one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count as numbers

import pytest

from ottla.cluster.derivation import NODES_MAX, CannotDerive, node_ids, node_overrides
from ottla.config import BrokerConfig, development_config

COMBINED = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093
log.dirs=/data/one,/data/two
"""
BROKER = """\
process.roles=broker
node.id=7
listeners=PLAINTEXT://:9092
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=c:9093
log.dirs=/data
"""


def load(text: str, overrides: dict[str, str] | None = None) -> BrokerConfig:
    return BrokerConfig.load(text, overrides=overrides, environment={}, base_directory="/work")


def no_ports(count: int) -> Sequence[int]:
    return [0] * count


def derived(text: str, count: int) -> dict[int, BrokerConfig]:
    """The nodes' configurations, which are valid."""
    settings = node_overrides(load(text), count, machine="host-a", free_ports=no_ports)
    return {node_id: load(text, own) for node_id, own in settings.items()}


def ports_of(text: str, count: int) -> list[list[int]]:
    return [[one.port for one in node.listeners] for node in derived(text, count).values()]


def test_the_first_node_is_the_file_itself_and_the_others_are_brokers() -> None:
    nodes = derived(COMBINED, 3)
    assert list(nodes) == [1, 1001, 2001]
    assert [sorted(node.roles) for node in nodes.values()] == [
        ["broker", "controller"],
        ["broker"],
        ["broker"],
    ]
    assert nodes[1].log_directories == ("/data/one", "/data/two")
    assert nodes[2001].node_id == 2001
    assert nodes[2001].log_directories == ("/data/one/nodes/2001", "/data/two/nodes/2001")
    assert nodes[2001].metadata_log_directory == "/data/one/nodes/2001"
    assert {tuple(node.quorum_voters) for node in nodes.values()} == {(1, 2, 3)}


def test_more_nodes_change_nothing_about_those_before() -> None:
    few, many = (node_overrides(load(COMBINED), n, machine="m", free_ports=no_ports) for n in (3, 16))
    assert {node_id: many[node_id] for node_id in few} == few


def test_machines_with_consecutive_ids_do_not_collide() -> None:
    machines = [node_ids(load(COMBINED.replace("node.id=1", f"node.id={one}")), 64) for one in (1, 2, 3)]
    assert len({node_id for ids in machines for node_id in ids}) == 3 * 64


def test_ports_count_up_and_skip_those_of_listeners_and_controllers() -> None:
    assert ports_of(COMBINED, 4) == [[9092, 9093], [9094], [9095], [9096]]
    assert ports_of(BROKER, 3) == [[9092], [9094], [9095]]


def test_each_listener_has_its_own_ports() -> None:
    text = COMBINED.replace("PLAINTEXT://:9092", "PLAINTEXT://:9092,EXT://1.2.3.4:9094").replace(
        "log.dirs",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nlog.dirs",
    )
    assert ports_of(text, 3) == [[9092, 9094, 9093], [9095, 9096], [9097, 9098]]
    assert derived(text, 2)[1001].listeners[1].host == "1.2.3.4"


def test_listeners_that_share_a_port_still_do() -> None:
    text = BROKER.replace(
        "listeners=PLAINTEXT://:9092",
        "listeners=PLAINTEXT://127.0.0.1:9092,SIX://[::1]:9092\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    assert ports_of(text, 2) == [[9092, 9092], [9094, 9094]]


def test_advertised_ports_keep_their_distance_and_hosts() -> None:
    text = COMBINED + "advertised.listeners=PLAINTEXT://proxy.example:19092,CONTROLLER://a:9093\n"
    assert [[str(one) for one in node.advertised_listeners] for node in derived(text, 3).values()] == [
        ["PLAINTEXT://proxy.example:19092"],
        ["PLAINTEXT://proxy.example:19094"],
        ["PLAINTEXT://proxy.example:19095"],
    ]


def test_the_rack_is_the_machine_unless_the_file_has_one() -> None:
    assert {node.rack for node in derived(COMBINED, 3).values()} == {"host-a"}
    assert {node.rack for node in derived(COMBINED + "broker.rack=zone-1\n", 3).values()} == {"zone-1"}


def test_settings_that_name_directories_listeners_or_controllers_fit_each_node() -> None:
    nodes = derived(
        COMBINED.replace(
            "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093",
            "controller.quorum.bootstrap.servers=a:9093",
        )
        + "metadata.log.dir=/meta\ncordoned.log.dirs=/data/two\nearly.start.listeners=CONTROLLER\n"
        "controller.quorum.auto.join.enable=true\nbroker.id=1\n",
        2,
    )
    assert nodes[1001].metadata_log_directory == "/meta/nodes/1001"
    assert nodes[1001].cordoned_directories == {"/data/two/nodes/1001"}
    assert not nodes[1001].early_start_listeners
    assert nodes[1].bool_of("controller.quorum.auto.join.enable")
    assert not nodes[1001].bool_of("controller.quorum.auto.join.enable")


def test_ports_0_are_chosen_and_all_nodes_find_the_controller() -> None:
    free = numbers(5000)
    config = development_config(port=0, base_directory="/work")
    settings = node_overrides(
        config, 3, machine="m", free_ports=lambda count: [next(free) for _ in range(count)]
    )
    nodes = [development_config(port=0, overrides=own, base_directory="/work") for own in settings.values()]
    assert [[one.port for one in node.listeners] for node in nodes] == [[5000, 5001], [5002], [5003]]
    assert {node.quorum_bootstrap_servers for node in nodes} == {(("localhost", 5001),)}


def test_the_only_voter_may_have_port_0() -> None:
    free = numbers(5000)
    text = COMBINED.replace("9092", "0").replace("9093", "0").replace("@a:0,2@b:0,3@c:0", "@[::1]:0")
    settings = node_overrides(
        load(text), 2, machine="m", free_ports=lambda count: [next(free) for _ in range(count)]
    )
    assert [load(text, own).quorum_voters for own in settings.values()] == [{1: ("::1", 5001)}] * 2


@pytest.mark.parametrize(
    ("text", "count", "sentence"),
    [
        (COMBINED, 0, "A machine cannot run 0 nodes"),
        (COMBINED, NODES_MAX + 1, f"Choose 1 to {NODES_MAX}"),
        (COMBINED.replace("2@b", "1001@b"), 2, "Node 1001 is a controller in controller.quorum.voters"),
        (COMBINED.replace(":9092", ":65534"), 3, "Choose a lower port in listeners"),
        (
            COMBINED + "advertised.listeners=PLAINTEXT://a:65535\n",
            2,
            "would advertise port 65537 for PLAINTEXT://a:65535",
        ),
        (BROKER.replace("node.id=7", "node.id=2147483600"), 2, "leaves no ids for 2 nodes"),
        (
            "process.roles=controller\nnode.id=9\nlisteners=CONTROLLER://:9093\n"
            "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=9@a:9093\nlog.dirs=/d\n",
            2,
            "process.roles=controller cannot be multiplied",
        ),
    ],
)
def test_what_cannot_be_derived_is_refused_with_the_reason(text: str, count: int, sentence: str) -> None:
    with pytest.raises(CannotDerive, match=sentence):
        node_overrides(load(text), count, machine="m", free_ports=no_ports)
