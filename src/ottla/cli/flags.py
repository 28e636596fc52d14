"""The global flags, which every command takes before the noun or after the verb.

Rule: a command's own flag wins. `record consume -o -100` sets an offset, so that command has no `-o` for the
format, only `--output`; `ottla -o json record consume` still works.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typer

from ottla.cli.errors import Misuse
from ottla.cli.session import Flags, session_of

PANEL = "Global flags"

# Field of Flags -> its spellings, the placeholder of its value, and its help.
GLOBAL_FLAGS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "profile": (("-p", "--profile"), "PROFILE", "Profile to use; see ottla profile list."),
    "bootstrap_server": (
        ("-b", "--bootstrap-server"),
        "HOST:PORT",
        "Brokers to connect to, comma-separated.",
    ),
    "output": (("-o", "--output"), "FORMAT", "Output: table, wide, json or yaml."),
    "properties": (("-X", "--property"), "KEY=VALUE", "A client setting; repeatable."),
    "config": (("--config",), "FILE", "A client.properties file."),
}
_REPEATED = frozenset({"properties"})
PREFIX = "ottla_flag_"


def take_flags(arguments: list[str]) -> tuple[Flags, list[str]]:
    """Split a command line into its leading flags and the rest."""
    flags = Flags()
    rest = list(arguments)
    while rest:
        found = _flag_at(rest)
        if found is None:
            break
        name, value, rest = found
        typed: dict[str, Any] = {name: (value,) if name in _REPEATED else value}
        flags = Flags(**typed).over(flags)
    return flags, rest


def _flag_at(arguments: list[str]) -> tuple[str, str, list[str]] | None:
    first = arguments[0]
    for name, (spellings, metavar, _) in GLOBAL_FLAGS.items():
        for spelling in spellings:
            if first == spelling:
                if len(arguments) == 1:
                    raise Misuse(f"{spelling} needs a value: {spelling} {metavar}")
                return name, arguments[1], arguments[2:]
            if spelling.startswith("--") and first.startswith(f"{spelling}="):
                return name, first[len(spelling) + 1 :], arguments[1:]
            if not spelling.startswith("--") and first.startswith(spelling) and not first.startswith("--"):
                return name, first[2:].removeprefix("="), arguments[1:]
    return None


def add_flags(app: typer.Typer) -> None:
    """Add the global flags to every command of an app, except those whose letters it uses itself."""
    for command in app.registered_commands:
        if command.callback is not None and not hasattr(command.callback, "ottla_flags"):
            command.callback = _with_flags(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_flags(group.typer_instance)


def _with_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(callback, eval_str=True)
    own = list(signature.parameters.values())
    taken = {spelling for parameter in own for spelling in _spellings(parameter)}
    contexts = [one.name for one in own if one.annotation is typer.Context]
    added = [
        _parameter(name, free, metavar, text)
        for name, (spellings, metavar, text) in GLOBAL_FLAGS.items()
        if (free := [one for one in spellings if one not in taken])
    ]
    own_keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    context = (
        []
        if contexts
        else [inspect.Parameter("ottla_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    )
    context_name = contexts[0] if contexts else "ottla_context"

    @functools.wraps(callback)
    def command(**values: Any) -> Any:
        typed = {name: values.pop(f"{PREFIX}{name}") for name in GLOBAL_FLAGS if f"{PREFIX}{name}" in values}
        typed["properties"] = tuple(typed.get("properties") or ())
        context: typer.Context = values[context_name] if contexts else values.pop(context_name)
        session_of(context).put_on_top(Flags(**typed))
        return callback(**values)

    parameters = [*own_keywords, *context, *added]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.ottla_flags = True  # type: ignore[attr-defined]
    return command


def _parameter(name: str, spellings: list[str], metavar: str, text: str) -> inspect.Parameter:
    option = typer.Option(*spellings, metavar=metavar, help=text, rich_help_panel=PANEL, show_default=False)
    annotation: Any = list[str] | None if name in _REPEATED else str | None
    return inspect.Parameter(
        f"{PREFIX}{name}",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[annotation, option],
    )


def _spellings(parameter: inspect.Parameter) -> list[str]:
    """The spellings of a parameter on the command line."""
    from typer.models import ArgumentInfo, OptionInfo

    infos = [parameter.default]
    if get_origin(parameter.annotation) is Annotated:
        infos += get_args(parameter.annotation)[1:]
    for info in infos:
        if isinstance(info, ArgumentInfo):
            return []
        if isinstance(info, OptionInfo):
            # In Annotated, Typer takes the first name as the default.
            names = [*(info.param_decls or ()), info.default]
            typed = [
                part.strip()
                for one in names
                if isinstance(one, str) and one.startswith("-")
                for part in one.split("/")
            ]
            if typed:
                return typed
    return [f"--{parameter.name.replace('_', '-')}"]
