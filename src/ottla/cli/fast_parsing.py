"""A fast path for plain command-line values.

Typer validates every value with a pydantic adapter, and importing pydantic dominates the startup time of a
command. Strings, numbers, switches and lists of strings need none. Rule: every other value takes Typer's own
path, errors included, so that only the speed differs.
"""

from __future__ import annotations

from typing import Any


def make_quick(command: Any) -> None:
    """Install the fast path in the parameters of a command and its subcommands."""
    for one in getattr(command, "commands", {}).values():
        make_quick(one)
    for parameter in command.params:
        _make_parameter_quick(parameter)
    help_option = command.get_help_option

    def quick_help_option(context: Any) -> Any:
        return _make_parameter_quick(help_option(context))

    # Click creates the option --help anew for each call.
    command.get_help_option = quick_help_option


def _make_parameter_quick(parameter: Any) -> Any:
    slow = getattr(parameter, "get_runtime_param", None)
    if slow is not None and not isinstance(slow, _Quick):
        parameter.get_runtime_param = _Quick(slow)
    return parameter


class _Quick:
    """Replaces both the method that builds an adapter and the adapter."""

    def __init__(self, slow: Any) -> None:
        self._slow = slow

    def __call__(self) -> _Quick:
        return self

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        taken = _taken(value, param)
        return taken if taken is not None else self._slow().coerce(value, param=param, ctx=ctx)


def _taken(value: Any, param: Any) -> Any:
    """The value if it is plain, else None."""
    described = param.type_descriptor
    info = described.parameter_info
    if getattr(info, "parser", None) is not None or getattr(info, "click_type", None) is not None:
        return None
    annotation = described.annotation
    if annotation in (str, bool) and type(value) is annotation:
        return value
    if annotation is int and getattr(info, "min", None) is None and getattr(info, "max", None) is None:
        if type(value) is int:
            return value
        if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
            return int(value)
    if (
        annotation == list[str]
        and isinstance(value, (list, tuple))
        and all(type(one) is str for one in value)
    ):
        return list(value)
    return None
