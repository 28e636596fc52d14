"""`ottla record` on Kafka and on Ottla: the formats match kcat's, and records survive a round trip."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable

import pytest

from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from tests.interop import peers
from tests.interop.cli.conftest import NewTopicNamed, Run

FORMAT = r"%t|%p|%o|%T|%k|%K|%s|%S|%h|%%\t\x41\n"
SECONDS_MAX = 90.0


def lines(*records: dict[str, object]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


ODD = lines(
    {"partition": 0, "timestamp": 1_700_000_000_001, "key": "k1", "value": "plain ü"},
    {"partition": 1, "timestamp": 1_700_000_000_002, "key": None, "value": "no key"},
    {"partition": 1, "timestamp": 1_700_000_000_003, "key": "gone", "value": None},
    {
        "partition": 2,
        "timestamp": 1_700_000_000_004,
        "key_base64": base64.b64encode(b"\xff\xfe\x01").decode(),
        "value_base64": base64.b64encode(bytes(range(1, 256))).decode(),
        "headers": [["a", "1"], ["a", "2"], ["none", None], ["bytes", {"base64": "gIE="}]],
    },
    {"partition": 0, "timestamp": 1_700_000_000_005, "key": "", "value": ""},
)


@pytest.fixture
def odd(ottla: Run, new_topic: NewTopicNamed) -> str:
    """A topic with records of every unusual kind. Kafka deletes such old ones once it has run for 30 s."""
    topic = new_topic(3, retention_ms="-1")
    sent = ottla("record", "produce", topic, "--json", "--verbose", stdin=ODD)
    assert sent.code == 0, sent.err
    assert f"{topic}: 5 of 5 records written" in sent.err
    return topic


def test_formats_print_what_kcat_prints(ottla: Run, odd: str, broker: peers.BrokerProcess) -> None:
    judge = subprocess.run(
        [peers.kcat(), "-q", "-b", broker.bootstrap, "-C", "-t", odd, "-e", "-f", FORMAT],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    ours = ottla("record", "consume", odd, "-f", FORMAT)

    assert ours.code == 0, ours.err
    assert sorted(ours.out.split(b"A\n")) == sorted(judge.stdout.split(b"A\n"))
    assert ours.out.count(b"A\n") == 5


def test_a_copy_by_lines_of_json_is_the_same(ottla: Run, odd: str, new_topic: NewTopicNamed) -> None:
    copy = new_topic(3, retention_ms="-1")
    read = ottla("record", "consume", odd, "-o", "json")
    assert ottla("record", "produce", copy, "--json", stdin=read.out).code == 0
    again = ottla("record", "consume", copy, "-J")

    assert sorted(again.text.splitlines()) == sorted(read.text.replace(odd, copy).splitlines())
    assert len(again.text.splitlines()) == 5


def test_lines_of_kcat_are_taken(
    ottla: Run, odd: str, new_topic: NewTopicNamed, broker: peers.BrokerProcess
) -> None:
    judge = subprocess.run(
        [peers.kcat(), "-q", "-b", broker.bootstrap, "-C", "-t", odd, "-p", "1", "-e", "-J"],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    copy = new_topic(3, retention_ms="-1")
    assert ottla("record", "produce", copy, "--json", stdin=judge.stdout).code == 0
    first, second = (
        ottla("record", "consume", topic, "-f", r"%p %T %k %K %s %S\n").out for topic in (odd, copy)
    )
    assert set(second.splitlines()) <= set(first.splitlines())
    assert len(second.splitlines()) == 2


def test_what_kcat_writes_is_read(ottla: Run, new_topic: NewTopicNamed, broker: peers.BrokerProcess) -> None:
    topic = new_topic()
    command = [peers.kcat(), "-q", "-b", broker.bootstrap, "-P", "-t", topic, "-K", ":", "-H", "a=b"]
    subprocess.run(command, input=b"k:v\nonly\n", timeout=SECONDS_MAX, check=True)

    assert ottla("record", "consume", topic, "-f", r"%k %K %s %h\n").out == b"k 1 v a=b\n -1 only a=b\n"


def test_places_partitions_and_filters_choose_records(ottla: Run, new_topic: NewTopicNamed) -> None:
    topic = new_topic(2, retention_ms="-1")
    records = [
        {"partition": at % 2, "timestamp": 1_767_225_600_000 + at * 1000, "key": f"k{at}", "value": f"v{at}"}
        for at in range(10)
    ]
    assert ottla("record", "produce", topic, "--json", stdin=lines(*records)).code == 0

    def read(*arguments: str) -> list[str]:
        found = ottla("record", "consume", topic, *arguments)
        assert found.code == 0, found.err
        return sorted(found.text.split())

    assert read("-p", "1", "-o", "3") == ["v7", "v9"]
    assert read("-o", "-1") == ["v8", "v9"]
    assert read("-o", "end", "-e") == []
    assert read("-o", "@1767225607000") == ["v7", "v8", "v9"]
    assert read("-o", "@2026-01-01T00:00:07", "-o", "e@2026-01-01T00:00:08Z") == ["v7"]
    assert read("-n", "3") == ["v7", "v8", "v9"]
    assert read("-c", "1", "-p", "0") == ["v0"]
    assert read("--key", "k4") == ["v4"]
    assert read("--grep", "[13]") == ["v1", "v3"]
    assert read("-p", "0,1", "-f", "%k ") == [f"k{at}" for at in range(10)]
    assert read("--value-as", "hex", "--key", "k0") == ["7630"]


def test_input_comes_from_lines_arguments_and_files(
    ottla: Run, new_topic: NewTopicNamed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = new_topic()
    directory = tmp_path_factory.mktemp("input")
    (directory / "whole").write_bytes(b"one\nrecord\n")
    (directory / "lines").write_bytes(b"a;b;;c")
    for arguments, stdin in (
        (["-K", ":", "-Z", "-H", "h=1"], b"k:v\nk:\n\nplain\n"),
        (["-k", "fixed", "x", "y"], b""),
        (["-F", str(directory / "whole")], b""),
        (["-l", str(directory / "lines"), "-D", ";", "-c", "2"], b""),
        (["--value-as", "int", "-z", "lz4", "-a", "1", "-t", "5"], b"7\n"),
    ):
        sent = ottla("record", "produce", topic, *arguments, stdin=stdin)
        assert sent.code == 0, sent.err
    found = ottla("record", "consume", topic, "-f", r"%k,%s,%S,%h;")

    assert found.out == (
        b"k,v,1,h=1;k,,-1,h=1;,plain,5,h=1;fixed,x,1,;fixed,y,1,;,one\nrecord\n,11,;,a,1,;,b,1,;,\0\0\0\7,4,;"
    )


def test_a_group_has_committed_what_was_shown_and_no_more(ottla: Run, new_topic: NewTopicNamed) -> None:
    topic = new_topic()
    assert ottla("record", "produce", topic, *(f"v{at}" for at in range(5))).code == 0
    group = f"{topic}-readers"

    assert ottla("record", "consume", topic, "-g", group, "-c", "2").text == "v0\nv1\n"
    assert ottla("record", "consume", topic, "-g", group, "-e").text == "v2\nv3\nv4\n"
    assert ottla("record", "consume", topic, "-g", group, "-e").text == ""


def test_aborted_records_are_left_out_if_asked(
    ottla: Run, new_topic: NewTopicNamed, broker: peers.BrokerProcess
) -> None:
    topic = new_topic()
    with Producer(broker.bootstrap, transactional_id=f"{topic}-id") as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
    sent = ottla("record", "produce", topic, "kept", "-X", f"transactional.id={topic}-id")
    assert sent.code == 0, sent.err

    assert ottla("record", "consume", topic, "--isolation", "committed").text == "kept\n"
    assert ottla("record", "consume", topic).text == "aborted\nkept\n"


def test_mistakes_are_one_line_each(ottla: Run, odd: str) -> None:
    for arguments, code, words in (
        (["consume", "no-such-topic"], 1, "Unknown topic no-such-topic"),
        (["consume", odd, "-p", "9"], 1, "has no partition 9"),
        (["consume", odd, "-o", "soon"], 2, "is not an offset"),
        (["consume", odd, "-f", "%y"], 2, "%y is not a format token"),
        (["consume", odd, "--grep", "("], 2, "not a valid regular expression"),
        (["consume", odd, "-g", "g", "-o", "7"], 2, "ottla group reset"),
        (["produce", odd, "-p", "99", "x"], 1, "has 3 partitions. Use -p any"),
        (["produce", odd, "--value-as", "int", "x"], 1, "Argument 1 is invalid"),
        (["produce", odd, "x", "-l", "file"], 2, "only one of"),
    ):
        ran = ottla("record", *arguments)
        assert (ran.code, ran.out) == (code, b""), ran
        assert words in ran.err
        assert "Traceback" not in ran.err


def test_a_closed_pipe_and_ctrl_c_end_it_quietly(
    command: list[str], environment: dict[str, str], odd: str
) -> None:
    following = peers.start_process(
        [*command, "record", "consume", odd, "-F"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        assert following.stdout is not None
        assert following.stderr is not None
        assert following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(SECONDS_MAX) == 130
        assert following.stderr.read().strip() == b""
    finally:
        peers.end_process(following)
    for arguments in (f"record consume {odd} -o json -F", "topic list", "--help"):
        piped = subprocess.run(
            ["bash", "-c", f"{' '.join(command)} {arguments} | head -n 1; exit ${{PIPESTATUS[0]}}"],
            env=environment,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert piped.stdout.count(b"\n") == 1
        assert piped.stderr == b""
        # 0: it had written everything before its reader left. What follows a topic never has.
        assert piped.returncode in ((141,) if "-F" in arguments else (0, 141)), piped


def test_it_follows_from_the_end_without_being_told(
    ottla: Run, new_topic: NewTopicNamed, command: list[str], environment: dict[str, str]
) -> None:
    """Where it began nobody sees: records are written until one of them comes, and none from before."""
    topic = new_topic()
    assert ottla("record", "produce", topic, "before").code == 0
    process = peers.start_process(
        [*command, "record", "consume", topic, "-o", "end"], stdout=subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        stdout = process.stdout

        def comes() -> bool:
            assert ottla("record", "produce", topic, "after").code == 0
            return bool(select.select([stdout], [], [], 1)[0])

        peers.wait_until(comes, SECONDS_MAX, "a record that was written later")
        assert stdout.readline() == b"after\n"
        assert process.poll() is None
    finally:
        peers.end_process(process)


def test_a_member_without_partitions_ends_with_a_sentence(
    ottla: Run, new_topic: NewTopicNamed, broker: peers.BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another member keeps the only partition, since the assignor is sticky."""
    monkeypatch.setattr("ottla.cli.records.consumption._JOIN_SECONDS", 2.0)
    topic = new_topic()
    sticky = {
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "group.id": f"{topic}-readers",
    }
    with Consumer({"bootstrap.servers": broker.bootstrap, **sticky}) as first:
        first.subscribe([topic])
        peers.wait_until(lambda: first.poll(0.1) == [] and bool(first.assignment), SECONDS_MAX, "a partition")
        is_over = threading.Event()
        polling = threading.Thread(target=lambda: all(first.poll(0.1) == [] for _ in iter(is_over.is_set, 1)))
        polling.start()
        try:
            settings = [word for pair in sticky.items() for word in ("-X", "=".join(pair))]
            ran = ottla("record", "consume", topic, "-g", sticky["group.id"], "-e", *settings)
        finally:
            is_over.set()
            polling.join()
    assert (ran.code, ran.out) == (1, b"")
    assert "assigned no partition to this member: other members have them all." in ran.err


