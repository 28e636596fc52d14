"""Removed options: one line names the replacement."""

from __future__ import annotations

from importlib import import_module

import pytest

ONCE_ASKED_ZOOKEEPER = [
    "acls",
    "configs",
    "console_consumer",
    "consumer_groups",
    "consumer_perf_test",
    "preferred_replica_election",
    "reassign_partitions",
    "topics",
]


@pytest.mark.parametrize("tool", ONCE_ASKED_ZOOKEEPER)
@pytest.mark.parametrize("form", [["--zookeeper", "localhost:2181"], ["--zookeeper=localhost:2181"]])
def test_zookeeper_is_refused_in_one_line(
    tool: str, form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_module(f"ottla.tools.{tool}").main([*form, "--list"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "zookeeper is not a recognized option: ZooKeeper is no longer used; use --bootstrap-server"
        " host:port of a broker.\n"
    )


@pytest.mark.parametrize(
    ("tool", "option", "told"),
    [
        ("topics", "--broker-list=localhost:9092", "use --bootstrap-server host:port."),
        ("configs", "--broker-list=localhost:9092", "use --bootstrap-server host:port."),
        ("consumer_groups", "--broker-list=localhost:9092", "use --bootstrap-server host:port."),
        ("console_consumer", "--whitelist=a.*", "use --include with the pattern."),
        ("console_consumer", "--new-consumer", "omit it, there is only one consumer."),
        ("consumer_groups", "--new-consumer", "omit it, there is only one consumer."),
        ("console_producer", "--new-producer", "omit it, there is only one producer."),
        ("acls", "--authorizer-properties=zookeeper.connect=localhost:2181", "the controllers store"),
    ],
)
def test_removed_options_name_their_replacement(
    tool: str, option: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_module(f"ottla.tools.{tool}").main([option]) == 1
    printed = capsys.readouterr()
    name = option.lstrip("-").partition("=")[0]
    assert printed.err.startswith(f"{name} is not a recognized option: {told}")
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("tool", ["console_producer", "consumer_perf_test", "get_offsets"])
def test_broker_list_still_works(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_module(f"ottla.tools.{tool}").main(["--broker-list", "localhost:9092", "--nothing"]) == 1
    assert capsys.readouterr().err.startswith("nothing is not a recognized option")
