"""Adds the one thing that pyproject.toml cannot say: the record kernels, compiled where that is possible.

The extensions are optional. Without Cython or a C compiler the same files run as plain Python.
"""

from __future__ import annotations

from setuptools import Extension, setup

KERNELS = ("builder", "kernel", "keys", "reader")


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ImportError:
        return []
    kernels = [
        Extension(
            f"ottla.records.{name}",
            [f"src/ottla/records/{name}.py"],
            extra_compile_args=["-O3", "-g0", "-fwrapv"],
            optional=True,
        )
        for name in KERNELS
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
        modules: list[Extension] = cythonize(kernels, compiler_directives=directives)
    except CompileError as failure:
        print(f"The kernels stay plain Python, since this Cython cannot compile them: {failure}")
        return []
    for module in modules:
        module.optional = True
    return modules


setup(ext_modules=extensions())
