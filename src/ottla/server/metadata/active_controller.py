"""The active controller: decides on its newest state, appends the records and applies them to that state.

Decisions are made one after the other. One that takes longer than a slice of the event loop continues in
later turns, and the others wait in order: nothing changes the state while it is read, and the records of a
decision are appended at once. A response is sent once its records are committed. A controller that loses the
leadership drops the decision in progress, which has appended either nothing or all of its records, and
answers NOT_CONTROLLER to it and to all waiting requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ottla.config import BrokerConfig
from ottla.controller.config_rules import BrokerConfigRules
from ottla.controller.feature_levels import SUPPORTED_FEATURES
from ottla.controller.image import METADATA_VERSION, ClusterImage
from ottla.controller.records import encode_record
from ottla.controller.registrations import InvalidMetadata
from ottla.controller.result import Decision, Result, Steps
from ottla.controller.state import ControllerSettings, ControllerState
from ottla.ports import Clock, Random
from ottla.raft.driver import Driver
from ottla.raft.replica import NotLeader
from ottla.wire.errors import (
    InvalidUpdateVersion,
    KafkaError,
    KafkaStorageError,
    NotController,
    RequestTimedOut,
)
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import FeatureLevelRecord

logger = logging.getLogger("ottla.server.metadata.quorum")

RECORDS_PER_BATCH_MAX = 10_000
SLICE_MS = 4
"""The time that decisions may take in one turn of the event loop."""

_T = TypeVar("_T")


@dataclass(slots=True)
class _Pending:
    """A decision in progress, or one that waits for earlier ones."""

    decision: Decision[Any]
    answer: asyncio.Future[Any]
    asked_ms: int
    timeout_ms: int | None
    steps: Steps[None] | None = None

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            if isinstance(error, KafkaError):
                error = error.with_traceback(None)  # whose frames hold the future, which would be a cycle
            self.answer.set_exception(error)


class _Uncommitted(NamedTuple):
    """A response that is sent once the record at `offset` is committed."""

    offset: int
    answer: asyncio.Future[Any]
    response: Any


class ActiveController:
    """The decisions of this node while it leads the quorum. `is_active` says whether it does."""

    def __init__(
        self, driver: Driver[Message], *, clock: Clock, random: Random, config: BrokerConfig, cluster_id: str
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._random = random
        self._config = config
        self._cluster_id = cluster_id
        self.state: ControllerState | None = None
        """The newest state, None while this node does not lead."""
        self._pending: deque[_Pending] = deque()
        self._next_slice: asyncio.Handle | None = None
        self._uncommitted: deque[_Uncommitted] = deque()
        self.last_append_at = 0.0
        driver.failure.add_done_callback(
            lambda _: self._fail_all(KafkaStorageError("The metadata log failed."))
        )

    @property
    def is_active(self) -> bool:
        return self.state is not None and not self._driver.failure.done()

    # Leadership

    def begin(self, image: ClusterImage, kraft_version: int) -> None:
        """Become active, with a copy of the committed image as the initial state."""
        self.state = ControllerState(
            image,
            self._settings(),
            BrokerConfigRules(self._config),
            next_offset=self._driver.next_offset,
            now_ms=self._now_ms(),
            kraft_version=kraft_version,
            random_bytes=self._random.bytes,
            random_below=self._random.below,
        )

    def end(self, error: Exception) -> None:
        """Stop being active: waiting requests get the error."""
        self.state = None
        self._fail_all(error)

    def _settings(self) -> ControllerSettings:
        config = self._config
        return ControllerSettings(
            node_id=config.node_id,
            cluster_id=self._cluster_id,
            default_partitions=config.int_of("num.partitions"),
            default_replication_factor=config.int_of("default.replication.factor"),
            min_insync_replicas=config.int_of("min.insync.replicas"),
            session_timeout_ms=config.int_of("broker.session.timeout.ms"),
            is_topic_deletion_enabled=config.bool_of("delete.topic.enable"),
            supported_features=SUPPORTED_FEATURES,
            quorum_ids=frozenset(config.quorum_voters),
        )

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _fail_all(self, error: Exception) -> None:
        if self._next_slice is not None:
            self._next_slice.cancel()
            self._next_slice = None
        answers = [waiting.answer for waiting in self._uncommitted]
        answers += [pending.answer for pending in self._pending]
        self._uncommitted.clear()
        self._pending.clear()
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)

    # Decisions

    def decide(self, decision: Decision[_T], *, timeout_ms: int | None = None) -> asyncio.Future[_T]:
        """Make a decision after earlier ones; the future gets the response once that is committed.

        RequestTimedOut: its turn did not come within `timeout_ms`. A decision that has begun is made.
        """
        if self._driver.failure.done():
            raise KafkaStorageError("The metadata log of this controller failed.")
        if self.state is None:
            raise NotController("This node is not the active controller.")
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(decision, answer, self._now_ms(), timeout_ms))
        if len(self._pending) == 1:
            self._run()
        return answer

    def decide_first(self, *decisions: Decision[object]) -> asyncio.Future[list[object]]:
        """Make the decisions that begin a leadership, in one flush. Raises the error of a rejected one."""
        answers = [self.decide(decision) for decision in decisions]
        for answer in answers:
            if answer.done():
                answer.result()
        return asyncio.gather(*answers)

    def _run(self) -> None:
        """Make decisions for one slice of time."""
        monotonic, queue = self._clock.monotonic, self._pending
        end = monotonic() + SLICE_MS / 1000
        while queue:
            pending = queue[0]
            try:
                while self._step(pending):
                    if monotonic() >= end:
                        self._next_slice = asyncio.get_running_loop().call_soon(self._run)
                        return
            except Exception as error:  # noqa: BLE001 - whoever waits for the decision gets it
                pending.fail(error)
            if queue and queue[0] is pending:  # else the leadership ended with it
                queue.popleft()

    def _step(self, pending: _Pending) -> bool:
        """Make a part of a decision; return whether more is left."""
        state = self.state
        if pending.steps is None:
            if state is None or pending.answer.done():  # nobody waits for it any more
                return False
            pending.steps = self._make(pending, state)
        try:
            next(pending.steps)
        except StopIteration:
            return False
        return True

    def _make(self, pending: _Pending, state: ControllerState) -> Steps[None]:
        """Decide, append and apply."""
        state.now_ms = self._now_ms()
        state.waited_ms = state.now_ms - pending.asked_ms
        if pending.timeout_ms is not None and state.waited_ms >= pending.timeout_ms:
            raise RequestTimedOut(f"The controller did not begin within {pending.timeout_ms} ms.")
        outcome = pending.decision(state)
        result = outcome if isinstance(outcome, Result) else (yield from outcome)
        values = yield from _encoded(state.image, result.records)
        last_offset = self._append(state, result, values)
        if last_offset is None:
            if not pending.answer.done():
                pending.answer.set_result(result.response)
        else:
            self._uncommitted.append(_Uncommitted(last_offset, pending.answer, result.response))
        try:
            yield from state.apply(result.records)
        except InvalidMetadata as error:
            logger.critical("Generated records that contradict the metadata state: %s", error)
            pending.fail(error)
            self.state = None
            self._driver.fail(error)  # what is in the log cannot be applied by anyone
            raise

    def _append(self, state: ControllerState, result: Result[Any], values: Sequence[bytes]) -> int | None:
        """Append the records of a decision; return the offset to wait for, None if there is none."""
        driver, records = self._driver, result.records
        if result.kraft_version is not None and result.kraft_version > driver.replica.kraft_version.last:
            try:
                driver.upgrade_kraft_version(result.kraft_version)
            except ValueError as error:
                raise InvalidUpdateVersion(str(error)) from error
            state.kraft_version = result.kraft_version
            state.next_offset = driver.next_offset
        if not records:
            if result.when_appended is not None:
                result.when_appended()
            return self._uncommitted[-1].offset if self._uncommitted else None
        step = len(records) if result.is_atomic else RECORDS_PER_BATCH_MAX
        try:
            for start in range(0, len(records), step):
                last_offset = driver.append(values[start : start + step], records[start : start + step])
        except NotLeader:
            raise NotController("This node is no longer the active controller.") from None
        self.last_append_at = self._clock.monotonic()
        if result.when_appended is not None:
            result.when_appended()
        expected = state.next_offset + len(records) - 1
        if expected != last_offset:
            raise RuntimeError(
                f"Records were appended up to offset {last_offset}, but the state expects {expected}."
            )
        return last_offset

    # What happens around decisions

    def committed(self, offset: int) -> None:
        """Everything up to `offset` is committed: send the responses that waited for it."""
        waiting = self._uncommitted
        while waiting and waiting[0].offset <= offset:
            _, answer, response = waiting.popleft()
            if not answer.done():
                answer.set_result(response)

    def follow_control_records(self) -> None:
        """The quorum appended its own records: the next decision's records come after them."""
        if self.state is not None:
            self.state.next_offset = self._driver.next_offset

    def extend_sessions(self, late_ms: int) -> None:
        """Extend the brokers' sessions: this process was stalled and did not read their heartbeats."""
        if self.state is not None:
            self.state.heartbeats.excuse(late_ms, self._now_ms())


def _encoded(image: ClusterImage, records: Sequence[Message]) -> Steps[list[bytes]]:
    """Encode each record at the metadata.version of its position: a record may change it for the next."""
    level = image.metadata_version
    values = []
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            level = record.feature_level
        values.append(encode_record(record, level))
        yield
    return values
