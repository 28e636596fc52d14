"""Decodable requests of every API and version, with values that programs often mishandle.

The values depend on a field's name: names of topics that exist, or are paths, or are too long; unknown ids;
numbers at their limits; old and future epochs; timeouts that are short or infinite. `Lexicon` holds the
values, and learns from the node's responses (members, producers, sessions), so that requests continue earlier
ones. No request names the topic `kept`: its records must survive everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from struct import pack
from typing import Any

from ottla.wire import codec
from ottla.wire import frame as frames
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import UnencodableMessage, UnsupportedVersion
from ottla.wire.message import Message, Struct
from ottla.wire.messages.protocol_data import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    DefaultPrincipalData,
)
from ottla.wire.schema import Field
from tests.fuzz.batches import Batches

Draw = Callable[[], Any]

TOPICS = ("alpha", "beta")
KEPT = "kept"

_LIMITS = {
    "int8": (-128, 127, 0, 1, -1, 2, 3, 4),
    "int16": (-(2**15), 2**15 - 1, 0, 1, -1, 2),
    "uint16": (0, 1, 9092, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1, 0, 1, -1, 2, 1000),
    "uint32": (0, 1, 2**31, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1, 0, 1, -1, 2, 1000),
}
_FLOATS = (0.0, 1.5, -1.0, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 5e-324)
_ODD_TEXTS = ("", " ", "\x00", "a\x00b", "é€𝄞", "x" * 249, "x" * 250, "x" * 32_767, "ÿ" * 300, "\n", "null")
_PATHS = ("..", ".", "../../etc/passwd", "a/b", "/etc/passwd", "a\\b", "~", "-delete", "%2e%2e", "C:\\x")
_ODD_IDS = (bytes(16), bytes(15) + b"\x01", bytes(range(16)), b"\xff" * 16)

_TEXTS: dict[str, tuple[tuple[str | None, ...], tuple[str | None, ...]]] = {
    "topic": (
        (*TOPICS, *TOPICS, *TOPICS, "new-topic"),
        (
            "missing",
            "__consumer_offsets",
            "__transaction_state",
            "__cluster_metadata",
            "__share_group_state",
            "a.b",
            "a_b",
            *_PATHS,
        ),
    ),
    "group": (("g1", "g2", "g3"), ("", "new", *_PATHS[:3])),
    "member": (("", ""), ("m1", "m2", "AAAAAAAAAAAAAAAAAAAAAA")),
    "instance": ((None, None, "i1", "i2"), ("",)),
    "transaction": (("t1", "t2", "t3"), ("", None)),
    "cluster": ((None,), ("", "another")),
    "protocol_type": (("consumer",), ("connect", "")),
    "protocol": (("range", "roundrobin", "cooperative-sticky"), ("uniform", "")),
    "config": (
        (
            "retention.ms",
            "retention.bytes",
            "segment.bytes",
            "cleanup.policy",
            "compression.type",
            "max.message.bytes",
            "min.insync.replicas",
            "message.timestamp.type",
            "segment.ms",
            "index.interval.bytes",
            "flush.messages",
            "min.cleanable.dirty.ratio",
            "segment.index.bytes",
            "follower.replication.throttled.replicas",
            "delete.retention.ms",
            "max.compaction.lag.ms",
            "unclean.leader.election.enable",
            "preallocate",
            "file.delete.delay.ms",
        ),
        (
            "nothing.of.the.kind",
            "log.retention.ms",
            "message.max.bytes",
            "log.cleaner.threads",
            "sasl.jaas.config",
            "consumer.session.timeout.ms",
            "leader.replication.throttled.rate",
            "remote.storage.enable",
            "metrics.interval.ms",
            "num.io.threads",
            "",
        ),
    ),
    "config_value": (
        ("1", "100", "1048576", "10485760", "compact", "delete", "true", "false", "gzip", "0.5"),
        (
            "0",
            "-1",
            "-2",
            str(2**31 - 1),
            str(2**31),
            str(2**63 - 1),
            str(2**63),
            "lz4",
            "compact,delete",
            "nonsense",
            "1.5",
            "1e5",
            "NaN",
            " 7 ",
            "0x10",
            "0:1,1:1",
            "*",
            None,
            "",
        ),
    ),
    "host": (("*", "127.0.0.1"), ("", "::1", "node-1", "999.1.1.1")),
    "principal": (("User:alice", "User:*"), ("Group:x", "nobody", "User:", "", ":", None)),
    "entity_type": (("user", "client-id", "ip"), ("group", "")),
    "entity_name": (("alice", None, "127.0.0.1"), ("", "1.2.3.4.5", "a/b")),
    "quota": (
        (
            "producer_byte_rate",
            "consumer_byte_rate",
            "request_percentage",
            "controller_mutation_rate",
            "connection_creation_rate",
        ),
        ("nonsense", ""),
    ),
    "feature": (
        (
            "transaction.version",
            "group.version",
            "share.version",
            "streams.version",
            "eligible.leader.replicas.version",
        ),
        ("metadata.version", "kraft.version", "nonsense", ""),
    ),
    "listener": (("PLAINTEXT", "CONTROLLER"), ("SSL", "")),
    "path": (("/node-1/data",), ("/", "", "../x", "relative", "/node-1/data/../data")),
    "state": (
        ("Stable", "Empty", "Dead", "Ongoing", "PrepareCommit", "classic", "consumer"),
        ("nonsense", ""),
    ),
    "assignor": ((None, "uniform", "range"), ("nonsense", "")),
    "regex": ((None, "a.*", ".*"), ("(", "(a+)+$", "[", "a{1,1000}{1,1000}", "\\p{Lu}", "(?P<x>a)")),
    "software": (("librdkafka", "1.2.3"), ("", "-", "a b")),
    "resource": ((*TOPICS, *TOPICS, "1", "g1"), ("", "2", "*", "kafka-cluster", "2147483648", *_PATHS[:2])),
}
_TEXT_OF_FIELD = {
    "topic": "topic", "topic_name": "topic", "topic_names": "topic", "subscribed_topic_names": "topic",
    "group_id": "group", "group_ids": "group", "groups": "group", "groups_names": "group", "key": "group",
    "coordinator_keys": "group", "member_id": "member", "group_instance_id": "instance",
    "instance_id": "instance", "transactional_id": "transaction", "transactional_ids": "transaction",
    "v3_and_below_transactional_id": "transaction", "cluster_id": "cluster",
    "protocol_type": "protocol_type", "protocol_name": "protocol", "resource_name": "resource",
    "resource_name_filter": "resource", "host": "host", "host_filter": "host", "principal": "principal",
    "principal_filter": "principal", "entity_type": "entity_type", "entity_name": "entity_name",
    "match": "entity_name", "feature": "feature", "path": "path", "state_filters": "state",
    "states_filter": "state", "types_filter": "state", "server_assignor": "assignor",
    "subscribed_topic_regex": "regex", "transactional_id_pattern": "regex",
    "client_software_name": "software", "client_software_version": "software",
    "configuration_keys": "config", "value": "config_value",
}  # fmt: skip
_NAME_OF_STRUCT = {
    "AlterableConfig": "config", "CreatableTopicConfig": "config", "CreateableTopicConfig": "config",
    "JoinGroupRequestProtocol": "protocol", "Listener": "listener", "Feature": "feature",
    "LeaderEndpoint": "listener", "OpData": "quota",
}  # fmt: skip
_PARTITIONS = ((0, 0, 0, 1), (2, -1, 2**31 - 1, -(2**31), 7))
_EPOCHS = ((-1, -1, 0), (1, 5, -2, 2**31 - 1, -(2**31)))
_BROKER_EPOCHS = ((), (-1, 0, 1, 2**63 - 1))
_OFFSETS = ((0, 1, 2, 5), (-1, -2, -3, -4, -5, -6, 2**63 - 1, -(2**63), 2**31))
_NODES = ((1,), (-1, -2, 0, 2, 3, 2**31 - 1, -(2**31), -3))
_SMALL = ((0, 1), (-1, 2, 3, 127, -128))
_NUMBERS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    **dict.fromkeys(
        ("partition", "partition_index", "index", "partition_indexes", "partitions"), _PARTITIONS),
    **dict.fromkeys(
        ("current_leader_epoch", "leader_epoch", "last_fetched_epoch", "committed_leader_epoch", "epoch",
         "partition_epoch", "replica_epoch", "last_offset_epoch", "coordinator_epoch"), _EPOCHS),
    **dict.fromkeys(("broker_epoch", "previous_broker_epoch"), _BROKER_EPOCHS),
    **dict.fromkeys(
        ("fetch_offset", "offset", "committed_offset", "log_start_offset", "last_offset", "end_offset",
         "position", "high_watermark", "current_metadata_offset"), _OFFSETS),
    **dict.fromkeys(
        ("broker_id", "leader_id", "candidate_id", "voter_id", "controller_id", "broker_ids", "new_isr",
         "replicas", "preferred_successors"), _NODES),
    "replica_id": ((-1,), (1, 0, -2, 2, 2**31 - 1, -(2**31), -3)),
    "timestamp": ((-1, -2, -3, 0, 1_767_225_600_000), (-4, -5, -6, -7, 2**63 - 1, -(2**63))),
    "timeout_ms": ((1000, 5000), (0, 1, -1, -(2**31))),
    "max_wait_ms": ((0, 0, 1, 50), (500, -1, -(2**31))),
    "min_bytes": ((0, 0, 1), (100, -1, 2**31 - 1)),
    "max_bytes": ((1 << 20, 52_428_800), (0, 1, -1, 2**31 - 1, -(2**31))),
    "partition_max_bytes": ((1 << 20,), (0, 1, 100, -1, 2**31 - 1, -(2**31))),
    "session_id": ((0,), (1, -1, 2**31 - 1)),
    "session_epoch": ((-1, 0, 1), (2, 2**31 - 1, -2)),
    "session_timeout_ms": ((6000, 10_000), (0, -1, 1, 2**31 - 1)),
    "rebalance_timeout_ms": ((100, 5000), (1, -1, 0, -(2**31))),
    "transaction_timeout_ms": ((1000, 60_000), (1, 0, -1, 900_001, 2**31 - 1)),
    "generation_id": ((1, 2, -1), (0, 3, 2**31 - 1)),
    "generation_id_or_member_epoch": ((-1, 1, 2), (0, 3, 2**31 - 1)),
    "member_epoch": ((0, 1), (2, -1, -2, -3, 2**31 - 1)),
    "acks": ((1, -1, -1), (0, 2, -2, 2**15 - 1)),
    "producer_id": ((-1, 0), (1, 2, 1000, 2**63 - 1, -(2**63))),
    "v3_and_below_producer_id": ((0, 1), (-1, 2, 1000)),
    "producer_id_filters": ((0, 1), (-1, 1000)),
    "producer_epoch": ((0, 0, -1), (1, 2**15 - 1, -(2**15))),
    "v3_and_below_producer_epoch": ((0, 0), (-1, 1, 2**15 - 1)),
    "num_partitions": ((-1, 1, 2), (3, 0, -2, 2**31 - 1, 100_000_000)),
    "replication_factor": ((-1, 1), (0, 2, -2, 2**15 - 1)),
    "count": ((3, 4, 5), (0, 1, -1, 2**31 - 1, 100_000_000)),
    "key_type": ((0, 1), (2, -1, 127)),
    "resource_type": ((2, 2, 2, 4), (8, 16, 32, 0, 1, 3, -1, 127)),
    "config_operation": ((0, 1, 2, 3), (4, -1)),
    "match_type": ((0, 1, 2), (3, -1)),
    "election_type": ((0, 1), (2, -1)),
    "isolation_level": ((0, 1), (2, -1)),
    "upgrade_type": ((1, 2, 3), (0, 4, -1)),
    "max_version_level": ((0, 1), (2, 3, -1, 2**15 - 1)),
    "response_partition_limit": ((2000, 1), (0, -1, 2**31 - 1)),
    "endpoint_type": ((1,), (2, 0, -1)),
    "security_protocol": ((0,), (1, 3, -1, 99)),
    "operation": ((1, 2, 3), (0, -1, 127)),
    "permission_type": ((1, 2, 3), (0, -1, 127)),
    "pattern_type_filter": ((1, 2, 3), (0, 4, -1, 127)),
    "resource_pattern_type": ((3, 4), (0, 1, -1, 127)),
    "resource_type_filter": ((1, 2, 3), (0, 4, -1, 127)),
}  # fmt: skip
_ODDNESS = (0.0, 0.0, 0.02, 0.05, 0.15, 0.5)
"""How odd a request is: the probability per field. One odd field in a valid request gets furthest."""
_SHORT_ARRAYS = (1, 1, 1, 1, 1, 1, 2, 2, 3)
_LEARNED = {
    "member_id", "producer_id", "producer_epoch", "session_id", "generation_id", "member_epoch", "topic_id",
    "cluster_id",
}  # fmt: skip
_LEARNED_MAX = 24


class Lexicon:
    """The values for fields; grows with the node's responses."""

    def __init__(self) -> None:
        self.topic_ids: list[bytes] = []
        self.texts = {name: list(values) for name, (values, _) in _TEXTS.items()}
        self.numbers = {name: list(values) for name, (values, _) in _NUMBERS.items()}
        self.directory_ids: list[bytes] = []
        self.kept_id = b""
        """The id of the topic that no request may name."""
        self.batches = Batches()
        self._next = 0

    def forget(self) -> None:
        """Drop the values that came from a previous node."""
        self._next = 0
        self.topic_ids.clear()
        self.directory_ids.clear()
        for name, (values, _) in _TEXTS.items():
            del self.texts[name][len(values) :]
        for name, (numbers, _) in _NUMBERS.items():
            del self.numbers[name][len(numbers) :]

    def learn(self, message: Struct) -> None:
        """Remember ids in the node's responses."""
        for name in type(message).__slots__:
            if name in _LEARNED:
                self.keep(name, getattr(message, name))
                continue
            value = getattr(message, name)
            if type(value) is list and value and isinstance(value[0], Struct):
                for one in value[:3]:
                    self.learn(one)

    def keep(self, name: str, value: Any) -> None:
        if name == "topic_id":
            if value != self.kept_id and any(value):
                self._put(self.topic_ids, 0, value)
        elif name in ("member_id", "cluster_id") and value:
            kind = name.removesuffix("_id")
            self._put(self.texts[kind], len(_TEXTS[kind][0]), value)
        elif name in self.numbers and value > 0:
            self._put(self.numbers[name], len(_NUMBERS[name][0]), value)
            if name in ("producer_id", "producer_epoch"):
                self.keep(f"v3_and_below_{name}", value)
            elif name in ("generation_id", "member_epoch"):
                self.keep("generation_id_or_member_epoch", value)

    def _put(self, pool: list[Any], first: int, value: Any) -> None:
        if value in pool:
            return
        if len(pool) < first + _LEARNED_MAX:
            pool.append(value)
        else:
            self._next += 1
            pool[first + self._next % _LEARNED_MAX] = value


