"""How each command is used, and our commands as processes of their own: what test_bad_input is made of.

The commands are those that pyproject.toml installs. One that is not described here fails the test of the
table, so that none is forgotten.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.interop import peers

PATIENCE_SECONDS = 240
"""No process is given up sooner: the machine may be busy."""
_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Command lines of a tool.

    SERVER stands for the address of a broker, CONFIG for a file with settings of the client, FILE for the
    file that the case is about, GOOD for a good one, WAIT for how long to wait for records, in ms.
    """

    asks: str = ""
    """It asks a cluster something. Empty: it asks none."""
    unknown_topic: str = ""
    """It is about a topic that does not exist. Empty: it is never about one topic."""
    json_file: str = ""
    """It reads JSON from a file. Empty: it reads none."""
    other_file: str = ""
    """It reads a file of another kind. Empty: none but CONFIG."""
    prints: str = ""
    """It prints something without asking a cluster, where it asks none."""
    unreachable_code: int = 1
    """The exit code when there is no broker: that of Kafka's own tool."""
    waits: bool = False
    """Without a broker it tells so and goes on trying, as Kafka's own tool does."""
    unknown_topic_code: int = 1
    file_code: int = 1


SERVER = "--bootstrap-server SERVER --command-config CONFIG"
USES: dict[str, Use] = {
    "ottla.tools.acls:main": Use(asks=f"{SERVER} --list"),
    "ottla.tools.broker_api_versions:main": Use(asks=SERVER),
    "ottla.tools.client_metrics:main": Use(asks=f"{SERVER} --list"),
    "ottla.tools.cluster:main": Use(asks=f"cluster-id {SERVER}"),
    "ottla.tools.configs:main": Use(
        asks=f"{SERVER} --describe --entity-type brokers",
        unknown_topic=f"{SERVER} --alter --topic nothing --add-config retention.ms=1",
        other_file=f"{SERVER} --alter --entity-type brokers --entity-default --add-config-file FILE",
    ),
    "ottla.tools.console_consumer:main": Use(
        asks=f"{SERVER} --topic words --timeout-ms WAIT --from-beginning",
        unreachable_code=0,
    ),
    "ottla.tools.console_producer:main": Use(
        asks=f"{SERVER} --topic words",
        unknown_topic=f"{SERVER} --topic nothing",
        unreachable_code=0,
        unknown_topic_code=0,
    ),
    "ottla.tools.consumer_groups:main": Use(
        asks=f"{SERVER} --list --timeout WAIT",
        unknown_topic=f"{SERVER} --reset-offsets --group g --topic nothing --to-earliest --dry-run",
        other_file=f"{SERVER} --reset-offsets --group g --from-file FILE --dry-run",
        unreachable_code=0,
        unknown_topic_code=0,
        file_code=0,
    ),
    "ottla.tools.consumer_perf_test:main": Use(
        asks=f"{SERVER} --topic words --num-records 1 --timeout WAIT",
        unknown_topic=f"{SERVER} --topic nothing --num-records 1 --timeout WAIT",
        unreachable_code=0,
        unknown_topic_code=0,
    ),
    "ottla.tools.delete_records:main": Use(
        asks=f"{SERVER} --offset-json-file GOOD",
        json_file=f"{SERVER} --offset-json-file FILE",
        unreachable_code=0,
    ),
    "ottla.tools.dump_log:main": Use(other_file="--files FILE", prints="--files LOG --print-data-log"),
    "ottla.tools.e2e_latency:main": Use(
        # A topic of its own: it takes what it reads for what it has sent.
        asks=f"{SERVER} --topic latencies --num-records 1 --producer-acks 1 --record-size 10"
    ),
    "ottla.tools.features:main": Use(asks=f"{SERVER} describe"),
    "ottla.tools.get_offsets:main": Use(
        asks=f"{SERVER} --topic words", unknown_topic=f"{SERVER} --topic nothing"
    ),
    "ottla.tools.groups:main": Use(asks=f"{SERVER} --list"),
    "ottla.tools.leader_election:main": Use(
        asks=f"{SERVER} --election-type preferred --all-topic-partitions",
        unknown_topic=f"{SERVER} --election-type preferred --topic nothing --partition 0",
        json_file=f"{SERVER} --election-type preferred --path-to-json-file FILE",
    ),
    "ottla.tools.log_dirs:main": Use(asks=f"{SERVER} --describe"),
    "ottla.tools.metadata_quorum:main": Use(
        asks=f"{SERVER} describe --status",
        other_file="--bootstrap-server SERVER --command-config FILE add-controller",
    ),
    "ottla.tools.metadata_shell:main": Use(
        other_file="--snapshot FILE ls", prints="--snapshot METADATA tree /"
    ),
    "ottla.tools.preferred_replica_election:main": Use(
        asks="--bootstrap-server SERVER --admin.config CONFIG",
        json_file="--bootstrap-server SERVER --admin.config CONFIG --path-to-json-file FILE",
    ),
    "ottla.tools.producer_perf_test:main": Use(
        asks=f"{SERVER} --topic words --num-records 1 --record-size 1 --throughput -1",
        unknown_topic=f"{SERVER} --topic nothing --num-records 1 --record-size 1 --throughput -1",
        other_file=f"{SERVER} --topic words --num-records 1 --payload-file FILE --throughput -1",
        unreachable_code=0,
        unknown_topic_code=0,
    ),
    "ottla.tools.reassign_partitions:main": Use(
        asks=f"{SERVER} --list", json_file=f"{SERVER} --execute --reassignment-json-file FILE"
    ),
    "ottla.tools.replica_verification:main": Use(
        asks="--broker-list SERVER --topics-include words",
        unknown_topic="--broker-list SERVER --topics-include nothing",
    ),
    "ottla.tools.run_class:gone": Use(),
    "ottla.tools.run_class:main": Use(
        asks=f"org.apache.kafka.tools.TopicCommand {SERVER} --list",
        prints="kafka.tools.DumpLogSegments --files LOG",
    ),
    "ottla.tools.server_start:main": Use(other_file="FILE"),
    # Never without the id of a node that does not exist: it would stop the nodes of others.
    "ottla.tools.server_stop:main": Use(prints="--node-id 2000000001"),
    "ottla.tools.storage:main": Use(other_file="info -c FILE", prints="version-mapping"),
    "ottla.tools.topics:main": Use(
        asks=f"{SERVER} --list", unknown_topic=f"{SERVER} --describe --topic nothing"
    ),
    "ottla.tools.transactions:main": Use(
        asks=f"{SERVER} list", unknown_topic=f"{SERVER} describe-producers --topic nothing --partition 0"
    ),
    "ottla.tools.verifiable_consumer:main": Use(
        asks=f"{SERVER} --topic words --group-id verified --max-messages 1 --reset-policy earliest",
        waits=True,
    ),
    "ottla.tools.verifiable_producer:main": Use(
        asks=f"{SERVER} --topic words --max-messages 1", unreachable_code=0
    ),
}


