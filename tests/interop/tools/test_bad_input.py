"""Bad input for every command, as processes: no broker, a wrong flag, no value, an unknown topic, files that
cannot be read, half-written JSON, a closed pipe, Ctrl-C. Each is told in a line, with the right exit code,
and without a traceback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import peers
from tests.interop.tools.bad_input import (
    PATIENCE_SECONDS,
    USES,
    Ended,
    each,
    filled,
    finish,
    installed,
    start,
    write_files,
)

INTERRUPTED = (130, -signal.SIGINT)
"""A shell shows both as 130; the second is that of a tool that was still being imported."""
ASKING = [target for target, use in USES.items() if use.asks]


WAITING_FOR_A_FILE = [f"ottla.tools.{name}:main" for name in ("metadata_shell", "server_start", "storage")]


@pytest.fixture(scope="module")
def broker() -> Iterator[peers.BrokerProcess]:
    with peers.running("ottla", properties={"auto.create.topics.enable": "false"}) as running:
        bootstrap = {"bootstrap.servers": running.bootstrap}
        admin = AdminClient(bootstrap)
        for done in admin.create_topics([NewTopic("words", 1, 1), NewTopic("latencies", 1, 1)]).values():
            done.result(60)
        producer = Producer(bootstrap)
        for number in range(20):
            producer.produce("words", value=f"word {number}")
        assert producer.flush(60) == 0
        yield running


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Files, and as SERVER a port on which nobody listens."""
    found = write_files(tmp_path_factory.mktemp("files"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield {**found, "SERVER": f"127.0.0.1:{taken.getsockname()[1]}"}


@pytest.fixture(scope="module")
def live(
    places: dict[str, str], broker: peers.BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The same with a broker, and copies of two files that it wrote."""
    directory = tmp_path_factory.mktemp("copies")
    copies = {}
    for name, partition in (("LOG", "words-0"), ("METADATA", "__cluster_metadata-0")):
        copies[name] = str(directory / partition / "00000000000000000000.log")
        Path(copies[name]).parent.mkdir()
        shutil.copy(broker.data / partition / "00000000000000000000.log", copies[name])
    return {**places, **copies, "SERVER": broker.bootstrap, "CONFIG": places["PATIENT"], "WAIT": "1000"}


def run(target: str, arguments: list[str]) -> Ended:
    return finish(start(target, arguments))


def wrong(target: str, what: str, ended: Ended) -> str:
    return f"{target}, {what}: {ended}"


def test_every_command_that_is_installed_is_tried_here() -> None:
    assert set(USES) == set(installed().values())


def test_every_command_has_both_names() -> None:
    names = set(installed())
    assert {name for name in names if name.endswith(".sh")} == {
        f"{name}.sh" for name in names if not name.endswith(".sh")
    }


def test_a_wrong_flag_is_told() -> None:
    def check(target: str) -> str | None:
        ended = run(target, ["--nothing-like-this"])
        is_told = ended.code == 1 and not ended.out and ended.err.strip() and not ended.has_traceback()
        return None if is_told else wrong(target, "a wrong flag", ended)

    each(USES, check)


def test_a_missing_value_is_told() -> None:
    def check(target: str) -> str | None:
        words = USES[target].asks.split()
        server = words.index("SERVER")
        ended = run(target, words[:server])
        is_told = ended.code == 1 and not ended.out and ended.err.strip() and not ended.has_traceback()
        return None if is_told else wrong(target, "a missing value", ended)

    each(ASKING, check)


def test_a_missing_broker_is_told(places: dict[str, str]) -> None:
    """Of all that can be told not to wait for a minute."""

    def check(target: str) -> str | None:
        use = USES[target]
        process = start(target, filled(use.asks, {**places, "CONFIG": places["QUICK"]}))
        if use.waits:
            return stops_waiting(target, process)
        ended = finish(process)
        told = [line for line in ended.told() if "refused the connection" in line]
        is_told = ended.code == use.unreachable_code and len(told) == 1 and not ended.has_traceback()
        return None if is_told else wrong(target, "no broker", ended)

    each((target for target in ASKING if "CONFIG" in USES[target].asks), check, at_once=8)


def stops_waiting(target: str, process: subprocess.Popen[bytes]) -> str | None:
    try:
        told = read_line(process.stderr, process)
        process.send_signal(signal.SIGINT)
    except BaseException:
        peers.end_process(process)
        raise
    ended = finish(process, None)
    is_told = b"refused the connection" in told and ended.code in INTERRUPTED and not ended.has_traceback()
    return None if is_told else wrong(target, f"no broker, {told!r}", ended)


def test_a_file_that_cannot_be_read_is_told(live: dict[str, str], tmp_path: Path) -> None:
    missing, directory = tmp_path / "00000000000000000000.log", tmp_path / "00000000000000000001.log"
    directory.mkdir()

    def check(target: str) -> str | None:
        use = USES[target]
        cases = [
            (line, "FILE", path) for line in (use.json_file, use.other_file) for path in (missing, directory)
        ]
        cases.append((use.asks if "CONFIG" in use.asks else "", "CONFIG", missing))
        for line, key, path in cases:
            if not line:
                continue
            ended = run(target, filled(line, {**live, key: str(path)}))
            told = [line for line in ended.told() if str(path) in line]
            code = 1 if key == "CONFIG" else use.file_code
            if ended.code != code or len(told) not in (1, 2) or ended.has_traceback() or "Errno" in told[-1]:
                return wrong(target, line, ended)
        return None

    each(USES, check)


def test_half_written_json_is_told(live: dict[str, str]) -> None:
    def check(target: str) -> str | None:
        ended = run(target, filled(USES[target].json_file, {**live, "FILE": live["HALF"]}))
        is_told = ended.code == 1 and len(ended.told()) == 1 and not ended.has_traceback()
        return None if is_told else wrong(target, "half a file", ended)

    each((target for target, use in USES.items() if use.json_file), check)


def test_a_topic_that_does_not_exist_is_told(live: dict[str, str], places: dict[str, str]) -> None:
    def check(target: str) -> str | None:
        use = USES[target]
        ended = run(target, filled(use.unknown_topic, {**live, "CONFIG": places["CONFIG"]}))
        is_told = ended.code == use.unknown_topic_code and ended.told() and not ended.has_traceback()
        return None if is_told else wrong(target, use.unknown_topic, ended)

    each((target for target, use in USES.items() if use.unknown_topic), check)


def test_a_closed_pipe_ends_it_quietly(live: dict[str, str]) -> None:
    """As `| head` does it, only that nobody reads anything at all."""

    def check(target: str) -> str | None:
        reading, writing = os.pipe()
        os.close(reading)
        line = USES[target].prints or USES[target].asks
        try:
            process = start(target, filled(line, live), stdout=writing)
        finally:
            os.close(writing)
        ended = finish(process)
        quiet = [
            line for line in ended.told() if not line.startswith(("Unable to write", "Processed a total"))
        ]
        is_quiet = ended.code in (0, 1) and not quiet and not ended.has_traceback()
        return None if is_quiet else wrong(target, line, ended)

    endless = {"ottla.tools.replica_verification:main"}
    each(
        (target for target, use in USES.items() if (use.prints or use.asks) and target not in endless), check
    )


def test_ctrl_c_ends_what_waits_for_a_broker(places: dict[str, str]) -> None:
    """The broker takes the connection and never answers: so the tool waits when the signal comes."""

    def check(target: str) -> str | None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(PATIENCE_SECONDS)
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            line = filled(
                USES[target].asks,
                {**places, "SERVER": address, "CONFIG": places["PATIENT"], "WAIT": "600000"},
            )
            process = start(target, line)
            assert process.stdin is not None
            try:
                process.stdin.write(b"word\n")
                process.stdin.flush()
                connection, _ = silent.accept()
            except TimeoutError:
                return wrong(target, "never connected", finish(process, None))
            with connection:
                process.send_signal(signal.SIGINT)
                ended = finish(process, None)
        is_over = ended.code in INTERRUPTED and not ended.has_traceback()
        return None if is_over else wrong(target, "Ctrl-C", ended)

    each(ASKING, check)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        (
            "ottla.tools.console_consumer:main",
            "--bootstrap-server SERVER --topic words --from-beginning",
        ),
        ("ottla.tools.verifiable_consumer:main", "--bootstrap-server SERVER --topic words --group-id v"),
        ("ottla.tools.verifiable_producer:main", "--bootstrap-server SERVER --topic words"),
        (
            "ottla.tools.producer_perf_test:main",
            "--bootstrap-server SERVER --topic words --num-records 1000000000 --record-size 10"
            " --throughput 10 --reporting-interval 100",
        ),
        (
            "ottla.tools.e2e_latency:main",
            "--bootstrap-server SERVER --topic latencies --num-records 1000000000 --producer-acks 1"
            " --record-size 10",
        ),
        (
            "ottla.tools.consumer_perf_test:main",
            "--bootstrap-server SERVER --topic words --num-records 1000000000 --timeout 600000"
            " --show-detailed-stats --reporting-interval 100",
        ),
        ("ottla.tools.replica_verification:main", "--broker-list SERVER --report-interval-ms 100"),
        ("ottla.tools.dump_log:main", f"--print-data-log --files {','.join(['LOG'] * 500)}"),
    ],
)
def test_ctrl_c_ends_what_runs(live: dict[str, str], target: str, line: str) -> None:
    """The signal comes once something was printed."""
    process = start(target, [word.replace("LOG", live["LOG"]) for word in filled(line, live)])
    try:
        first = read_line(process.stdout, process)
        assert first, "it ended without a word"
        process.send_signal(signal.SIGINT)
    except BaseException:
        peers.end_process(process)
        raise
    ended = finish(process, None)
    assert not ended.has_traceback(), ended
    assert ended.code in INTERRUPTED, ended


def test_ctrl_c_at_a_prompt_leaves_the_metadata_shell_as_it_is(live: dict[str, str]) -> None:
    process = start("ottla.tools.metadata_shell:main", filled("--snapshot METADATA", live))
    try:
        assert process.stdin is not None
        assert read_line(process.stdout, process) == b"Loading...\n"
        assert read_line(process.stdout, process) == b"Starting...\n"
        process.stdin.write(b"pwd\n")
        process.stdin.flush()
        assert read_line(process.stdout, process) == b"[ Kafka Metadata Shell ]\n"
        assert read_line(process.stdout, process) == b">> /\n"
        process.send_signal(signal.SIGINT)
        assert read_line(process.stdout, process).endswith(b"^C\n")
    except BaseException:
        peers.end_process(process)
        raise
    ended = finish(process, b"pwd\nexit\n")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("/\n>> ")


def read_line(stream: IO[bytes] | None, process: subprocess.Popen[bytes]) -> bytes:
    """The next line; whatever a tool does, this ends."""
    assert stream is not None
    watch = threading.Timer(PATIENCE_SECONDS, process.kill)
    watch.start()
    try:
        return stream.readline()
    finally:
        watch.cancel()


def test_ctrl_c_ends_a_producer_at_its_console(live: dict[str, str]) -> None:
    """It has printed nothing: that it runs is seen by what it wrote."""
    target = "ottla.tools.console_producer:main"
    before = _end_of_words(live)
    process = start(target, filled("--bootstrap-server SERVER --topic words", live))
    try:
        assert process.stdin is not None
        process.stdin.write(b"a word\n")
        process.stdin.flush()
        peers.wait_until(lambda: _end_of_words(live) > before, 60, "the word to be written")
        process.send_signal(signal.SIGINT)
    except BaseException:
        peers.end_process(process)
        raise
    ended = finish(process, None)
    assert ended.code in INTERRUPTED, ended
    assert not ended.has_traceback(), ended


def _end_of_words(live: dict[str, str]) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": live["SERVER"], "group.id": "looks"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("words", 0), timeout=60)[1])
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("target", "line"),
    [(target, USES[target].other_file) for target in WAITING_FOR_A_FILE],
)
def test_ctrl_c_ends_what_reads_a_file(target: str, line: str, tmp_path: Path) -> None:
    """The file is a pipe: once it is open at the other end the tool waits for bytes."""
    path = tmp_path / "pipe.log"
    os.mkfifo(path)
    process = start(target, filled(line, {"FILE": str(path)}), stdin=None)
    try:
        descriptor = _open_for_reader(path)
        try:
            _interrupt(process)
            ended = finish(process, None)
        finally:
            os.close(descriptor)
    except BaseException:
        peers.end_process(process)
        raise
    assert not ended.has_traceback(), ended
    assert ended.code in INTERRUPTED, ended


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C, and again where nothing came of it: Python can lose one that meets a finalizer."""
    for _ in range(6):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
            return


def _open_for_reader(path: Path) -> int:
    found: list[int] = []

    def is_open() -> bool:
        try:
            found.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads yet
            return False
        return True

    peers.wait_until(is_open, 60, f"a reader of {path}")
    return found[0]
