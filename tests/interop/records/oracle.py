"""Asks Kafka's own record classes, through RecordOracle.java, and puts the answers into our terms."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ottla.records.record import Record
from tests.interop import peers

_SOURCE = Path(__file__).with_name("RecordOracle.java")


def ask(questions: Sequence[str]) -> list[str]:
    """The answers of one JVM to all questions, in order."""
    classes = peers.javac_compile([_SOURCE])
    with tempfile.TemporaryDirectory() as directory:
        result = peers.java_run(
            "RecordOracle", directory, classes=classes, input="\n".join(questions).encode() + b"\n"
        )
    answers = result.stdout.decode().splitlines()
    assert len(answers) == len(questions), result.stderr.decode()[-4000:]
    return answers


def hex_of(value: bytes | bytearray | memoryview | None) -> str:
    return "-" if value is None else "x" + bytes(value).hex()


def bytes_of(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text[1:])


def batch_bytes(answer: str) -> bytes:
    """The batch in the answer to `build`, `marker` or `leader`."""
    word, text = answer.split(" ", 1)
    assert word == "ok", answer
    found = bytes_of(text)
    assert found is not None
    return found


def build_question(
    records: Sequence[Record],
    *,
    magic: int = 2,
    codec: str = "none",
    level: int | None = None,
    base_offset: int = 0,
    log_append_time: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> str:
    texts = []
    for record in records:
        headers = [f"{hex_of(name.encode())}={hex_of(value)}" for name, value in record.headers]
        texts.append(",".join([str(record.timestamp), hex_of(record.key), hex_of(record.value), *headers]))
    kind = "CreateTime" if log_append_time is None else "LogAppendTime"
    words: list[object] = ["build", magic, codec, "-" if level is None else level, base_offset, kind]
    words += [-1 if log_append_time is None else log_append_time, *producer, str(transactional).lower()]
    return " ".join(map(str, words)) + " " + ";".join(texts)


def read_answer(answer: str) -> tuple[list[list[str]], list[Record]]:
    """The answer to `read`: the fields of each batch as text, and all records."""
    assert answer.startswith("ok "), answer
    batches, records = [], []
    for entry in answer[3:].split(";")[:-1]:
        kind, *fields = entry.split(",")
        if kind == "b":
            batches.append(fields)
            continue
        headers = []
        for pair in fields[4:]:
            name, value = pair.split("=")
            headers.append(((bytes_of(name) or b"").decode(), bytes_of(value)))
        records.append(
            Record(int(fields[0]), int(fields[1]), bytes_of(fields[2]), bytes_of(fields[3]), tuple(headers))
        )
    return batches, records
