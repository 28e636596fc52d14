"""An exception that nobody foresaw, in each duty and each handler in turn, costs at most what it was about.

Duties and handlers are taken from the node's own tables, so that a new one is tried without being named here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.asking import Asking, produce_request
from tests.unit.server.metadata.test_quorum import run as run_bounded

from ottla.config import development_config
from ottla.host import HostClock, HostDisk, HostNetwork, HostRandom
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.log import Log
from ottla.server.fatal_errors import StopReason
from ottla.server.metadata.background_tasks import BackgroundTasks
from ottla.server.net.dispatch import Dispatcher
from ottla.server.net.forwarding import Handler
from ottla.server.node import Node
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import apis
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest

FAILURES = 2
Duty = Callable[[], Any]


class FailingNode(Node):
    """A node whose duties all fail unexpectedly at first, and run at short intervals."""

    failures_wanted = FAILURES

    def _run_every(self, name: str, interval_ms: int, duty: Duty) -> None:
        super()._run_every(name, 10, self._failing(name, duty))

    def _run_duty(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        super()._run_duty(name, self._failing(name, duty))

    def _failing(self, name: str, duty: Duty) -> Duty:
        self.calls = getattr(self, "calls", {})
        self.tables = getattr(self, "tables", {})
        self.calls[name], self.tables[name] = 0, duty

        def call() -> Any:
            self.calls[name] += 1
            if self.calls[name] <= self.failures_wanted:
                raise RuntimeError(f"unforeseen in {name}")
            return duty()

        return call


class CalmNode(FailingNode):
    """A node whose duties do not run by themselves; tests call them."""

    failures_wanted = 0

    def _run_every(self, name: str, interval_ms: int, duty: Duty) -> None:
        Node._run_every(self, name, 10**6, self._failing(name, duty))

    def _run_duty(self, name: str, duty: Callable[[], Awaitable[None]]) -> None:
        Node._run_duty(self, name, self._failing(name, lambda: asyncio.sleep(10**6)))
        self.tables[name] = duty


def node_of(kind: type[FailingNode], directory: Path) -> FailingNode:
    return kind(
        development_config(data_directory=str(directory), port=0, host="127.0.0.1"),
        clock=HostClock(),
        random=HostRandom(),
        disk=HostDisk(),
        network=HostNetwork(),
    )


def with_node(
    kind: type[FailingNode], directory: Path, test: Callable[[FailingNode], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        node = node_of(kind, directory)
        await node.start()
        try:
            await test(node)
            assert node.failure is not None
            assert not node.failure.done()
        finally:
            await node.stop()

    run_bounded(main)


async def ask(node: Node, talk: Callable[[Asking], Any]) -> Any:
    """Use the node from a thread, since the loop belongs to the node."""

    def here() -> Any:
        with Asking(node.port) as client:
            return talk(client)

    return await asyncio.to_thread(here)


async def check_serves(node: Node, topic: str) -> None:
    answer = await ask(node, lambda client: client.produce(topic, [b"v"]))
    assert answer.error_code == 0
    values = await ask(node, lambda client: client.values(topic))
    assert values[-1] == b"v"


# ---- duties


def test_every_failed_duty_is_retried_while_the_node_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.server.node.DUTY_RETRY_SECONDS", 0.01)

    async def test(node: FailingNode) -> None:
        await ask(node, lambda client: client.create_topic("good", retention_ms="-1"))
        assert set(node.calls) == set(node._duties)
        assert len(node.calls) >= 14
        while min(node.calls.values()) <= FAILURES:
            await asyncio.sleep(0.01)
        assert {place: node.failures.counts[place] for place in node.failures.counts} == {
            (name, ""): FAILURES for name in node.calls
        }
        assert not any(duty.done() for duty in node._duties.values())
        await check_serves(node, "good")

    with_node(FailingNode, tmp_path, test)


def test_every_periodic_task_of_a_controller_that_fails_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    every = BackgroundTasks.every

    def failing(
        tasks: BackgroundTasks, seconds: float, name: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        number = len(calls)
        calls.append(0)

        async def call() -> None:
            calls[number] += 1
            if calls[number] <= FAILURES:
                raise RuntimeError("unforeseen")
            await work()

        every(tasks, 0.01, name, call)

    monkeypatch.setattr(BackgroundTasks, "every", failing)

    async def test(node: FailingNode) -> None:
        assert len(calls) >= 5
        while min(calls) <= FAILURES:
            await asyncio.sleep(0.01)
        assert node.failures.total == FAILURES * len(calls)
        await ask(node, lambda client: client.create_topic("good"))
        await check_serves(node, "good")

    with_node(CalmNode, tmp_path, test)


class Poisoned:
    """A log that raises on every access, except for its name and path."""

    def __init__(self, log: Log) -> None:
        self.name, self.topic, self.partition, self.directory = (
            log.name,
            log.topic,
            log.partition,
            log.directory,
        )

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"unforeseen in {name}")


class Watched:
    """A log that records the calls."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name not in ("directory", "topic", "partition", "name"):
            self.asked.append(name)
        return getattr(self._log, name)