def test_a_terminal_shows_the_last_ten_and_then_what_comes(
    ottla: Run, new_topic: NewTopicNamed, command: list[str], environment: dict[str, str]
) -> None:
    topic = new_topic()
    assert ottla("record", "produce", topic, *(f"value {at}" for at in range(15))).code == 0
    terminal, inner = pty.openpty()
    process = peers.start_process(
        [*command, "record", "consume", topic],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**environment, "TERM": "xterm", "NO_COLOR": ""},
    )
    os.close(inner)
    try:
        shown = read_until(terminal, b"value 14")
        assert b"value 5" in shown
        assert b"value 4\r" not in shown
        assert b"\x1b[36m" in shown
        assert ottla("record", "produce", topic, "the \x1b[31mnext").code == 0
        assert b"the \\x1b[31mnext" in read_until(terminal, b"next")
        process.send_signal(signal.SIGINT)
        read_until(terminal, None)
        assert process.wait(SECONDS_MAX) == 130
    finally:
        peers.end_process(process)
        os.close(terminal)


def read_until(terminal: int, words: bytes | None) -> bytes:
    """What a terminal shows until it has shown these words, or, without words, has closed."""
    shown = b""
    until = time.monotonic() + SECONDS_MAX
    while words is None or words not in shown:
        ready, _, _ = select.select([terminal], [], [], max(until - time.monotonic(), 0))
        assert ready, f"{words!r} was not shown; this was: {shown!r}"
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux: the other side has closed
            piece = b""
        if not piece:
            assert words is None, f"it ended before {words!r}: {shown!r}"
            return shown
        shown += piece
    return shown


