"""The public embedded broker: in this process and as a child process."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.server.asking import Asking

from ottla.testing import Broker, BrokerFailed


@pytest.mark.parametrize("in_process", [True, False])
def test_a_broker_serves_within_its_block_and_cleans_up(in_process: bool) -> None:
    with Broker(in_process=in_process) as broker:
        directory = broker.data_directory
        with Asking(broker.port) as client:
            client.create_topic("here")
            assert client.produce("here", [b"x"]).base_offset == 0
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
    assert not directory.exists()
    with pytest.raises(OSError, match="refused"):
        Asking(broker.port)


def test_several_brokers_run_in_one_process() -> None:
    with Broker() as first, Broker() as second:
        assert first.port != second.port
        for broker in (first, second):
            with Asking(broker.port) as client:
                client.create_topic("own")
                client.produce("own", [b"%d" % broker.port])
        for broker in (first, second):
            with Asking(broker.port) as client:
                assert client.values("own") == [b"%d" % broker.port]


def test_given_data_is_kept_and_the_port_stays(tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path) as broker:
        port = broker.port
        with Asking(port) as client:
            client.create_topic("kept")
            client.produce("kept", [b"x"])
        broker.restart()
        assert broker.port == port
    with Broker(data_directory=tmp_path, port=port) as broker, Asking(port) as client:
        assert client.values("kept") == [b"x"]


def test_an_invalid_setting_is_reported() -> None:
    with pytest.raises((BrokerFailed, ValueError), match=r"num\.partitions"):
        Broker({"num.partitions": "none"}).start()


def test_only_a_child_process_can_be_killed() -> None:
    with Broker() as broker:
        with pytest.raises(BrokerFailed, match="in_process=False"):
            broker.kill()
        assert broker.is_running
        port = broker.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


def test_the_fixture_gives_a_running_broker(ottla_broker: Broker) -> None:
    with Asking(ottla_broker.port) as client:
        client.create_topic("fixture")


def test_a_failed_stop_does_not_hide_the_blocks_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    stop = broker.stop

    def fail() -> None:
        stop()
        raise BrokerFailed("The broker did not stop when asked to.")

    monkeypatch.setattr(broker, "stop", fail)
    with pytest.raises(ZeroDivisionError) as raised, broker:
        raise ZeroDivisionError
    assert raised.value.__notes__ == ["The broker did not stop when asked to."]
    with pytest.raises(BrokerFailed), broker:
        pass
