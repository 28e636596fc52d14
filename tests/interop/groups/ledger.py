"""The events of one group's members, and the checks of a group's guarantees.

Events of all members are merged by time. A partition is owned from `assigned` to `revoked` or `lost`, until
its member's process was killed, or, for a member that stopped polling, at most until its poll interval
expired. Rules: one owner at a time; an owner starts exactly at the group's last commit and then skips
nothing; only the owner commits, and commits never decrease.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

At = tuple[str, int]

# How much earlier than its own `paused` event a member may have begun its last poll.
_POLL_SLACK_US = 600_000


@dataclass(slots=True)
class _Partition:
    owner: str | None = None
    committed: int = 0
    uncertain: set[int] = field(default_factory=set)  # sent, not acknowledged: a try may have been taken
    expected: set[int] = field(default_factory=set)  # offsets of which the next record must have one
    delivered: set[int] = field(default_factory=set)


class Ledger:
    """The events of one group. `add` is called by the readers of the members' output."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._owned: dict[str, set[At]] = defaultdict(set)
        self._live: set[str] = set()
        self.delivered: dict[At, set[int]] = defaultdict(set)

    def add(self, event: dict[str, Any]) -> None:
        with self._lock:
            self._events.append(event)
            member, kind = event["member"], event["event"]
            if kind == "assigned":
                self._owned[member] |= _ats(event)
            elif kind in ("revoked", "lost"):
                self._owned[member] -= _ats(event)
            elif kind in ("killed", "closed"):
                self._owned.pop(member, None)
                self._live.discard(member)
            elif kind == "started":
                self._live.add(member)
            elif kind == "records":
                self.delivered[event["topic"], event["partition"]].update(event["offsets"])

    def events(self, *kinds: str, member: str | None = None) -> list[dict[str, Any]]:
        with self._lock:
            events = list(self._events)
        return sorted(
            (
                event
                for event in events
                if (not kinds or event["event"] in kinds) and (member is None or event["member"] == member)
            ),
            key=lambda event: event["at"],
        )

    def owned(self, member: str) -> set[At]:
        with self._lock:
            return set(self._owned.get(member, ()))

    def live(self) -> set[str]:
        with self._lock:
            return set(self._live)

    def is_shared_out(self, partitions: set[At], *, leaving_out: Iterable[str] = ()) -> bool:
        """Whether each partition has one owner and each live member but the named has at least one."""
        with self._lock:
            counted = self._live - set(leaving_out)
            owned = [at for member in counted for at in self._owned.get(member, ())]
            everyone = all(self._owned.get(member) for member in counted)
            return everyone and len(owned) == len(partitions) and set(owned) == partitions

    def has_all(self, ends: Mapping[At, int]) -> bool:
        with self._lock:
            return all(len(self.delivered[at]) >= end for at, end in ends.items())

    def committed(self) -> dict[At, int]:
        """The last acknowledged commits."""
        return {
            (topic, partition): offset
            for event in self.events("committed")
            for topic, partition, offset in event["offsets"]
        }

    def figures(self) -> str:
        events = self.events()
        kinds = Counter(event["event"] for event in events)
        records = sum(len(event["offsets"]) for event in events if event["event"] == "records")
        distinct = sum(len(offsets) for offsets in self.delivered.values())
        names = ("assigned", "revoked", "lost", "committed", "commit_failed")
        return f"{distinct} records ({records} deliveries), " + ", ".join(
            f"{kinds[name]} {name}" for name in names
        )

    def breaches(self, ends: Mapping[At, int], *, max_poll_ms: int, may_lose: bool = False) -> list[str]:
        """Everything in the log that a group must not do; to be asked once all is delivered.

        With `may_lose` a member may be told that it lost its place although it was never paused.
        """
        return _Judge(max_poll_ms, may_lose).judge(self.events(), ends)

    def told(self, last: int = 60) -> str:
        lines = []
        steady = ("records", "committing", "committed")
        for event in [each for each in self.events() if each["event"] not in steady][-last:]:
            rest = {key: value for key, value in event.items() if key not in ("at", "member", "event")}
            lines.append(f"  {event['at'] / 1e6:.6f} {event['member']} {event['event']} {rest or ''}")
        return "\n".join(lines)


def _ats(event: dict[str, Any]) -> set[At]:
    return {(topic, partition) for topic, partition in event["partitions"]}


