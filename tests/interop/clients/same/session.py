"""One raw connection to one broker, and the transcript of its requests and responses."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

from ottla.wire import apis, frame
from tests.interop.clients.same.plain import Masks, make, plain
from tests.interop.peers import BrokerProcess, wait_until

_TIMEOUT_S = 60.0
CLOSED = "the broker closed the connection"


class Closed(ConnectionError):
    """The broker closed the connection instead of responding."""


class Session:
    """Sends raw requests. Every recorded response goes to `transcript` as (request, plain response)."""

    def __init__(self, broker: BrokerProcess, number: int) -> None:
        self.broker = broker
        self.salt = f"-q{number}q"
        self.transcript: list[tuple[str, Any]] = []
        texts = {
            str(broker.data): "(data)",
            f"127.0.0.1:{broker.port}": "(listener)",
            f"127.0.0.1:{broker.controller_port}": "(controller listener)",
        }
        self.masks = Masks(self.salt, texts)
        self._topic_ids: dict[str, bytes] = {}
        self._correlation_id = 0
        self._socket: socket.socket | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    # --- asking ---------------------------------------------------------------------------------------

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """Send a request, record its response, return it (None if there was none)."""
        try:
            response = self.quietly(api, version, **fields)
        except (Closed, TimeoutError) as error:
            self.transcript.append((f"{api} v{version}", str(error)))
            self.disconnect()
            return None
        self.transcript.append((f"{api} v{version}", self._plain(response, version)))
        return response

    def quietly(self, api: str, version: int, /, **fields: Any) -> Any:
        """Send a request and return its response without recording it."""
        entry = apis.API_BY_NAME[api]
        request = make(entry.request_class(), version, fields)
        self._correlation_id += 1
        self.send(frame.request_frame(request, version, self._correlation_id, "same"))
        correlation_id, response = frame.read_response(self.receive(), entry.key, version)
        assert correlation_id == self._correlation_id
        return response

    def tell(self, api: str, version: int, /, **fields: Any) -> None:
        """Send a request without a response (Produce with acks=0)."""
        entry = apis.API_BY_NAME[api]
        self._correlation_id += 1
        request = make(entry.request_class(), version, fields)
        self.send(frame.request_frame(request, version, self._correlation_id, "same"))

    def ask_bytes(self, what: str, sent: bytes) -> None:
        """Send raw bytes on a new connection; record the response bytes or the closing."""
        self.disconnect()
        self.send(sent)
        try:
            answer: str = self.receive().hex()
        except Closed:
            answer = CLOSED
        self.disconnect()
        self.transcript.append((what, answer))

    def note(self, what: str, value: Any) -> None:
        self.transcript.append((what, value))

    def _plain(self, response: Any, version: int) -> dict[str, Any]:
        shown = plain(response, version, self.masks)
        for row in _rows(shown):  # ports differ by broker
            if row.get("port") == self.broker.port:
                row["port"] = "(port)"
            elif row.get("port") == self.broker.controller_port:
                row["port"] = "(controller port)"
        return shown

    # --- the connection -------------------------------------------------------------------------------

    def send(self, sent: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.broker.port), timeout=_TIMEOUT_S)
        # The broker may close while it still receives; then the closing is what counts.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(sent)

    def receive(self) -> bytes:
        """One frame without its size."""
        size = struct.unpack(">i", self._receive_exactly(4))[0]
        return self._receive_exactly(size)

    def _receive_exactly(self, count: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._socket.recv(min(count - len(data), 1 << 20))
            except ConnectionResetError:
                piece = b""
            if not piece:
                self.disconnect()
                raise Closed(CLOSED)
            data += piece
        return bytes(data)

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # --- topics ---------------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """A topic name of this run."""
        return stem + self.salt

    def create(self, stem: str, partitions: int = 1, **configs: object) -> str:
        """Create a topic (config names with underscores) and wait until the broker leads its partitions."""
        name = self.name(stem)
        rows = [{"name": key.replace("_", "."), "value": str(value)} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": rows}
        response = self.quietly("CreateTopics", 7, topics=[topic], timeout_ms=20_000)
        assert response.topics[0].error_code == 0, response
        self.learn(name)
        self.wait_ready(name, partitions)
        return name

    def learn(self, name: str) -> None:
        """Remember the id of a new topic, for requests by id and for the masks."""

        def found() -> bool:
            topic = self.quietly("Metadata", 12, topics=[{"name": name}]).topics[0]
            if topic.error_code:
                return False
            self._topic_ids[name] = topic.topic_id
            return True

        wait_until(found, 20, f"metadata of {name}")
        self.masks.learn_id(self._topic_ids[name], name)

    def topic_id(self, name: str) -> bytes:
        return self._topic_ids[name]

    def wait_ready(self, name: str, partitions: int) -> None:
        def leads() -> bool:
            asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
            response = self.quietly(
                "ListOffsets", 7, replica_id=-1, topics=[{"name": name, "partitions": asked}]
            )
            return all(part.error_code == 0 for part in response.topics[0].partitions)

        wait_until(leads, 20, f"the broker to lead {name}")

    def wait_gone(self, name: str) -> None:
        def gone() -> bool:
            topic = self.quietly("Metadata", 12, topics=[{"name": name}]).topics[0]
            return bool(topic.error_code == 3)

        wait_until(gone, 20, f"{name} to be gone")

    def wait_config(self, kind: int, name: str, config: str, value: str | None) -> None:
        """Wait until a config has `value` (broker configs reach a node through the metadata log)."""

        def reads() -> bool:
            asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": [config]}]
            rows = self.quietly("DescribeConfigs", 4, resources=asked).results[0].configs
            return bool(rows) and rows[0].value == value

        wait_until(reads, 20, f"{config} of {name} to be {value}")


def _rows(shown: Any) -> Any:
    """Every dictionary in a plain value."""
    if isinstance(shown, dict):
        yield shown
        for value in shown.values():
            yield from _rows(value)
    elif isinstance(shown, list):
        for value in shown:
            yield from _rows(value)


Question = Callable[[Session, int], None]
