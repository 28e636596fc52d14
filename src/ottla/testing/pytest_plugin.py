"""Pytest fixtures, available wherever Ottla is installed.

`ottla_broker`: one broker for the whole test session. `ottla_broker_factory`: creates brokers and closes them
at the end of the test. `ottla_cluster`: three nodes for the whole session; nodes that a test killed are
started again before the next test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.testing import Broker, Cluster


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator[Broker]:
    from ottla.testing import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_broker_factory() -> Iterator[Callable[..., Broker]]:
    """Call it with the arguments of `ottla.testing.Broker`; it returns a started broker."""
    from ottla.testing import Broker

    brokers: list[Broker] = []

    def make(*arguments: Any, **options: Any) -> Broker:
        broker = Broker(*arguments, **options)
        brokers.append(broker)
        return broker.start()

    yield make
    for broker in brokers:
        broker.close()


@pytest.fixture(scope="session")
def _ottla_cluster() -> Iterator[Cluster]:
    from ottla.testing import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def ottla_cluster(_ottla_cluster: Cluster) -> Cluster:
    return _ottla_cluster.start()