class _Judge:
    """One pass over the merged events, in order of time."""

    def __init__(self, max_poll_ms: int, may_lose: bool) -> None:
        self._max_poll_us = max_poll_ms * 1000
        self._may_lose = may_lose
        self._partitions: dict[At, _Partition] = defaultdict(_Partition)
        self._paused: set[str] = set()
        self._expires_at: dict[str, int] = {}
        self._resumed: set[str] = set()
        self._dead: set[str] = set()
        self._breaches: list[str] = []

    def judge(self, events: list[dict[str, Any]], ends: Mapping[At, int]) -> list[str]:
        for event in events:
            handle = getattr(self, "_on_" + event["event"], None)
            if handle is not None:
                handle(event["member"], event)
        for at, end in ends.items():
            state = self._partitions[at]
            missing = sorted(set(range(end)) - state.delivered)
            if missing:
                self._say(f"{len(missing)} of {end} records of {at} were never delivered, first {missing[0]}")
            if state.owner is None or state.owner in self._dead:
                self._say(f"{at} has no owner in the end")
        return self._breaches

    def _say(self, sentence: str, event: dict[str, Any] | None = None) -> None:
        when = f"{event['at'] / 1e6:.6f} " if event else ""
        self._breaches.append(when + sentence)

    def _has_given_up(self, member: str, at_us: int) -> bool:
        """Whether a member's ownership had ended without its saying so."""
        return member in self._dead or at_us >= self._expires_at.get(member, at_us + 1)

    def _on_assigned(self, member: str, event: dict[str, Any]) -> None:
        if member in self._resumed and event["partitions"]:
            self._expires_at.pop(member, None)
        for at in _ats(event):
            state = self._partitions[at]
            owner = state.owner
            if owner == member:
                self._say(f"{member} was assigned {at}, which it had", event)
            elif owner is not None and not self._has_given_up(owner, event["at"]):
                self._say(f"{member} was assigned {at} while {owner} owned it", event)
            state.owner = member
            state.expected = {state.committed, *(sent for sent in state.uncertain if sent > state.committed)}

    def _on_revoked(self, member: str, event: dict[str, Any]) -> None:
        for at in _ats(event):
            state = self._partitions[at]
            if state.owner == member:
                state.owner = None
            elif state.owner is not None and not self._has_given_up(member, event["at"]):
                self._say(f"{member} gave up {at}, which {state.owner} owned", event)

    def _on_lost(self, member: str, event: dict[str, Any]) -> None:
        if event["partitions"] and member not in self._paused and not self._may_lose:
            self._say(f"{member} lost {sorted(_ats(event))} without having been paused", event)
        self._on_revoked(member, event)
        self._expires_at.pop(member, None)

    def _on_paused(self, member: str, event: dict[str, Any]) -> None:
        self._paused.add(member)
        self._expires_at[member] = event["at"] + self._max_poll_us - _POLL_SLACK_US

    def _on_resumed(self, member: str, event: dict[str, Any]) -> None:
        self._resumed.add(member)

    def _on_started(self, member: str, event: dict[str, Any]) -> None:
        self._dead.discard(member)

    def _on_killed(self, member: str, event: dict[str, Any]) -> None:
        self._dead.add(member)

    def _on_closed(self, member: str, event: dict[str, Any]) -> None:
        for at, state in self._partitions.items():
            if state.owner == member:
                self._say(f"{member} closed without giving up {at}", event)
                state.owner = None

    def _on_error(self, member: str, event: dict[str, Any]) -> None:
        self._say(f"{member} failed: {event['error']}", event)

    def _on_records(self, member: str, event: dict[str, Any]) -> None:
        at = (event["topic"], event["partition"])
        state = self._partitions[at]
        if state.owner != member and self._has_given_up(member, event["at"]):
            return  # records that it had fetched before it lost its place; it has not heard of that yet
        if state.owner != member:
            self._say(f"{member} got records of {at}, which {state.owner} owned", event)
        for offset in event["offsets"]:
            if offset not in state.expected:
                wanted = " or ".join(map(str, sorted(state.expected)))
                self._say(f"{member} got {offset} of {at} where {wanted} was next", event)
            state.expected = {offset + 1}
        state.delivered.update(event["offsets"])

    def _on_committing(self, member: str, event: dict[str, Any]) -> None:
        for topic, partition, offset in event["offsets"]:
            self._partitions[topic, partition].uncertain.add(offset)

    def _on_committed(self, member: str, event: dict[str, Any]) -> None:
        for topic, partition, offset in event["offsets"]:
            state = self._partitions[topic, partition]
            if state.owner != member:
                self._say(
                    f"a commit of {member} for {(topic, partition)} was taken, {state.owner} owned it", event
                )
            if offset < state.committed:
                self._say(
                    f"the commit of {(topic, partition)} went back from {state.committed} to {offset}", event
                )
            state.committed = offset
            state.uncertain = {sent for sent in state.uncertain if sent > offset}
