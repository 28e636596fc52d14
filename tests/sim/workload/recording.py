"""Records the operations and observations of a run's clients, as a `History` for the checker.

Rule: an operation is recorded as UNKNOWN before it begins, and gets its outcome later, so that the history is
correct even if the client dies in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from tests.sim.checker import (
    Assigned,
    Commit,
    Generation,
    History,
    Outcome,
    Read,
    Send,
    Transaction,
    Wait,
)
from tests.sim.checker.history import Partition, Place, SourcePlace

if TYPE_CHECKING:
    from ottla.testing.world import World


class Recorder:
    """`history` grows during the run; values are numbered over the whole run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = History()
        self.errors = 0
        self._values = 0
        self._transactions = 0

    def record_error(self, who: str, error: BaseException) -> None:
        """A client got an error, as may happen during faults."""
        self.errors += 1
        self.world.note(who, f"{type(error).__name__}: {error}"[:200])

    # Writes

    def send(
        self,
        process: str,
        partition: Partition,
        *,
        transaction: str | None = None,
        source: SourcePlace | None = None,
        acks: int = -1,
    ) -> tuple[int, str]:
        """Record a send before it happens; return its number and its value."""
        self._values += 1
        value = f"v{self._values}"
        self.history.sends.append(
            Send(
                process=process,
                partition=partition,
                value=value,
                outcome=Outcome.UNKNOWN,
                began=self.world.now,
                transaction=transaction,
                source=source,
                acks=acks,
                idempotent=acks == -1,
            )
        )
        return len(self.history.sends) - 1, value

    def sent(self, number: int, outcome: Outcome, offset: int | None = None) -> None:
        sends = self.history.sends
        sends[number] = replace(sends[number], outcome=outcome, offset=offset, ended=self.world.now)

    def waited(
        self, kind: str, process: str, began: float, *, steps: int = 4, patience_s: float = 0.0
    ) -> None:
        """Record the end of a wait whose condition held since `began`."""
        self.history.waits.append(
            Wait(
                kind=kind,
                process=process,
                began=began,
                ended=self.world.now,
                steps=steps,
                patience_s=patience_s,
            )
        )

    # Transactions

    def begin(self, process: str) -> tuple[int, str]:
        """Record the begin of a transaction; return its number and its name."""
        self._transactions += 1
        name = f"{process}/t{self._transactions}"
        self.history.transactions.append(
            Transaction(name=name, process=process, outcome=Outcome.UNKNOWN, end_began=inf)
        )
        return len(self.history.transactions) - 1, name

    def committing(self, number: int) -> None:
        """From now on its records may be visible."""
        transactions = self.history.transactions
        transactions[number] = replace(transactions[number], end_began=self.world.now)

    def ended(self, number: int, outcome: Outcome) -> None:
        transactions = self.history.transactions
        transactions[number] = replace(transactions[number], outcome=outcome)

    # Groups

    def assigned(self, group: str, member: str, generation: int, partitions: Iterable[Partition]) -> None:
        """A member got its new partitions: by then the coordinator has stored the generation.

        Generations are compared per member, since responses overtake one another.
        """
        now, named = self.world.now, tuple((topic, index) for topic, index in partitions)
        self.history.assigned.append(
            Assigned(group=group, member=member, generation=generation, partitions=named, at=now)
        )
        self.history.generations.append(Generation(group=f"{group}/{member}", generation=generation, at=now))

    def committed(
        self, group: str, offsets: dict[Partition, int], outcome: Outcome, transaction: str | None = None
    ) -> None:
        for partition, offset in offsets.items():
            self.history.commits.append(
                Commit(
                    group=group,
                    partition=partition,
                    offset=offset,
                    outcome=outcome,
                    ended=self.world.now,
                    transaction=transaction,
                )
            )


class ReadLog:
    """The ranges that one consumer instance reads: between two of its positions."""

    def __init__(self, recorder: Recorder, process: str, consumer: Any, *, committed: bool) -> None:
        self._recorder = recorder
        self._process = process
        self._consumer = consumer
        self._committed = committed
        self._positions: dict[Partition, int] = {}
        self._jumped: set[Partition] = set()

    def forget(self, partitions: Iterable[Partition]) -> None:
        """The partitions were revoked, or their position was reset."""
        for topic, index in partitions:
            self._positions.pop((topic, index), None)

    def take(self, records: Iterable[Any]) -> None:
        """Call it right after each poll."""
        got: dict[Partition, list[Place]] = {}
        for record in records:
            places = got.setdefault((record.topic, record.partition), [])
            places.append((record.offset, record.value.decode()))
        states = self._consumer._core.engine.positions.states
        for named, state in sorted(states.items()):
            partition = (named.topic, named.partition)
            if state.position < 0:
                continue
            self._window(partition, state.position, got.pop(partition, []))
        for partition, places in got.items():  # of a partition that was lost meanwhile
            self._window(partition, places[-1][0] + 1, places)

    def _window(self, partition: Partition, position: int, places: list[Place]) -> None:
        before = self._positions.get(partition)
        self._positions[partition] = position
        if before is None and not places:
            self._jumped.add(partition)
            return
        start = places[0][0] if before is None else before
        if start == position and not places:
            return
        self._recorder.history.reads.append(
            Read(
                process=self._process,
                partition=partition,
                committed=self._committed,
                position=start,
                next_position=position,
                records=tuple(places),
                ended=self._recorder.world.now,
                jumped=before is None or partition in self._jumped,
            )
        )
        self._jumped.discard(partition)
