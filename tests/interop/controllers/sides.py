"""One controller, alone in its cluster, and brokers that are nothing but requests on a socket.

The state of a side is what the records of its metadata log make of it, fetched as an observer does it. Two
sides that were asked the same must have the same state but for what is drawn by chance (ids of topics) or
counted in offsets (epochs of brokers).
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

from ottla.controller.image import ClusterImage
from ottla.controller.records import decode_record
from ottla.raft.metadata_log import batches_of
from ottla.wire import frame, uuid
from ottla.wire.message import Message, Struct
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    RegisterControllerRecord,
)
from tests.interop.mixed.nodes import ControllerOnly

FETCH_VERSION = 17
_OF_THEIR_OWN = (NoOpRecord, RegisterControllerRecord)
_IN_NO_ORDER = frozenset(("topics", "partitions", "configs", "features"))
_BY_CHANCE = frozenset(("broker_epoch", "throttle_time_ms", "unknown_tagged_fields"))


class Side:
    """A controller in a process of its own, and the state that its log tells."""

    def __init__(self, controller: ControllerOnly) -> None:
        self.controller = controller
        self.image = ClusterImage()
        self.epochs: dict[int, int] = {}  # of brokers, as they were told
        self._connection = socket.create_connection(("127.0.0.1", controller.controller_port), 60)
        self._stream = self._connection.makefile("rb")
        self._leader_epoch = 0
        self._last_fetched_epoch = 0
        self._unread: list[str] = []

    def close(self) -> None:
        self._stream.close()
        self._connection.close()

    def ask(self, request: Message, version: int) -> Any:
        assert request.API_KEY is not None
        self._connection.sendall(frame.request_frame(request, version, 7, "fake"))
        (size,) = struct.unpack(">i", self._stream.read(4))
        return frame.read_response(self._stream.read(size), request.API_KEY, version)[1]

    # The log

    @property
    def offset(self) -> int:
        return self.image.offset

    def has_fenced(self, broker_id: int) -> bool:
        """Whether the log, read to its end now, says that a broker is fenced."""
        self._unread += self._replay()
        return self.image.brokers[broker_id].fenced

    def read(self) -> list[str]:
        """Replay what is new in the log; what changed since the last time, as text, in no order."""
        changes, self._unread = [*self._unread, *self._replay()], []
        return sorted(changes)

    def _replay(self) -> list[str]:
        changes = []
        for record in self._new_records():
            shown = json.dumps({record.NAME: self._plain(record)}, sort_keys=True, default=repr)
            registrations = self.image.brokers.copy()
            self.image.replay(record)
            # Kafka fences a broker again whose session ends while it is fenced.
            is_change = isinstance(record, BrokerRegistrationChangeRecord)
            is_void = is_change and registrations == self.image.brokers
            if not is_void and not isinstance(record, _OF_THEIR_OWN):
                changes.append(shown)
        return changes

    def _new_records(self) -> Iterator[Message]:
        while records := self._fetch():
            for batch in batches_of(records, decode_record):
                for position, record in enumerate(batch.records):
                    self.image.offset = batch.base_offset + position
                    yield record
                self.image.offset = batch.last_offset
                self._last_fetched_epoch = batch.epoch

    def _fetch(self) -> bytes:
        partition = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=self.image.offset + 1,
            last_fetched_epoch=self._last_fetched_epoch,
            replica_directory_id=b"observer" * 2,
        )
        topic = FetchRequest.FetchTopic(topic_id=uuid.METADATA_TOPIC_ID, partitions=[partition])
        request = FetchRequest(cluster_id=self.controller.cluster_id, max_bytes=1 << 20, topics=[topic])
        request.replica_state.replica_id = 900
        response: FetchResponse = self.ask(request, FETCH_VERSION)
        answer = response.responses[0].partitions[0]
        if self._leader_epoch < answer.current_leader.leader_epoch:
            self._leader_epoch = answer.current_leader.leader_epoch
            return self._fetch()
        assert answer.error_code == 0, answer
        return bytes(answer.records or b"")

    # Comparing

    def _plain(self, value: Any, name: str = "") -> Any:
        """A message as data, without what is drawn or counted."""
        if isinstance(value, Struct):
            return {
                slot: self._plain(getattr(value, slot), slot)
                for slot in value.__slots__
                if slot not in _BY_CHANCE
            }
        if isinstance(value, list):
            items = [self._plain(item, name) for item in value]
            return sorted(items, key=repr) if name in _IN_NO_ORDER else items
        if name == "topic_id":
            topic = self.image.topics.get(value)
            return "a topic" if topic is None else topic.name
        return value

    def plain(self, answer: Message) -> str:
        return json.dumps(self._plain(answer), sort_keys=True, default=repr)

    def state(self) -> dict[str, Any]:
        """Brokers, partitions and settings, for comparison."""
        return {
            "brokers": {
                broker.id: (broker.fenced, broker.in_controlled_shutdown, broker.rack, broker.directories)
                for broker in self.image.brokers.values()
            },
            "partitions": {
                (topic.name, index): partition
                for topic in self.image.topics.values()
                for index, partition in topic.partitions.items()
            },
            "settings": self.image.configs,
        }
