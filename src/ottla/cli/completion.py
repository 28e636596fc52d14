"""`ottla completion`: shell scripts, and the candidates that they request on each Tab.

A script calls `ottla __complete SHELL ...` and gets one candidate per line, followed by a tab and a
description; lines that begin with a colon are directives: `:files`, `:dirs`, `:nospace`. The metavar of a
value (TOPIC, GROUP, PROFILE, BROKER, CONFIG, FILE...) selects its candidates, so every noun gets completion
without code of its own.

Rule: Tab never shows an error and never takes long. Requests for topics and groups time out after two
seconds, or after OTTLA_COMPLETION_SECONDS.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse, near_names

if TYPE_CHECKING:
    from ottla.cli.session import Flags, Session
    from ottla.client.admin import Admin

app = typer.Typer(help="Print a shell completion script.", no_args_is_help=True)

_LIMIT_SECONDS = 2.0

Candidates = list[tuple[str, str]]

FILES = ":files"
DIRECTORIES = ":dirs"
NO_SPACE = ":nospace"

SCRIPTS = {
    "bash": r"""# Completion of ottla for bash. Put this line into ~/.bashrc:
#   eval "$(ottla completion bash)"
_ottla() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :files) compopt -o default 2>/dev/null; COMPREPLY=(); return ;;
            :dirs) compopt -o dirnames 2>/dev/null; COMPREPLY=(); return ;;
            :nospace) compopt -o nospace 2>/dev/null ;;
            "") ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <(command "${COMP_WORDS[0]}" __complete bash "$COMP_LINE" "$COMP_POINT" 2>/dev/null)
}
complete -F _ottla ottla
""",
    "zsh": r"""#compdef ottla
# Completion of ottla for zsh. Put this line into ~/.zshrc, behind compinit:
#   eval "$(ottla completion zsh)"
_ottla() {
    local -a described nospace
    local line
    for line in "${(@f)$(command ${words[1]} __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case "$line" in
            :files) _files; return ;;
            :dirs) _files -/; return ;;
            :nospace) nospace=(-S '') ;;
            "") ;;
            *) described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    _describe 'ottla' described "${nospace[@]}"
}
if [ "$funcstack[1]" = "_ottla" ]; then _ottla "$@"; else compdef _ottla ottla; fi
""",
    "fish": r"""# Completion of ottla for fish. Put this line into ~/.config/fish/config.fish:
#   ottla completion fish | source
function __ottla_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command $words[1] __complete fish $words[2..-1] 2>/dev/null)
    if contains -- ':files' $found; or contains -- ':dirs' $found
        __fish_complete_path (commandline -ct)
        return
    end
    printf '%s\n' $found | string match -r -v '^:'
