"""Code that runs in nodes and clients reads no real time, randomness, files or sockets: it takes ports.

import-linter forbids modules to whole packages (pyproject.toml). This looks closer: at every module that a
simulated world runs, at single names, and at built-in functions whose answer differs from process to process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ottla"

SHELLS = (
    "cli",
    "cluster",
    "host.py",
    "operations",  # shared by cli and tools; only these and cluster import it
    "spark",
    "testing",
    "tools",
    "client/net/background.py",  # the thread of the blocking clients
    "client/producer/exit_hooks.py",  # the end of the interpreter
    "client/security",  # reads certificates and tokens; there is no TLS in the simulated world
    "client/config/generate.py",
    "config/generate.py",
    "wire/generate.py",
)
"""Modules that access the outside world."""

FORBIDDEN_MODULES = frozenset(
    [
        "concurrent",
        "ctypes",
        "fcntl",
        "getpass",
        "glob",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "platform",
        "random",
        "resource",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uvloop",
    ]
)
FORBIDDEN_NAMES = frozenset({("uuid", "uuid1"), ("uuid", "uuid4"), ("uuid", "getnode")})
FORBIDDEN_CALLS = frozenset({"open", "input", "hash", "breakpoint", "__import__"})
FORBIDDEN_METHODS = frozenset(
    [
        "create_connection",
        "create_server",
        "create_unix_connection",
        "create_unix_server",
        "fromtimestamp",
        "getaddrinfo",
        "now",
        "open_connection",
        "run_in_executor",
        "start_server",
        "to_thread",
        "today",
        "utcnow",
    ]
)
"""Methods of asyncio's loops, and of dates, that return the machine's time."""

ALLOWED = {
    ("client/config/base.py", "hash"): "of a value, to be a key: it orders nothing",
    ("client/connection_options.py", "ssl"): "names a type",
    ("client/consumer/consumer.py", "threading"): "the blocking consumer",
    ("client/core/accumulator.py", "hash"): "of a value, to be a key: it orders nothing",
    ("client/net/connection.py", "ssl"): "names TLS's errors",
    ("client/producer/async_producer.py", "threading"): "the accumulator's lock",
    ("client/producer/producer.py", "threading"): "the blocking producer",
    ("ports.py", "ssl"): "names a type",
    ("raft/voters.py", "hash"): "of a value, to be a key: it orders nothing",
    ("records/__init__.py", "os"): "chooses the kernel when it is imported",
    ("server/node.py", "signal"): "the program of a node",
    ("server/node.py", "uvloop"): "the program of a node",
    ("log/directories/properties.py", "fromtimestamp"): "with a time zone and a time from the clock",
}
"""Allowed uses, with the reason."""


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not any(name == shell or name.startswith(f"{shell}/") for shell in SHELLS):
            yield name, ast.parse(path.read_text(), name)


def _reaches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in FORBIDDEN_MODULES:
                    yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            top = node.module.partition(".")[0]
            if top in FORBIDDEN_MODULES:
                yield node.lineno, top
            for alias in node.names:
                if (top, alias.name) in FORBIDDEN_NAMES:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                yield node.lineno, node.func.id
            elif isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN_METHODS:
                yield node.lineno, node.func.attr


def test_nodes_and_clients_reach_out_through_ports_alone() -> None:
    found, used = [], set()
    for name, tree in _modules():
        for line, what in _reaches(tree):
            if (name, what) in ALLOWED:
                used.add((name, what))
            else:
                found.append(f"src/ottla/{name}:{line}: {what}")
    assert found == [], "take a port from ottla.ports, or say in ALLOWED why not"
    assert used == set(ALLOWED), "what is not used any more need not be allowed"
    assert [shell for shell in SHELLS if not (SOURCE / shell).exists()] == []


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import time", "time"),
        ("import os.path", "os"),
        ("from random import choice", "random"),
        ("from uuid import uuid4", "uuid4"),
        ("hash(name) % 3", "hash"),
        ("datetime.now(UTC)", "now"),
        ("await asyncio.to_thread(work)", "to_thread"),
        ("def late():\n    import socket", "socket"),
    ],
)
def test_violations_are_detected(code: str, what: str) -> None:
    assert [found for _, found in _reaches(ast.parse(code))] == [what]
