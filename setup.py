"""Adds the one thing that pyproject.toml cannot say: the kernels, compiled where that is possible.

A kernel is a module with a `.pxd` beside it, which gives C types to its names. The extensions are optional:
without Cython or a C compiler the same files run as plain Python.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src")


def kernels() -> list[Path]:
    """The sources to compile. A `.pxd` alone only declares what others use."""
    types = sorted(SOURCE.rglob("*.pxd"))
    return [path.with_suffix(".py") for path in types if path.with_suffix(".py").exists()]


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ImportError:
        return []
    wanted = [
        Extension(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-O3", "-g0", "-fwrapv"],
            optional=True,
        )
        for path in kernels()
    ]
    directives = {
        "language_level": "3",
        "boundscheck": False,
        "wraparound": False,
        "initializedcheck": False,
        "cdivision": True,
        "annotation_typing": False,
    }
    try:
        modules: list[Extension] = cythonize(wanted, compiler_directives=directives)
    except CompileError as failure:
        print(f"The kernels stay plain Python, since this Cython cannot compile them: {failure}")
        return []
    for module in modules:
        module.optional = True
    return modules


setup(ext_modules=extensions())