def test_ctrl_c_sends_the_lines_that_were_read(
    ottla: Run, new_topic: NewTopicNamed, command: list[str], environment: dict[str, str]
) -> None:
    """More lines than a pipe holds: once all are written to it, all but a pipe's worth have been read. Each
    of these must be in the topic, and said to be."""
    topic = new_topic()
    process = peers.start_process(
        [*command, "record", "produce", topic, "-v"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        assert process.stdin is not None
        for number in range(20_000):
            process.stdin.write(b"line %06d\n" % number)
        process.stdin.write(b"half a li")
        process.stdin.flush()
        unread_bytes_max = fcntl.fcntl(process.stdin, fcntl.F_GETPIPE_SZ)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)
    finally:
        peers.end_process(process)
    written = ottla("record", "consume", topic).text.split("\n")[:-1]

    assert (process.returncode, out) == (130, b""), err
    assert f"{topic}: {len(written)} of {len(written)} records written" in err.decode(), err
    assert written == [f"line {number:06d}" for number in range(len(written))]
    assert len(written) >= 20_000 - unread_bytes_max // len(b"line 000000\n") - 1


def test_ctrl_c_ends_a_producer_that_waits_for_lines(
    ottla: Run, new_topic: NewTopicNamed, command: list[str], environment: dict[str, str]
) -> None:
    for number, more in ((signal.SIGINT, []), (signal.SIGTERM, ["-X", "transactional.id=lines"])):
        topic = new_topic()
        process = peers.start_process(
            [*command, "record", "produce", topic, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        try:
            assert process.stdin is not None
            process.stdin.write(b"a line\n")
            process.stdin.flush()
            peers.wait_until(_holds(ottla, topic, "a line\n"), 60, "the line to be written")
            process.send_signal(number)
            _, err = process.communicate(timeout=SECONDS_MAX)
        finally:
            peers.end_process(process)
        assert process.returncode == 128 + number, err
        assert bool(more) == (b"aborted; no records were written" in err), err


def _holds(ottla: Run, topic: str, text: str) -> Callable[[], bool]:
    return lambda: ottla("record", "consume", topic, "-e").text == text
