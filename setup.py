"""Adds the part that pyproject.toml cannot express: the compiled kernels.

A kernel is a module with a `.pxd` file, which declares C types for its names. The extensions are optional:
without Cython or a C compiler the same files run as plain Python. The modules in `INLINE` are not compiled:
their definitions are written as inline C functions into a `.pxd`, for the kernels that use them.
"""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src")
INLINE = (
    SOURCE / "ottla/records/big_endian.py",
    SOURCE / "ottla/records/key_hash.py",
    SOURCE / "ottla/records/varints.py",
)
C_TYPES = {
    "Bytes": "const unsigned char *",
    "Out": "unsigned char *",
    "Size": "Py_ssize_t",
    "Long": "long long",
    "Word": "unsigned long long",
    "int": "int",
}


def kernels() -> list[Path]:
    """The sources to compile. A `.pxd` without a module only has declarations."""
    types = sorted(SOURCE.rglob("*.pxd"))
    sources = [path.with_suffix(".py") for path in types]
    return [path for path in sources if path.exists() and path not in INLINE]


class Untyped(ast.NodeTransformer):
    """Removes the types of local variables from a function's body and stores them."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        assert node.value is not None
        self.types[ast.unparse(node.target)] = C_TYPES[ast.unparse(node.annotation)]
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def write_inline(path: Path) -> None:
    """Write the constants and functions of a module as inline C into the `.pxd` beside it."""
    lines = [f"# Made from {path.name} by setup.py: change that."]
    values = runpy.run_path(str(path))
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign):
            name, kind = ast.unparse(node.target), C_TYPES[ast.unparse(node.annotation)]
            number = f"(({kind}) {values[name] % 2**64:#x}ULL)"
            lines += ["", "cdef extern from *:", f'    """\n    #define {path.stem}{name} {number}\n    """']
            lines.append(f'    const {kind} {name} "{path.stem}{name}"')
        elif isinstance(node, ast.FunctionDef):
            untyped = Untyped()
            body = [ast.unparse(untyped.visit(one)) for one in node.body[1:]]  # skips the docstring
            typed = [
                f"{C_TYPES[ast.unparse(one.annotation)]} {one.arg}"
                for one in node.args.args
                if one.annotation
            ]
            assert node.returns is not None
            kind = C_TYPES[ast.unparse(node.returns)]
            lines += ["", f"cdef inline {kind} {node.name}({', '.join(typed)}) noexcept nogil:"]
            declared = [f"cdef {kind} {name}" for name, kind in untyped.types.items()]
            lines += ["    " + line for part in declared + body for line in part.splitlines()]
    target, text = path.with_suffix(".pxd"), "\n".join(lines) + "\n"
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ImportError:
        return []
    for path in INLINE:
        write_inline(path)
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
