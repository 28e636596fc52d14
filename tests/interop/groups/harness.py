"""Members as processes of unmodified clients, a writer that never rests, and what a scenario needs of both.

A host is a child process of one client that runs any number of members, told by JSON lines on stdin. What it
writes on stdout goes to the ledger of the member's group. To kill a member is to kill its host, so a victim
has a host of its own; everyone else of a client shares one.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.interop import peers
from tests.interop.groups.ledger import At, Ledger

_HERE = Path(__file__).parent
_WAIT_S = 45.0
_WRITE_EVERY_S = 0.02
_WRITE_AT_ONCE = 3
MAX_POLL_MS = 60_000
_LOG_LINES = 25 if "OTTLA_TEST_CLIENT_LOG" not in os.environ else 100_000


@dataclass(frozen=True, slots=True)
class Client:
    """A client with one of its protocols."""

    name: str
    host: str
    protocol: str = "classic"
    is_cooperative: bool = (
        False  # has an assignor that moves only what must move (or leaves that to the broker)
    )
    cooperative_assignor: str | None = None


CLIENTS = [
    Client("java-classic", "java", is_cooperative=True, cooperative_assignor="cooperative-sticky"),
    Client("java-consumer", "java", "consumer", is_cooperative=True),
    Client("confluent-classic", "confluent", is_cooperative=True, cooperative_assignor="cooperative-sticky"),
    Client("confluent-consumer", "confluent", "consumer", is_cooperative=True),
    Client("franz-go-classic", "go", is_cooperative=True, cooperative_assignor="cooperative-sticky"),
    Client("franz-go-consumer", "go", "consumer", is_cooperative=True),
    Client("kafka-python", "python", is_cooperative=True, cooperative_assignor="cooperative-sticky"),
    Client("aiokafka", "aio"),
    Client("library-classic", "library", is_cooperative=True, cooperative_assignor="cooperative-sticky"),
    Client("library-consumer", "library", "consumer", is_cooperative=True),
]


def _command(host: str) -> list[str]:
    if host == "java":
        classes = peers.javac_compile(sorted((_HERE / "java").glob("GroupMembers.java")))
        log_level = os.environ.get("OTTLA_TEST_CLIENT_LOG", "warn")  # info: what the Java client thinks
        return peers.java_command("GroupMembers", classes=classes, log_level=log_level)
    if host == "go":
        return [str(peers.go_build(_HERE / "go"))]
    return [sys.executable, "-m", f"tests.interop.groups.members.{host}"]


class Host:
    """The process of a client with its members."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._ledgers: dict[str, Ledger] = {}
        self._was_killed = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._writing = threading.Lock()
        self._process = peers.start_process(
            _command(kind),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=peers.ROOT,
            env={**os.environ, "PYTHONPATH": f"{peers.ROOT}{os.pathsep}{peers.ROOT / 'src'}"},
        )
        self._reader = threading.Thread(target=self._read, name=f"reader of {kind}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            self._ledgers[event["member"]].add(event)

    def tell(self, op: str, member: str, **fields: object) -> None:
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(json.dumps({"op": op, "member": member, **fields}).encode() + b"\n")
            self._process.stdin.flush()

    def start(self, ledger: Ledger, member: str, **given: Any) -> None:
        self._ledgers[member] = ledger
        ledger.add({"at": _now_us(), "member": member, "event": "started"})
        self.tell("start", member, **given)

    def kill(self) -> None:
        """kill -9. Every event that the process still wrote is in before the ledgers hear of its death."""
        self._was_killed = True
        peers.end_process(self._process)
        self._reader.join()
        for member, ledger in self._ledgers.items():
            if member in ledger.live():
                ledger.add({"at": _now_us(), "member": member, "event": "killed"})

    def is_alive(self) -> bool:
        return self._was_killed or self._process.poll() is None

    def log_tail(self) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-_LOG_LINES:])

    def close(self) -> None:
        peers.end_process(self._process)
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                pipe.close()


def _now_us() -> int:
    return time.time_ns() // 1000


