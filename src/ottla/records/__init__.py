"""Record batches: header, validation, building, compression, control records and the old formats v0 and v1.

The per-record loops are in `kernel.py` and, for compaction, in `keys.py`, which are compiled where the
install could compile them. `KERNEL` says which form runs; the environment's OTTLA_KERNEL=python asks for the
plain one. Import the kernel from here (`from ottla.records import kernel`): then everyone runs the same form.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from os import environ, path
from types import ModuleType
from typing import TYPE_CHECKING


def plain_kernel(name: str = "kernel") -> ModuleType:
    """A new module that runs kernel.py or keys.py as plain Python, even if there is a compiled form."""
    from importlib.util import module_from_spec, spec_from_loader

    full_name = f"{__name__}.{name}"
    loader = SourceFileLoader(full_name, path.join(path.dirname(__file__), f"{name}.py"))
    spec = spec_from_loader(full_name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def is_compiled(module: ModuleType) -> bool:
    return module.__spec__ is not None and isinstance(module.__spec__.loader, ExtensionFileLoader)


def load_kernel(name: str) -> ModuleType:
    """`kernel` or `keys`, in the form that runs here."""
    full_name = f"{__name__}.{name}"
    if environ.get("OTTLA_KERNEL") == "python" and full_name not in sys.modules:
        sys.modules[full_name] = plain_kernel(name)
    return import_module(full_name)


if TYPE_CHECKING:
    from ottla.records import kernel as kernel
else:
    kernel = load_kernel("kernel")

KERNEL = "compiled" if is_compiled(kernel) else "python"
"""Which form of the kernel runs: "compiled" or "python"."""


def kernel_module() -> ModuleType:
    """The kernel in use."""
    return kernel
