"""Programs that end without closing their producer: what they sent is in the log, or they log the loss."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import ottla
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "1"}) as started:
        yield started


def end(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this language to its end."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )


def contents(broker: Broker, topic: str) -> list[bytes]:
    place = ottla.TopicPartition(topic, 0)
    with ottla.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        found: list[bytes] = []
        (end_offset,) = consumer.end_offsets([place]).values()
        while consumer.position(place) < end_offset:
            found += [record.value for record in consumer.poll(1.0)]
    return found


PLAIN = """
import sys, ottla
producer = ottla.Producer(sys.argv[1], linger_ms=60_000)
for number in range(100):
    producer.send(sys.argv[2], b"%d" % number)
"""
EXCEPTION = PLAIN + "raise KeyError('x')"
DROPPED = PLAIN + "del producer"
LATE_THREAD = (
    PLAIN
    + """
import threading
def late():
    threading.main_thread().join()
    for number in range(100, 200):
        producer.send(sys.argv[2], b"%d" % number)
threading.Thread(target=late).start()
"""
)
CHILD = """
import multiprocessing, sys, ottla
def work():
    producer = ottla.Producer(sys.argv[1], linger_ms=60_000)
    for number in range(100):
        producer.send(sys.argv[2], b"%d" % number)
child = multiprocessing.get_context("fork").Process(target=work)
child.start(); child.join()
sys.exit(child.exitcode)
"""


FIRST_IN_LATE_THREAD = """
import sys, threading, ottla
producer = ottla.Producer(sys.argv[1], linger_ms=60_000)
def late():
    threading.main_thread().join()
    for number in range(100):
        producer.send(sys.argv[2], b"%d" % number)
threading.Thread(target=late).start()
"""


@pytest.mark.parametrize(
    ("name", "loop", "program", "count", "code"),
    [
        ("plain", "uvloop", PLAIN, 100, 0),
        ("plain", "asyncio", PLAIN, 100, 0),
        ("exception", "asyncio", EXCEPTION, 100, 1),
        ("dropped", "asyncio", DROPPED, 100, 0),
        ("late-thread", "asyncio", LATE_THREAD, 200, 0),
        ("first-in-late-thread", "asyncio", FIRST_IN_LATE_THREAD, 100, 0),
        ("child", "asyncio", CHILD, 100, 0),
    ],
)
def test_what_was_sent_is_delivered_although_nobody_closed_the_producer(
    broker: Broker, name: str, loop: str, program: str, count: int, code: int
) -> None:
    topic = f"exit-{name}-{loop}"
    prelude = "" if loop == "uvloop" else "import sys; sys.modules['uvloop'] = None\n"
    # By its name: asyncio looks names up in threads, which an interpreter that ends does not start.
    done = end(prelude + program, f"localhost:{broker.port}", topic)
    assert done.returncode == code, done.stderr
    assert "not delivered" not in done.stderr
    assert contents(broker, topic) == [b"%d" % number for number in range(count)]


WITHIN = """
import asyncio, sys, ottla, ottla.aio
def main():
    with ottla.Producer(sys.argv[1], linger_ms=60_000) as producer:
        for number in range(100):
            producer.send(sys.argv[2], b"%d" % number)
        END
main()
"""
ASYNC_WITHIN = """
import asyncio, sys, ottla, ottla.aio
async def main():
    async with ottla.aio.Producer(sys.argv[1], linger_ms=60_000) as producer:
        for number in range(100):
            await producer.send(sys.argv[2], b"%d" % number)
        END
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [WITHIN, ASYNC_WITHIN], ids=["blocking", "async"])
def test_a_with_block_that_sys_exit_leaves_delivers_what_was_sent(
    broker: Broker, program: str, request: pytest.FixtureRequest
) -> None:
    topic = f"sys-exit-{request.node.callspec.id}"
    done = end(program.replace("END", "sys.exit(7)"), broker.bootstrap_servers, topic)
    assert done.returncode == 7, done.stderr
    assert contents(broker, topic) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(
    ("program", "ending"),
    [
        (WITHIN, "raise KeyboardInterrupt"),
        (ASYNC_WITHIN, "raise KeyboardInterrupt"),
        (ASYNC_WITHIN, "asyncio.current_task().cancel(); await asyncio.sleep(60)"),
    ],
    ids=["blocking-interrupted", "async-interrupted", "async-cancelled"],
)
def test_a_with_block_that_ctrl_c_or_a_cancellation_leaves_logs_how_many_records_it_drops(
    broker: Broker, program: str, ending: str, request: pytest.FixtureRequest
) -> None:
    topic = f"dropped-{request.node.callspec.id}"
    done = end(program.replace("END", ending), broker.bootstrap_servers, topic)
    assert done.stderr.count("before 100 records were acknowledged") == 1, done.stderr


def test_a_program_that_cannot_deliver_says_so_and_ends() -> None:
    program = """
import ottla
from ottla.testing import Broker
with Broker({"num.partitions": "1"}) as broker:
    producer = ottla.Producer(
        broker.bootstrap_servers, linger_ms=200, delivery_timeout_ms=500, request_timeout_ms=300
    )
    producer.partitions_for("t")
producer.send("t", b"first")
"""
    done = end(program)
    assert done.returncode == 0, done.stderr
    assert "1 records were not delivered" in done.stderr


def test_a_transaction_that_is_under_way_at_the_end_of_the_program_is_aborted_with_a_warning(
    broker: Broker,
) -> None:
    program = """
import sys, ottla
producer = ottla.Producer(sys.argv[1], transactional_id="at-exit")
producer.begin_transaction()
producer.send(sys.argv[2], b"x").result()
"""
    done = end(program, broker.bootstrap_servers, "exit-transaction")
    assert done.returncode == 0, done.stderr
    assert "The program ended during the transaction of at-exit" in done.stderr
    admin = ottla.Admin(broker.bootstrap_servers)
    with admin:
        (found,) = admin.describe_transactions(["at-exit"]).values()
    assert not isinstance(found, Exception)
    assert "Abort" in str(found.state)


def test_an_async_producer_whose_loop_ends_before_it_is_closed_logs_what_is_lost(broker: Broker) -> None:
    program = """
import asyncio, sys, ottla.aio
async def main():
    producer = ottla.aio.Producer(sys.argv[1], linger_ms=60_000)
    for number in range(100):
        await producer.send(sys.argv[2], b"%d" % number)
asyncio.run(main())
"""
    done = end(program, broker.bootstrap_servers, "exit-async")
    assert "100 records were not delivered" in done.stderr
    assert done.stderr.count("not delivered") == 1
