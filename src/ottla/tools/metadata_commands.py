"""The commands of the metadata shell: cat, cd, exit, find, help, history, ls, man, pwd and tree.

An invalid command prints an error line, and the shell continues. Paths may contain the usual shell patterns
(`*`, `?`, `{a,b}`), and `.` and `..`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ottla.tools.metadata_nodes import Directory, Node

HELP_WIDTH = 75
_HELP_COLUMN = 25
_COLUMN_GAP = 2
_COLUMN_WIDTH_MIN = 4


@dataclass(frozen=True, slots=True)
class Command:
    """The description of a command, and the number of its arguments: from `lowest` to `highest`."""

    text: str
    run: Callable[[Shell, list[str]], Iterator[str]]
    argument: str = ""
    lowest: int = 0
    highest: int | None = 0
    argument_text: str = ""
    is_for_shell_only: bool = False


@dataclass(slots=True)
class Shell:
    """The state of a shell: its working directory. `width` is the width of the screen, if there is one."""

    root: Directory
    is_interactive: bool = False
    width: int | None = None
    directory: str = "/"
    history: list[str] = field(default_factory=list)
    is_over: bool = False

    def run(self, words: Sequence[str]) -> Iterator[str]:
        """Run a command; return the lines that it prints."""
        given = list(words)
        while given and not given[-1]:
            given.pop()
        if not given:
            return
        found = self._find(given[0])
        if isinstance(found, str):
            yield found
            return
        arguments = given[1:]
        if {"-h", "--help"} & set(arguments):
            yield from usage_lines(given[0], found, has_help=True)
            return
        if problem := _problem(found, arguments):
            yield problem
        elif COMMANDS.get(given[0]) is not found:
            name = next(name for name, command in COMMANDS.items() if command is found)
            yield f"invalid choice: '{given[0]}': did you mean '{name}'?"
        else:
            yield from found.run(self, arguments)

    def names(self) -> list[str]:
        """All commands."""
        return [
            name for name, command in COMMANDS.items() if self.is_interactive or not command.is_for_shell_only
        ]

    def _find(self, name: str) -> Command | str:
        """Find a command by its name or a prefix; otherwise return an error."""
        names = self.names()
        if name in names:
            return COMMANDS[name]
        if name.startswith("-"):
            return f"unrecognized arguments: '{name}'"
        similar = [known for known in names if known.startswith(name)]
        if len(similar) == 1:
            return COMMANDS[similar[0]]
        if similar:
            return f"ambiguous command: {name} could match {', '.join(similar)}"
        choices = ", ".join(f"'{known}'" for known in names)
        return f"invalid choice: '{name}' (choose from {choices})"

    def find(self, pattern: str) -> Iterator[tuple[list[str], Node]]:
        """The nodes that match a path with patterns, each with its own path."""
        full = pattern if pattern.startswith("/") else f"{self.directory}/{pattern}"
        yield from _matching(plain_components(full), self.root, [])


def _problem(command: Command, arguments: list[str]) -> str | None:
    unknown = [word for word in arguments if word.startswith("-") and word != "-"]
    if unknown:
        return f"unrecognized arguments: '{' '.join(unknown)}'"
    if len(arguments) < command.lowest:
        return "too few arguments"
    if command.highest is not None and len(arguments) > command.highest:
        return f"unrecognized arguments: '{' '.join(arguments[command.highest :])}'"
    return None


# Paths


def plain_components(path: str) -> list[str]:
    """The names in a path, with `.` and `..` resolved."""
    found: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(name)
    return found


def _matching(components: list[str], node: Node, path: list[str]) -> Iterator[tuple[list[str], Node]]:
    if not components:
        yield path, node
        return
    if isinstance(node, str):
        return
    pattern = pattern_of(components[0])
    names = [components[0]] if pattern is None else [name for name in node.names() if pattern.fullmatch(name)]
    for name in names:
        child = node.child(name)
        if child is not None:
            yield from _matching(components[1:], child, [*path, name])


def pattern_of(component: str) -> re.Pattern[str] | None:
    """The regular expression of a name in a path; None for a plain name or unbalanced braces."""
    written = []
    is_plain, is_in_group = True, False
    characters = iter(component)
    for character in characters:
        if character in "?*{" or (is_in_group and character in ",}"):
            is_plain = False
        if character == "?":
            written.append(".")
        elif character == "*":
            written.append(".*")
        elif character == "\\":
            written.append(re.escape(next(characters, "\\")))
        elif character == "{":
            if is_in_group:
                return None
            is_in_group = True
            written.append("(?:(?:")
        elif character == "," and is_in_group:
            written.append(")|(?:")
        elif character == "}" and is_in_group:
            is_in_group = False
            written.append("))")
        else:
            written.append(re.escape(character))
    return None if is_plain or is_in_group else re.compile("".join(written))


def completions(shell: Shell, prefix: str) -> list[str]:
    """The paths with this prefix; directories end with a slash."""
    above, slash, beginning = prefix.rpartition("/")
    full = f"{above}/" if prefix.startswith("/") else f"{shell.directory}/{above}"
    node: Node | None = shell.root
    for name in plain_components(full):
        node = node.child(name) if isinstance(node, Directory) else None
    if not isinstance(node, Directory):
        return []
    return [
        f"{above}{slash}{name}{'/' if isinstance(child, Directory) else ''}"
        for name, child in node.children()
        if name.startswith(beginning)
    ]


# Commands


def _cat(shell: Shell, targets: list[str]) -> Iterator[str]:
    for target in targets:
        is_there = False
        for _, node in shell.find(target):
            is_there = True
            yield f"cat: {target}: Is a directory" if isinstance(node, Directory) else node
        if not is_there:
            yield f"cat: {target}: No such file or directory."


def _tree(shell: Shell, targets: list[str]) -> Iterator[str]:
    for target in targets:
        is_there = False
        for _, node in shell.find(target):
            is_there = True
            yield from _tree_of(node, "")
        if not is_there:
            yield f"tree: {target}: No such file or directory."


def _tree_of(node: Node, indentation: str) -> Iterator[str]:
    if isinstance(node, str):
        yield f"{indentation}{node}"
        return
    for name, child in node.children():
        yield f"{indentation}{name}:"
        yield from _tree_of(child, f"{indentation}  ")


def _find(shell: Shell, paths: list[str]) -> Iterator[str]:
    for path in _effective(paths):
        is_there = False
        for _, node in shell.find(path):
            is_there = True
            yield from _all_below(path, node)
        if not is_there:
            yield f"find: {path}: no such file or directory."


def _all_below(path: str, node: Node) -> Iterator[str]:
    yield path
    if isinstance(node, Directory):
        for name, child in node.children():
            yield from _all_below(f"{path}{name}" if path == "/" else f"{path}/{name}", child)


def _effective(paths: list[str]) -> list[str]:
    return [path for path in paths if path] or ["."]


def _cd(shell: Shell, targets: list[str]) -> Iterator[str]:
    target = targets[0] if targets else "/"
    is_there = False
    for path, node in list(shell.find(target)):
        is_there = True
        if isinstance(node, Directory):
            shell.directory = f"/{'/'.join(path)}"
        else:
            yield f"cd: {target}: not a directory."
    if not is_there:
        yield f"cd: {target}: no such directory."


def _pwd(shell: Shell, arguments: list[str]) -> Iterator[str]:
    yield shell.directory


def _exit(shell: Shell, arguments: list[str]) -> Iterator[str]:
    shell.is_over = True
    yield from ()


def _history(shell: Shell, arguments: list[str]) -> Iterator[str]:
    count = len(shell.history)
    if arguments:
        text = arguments[0]
        try:
            count = max(0, min(int(text), count))
        except ValueError:
            yield (
                f"argument numEntriesToShow: could not convert '{text}' to Integer"
                f' (For input string: "{text}")'
            )
            return
    first = len(shell.history) - count
    for number, line in enumerate(shell.history[first:], first):
        yield f"{number:5d}  {line}"


def _help(shell: Shell, arguments: list[str]) -> Iterator[str]:
    yield "Welcome to the Apache Kafka metadata shell."
    yield ""
    choices = f"{{{','.join(COMMANDS)}}}"
    yield f"usage:  {choices} ..."
    yield ""
    yield "positional arguments:"
    yield f"  {choices}"
    for name, command in COMMANDS.items():
        yield from _described(f"    {name}", command.text)


def _man(shell: Shell, arguments: list[str]) -> Iterator[str]:
    name = arguments[0]
    if name not in COMMANDS:
        yield f"man: unknown command {name}. Type help to get a list of commands."
        return
    yield f"{name}: {COMMANDS[name].text}"
    yield ""
    yield from usage_lines(name, COMMANDS[name])


def usage_lines(name: str, command: Command, *, has_help: bool = False) -> Iterator[str]:
    """The usage line of a command."""
    shown = command.argument
    if command.highest is None:
        repeated = f"[{shown} ...]"
        shown = f"{shown} {repeated}" if command.lowest else f"[{shown} {repeated}]"
    elif shown and not command.lowest:
        shown = f"[{shown}]"
    yield " ".join(filter(None, ["usage:", name, "[-h]" if has_help else "", shown]))
    if command.argument:
        yield ""
        yield "positional arguments:"
        yield from _described(f"  {command.argument}", command.argument_text)
    if has_help:
        yield ""
        yield "named arguments:"
        yield from _described("  -h, --help", "show this help message and exit")


def _described(name: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, HELP_WIDTH - _HELP_COLUMN)
    yield f"{name:<{_HELP_COLUMN}}{lines[0]}"
    yield from (f"{'':<{_HELP_COLUMN}}{line}" for line in lines[1:])


def _ls(shell: Shell, targets: list[str]) -> Iterator[str]:
    files: list[str] = []
    directories: list[tuple[str, list[str]]] = []
    for target in _effective(targets):
        is_there = False
        for path, node in shell.find(target):
            is_there = True
            name = path[-1] if path else "/"
            if isinstance(node, Directory):
                directories.append((name, node.names()))
            else:
                files.append(name)
        if not is_there:
            yield f"ls: {target}: no such file or directory."
    yield from columns(files, shell.width)
    is_first = not files
    for name, entries in directories:
        if entries and (files or len(directories) > 1):
            if not is_first:
                yield ""
            yield f"{name}:"
        is_first = False
        yield from columns(entries, shell.width)


def columns(entries: list[str], width: int | None) -> Iterator[str]:
    """Format entries in columns that fit the screen, top to bottom; in one column without a screen."""
    count_max = 1 if width is None else max(1, width // _COLUMN_WIDTH_MIN)
    for count in range(min(count_max, max(1, len(entries))), 0, -1):
        rows = -(-len(entries) // count)
        parts = [entries[start : start + rows] for start in range(0, len(entries), rows or 1)]
        widths = [max(map(len, part)) + _COLUMN_GAP for part in parts]
        if count == 1 or (len(parts) == count and sum(widths) <= (width or 0)):
            for row in range(rows):
                cells = [part[row] for part in parts if row < len(part)]
                padded = [f"{cell:<{widths[column]}}" for column, cell in enumerate(cells[:-1])]
                yield "".join([*padded, *cells[-1:]])
            return


COMMANDS = {
    "cat": Command(
        "Show the contents of metadata files.", _cat, "targets", 1, None, "The metadata files to display."
    ),
    "cd": Command(
        "Set the current working directory.",
        _cd,
        "target",
        0,
        1,
        "The directory to change to.",
        is_for_shell_only=True,
    ),
    "exit": Command("Exit the metadata shell.", _exit, is_for_shell_only=True),
    "find": Command(
        "Search for nodes in the directory hierarchy.", _find, "paths", 0, None, "The paths to start at."
    ),
    "help": Command("Display this help message.", _help, is_for_shell_only=True),
    "history": Command(
        "Print command history.",
        _history,
        "numEntriesToShow",
        0,
        1,
        "The number of entries to show.",
        is_for_shell_only=True,
    ),
    "ls": Command("List metadata nodes.", _ls, "targets", 0, None, "The metadata node paths to list."),
    "man": Command(
        "Show the help text for a specific command.",
        _man,
        "cmd",
        1,
        1,
        "The command to get help text for.",
        is_for_shell_only=True,
    ),
    "pwd": Command("Print the current working directory.", _pwd, is_for_shell_only=True),
    "tree": Command(
        "Show the contents of metadata nodes in a tree structure.",
        _tree,
        "targets",
        1,
        None,
        "The metadata nodes to display.",
    ),
}
