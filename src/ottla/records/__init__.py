"""Record batches: header, validation, building, compression, control records and the old formats v0 and v1.

The per-record loops are in `kernel.py`, which is compiled where the install could compile it. `KERNEL` says
which form runs; the environment's OTTLA_KERNEL=python asks for the plain one. Import the kernel from here
(`from ottla.records import kernel`), so that everyone runs the same form.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from os import environ
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING

NAME = "ottla.records.kernel"


def plain_kernel() -> ModuleType:
    """A new module that runs kernel.py as plain Python, whether or not a compiled form is there."""
    path = str(PurePath(__file__).with_name("kernel.py"))
    spec = spec_from_file_location(NAME, path, loader=SourceFileLoader(NAME, path))
    assert isinstance(spec, ModuleSpec)
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_compiled(module: ModuleType) -> bool:
    return module.__spec__ is not None and isinstance(module.__spec__.loader, ExtensionFileLoader)


if TYPE_CHECKING:
    from ottla.records import kernel as kernel
else:
    if environ.get("OTTLA_KERNEL") == "python":
        kernel = sys.modules[NAME] = plain_kernel()
    else:
        import ottla.records.kernel as kernel

KERNEL = "compiled" if is_compiled(kernel) else "python"
"""Which form of the kernel runs: "compiled" or "python"."""


def kernel_module() -> ModuleType:
    """The kernel in use."""
    return kernel
