"""Both sides of the comparisons: our controller on a directory, a socket to Kafka's, and logs as JSON."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.controller.bootstrap import (
    BOOTSTRAP_FILE,
    bootstrap_checkpoint,
    bootstrap_records,
    voters_checkpoint,
)
from ottla.controller.brokers import broker_heartbeat, register_broker
from ottla.controller.feature_levels import SUPPORTED_FEATURES, resolve_features
from ottla.controller.result import Decided
from ottla.host import HostClock, HostDisk, HostRandom
from ottla.log.directories.properties import MetaProperties, read_meta, write_meta
from ottla.raft.driver import DIRECTORY_NAME
from ottla.raft.snapshots import BOOTSTRAP_ID
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.server.metadata.quorum import Quorum
from ottla.wire import frame, uuid
from ottla.wire.message import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from tests.interop.peers import KafkaBroker, kafka_tool

_T = TypeVar("_T")
DUMP = "org.apache.kafka.tools.DumpLogSegments"


class Controller:
    """Our quorum and controller on the data directory of a `KafkaBroker`, with the same configuration.

    `broker` is never started while this runs; it lends its directory, ports and properties.
    """

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.disk = HostDisk()
        broker.write_properties()
        self.config = BrokerConfig.load(broker.properties_file.read_text())
        self._format()
        meta = read_meta(self.disk, str(broker.data))
        assert meta is not None
        assert meta.directory_id is not None
        self.directory_id = meta.directory_id
        self.quorum = Quorum(
            disk=self.disk,
            clock=HostClock(),
            random=HostRandom(),
            config=self.config,
            cluster_id=broker.cluster_id,
            directory_id=meta.directory_id,
        )
        self.epoch = -1

    def _format(self) -> None:
        data = self.broker.data
        if (data / "meta.properties").exists():
            return
        data.mkdir(parents=True)
        directory_id = uuid.random(HostRandom().bytes)
        now_ms = HostClock().now_ms()
        is_dynamic = not self.config.quorum_voters
        levels = resolve_features(release=None, features={}, is_dynamic_quorum=is_dynamic)
        (data / BOOTSTRAP_FILE).write_bytes(bootstrap_checkpoint(bootstrap_records(levels), now_ms))
        if is_dynamic:
            endpoint = VoterEndpoint("CONTROLLER", "127.0.0.1", self.broker.controller_port)
            voters = VoterSet([Voter(ReplicaKey(self.broker.node_id, directory_id), (endpoint,))])
            (data / DIRECTORY_NAME).mkdir()
            (data / DIRECTORY_NAME / BOOTSTRAP_ID.file_name).write_bytes(voters_checkpoint(voters, now_ms))
        meta = MetaProperties(
            cluster_id=self.broker.cluster_id, node_id=self.broker.node_id, directory_id=directory_id
        )
        write_meta(self.disk, str(data), meta, now_ms)

    async def __aenter__(self) -> Controller:
        await self.quorum.open()
        await self.quorum.join()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.quorum.stop()
        self.disk.close()

    async def do(self, decision: Callable[..., Decided[_T]], *arguments: Any, **keywords: Any) -> _T:
        return await self.quorum.submit(lambda state: decision(state, *arguments, **keywords))

    async def start_broker(self, previous_epoch: int = -1) -> int:
        """What a broker does when it starts: register, read its registration, be unfenced."""
        request = BrokerRegistrationRequest(
            broker_id=self.broker.node_id,
            cluster_id=self.broker.cluster_id,
            incarnation_id=uuid.random(HostRandom().bytes),
            listeners=[
                BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="127.0.0.1", port=self.broker.port)
            ],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack=None,
            log_dirs=[self.directory_id],
            previous_broker_epoch=previous_epoch,
        )
        self.epoch = (await self.do(register_broker, request, 4, is_local=True)).broker_epoch
        assert not (await self.heartbeat()).is_fenced
        return self.epoch

    async def heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self.broker.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.quorum.image.offset,
            want_shut_down=want_shut_down,
            cordoned_log_dirs=None if want_shut_down else [],
        )
        return await self.do(broker_heartbeat, request)

    async def stop_broker(self) -> None:
        while not (await self.heartbeat(want_shut_down=True)).should_shut_down:
            pass


def run(work: Awaitable[_T]) -> _T:
    async def bounded() -> _T:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(bounded())


def ask(port: int, request: Message, version: int) -> Any:
    """Send one request to a broker and decode its answer."""
    assert request.API_KEY is not None
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(frame.request_frame(request, version, 7, "test"))
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        return frame.read_response(stream.read(size), request.API_KEY, version)[1]


def dump(*files: Path) -> str:
    """What Kafka's dump-log says of metadata files."""
    result = kafka_tool(
        DUMP, "--cluster-metadata-decoder", "--deep-iteration", "--files", ",".join(map(str, files))
    )
    return result.stdout.decode() + result.stderr.decode()


_RECORD = re.compile(
    r"^\| offset: (\d+) .*? (?:payload: |(LeaderChange:?|KRaftVersion|KRaftVoters|Snapshot\w+):? )(\{.*)$"
)


def records_in(text: str) -> list[dict[str, Any]]:
    """The records of a dump: type, version and data; control records under their own names."""
    found = []
    for line in text.splitlines():
        match = _RECORD.match(line)
        if match:
            _, kind, content = match.groups()
            data = json.loads(content)
            found.append({"type": kind.rstrip(":"), "data": data} if kind else data)
    return found


def normalized(records: list[dict[str, Any]]) -> list[str]:
    """Records with everything that differs from run to run replaced by the order of its appearance."""
    names: dict[str, str] = {}

    def plain(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: plain(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            inner = [plain(item, key) for item in value]
            return sorted(inner, key=json.dumps) if key == "features" else inner
        if isinstance(value, str) and re.fullmatch(r"[\w-]{22}", value) and value != "A" * 22:
            return names.setdefault(value, f"id-{len(names)}")
        if key in ("brokerEpoch", "port"):
            return names.setdefault(f"{key}{value}", f"{key}-{len(names)}")
        return value

    # When these two come is a matter of timing on Kafka's side.
    kept = [r for r in records if r["type"] != "NO_OP_RECORD" and "cordonedLogDirs" not in r["data"]]
    # So is which of a node's two roles registers first: controllers are put before all others.
    kept.sort(key=lambda record: record["type"] != "REGISTER_CONTROLLER_RECORD")
    return [json.dumps(plain(record), sort_keys=True) for record in kept]