def log_duties(node: FailingNode) -> Iterator[tuple[str, Duty]]:
    """The duties that iterate over logs, one run of each."""
    directories = node.broker.directories
    for name, duty in node.tables.items():
        if isinstance(getattr(duty, "__self__", None), LogDirectories):
            yield name, duty
    yield "deletion", directories.delete_due
    yield "cleaning", directories.cleaner.clean_next


def test_a_duty_that_fails_for_one_log_continues_with_the_others(tmp_path: Path) -> None:
    async def test(node: FailingNode) -> None:
        await ask(node, lambda client: client.create_topic("bad"))
        await ask(node, lambda client: client.create_topic("good"))
        logs = node.broker.directories.logs
        bad, good = logs["bad", 0], logs["good", 0]
        watched = Watched(good)
        logs["bad", 0] = Poisoned(bad)  # type: ignore[assignment]
        logs["good", 0] = watched  # type: ignore[assignment]
        assert list(logs) == [("bad", 0), ("good", 0)]
        names = []
        for name, duty in log_duties(node):
            watched.asked.clear()
            node.broker.directories.directories[0].files.clear()  # forces a write of each checkpoint
            outcome = duty()
            if inspect.isawaitable(outcome):
                await outcome
            assert watched.asked, f"{name} did not come to the second log"
            names.append(name)
        assert {"flush", "retention", "expiry of producers", "recovery points"} <= set(names)
        failed = {subject for _, subject in node.failures.counts}
        assert failed == {"bad-0"}
        logs["bad", 0], logs["good", 0] = bad, good
        await check_serves(node, "good")
        await check_serves(node, "bad")

    with_node(CalmNode, tmp_path, test)


def test_failed_metadata_of_one_partition_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(node: FailingNode) -> None:
        replicas = node.broker.replicas
        assert replicas is not None
        apply = replicas._apply_partition

        def fail(topic: Any, index: int, *arguments: Any, **options: Any) -> None:
            if topic.name == "bad":
                raise RuntimeError("unforeseen")
            apply(topic, index, *arguments, **options)

        monkeypatch.setattr(replicas, "_apply_partition", fail)
        await ask(node, lambda client: client.create_topic("bad"))
        await ask(node, lambda client: client.create_topic("good"))
        await check_serves(node, "good")
        assert node.failures.counts["metadata", "bad-0"] == 1
        answer = await ask(node, lambda client: client.produce("bad", [b"v"]))
        assert answer.error_code != 0
        monkeypatch.undo()
        node.tables["metadata that failed"]()
        await check_serves(node, "bad")

    with_node(CalmNode, tmp_path, test)


# ---- handlers


