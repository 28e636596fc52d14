"""The coordinator beside a small model of what it promises, under random requests, moves and delays.

The model knows of each transactional id who owns it, what is open, and how the last transaction ended. It
says for every request what the answer must be. OTTLA_TRANSACTION_RUNS sets how many lives are tried.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.coordinator.transactions.coordinator import Coordinator

from ottla.coordinator.transactions.markers import SendMarkers
from ottla.coordinator.transactions.settings import TransactionSettings
from ottla.coordinator.transactions.states import EPOCH_MAX, NO_TIMEOUT_MS, State, TopicPartition, Transaction
from ottla.wire.errors import ErrorCode

RUNS = int(os.environ.get("OTTLA_TRANSACTION_RUNS", "40"))
STEPS = 50
TIMEOUT_MS = 60_000

OK = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
LATER = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE = ErrorCode.INVALID_TXN_STATE

Identity = tuple[int, int]
names = st.sampled_from(["x", "x", "x", "y"])
partition_sets = st.frozensets(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2)), min_size=1, max_size=3
)
versions = st.sampled_from([0, 2])


@dataclass
class Promised:
    """One transactional id, seen from outside."""

    owner: Identity | None = None
    again: Identity | None = None  # may ask InitProducerId a second time
    ended_by: Identity | None = None  # may ask EndTxn a second time
    outcome: bool | None = None  # of the last transaction: committed?
    open: frozenset[TopicPartition] | None = None
    writer: Identity | None = None  # of what is open, where it is not the owner's
    began_ms: int = 0
    has_timeout: bool = True
    ending: set[TopicPartition] | None = None  # partitions without their marker
    known: list[Identity] = field(default_factory=list)  # every identity that a client was ever told

    def marker_epoch(self, bump: bool) -> int:
        assert self.owner is not None
        epoch = (self.writer or self.owner)[1]
        return min(epoch + 1, EPOCH_MAX) if bump else epoch


class TransactionModel(RuleBasedStateMachine):
    @initialize(
        version=st.sampled_from([0, 2, 2]),
        two_phase=st.booleans(),
        epoch=st.sampled_from([None, EPOCH_MAX - 4, EPOCH_MAX - 2, EPOCH_MAX - 1]),
    )
    def start(self, version: int, two_phase: bool, epoch: int | None) -> None:
        self.version = version
        self.coordinator = Coordinator(
            version=version, settings=TransactionSettings(is_two_phase_commit_enabled=two_phase)
        )
        self.two_phase = two_phase
        self.promised = {"x": Promised(), "y": Promised()}
        self.reports: list[SendMarkers] = []  # every order to write markers that was ever given
        self.decided: dict[tuple[str, Identity, int], bool] = {}
        self.end_count = {"x": 0, "y": 0}
        if epoch is not None:
            owner = (5, epoch)
            self.coordinator.run_records(
                [
                    Transaction(
                        transactional_id="x", producer_id=5, producer_epoch=owner[1], timeout_ms=TIMEOUT_MS
                    ).to_record(version)
                ]
            )
            self.promised["x"] = Promised(owner=owner, known=[owner])
            _, owner = self.coordinator.init("y", timeout_ms=TIMEOUT_MS)
            self.promised["y"] = Promised(owner=owner, known=[owner])

    # ---- what the model knows

    def bumped(self, owner: Identity) -> Identity:
        """What comes after an identity. A new id is whichever the coordinator took last."""
        if owner[1] >= EPOCH_MAX - 1:
            return self.coordinator.next_producer_id, 0
        return owner[0], owner[1] + 1

    def identity(self, data: Any, name: str) -> Identity:
        """Somebody who asks: mostly the owner, else one that is near it, was one, or never was."""
        promised = self.promised[name]
        owner = promised.owner or (1, 0)
        kind = data.draw(st.integers(0, 9))
        asking: Identity
        if kind < 6:
            asking = owner
        elif kind < 8:
            asking = (owner[0], max(owner[1] - 1, 0))
        else:
            strangers = [(1, 0), (owner[0], owner[1] + 1), (5, EPOCH_MAX), *promised.known]
            asking = data.draw(st.sampled_from(strangers))
        return asking

    def begin_ending(self, name: str, commit: bool, version: int, *, fence: bool = False) -> None:
        promised = self.promised[name]
        assert promised.owner is not None
        before = promised.owner
        bump = version >= 2
        partitions = promised.open or frozenset()
        self.expected_epoch = promised.marker_epoch(bump or fence)
        self.end_count[name] += 1
        promised.ended_by = before if bump else None
        if bump:
            promised.again = before
            promised.owner = self.bumped(before)
        elif fence:
            promised.owner = (before[0], min(before[1] + 1, EPOCH_MAX))
            promised.again = None
        promised.outcome = commit
        promised.open = None
        promised.writer = None
        promised.ending = set(partitions) or None

    def tell(self, name: str, identity: Identity) -> None:
        promised = self.promised[name]
        if identity not in promised.known:
            promised.known.append(identity)

    def check_markers(self, name: str) -> None:
        """What was ordered since is the end that the model expects."""
        for markers in self.coordinator.effects:
            promised = self.promised[name]
            assert markers.transactional_id == name
            assert promised.ending is not None
            assert markers.partitions == promised.ending
            assert markers.is_commit is promised.outcome
            assert markers.producer_epoch == self.expected_epoch
        self.keep_orders()

    def keep_orders(self) -> None:
        for markers in self.coordinator.effects:
            key = (
                markers.transactional_id,
                (markers.producer_id, markers.producer_epoch),
                self.end_count[markers.transactional_id],
            )
            assert self.decided.setdefault(key, markers.is_commit) is markers.is_commit
        self.reports += self.coordinator.effects
        self.coordinator.effects.clear()

    # ---- requests

    @rule(name=names, data=st.data(), says_who=st.booleans(), kind=st.integers(0, 11))
    def init(self, name: str, data: Any, says_who: bool, kind: int) -> None:
        expected = self.identity(data, name) if says_who else None
        is_odd = kind == 11  # asks for what this coordinator does not offer
        two_phase = kind % 2 == 1 if self.two_phase else is_odd
        keep = kind % 3 == 2 if self.two_phase and self.version >= 2 else is_odd
        promised = self.promised[name]
        answer, told = self.promised_init(name, expected, keep, two_phase)
        error, identity = self.coordinator.init(
            name,
            expected=expected or (-1, -1),
            timeout_ms=TIMEOUT_MS,
            two_phase=two_phase,
            keep=keep,
        )
        assert error == answer
        if error == OK:
            assert identity == told == promised.owner
            assert identity[1] < EPOCH_MAX
            ongoing = self.coordinator.last_response
            writer = promised.writer or (-1, -1)
            assert (ongoing.ongoing_txn_producer_id, ongoing.ongoing_txn_producer_epoch) == writer
            self.tell(name, identity)
        self.check_markers(name)

    def promised_init(
        self, name: str, expected: Identity | None, keep: bool, two_phase: bool
    ) -> tuple[ErrorCode, Identity | None]:
        promised = self.promised[name]
        if two_phase and not self.two_phase:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
        if keep and not (self.two_phase and self.version >= 2):
            return ErrorCode.UNSUPPORTED_VERSION, None
        if promised.owner is None:
            promised.owner = (self.coordinator.next_producer_id, 0)
            promised.has_timeout = not two_phase
            return OK, promised.owner
        if promised.ending is not None:
            return LATER, None
        is_owner = expected is None or expected == promised.owner
        is_again = expected is not None and expected == promised.again and not is_owner
        if promised.open is not None and not keep:
            if not is_owner:
                return FENCED, None
            self.begin_ending(name, False, self.version, fence=True)
            return LATER, None
        if not is_owner and not is_again:
            return FENCED, None
        if promised.open is not None:
            promised.writer = promised.writer or promised.owner
        else:
            promised.outcome = promised.ended_by = None
        if is_owner:
            promised.again = expected
            promised.owner = self.bumped(promised.owner)
        promised.has_timeout = not two_phase
        return OK, promised.owner

    @rule(name=names, partitions=partition_sets, commit=st.sampled_from([None, None, True, False]))
    def work(self, name: str, partitions: frozenset[TopicPartition], commit: bool | None) -> None:
        """What a sound producer does."""
        owner = self.promised[name].owner or (1, 0)
        self.add(name, owner, partitions)
        if commit is not None:
            self.end_by(name, owner, commit, self.version)

    @rule(name=names, data=st.data(), partitions=partition_sets)
    def add_partitions(self, name: str, data: Any, partitions: frozenset[TopicPartition]) -> None:
        self.add(name, self.identity(data, name), partitions)

    def add(self, name: str, asking: Identity, partitions: frozenset[TopicPartition]) -> None:
        promised = self.promised[name]
        answer = self.promised_write(promised, asking)
        assert self.coordinator.add(asking, partitions, name, version=self.version) == answer
        if answer == OK:
            if promised.open is None:
                promised.began_ms = self.coordinator.clock.value_ms
            # An answer that needs no record changes nothing.
            if promised.open is None or not partitions <= promised.open:
                promised.again = None
            promised.open = (promised.open or frozenset()) | partitions
            promised.outcome = promised.ended_by = None

    @rule(name=names, data=st.data(), partitions=partition_sets)
    def verify_partitions(self, name: str, data: Any, partitions: frozenset[TopicPartition]) -> None:
        asking = self.identity(data, name)
        promised = self.promised[name]
        if promised.ending is not None:
            found = self.coordinator.verify(asking, partitions, name)
            assert OK not in found
            return
        answer = self.promised_write(promised, asking)
        if answer != OK:
            assert self.coordinator.verify(asking, partitions, name) == {answer}
            return
        is_in = promised.open or frozenset()
        assert self.coordinator.verify(asking, partitions, name) == {
            OK if one in is_in else ErrorCode.TRANSACTION_ABORTABLE for one in partitions
        }

    def promised_write(self, promised: Promised, asking: Identity) -> ErrorCode:
        if promised.owner is None:
            return MAPPING
        if promised.ending is not None:
            return LATER
        if asking[0] != promised.owner[0]:
            return MAPPING
        if asking != promised.owner:
            return FENCED
        return OK if promised.writer is None else WRONG_STATE

    @rule(name=names, data=st.data(), commit=st.booleans(), version=versions)
    def end(self, name: str, data: Any, commit: bool, version: int) -> None:
        self.end_by(name, self.identity(data, name), commit, min(version, self.version))

    def end_by(self, name: str, asking: Identity, commit: bool, version: int) -> None:
        answer, told = self.promised_end(name, asking, commit, version)
        error, identity = self.coordinator.end(asking, commit=commit, transactional_id=name, version=version)
        assert error == answer
        if error == OK and version >= 2:
            assert identity == told
            assert identity[1] < EPOCH_MAX
            self.tell(name, identity)
        self.check_markers(name)

    def promised_end(
        self, name: str, asking: Identity, commit: bool, version: int
    ) -> tuple[ErrorCode, Identity | None]:
        promised = self.promised[name]
        owner = promised.owner
        if owner is None:
            return MAPPING, None
        if version < 2:
            return self.promised_end_by_protocol_1(name, asking, commit), None
        if promised.ending is not None:
            return LATER, None
        if promised.ended_by == asking and promised.outcome is not None:
            return (OK, owner) if promised.outcome is commit else (WRONG_STATE, None)
        if asking != owner:
            return (FENCED if asking[0] == owner[0] else MAPPING), None
        if promised.open is None and commit:
            return WRONG_STATE, None
        self.begin_ending(name, commit, version)
        return OK, promised.owner

    def promised_end_by_protocol_1(self, name: str, asking: Identity, commit: bool) -> ErrorCode:
        promised = self.promised[name]
        assert promised.owner is not None
        if promised.ending is not None:
            transaction = self.coordinator.of(name)
            owner = (transaction.producer_id, transaction.producer_epoch)
        else:
            owner = promised.owner
        if asking != owner:
            return FENCED if asking[0] == owner[0] else MAPPING
        if promised.ending is not None:
            return LATER
        if promised.open is not None:
            self.begin_ending(name, commit, 0)
            return OK
        return OK if promised.outcome is commit else WRONG_STATE

    # ---- what happens by itself

    @precondition(lambda self: any(one.ending for one in self.promised.values()))
    @rule(data=st.data(), all_of_them=st.booleans())
    def write_markers(self, data: Any, all_of_them: bool) -> None:
        name = data.draw(st.sampled_from([n for n, one in self.promised.items() if one.ending]))
        promised = self.promised[name]
        assert promised.ending
        markers = next(one for one in reversed(self.reports) if one.transactional_id == name)
        if all_of_them:
            written = set(promised.ending)
        else:
            written = {data.draw(st.sampled_from(sorted(promised.ending)))}
        self.coordinator.run(self.coordinator.shard.markers_written(markers, written))
        promised.ending = promised.ending - written or None
        label = self.coordinator.state(name)
        if promised.ending is None:
            assert label == ("CompleteCommit" if promised.outcome else "CompleteAbort")
        else:
            assert label == ("PrepareCommit" if promised.outcome else "PrepareAbort")

    @precondition(lambda self: any(one.coordinator_epoch < self.coordinator.epoch for one in self.reports))
    @rule(data=st.data())
    def report_to_another_coordinator(self, data: Any) -> None:
        stale = [one for one in self.reports if one.coordinator_epoch < self.coordinator.epoch]
        markers = data.draw(st.sampled_from(stale))
        assert self.coordinator.shard.markers_written(markers, markers.partitions).records == []

    @rule(
        what=st.sampled_from(["move", "expire", 1, 1, TIMEOUT_MS // 2, TIMEOUT_MS + 1]),
    )
    def something_happens(self, what: str | int) -> None:
        if what == "move":
            self.move_the_coordinator()
        elif what == "expire":
            self.coordinator.clock.value_ms += 1
            self.coordinator.run(self.coordinator.shard.expire_ids())
        else:
            assert isinstance(what, int)
            self.let_time_pass(what)

    def move_the_coordinator(self) -> None:
        self.coordinator.reload()
        for name, promised in self.promised.items():
            promised.again = None
            orders = [one for one in self.coordinator.effects if one.transactional_id == name]
            assert len(orders) == (0 if promised.ending is None else 1)
            for order in orders:
                promised.ending = set(order.partitions)  # which of them are written is not in the log
                assert order.is_commit is promised.outcome
        self.keep_orders()

    def let_time_pass(self, wait_ms: int) -> None:
        self.coordinator.clock.value_ms += wait_ms
        self.coordinator.run(self.coordinator.shard.abort_timed_out())
        now_ms = self.coordinator.clock.value_ms
        # The order matters for which new id goes to whom: they are swept in the order in which they began.
        late = sorted(
            (
                (promised.began_ms, name)
                for name, promised in self.promised.items()
                if promised.open is not None
                and promised.has_timeout
                and promised.began_ms + TIMEOUT_MS < now_ms
            ),
        )
        for _, name in late:
            owner = self.promised[name].owner
            assert owner is not None
            self.begin_ending(name, False, self.version, fence=True)
            if owner[1] >= EPOCH_MAX - 1 and self.version >= 2:
                self.promised[name].owner = self.coordinator.of(name).successor
            orders = [one for one in self.coordinator.effects if one.transactional_id == name]
            assert len(orders) == 1
            assert orders[0].producer_epoch == self.expected_epoch
            assert orders[0].is_commit is False
        assert len(self.coordinator.effects) == len(late)
        self.keep_orders()

    # ---- what always holds

    @invariant()
    def everything_is_as_promised(self) -> None:
        if not hasattr(self, "promised"):
            return
        for name, promised in self.promised.items():
            transaction = self.coordinator.shard.transactions.get(name)
            if promised.owner is None:
                assert transaction is None
                continue
            assert transaction is not None
            state = transaction.state
            if promised.ending is not None:
                assert state is (State.PREPARE_COMMIT if promised.outcome else State.PREPARE_ABORT)
                assert transaction.successor == promised.owner
            else:
                assert transaction.client == promised.owner
                assert (state is State.ONGOING) == (promised.open is not None)
            if promised.open is not None:
                assert transaction.partitions == promised.open
            assert (transaction.timeout_ms != NO_TIMEOUT_MS) == promised.has_timeout

    @invariant()
    def the_log_says_the_same(self) -> None:
        if not hasattr(self, "promised") or self.version == 0:
            return
        stored: dict[str, Transaction] = {}
        for record in self.coordinator.logged():
            key: Any = record.key
            value: Any = record.value
            stored[key.transactional_id] = Transaction.from_record(key, value)
        for name, transaction in self.coordinator.shard.transactions.items():
            held = {one: getattr(transaction, one) for one in transaction.__dataclass_fields__}
            held["last_producer_epoch"] = -1
            assert Transaction(**held) == stored[name]


TransactionModel.TestCase.settings = settings(
    max_examples=RUNS,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
test_the_coordinator_keeps_what_the_model_promises = TransactionModel.TestCase
