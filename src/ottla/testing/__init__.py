"""Tools for tests that need a broker. This package is public API.

    from ottla.testing import Broker

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

or, in pytest, the fixture `ottla_broker`. `Cluster` and `ottla_cluster` do the same with several nodes.
`World` simulates a whole cluster with its clients: see `ottla.testing.world`.
"""

from ottla.testing.broker import Broker, BrokerFailed
from ottla.testing.cluster import Cluster
from ottla.testing.world import World

__all__ = ["Broker", "BrokerFailed", "Cluster", "World"]
