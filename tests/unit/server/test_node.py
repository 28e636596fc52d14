"""A complete node, in this process and as a child process: durability, shutdown, errors."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.server.asking import Asking, fetch_request, produce_request

from ottla.config import development_config
from ottla.config.listeners import is_loopback
from ottla.host import HostClock, HostDisk, HostNetwork, HostRandom, trim_memory
from ottla.log.directories.properties import DirectoryError
from ottla.server.fatal_errors import StopReason
from ottla.server.metadata.broker_registration import Registration
from ottla.server.node import MEMORY_KEPT_BYTES, Node
from ottla.testing import Broker, BrokerFailed
from ottla.wire.errors import ErrorCode

Make = Callable[..., Broker]


def test_records_and_topics_survive_a_clean_restart(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory(in_process=False)
    with Asking(broker.port) as client:
        client.create_topic("kept", 2)
        assert client.produce("kept", [b"one", b"two"]).base_offset == 0
    broker.restart()
    assert "Recovering" not in broker.log_text
    with Asking(broker.port) as client:
        assert client.values("kept") == [b"one", b"two"]
        assert client.produce("kept", [b"three"]).base_offset == 2


def test_every_acknowledged_record_survives_a_kill(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory(in_process=False)
    sent: list[bytes] = []
    with Asking(broker.port) as client:
        client.create_topic("kept", segment_bytes="1048576")
    for round_ in range(4):
        with Asking(broker.port) as client:
            for number in range(100):
                value = b"%d-%d" % (round_, number) * 50
                if client.produce("kept", [value]).error_code == 0:
                    sent.append(value)
        broker.kill()
        broker.start()
        with Asking(broker.port) as client:
            assert client.values("kept") == sent
    assert "Recovering" in broker.log_text


def test_flush_messages_flushes_before_the_response(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory()
    with Asking(broker.port) as client:
        client.create_topic("flushed", flush_messages="1")
        for number in range(5):
            answer = client.produce("flushed", [b"%d" % number])
            assert (answer.error_code, answer.base_offset) == (0, number)
        assert client.fetch("flushed", 0).high_watermark == 5
        assert client.values("flushed") == [b"0", b"1", b"2", b"3", b"4"]


def test_pipelined_responses_are_in_order_even_with_flushes(
    ottla_broker_factory: Make,
) -> None:
    broker = ottla_broker_factory()
    with Asking(broker.port) as client:
        client.create_topic("flushed", flush_messages="1")
        requests = [produce_request("flushed", [b"%d" % number]) for number in range(200)]
        for request in requests:
            client.send(request, 9)
        offsets = [
            client.receive(request, 9).responses[0].partition_responses[0].base_offset for request in requests
        ]
        assert offsets == list(range(200))


def test_an_append_completes_a_waiting_fetch(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory()
    with Asking(broker.port) as consumer, Asking(broker.port) as producer:
        producer.create_topic("awaited")
        request = fetch_request("awaited", 0, max_wait_ms=20_000)
        consumer.send(request, 12)
        producer.produce("awaited", [b"here"])
        answer = consumer.receive(request, 12).responses[0].partitions[0]
        assert len(answer.records) > 0


def test_a_fetch_without_records_returns_empty_at_its_deadline(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory()
    with Asking(broker.port) as client:
        client.create_topic("quiet")
        answer = client.fetch("quiet", 0, max_wait_ms=20)
        assert (answer.error_code, len(answer.records)) == (0, 0)


def test_a_fetch_waiting_on_a_topic_that_is_deleted_gets_an_error(ottla_broker_factory: Make) -> None:
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest

    broker = ottla_broker_factory()
    with Asking(broker.port) as consumer, Asking(broker.port) as admin:
        admin.create_topic("doomed")
        request = fetch_request("doomed", 0, max_wait_ms=20_000)
        consumer.send(request, 12)
        admin.ask(DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=5_000), 5)
        answer = consumer.receive(request, 12).responses[0].partitions[0]
        assert answer.error_code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )


def test_acks_0_gets_no_response_and_an_error_closes_the_connection(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory()
    with Asking(broker.port) as client:
        client.create_topic("quiet")
        client.send(produce_request("quiet", [b"x"], acks=0), 9)
        assert client.values("quiet") == [b"x"]  # the next response is the fetch's; the produce got none
        missing = produce_request("missing", [b"x"], acks=0)
        client.send(missing, 9)
        with pytest.raises(EOFError):
            client.receive(missing, 9)


def test_a_second_node_on_the_same_data_is_refused(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory(in_process=False)
    with pytest.raises(BrokerFailed, match="lock"):
        Broker(in_process=False, data_directory=broker.data_directory).start()


def test_a_used_port_is_named(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory()
    with pytest.raises(BrokerFailed, match=f"Cannot listen on 127.0.0.1:{broker.port}"):
        ottla_broker_factory(port=broker.port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_node_cleanly_with_exit_code_0(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "Kafka Server started" in line:
                break
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait() == 0
        assert "Kafka Server stopped" in rest
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_ctrl_c_works_at_any_time_during_startup(tmp_path: Path) -> None:
    """Interrupt after each line that the startup prints, and before the first."""
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    for lines in range(6):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
        )
        try:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGINT)
            process.stdout.read()
            assert process.wait() in (0, 130, -signal.SIGINT)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]


def test_a_disk_failure_ends_a_start_that_waits_for_a_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        node = _node(tmp_path)

        async def wait_for_ever(_registration: Registration) -> None:
            node._end(StopReason.NO_DIRECTORY, "the last one failed")
            await asyncio.Event().wait()

        monkeypatch.setattr(Registration, "start", wait_for_ever)
        with pytest.raises(DirectoryError, match="Every log directory is offline: the last one failed"):
            await asyncio.wait_for(node.start(), 60)

    asyncio.run(test())


def test_memory_is_returned_once_after_large_requests(tmp_path: Path) -> None:
    given_back: list[bool] = []
    node = _node(tmp_path, trim_memory=lambda: given_back.append(True))
    node._trim_memory()
    assert not given_back
    node._memory.take(cast(Any, object()), MEMORY_KEPT_BYTES, MEMORY_KEPT_BYTES, lambda: None)
    node._memory.give_back(MEMORY_KEPT_BYTES)
    node._trim_memory()
    node._trim_memory()
    assert given_back == [True]
    trim_memory()  # calls the real allocator, if it supports that


def test_only_their_owner_can_read_the_files_of_a_node(ottla_broker_factory: Make) -> None:
    broker = ottla_broker_factory()
    with Asking(broker.port) as client:
        client.create_topic("t")
        client.produce("t", [b"secret"])
    made = sorted(broker.data_directory.rglob("*"))
    assert {"bootstrap.checkpoint", "t-0", "00000000000000000000.log"} <= {one.name for one in made}
    assert not [one for one in made if one.stat().st_mode & 0o077]


def test_a_node_that_others_can_reach_says_so_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def started(host: str) -> list[str]:
        caplog.clear()
        node = _node(tmp_path / host, host)
        await node.start()
        await node.stop()
        return [record.getMessage() for record in caplog.records if "firewall" in record.getMessage()]

    assert asyncio.run(started("127.0.0.1")) == []
    (warning,) = asyncio.run(started("0.0.0.0"))
    assert warning.startswith("Whoever can reach PLAINTEXT://0.0.0.0:")


@pytest.mark.parametrize(
    ("host", "only_here"),
    [
        *(("localhost", True), ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True)),
        *(("", False), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("localhost.example", False)),
    ],
)
def test_a_loopback_host_is_reached_from_this_machine_only(host: str, only_here: bool) -> None:
    assert is_loopback(host) == only_here


def _node(directory: Path, host: str = "localhost", **options: Any) -> Node:
    listeners = {
        "listeners": f"PLAINTEXT://{host}:0",
        "advertised.listeners": "PLAINTEXT://localhost:0",
    }
    return Node(
        development_config(data_directory=str(directory), port=0, overrides=listeners),
        clock=HostClock(),
        random=HostRandom(),
        disk=HostDisk(),
        network=HostNetwork(),
        **options,
    )


def test_a_node_raises_its_limit_on_open_files() -> None:
    script = (
        "import resource; from ottla.host import raise_open_files_limit;"
        "most = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, most)); raise_open_files_limit();"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
