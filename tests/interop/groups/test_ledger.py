"""The checks of the groups' logs, tested on invalid logs: they must find every violation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.groups.ledger import Ledger

_T0 = ["t", 0]


def _breaches(*events: tuple[str, str, dict[str, Any]], end: int = 4) -> list[str]:
    ledger = Ledger()
    for index, (member, kind, fields) in enumerate(events):
        ledger.add({"at": 1_000_000 * index, "member": member, "event": kind, **fields})
    return ledger.breaches({("t", 0): end}, max_poll_ms=1600)


def _assigned(member: str) -> tuple[str, str, dict[str, Any]]:
    return member, "assigned", {"partitions": [_T0]}


def _gone(member: str, kind: str = "revoked") -> tuple[str, str, dict[str, Any]]:
    return member, kind, {"partitions": [_T0]}


def _records(member: str, *offsets: int) -> tuple[str, str, dict[str, Any]]:
    return member, "records", {"topic": "t", "partition": 0, "offsets": list(offsets)}


def _commit(member: str, kind: str, offset: int) -> tuple[str, str, dict[str, Any]]:
    return member, kind, {"offsets": [["t", 0, offset]]}


_SOUND = [
    _assigned("a"),
    _records("a", 0, 1),
    _commit("a", "committing", 2),
    _commit("a", "committed", 2),
    _gone("a"),
    _assigned("b"),
    _records("b", 2, 3),
]


def test_a_clean_hand_over_is_no_breach() -> None:
    assert _breaches(*_SOUND) == []


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([*_SOUND[:4], *_SOUND[5:]], "b was assigned ('t', 0) while a owned it"),
        ([*_SOUND[:6], _records("b", 3)], "b got 3 of ('t', 0) where 2 was next"),
        ([*_SOUND[:6], _records("b", 1, 2, 3)], "b got 1 of ('t', 0) where 2 was next"),
        ([*_SOUND[:6], _records("b", 2)], "1 of 4 records of ('t', 0) were never delivered, first 3"),
        ([*_SOUND, _gone("b")], "('t', 0) has no owner in the end"),
        ([*_SOUND, ("b", "killed", {})], "('t', 0) has no owner in the end"),
        ([*_SOUND, _records("a", 4)], "a got records of ('t', 0), which b owned"),
        ([*_SOUND, _commit("a", "committed", 3)], "a commit of a for ('t', 0) was taken, b owned it"),
        ([*_SOUND, _commit("b", "committed", 1)], "the commit of ('t', 0) went back from 2 to 1"),
        ([*_SOUND[:4], _gone("a", "lost"), *_SOUND[5:]], "a lost [('t', 0)] without having been paused"),
        ([*_SOUND, ("b", "error", {"error": "fatal"})], "b failed: fatal"),
        ([*_SOUND, ("b", "closed", {})], "b closed without giving up ('t', 0)"),
    ],
)
def test_what_a_group_must_not_do_is_seen(events: list[tuple[str, str, dict[str, Any]]], said: str) -> None:
    assert any(said in breach for breach in _breaches(*events)), _breaches(*events)


def test_a_killed_members_partitions_may_be_taken_at_its_last_known_or_last_sent_commit() -> None:
    sent = [*_SOUND[:4], _records("a", 2), _commit("a", "committing", 3), ("a", "killed", {}), _assigned("b")]
    assert _breaches(*sent, _records("b", 2, 3)) == []
    assert _breaches(*sent, _records("b", 3)) == []
    assert _breaches(*sent, _records("b", 1, 2, 3)) != []


def test_a_paused_member_keeps_its_partitions_until_its_poll_interval_is_over() -> None:
    paused = [*_SOUND[:4], ("a", "paused", {})]
    assert _breaches(*paused, _assigned("b"), _records("b", 2, 3), _gone("a", "lost")) == []

    ledger = Ledger()
    for index, (member, kind, fields) in enumerate([*paused, _assigned("b"), _records("b", 2, 3)]):
        ledger.add({"at": 1000 * index, "member": member, "event": kind, **fields})
    assert ledger.breaches({("t", 0): 4}, max_poll_ms=1600) != []
