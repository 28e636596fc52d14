"""The examples of the guide do what they say, also when they are interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ottla
from tests.interop.library import postgres
from tests.interop.library.support import LibraryCluster, make_topic, unique, values_of

PATIENCE_SECONDS = 120
_EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", _EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fill(cluster: LibraryCluster, topic: str, values: list[str]) -> None:
    with ottla.Producer(cluster.bootstrap) as producer:
        sent = [producer.send(topic, value.encode()) for value in values]
        assert all(delivery.result(PATIENCE_SECONDS).error is None for delivery in sent)


def run_until(counts: Iterator[int], total: int) -> None:
    """Let an example work until it has done so much, then stop it as Ctrl-C would."""
    done = 0
    with contextlib.closing(counts):  # type: ignore[type-var]
        for count in counts:
            done += count
            if done >= total:
                return


class Interrupted(Exception):
    """What a crash is in these tests."""


async def post(app: Any, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """One request to an ASGI application, as a server makes it."""
    parts = [
        {"type": "http.request", "body": body[:1], "more_body": True},
        {"type": "http.request", "body": body[1:], "more_body": False},
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app({"type": "http", "path": path}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_web_handler_answers_once_its_record_is_safe(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "web")

    async def run() -> list[tuple[int, dict[str, Any]]]:
        app = example("web_handler").Application(cluster.bootstrap, topic)
        told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        life = asyncio.create_task(app({"type": "lifespan"}, told.get, heard.put))
        told.put_nowait({"type": "lifespan.startup"})
        assert (await heard.get())["type"] == "lifespan.startup.complete"
        answers = await asyncio.gather(*(post(app, "/order", f"order {n}".encode()) for n in range(50)))
        told.put_nowait({"type": "lifespan.shutdown"})
        assert (await heard.get())["type"] == "lifespan.shutdown.complete"
        await life
        return answers

    answers = asyncio.run(run())
    assert {status for status, _ in answers} == {201}
    stored = values_of(cluster, topic)
    for number, (_, answer) in enumerate(answers):
        assert stored[answer["offset"]] == f"order {number}".encode()


def test_exactly_once_stays_so_when_the_program_dies_within_a_transaction(cluster: LibraryCluster) -> None:
    source, target = make_topic(cluster, "source"), make_topic(cluster, "target")
    fill(cluster, source, [f"value {number}" for number in range(300)])
    transform, name = example("exactly_once").transform, unique("totals")
    seen = 0

    def dying(value: bytes) -> bytes:
        nonlocal seen
        seen += 1
        if seen == 120:
            raise Interrupted
        return value.upper()

    with pytest.raises(Interrupted):
        run_until(transform(cluster.bootstrap, source, target, dying, name=name), 300)
    before = len(values_of(cluster, target))
    run_until(transform(cluster.bootstrap, source, target, bytes.upper, name=name), 300 - before)
    assert values_of(cluster, target) == [f"VALUE {number}".encode() for number in range(300)]


def check_counts(cluster: LibraryCluster, connect: Any, mark: str) -> None:
    module, topic, group = example("offsets_in_database"), make_topic(cluster, "lines", 3), unique("words")
    lines = [f"word-{number % 7} and word-{number % 3}" for number in range(300)]
    fill(cluster, topic, lines)

    class Dying(module.Store):  # type: ignore[name-defined,misc]
        """Dies after the counts are written, before the transaction is over."""

        def _run(self, statement: str, *parameters: Any) -> Any:
            found = super()._run(statement, *parameters)
            if parameters and parameters[0] == "word-6":
                raise Interrupted
            return found

    with contextlib.closing(connect()) as connection, pytest.raises(Interrupted):
        run_until(module.count_words(cluster.bootstrap, topic, Dying(connection, mark), group=group), 300)
    with contextlib.closing(connect()) as connection:
        store = module.Store(connection, mark)
        done = sum(store.begin(ottla.TopicPartition(topic, index)) for index in range(3))
        run_until(module.count_words(cluster.bootstrap, topic, store, group=group), 300 - done)
        assert store.counts() == Counter(word for line in lines for word in line.split())


def test_offsets_in_sqlite_are_those_of_the_results(cluster: LibraryCluster, tmp_path: Path) -> None:
    check_counts(cluster, lambda: sqlite3.connect(tmp_path / "words.db"), "?")


@pytest.mark.peer
def test_offsets_in_postgresql_are_those_of_the_results(cluster: LibraryCluster) -> None:
    import psycopg

    with postgres.running() as text:
        check_counts(cluster, lambda: psycopg.connect(text), "%s")
