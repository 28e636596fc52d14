"""Finds the Ottla nodes among the processes of this machine, by their command lines.

A node is a Python process whose program is `kafka-server-start`, `kafka-run-class kafka.Kafka`, `ottla
serve`, `ottla start` for one node, or a child of a supervisor (`ottla cluster up`, `ottla serve --nodes`).
Arguments are compared one by one, so that an editor or a search whose arguments contain such a name does not
match. A signal goes through a handle that is opened before the process is checked again, so that it cannot
hit another process with a reused id.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

PROCESSES = Path("/proc")

_START = "ottla.tools.server_start"
_RUN_CLASS = "ottla.tools.run_class"
_COMMAND = "ottla.cli"
_CHILD = "ottla.cluster.child"
_SCRIPTS = {
    "kafka-server-start": _START,
    "kafka-server-start.sh": _START,
    "kafka-run-class": _RUN_CLASS,
    "kafka-run-class.sh": _RUN_CLASS,
    "ottla": _COMMAND,
}
_CLASS = "kafka.Kafka"
_COMMAND_FLAGS = frozenset(
    {"-p", "--profile", "-b", "--bootstrap-server", "-o", "--output", "-X", "--property", "--config"}
)
_INTERPRETER_OPTIONS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """A process that runs a node."""

    pid: int
    words: tuple[str, ...]
    """The arguments of its program: a file and settings."""
    is_serve: bool
    """Whether it is `ottla serve` or `ottla start`, which need no file."""
    directory: str
    environment: dict[str, str] = field(default_factory=dict)

    def configuration(self) -> BrokerConfig:
        """Load its configuration again; raises OSError, ConfigError or ValueError if that fails."""
        from ottla.operations.configuration import ConfigurationSource, parse_overrides

        options = _options(self.words, self.is_serve)
        source = ConfigurationSource(
            file=options.file,
            data=options.data,
            port=options.port,
            overrides=parse_overrides(options.override),
        )
        return source.load(environment=self.environment, base_directory=self.directory)


def node_processes(root: Path = PROCESSES) -> list[NodeProcess]:
    """The running nodes, by process id."""
    found = (_node(root, pid, words) for pid, words in _command_lines(root))
    return sorted((node for node in found if node is not None), key=lambda node: node.pid)


def send_signal(node: NodeProcess, number: signal.Signals, root: Path = PROCESSES) -> bool:
    """Signal a node; False if it has exited."""
    try:
        handle = os.pidfd_open(node.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    try:
        if not any(node.pid == now.pid and node.words == now.words for now in node_processes(root)):
            return False
        if handle is None:
            os.kill(node.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def program_of(words: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The module that a command line runs and its arguments, if the module may run a node."""
    if not words or not os.path.basename(words[0]).startswith("python"):
        return None
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "-m":
            return (rest[0], tuple(rest[1:])) if rest else None
        if word in _INTERPRETER_OPTIONS_WITH_VALUE:
            del rest[:1]
        elif word.startswith("-"):
            if word in ("-", "-c"):
                return None
        else:
            module = _SCRIPTS.get(os.path.basename(word))
            return None if module is None else (module, tuple(rest))
    return None


def words_of_node(words: Sequence[str]) -> tuple[tuple[str, ...], bool] | None:
    """The node's arguments and whether it needs no file; None if the command line runs no node."""
    program = program_of(words)
    if program is None:
        return None
    module, given = program
    rest = list(given)
    if module == _CHILD:
        return tuple(rest), False
    if module == _RUN_CLASS:
        while rest and rest[0].startswith("-"):  # options of Kafka's script, such as -daemon and -name x
            del rest[: 2 if rest[0] == "-name" else 1]
        return (tuple(rest[1:]), False) if rest[:1] == [_CLASS] and len(rest) > 1 else None
    if module == _START:
        is_node = rest and rest[0] not in ("-daemon", "--daemon") and not {"--help", "--version"} & set(rest)
        return (tuple(rest), False) if is_node else None
    if module == _COMMAND:
        while rest and rest[0].startswith("-"):
            del rest[: 2 if rest[0] in _COMMAND_FLAGS else 1]
        return (tuple(rest[1:]), True) if rest[:1] in (["serve"], ["start"]) else None
    return None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _options(words: Sequence[str], is_serve: bool) -> argparse.Namespace:
    parser = _Parser(add_help=False)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--override", action="append", default=[])
    parser.add_argument("-d", "--data", default=None)
    parser.add_argument("--port", type=int)
    parser.add_argument("-n", "--nodes", default="1")
    parser.add_argument("--shared-log", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    if not is_serve and not words:
        raise ValueError("no configuration file is given")
    return parser.parse_args(list(words))


def _node(root: Path, pid: int, words: tuple[str, ...]) -> NodeProcess | None:
    found = words_of_node(words)
    if found is None or pid == os.getpid():
        return None
    node = NodeProcess(pid, *found, *_surroundings(root / str(pid)))
    return None if _is_supervisor(node) else node


def _is_supervisor(node: NodeProcess) -> bool:
    """Whether it runs several nodes, like `ottla serve --nodes auto`: then its children are the nodes."""
    if not node.is_serve:
        return False
    try:
        options = _options(node.words, is_serve=True)
    except ValueError:
        return False
    first = os.path.join(node.directory, options.data or "data", "node-1", "server.properties")
    return options.nodes != "1" or (options.file is None and os.path.exists(first))


def _surroundings(process: Path) -> tuple[str, dict[str, str]]:
    """The working directory and environment of a process; our own if the system hides them."""
    try:
        directory = os.readlink(process / "cwd")
        entries = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return os.getcwd(), {}
    texts = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    return directory, {name: value for name, _, value in texts}


def _command_lines(root: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    if not root.is_dir():
        yield from _told_by_ps()
        return
    for entry in root.iterdir():
        if entry.name.isdecimal():
            try:
                content = (entry / "cmdline").read_bytes()
            except OSError:  # it has exited, or belongs to another user
                continue
            yield int(entry.name), tuple(map(os.fsdecode, content.rstrip(b"\0").split(b"\0")))


def _told_by_ps() -> Iterator[tuple[int, tuple[str, ...]]]:
    """For systems without /proc. Arguments with blanks are split there, and do not match a node."""
    listing = subprocess.run(["ps", "-axo", "pid=,command="], capture_output=True, text=True, check=False)
    for line in listing.stdout.splitlines():
        pid, *words = line.split()
        yield int(pid), tuple(words)
