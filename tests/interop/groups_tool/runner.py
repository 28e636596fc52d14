"""Kafka's tools in one JVM, by the Java program beside this file."""

from __future__ import annotations

import json
import re
import select
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.interop import peers

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
SECONDS_MAX = 150.0
_LOG_LINE = re.compile(r"^\d\d:\d\d:\d\d[.,]\d+ |^\[\d{4}-|^\[main\]|^SLF4J|^log4j")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a tool left behind."""

    exit: int
    out: str
    err: str

    def lines(self, masks: Mapping[str, str]) -> list[str]:
        """The output without what differs between runs: masked texts, widths, the order of rows, logs."""
        shown = [f"exit {self.exit}"]
        for stream in (self.out, self.err):
            rows = []
            for line in stream.splitlines():
                if line.startswith(("\tat ", "\t...")) or _LOG_LINE.match(line):
                    continue
                for found, name in sorted(masks.items(), key=lambda pair: -len(pair[0])):
                    line = line.replace(found, name)
                rows.append(" ".join(line.split()))
            shown += ["---", *sorted(filter(None, rows))]
        return shown


command_lines: set[tuple[str, ...]] = set()
"""Every command line that a tool of Kafka's was given here; what changes from run to run is "…" in it."""
_CHANGING = re.compile(r"127\.0\.0\.1:\d+|/tmp/\S+|\b(java|ours)\b")


class Tools:
    """The running JVM."""

    def __init__(self, *class_path: str) -> None:
        classes = peers.javac_compile([Path(__file__).with_name("ToolRunner.java")])
        self._process = peers.start_process(
            peers.java_command("ToolRunner", classes=classes, log_level="error", class_path=class_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        peers.end_process(self._process)

    def run(self, main_class: str, *arguments: str, stdin: str = "") -> Ran:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command_lines.add((main_class, *(_CHANGING.sub("…", argument) for argument in arguments)))
        command = {"stdin": stdin, "command": [main_class, *arguments]}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        readable, _, _ = select.select([self._process.stdout], [], [], SECONDS_MAX)
        assert readable, f"{main_class} {arguments} did not end in {SECONDS_MAX:.0f} s"
        line = self._process.stdout.readline()
        assert line, f"the tools' JVM ended while it ran {main_class} {arguments}"
        return Ran(**json.loads(line))