def raising(kind: str) -> Callable[..., Any]:
    """A handler that fails at once, when awaited, or in the middle of long work."""

    def at_once(*_: Any) -> Any:
        raise RuntimeError("unforeseen")

    async def awaited(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise RuntimeError("unforeseen")

    def in_steps(*_: Any) -> Any:
        yield
        raise RuntimeError("unforeseen")

    def later(*_: Any) -> Any:
        answer = PendingResponse()
        asyncio.get_running_loop().call_soon(lambda: answer.complete(object()))
        return answer

    def unwritable(*_: Any) -> Any:
        return object()

    return {
        "at once": at_once,
        "awaited": awaited,
        "in steps": in_steps,
        "unwritable": unwritable,
        "unwritable later": later,
    }[kind]


@pytest.mark.parametrize("kind", ["at once", "awaited", "in steps", "unwritable", "unwritable later"])
def test_a_failing_handler_closes_at_most_its_connection(tmp_path: Path, kind: str) -> None:
    async def test(node: FailingNode) -> None:
        await ask(node, lambda client: client.create_topic("good"))
        dispatchers = {listener.name: node.broker.dispatchers[listener.name] for listener in node.listeners}
        tried = 0
        for listener in node.listeners:
            dispatcher = dispatchers[listener.name]
            for key in dispatcher.api_keys:
                tried += await check_handler(node, dispatcher, listener.port, key, raising(kind))
        assert tried >= 80

    with_node(CalmNode, tmp_path, test)


async def check_handler(
    node: Node, dispatcher: Dispatcher, port: int, key: int, handle: Callable[..., Any]
) -> int:
    """Make one handler fail; check that others work meanwhile, and the API itself afterwards."""
    entry = apis.API_BY_KEY[key]
    version = max(entry.stable_versions)
    original, routes = dispatcher._handlers[key], dispatcher._routes
    dispatcher._handlers[key] = Handler(handle)
    routes.clear()

    def talk() -> None:
        with Asking(port) as client, Asking(port) as other:
            client.send(entry.request_class()(), version)
            try:
                client.receive_frame()
            except (EOFError, ConnectionError):
                pass
            else:
                raise AssertionError(f"{entry.name} was answered")
            if key != 18:
                other.send(apis.API_BY_KEY[18].request_class()(), 0)
                other.receive_frame()

    try:
        await asyncio.to_thread(talk)
    finally:
        dispatcher._handlers[key] = original
        routes.clear()
    assert node.failure is not None
    assert not node.failure.done(), f"{entry.name} ended the node"
    return 1


def test_a_failure_in_one_partition_leaves_the_others_of_a_request(tmp_path: Path) -> None:
    async def test(node: FailingNode) -> None:
        await ask(node, lambda client: client.create_topic("mixed", 2))
        for index in range(2):
            await ask(node, lambda client, index=index: client.produce("mixed", [b"v"], partition=index))  # type: ignore[misc]
        partition = node.broker.partitions.get("mixed", 0)
        assert partition is not None
        log = partition.log
        assert log is not None
        partition.log = Poisoned(log)  # type: ignore[assignment]
        fine, failed = ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR

        request = produce_request("mixed", [b"w"])
        other = produce_request("mixed", [b"w"], partition=1)
        request.topic_data[0].partition_data += other.topic_data[0].partition_data
        produced = await ask(node, lambda client: client.ask(request, 9))
        codes = [one.error_code for one in produced.responses[0].partition_responses]
        assert codes == [failed, fine]

        wanted = [
            FetchRequest.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(2)
        ]
        fetch = FetchRequest(topics=[FetchRequest.FetchTopic(topic="mixed", partitions=wanted)])
        fetched = await ask(node, lambda client: client.ask(fetch, 12))
        assert {one.partition_index: one.error_code for one in fetched.responses[0].partitions} == {
            0: failed,
            1: fine,
        }

        asked = [
            ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)
        ]
        listing = ListOffsetsRequest(
            topics=[ListOffsetsRequest.ListOffsetsTopic(name="mixed", partitions=asked)]
        )
        listed = await ask(node, lambda client: client.ask(listing, 7))
        assert [one.error_code for one in listed.topics[0].partitions] == [failed, fine]

        partition.log = log
        assert {subject for _, subject in node.failures.counts} == {"mixed-0"}
        again = await ask(node, lambda client: client.values("mixed"))
        assert again == [b"v"]

    with_node(CalmNode, tmp_path, test)


# ---- the list of fatal errors

ROOT = Path(__file__).parents[3]


def test_the_fatal_errors_are_documented() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text().lower()
    for reason in StopReason:
        assert reason.value in text


def test_no_other_error_stops_a_node() -> None:
    """`Node.failure` stops a node: it is set exactly where `fatal_errors.py` says."""
    places = [
        path.name
        for part in ("server", "raft", "replication", "coordinator", "log")
        for path in (ROOT / "src" / "ottla" / part).rglob("*.py")
        if "failure.set_exception" in path.read_text()
    ]
    assert sorted(places) == ["driver.py", "node.py"]