end
complete -c ottla -f -a '(__ottla_complete)'
""",
}


@app.command("completion")
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> None:
    """Print a shell script that completes commands, topics, groups and settings."""
    if shell not in SCRIPTS:
        hint = near_names(shell, SCRIPTS) or f"Supported shells: {', '.join(SCRIPTS)}."
        raise Misuse(f"Unknown shell {shell}. {hint}")
    print(SCRIPTS[shell], end="")


def main(arguments: Sequence[str]) -> int:
    """Answer a shell: `bash LINE POINT`, or `zsh WORDS...` with the last word incomplete."""
    with _limited(), contextlib.suppress(Exception):
        shell, *rest = arguments
        words = _bash_words(rest[0], int(rest[1])) if shell == "bash" else list(rest) or [""]
        cut = _bash_cut(words[-1]) if shell == "bash" else 0
        for text, meaning in complete(words):
            candidate = text if text.startswith(":") else text[cut:]
            print(f"{candidate}\t{meaning}" if meaning else candidate)
        sys.stdout.flush()
    return 0


def _limit_seconds() -> float:
    return float(os.environ.get("OTTLA_COMPLETION_SECONDS") or _LIMIT_SECONDS)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Exit the process at the deadline, whatever it waits for."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, _limit_seconds())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _bash_words(line: str, point: int) -> list[str]:
    """The words before the cursor, without the command; bash itself would split `a=b` and `a:b`."""
    import shlex

    text = line.encode()[:point].decode(errors="ignore")
    for closing in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            words = shlex.split(text + closing)
            break
    else:
        words = text.split()
    if not text or text[-1].isspace():
        words.append("")
    return words[1:]


def _bash_cut(word: str) -> int:
    """How much of the current word bash has already consumed: it splits words at = and :."""
    return max(word.rfind("="), word.rfind(":")) + 1


# Candidates


def complete(words: Sequence[str]) -> Candidates:
    """The candidates for the last word."""
    from ottla.cli.app import NOUNS, command_of, nouns

    *before, unfinished = words
    flags, rest, waiting = _leading_flags(before)
    if waiting is not None:
        return _chosen(_Asked(flags, waiting, None, ()).values(), unfinished)
    if not rest:
        found = _global_flags() if unfinished.startswith("-") else [(one, NOUNS[one]) for one in nouns()]
        return _chosen(found, unfinished)
    noun, *rest = rest
    if noun == "serve":
        return _chosen(_SERVE_FLAGS, unfinished) if unfinished.startswith("-") else [(FILES, "")]
    if noun not in nouns():
        return []
    return _of_command(command_of(noun), noun, rest, unfinished, flags)


_SERVE_FLAGS = [
    ("--data", "Data directory."),
    ("--port", "Port."),
    ("--nodes", "Number of nodes, or auto."),
    ("--override", "One setting."),
]


def _leading_flags(words: list[str]) -> tuple[Flags, list[str], str | None]:
    """The flags before the noun, the words after them, and the metavar of a flag that awaits its value."""
    from ottla.cli.flags import GLOBAL_FLAGS, take_flags
    from ottla.cli.session import Flags

    if words and len(take_flags([*words, "x"])[1]) == 0:
        for spellings, metavar, _ in GLOBAL_FLAGS.values():
            if words[-1] in spellings:
                return take_flags(words[:-1])[0], [], metavar
    try:
        flags, rest = take_flags(words)
    except Misuse:
        return Flags(), [], None
    return flags, rest, None


def _global_flags() -> Candidates:
    from ottla.cli.flags import GLOBAL_FLAGS

    found = [(spellings[-1], text) for spellings, _, text in GLOBAL_FLAGS.values()]
    return [*found, ("--help", "Show help."), ("--version", "Show the version.")]


def _of_command(command: Any, noun: str, words: list[str], unfinished: str, flags: Flags) -> Candidates:
    from ottla.cli.flags import take_flags

    while hasattr(command, "commands"):
        with contextlib.suppress(Misuse):
            between, words = take_flags(words)
            flags = between.over(flags)
        if not words:
            if unfinished.startswith("-"):
                return _chosen(_global_flags(), unfinished)
            verbs = [(name, _short(one)) for name, one in command.commands.items() if not one.hidden]
            return _chosen(verbs, unfinished)
        verb, *words = words
        if verb not in command.commands:
            return []
        command = command.commands[verb]
    return _Line(command, noun, flags).candidates(words, unfinished)


def _short(command: Any) -> str:
    text = command.help or ""
    return " ".join(text.split("\n\n")[0].split())


class _Line:
    """The words after a verb, parsed as far as possible."""

    def __init__(self, command: Any, noun: str, flags: Flags) -> None:
        self._noun = noun
        self._flags = flags
        self._arguments = [one for one in command.params if not one.opts or not one.opts[0].startswith("-")]
        self._options = {
            spelling: one
            for one in command.params
            for spelling in (*one.opts, *one.secondary_opts)
            if spelling.startswith("-") and not one.hidden
        }

    def candidates(self, words: list[str], unfinished: str) -> Candidates:
        positional: list[str] = []
        typed: dict[str, str] = {}
        waiting = None
        for word in words:
            name, mark, value = word.partition("=")
            if waiting is not None:
                typed[str(waiting.name)] = word
                waiting = None
            elif word.startswith("-") and (option := self._options.get(name)) is not None:
                if mark:
                    typed[str(option.name)] = value
                elif not _is_switch(option):
                    waiting = option
                else:
                    typed[str(option.name)] = ""
            elif not word.startswith("-"):
                positional.append(word)
        flags = self._typed_flags(typed)
        if waiting is not None:
            return self._values(waiting, flags, positional, unfinished)
        name, mark, _ = unfinished.partition("=")
        if mark and name in self._options:
            found = self._values(self._options[name], flags, positional, unfinished[len(name) + 1 :])
            return [(f"{name}={text}" if not text.startswith(":") else text, what) for text, what in found]
        if unfinished.startswith("-"):
            return _chosen(self._free_options(typed), unfinished)
        argument = self._argument_at(len(positional))
        return [] if argument is None else self._values(argument, flags, positional, unfinished)

    def _typed_flags(self, typed: dict[str, str]) -> Flags:
        from ottla.cli.flags import PREFIX
        from ottla.cli.session import Flags

        own: dict[str, Any] = {
            name.removeprefix(PREFIX): value for name, value in typed.items() if name.startswith(PREFIX)
        }
        if "properties" in own:
            own["properties"] = (own["properties"],)
        return Flags(**own).over(self._flags)

    def _free_options(self, typed: dict[str, str]) -> Candidates:
        found: dict[str, str] = {}
        for spelling, option in self._options.items():
            if spelling.startswith("--") and (option.multiple or str(option.name) not in typed):
                found[spelling] = " ".join((getattr(option, "help", None) or "").split())
        return [*found.items(), ("--help", "Show help.")] if "--help" not in found else list(found.items())

    def _argument_at(self, position: int) -> Any:
        for at, argument in enumerate(self._arguments):
            if at == position or argument.nargs == -1:
                return argument
        return None

    def _values(self, param: Any, flags: Flags, positional: list[str], unfinished: str) -> Candidates:
        choices = _choices(param)
        if choices:
            return _chosen([(one, "") for one in choices], unfinished)
        metavar = str(param.metavar or "").removesuffix("...")
        found = _Asked(flags, metavar, self._noun, tuple(positional)).values()
        return _chosen([one for one in found if one[0] not in positional], unfinished)


def _is_switch(option: Any) -> bool:
    return bool(getattr(option, "is_flag", False)) or bool(getattr(option, "count", False))


def _choices(param: Any) -> list[str]:
    """The words that an enumeration allows."""
    for holder in (getattr(param, "type_descriptor", None), getattr(param, "type", None)):
        choices = getattr(holder, "choices", None)
        if choices:
            return [str(getattr(one, "value", one)) for one in choices]
    return []


def _chosen(found: Iterable[tuple[str, str]], unfinished: str) -> Candidates:
    chosen = [one for one in found if one[0].startswith((unfinished, ":"))]
    if chosen and all(text.endswith("=") for text, _ in chosen):
        chosen.insert(0, (NO_SPACE, ""))
    return chosen


class _Asked:
    """The candidates for a value, by its metavar, the noun and the preceding words."""

    def __init__(self, flags: Flags, metavar: str, noun: str | None, positional: tuple[str, ...]) -> None:
        self._flags = flags
        self._metavar = metavar
        self._noun = noun
        self._positional = positional

    def values(self) -> Candidates:
        ways: dict[str, Callable[[], Iterable[str]]] = {
            "TOPIC": lambda: self._from_cluster(_topics),
            "TOPIC[:PARTITIONS]": lambda: self._from_cluster(_topics),
            "GROUP": lambda: self._from_cluster(_groups),
            "TRANSACTION": lambda: self._from_cluster(_transactions),
            "BROKER": lambda: self._from_cluster(_brokers),
            "PROFILE": _profiles,
            "FORMAT": lambda: ("table", "wide", "json", "yaml"),
            "SHELL": lambda: SCRIPTS,
            "KIND": _kinds,
            "NAME": self._names,
            "CONFIG": self._configs,
            "CONFIG=VALUE": lambda: (f"{one}=" for one in self._configs()),
            "SETTING": _client_settings,
            "SETTING=VALUE": lambda: (f"{one}=" for one in _client_settings()),
            "KEY=VALUE": lambda: (f"{one}=" for one in _client_settings()),
            "STATE": self._states,
            "TYPE": lambda: ("classic", "consumer", "share", "streams"),
            "FILE": lambda: (FILES,),
            "PATH": lambda: (FILES,),
            "DIR": lambda: (DIRECTORIES,),
        }
        way = ways.get(self._metavar)
        return [] if way is None else [(one, "") for one in way()]

    def _from_cluster(self, ask: Callable[[Admin], Iterable[str]]) -> list[str]:
        from ottla.cli.session import Session

        session: Session = Session(self._flags)
        limit_seconds = _limit_seconds()
        session.check_reachable(limit_seconds / 4)
        from ottla.client.admin import Admin

        limit_ms = str(int(limit_seconds * 750))
        patience = {"default.api.timeout.ms": limit_ms, "request.timeout.ms": limit_ms}
        with Admin({**session.client_config("admin"), **patience}) as admin:
            return sorted(ask(admin))

    def _names(self) -> Iterable[str]:
        """The topics, brokers or groups for `ottla config get KIND NAME`."""
        if self._noun != "config" or not self._positional:
            return ()
        kind = self._positional[0].rstrip("s")
        if kind in ("broker", "logger"):
            return [*self._from_cluster(_brokers), "default"]
        ways = {"topic": _topics, "group": _groups}
        return self._from_cluster(ways[kind]) if kind in ways else ("default",)

    def _configs(self) -> Iterable[str]:
        from ottla.cli.settings import Kind, known_names

        if self._noun == "topic":
            return known_names(Kind.TOPIC)
        if self._noun == "config" and self._positional:
            return known_names(Kind.read(self._positional[0]))
        return sorted({name for kind in Kind for name in known_names(kind)})

    def _states(self) -> Iterable[str]:
        from ottla.client.admin import GroupState, TransactionState

        return [str(one) for one in (TransactionState if self._noun == "txn" else GroupState)]


def _topics(admin: Admin) -> Iterable[str]:
    return admin.list_topics()


def _groups(admin: Admin) -> Iterable[str]:
    return [one.group_id for one in admin.list_groups().found]


def _transactions(admin: Admin) -> Iterable[str]:
    return [one.transactional_id for one in admin.list_transactions().found]


def _brokers(admin: Admin) -> Iterable[str]:
    return [str(node.id) for node in admin.describe_cluster().nodes]


def _profiles() -> Iterable[str]:
    from ottla.cli import profiles

    return sorted(profiles.load().by_name)


def _kinds() -> Iterable[str]:
    from ottla.cli.settings import Kind

    return list(Kind)


def _client_settings() -> Iterable[str]:
    from ottla.client.config import parameters

    return sorted({*parameters("admin"), *parameters("producer"), *parameters("consumer")})