class Writer:
    """Writes to every registered topic, a few records at a time, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._lock = threading.Lock()
        self._turns: dict[str, Iterator[int]] = {}
        self._ends: dict[At, int] = {}
        self._failures: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        try:
            self._write_on()
        except Exception as error:  # noqa: BLE001 (it is told by `stop`, where a test sees it)
            self._failures.append(repr(error))

    def _write_on(self) -> None:
        while not self._is_over.wait(_WRITE_EVERY_S):
            with self._lock:
                for topic, turns in self._turns.items():
                    for partition in itertools.islice(turns, _WRITE_AT_ONCE):
                        self._producer.produce(topic, b"record", partition=partition, on_delivery=self._heard)
                self._producer.poll(0)

    def _heard(self, error: object, message: Any) -> None:
        if error is not None:
            self._failures.append(str(error))
        else:
            at = (message.topic(), message.partition())
            self._ends[at] = max(self._ends[at], message.offset() + 1)

    def start(self, topic: str, partitions: int) -> None:
        """Write to a topic, or to additional partitions of it."""
        self._producer.list_topics(topic, timeout=_WAIT_S)  # so that it knows of them all
        with self._lock:
            for index in range(partitions):
                self._ends.setdefault((topic, index), 0)
            self._turns[topic] = itertools.cycle(range(partitions))

    def stop(self, topics: list[str]) -> dict[At, int]:
        """Stop writing to these topics; their end offsets."""
        with self._lock:
            for topic in topics:
                del self._turns[topic]
            left = self._producer.flush(_WAIT_S)
        assert left == 0, f"{left} records were never acknowledged"
        assert not self._failures, self._failures
        return {at: end for at, end in self._ends.items() if at[0] in topics}

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.flush(5)


class World:
    """One broker, with the resources that scenarios share on it."""

    def __init__(self, broker: peers.BrokerProcess) -> None:
        self.broker = broker
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self.writer = Writer(broker.bootstrap)
        self._hosts: dict[str, Host] = {}
        self._starting = {client.host: threading.Lock() for client in CLIENTS}
        self._numbers = itertools.count()

    def host(self, kind: str) -> Host:
        with self._starting[kind]:  # a client may have to be built first, which the others need not wait for
            if kind not in self._hosts:
                self._hosts[kind] = Host(kind)
            return self._hosts[kind]

    def has_leaders(self, topic: str, count: int) -> bool:
        """Whether the broker tells of a topic's partitions; members that join before rebalance once more."""
        partitions = self.admin.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions
        return len(partitions) == count and all(each.leader >= 0 for each in partitions.values())

    def new_name(self, what: str) -> str:
        return f"{what}-{os.getpid()}-{next(self._numbers)}"

    def close(self) -> None:
        self.writer.close()
        for host in self._hosts.values():
            host.close()


