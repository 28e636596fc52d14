"""A controller decides alike on what its own node and what other nodes ask for."""

from __future__ import annotations

import pytest
from tests.unit.controller.cluster import Cluster

from ottla.controller.decisions import decision_for, local_decision_for
from ottla.wire.errors import DuplicateBrokerRegistration
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest


def creation(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in names
        ]
    )


def test_topics_are_created_alike_for_this_node_and_for_others() -> None:
    cluster = Cluster()
    cluster.start(1)
    cluster.do(decision_for(creation("a", "b"), 7))
    codes = [one.error_code for one in cluster.do(local_decision_for(creation("b", "c"))).topics]
    assert codes == [36, 0]
    assert sorted(cluster.image.topics_by_name) == ["a", "b", "c"]


def test_only_the_broker_of_this_node_need_not_wait_for_the_end_of_its_last_session() -> None:
    cluster = Cluster()
    cluster.start(1)
    registered = cluster.image.brokers[1]
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=cluster.state.settings.cluster_id,
        incarnation_id=b"another run of 1",
        listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="localhost", port=9092)],
        features=[
            BrokerRegistrationRequest.Feature(
                name=name, min_supported_version=lowest, max_supported_version=highest
            )
            for name, (lowest, highest) in cluster.state.settings.supported_features.items()
        ],
        log_dirs=list(registered.directories),
    )
    with pytest.raises(DuplicateBrokerRegistration):
        cluster.do(decision_for(request, 4))
    cluster.do(local_decision_for(request))
    assert cluster.image.brokers[1].epoch > registered.epoch
