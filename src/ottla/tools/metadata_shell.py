"""`kafka-metadata-shell.sh`: browses the metadata of a cluster as a tree of files, read-only.

`--snapshot` names a snapshot (`.checkpoint`) or a segment (`.log`) of the metadata log, ours or Kafka's. With
a command it runs only that command; otherwise it reads commands until `exit` or the end of the input. The
data directory must not be in use: the tool locks it meanwhile.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ottla import host
from ottla.controller.image import ClusterImage
from ottla.controller.records import decode_record
from ottla.controller.registrations import InvalidMetadata
from ottla.operations.failure import Failure
from ottla.records.batch import BatchHeader, iterate_headers
from ottla.records.record import read_batch
from ottla.tools.entry_point import finish
from ottla.tools.metadata_commands import COMMANDS, Shell, completions
from ottla.tools.metadata_nodes import root
from ottla.tools.subcommands import SubcommandParser
from ottla.wire.errors import KafkaError, MalformedMessage
from ottla.wire.message import Buffer

_PROMPT = ">> "


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""

    def work() -> int:
        options = _parser().parse_intermixed_args(sys.argv[1:] if arguments is None else arguments)
        path = options.snapshot
        try:
            with _locked(os.path.dirname(os.path.dirname(os.path.abspath(path)))):
                _run(path, options.command)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise Failure(f"Unexpected error: {error.filename}: {error.strerror}") from error
        return 0

    return finish(work)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="kafka-metadata-shell",
        description="The metadata of a cluster, as a tree of files.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--snapshot", "-s", required=True, help="The snapshot, or segment, of the metadata log to read."
    )
    parser.add_argument("command", nargs="*", help="The command to run.")
    return parser


def _run(path: str, command: list[str]) -> None:
    if command:
        for line in Shell(root(load(path))).run(command):
            print(line)
        return
    print("Loading...", flush=True)
    image = load(path)
    print("Starting...", flush=True)
    _talk(Shell(root(image), is_interactive=True))


# The snapshot


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Lock a data directory against brokers and controllers; do nothing if it is not one."""
    path = os.path.join(directory, ".lock")
    if not os.path.exists(path):
        yield
        return
    disk = host.HostDisk()
    try:
        release = disk.lock(path)
        if release is None:
            raise Failure(
                f"Unexpected error: Unable to lock {directory}. Please ensure that no broker or controller"
                " process is using this directory before proceeding."
            )
        try:
            yield
        finally:
            release()
    finally:
        disk.close()


def load(path: str) -> ClusterImage:
    """Replay the records of a file; raises Failure if the file is invalid."""
    with open(path, "rb") as file:
        content = file.read()
    image = ClusterImage()
    position = 0
    try:
        for position, header in iterate_headers(content):
            if not header.is_control:
                _replay(image, content, position, header)
    except (KafkaError, MalformedMessage, InvalidMetadata) as error:
        raise Failure(f"Unexpected error: {path} is damaged at byte {position}: {error}") from error
    if image.offset < 0:
        raise Failure(f"Unexpected error: {path} has no metadata in it.")
    return image


def _replay(image: ClusterImage, content: Buffer, position: int, header: BatchHeader) -> None:
    for record in read_batch(content, position, header):
        image.offset = record.offset
        image.replay(decode_record(record.value or b""))
    image.offset = header.last_offset
    image.epoch = header.partition_leader_epoch
    image.timestamp_ms = header.max_timestamp


# Interaction


def _talk(shell: Shell) -> None:
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal:
        _complete_words(shell)
    print("[ Kafka Metadata Shell ]")
    while not shell.is_over:
        try:
            line = input(_PROMPT)
            if is_terminal:
                shell.width = shutil.get_terminal_size().columns
            _answer(shell, line)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("^C", flush=True)


def _answer(shell: Shell, line: str) -> None:
    if line.strip():
        shell.history.append(line)
    try:
        words = shlex.split(line)
    except ValueError as error:
        print(f"{error}.")
        return
    for text in shell.run(words):
        print(text)
    sys.stdout.flush()


def _complete_words(shell: Shell) -> None:
    """Set up Tab completion of commands and paths, and the history of the arrow keys."""
    try:
        import readline
    except ImportError:  # Python was built without readline
        return
    readline.set_completer_delims(" \t\n")
    readline.set_completer(_completer(shell, lambda: readline.get_line_buffer()[: readline.get_begidx()]))
    readline.parse_and_bind("tab: complete")


def _completer(shell: Shell, before: Callable[[], str]) -> Callable[[str, int], str | None]:
    def complete(beginning: str, number: int) -> str | None:
        words = before().split()
        if not words or words[0] == "man":
            found = [f"{name} " for name in COMMANDS if name.startswith(beginning)]
        else:
            found = [path if path.endswith("/") else f"{path} " for path in completions(shell, beginning)]
        return found[number] if number < len(found) else None

    return complete


if __name__ == "__main__":
    sys.exit(main())
