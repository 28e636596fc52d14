"""Requests about configs of topics, brokers and other resources."""

from __future__ import annotations

from typing import Any

from tests.interop.clients.same.registry import asks
from tests.interop.clients.same.session import Session

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


@asks("DescribeConfigs")
def everything_about_a_topic(session: Session, version: int) -> None:
    name = session.create("described", retention_ms=1234, cleanup_policy="compact,delete")
    session.ask(
        "DescribeConfigs",
        version,
        resources=[resource(TOPIC, name)],
        include_synonyms=True,
        include_documentation=True,
    )


@asks("DescribeConfigs")
def chosen_configs_of_a_topic(session: Session, version: int) -> None:
    name = session.create("chosen")
    for keys in (["retention.ms", "segment.ms"], ["no.such.config", "retention.ms"], [], [""]):
        session.ask("DescribeConfigs", version, resources=[resource(TOPIC, name, keys)])
    session.ask("DescribeConfigs", version, resources=[resource(TOPIC, name, ["retention.ms"])] * 2)
    session.ask("DescribeConfigs", version, resources=[])


@asks("DescribeConfigs")
def everything_about_the_broker(session: Session, version: int) -> None:
    session.ask(
        "DescribeConfigs",
        version,
        resources=[resource(BROKER, "1")],
        include_synonyms=True,
        include_documentation=True,
    )
    session.ask("DescribeConfigs", version, resources=[resource(BROKER, "")], include_synonyms=True)


@asks("DescribeConfigs")
def configs_of_what_does_not_exist(session: Session, version: int) -> None:
    for kind, name in (
        (TOPIC, session.name("unknown")),
        (TOPIC, ""),
        (TOPIC, "a b"),
        (BROKER, "2"),
        (BROKER, "one"),
        (BROKER, "-1"),
        (0, "x"),
        (1, "x"),
        (3, "x"),
        (99, "x"),
        (LOGGER, "2"),
        (LOGGER, ""),
        (CLIENT_METRICS, "nothing"),
        (CLIENT_METRICS, ""),
        (GROUP, session.name("group")),
        (GROUP, ""),
    ):
        session.ask("DescribeConfigs", version, resources=[resource(kind, name)])


def changed_topic(session: Session, name: str) -> None:
    """A topic's current own configs."""
    response = session.quietly("DescribeConfigs", 4, resources=[resource(TOPIC, name)])
    rows = {row.name: row.value for row in response.results[0].configs if row.config_source == 1}
    session.note("configs of the topic", rows)


@asks("AlterConfigs")
def all_configs_of_a_topic_at_once(session: Session, version: int) -> None:
    name = session.create("altered", retention_ms=1000, segment_bytes=1048576)

    def ask(*configs: tuple[str, str | None], validate_only: bool = False, kind: int = TOPIC) -> None:
        rows = [{"name": key, "value": value} for key, value in configs]
        asked = [{"resource_type": kind, "resource_name": name, "configs": rows}]
        session.ask("AlterConfigs", version, resources=asked, validate_only=validate_only)

    ask(("retention.ms", "2000"), validate_only=True)
    changed_topic(session, name)
    ask(("retention.ms", "2000"), ("flush.ms", "77"))
    session.wait_config(TOPIC, name, "retention.ms", "2000")
    changed_topic(session, name)
    ask(("retention.ms", "soon"))
    ask(("no.such.config", "1"))
    ask(("retention.ms", None))
    ask(("retention.ms", "1"), ("retention.ms", "2"))
    ask(("cleanup.policy", "burn"))
    ask(("", "x"))
    changed_topic(session, name)
    ask()
    session.wait_config(TOPIC, name, "retention.ms", "604800000")
    changed_topic(session, name)


@asks("AlterConfigs")
def configs_that_cannot_be_altered(session: Session, version: int) -> None:
    row = [{"name": "retention.ms", "value": "1"}]
    for kind, target in (
        (TOPIC, session.name("unknown")),
        (TOPIC, ""),
        (TOPIC, "a b"),
        (BROKER, "2"),
        (BROKER, "one"),
        (0, "x"),
        (99, "x"),
        (LOGGER, "1"),
        (GROUP, ""),
        (CLIENT_METRICS, ""),
    ):
        asked = [{"resource_type": kind, "resource_name": target, "configs": row}]
        session.ask("AlterConfigs", version, resources=asked)
    # Not asked: the same resource twice, which Kafka never answers.
    session.ask("AlterConfigs", version, resources=[])


def change(operation: int, name: str, value: str | None) -> dict[str, Any]:
    return {"name": name, "config_operation": operation, "value": value}


def ask_change(
    session: Session, version: int, kind: int, name: str, *changes: dict[str, Any], validate: bool = False
) -> None:
    asked = [{"resource_type": kind, "resource_name": name, "configs": list(changes)}]
    session.ask("IncrementalAlterConfigs", version, resources=asked, validate_only=validate)


