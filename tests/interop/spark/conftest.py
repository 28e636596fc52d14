"""One Spark for all tests here, and the brokers that they use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.interop import peers
from tests.interop.spark.support import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with two cores, the format "ottla" and Spark's own connector to Kafka."""
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="package")
def broker() -> Iterator[peers.BrokerProcess]:
    """One Ottla node, in a separate process."""
    with peers.running("ottla") as node:
        yield node


@pytest.fixture(scope="package")
def kafka() -> Iterator[peers.BrokerProcess]:
    """One Apache Kafka node."""
    with peers.running("kafka") as node:
        yield node
