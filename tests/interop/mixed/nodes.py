"""Nodes of one role, of either kind, that stand in one cluster."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Self

from tests.interop import peers
from tests.interop.peers import BrokerProcess, KafkaBroker, OttlaBroker

CONTROLLER_ID = 100
TIMES = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


class ControllerOnly(BrokerProcess):
    """process.roles=controller"""

    def properties(self) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.data),
            **TIMES,
            **self.extra_properties,
        }

    def wait_ready(self) -> None:
        def accepts() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log_tail()
            try:
                socket.create_connection(("127.0.0.1", self.controller_port), 1).close()
            except OSError:
                return False
            return True

        peers.wait_until(accepts, 60, f"the {self.kind} controller to listen")


class BrokerOnly(BrokerProcess):
    """process.roles=broker"""

    def follow(self, node_id: int, controller: ControllerOnly) -> Self:
        self.node_id = node_id
        self.controller_port = controller.controller_port
        return self

    def properties(self) -> dict[str, str]:
        return {
            **super().properties(),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            **TIMES,
        }

    def format_command(self) -> list[str]:
        return [word for word in super().format_command() if word != "--standalone"]


class KafkaController(ControllerOnly, KafkaBroker):
    pass


class OttlaController(ControllerOnly, OttlaBroker):
    pass


class KafkaData(BrokerOnly, KafkaBroker):
    pass


class OttlaData(BrokerOnly, OttlaBroker):
    pass


class MixedCluster:
    """A controller of one kind; brokers of any kind are added. Everything is killed at the end."""

    def __init__(self, directory: Path, controller_kind: str, **settings: str) -> None:
        kind = KafkaController if controller_kind == "kafka" else OttlaController
        properties = {name.replace("_", "."): value for name, value in settings.items()}
        self._directory = directory
        self.controller = kind(directory / "controller", properties=properties)
        self.brokers: list[BrokerOnly] = []

    def add_broker(self, kind: str, *, wait: bool = True, **settings: str) -> BrokerOnly:
        """`settings`: of server.properties, with underscores for dots."""
        node_id = len(self.brokers) + 1
        made = KafkaData if kind == "kafka" else OttlaData
        properties = {name.replace("_", "."): value for name, value in settings.items()}
        broker = made(self._directory / f"broker-{node_id}", properties=properties)
        broker.follow(node_id, self.controller)
        self.brokers.append(broker)
        broker.start(wait=wait)
        return broker

    def __enter__(self) -> Self:
        try:
            self.controller.start()
        except BaseException:
            self.controller.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.brokers, self.controller):
            node.close()


class AnyStaticVoter(ControllerOnly):
    """One of several controllers that know each other by `controller.quorum.voters`."""

    def __init__(self, directory: Path, node_id: int, voters: dict[int, int]) -> None:
        super().__init__(directory, controller_port=voters[node_id])
        self.node_id = node_id
        self.extra_properties = {"node.id": str(node_id), "controller.quorum.voters": voters_text(voters)}

    def properties(self) -> dict[str, str]:
        return _without_bootstrap_servers(super().properties())


class StaticVoter(AnyStaticVoter, KafkaController):
    pass


class StaticOttlaVoter(AnyStaticVoter, OttlaController):
    pass


class StaticFollower(OttlaData):
    """A broker of such controllers."""

    def __init__(self, directory: Path, node_id: int, voters: dict[int, int]) -> None:
        super().__init__(directory, properties={"controller.quorum.voters": voters_text(voters)})
        self.node_id = node_id

    def properties(self) -> dict[str, str]:
        return _without_bootstrap_servers(super().properties())


def voters_text(voters: dict[int, int]) -> str:
    return ",".join(f"{voter_id}@127.0.0.1:{port}" for voter_id, port in voters.items())


def _without_bootstrap_servers(properties: dict[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in properties.items() if name != "controller.quorum.bootstrap.servers"
    }


class AnyDynamicVoter(ControllerOnly):
    """A controller of a dynamic quorum: the first, or one that is to join those in `bootstrap`."""

    def __init__(self, directory: Path, node_id: int, bootstrap: list[int], *, is_first: bool) -> None:
        """`bootstrap`: the ports of the controllers."""
        super().__init__(directory, controller_port=bootstrap[0 if is_first else -1])
        self.node_id = node_id
        self._is_first = is_first
        servers = ",".join(f"127.0.0.1:{port}" for port in bootstrap)
        self.extra_properties = {"node.id": str(node_id), "controller.quorum.bootstrap.servers": servers}

    def format_command(self) -> list[str]:
        words = super().format_command()
        return (
            words if self._is_first else [*words[: words.index("--standalone")], "--no-initial-controllers"]
        )


class DynamicVoter(AnyDynamicVoter, KafkaController):
    pass


class DynamicOttlaVoter(AnyDynamicVoter, OttlaController):
    pass
