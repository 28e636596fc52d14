"""Any request that can be decoded gets an answer that can be encoded, whatever it asks for.

Requests are drawn from a seed, most of their values close to what exists (names, ids, epochs, settings), so
that they come past the first checks. Each API has a node of its own, since some requests change much.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.unit.server.handlers.support import CONTROLLER_LISTENER, LISTENER, RunningNode
from tests.unit.wire.instances import RANGES, Instances

from ottla.server.handlers import HANDLERS
from ottla.wire import apis, codec, uuid
from ottla.wire.message import Message, Struct
from ottla.wire.schema import Field

DRAWN = 60
NEAR = 0.85  # the share of values that have a meaning to the node
TEXTS = ("a", "a", "a", "b", "", "1", "b d")
NUMBERS = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 100)

# What a field of this name could hold in earnest.
FITTING: dict[str, tuple[Any, ...]] = {
    "config_operation": (0, 1, 2, 3),
    "election_type": (0, 1),
    "endpoint_type": (1, 2),
    "entity_name": ("alice", "127.0.0.1", "2000"),
    "entity_type": ("user", "client-id", "ip"),
    "feature": ("metadata.version", "group.version", "kraft.version"),
    "key": ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"),
    "match_type": (0, 1, 2),
    "num_partitions": (-1, 1, 3),
    "replication_factor": (-1, 1),
    "resource_types": (2, 4, 8, 16, 32),
    "resource_type": (2, 4, 8, 16, 32),
    "timeout_ms": (500, 5000),
    "topic_name": ("a", "__cluster_metadata"),
    "upgrade_type": (1, 2, 3),
    "value": ("1", "1000", "compact", "delete", "INFO", None),
}
# Names of settings stand in structs of these types.
SETTINGS = ("retention.ms", "cleanup.policy", "log.retention.ms", "interval.ms", "root")
OF_SETTINGS = ("AlterableConfig", "CreatableTopicConfig")

# Produce and Fetch have tests of their own.
KEYS = sorted(api.key for api in HANDLERS if api.key not in (0, 1))


class Nearer:
    """Puts values that have a meaning to the node into a drawn request."""

    def __init__(self, request: Message, version: int, chance: random.Random, node: RunningNode) -> None:
        self._schema = codec.schema(type(request))
        self._version = version
        self._chance = chance
        image = node.broker.image
        registration = image.brokers.get(1)
        directory = node.broker.directories.directories[0]
        self._ids = (next(iter(image.topics), uuid.ZERO), directory.id, uuid.ZERO)
        self._fitting = {
            **FITTING,
            "broker_epoch": (-1 if registration is None else registration.epoch,),
            "broker_id": (1, 1, 1, 7),
            "cluster_id": (node.broker.cluster_id,),
            "path": (directory.path,),
        }
        self._change(request, self._schema.fields)

    def _change(self, struct: Struct, fields: Iterable[Field]) -> None:
        for field in fields:
            if self._version in field.versions:
                value = self._nearer(getattr(struct, field.name), field, type(struct).__name__)
                setattr(struct, field.name, value)

    def _nearer(self, value: Any, field: Field, struct: str) -> Any:
        if isinstance(value, list):
            return [self._nearer(one, field, struct) for one in value]
        if isinstance(value, Struct):
            self._change(value, self._schema.structs[field.type].fields)
            return value
        if value is None or self._chance.random() >= NEAR:
            return value
        if field.name == "name" and struct in OF_SETTINGS:
            return self._chance.choice(SETTINGS)
        fitting = self._fitting.get(field.name)
        if fitting is not None and field.type != "float64":
            chosen = self._chance.choice(fitting)
            return value if chosen is None and not field.is_nullable(self._version) else chosen
        if field.type == "string":
            return self._chance.choice(TEXTS)
        if field.type == "uuid":
            return self._chance.choice(self._ids)
        if field.type == "float64":
            return self._chance.choice((1.0, 1000.0, value))
        if field.type in RANGES:
            return max(self._chance.choice(NUMBERS), RANGES[field.type][0])
        return value


@pytest.mark.parametrize("key", KEYS, ids=lambda key: apis.API_BY_KEY[key].name)
def test_every_request_is_answered(start_node: Callable[..., RunningNode], key: int) -> None:
    node = start_node()
    node.create("a", partitions=2)
    node.append("a", 1, 2, 3, producer_id=4, producer_epoch=0, base_sequence=0)
    entry = apis.API_BY_KEY[key]
    listeners = {"broker": LISTENER, "controller": CONTROLLER_LISTENER}
    for count in range(DRAWN):
        chance = random.Random(f"{key} {count}")
        version = chance.choice(entry.stable_versions)
        request = Instances((key, count), unknown_tags=False).message(entry.request_class(), version)
        Nearer(request, version, chance, node)
        listener = listeners[chance.choice(sorted(entry.listeners))]
        response = node.ask(request, version, listener)
        assert type(response) is entry.response_class()
