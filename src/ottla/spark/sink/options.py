"""The options of the sink, parsed once by the driver and sent to tasks as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.spark.options import Kind, Option, OptionError, OptionTable

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
BINARY, JSON, AVRO = "binary", "json", "avro"
FAIL, ACCEPT = "fail", "accept"

TRANSACTION_TIMEOUT_MS = 300_000
"""The default limit for a batch: ample for a batch, and short for readers blocked by a dead driver's
transaction."""

_OPTIONS = (
    Option("topic", doc="The topic; without it, the column topic of each row."),
    Option(
        "delivery",
        Kind.CHOICE,
        EXACTLY_ONCE,
        "The delivery guarantee: exactly-once, or at-least-once, which may write duplicates.",
        (EXACTLY_ONCE, AT_LEAST_ONCE),
    ),
    Option("transactionalId", doc="The transactional id of the query: unique, and the same at each start."),
    Option(
        "markerGroup",
        doc="The consumer group that stores the last batch; default ottla-spark.<transactionalId>.",
    ),
    Option("markerTopic", doc="The topic under which the group stores it; default: the option topic."),
    Option("takeOver", Kind.BOOLEAN, False, "Take over a transactional id from another query."),
    Option(
        "missingMarker",
        Kind.CHOICE,
        FAIL,
        "What to do if a query that has completed batches finds no marker of them.",
        (FAIL, ACCEPT),
    ),
    Option("keyColumn", doc="A column whose text is the key, beside being part of the value."),
    Option(
        "valueFormat",
        Kind.CHOICE,
        BINARY,
        "binary: the column value as it is; json and avro: all other columns together.",
        (BINARY, JSON, AVRO),
    ),
    Option("valueSchema", doc="The Avro schema of values, as JSON."),
    Option("valueSchemaId", Kind.NUMBER, None, "The id of the schema in a registry, to frame values with."),
    Option("writers", Kind.COUNT, None, "The number of writing tasks; default: Spark's default parallelism."),
    Option("attempts", Kind.COUNT, 3, "The number of attempts per batch before the query fails."),
    Option("checkpointLocation", Kind.UNUSED),
    Option("queryName", Kind.UNUSED),
    Option("path", Kind.UNUSED),
)
TABLE = OptionTable("the sink", _OPTIONS)

_FIXED = {"enable.idempotence": "true", "acks": "all"}
_DEFAULTS = {
    "client.id": "ottla-spark-sink",
    "buffer.memory": str(64 << 20),
    "max.request.size": str(4 << 20),
    "linger.ms": "0",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed and checked options."""

    topic: str | None
    delivery: str
    transactional_id: str | None
    marker_group: str
    marker_topic: str
    take_over: bool
    accepts_missing_marker: bool
    key_column: str | None
    value_format: str
    value_schema: str | None
    value_schema_id: int | None
    writers: int | None
    attempts: int
    client: Mapping[str, str]
    """Producer properties, without the transactional id."""
    transaction_timeout_ms: int

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == EXACTLY_ONCE

    @property
    def admin_client(self) -> dict[str, str]:
        """The properties that Admin accepts, too."""
        from ottla.client.config.schema import parameters

        known = parameters("admin")
        return {name: value for name, value in self.client.items() if name in known}


def parse(given: Mapping[str, str], *, needs_id: bool = True) -> SinkOptions:
    """Parse the options; OptionError has one line per problem. A query `needs_id`, since it can restart."""
    values = TABLE.parse(given)
    client: dict[str, str] = dict(values["kafka"])
    transactional_id = values["transactionalId"] or client.pop("transactional.id", None)
    client.pop("transactional.id", None)
    faults = list(_faults(values, client, transactional_id, needs_id))
    for name, text in _FIXED.items():
        if client.setdefault(name, text).lower() not in (text, "-1"):
            faults.append(f"kafka.{name}={client[name]} is not supported here. Omit it ({text}).")
    for name, text in _DEFAULTS.items():
        client.setdefault(name, text)
    timeout_ms = int(client.setdefault("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS)) or 0)
    if faults:
        raise OptionError("\n".join(faults))
    _check_client(client)
    return SinkOptions(
        topic=values["topic"],
        delivery=values["delivery"],
        transactional_id=transactional_id,
        marker_group=values["markerGroup"] or f"ottla-spark.{transactional_id}",
        marker_topic=values["markerTopic"] or values["topic"] or "__consumer_offsets",
        take_over=values["takeOver"],
        accepts_missing_marker=values["missingMarker"] == ACCEPT,
        key_column=values["keyColumn"],
        value_format=values["valueFormat"],
        value_schema=values["valueSchema"],
        value_schema_id=values["valueSchemaId"],
        writers=values["writers"],
        attempts=values["attempts"],
        client=client,
        transaction_timeout_ms=timeout_ms,
    )


def _faults(
    values: Mapping[str, Any], client: Mapping[str, str], transactional_id: str | None, needs_id: bool
) -> list[str]:
    faults = []
    exactly_once = values["delivery"] == EXACTLY_ONCE
    if exactly_once and needs_id and not (transactional_id or "").strip():
        faults.append(
            "Exactly-once delivery needs a transactionalId that is unique to this query and stays the "
            f"same across restarts. Without one, use the option delivery={AT_LEAST_ONCE}, which may write "
            "duplicates."
        )
    if not exactly_once and transactional_id:
        faults.append(
            f"delivery={AT_LEAST_ONCE} does not use transactions. Omit transactionalId or delivery."
        )
    if values["valueFormat"] == AVRO and not values["valueSchema"]:
        faults.append("valueFormat=avro needs the option valueSchema: the Avro schema, as JSON.")
    if values["valueFormat"] != AVRO and (values["valueSchema"] or values["valueSchemaId"] is not None):
        faults.append("valueSchema and valueSchemaId are for valueFormat=avro.")
    if not client.get("transaction.timeout.ms", "1").isdigit():
        faults.append("kafka.transaction.timeout.ms must be a number of milliseconds.")
    return faults


def _check_client(client: Mapping[str, str]) -> None:
    """Check the producer's properties with its own table before anything starts."""
    from ottla.client.config import ProducerSettings
    from ottla.client.errors import ConfigError

    try:
        ProducerSettings.parse(client)
    except ConfigError as error:
        raise OptionError(f"Invalid client properties (kafka.*): {error}") from None
