"""Kafka's kafka-reassign-partitions on one cluster, and what lies on the disks of its brokers."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.mixed.nodes import BrokerOnly

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SECONDS_MAX = 120.0
PATIENCE_MS = "30000"  # of a controller with its brokers: they are not fenced because a machine is slow
_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
Wanted = Mapping[tuple[str, int], Sequence[int]]


class Reassigning:
    """The tool, with the files that it reads."""

    def __init__(self, tools: Tools, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._tools = tools
        self._directory = directory
        self._files = 0

    def run(self, *words: str, fails: bool = False) -> str:
        ran = self._tools.run(REASSIGN, "--bootstrap-server", self.bootstrap, *words)
        assert (ran.exit != 0) == fails, f"{words}: exit {ran.exit}\n{ran.out}\n{ran.err}"
        return ran.out

    def file(self, content: object) -> str:
        self._files += 1
        path = self._directory / f"plan-{self._files}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def plan(self, wanted: Wanted, directories: Mapping[int, str] | None = None) -> str:
        """A file that says where partitions are to go; `directories`: by broker."""
        partitions: list[dict[str, object]] = []
        for (topic, index), replicas in wanted.items():
            row: dict[str, object] = {"topic": topic, "partition": index, "replicas": list(replicas)}
            if directories is not None:
                row["log_dirs"] = [directories.get(replica, "any") for replica in replicas]
            partitions.append(row)
        return self.file({"version": 1, "partitions": partitions})

    def generate(self, topics: Iterable[str], brokers: Sequence[int]) -> str:
        """A file with what the tool proposes."""
        chosen = self.file({"version": 1, "topics": [{"topic": topic} for topic in topics]})
        listed = ",".join(map(str, brokers))
        out = self.run("--topics-to-move-json-file", chosen, "--broker-list", listed, "--generate")
        return self.file(json.loads(out.split("Proposed partition reassignment configuration\n")[1]))

    def execute(self, plan: str, *words: str) -> str:
        return self.run("--reassignment-json-file", plan, "--execute", *words)

    def verify(self, plan: str) -> str:
        return self.run("--reassignment-json-file", plan, "--verify")

    def cancel(self, plan: str) -> str:
        return self.run("--reassignment-json-file", plan, "--cancel")

    def listing(self) -> str:
        return self.run("--list")

    def wait_until_done(self, plan: str) -> str:
        """Verify until all of a plan is done, which removes the throttles; the tool's last words."""
        said = [""]

        def is_done() -> bool:
            # The tool asks the controller what moves, and a broker, which may be behind, where replicas are.
            said[0] = self.verify(plan)
            return "in progress" not in said[0] and "rather than" not in said[0]

        peers.wait_until(is_done, SECONDS_MAX, lambda: f"the plan to be done: {said[0]}", pause_s=0.1)
        return said[0]

    def move(self, wanted: Wanted, *words: str) -> str:
        """All in one: execute, and verify until it is done."""
        plan = self.plan(wanted)
        self.execute(plan, *words)
        return self.wait_until_done(plan)

    # What the cluster says

    def create(self, topic: str, replicas: Sequence[Sequence[int]], **settings: str) -> None:
        config = {name.replace("_", "."): value for name, value in settings.items()}
        assignment = [list(row) for row in replicas]
        new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment, config=config)
        made = self.admin.create_topics([new], operation_timeout=SECONDS_MAX)
        made[topic].result(SECONDS_MAX)
        for index, row in enumerate(assignment):
            self.wait_until_on((topic, index), row)

    def placement(self, place: tuple[str, int]) -> tuple[int, list[int], set[int]]:
        """Leader, replicas and in-sync replicas."""
        asked = self.admin.describe_topics(TopicCollection([place[0]]), request_timeout=SECONDS_MAX)
        partition = asked[place[0]].result(SECONDS_MAX).partitions[place[1]]
        leader = -1 if partition.leader is None else partition.leader.id
        return leader, [node.id for node in partition.replicas], {node.id for node in partition.isr}

    def wait_until_on(self, place: tuple[str, int], replicas: Sequence[int]) -> None:
        seen: list[object] = [None]

        def is_there() -> bool:
            try:
                found = self.placement(place)
            except Exception as error:  # noqa: BLE001 - a broker that does not know the topic yet
                seen[0] = error
                return False
            seen[0] = found
            return found[0] in replicas and found[1] == list(replicas) and found[2] == set(replicas)

        peers.wait_until(is_there, SECONDS_MAX, lambda: f"{place} on {replicas}: {seen[0]}", pause_s=0.05)

    def throttles(self, topics: Iterable[str], brokers: Iterable[int]) -> dict[str, str]:
        """Every limit that is set."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        resources += [ConfigResource(ConfigResource.Type.BROKER, str(broker)) for broker in brokers]
        found = {}
        for resource in resources:  # the client takes one broker a call
            entries = self.admin.describe_configs([resource])[resource].result(SECONDS_MAX)
            for name, entry in entries.items():
                if name in _THROTTLES and not entry.is_default and entry.value:
                    found[f"{resource.name} {name}"] = entry.value
        return found

    def wait_until_unthrottled(self, topics: Sequence[str], brokers: Sequence[int]) -> None:
        """A broker may hear a little later of what the controller has done."""
        peers.wait_until(
            lambda: not self.throttles(topics, brokers),
            SECONDS_MAX,
            lambda: f"no throttles: {self.throttles(topics, brokers)}",
            pause_s=0.1,
        )


# Disks


def directories_of(broker: BrokerOnly) -> list[Path]:
    return [Path(path) for path in broker.properties()["log.dirs"].split(",")]


def logs_of(broker: BrokerOnly, place: tuple[str, int]) -> list[Path]:
    """Every directory of a partition, also those that are on their way in or out."""
    name = f"{place[0]}-{place[1]}"
    return [
        path
        for directory in directories_of(broker)
        for path in directory.iterdir()
        if path.name == name or path.name.startswith(f"{name}.")
    ]


def contents(broker: BrokerOnly, place: tuple[str, int]) -> bytes:
    """The bytes of all segments of a replica."""
    found = [path for path in logs_of(broker, place) if path.name == f"{place[0]}-{place[1]}"]
    assert len(found) == 1, f"{place} is on broker {broker.node_id} in {found}"
    return b"".join(file.read_bytes() for file in sorted(found[0].glob("*.log")))


def size_of(paths: Iterable[Path]) -> int:
    """Of the largest of some directories: one of them may be going, or have got another name just now."""
    sizes = [0]
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            sizes.append(sum(file.stat().st_size for file in path.glob("*.log")))
    return max(sizes)


class Watch:
    """Looks at a copy as it grows, from before it begins, in a thread of its own."""

    def __init__(self, paths: Callable[[], Iterable[Path]], goal: int) -> None:
        """`goal`: how large it is when nine tenths are there, and the rest does not count."""
        self._paths = paths
        self._goal = goal * 9 // 10
        self._looks = [(time.monotonic(), 0)]  # seconds and bytes
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while self._looks[-1][1] < self._goal and not self._is_over.wait(0.02):
            size = size_of(self._paths())
            self._looks.append((time.monotonic(), size))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def rate(self) -> float:
        """Wait until nearly all is there; bytes a second since there was nothing yet."""
        self._thread.join(SECONDS_MAX)
        ended_s, size = self._looks[-1]
        assert size >= self._goal, f"{size} of {self._goal} bytes came in {SECONDS_MAX:.0f} s"
        began_s = max(second for second, known in self._looks if known == 0)
        return size / (ended_s - began_s)
