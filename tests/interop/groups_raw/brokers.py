"""How brokers are set and made ready for scripts of group requests."""

from __future__ import annotations

from tests.interop import peers
from tests.interop.groups_raw.conversation import Talk

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "group.max.size": "4",
    "group.min.session.timeout.ms": "100",
    "group.consumer.max.size": "4",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    # The order of topics in an assignment by the uniform assignor is that of their ids: it is chosen by name.
    "group.consumer.assignors": "range,uniform",
    # Assignments are made at once, so that each answer is the same in each run.
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
}


def wait_for_coordinator(broker: peers.BrokerProcess) -> None:
    """The topics of coordinators are made when somebody first asks for one, and then loaded."""

    def ready() -> bool:
        for kind in (0, 1):
            [row] = talk.hears("FindCoordinator", key_type=kind, coordinator_keys=["any"]).coordinators
            if row.error_code:
                return False
        fields = {"group_id": "any", "generation_id": 0, "member_id": "x"}
        return bool(talk.hears("Heartbeat", **fields).error_code == 25)

    with Talk(broker, 0, {}) as talk:
        peers.wait_until(ready, 30, "the coordinator of groups")
        talk.topics(alpha=3, beta=2, gamma=1)
