"""The clients' settings beside those in Kafka's jars: names, defaults, values alone and together."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.config import (
    AdminSettings,
    CommonSettings,
    ConfigError,
    ConsumerSettings,
    Parameter,
    ProducerSettings,
    parameters,
)
from ottla.client.config.schema import CLIENTS, Kind
from ottla.config.values import ConfigType, InvalidValue, show
from tests.interop import peers

_SOURCE = Path(__file__).parent / "java" / "ClientConfigOracle.java"
_CLASSES: dict[str, type[CommonSettings]] = {
    "producer": ProducerSettings,
    "consumer": ConsumerSettings,
    "admin": AdminSettings,
}
_TEXTS = {
    ConfigType.BOOLEAN: ["true", " FALSE ", "yes", "", "1"],
    ConfigType.STRING: [
        "",
        " x ",
        "none",
        "GZIP",
        "zstd",
        "plaintext",
        "sasl_SSL",
        "earliest",
        "all",
        "-1",
        "2",
    ],
    ConfigType.LIST: ["", "a", " a , b "],
    ConfigType.DOUBLE: ["", "0", "-0.1", "0.25", "0.5", "1", "1.00001", "x"],
}
_NUMBERS = [
    "",
    "x",
    "1.5",
    "+5",
    " 7 ",
    "--1",
    "-131073",
    "-131072",
    "-2",
    "-1",
    "0",
    "1",
    "2",
    "5",
    "9",
    "10",
]
_NUMBERS += ["17", "18", "22", "23", "900", "901", "3600", "4999", "5000", "86401", "32768", "2147483647"]
_NUMBERS += ["2147483648", "9223372036854775807", "9223372036854775808"]
_SPECIAL = {
    "auto.offset.reset": ["by_duration:P1D", "by_duration:PT0.5S", "by_duration:-PT1S", "by_duration", "NONE"]
}
# Kafka looks at addresses later, when it connects; ours looks at once. What is for share groups is refused.
_CHECKED_HERE = (
    "bootstrap.servers",
    "bootstrap.controllers",
    "share.acknowledgement.mode",
    "share.acquire.mode",
)


def kafkas(kind: Kind) -> Iterator[Parameter]:
    for parameter in parameters(kind).values():
        if parameter.use != "own" and not (parameter.name == "client.rack" and kind != "consumer"):
            yield parameter


def cases() -> list[tuple[Kind, str, str]]:
    found: list[tuple[Kind, str, str]] = []
    for kind in CLIENTS:
        for parameter in kafkas(kind):
            # A class is judged by whether a JVM finds it, and every text is a password.
            judged = parameter.type not in (ConfigType.CLASS, ConfigType.PASSWORD)
            if judged and parameter.name not in _CHECKED_HERE and not parameter.takes_objects:
                texts = [*_TEXTS.get(parameter.type, _NUMBERS), *_SPECIAL.get(parameter.name, ())]
                found += [(kind, parameter.name, text) for text in texts]
    return found


def combinations() -> list[tuple[str, dict[str, str]]]:
    """Random settings of those that depend on each other."""
    chance = random.Random(4)
    sasl = {"security.protocol": ["SASL_SSL", "PLAINTEXT"], "sasl.mechanism": ["PLAIN", ""]}
    common = {
        "reconnect.backoff.ms": ["7"],
        "reconnect.backoff.max.ms": ["9"],
        "retry.backoff.ms": ["5000"],
        **sasl,
    }
    choices: dict[str, dict[str, list[str]]] = {
        "producer": {
            "acks": ["all", "-1", "0", "1"],
            "retries": ["0", "5"],
            "enable.idempotence": ["true", "false"],
            "max.in.flight.requests.per.connection": ["1", "5", "6"],
            "transactional.id": ["t"],
            "transaction.timeout.ms": ["5"],
            "transaction.two.phase.commit.enable": ["true", "false"],
        },
        "consumer": {
            "group.id": ["g"],
            "enable.auto.commit": ["true", "false"],
            "group.protocol": ["consumer", "CLASSIC"],
            "group.remote.assignor": ["uniform"],
            "session.timeout.ms": ["10000"],
            "heartbeat.interval.ms": ["1000"],
            "group.instance.id": ["i", "a/b"],
        },
        "admin": {},
    }
    found = []
    for kind, own in choices.items():
        for _ in range(400):
            given = {"bootstrap.servers": "localhost:9092"}
            for name, texts in {**common, **own}.items():
                if chance.random() < 0.35:
                    given[name] = chance.choice(texts)
            if given.get("security.protocol") == "SASL_SSL":  # Kafka's default mechanism is not ours
                given.setdefault("sasl.mechanism", "PLAIN")
            found.append((kind, given))
    return found


@pytest.fixture(scope="module")
def kafka() -> dict[str, Any]:
    classes = peers.javac_compile([_SOURCE])
    question = {"values": cases(), "whole": combinations()}
    result = peers.java_run("ClientConfigOracle", classes=classes, input=json.dumps(question).encode())
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.parametrize("kind", CLIENTS)
def test_we_have_kafkas_settings_with_their_types_and_defaults(kafka: dict[str, Any], kind: Kind) -> None:
    theirs = kafka["definitions"][kind]
    assert {parameter.name for parameter in kafkas(kind)} == set(theirs)
    for parameter in kafkas(kind):
        told = theirs[parameter.name]
        assert (parameter.type.name, parameter.importance) == (told["type"], told["importance"]), (
            parameter.name
        )
        default = None if told["default"] is None else told["default"].replace("class ", "")
        if parameter.kafka:
            marks = {"!": None, "-": None, '""': ""}
            assert marks.get(parameter.kafka, parameter.kafka) == default, parameter.name
        else:
            assert (parameter.default, parameter.required) == (default, told["required"]), parameter.name


def test_every_setting_takes_and_refuses_the_same_texts_with_the_same_sentence(kafka: dict[str, Any]) -> None:
    different = []
    for (kind, name, text), theirs in zip(cases(), kafka["values"], strict=True):
        ours: dict[str, str | None] = {}
        try:
            ours["value"] = show(parameters(kind)[name].parse(text))
        except InvalidValue as error:
            ours["error"] = str(error)
        if ours != theirs:
            different.append((kind, name, text, ours, theirs))
    assert different == []


def test_settings_that_depend_on_each_other_are_taken_and_refused_alike(kafka: dict[str, Any]) -> None:
    compared = (
        "acks",
        "enable.idempotence",
        "enable.auto.commit",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
    )
    for (kind, given), theirs in zip(combinations(), kafka["whole"], strict=True):
        try:
            ours = dict(_CLASSES[kind].parse(given).items())
        except ConfigError as error:
            ours = {"error": str(error)}
        assert ("error" in ours) == ("error" in theirs), (given, ours.get("error"), theirs.get("error"))
        for name in compared:
            if name in ours:
                shown = theirs[name] if name != "acks" else theirs[name].replace("all", "-1")
                assert show(ours[name]) == shown, (name, given)
