"""Adds the one thing that pyproject.toml cannot say: the record kernel, compiled where that is possible.

The extension is optional. Without Cython or a C compiler the same kernel.py runs as plain Python.
"""

from __future__ import annotations

from setuptools import Extension, setup

KERNEL = "src/ottla/records/kernel.py"


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernel = Extension(
        "ottla.records.kernel",
        [KERNEL],
        extra_compile_args=["-O3", "-fwrapv"],
        optional=True,
    )
    directives = {
        "language_level": "3",
        "boundscheck": False,
        "wraparound": False,
        "initializedcheck": False,
        "cdivision": True,
        "annotation_typing": False,
    }
    modules: list[Extension] = cythonize([kernel], compiler_directives=directives)
    for module in modules:
        module.optional = True
    return modules


setup(ext_modules=extensions())
