"""The kernel in both forms: a test with the fixture `kernel` runs on each of them."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

import ottla.records
from ottla.records import compression, record, validate

PLAIN = ottla.records.plain_kernel()


def compiled_kernel() -> ModuleType:
    """The compiled form. If there is a C compiler, a missing form is a build error, not a reason to skip."""
    if ottla.records.is_compiled(ottla.records.kernel):
        return ottla.records.kernel
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) or shutil.which("cc"):
        pytest.fail(
            "a C compiler is there but the kernel is not compiled: run `make setup`, unset OTTLA_KERNEL"
        )
    pytest.skip("no C compiler, so there is no compiled kernel")


@pytest.fixture(params=["compiled", "plain"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One form of the kernel, which all of ottla.records uses during the test."""
    form = compiled_kernel() if request.param == "compiled" else PLAIN
    monkeypatch.setattr(validate, "kernel", form)
    monkeypatch.setattr(record, "kernel", form)
    return form


@pytest.fixture
def both_kernels() -> tuple[ModuleType, ModuleType]:
    """(compiled, plain), for tests that compare them."""
    return compiled_kernel(), PLAIN


@pytest.fixture
def without_isal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], ModuleType]:
    """Load ottla.records.compression as on a machine without isal."""
    import importlib.util
    import sys

    def load() -> ModuleType:
        monkeypatch.setitem(sys.modules, "isal", None)
        spec = importlib.util.spec_from_file_location("compression_without_isal", compression.__file__)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def forms_of(name: str) -> Iterator[ModuleType]:
    """The compiled form of a module, if it exists, and the plain one."""
    compiled_kernel()
    yield ottla.records.load_kernel(name)
    yield ottla.records.plain_kernel(name)


@pytest.fixture(params=[0, 1], ids=["compiled", "plain"])
def builder(request: pytest.FixtureRequest) -> ModuleType:
    """One form of records/builder.py."""
    forms: list[ModuleType] = [*forms_of("builder")]
    return forms[int(request.param)]


@pytest.fixture(params=[0, 1], ids=["compiled", "plain"])
def reader(request: pytest.FixtureRequest) -> ModuleType:
    """One form of records/reader.py."""
    forms: list[ModuleType] = [*forms_of("reader")]
    return forms[int(request.param)]
