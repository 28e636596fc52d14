"""The checker limits waits and reports elections without faults; and knows the guarantees of acks."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.sim.checker import FinalLog, History, Leads, Outcome, Quiet, Send, Wait, check

PLACE = ("in", 0)
LATE_S = 0.5


def _history(step_s: float = 0.02) -> History:
    history = History()
    history.quiet.append(Quiet(began=10.0, ended=20.0, step_s=step_s))
    history.sends.append(_send(began=11.0))
    history.final.append(
        FinalLog(partition=PLACE, start=0, end=1, records=((0, "v"),), committed=((0, "v"),))
    )
    history.leads.append(Leads(node=1, partition=PLACE, epoch=0, at=1.0))
    return history


def _send(*, began: float, acks: int = -1) -> Send:
    return Send(
        process="p",
        partition=PLACE,
        value="v",
        outcome=Outcome.OK,
        began=began,
        offset=None if acks == 0 else 0,
        ended=began + 0.01,
        acks=acks,
        idempotent=acks == -1,
    )


def _kinds(history: History) -> set[str]:
    return {anomaly.kind for anomaly in check(history)}


def test_a_late_acknowledgment_without_faults_is_found() -> None:
    history = _history()
    assert _kinds(history) == set()
    history.sends[0] = replace(history.sends[0], ended=11.0 + LATE_S)
    assert _kinds(history) == {"late"}
    history.sends[0] = replace(history.sends[0], began=9.0)
    assert _kinds(history) == set()


def test_a_wait_is_limited_by_its_steps_and_patience() -> None:
    history = _history()
    wait = Wait(kind="a record", process="p", began=12.0, ended=12.05, steps=3)
    history.waits.append(wait)
    assert _kinds(history) == set()
    history.waits[0] = replace(wait, ended=12.0 + LATE_S)
    assert _kinds(history) == {"late"}
    history.waits[0] = replace(wait, ended=12.0 + LATE_S, patience_s=LATE_S)
    assert _kinds(history) == set()


@pytest.mark.parametrize("step_s", [0.02, inf])
def test_a_needless_election_is_found(step_s: float) -> None:
    history = _history(step_s)
    elected = Leads(node=2, partition=PLACE, epoch=1, at=15.0)
    history.leads.append(elected)
    assert _kinds(history) == {"needless election"}
    history.leads[-1] = replace(elected, is_preferred=True)
    assert _kinds(history) == set()
    history.leads[-1] = replace(elected, at=5.0)
    assert _kinds(history) == set()


@pytest.mark.parametrize(
    ("acks", "began", "is_lost"),
    [
        (-1, 1.0, True),  # all replicas had it
        (1, 1.0, False),  # its leader died
        (1, 5.5, False),  # acknowledged by a deposed leader
        (1, 7.0, True),  # its leader leads to the end
        (0, 7.0, False),  # during a fault
        (0, 11.0, True),
    ],
)
def test_acks_determine_which_records_may_be_lost(acks: int, began: float, is_lost: bool) -> None:
    history = _history()
    history.leads.append(Leads(node=2, partition=PLACE, epoch=1, at=5.0))
    history.led += [
        Leads(node=1, partition=PLACE, epoch=0, at=6.0),
        Leads(node=2, partition=PLACE, epoch=1, at=30.0),
    ]
    history.sends[0] = _send(began=began, acks=acks)
    history.final[0] = replace(history.final[0], records=(), committed=())
    assert _kinds(history) == ({"lost write"} if is_lost else set())


def test_a_single_replica_keeps_its_acknowledged_records() -> None:
    history = _history()
    history.leads.append(Leads(node=1, partition=PLACE, epoch=1, at=5.0))
    history.sends[0] = _send(began=1.0, acks=1)
    history.final[0] = replace(history.final[0], records=(), committed=(), has_one_replica=True)
    assert _kinds(history) == {"lost write"}


def test_an_old_leader_of_a_moving_partition_may_lose_acks_1_records() -> None:
    history = _history()
    history.leads.append(Leads(node=1, partition=PLACE, epoch=1, at=1.0))
    history.leads.append(Leads(node=2, partition=PLACE, epoch=2, at=5.0))
    history.led.append(Leads(node=1, partition=PLACE, epoch=1, at=6.0))
    history.final[0] = replace(history.final[0], records=(), committed=(), has_one_replica=True)
    for began, kinds in ((4.0, {"lost write"}), (4.9, set()), (6.0, set()), (6.5, {"lost write"})):
        history.sends[0] = _send(began=began, acks=1)
        assert _kinds(history) == kinds, began
