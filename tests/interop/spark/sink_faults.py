"""Faults for the sink's tests: processes that end themselves, hard, at a step that the test names.

A plan says at which step of which batch; each of its faults happens once, whatever is started again, since a
file in the state directory remembers it. Only tests import this: the sink itself has no such hooks.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ottla.client.admin import Admin
from ottla.spark.sink.errors import RetryRefused
from ottla.spark.sink.row_builder import BuiltBatch
from ottla.spark.sink.tasks import Send
from ottla.spark.sink.transaction import SharedTransaction
from ottla.spark.sink.writers import StreamWriter, stream_writer
from ottla.spark.source import OttlaSource
from tests.interop.peers import wait_until
from tests.interop.spark.sink_names import DRIVER, PLAN_OPTION, STATE_OPTION
from tests.interop.spark.sinks import end_offsets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.sink.options import SinkOptions


LINGER_SECONDS = 3.0
"""How long a slow task takes: longer by far than the others."""


@dataclass(frozen=True)
class Faults:
    """What shall happen where: {(batch, step)}, each once."""

    state: str
    plan: frozenset[tuple[int, str]]

    @classmethod
    def from_texts(cls, state: str, plan: Iterable[str]) -> Faults:
        """Plans are texts such as `2:before-end`."""
        pairs = (text.partition(":") for text in plan)
        return cls(state, frozenset((int(batch), step) for batch, _, step in pairs))

    def is_due(self, batch_id: int, step: str) -> bool:
        """Whether this is the time; it is once."""
        if (batch_id, step) not in self.plan:
            return False
        try:
            os.close(os.open(Path(self.state) / f"{batch_id}-{step}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def kill_driver(self, batch_id: int, step: str) -> bool:
        """End the driver, its JVM and this process, if it is due: nothing is flushed, nobody is told.

        Where the driver is the test itself nobody is killed: True tells that it has to play dead.
        """
        if not self.is_due(batch_id, step):
            return False
        pids = Path(self.state) / DRIVER
        if not pids.exists() and "pyspark.daemon" not in sys.modules:
            return True
        for pid in pids.read_text().split() if pids.exists() else ():
            if int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody comes back from that")


class Died(Exception):
    """The driver is dead, as far as brokers and Spark can see."""


class FaultyTransaction(SharedTransaction):
    """The driver dies before or after a step."""

    def __init__(self, options: SinkOptions, faults: Faults) -> None:
        super().__init__(options)
        self.faults = faults
        self.batch_id = -1
        self.is_dead = False

    def _reach(self, step: str) -> None:
        if self.faults.kill_driver(self.batch_id, step):
            self.is_dead = True
        if self.is_dead:
            raise Died(f"{step} of batch {self.batch_id}")

    def abandon(self) -> Exception | None:
        return None if self.is_dead else super().abandon()

    def close(self) -> None:
        if not self.is_dead:
            super().close()

    def prepare(self, query_id: str, batch_id: int) -> bool:
        self.batch_id = batch_id
        self._reach("before-prepare")
        is_new = super().prepare(query_id, batch_id)
        if is_new:
            (Path(self.faults.state) / f"{batch_id}-written").open("a").write("x")
        else:
            (Path(self.faults.state) / f"{batch_id}-skipped").touch()
        self._reach("after-prepare")
        return is_new

    def commit(self, query_id: str | None = None, batch_id: int | None = None) -> None:
        self.producer.flush()  # what is not sent yet would not be seen afterwards
        self._reach("before-marker")
        super().commit(query_id, batch_id)

    def end(self) -> None:
        self._reach("before-end")
        super().end()
        self._reach("after-end")


@dataclass(frozen=True)
class FaultySend(Send):
    """A task that dies, or outlives its driver, after it has written something."""

    faults: Faults
    batch_id: int

    def send(self, batches: Iterable[BuiltBatch]) -> pa.RecordBatch:
        try:
            report = super().send(self._interrupted(batches))
        except Exception as error:
            self._tell(repr(error))
            raise
        self._tell("it was allowed to write")
        return report

    def _tell(self, what: str) -> None:
        """Note what a zombie was told, if this is one."""
        state = Path(self.faults.state)
        zombie = state / "zombie.pid"
        if zombie.exists() and zombie.read_text() == str(os.getpid()):
            (state / "told.new").write_text(what)
            (state / "told.new").replace(state / "zombie.told")

    def _interrupted(self, batches: Iterable[BuiltBatch]) -> Iterator[BuiltBatch]:
        before = 0
        for count, one in enumerate(batches):
            if count == 1:
                self._reach(one, before)
            elif not count and any(batch == self.batch_id for batch, _ in self.faults.plan):
                before = self._written(one.topic)
            yield one

    def _written(self, topic: str) -> int:
        return sum(end_offsets(self.handle.bootstrap_servers, topic).values())

    def _reach(self, one: BuiltBatch, before: int) -> None:
        """Something was handed over: once brokers have it, it is time."""
        for step in ("in-task", "in-turn", "in-executor", "zombie", "outlast", "linger"):
            if not self.faults.is_due(self.batch_id, step):
                continue
            wait_until(lambda: self._written(one.topic) > before, 120.0, "something to be written")
            match step:
                case "in-task":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "in-turn":
                    assert self.turns is not None
                    self.turns.take(one.topic, one.partition)
                    os.kill(os.getpid(), signal.SIGKILL)
                case "in-executor":
                    os.kill(_executor(), signal.SIGKILL)
                case "zombie":
                    self._outlive()
                case "outlast":
                    wait_until(self._is_ended, 120.0, "the transaction to be aborted for its age")
                case "linger":
                    until = partial(lambda end: monotonic() > end, monotonic() + LINGER_SECONDS)
                    wait_until(until, 60.0, "time to pass")

    def _is_ended(self) -> bool:
        with Admin(self.handle.bootstrap_servers) as admin:
            name = self.handle.transactional_id
            told = admin.describe_transactions([name]).result(name)
        return told.state.lower() not in ("ongoing", "prepareabort", "prepare_abort")

    def _refuse_retry(self) -> None:
        try:
            super()._refuse_retry()
        except RetryRefused:
            (Path(self.faults.state) / "refused").touch()
            raise

    def _outlive(self) -> None:
        """Wait until the driver and its heirs are through; then go on, and note what came of it."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # how Spark's daemon ends its workers
        state = Path(self.faults.state)
        (state / "zombie.new").write_text(str(os.getpid()))
        (state / "zombie.new").replace(state / "zombie.pid")
        wait_until(lambda: (state / "zombie.go").exists(), 600.0, "the word for the zombie")
        if self.turns is not None:  # tasks that died in their turn would stop it: it has to meet the brokers
            for path in Path(self.turns.directory).iterdir():
                path.unlink()


def _executor() -> int:
    """The process that this worker's daemon works for: the JVM of the executor."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


class FaultyStreamWriter(StreamWriter):
    """The writer of the format, whose commit dies."""

    faults: Faults

    def transaction(self) -> SharedTransaction:
        return FaultyTransaction(self._writer.options, self.faults)


class FaultySource(OttlaSource):
    """The format "ottla" with that writer and two options more, which have the plan."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        plan = {name: self.options[name] for name in (STATE_OPTION, PLAN_OPTION)}
        options = {name: text for name, text in self.options.items() if name not in map(str.lower, plan)}
        made = stream_writer(options, schema, overwrite)
        writer = FaultyStreamWriter(made._writer.options, made._writer.columns)
        writer.faults = Faults.from_texts(plan[STATE_OPTION], filter(None, plan[PLAN_OPTION].split(",")))
        return writer
