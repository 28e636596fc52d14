"""Our kafka-configs and kafka-client-metrics say what Kafka's say, on Kafka and on Ottla."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.admin import Admin, NewTopic
from ottla.tools import client_metrics, configs
from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.tools_same.same import Tool, check_same

CONFIGS = Tool("kafka.admin.ConfigCommand", configs.main)
CLIENT_METRICS = Tool("org.apache.kafka.tools.ClientMetricsCommand", client_metrics.main)
RESOURCES = [
    "--alter --entity-type topics --entity-name t-%"
    " --add-config retention.ms=5000,cleanup.policy=[delete,compact]",
    "--describe --entity-type topics --entity-name t-%",
    "--describe --topic t-%",
    "--describe --topic t-% --all",
    "--alter --topic t-% --delete-config retention.ms --add-config max.message.bytes=2000",
    "--describe --topic t-%",
    "--alter --topic t-% --delete-config cleanup.policy,max.message.bytes",
    "--describe --topic t-%",
    "--alter --topic t-% --add-config no.such.setting=1",
    "--alter --topic t-% --add-config retention.ms",
    "--alter --topic t-% --add-config a!b=1",
    "--alter --topic missing-% --add-config retention.ms=1",
    "--alter --topic t-%",
    "--alter --entity-type topics --add-config retention.ms=1",
    "--describe --topic missing-%",
    "--describe --topic missing-% --all",
    "--describe --entity-type topics --entity-default",
    "--describe --broker 1",
    "--alter --broker 1 --add-config background.threads=9",
    "--describe --broker 1",
    "--alter --broker 1 --delete-config background.threads",
    "--alter --broker-defaults --add-config log.cleaner.backoff.ms=15001",
    "--describe --broker-defaults",
    "--describe --entity-type brokers --entity-default",
    "--describe --entity-type brokers",
    "--alter --entity-type brokers --entity-default --delete-config log.cleaner.backoff.ms",
    "--alter --broker 1 --add-config node.id=7",
    "--describe --broker 99",
    "--describe --broker one",
    "--alter --entity-type brokers --add-config a=b",
    "--describe --broker-logger 99",
    "--describe --entity-type broker-loggers",
    "--alter --broker-logger 1 --add-config no.such.logger=INFO",
    "--alter --group g-% --add-config consumer.session.timeout.ms=46000",
    "--describe --group g-%",
    "--describe --group missing-%",
    "--alter --client-metrics m-% --add-config interval.ms=60000",
    "--describe --client-metrics m-%",
    "--describe --client-metrics missing-%",
    "--alter --client-metrics m-% --delete-config interval.ms",
]
# What both tools see is not deleted: whoever comes second would find nothing.
QUOTAS = [
    "--alter --user ann-% --add-config producer_byte_rate=1000,consumer_byte_rate=20000000",
    "--describe --user ann-%",
    "--alter --entity-type users --entity-name ann-% --entity-type clients --entity-name c"
    " --add-config request_percentage=50.5",
    "--describe --entity-type users --entity-name ann-% --entity-type clients --entity-name c",
    "--describe --user ann-% --client missing",
    "--alter --client c-% --add-config controller_mutation_rate=2",
    "--describe --client c-%",
    "--alter --client-defaults --add-config producer_byte_rate=5",
    "--describe --client-defaults",
    "--alter --ip 127.0.0.1 --add-config connection_creation_rate=100",
    "--describe --ip 127.0.0.1",
    "--alter --ip 127.0.0.1 --add-config producer_byte_rate=1",
    "--alter --user ann-% --delete-config request_percentage",
    "--alter --user ann-% --add-config nonsense=1",
    "--alter --user ann-% --add-config producer_byte_rate=much",
    "--alter --user ann-% --delete-config producer_byte_rate,consumer_byte_rate",
    "--describe --user ann-%",
    "--alter --client c-% --add-config SCRAM-SHA-256=[password=x]",
    "--alter --user ann-% --add-config SCRAM-SHA-256=[iterations=10,password=x]",
    "--alter --user-defaults --add-config SCRAM-SHA-256=[password=x]",
    "--alter --user ann-% --add-config SCRAM-SHA-256=[secret=x]",
]
CREDENTIALS = [
    "--alter --user bob-% --add-config SCRAM-SHA-256=[iterations=8192,password=secret]",
    "--alter --user bob-% --add-config SCRAM-SHA-512=[password=secret]",
    "--describe --user bob-%",
    "--alter --user bob-% --delete-config SCRAM-SHA-256",
    "--describe --user bob-%",
    "--alter --user nobody-% --delete-config SCRAM-SHA-256",
]
METRICS = [
    "--list",
    "--alter --name n-% --interval 60000 --match client_id=a.*,client_software_name=b --metrics x,y",
    "--describe --name n-%",
    "--alter --name n-% --interval= --metrics z",
    "--describe --name n-%",
    "--alter --name n-% --interval 5",
    "--alter --name n-% --interval soon",
    "--alter --interval 5",
    "--alter --name n-% --match nonsense",
    "--describe --name missing-%",
    "--delete --name n-%",
    "--delete --name missing-%",
    "--delete",
    "--list --name n-%",
    "--describe --interval 5",
    "--describe --list",
    "--nonsense",
    "",
]
USAGE = [
    "--describe",
    "--alter --describe --topic t",
    "--describe --topic t --add-config a=b",
    "--describe --topic t --broker 1",
    "--describe --entity-type topics --topic t",
    "--describe --entity-type nonsense",
    "--describe --entity-type topics --entity-type topics",
    "--alter --topic t --add-config a=b --add-config-file f",
    "--describe --topic t --bootstrap-controller localhost:1",
    "--nonsense",
    "",
]


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def broker(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    with peers.running(request.param) as running:
        with Admin(running.bootstrap, default_api_timeout_ms=120_000) as admin:
            admin.create_topics([NewTopic(f"t-{name}", 1, 1) for name in ("java", "ours")]).all()
        yield request.param, running.bootstrap


def lines(servers: str, written: list[str]) -> list[list[str]]:
    return [["--bootstrap-server", servers, *line.split()] for line in written]


def test_settings_are_shown_and_changed_alike(broker: tuple[str, str], tools: Tools) -> None:
    check_same(tools, CONFIGS, lines(broker[1], RESOURCES))


def test_quotas_are_shown_and_changed_alike(broker: tuple[str, str], tools: Tools) -> None:
    _, servers = broker
    check_same(tools, CONFIGS, lines(servers, QUOTAS))
    described = tools.run(
        CONFIGS.main_class, "--bootstrap-server", servers, "--describe", "--entity-type", "users"
    )
    assert described.exit == 0, described.err
    check_same(tools, CONFIGS, lines(servers, CREDENTIALS))


def test_client_metrics_are_shown_and_changed_alike(broker: tuple[str, str], tools: Tools) -> None:
    check_same(tools, CLIENT_METRICS, lines(broker[1], METRICS))
    check_same(tools, CLIENT_METRICS, [["--list"], [], ["--help"]])


def test_settings_come_from_a_file_alike(broker: tuple[str, str], tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("retention.ms=7000\n# a comment\ncleanup.policy = delete , compact\n")
    common = ["--bootstrap-server", broker[1]]
    check_same(
        tools,
        CONFIGS,
        [
            [*common, "--alter", "--topic", "t-%", "--add-config-file", str(tmp_path / "settings")],
            [*common, "--describe", "--topic", "t-%"],
            [*common, "--alter", "--topic", "t-%", "--add-config-file", str(tmp_path / "missing")],
        ],
    )


def test_bad_command_lines_end_alike(tools: Tools) -> None:
    check_same(tools, CONFIGS, lines("localhost:1", USAGE))
    check_same(tools, CONFIGS, [["--describe", "--topic", "t"], [], ["--help"]])