@asks("IncrementalAlterConfigs")
def configs_of_a_topic_one_by_one(session: Session, version: int) -> None:
    name = session.create("incremental", retention_ms=1000, cleanup_policy="delete")
    ask_change(session, version, TOPIC, name, change(SET, "segment.ms", "4321"), validate=True)
    changed_topic(session, name)
    ask_change(session, version, TOPIC, name, change(SET, "segment.ms", "4321"))
    session.wait_config(TOPIC, name, "segment.ms", "4321")
    ask_change(session, version, TOPIC, name, change(APPEND, "cleanup.policy", "compact"))
    session.wait_config(TOPIC, name, "cleanup.policy", "delete,compact")
    ask_change(session, version, TOPIC, name, change(APPEND, "cleanup.policy", "compact"))
    ask_change(session, version, TOPIC, name, change(SUBTRACT, "cleanup.policy", "delete"))
    session.wait_config(TOPIC, name, "cleanup.policy", "compact")
    ask_change(session, version, TOPIC, name, change(SUBTRACT, "cleanup.policy", "never-there"))
    ask_change(
        session,
        version,
        TOPIC,
        name,
        change(DELETE, "retention.ms", None),
        change(DELETE, "flush.ms", None),
        change(SET, "flush.messages", "9"),
    )
    session.wait_config(TOPIC, name, "flush.messages", "9")
    changed_topic(session, name)


@asks("IncrementalAlterConfigs")
def changes_that_are_refused(session: Session, version: int) -> None:
    name = session.create("refused", retention_ms=1000)
    for refused in (  # no unknown operation: it makes Kafka's controller fall over
        change(SET, "retention.ms", "soon"),
        change(SET, "retention.ms", None),
        change(SET, "no.such.config", "1"),
        change(DELETE, "no.such.config", None),
        change(APPEND, "retention.ms", "1"),
        change(SUBTRACT, "retention.ms", "1"),
        change(APPEND, "no.such.config", "1"),
        change(SET, "cleanup.policy", "burn"),
        change(APPEND, "cleanup.policy", "burn"),
        change(SET, "min.insync.replicas", "0"),
        change(SET, "", "1"),
        change(SET, "segment.bytes", "10"),
    ):
        ask_change(session, version, TOPIC, name, refused)
    twice = (change(SET, "retention.ms", "1"), change(SET, "retention.ms", "2"))
    ask_change(session, version, TOPIC, name, *twice)
    ask_change(session, version, TOPIC, name)
    for kind, target in (
        (TOPIC, session.name("unknown")),
        (TOPIC, ""),
        (BROKER, "2"),
        (BROKER, "one"),
        (0, "x"),
        (99, "x"),
        (GROUP, ""),
        (CLIENT_METRICS, ""),
    ):
        ask_change(session, version, kind, target, change(SET, "retention.ms", "1"))
    same = {"resource_type": TOPIC, "resource_name": name, "configs": [change(SET, "flush.ms", "1")]}
    session.ask("IncrementalAlterConfigs", version, resources=[same, same])
    session.ask("IncrementalAlterConfigs", version, resources=[])
    changed_topic(session, name)


@asks("IncrementalAlterConfigs")
def configs_of_the_broker(session: Session, version: int) -> None:
    def ask(name: str, *changes: dict[str, Any], validate: bool = False) -> None:
        ask_change(session, version, BROKER, name, *changes, validate=validate)

    ask("1", change(SET, "log.dirs", "/elsewhere"))
    ask("1", change(SET, "node.id", "7"))
    ask("1", change(SET, "no.such.config", "1"))
    ask("1", change(SET, "num.io.threads", "none"))
    ask("1", change(SET, "num.io.threads", "0"))
    ask("", change(SET, "listeners", "PLAINTEXT://:1"))
    ask("", change(SET, "log.retention.ms", "86400000"), validate=True)
    ask("", change(SET, "log.retention.ms", "86400000"))
    try:
        session.wait_config(BROKER, "1", "log.retention.ms", "86400000")
        asked = [resource(BROKER, "1", ["log.retention.ms"]), resource(BROKER, "", ["log.retention.ms"])]
        session.ask("DescribeConfigs", 4, resources=asked, include_synonyms=True)
        name = session.create("inherits")
        asked = [resource(TOPIC, name, ["retention.ms"])]
        session.ask("DescribeConfigs", 4, resources=asked, include_synonyms=True)
        ask("1", change(SET, "log.retention.ms", "3600000"))
        session.wait_config(BROKER, "1", "log.retention.ms", "3600000")
        session.ask("DescribeConfigs", 4, resources=asked, include_synonyms=True)
    finally:
        ask("1", change(DELETE, "log.retention.ms", None))
        ask("", change(DELETE, "log.retention.ms", None))
    session.wait_config(BROKER, "1", "log.retention.ms", None)


@asks("ListConfigResources")
def resources_with_configs(session: Session, version: int) -> None:
    session.create("listed")
    if version == 0:
        session.ask("ListConfigResources", version)
        return
    for kinds in ([TOPIC], [BROKER], [BROKER, TOPIC], [CLIENT_METRICS], [GROUP], [LOGGER], [99], [0]):
        session.ask("ListConfigResources", version, resource_types=kinds)
    session.ask("ListConfigResources", version, resource_types=[])
