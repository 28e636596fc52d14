"""Topics go from a Kafka broker to Ottla brokers and back while they are written, under either's controller.

A plain topic, a compacted one and one with transactions, and the offsets of a group with the topic that they
are kept in: whatever was acknowledged is there once, in order, and the logs are the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.mixed.nodes import BrokerOnly, MixedCluster
from tests.interop.moving.load import Load, Transactions, commit, committed, read_records, read_values
from tests.interop.moving.moves import PATIENCE_MS, SECONDS_MAX, Reassigning, contents, logs_of

ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
PLACES = [
    ("plain", 0),
    ("plain", 1),
    ("compacted", 0),
    ("transacted", 0),
    ("__consumer_offsets", 0),
    ("__transaction_state", 0),
]


def add_broker(cluster: MixedCluster, kind: str) -> BrokerOnly:
    quickly = {"log_segment_delete_delay_ms": "500", "log_cleaner_backoff_ms": "200"}
    if kind == "kafka":
        quickly["log_initial_task_delay_ms"] = "500"
    return cluster.add_broker(kind, wait=True, **quickly)


def assert_same_bytes(tool: Reassigning, brokers: dict[int, BrokerOnly], place: tuple[str, int]) -> bytes:
    """The replicas of a partition that nobody writes are equal, byte for byte."""

    def copies() -> set[bytes]:
        return {contents(brokers[node_id], place) for node_id in tool.placement(place)[1]}

    peers.wait_until(lambda: len(copies()) == 1, SECONDS_MAX, f"{place} with the same bytes", pause_s=0.2)
    return copies().pop()


@pytest.mark.parametrize("controller", ["kafka", "ottla"])
def test_topics_move_from_kafka_to_ottla_under_load_and_back(controller: str, tmp_path: Path) -> None:
    made = MixedCluster(tmp_path, controller, broker_session_timeout_ms=PATIENCE_MS)
    with Tools() as tools, made as cluster:
        kafka = add_broker(cluster, "kafka")
        tool = Reassigning(tools, kafka.bootstrap, tmp_path)
        tool.create("plain", [[1], [1]])
        tool.create(
            "compacted", [[1]], cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01"
        )
        tool.create("transacted", [[1]])
        with (
            Load(kafka.bootstrap, {"plain": 2, "compacted": 1}) as load,
            Transactions(kafka.bootstrap, "transacted") as transactions,
        ):
            load.wait_for_more(50)
            transactions.wait_for_more()
            marks = {("plain", 0): 17, ("plain", 1): 4}
            commit(kafka.bootstrap, "readers", marks)
            before = contents(kafka, ("plain", 0))
            for _ in range(2):
                add_broker(cluster, "ottla")
            brokers = {broker.node_id: broker for broker in cluster.brokers}

            # There: nothing is left on the Kafka broker.
            tool.move({place: [2, 3] for place in PLACES})
            ottla = brokers[2].bootstrap
            for place in PLACES:
                tool.wait_until_on(place, [2, 3])
                peers.wait_until(
                    lambda gone=place: not logs_of(kafka, gone),  # type: ignore[misc]
                    SECONDS_MAX,
                    f"{place} to leave Kafka's disk",
                )
            load.wait_for_more(50)
            transactions.wait_for_more()
            assert committed(ottla, "readers", list(marks)) == marks
            assert contents(brokers[3], ("plain", 0)).startswith(before)
            marks[("plain", 0)] = 40
            commit(ottla, "readers", marks)

            # And back: the Kafka broker leads again, an Ottla broker follows.
            tool.move({place: [1, 2] for place in PLACES})
            for place in PLACES:
                tool.wait_until_on(place, [1, 2])
            elected = tools.run(
                ELECT,
                *("--bootstrap-server", ottla, "--election-type", "preferred", "--all-topic-partitions"),
            )
            assert elected.exit == 0, elected.out + elected.err
            load.wait_for_more(50)
            transactions.wait_for_more()
            load.stop()
            transactions.stop()
        peers.wait_until(
            lambda: {tool.placement(place)[0] for place in PLACES} == {1}, SECONDS_MAX, "Kafka to lead all"
        )
        assert committed(kafka.bootstrap, "readers", list(marks)) == marks
        for place in (("plain", 0), ("plain", 1)):
            assert read_values(kafka.bootstrap, place) == load.written[place]
            assert_same_bytes(tool, brokers, place)
        assert assert_same_bytes(tool, brokers, ("plain", 0)).startswith(before)
        assert read_values(kafka.bootstrap, ("transacted", 0)) == transactions.committed
        assert_same_bytes(tool, brokers, ("transacted", 0))
        latest = {value[-2:]: value for value in load.written["compacted", 0]}
        found = read_records(kafka.bootstrap, ("compacted", 0))
        assert dict(found) == latest
        order = {value: number for number, value in enumerate(load.written["compacted", 0])}
        positions = [order[value] for _, value in found]
        assert positions == sorted(set(positions))
