"""Generates `messages/*.py` from `schemas/*.txt`: `python -m ottla.wire.generate`; `--check` only compares.

One module holds the request and the response of an API; every other schema has its own module. The rest of
the code imports the generated files, so their form is an interface: a class per message, with its structs as
attributes, and keyword-only fields with the protocol's defaults.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.wire.schema import Field, MessageSchema, parse

_HERE = Path(__file__).resolve().parent
SCHEMAS = _HERE / "schemas"
MESSAGES = _HERE / "messages"

_TYPES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}


def snake_case(name: str) -> str:
    """`AddRaftVoter` as `add_raft_voter`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def api_name(message: MessageSchema) -> str:
    """The common name of a request and its response."""
    return message.name.removesuffix("Request").removesuffix("Response")


def read_schemas() -> dict[str, list[MessageSchema]]:
    """All messages, by the module that they are generated into."""
    modules: dict[str, list[MessageSchema]] = {}
    for path in sorted(SCHEMAS.glob("*.txt")):
        for message in parse(path.read_text("utf-8")):
            module = snake_case(api_name(message)) if message.kind in ("request", "response") else path.stem
            modules.setdefault(module, []).append(message)
    return modules


def sources() -> dict[str, str]:
    """The text of every generated file, by its name."""
    modules = read_schemas()
    files = {f"{module}.py": _module(messages) for module, messages in modules.items()}
    files["__init__.py"] = (
        '"""Generated classes of all messages: import the module of an API, or of a kind of records."""\n'
    )
    files["table.py"] = _table(modules)
    return {name: _HEADER + text for name, text in files.items()}


_HEADER = (
    "# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.\n# fmt: off\n"
)


def _module(messages: list[MessageSchema]) -> str:
    body = "\n\n".join("\n".join(_message(message)) + "\n" for message in messages)
    from_message = [
        name for name in ("FRESH", "Message", "Records", "Struct") if re.search(rf"\b{name}\b", body)
    ]
    lines = [
        "from __future__ import annotations",
        "",
        f"from ottla.wire.message import {', '.join(from_message)}",
    ]
    if re.search(r"\bZERO\b", body):
        lines.append("from ottla.wire.uuid import ZERO")
    return "\n".join(lines) + "\n\n\n" + body


def _message(message: MessageSchema) -> Iterator[str]:
    yield f"class {message.name}(Message):"
    yield f"    __slots__ = {_slots(message.fields)}"
    yield ""
    yield f'    NAME = "{message.name}"'
    yield f'    KIND = "{message.kind}"'
    yield f"    API_KEY = {message.api_key}"
    yield f"    VERSIONS = range({message.versions.start}, {message.versions.stop})"
    yield f"    FLEXIBLE_FROM = {message.flexible_from}"
    yield '    SCHEMA = """\\'
    yield message.text
    yield '"""'
    for struct in message.structs.values():
        yield ""
        yield f"    class {struct.name}(Struct):"
        yield f"        __slots__ = {_slots(struct.fields)}"
        yield ""
        for line in _initializer(message.name, struct.fields):
            yield f"        {line}"
    yield ""
    for line in _initializer(message.name, message.fields):
        yield f"    {line}"


def _slots(fields: tuple[Field, ...]) -> str:
    names = ", ".join(f'"{field.name}"' for field in fields)
    return f"({names},)" if len(fields) == 1 else f"({names})"


def _initializer(outer: str, fields: tuple[Field, ...]) -> Iterator[str]:
    yield "def __init__("
    yield "    self,"
    yield "    *,"
    for field in fields:
        default = field.default_literal or "FRESH"
        yield f"    {field.name}: {_type(outer, field)} = {_quoted(default)},"
    yield "    unknown_tagged_fields: dict[int, bytes] | None = None,"
    yield ") -> None:"
    for field in fields:
        value = field.name
        if field.default_literal is None:
            fresh = "[]" if field.is_array else f"{outer}.{field.type}()"
            value = f"{fresh} if {field.name} is FRESH else {field.name}"
        yield f"    self.{field.name}: {_type(outer, field)} = {value}"
    yield "    self.unknown_tagged_fields = unknown_tagged_fields"


def _quoted(literal: str) -> str:
    return '"' + literal[1:-1] + '"' if literal.startswith("'") else literal


def _type(outer: str, field: Field) -> str:
    name = f"{outer}.{field.type}" if field.is_struct else _TYPES[field.type]
    if field.is_array:
        name = f"list[{name}]"
    return f"{name} | None" if field.nullable or field.starts_null else name


def _table(modules: dict[str, list[MessageSchema]]) -> str:
    requests = [message for found in modules.values() for message in found if message.kind == "request"]
    lines = [
        '"""What is known of every API without importing its classes, and where the other messages are."""',
        "",
        "from __future__ import annotations",
        "",
        "APIS: tuple[tuple[int, str, str, int, int, int | None, bool, tuple[str, ...]], ...] = (",
        "    # key, name, module, first version, last version, flexible from, last is unstable, listeners",
    ]
    for request in sorted(requests, key=lambda message: message.api_key or 0):
        versions = request.versions
        listeners = ", ".join(f'"{name}"' for name in sorted(request.listeners)) + (
            "," if len(request.listeners) == 1 else ""
        )
        lines.append(
            f'    ({request.api_key}, "{api_name(request)}", "{snake_case(api_name(request))}", '
            f"{versions[0]}, {versions[-1]}, {request.flexible_from}, {request.latest_unstable}, "
            f"({listeners})),"
        )
    lines += [")", "", "MODULES: dict[str, tuple[str, ...]] = {"]
    for module, messages in modules.items():
        if messages[0].kind not in ("request", "response"):
            lines.append(f'    "{module}": (')
            lines += [f'        "{message.name}",' for message in messages]
            lines.append("    ),")
    return "\n".join([*lines, "}", ""])


def differences() -> list[str]:
    """The names of generated files that are missing, stale or obsolete."""
    wanted = sources()
    found = {path.name: path.read_text("utf-8") for path in MESSAGES.glob("*.py")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ottla.wire.generate", description="Generate the message classes."
    )
    parser.add_argument("--check", action="store_true", help="compare only, and fail when a file differs")
    if parser.parse_args(arguments).check:
        stale = differences()
        for name in stale:
            sys.stderr.write(
                f"messages/{name} differs from the schemas: run python -m ottla.wire.generate.\n"
            )
        return 1 if stale else 0
    wanted = sources()
    MESSAGES.mkdir(exist_ok=True)
    for path in MESSAGES.glob("*.py"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (MESSAGES / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
