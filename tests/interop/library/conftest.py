"""The clusters that the client library is tried on: one Ottla node, three of them, and Apache Kafka.

`cluster` starts each when the first test needs it, and ends it by its processes' ids when the last is done.
Tests name their topics with `support.unique`, so that they can share a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import Cluster as OttlaCluster
from tests.interop import peers
from tests.interop.library.support import LibraryCluster

KINDS = ("ottla-1", "ottla-3", "kafka")
# Members hear of rebalances by heartbeats: tests wait for them.
QUICK_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="session", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[LibraryCluster]:
    kind: str = request.param
    if kind == "ottla-3":
        with OttlaCluster(3, overrides={"offsets.topic.num.partitions": "3", **QUICK_GROUPS}) as three:
            yield LibraryCluster(three.bootstrap_servers, kind, three)
        return
    with peers.running("ottla" if kind == "ottla-1" else kind, properties=QUICK_GROUPS) as broker:
        yield LibraryCluster(broker.bootstrap, kind, broker)
