"""DescribeCluster: brokers at a broker's door, controllers at a controller's."""

from __future__ import annotations

import pytest
from tests.unit.server.handlers.support import CONTROLLER_LISTENER, ask, broker_of, image_of, register

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.metadata_records import FenceBrokerRecord

BROKER, CONTROLLER = 1, 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_broker_tells_of_the_live_brokers(version: int) -> None:
    image = image_of(1, 2, 3)
    register(image, 4, rack="r4")
    image.replay(FenceBrokerRecord(id=3, epoch=30))
    response = ask(broker_of(image), DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id) == (0, "cluster-of-tests")
    assert [(one.broker_id, one.host, one.port, one.rack) for one in response.brokers] == [
        (1, "host1", 9092, None),
        (2, "host2", 9092, None),
        (4, "host4", 9092, "r4"),
    ]
    assert response.controller_id in (1, 2, 4)
    assert response.cluster_authorized_operations == -2147483648


def test_fenced_brokers_are_shown_where_asked_for() -> None:
    image = image_of(1, 2)
    image.replay(FenceBrokerRecord(id=2, epoch=20))
    response = ask(broker_of(image), DescribeClusterRequest(include_fenced_brokers=True))
    assert [(one.broker_id, one.is_fenced) for one in response.brokers] == [(1, False), (2, True)]
    assert response.controller_id == 1


def test_operations_come_where_asked_for() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert ask(broker_of(image_of()), request).cluster_authorized_operations == 8096


def test_a_controller_tells_of_the_controllers_and_their_leader() -> None:
    request = DescribeClusterRequest(endpoint_type=CONTROLLER)
    response = ask(broker_of(image_of()), request, listener=CONTROLLER_LISTENER)
    assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [(1, "host1", 9093)]
    assert (response.controller_id, response.endpoint_type) == (1, CONTROLLER)


def test_a_leader_whose_address_is_not_known_is_not_named() -> None:
    image = image_of()
    image.controllers.clear()
    request = DescribeClusterRequest(endpoint_type=CONTROLLER)
    assert ask(broker_of(image), request, listener=CONTROLLER_LISTENER).controller_id == -1


def test_the_wrong_door_is_said_to_be_wrong() -> None:
    broker = broker_of(image_of())
    at_broker = ask(broker, DescribeClusterRequest(endpoint_type=CONTROLLER))
    assert at_broker.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert at_broker.error_message == (
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    )
    at_controller = ask(broker, DescribeClusterRequest(), listener=CONTROLLER_LISTENER)
    assert at_controller.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    old = ask(broker, DescribeClusterRequest(), 0, listener=CONTROLLER_LISTENER)
    assert old.error_code == ErrorCode.INVALID_REQUEST
    unknown = ask(broker, DescribeClusterRequest(endpoint_type=7))
    assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
