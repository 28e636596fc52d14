"""Record batches: header, validation, building, compression, control records and the old formats v0 and v1.

The per-record loops are in the modules listed in `COMPILED`, which the install compiles if it can:
`kernel.py`, `keys.py` for compaction, `builder.py` and `reader.py` for clients, and the modules on top of
them. So are the fast paths of a node: for small produce requests, fetches in a session, commits of offsets
and rebalances. `KERNEL` says which form runs; OTTLA_KERNEL=python in the environment forces the plain one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from os import environ, path
from types import ModuleType
from typing import TYPE_CHECKING

COMPILED = (
    "ottla.client.core.accumulator",
    "ottla.log.follower_append",
    "ottla.log.plain_append",
    "ottla.records.builder",
    "ottla.records.columns",
    "ottla.records.kernel",
    "ottla.records.keys",
    "ottla.records.plain_batch",
    "ottla.records.reader",
    "ottla.records.rows",
    "ottla.replication.fetch_exchange",
    "ottla.server.handlers.classic_fast_path",
    "ottla.server.handlers.fetch_fast_path",
    "ottla.server.handlers.offset_commit_fast_path",
    "ottla.server.handlers.produce_fast_path",
    "ottla.server.replicas.plain_append",
)
"""The modules that have a compiled form."""


def plain_kernel(name: str = "kernel") -> ModuleType:
    """Load a module of this package as plain Python, even if it has a compiled form."""
    from importlib.util import module_from_spec

    spec = _plain_spec(f"{__name__}.{name}")
    module = module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def _plain_spec(full_name: str) -> ModuleSpec:
    from importlib.util import spec_from_loader

    folder = path.dirname(path.dirname(__file__))
    loader = SourceFileLoader(full_name, path.join(folder, *full_name.split(".")[1:]) + ".py")
    spec = spec_from_loader(full_name, loader)
    assert spec is not None
    return spec


class _PlainFinder:
    """Finds the plain forms before the import system finds the compiled ones."""

    @staticmethod
    def find_spec(full_name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        return _plain_spec(full_name) if full_name in COMPILED else None


def is_compiled(module: ModuleType) -> bool:
    return module.__spec__ is not None and isinstance(module.__spec__.loader, ExtensionFileLoader)


def load_kernel(name: str) -> ModuleType:
    """Load a module of this package in the form that runs here."""
    return import_module(f"{__name__}.{name}")


if environ.get("OTTLA_KERNEL") == "python" and _PlainFinder not in sys.meta_path:
    sys.meta_path.insert(0, _PlainFinder)

if TYPE_CHECKING:
    from ottla.records import kernel as kernel
else:
    kernel = load_kernel("kernel")

KERNEL = "compiled" if is_compiled(kernel) else "python"
"""Which form of the kernel runs: "compiled" or "python"."""
