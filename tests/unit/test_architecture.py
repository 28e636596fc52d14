"""ARCHITECTURE.md names modules, classes, functions and attributes that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = re.sub(r"```.*?```", "", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.DOTALL)
NAMES = re.findall(r"`([^`]+)`", TEXT)
GENERATED = "ottla/wire/messages"
PATHS = ["setup.py"] + [
    file.relative_to(ROOT).as_posix()
    for folder in ("src", "tests")
    for file in (ROOT / folder).rglob("*.py")
    if GENERATED not in file.as_posix()
]


@cache
def defined(path: str) -> frozenset[str]:
    """The classes, functions, variables and attributes that a module defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return frozenset(found)


def modules(name: str) -> list[str]:
    return [path for path in PATHS if f"/{path}".endswith(f"/{name}")]


def test_every_module_exists() -> None:
    named = [name for name in NAMES if re.fullmatch(r"[\w/]+\.py", name)]
    assert len(named) > 100
    assert [name for name in named if not modules(name)] == []


def test_every_folder_exists() -> None:
    named = [name for name in NAMES if re.fullmatch(r"[a-z_/]+/", name)]
    folders = {parent.as_posix() for path in PATHS for parent in Path(path).parents}
    assert len(named) > 30
    assert [name for name in named if not any(f"/{one}/".endswith(f"/{name}") for one in folders)] == []


def test_a_name_after_a_module_is_defined_in_it() -> None:
    pairs = re.findall(r"`([\w/]+\.py)` `(\w+)(?:\.(\w+))?", TEXT)
    assert len(pairs) > 40
    missing = [
        (module, name)
        for module, owner, member in pairs
        for name in filter(None, (owner, member))
        if not any(name in defined(path) for path in modules(module))
    ]
    assert missing == []


def test_every_class_and_member_exists() -> None:
    pairs = re.findall(r"`([A-Z]\w+)\.(\w+)", TEXT)
    product = [path for path in PATHS if path.startswith("src/")]
    known = frozenset[str]().union(*(defined(path) for path in product))
    assert len(pairs) > 60
    assert [pair for pair in pairs if not known.issuperset(pair)] == []