def installed() -> dict[str, str]:
    """Command -> the function that it is, except `ottla`, which has tests of its own."""
    with open(peers.ROOT / "pyproject.toml", "rb") as file:
        scripts: dict[str, str] = tomllib.load(file)["project"]["scripts"]
    return {name: target for name, target in scripts.items() if name != "ottla"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str

    def told(self) -> list[str]:
        return [line for line in (self.out + self.err).splitlines() if line.strip()]

    def has_traceback(self) -> bool:
        """Whether Python showed where it was, in any of its ways."""
        return any(sign in self.out + self.err for sign in ("Traceback", "Exception ignored", 'File "'))


def command(target: str, arguments: Iterable[str]) -> list[str]:
    """What the installed command does."""
    module, function = target.split(":")
    name = next(name for name, its in installed().items() if its == target)
    code = f"import sys; from {module} import {function}; sys.argv[0] = {name!r}; sys.exit({function}())"
    return [sys.executable, "-c", code, *arguments]


def start(target: str, arguments: Iterable[str], **options: object) -> subprocess.Popen[bytes]:
    streams: dict[str, object] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": {**os.environ, "PYTHONPATH": str(peers.ROOT / "src")},
        **options,
    }
    return peers.start_process(command(target, arguments), **streams)


def finish(process: subprocess.Popen[bytes], stdin: bytes | None = b"word\n") -> Ended:
    """Wait for the end; a process that does not come to one is killed, and the test fails."""
    try:
        out, err = process.communicate(stdin, timeout=PATIENCE_SECONDS)
    finally:
        peers.end_process(process)
    return Ended(process.returncode, (out or b"").decode(), (err or b"").decode())


def each(targets: Iterable[str], check: Callable[[str], str | None], *, at_once: int = _AT_ONCE) -> None:
    """Check several tools, a few at a time; the test fails with what is wrong with each."""
    chosen = list(targets)
    assert chosen
    with ThreadPoolExecutor(at_once) as pool:
        wrong = [told for told in pool.map(check, chosen) if told]
    assert not wrong, "\n".join(wrong)


def filled(line: str, places: dict[str, str]) -> list[str]:
    return [places.get(word, word) for word in line.split()]


def _settings(*, request_timeout_ms: int, others_ms: int) -> str:
    others = "".join(
        f"{name}={others_ms}\n" for name in ("default.api.timeout.ms", "max.block.ms", "delivery.timeout.ms")
    )
    return f"request.timeout.ms={request_timeout_ms}\nlinger.ms=0\n{others}"


def write_files(directory: Path) -> dict[str, str]:
    """Settings that do not let a client wait long, and files of partitions."""
    contents = {
        "CONFIG": _settings(request_timeout_ms=1500, others_ms=3000),
        "QUICK": _settings(request_timeout_ms=1000, others_ms=1500),
        "PATIENT": "",
        "GOOD": '{"partitions": [{"topic": "words", "partition": 0, "offset": 1}], "version": 1}',
        "HALF": '{"partitions": [{"topic": "wor',
    }
    places = {"WAIT": "6000"}
    for name, text in contents.items():
        places[name] = str(directory / f"{name.lower()}.txt")
        Path(places[name]).write_text(text)
    return places
