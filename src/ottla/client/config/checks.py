"""Checks several settings of a client together, as Kafka's clients do.

`complete` changes values where Kafka's clients do: it derives settings that were not set explicitly from
those that were, and never changes the latter.
"""

from __future__ import annotations

import itertools
from typing import Any

from ottla.client.config.schema import Kind
from ottla.config.values import split_host_port

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_INT_MAX = 2**31 - 1
_numbers = {"producer": itertools.count(1), "consumer": itertools.count(1), "admin": itertools.count(1)}


def complete(
    kind: Kind, values: dict[str, Any], given: frozenset[str], faults: list[str], warnings: list[str]
) -> None:
    """Check values that are valid one by one, and derive missing ones from others."""
    _common(values, given, faults, warnings)
    if kind == "producer":
        _producer(values, given, faults, warnings)
    elif kind == "consumer":
        _consumer(values, given, faults)
    elif kind == "admin":
        _admin(values, faults)
    if not values["client.id"]:
        values["client.id"] = _client_id(kind, values)


def _common(values: dict[str, Any], given: frozenset[str], faults: list[str], warnings: list[str]) -> None:
    for name in ("bootstrap.servers", "bootstrap.controllers"):
        if name in values:
            values[name] = tuple(split_host_port(address) for address in values[name])
    values["security.protocol"] = values["security.protocol"].upper()
    values["metadata.recovery.strategy"] = values["metadata.recovery.strategy"].lower()
    if "reconnect.backoff.ms" in given and "reconnect.backoff.max.ms" not in given:
        values["reconnect.backoff.max.ms"] = values["reconnect.backoff.ms"]
    for first, longest in (
        ("retry.backoff.ms", "retry.backoff.max.ms"),
        ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
    ):
        if values[first] > values[longest]:
            warnings.append(
                f"{first} exceeds {longest}={values[longest]}, which already limits the first wait."
            )
    if values["security.protocol"].startswith("SASL_"):
        mechanism = values["sasl.mechanism"]
        if mechanism not in MECHANISMS:
            faults.append(
                f"sasl.mechanism={mechanism} is not supported. Set it to one of {', '.join(MECHANISMS)}."
            )


def _client_id(kind: Kind, values: dict[str, Any]) -> str:
    """The names that Kafka's clients generate."""
    if kind == "producer":
        return f"producer-{values['transactional.id'] or next(_numbers[kind])}"
    if kind == "consumer":
        member = values["group.instance.id"] or next(_numbers[kind])
        return f"consumer-{values['group.id'] or 'null'}-{member}"
    return f"adminclient-{next(_numbers[kind])}"


def _producer(values: dict[str, Any], given: frozenset[str], faults: list[str], warnings: list[str]) -> None:
    values["acks"] = -1 if values["acks"] == "all" else int(values["acks"])
    if values["enable.idempotence"]:
        _idempotence(values, given, faults)
    if values["transactional.id"] is not None and not values["enable.idempotence"]:
        faults.append("transactional.id needs enable.idempotence=true, with acks=all and retries above 0.")
    if values["transaction.two.phase.commit.enable"] and "transaction.timeout.ms" in given:
        faults.append(
            "transaction.timeout.ms cannot be set with transaction.two.phase.commit.enable=true: such "
            "transactions have no time limit."
        )
    values["linger.ms"] = min(values["linger.ms"], _INT_MAX)
    least = min(values["linger.ms"] + values["request.timeout.ms"], _INT_MAX)
    if values["delivery.timeout.ms"] < least:
        if "delivery.timeout.ms" in given:
            faults.append(
                f"delivery.timeout.ms={values['delivery.timeout.ms']} must be at least linger.ms + "
                f"request.timeout.ms, which is {least}."
            )
        else:
            values["delivery.timeout.ms"] = least
            warnings.append(
                f"Raised delivery.timeout.ms to {least}, the sum of linger.ms and request.timeout.ms."
            )


def _idempotence(values: dict[str, Any], given: frozenset[str], faults: list[str]) -> None:
    """Unless idempotence was set explicitly, settings that exclude it disable it."""
    asked = "enable.idempotence" in given
    reasons = []
    if values["retries"] == 0:
        reasons.append("enable.idempotence=true needs retries above 0.")
    if values["acks"] != -1:
        reasons.append(f"enable.idempotence=true needs acks=all, not {values['acks']}.")
    if asked:
        faults += reasons
    elif reasons:
        values["enable.idempotence"] = False
    if values["max.in.flight.requests.per.connection"] > 5:
        faults.append(
            "max.in.flight.requests.per.connection must be at most 5 for the idempotent producer, not "
            f"{values['max.in.flight.requests.per.connection']}. Lower it, or set enable.idempotence=false."
        )


_NOT_WITH = {
    "classic": ("group.remote.assignor",),
    "consumer": ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"),
}


def _consumer(values: dict[str, Any], given: frozenset[str], faults: list[str]) -> None:
    protocol = values["group.protocol"] = values["group.protocol"].lower()
    wrong = [name for name in _NOT_WITH[protocol] if name in given and values[name] not in ("", ())]
    if wrong:
        faults.append(f"{', '.join(wrong)} cannot be set with group.protocol={protocol}.")
    if protocol == "classic" and values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        faults.append(
            f"heartbeat.interval.ms={values['heartbeat.interval.ms']} must be less than "
            f"session.timeout.ms={values['session.timeout.ms']}."
        )
    if values["group.id"] is None:
        if "enable.auto.commit" in given and values["enable.auto.commit"]:
            faults.append("enable.auto.commit=true needs a group.id.")
        values["enable.auto.commit"] = False
    if protocol == "classic" and not values["partition.assignment.strategy"]:
        faults.append("partition.assignment.strategy must name an assignor, for example range.")
    instance = values["group.instance.id"]
    if instance is not None and (len(instance) > 249 or instance in (".", "..") or not _is_name(instance)):
        faults.append(
            f"group.instance.id={instance} is invalid. Use at most 249 of the characters a-z, A-Z, 0-9, "
            "'.', '_' and '-', and not '.' or '..'."
        )


def _is_name(text: str) -> bool:
    return all(c.isascii() and (c.isalnum() or c in "._-") for c in text)


def _admin(values: dict[str, Any], faults: list[str]) -> None:
    servers, controllers = values["bootstrap.servers"], values["bootstrap.controllers"]
    if not servers and not controllers:
        faults.append("Set bootstrap.servers or bootstrap.controllers.")
    if servers and controllers:
        faults.append("Set either bootstrap.servers or bootstrap.controllers, not both.")
