"""The form of the kernel: which one runs, installs without a compiler, and no reads past the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import ottla.records

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "OTTLA_KERNEL"}
    env |= {"PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_compiled_kernel_is_used_if_built(both_kernels: tuple[ModuleType, ModuleType]) -> None:
    compiled, plain = both_kernels
    assert ottla.records.is_compiled(compiled)
    assert not ottla.records.is_compiled(plain)
    code = "import ottla.records as r; print(r.KERNEL, r.is_compiled(r.kernel))"
    assert run(code).stdout.split() == ["compiled", "True"]


def test_each_module_with_a_compiled_form_is_compiled(both_kernels: tuple[ModuleType, ModuleType]) -> None:
    typed = [path for path in SOURCE.rglob("*.pxd") if not path.read_text().startswith("# Made from")]
    sources = [path.with_suffix(".py") for path in typed]
    names = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in sources if path.exists()}
    assert names == {*ottla.records.COMPILED}
    loaded = [import_module(name) for name in ottla.records.COMPILED]
    assert [module.__name__ for module in loaded if not ottla.records.is_compiled(module)] == []


def test_the_plain_kernel_runs_on_request_without_cython() -> None:
    code = (
        "import sys; sys.modules['cython'] = sys.modules['Cython'] = None\n"
        "import ottla.records as r, ottla.records.validate as v, ottla.records.kernel as k\n"
        "print(r.KERNEL, r.is_compiled(r.kernel), v.kernel is r.kernel is k)"
    )
    result = run(code, OTTLA_KERNEL="python")
    assert result.stdout.split() == ["python", "False", "True"], result.stderr


def test_on_request_no_module_of_a_node_or_client_is_compiled() -> None:
    code = (
        "import sys, importlib, ottla.server.node, ottla.client.producer.producer as _, ottla.client.admin\n"
        "import ottla.records as r\n"
        "for name in r.COMPILED: importlib.import_module(name)\n"
        "ours = {n: m for n, m in sys.modules.items() if n.startswith('ottla.')}\n"
        "compiled = [n for n, m in ours.items() if r.is_compiled(m)]\n"
        "print(len(ours) > 100, set(r.COMPILED) <= set(ours), compiled)"
    )
    result = run(code, OTTLA_KERNEL="python")
    assert result.stdout.split() == ["True", "True", "[]"], result.stderr


def test_an_install_without_a_c_compiler_uses_the_plain_kernel(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "README.md").write_text("for the build")
    skipped = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(SOURCE, tmp_path / "src", ignore=skipped)
    environment = os.environ | {"CC": "/bin/false", "CXX": "/bin/false"}
    result = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert not list((tmp_path / "src").rglob("*.so"))
    code = "import ottla.records as r; print(r.KERNEL, r.__file__)"
    found = run(code, PYTHONPATH=str(tmp_path / "src")).stdout.split()
    assert found == ["python", str(tmp_path / "src" / "ottla" / "records" / "__init__.py")]


GUARDED = """
# Every buffer ends where an unreadable page begins, so that one byte read too far ends this process.
import ctypes, mmap, random
from ottla.records import KERNEL, kernel
from ottla.records.columns import Columns
from ottla.records.reader import records_of
from ottla.wire.errors import CorruptMessage
from tests.unit.records.samples import batch_of
assert KERNEL == "compiled"
libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
area = mmap.mmap(-1, 2 * PAGE)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
assert libc.mprotect(ctypes.c_void_p(start + PAGE), PAGE, 0) == 0
source = random.Random(7)
header, sound = bytes(batch_of(6))[:61], bytes(batch_of(6))[61:]
walked = 0
read = 0
for _ in range(20_000):
    broken = bytearray(sound)
    for _ in range(source.choice((1, 2, 4))):
        at = source.randrange(len(broken))
        choice = source.random()
        if choice < 0.7:
            broken[at] = source.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, source.randrange(256)))
        elif len(broken) > 8:
            del broken[at : at + source.choice((1, 4))]
    broken = broken[: source.choice((len(broken), source.randrange(len(broken) + 1)))]
    view = memoryview((ctypes.c_ubyte * len(broken)).from_address(start + PAGE - len(broken))).cast("B")
    view[:] = broken
    count = source.choice((6, 6, 7, 2**31 - 1))
    walked += kernel.walk(view, 0, len(view), count, 0, 0, 5, 5, True, True)[0] == kernel.OK
    try:
        kernel.retain(view, kernel.spans(view, 0, len(view), count), 99)
    except ValueError:
        pass
    size, number = (49 + len(broken)).to_bytes(4, "big"), count.to_bytes(4, "big")
    whole = header[:8] + size + header[12:57] + number + broken
    view = memoryview((ctypes.c_ubyte * len(whole)).from_address(start + PAGE - len(whole))).cast("B")
    view[:] = whole
    try:
        read += len(records_of("t", 0, view, from_offset=0, check_crcs=False).take(9)) > 0
        records_of("t", 0, view, from_offset=0, check_crcs=False).fill(Columns(), 9)
    except CorruptMessage:
        pass
print("walked", walked, read)
"""


def test_the_compiled_kernel_reads_no_byte_past_the_end(both_kernels: tuple[ModuleType, ModuleType]) -> None:
    assert both_kernels
    if not hasattr(os, "fork"):
        pytest.skip("needs mprotect")
    result = run(GUARDED)
    assert result.returncode == 0, (result.returncode, result.stderr)
    assert all(int(count) > 0 for count in result.stdout.split()[1:])