class Group:
    """One group in one scenario: its members, its topics, and its final checks."""

    def __init__(self, world: World, client: Client, what: str, **given: Any) -> None:
        self.world = world
        self.client = client
        self.name = world.new_name(f"{what}-{client.name}")
        self.ledger = Ledger()
        self.partitions: set[At] = set()
        self.topics: list[str] = []
        self._given: dict[str, Any] = {
            "bootstrap": world.broker.bootstrap,
            "group": self.name,
            "protocol": client.protocol,
            "session_ms": 5000,
            "heartbeat_ms": 200,
            "max_poll_ms": MAX_POLL_MS,
            "commit_every": 10,
            **given,
        }
        self._hosts: dict[str, Host] = {}
        self._victims: list[Host] = []

    def add_topic(self, name: str | None = None, *, partitions: int = 6, is_consumed: bool = True) -> str:
        topic = name or self.name
        _done(self.world.admin.create_topics([NewTopic(topic, partitions, 1)]))
        self.wait(lambda: self.world.has_leaders(topic, partitions), f"the leaders of {topic}")
        if is_consumed:
            self.topics.append(topic)
            self.partitions |= {(topic, index) for index in range(partitions)}
            self.world.writer.start(topic, partitions)
        return topic

    def grow_topic(self, topic: str, partitions: int) -> None:
        _done(self.world.admin.create_partitions([NewPartitions(topic, partitions)]))
        self.wait(lambda: self.world.has_leaders(topic, partitions), f"the new partitions of {topic}")
        self.partitions |= {(topic, index) for index in range(partitions)}
        self.world.writer.start(topic, partitions)

    def start(
        self, *names: str, client: Client | None = None, host: Host | None = None, **given: Any
    ) -> None:
        chosen = client or self.client
        for name in names:
            member = self.member(name)
            self._hosts[member] = host or self.world.host(chosen.host)
            topics = {} if "pattern" in {**self._given, **given} else {"topics": self.topics}
            config = {**self._given, **topics, "protocol": chosen.protocol, **given}
            self._hosts[member].start(self.ledger, member, **config)

    def start_victim(self, name: str, **given: Any) -> Host:
        """A member in a separate process, which can be killed."""
        host = Host(self.client.host)
        self._victims.append(host)
        self.start(name, host=host, **given)
        return host

    def member(self, name: str) -> str:
        return f"{self.name}/{name}"

    def owned(self, name: str) -> set[At]:
        return self.ledger.owned(self.member(name))

    def pause(self, name: str, ms: int) -> None:
        self._hosts[self.member(name)].tell("pause", self.member(name), ms=ms)

    def close(self, *names: str) -> None:
        for name in names:
            self._hosts[self.member(name)].tell("close", self.member(name))
        for name in names:
            self._wait_closed(self.member(name))

    def _wait_closed(self, member: str) -> None:
        self.wait(lambda: member not in self.ledger.live(), f"{member} to close")

    def wait(self, condition: Callable[[], object], what: str) -> None:
        def holds() -> bool:
            failed = [str(event) for event in self.ledger.events("error")]
            failed += [f"{host.kind} ended" for host in self._hosts.values() if not host.is_alive()]
            assert not failed, f"members failed while waiting for {what} in {self.name}: {failed}"
            return bool(condition())

        peers.wait_until(holds, _WAIT_S, f"{what} in {self.name}", pause_s=0.05)

    def dismiss(self, *names: str) -> None:
        """Close members that may have ended already."""
        for name in names:
            self._hosts[self.member(name)].tell("close", self.member(name))

    def wait_failure(self, name: str, words: str) -> None:
        """Wait until a member reports the failure `words`; no other member may fail."""

        def has_failed() -> bool:
            failures = self.ledger.events("error", "note", "commit_failed")
            others = [event for event in failures if event["member"] != self.member(name)]
            assert not others, others
            return any(re.search(words, str(event), re.IGNORECASE) for event in failures)

        peers.wait_until(has_failed, _WAIT_S, f"the failure of {name} in {self.name}")

    def wait_owns_all(self, name: str) -> None:
        """Wait until a member owns every partition, whatever other members report meanwhile."""
        what = f"{name} to own all of {self.name}"
        peers.wait_until(lambda: self.owned(name) == self.partitions, _WAIT_S, what)

    def wait_shared_out_evenly(self) -> None:
        """Wait until no member has two partitions more than another, which completes a sticky assignment."""
        self.wait_shared_out()

        def are_even() -> bool:
            counts = [len(self.ledger.owned(member)) for member in self.ledger.live()]
            return self.ledger.is_shared_out(self.partitions) and max(counts) - min(counts) < 2

        self.wait(are_even, "an even assignment")

    def wait_shared_out(self, *, leaving_out: tuple[str, ...] = ()) -> None:
        """Wait until every partition has an owner and every member a partition."""
        left_out = [self.member(name) for name in leaving_out]
        self.wait(lambda: self.ledger.is_shared_out(self.partitions, leaving_out=left_out), "an assignment")

    def wait_records(self, name: str, count: int = 1) -> None:
        """Wait until a member has received this many more batches of records."""
        member = self.member(name)
        before = len(self.ledger.events("records", member=member))
        self.wait(
            lambda: len(self.ledger.events("records", member=member)) >= before + count, f"records at {name}"
        )

    def committed(self) -> dict[At, int]:
        asked = ConsumerGroupTopicPartitions(self.name)
        answer = self.world.admin.list_consumer_group_offsets([asked])[self.name].result(_WAIT_S)
        return {(each.topic, each.partition): each.offset for each in answer.topic_partitions}

    def finish(self, *, may_lose: bool = False) -> None:
        """Stop writing, wait for all deliveries, and check; `may_lose`: see `Ledger.breaches`."""
        ends = self.world.writer.stop(self.topics)
        self.wait(lambda: self.ledger.has_all(ends), "the last records")
        self.wait_shared_out()
        breaches = self.ledger.breaches(ends, max_poll_ms=self._given["max_poll_ms"], may_lose=may_lose)
        assert not breaches, "\n".join(["a group must not:", *breaches])
        self.close(*(member.removeprefix(self.name + "/") for member in sorted(self.ledger.live())))
        held = self.committed()
        assert held == self.ledger.committed(), "the group holds the commits that were acknowledged last"
        written = {at: end for at, end in ends.items() if end}
        assert may_lose or held == written, "all that was delivered is committed once the members have closed"

    def end(self) -> None:
        for victim in self._victims:
            victim.close()

    def told(self) -> str:
        logs = [f"--- {host.kind}\n{host.log_tail()}" for host in {*self._hosts.values(), *self._victims}]
        return "\n".join([f"events of {self.name} (without records and commits):", self.ledger.told(), *logs])


@contextmanager
def group(world: World, client: Client, what: str, **given: Any) -> Iterator[Group]:
    """A group to try things on; what its members did stands beside a failure."""
    made = Group(world, client, what, **given)
    try:
        yield made
    except (AssertionError, KafkaException) as error:
        raise AssertionError(f"{error}\n{made.told()}") from error
    finally:
        made.end()


def _done(futures: Mapping[str, Any]) -> None:
    for future in futures.values():
        future.result(_WAIT_S)
