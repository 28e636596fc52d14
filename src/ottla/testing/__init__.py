"""Tools for tests that need a broker: public, and part of what Ottla promises.

    from ottla.testing import Broker

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

or, in pytest, the fixture `ottla_broker`.
"""

from ottla.testing.broker import Broker, BrokerFailed

__all__ = ["Broker", "BrokerFailed"]
