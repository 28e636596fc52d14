"""Our definitions and our checks of single values against those in Kafka's jars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.config import ConfigType, Definition, InvalidValue, ResourceType, Scope, definitions, show
from tests.interop.tools.oracle import ask

KINDS = {
    "broker": ResourceType.BROKER,
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}

_TEXTS = {
    ConfigType.BOOLEAN: ["true", " FALSE ", "yes", "", "1"],
    ConfigType.STRING: [
        "",
        " x ",
        "none",
        "GZIP",
        "plaintext",
        "earliest",
        "by_duration:PT1S",
        "by_duration:x",
    ],
    ConfigType.LIST: [
        "",
        "a",
        " a , b ",
        "a,a",
        "a,,b",
        ",",
        "*",
        "1:2",
        "1:2,*",
        "delete,compact",
        "broker",
    ],
    ConfigType.DOUBLE: [
        "",
        "0",
        "-0.1",
        "0.5",
        "1",
        "1.00001",
        "1e-9",
        "1E30",
        "x",
        "1,5",
        "0.25d",
        "Infinity",
    ],
}
_NUMBERS = [
    "",
    "x",
    "1.5",
    "1e3",
    "+5",
    " 7 ",
    "1_000",
    "--1",
    "-131073",
    "-3",
    "-2",
    "-1",
    "0",
    "1",
    "2",
    "9",
]
_NUMBERS += ["10", "17", "18", "22", "23", "100", "1000", "1048575", "1048576", "32767", "32768"]
_NUMBERS += ["2147483647", "2147483648", "9223372036854775807", "9223372036854775808"]
_SPECIAL = {
    "controller.quorum.voters": ["1@h:1", "1@h:1,2@[::1]:2", "1", "a@b:1", "1@b:x", "1@b", "@h:1"],
    "controller.quorum.bootstrap.servers": ["h:1", "h:1,[::1]:2", "h", "h:x", ":1"],
}
# What Kafka takes and we do not: lists with an entry that says nothing.
_DIFFERENT = {
    ("controller.quorum.bootstrap.servers", ":1"),
    ("follower.replication.throttled.replicas", ","),
    ("leader.replication.throttled.replicas", ","),
}


@pytest.fixture(scope="module")
def kafka() -> dict[str, dict[str, Any]]:
    answer: dict[str, dict[str, Any]] = ask("ConfigOracle", {"definitions": True})["definitions"]
    return answer


def is_kafkas(found: Definition) -> bool:
    return not found.name.startswith("ottla.")


@pytest.mark.parametrize("kind", KINDS)
def test_we_have_kafkas_settings_and_no_others(kafka: dict[str, dict[str, Any]], kind: str) -> None:
    ours = {found.name for found in definitions(KINDS[kind]).values() if is_kafkas(found)}
    theirs = set(kafka[kind]) | (set(kafka["dynamic-broker"]) if kind == "broker" else set())
    assert ours == theirs


@pytest.mark.parametrize("kind", KINDS)
def test_type_default_importance_scope_and_synonyms_are_kafkas(
    kafka: dict[str, dict[str, Any]], kind: str
) -> None:
    for name, theirs in (kafka[kind] | (kafka["dynamic-broker"] if kind == "broker" else {})).items():
        found = definitions(KINDS[kind])[name]
        compared = kind == "broker" and found.scope is not Scope.DYNAMIC_ONLY
        scope = found.scope.value if compared else theirs["mode"]
        ours = {
            "type": found.type.name,
            "required": found.required,
            "default": found.kafka_default,
            "importance": found.importance,
            "internal": found.internal,
            "mode": "read-only" if found.internal else scope,
            "synonyms": list(found.synonyms),
        }
        assert ours == {"default": None, **theirs}, name


def cases() -> Iterator[tuple[str, str, str]]:
    for kind, resource in KINDS.items():
        for found in definitions(resource).values():
            # A class is judged by whether a JVM finds it, and every text is a password.
            judged = is_kafkas(found) and found.scope is not Scope.DYNAMIC_ONLY
            if not judged or found.type in (ConfigType.CLASS, ConfigType.PASSWORD):
                continue
            texts = [*_TEXTS.get(found.type, _NUMBERS), *_SPECIAL.get(found.name, ()), found.default or ""]
            texts += found.valid.partition("of")[2].replace(", in any case,", "").split()
            for text in dict.fromkeys(texts):
                yield kind, found.name, text


def test_every_setting_takes_and_refuses_the_same_texts_with_the_same_sentence() -> None:
    asked = list(cases())
    answers = ask("ConfigOracle", {"values": asked})["values"]
    different = []
    for (kind, name, text), theirs in zip(asked, answers, strict=True):
        ours: dict[str, str | None] = {}
        try:
            ours["value"] = show(definitions(KINDS[kind])[name].parse(text))
        except InvalidValue as error:
            ours["error"] = str(error)
        if ours != theirs and (name, text) not in _DIFFERENT:
            different.append((kind, name, text, ours, theirs))
    assert different == []
    assert len(asked) > 5000
