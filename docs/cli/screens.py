"""Makes the screens in this directory again: `ottla` as a new user types it, in a terminal of 100 by 30.

    python docs/cli/screens.py [NAME...]

Needs tmux. Starts a cluster of three nodes on port 9092 and the next ones in a temporary directory, types the
commands below, and writes what the terminal shows to NAME.txt (and NAME.svg where colours say something).
Times, ids and figures differ from run to run; everything else should not.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "src"
WIDTH, HEIGHT = 100, 30
SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Screen:
    """Commands that are typed one after the other, and what is shown when they are done."""

    name: str
    commands: tuple[str, ...]
    before: tuple[str, ...] = ()
    """Typed before, and not shown."""
    until: str | None = None
    """For a command that does not end: shown words after which the screen is taken and Ctrl-C typed."""
    meanwhile: str | None = None
    """Run elsewhere while such a command runs."""
    has_picture: bool = False


FILL = (
    'seq 1 40 | sed \'s/.*/customer-&:{"order": &, "total": 9.9}/\' | ottla record produce orders -K : -H '
    "source=web"
)
SCREENS = (
    Screen("help", ("ottla",)),
    Screen(
        "topic-create",
        (
            "ottla topic create orders --partitions 3",
            "ottla topic create audit --retention 1d",
            "ottla topic list",
        ),
    ),
    Screen("topic-describe", ("ottla topic describe orders",), before=(FILL,), has_picture=True),
    Screen("topic-json", ("ottla topic list -o json",)),
    Screen(
        "record-produce",
        (
            "ottla record produce audit 'hello world' --key me --verbose",
            "ottla record consume audit -e -f '%p:%o %k=%s\\n'",
            "ottla record consume audit -o json -e",
        ),
    ),
    Screen(
        "record-consume",
        ("ottla record consume orders",),
        until='"order": 42',
        meanwhile="printf '%s\\n' 'customer-41:{\"order\": 41}' 'customer-42:{\"order\": 42}'"
        " | ottla record produce orders -K :",
        has_picture=True,
    ),
    Screen(
        "group-describe",
        ("ottla group list", "ottla group describe billing"),
        before=("ottla record consume orders -g billing -c 25 > /dev/null",),
    ),
    Screen("cluster-describe", ("ottla cluster describe", "ottla quorum status")),
    Screen("doctor", ("ottla doctor",), has_picture=True),
    Screen(
        "mistakes",
        (
            "ottla topc list",
            "ottla topic describe ordrs",
            "ottla topic create orders",
            "ottla -b localhost:1 topic list",
            "ottla record consume orders -o yesterday",
            "ottla topic alter orders --set retention.sm=1",
        ),
    ),
    Screen(
        "log-dump",
        ("ottla log dump node-1/data/orders-0", "ottla log dump -r -c 5 node-1/data/orders-0/*.log"),
    ),
    Screen("log-verify", ("ottla log verify node-1/data",)),
    Screen("bench", ("ottla bench --seconds 2",)),
)


class Terminal:
    """One pane of tmux, in which a shell waits for commands."""

    def __init__(self, name: str, directory: Path, environment: dict[str, str]) -> None:
        self._name = name
        self._done = f"{name}-done"
        shell = ["env", "-i", *(f"{key}={value}" for key, value in environment.items())]
        shell += ["PS1=$ ", f"PROMPT_COMMAND=tmux wait-for -S {self._done}", "bash", "--norc", "--noprofile"]
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        self._tmux("new-session", "-d", "-s", name, "-c", str(directory), *size, shlex.join(shell))
        self._wait_for_prompt()

    def type(self, command: str) -> None:
        """A command, to its end."""
        self.begin(command)
        self._wait_for_prompt()

    def begin(self, command: str) -> None:
        self._tmux("send-keys", "-t", self._name, "-l", command)
        self._tmux("send-keys", "-t", self._name, "Enter")

    def wait_until(self, words: str) -> None:
        until = time.monotonic() + SECONDS_MAX
        while words not in self.shown():
            if time.monotonic() > until:
                raise SystemExit(f"{words!r} was not shown:\n{self.shown()}")
            time.sleep(0.1)

    def interrupt(self) -> None:
        self._tmux("send-keys", "-t", self._name, "C-c")
        self._wait_for_prompt()

    def clear(self) -> None:
        self.type("clear")
        self._tmux("clear-history", "-t", self._name)

    def shown(self, *, colours: bool = False) -> str:
        """All lines since the screen was cleared, also those that have scrolled away."""
        return self._tmux("capture-pane", "-p", "-S", "-", *(["-e"] if colours else []), "-t", self._name)

    def close(self) -> None:
        self._tmux("kill-session", "-t", self._name)

    def _wait_for_prompt(self) -> None:
        subprocess.run(["tmux", "wait-for", self._done], timeout=SECONDS_MAX, check=True)
        until = time.monotonic() + SECONDS_MAX
        while not self.shown().rstrip().endswith("$"):  # the signal comes just before the prompt
            if time.monotonic() > until:
                raise SystemExit(f"No prompt came:\n{self.shown()}")
            time.sleep(0.02)

    @staticmethod
    def _tmux(*arguments: str) -> str:
        done = subprocess.run(["tmux", *arguments], capture_output=True, text=True, check=True)
        return done.stdout


def take(terminal: Terminal, screen: Screen, environment: dict[str, str], directory: Path) -> None:
    for command in screen.before:
        terminal.type(command)
    terminal.clear()
    for command in screen.commands[: -1 if screen.until else None]:
        terminal.type(command)
    if screen.until is not None:
        terminal.begin(screen.commands[-1])
        if screen.meanwhile is not None:
            terminal.wait_until("customer-40")
            subprocess.run(screen.meanwhile, shell=True, env=environment, cwd=directory, check=True)
        terminal.wait_until(screen.until)
    save(screen, terminal.shown(), terminal.shown(colours=True))
    if screen.until is not None:
        terminal.interrupt()


def save(screen: Screen, text: str, coloured: str) -> None:
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    if lines and lines[-1] == "$":
        lines.pop()
    (HERE / f"{screen.name}.txt").write_text("\n".join(lines).rstrip() + "\n")
    if screen.has_picture:
        save_picture(screen.name, coloured.rstrip().removesuffix("$").rstrip())


def save_picture(name: str, coloured: str) -> None:
    import io

    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(coloured))
    picture = console.export_svg(title="ottla", unique_id=name)
    # Without fonts from elsewhere: the reader's own monospaced one does.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (HERE / f"{name}.svg").write_text(picture)


def main(names: Sequence[str]) -> None:
    wanted = [screen for screen in SCREENS if not names or screen.name in names]
    with tempfile.TemporaryDirectory(prefix="ottla-screens-") as place:
        directory = Path(place)
        programs = directory / "bin"
        programs.mkdir()
        program = programs / "ottla"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m ottla.cli "$@"\n')
        program.chmod(0o755)
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": place,
            "TERM": "screen-256color",
            "LANG": "C.UTF-8",
            "TMUX_TMPDIR": os.environ.get("TMUX_TMPDIR", "/tmp"),
        }
        cluster = directory / "cluster"
        cluster.mkdir()
        node = Terminal(f"ottla-{os.getpid()}-nodes", directory, environment)
        user = Terminal(f"ottla-{os.getpid()}", cluster, environment)
        try:
            node.clear()
            node.begin("ottla start --nodes 3")
            node.wait_until("Press Ctrl-C to stop.")
            if not names or "start" in names:
                save(Screen("start", ()), node.shown().replace(place, "/home/me"), "")
            for screen in wanted:
                take(user, screen, environment, cluster)
            node.interrupt()
        finally:
            user.close()
            node.close()


if __name__ == "__main__":
    main(sys.argv[1:])
