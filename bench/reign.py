"""The work of a new controller: from its election to its first decision, with many partitions.

The decision is the one that a failover waits for: fence the broker that led the old quorum, and elect new
leaders for its partitions. Only work counts: no disk, no network, no waiting.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from ottla.controller.brokers import fence_stale_broker
from ottla.controller.image import METADATA_VERSION, ClusterImage
from ottla.controller.records import encode_record
from ottla.controller.result import finished
from ottla.controller.state import ControllerSettings, ControllerState
from ottla.wire.messages.metadata_records import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

BROKERS = (1, 2, 3)
PARTITIONS_OF_A_TOPIC = 100
LEVEL = 25


class _Rules:
    """The default settings."""

    def check(self, *_: object) -> None: ...

    def changed(self, *_: object) -> dict[str, str | None]:
        return {}

    def topic_text(self, _dynamic: object, _overrides: object, name: str) -> str:
        return {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}[name]

    def describe_topic(self, *_: object) -> list[object]:
        return []


def image_of(partitions: int) -> ClusterImage:
    """Three brokers, and topics with replicas on all of them."""
    image = ClusterImage()
    image.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=LEVEL))
    for broker in BROKERS:
        image.replay(
            RegisterBrokerRecord(
                broker_id=broker, broker_epoch=broker, fenced=False, log_dirs=[bytes([broker]) * 16]
            )
        )
    for number in range(partitions // PARTITIONS_OF_A_TOPIC):
        topic_id = number.to_bytes(16, "big")
        image.replay(TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        for index in range(PARTITIONS_OF_A_TOPIC):
            replicas = [BROKERS[(index + place) % len(BROKERS)] for place in range(len(BROKERS))]
            image.replay(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[0],
                    directories=[bytes([broker]) * 16 for broker in replicas],
                )
            )
    return image


def measure_reign(partitions: int) -> Mapping[str, float]:
    """CPU milliseconds: to take over, to decide, and both."""
    committed = image_of(partitions)
    started = time.process_time()
    state = ControllerState(
        committed.copy(),
        ControllerSettings(node_id=1, cluster_id="bench", supported_features={METADATA_VERSION: (1, LEVEL)}),
        _Rules(),  # type: ignore[arg-type]
        next_offset=committed.offset + 1,
        now_ms=0,
        kraft_version=0,
        random_bytes=bytes,
        random_below=lambda _below: 0,
    )
    taken = time.process_time()
    state.heartbeats.contact(2, 2, 60_000)
    state.heartbeats.contact(3, 3, 60_000)
    state.now_ms = 60_000
    result = finished(fence_stale_broker(state))
    values = [encode_record(record, LEVEL) for record in result.records]
    state.apply(result.records)
    decided = time.process_time()
    return {
        "take_over_ms": (taken - started) * 1000,
        "decide_ms": (decided - taken) * 1000,
        "both_ms": (decided - started) * 1000,
        "records": float(len(values)),
    }
