"""The conversation of one script with one broker: several connections, one transcript.

A join or a sync may be held by the broker until another member has asked, so each member of a script has a
connection of its own, and asking (`begin`) is apart from reading the answer (`finish`). What differs from one
run to the next has a name: members are named by the script (`call`), group ids end in the salt of the run.
"""

from __future__ import annotations

import json
import re
import select
import struct
from typing import Any, Self

from ottla.wire import apis, codec, frame
from ottla.wire.errors import KafkaError, MalformedMessage
from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment
from tests.interop.clients.same.plain import Masks, make
from tests.interop.clients.same.session import Closed, Session
from tests.interop.peers import BrokerProcess, wait_until

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WAIT_S = 10.0
ANSWER_S = 30.0  # a script lets nobody wait: what is held is set free by its next step
UNKNOWN_ID = b"\x07" * 16


class GroupMasks(Masks):
    """Hides ids that a broker makes up, unless the script has given them a name."""

    def text(self, value: str) -> str:
        return _UUID.sub("(uuid)", super().text(value))

    def call(self, found: str, name: str) -> None:
        self._texts[found] = f"({name})"

    def value(self, name: str, value: object) -> object:
        if name == "error_message":  # in words of our own: what counts is whether there are any
            return value if value is None else "(text)"
        return super().value(name, value)


class Talk(Session):
    """A connection of a script. `versions` holds the API under test with its version."""

    def __init__(self, broker: BrokerProcess, number: int, versions: dict[str, int]) -> None:
        super().__init__(broker, number)
        self.masks = self._masks = GroupMasks(self.salt, self.masks._texts)
        self.versions = versions
        self.group = self.name("group")
        self._others: list[Talk] = []
        self._begun: tuple[str, int] | None = None

    def another(self) -> Talk:
        """One more connection, with the same transcript and names."""
        made = Talk.__new__(Talk)
        made.__dict__.update(self.__dict__)
        made._socket = None
        made._correlation_id = 0
        self._others.append(made)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._others:
            other.disconnect()
        self.disconnect()

    def version_of(self, api: str) -> int:
        return self.versions.get(api, max(apis.API_BY_NAME[api].stable_versions))

    def call(self, member_id: str, name: str) -> str:
        """Give an id that the broker made up a name in the transcript."""
        if member_id:
            self._masks.call(member_id, name)
        return member_id

    # --- asking ---------------------------------------------------------------------------------------

    def says(self, api: str, **fields: Any) -> Any:
        """Ask in the script's version, record the answer, return it."""
        self.begin(api, **fields)
        return self.finish()

    def hears(self, api: str, **fields: Any) -> Any:
        """Ask in the newest version without recording the answer."""
        return self.quietly(api, max(apis.API_BY_NAME[api].stable_versions), **fields)

    def send(self, sent: bytes) -> None:
        super().send(sent)
        assert self._socket is not None
        self._socket.settimeout(ANSWER_S)

    def begin(self, api: str, **fields: Any) -> None:
        assert self._begun is None, f"{self._begun} is not finished"
        entry = apis.API_BY_NAME[api]
        version = self.version_of(api)
        self._begun = (api, version)
        self._correlation_id += 1
        request = make(entry.request_class(), version, fields)
        self.send(frame.request_frame(request, version, self._correlation_id, "same"))

    def finish(self, name: str | None = None) -> Any:
        """Read and record what was asked; `name` is given to the answer's member id first."""
        assert self._begun is not None
        api, version = self._begun
        self._begun = None
        try:
            correlation_id, response = frame.read_response(self.receive(), apis.API_BY_NAME[api].key, version)
        except (Closed, TimeoutError) as error:
            self.transcript.append((f"{api} v{version}", f"no answer: {error}"))
            self.disconnect()
            raise AssertionError(f"{api} v{version} was not answered: {error}") from error
        assert correlation_id == self._correlation_id
        if name is not None and response.member_id:
            self.call(response.member_id, name)
        shown = self._plain(response, version)
        if api == "SyncGroup":
            shown["assignment"] = _assigned(bytes(response.assignment))
        rows = shown.get("groups")
        if rows:
            shown["groups"] = [row for row in rows if not self.masks.is_foreign(row.get("group_id"))]
        self.transcript.append((f"{api} v{version}", _with_sets(shown)))
        return response

    def forget(self) -> None:
        """Close the connection, whatever is awaited on it."""
        self._begun = None
        self.disconnect()

    @property
    def asks_for_an_id(self) -> bool:
        """Whether the answer that is awaited gives the member an id."""
        return self._begun is not None and self._begun[0] == "JoinGroup"

    def is_answered(self, timeout_s: float) -> bool:
        """Whether what was begun is answered, now or soon."""
        assert self._socket is not None
        return bool(select.select([self._socket], [], [], timeout_s)[0])

    # --- waiting --------------------------------------------------------------------------------------

    def described(self) -> Any:
        """The script's group as it is now, whichever protocol it speaks."""
        described = self.hears("DescribeGroups", groups=[self.group]).groups[0]
        if described.error_code:
            described = self.hears("ConsumerGroupDescribe", group_ids=[self.group]).groups[0]
        return described

    def state(self) -> str:
        return str(self.described().group_state)

    def member_count(self) -> int:
        return len(self.described().members)

    def wait_state(self, state: str) -> None:
        wait_until(lambda: self.state() == state, WAIT_S, f"{self.group} to be {state}")

    def wait_members(self, count: int) -> None:
        """Wait until the group counts so many members."""

        wait_until(lambda: self.member_count() == count, WAIT_S, f"{count} members in {self.group}")

    # --- topics ---------------------------------------------------------------------------------------

    def topics(self, **partitions: int) -> None:
        """Know topics that are shared by all scripts; create those that are not there yet."""
        for stem, count in partitions.items():
            rows = [{"name": stem, "num_partitions": count, "replication_factor": 1}]
            code = self.quietly("CreateTopics", 7, topics=rows, timeout_ms=20_000).topics[0].error_code
            assert code in (0, 36), code
            self.learn(stem)
            if code == 0:
                self.wait_ready(stem, count)

    def known_id(self, topic: str) -> bytes:
        """The id of a topic, or one that no topic has."""
        return self._topic_ids.get(topic, UNKNOWN_ID)


def _with_sets(shown: Any) -> Any:
    """What is a set is shown in order: the topics of a member, and the partitions that are assigned to it."""
    if isinstance(shown, dict):
        return {key: _with_sets(value) for key, value in shown.items()}
    if isinstance(shown, list):
        return sorted((_with_sets(item) for item in shown), key=lambda item: json.dumps(item, sort_keys=True))
    return shown


def _assigned(content: bytes) -> Any:
    """The partitions in an assignment of consumers, in order; the bytes where it is none."""
    try:
        read = codec.decode(ConsumerProtocolAssignment, content, struct.unpack_from(">h", content)[0], 2)
    except (struct.error, MalformedMessage, KafkaError, KeyError, ValueError):
        return content.hex()
    return sorted((row.topic, sorted(row.partitions)) for row in read.assigned_partitions)
