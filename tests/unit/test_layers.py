"""The layers in pyproject.toml, which import-linter checks, cover the whole tree."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


def _named_in_layers() -> Iterator[str]:
    for contract in _contracts():
        if contract["type"] == "layers":
            for layer in contract["layers"]:
                for name in layer.split("|"):
                    for container in contract["containers"]:
                        yield f"{container}.{name.strip()}"


def test_every_package_is_in_a_layer() -> None:
    packages = {
        ".".join(path.parent.relative_to(SOURCE).parts) for path in (SOURCE / "ottla").rglob("__init__.py")
    }
    unnamed = sorted(packages - {"ottla"} - set(_named_in_layers()))
    assert not unnamed, (
        f"No layers contract in pyproject.toml names {', '.join(unnamed)}. "
        "Add a layer of that name, or `| name` to an existing layer."
    )


def test_an_exemption_without_an_import_fails_the_check() -> None:
    lenient = [
        contract["name"]
        for contract in _contracts()
        if contract.get("unmatched_ignore_imports_alerting") != "error"
    ]
    assert not lenient, f'Set unmatched_ignore_imports_alerting = "error" in {", ".join(lenient)}.'