class Grammar:
    """Draws requests. A seed gives the same ones, as long as the node's responses are the same."""

    def __init__(self, draw: random.Random, lexicon: Lexicon) -> None:
        self._draw = draw
        self._random = draw.random
        self.lexicon = lexicon
        self._odd = 0.0
        self._makers: dict[tuple[int, int], Draw] = {}

    def pick(self, pool: Any) -> Any:
        return pool[int(self._random() * len(pool))]

    def frame(self, key: int, version: int, correlation_id: int) -> bytes | None:
        """A request with its size; None if the version cannot encode these values."""
        maker = self._makers.get((key, version))
        if maker is None:
            maker = self._makers[key, version] = self._struct(API_BY_KEY[key].request_class(), version)
        self._odd = self.pick(_ODDNESS)
        client_id = "fuzz" if self._random() < 0.97 else self.pick((None, "", "é\x00", "x" * 32_000))
        try:
            return frames.request_frame(maker(), version, correlation_id, client_id)
        except (UnencodableMessage, UnsupportedVersion):
            return None

    def _struct(self, outer: type[Message], version: int, name: str | None = None) -> Draw:
        schema = codec.schema(outer)
        fields = schema.fields if name is None else schema.structs[name].fields
        cls: Any = outer if name is None else getattr(outer, name)
        drawn: list[tuple[str, Draw, bool]] = []
        for field in fields:
            if version in field.versions:
                must_be_set = field.starts_null and not field.is_nullable(version)
                drawn.append((field.name, self._value(outer, field, version, name or ""), must_be_set))
        is_flexible = schema.is_flexible(version)
        rng = self._random

        def make() -> Any:
            message = cls()
            for field_name, value, must_be_set in drawn:
                if must_be_set or rng() >= self._odd:
                    setattr(message, field_name, value())
            if is_flexible and rng() < self._odd / 8:
                message.unknown_tagged_fields = {1000 + int(rng() * 30): b"x" * int(rng() * 300)}
            return message

        return make

    def _value(self, outer: type[Message], field: Field, version: int, struct: str) -> Draw:
        if field.is_struct:
            one = self._struct(outer, version, field.type)
        else:
            one = self._scalar(outer, field, struct)
        rng, pick = self._random, self.pick
        if field.is_array:
            single = one
            is_plain = not field.is_struct

            def several() -> list[Any]:
                count = pick(_SHORT_ARRAYS)
                if rng() < self._odd:
                    count = pick((0, 0, 3, 300 if is_plain else 40))
                made = [single() for _ in range(count)]
                return [value for value in made if value is not None] if is_plain else made

            one = several
        if not field.is_nullable(version):
            return one
        value = one
        is_mostly_null = field.name == "transactional_id" and outer.API_KEY in (0, 22)
        null_share = 0.8 if is_mostly_null else 0.1
        return lambda: None if rng() < null_share else value()

    def _scalar(self, outer: type[Message], field: Field, struct: str) -> Draw:
        rng, pick, lexicon = self._random, self.pick, self.lexicon
        if field.type == "bool":
            return lambda: rng() < 0.5
        if field.type == "float64":
            return lambda: pick(_FLOATS)
        if field.type == "uuid":
            known = lexicon.topic_ids if field.name == "topic_id" else lexicon.directory_ids
            return lambda: pick(known) if known and rng() >= self._odd else pick(_ODD_IDS)
        if field.type == "records":
            return lambda: memoryview(lexicon.batches.draw(self._draw, lexicon.numbers))
        if field.type == "bytes":
            return lambda: self._bytes(field)
        if field.type == "string":
            return self._text(field, struct)
        limits = _LIMITS[field.type]
        numbers = lexicon.numbers.get(field.name)
        if numbers is None:
            return lambda: pick(_SMALL[0]) if rng() >= self._odd else pick(limits)
        low, high = limits[0], limits[1]
        if field.type == "uint16":
            low, high = 0, 2**16 - 1
        odd = (*_NUMBERS[field.name][1], *limits)
        if outer.API_KEY == 64:  # UnregisterBroker of the node itself would end the round
            odd, numbers = (*odd[1:], 2, 3), [2, 3]
        given: list[int] = numbers

        def number() -> int:
            value: int = pick(given) if given and rng() >= self._odd else pick(odd)
            return min(max(value, low), high)

        return number

    def _text(self, field: Field, struct: str) -> Draw:
        rng, pick = self._random, self.pick
        name = _TEXT_OF_FIELD.get(field.name)
        if field.name == "name":
            name = _NAME_OF_STRUCT.get(struct, "topic")
        elif field.name == "key" and struct == "OpData":
            name = "quota"
        if name is None:
            return lambda: pick(("", "x")) if rng() >= self._odd else pick(_ODD_TEXTS)
        pool = self.lexicon.texts[name]
        odd = (*_TEXTS[name][1], *_TEXTS[name][1], *_ODD_TEXTS)
        is_null_allowed = field.nullable is not None

        def text() -> str | None:
            found = pick(pool) if rng() >= self._odd else pick(odd)
            return found if found is not None or is_null_allowed else ""

        return text

    def _partition(self) -> int:
        known, odd = _NUMBERS["partition"]
        return self.pick(known if self._random() < 0.8 else odd)  # type: ignore[no-any-return]

    def _bytes(self, field: Field) -> bytes:
        if self._random() < self._odd:
            return self._draw.randbytes(self.pick((0, 1, 2, 16, 40, 300)))
        if field.name == "metadata":
            topics = [self.pick(self.lexicon.texts["topic"]) for _ in range(self.pick((1, 1, 2)))]
            owned = ConsumerProtocolSubscription.TopicPartition(
                topic=topics[0], partitions=[self._partition()]
            )
            subscription = ConsumerProtocolSubscription(topics=topics, owned_partitions=[owned])
            return pack(">h", 1) + codec.encode(subscription, 1)
        if field.name == "assignment":
            given = ConsumerProtocolAssignment.TopicPartition(
                topic=self.pick(self.lexicon.texts["topic"]), partitions=[0, self._partition()]
            )
            return pack(">h", 1) + codec.encode(ConsumerProtocolAssignment(assigned_partitions=[given]), 1)
        if field.name == "request_principal":
            return pack(">h", 0) + codec.encode(DefaultPrincipalData(type="User", name="alice"), 0)
        if field.name == "request_data":
            key = self.pick((19, 20, 37, 43, 44, 45, 49, 57, 3, 58))
            inner = self.frame(key, API_BY_KEY[key].stable_versions[-1], 7)
            if inner is not None:
                return inner[4:]
        if field.name == "client_host_address":
            return self.pick((b"\x7f\x00\x00\x01", bytes(16)))  # type: ignore[no-any-return]
        return b"x"
