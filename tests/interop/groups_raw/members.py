"""Members of the classic protocol, as scripts need them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from tests.interop.groups_raw.conversation import Talk

MEMBER_ID_REQUIRED = 79
LONG_MS = 60_000


def subscription(*topics: str, owned: Iterable[tuple[str, Sequence[int]]] | None = None) -> bytes:
    """What a consumer of the classic protocol says about itself: ConsumerProtocolSubscription v0 or v1."""
    version = 0 if owned is None else 1
    out = struct.pack(">hi", version, len(topics))
    out += b"".join(_text(topic) for topic in topics) + struct.pack(">i", -1)
    return out if owned is None else out + _partitions(owned)


def assignment(*partitions: tuple[str, Sequence[int]]) -> bytes:
    """ConsumerProtocolAssignment v0."""
    return struct.pack(">h", 0) + _partitions(partitions) + struct.pack(">i", -1)


def _partitions(rows: Iterable[tuple[str, Sequence[int]]]) -> bytes:
    out = b""
    count = 0
    for topic, indexes in rows:
        count += 1
        out += _text(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return struct.pack(">i", count) + out


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class Member:
    """One member on a connection of its own."""

    def __init__(self, talk: Talk, name: str, *, instance: str | None = None, **fields: Any) -> None:
        self.talk = talk.another()
        self.name = name
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.protocol: str | None = "range"
        self.response: Any = None
        self.fields: dict[str, Any] = {
            "session_timeout_ms": LONG_MS,
            "rebalance_timeout_ms": LONG_MS,
            "protocol_type": "consumer",
            "protocols": protocols(range=subscription("alpha")),
            **fields,
        }

    def begin_join(self, **fields: Any) -> None:
        """Ask to join; where the broker wants an id first, that step is taken here."""
        asked = {**self.fields, **fields}
        if not self.id and self.instance is None and self.talk.version_of("JoinGroup") >= 4:
            self._join(asked)
            first = self.talk.finish(self.name)
            if first.error_code != MEMBER_ID_REQUIRED:
                self.response = first
                return
            self.id = first.member_id
        self.response = None
        self._join(asked)

    def _join(self, asked: dict[str, Any]) -> None:
        self.talk.begin(
            "JoinGroup",
            group_id=self.talk.group,
            member_id=self.id,
            group_instance_id=self.instance,
            **asked,
        )

    def end_join(self) -> Any:
        response = self.response or self.talk.finish(self.name)
        if response.error_code == 0:
            self.id, self.generation = response.member_id, response.generation_id
            self.protocol = response.protocol_name
        return response

    def join(self, **fields: Any) -> Any:
        self.begin_join(**fields)
        return self.end_join()

    def begin_sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> None:
        rows = [{"member_id": member, "assignment": value} for member, value in (assignments or {}).items()]
        asked = {
            "group_id": self.talk.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.fields["protocol_type"],
            "protocol_name": self.protocol,
            "assignments": rows,
            **fields,
        }
        self.talk.begin("SyncGroup", **asked)

    def sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> Any:
        self.begin_sync(assignments, **fields)
        return self.talk.finish()

    def heartbeat(self, **fields: Any) -> Any:
        asked = {
            "group_id": self.talk.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            **fields,
        }
        return self.talk.says("Heartbeat", **asked)

    def leave(self) -> Any:
        return self.talk.says("LeaveGroup", group_id=self.talk.group, **leaving(self.id, self.instance))

    def commit(self, topic: str = "alpha", offset: int = 5, **fields: Any) -> Any:
        asked = {
            "group_id": self.talk.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "topics": commits(self.talk, {topic: {0: offset}}),
            **fields,
        }
        return self.talk.says("OffsetCommit", **asked)


def leaving(member_id: str, instance: str | None = None) -> dict[str, Any]:
    """The fields of a LeaveGroup of one member, for all versions."""
    return {
        "member_id": member_id,
        "members": [{"member_id": member_id, "group_instance_id": instance, "reason": "script"}],
    }


def protocols(**metadata: bytes) -> list[dict[str, Any]]:
    return [{"name": name, "metadata": value} for name, value in metadata.items()]


def commits(talk: Talk, offsets: dict[str, dict[int, int]], **fields: Any) -> list[dict[str, Any]]:
    """The topics of an OffsetCommit by name and by id."""
    return [
        {
            "name": topic,
            "topic_id": talk.known_id(topic),
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_leader_epoch": 0,
                    "committed_metadata": "note",
                    **fields,
                }
                for index, offset in partitions.items()
            ],
        }
        for topic, partitions in offsets.items()
    ]


def stable_pair(talk: Talk, **fields: Any) -> tuple[Member, Member]:
    """Two members of a stable group: the leader A and the follower B."""
    leader, follower = Member(talk, "A", **fields), Member(talk, "B", **fields)
    leader.join()
    leader.sync({leader.id: b"all"})
    rejoin(talk, leader, [follower])
    follower.begin_sync()
    leader.sync({leader.id: b"of A", follower.id: b"of B"})
    follower.talk.finish()
    return leader, follower


def rejoin(talk: Talk, old: Member, new: Sequence[Member]) -> None:
    """Let members join beside `old`, which joins again last."""
    count = talk.member_count()
    for number, member in enumerate(new, 1):
        member.begin_join()
        if member.response is None:
            talk.wait_members(count + number)
    old.heartbeat()
    old.join()
    for member in new:
        member.end_join()
