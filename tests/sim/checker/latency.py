"""Latency: without faults every wait ends when its condition holds, and no leader changes.

In a simulated world only delays and timers take time. So the delays of its steps limit the duration of an
operation; a longer one has waited for a timer that should not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.checker.history import Anomaly, History, Outcome, Partition, Quiet, partition_text

SEND_STEPS = 4
"""For a record: linger, the coordinator's record of a new partition in a transaction, the write, and one step
that another batch of the partition may have begun."""
ALLOWED_S_MIN = 0.3
"""Connections broken by faults are reopened at their next use, after a back-off of up to 100 ms and the time
to connect. A missed notification costs half a second or more, as long polls do."""


def late_sends(history: History) -> Iterator[Anomaly]:
    """A record is acknowledged as soon as the replicas that its acks require have it."""
    for send in history.sends:
        quiet = _quiet_at(history, send.began)
        if quiet is None or send.outcome is not Outcome.OK:
            continue
        took_s, allowed_s = send.ended - send.began, max(SEND_STEPS * quiet.step_s, ALLOWED_S_MIN)
        if took_s > allowed_s:
            yield Anomaly(
                "late",
                f"{send.process} sent {send.value} to {partition_text(send.partition)} at {send.began:.3f}: "
                f"acknowledged after {_milliseconds(took_s)}, {_milliseconds(allowed_s)} allowed",
            )


def late_waits(history: History) -> Iterator[Anomaly]:
    """All other waits: see `Wait`."""
    for wait in history.waits:
        quiet = _quiet_at(history, wait.began)
        if quiet is None:
            continue
        took_s = wait.ended - wait.began
        allowed_s = wait.patience_s + max(wait.steps * quiet.step_s, ALLOWED_S_MIN)
        if took_s > allowed_s:
            yield Anomaly(
                "late",
                f"{wait.process} waited from {wait.began:.3f} on for {wait.kind}: "
                f"{_milliseconds(took_s)}, {_milliseconds(allowed_s)} allowed",
            )


def needless_elections(history: History) -> Iterator[Anomaly]:
    """Without faults leaders stay: of partitions, and of the quorum.

    A partition may return to its preferred leader, and a new partition gets its first one.
    """
    epochs: dict[Partition, int] = {}
    for leads in sorted(history.leads, key=lambda leads: leads.at):
        before = epochs.get(leads.partition, -1)
        epochs[leads.partition] = max(before, leads.epoch)
        if before < 0 or leads.epoch <= before or leads.is_preferred:
            continue
        if _quiet_at(history, leads.at) is not None:
            yield Anomaly(
                "needless election",
                f"node {leads.node} leads {partition_text(leads.partition)} in epoch {leads.epoch} from "
                f"{leads.at:.3f} on, after epoch {before}, though nothing was broken",
            )


def _quiet_at(history: History, at: float) -> Quiet | None:
    return next((quiet for quiet in history.quiet if quiet.began < at <= quiet.ended), None)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
